/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/dataset.h"

#include <limits.h>
#include <stdio.h>

/* dataset_split_read -- read images and labels with one prefix, and check that they belong together
 */
static int dataset_split_read(const char *folder, const char *prefix, struct dataset_split *out,
                              struct fault *fault)
{
    char images[PATH_MAX];
    char labels[PATH_MAX];
    int a = snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte.gz", folder, prefix);
    int b = snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte.gz", folder, prefix);
    if (a < 0 || b < 0 || (size_t)a >= sizeof images || (size_t)b >= sizeof labels)
        return fault_set(fault, FAULT_USAGE, "the folder given with --data is too long a name: shorten it");
    if (idx_read(images, 3, &out->images, fault) < 0 || idx_read(labels, 1, &out->labels, fault) < 0)
        return -1;
    if (out->images.dims[1] != DATASET_SIDE || out->images.dims[2] != DATASET_SIDE)
        return fault_set(fault, FAULT_PERMANENT,
                         "%s has images of %zu x %zu where the network takes %d x %d: name the folder of "
                         "Fashion-MNIST with --data DIR",
                         images, out->images.dims[1], out->images.dims[2], DATASET_SIDE, DATASET_SIDE);
    if (out->images.dims[0] != out->labels.dims[0])
        return fault_set(fault, FAULT_PERMANENT,
                         "%s has %zu images but %s has %zu labels: name a folder whose files are of one data "
                         "set with --data DIR",
                         images, out->images.dims[0], labels, out->labels.dims[0]);
    for (size_t i = 0; i < out->labels.dims[0]; i++)
        if (out->labels.bytes[i] >= DATASET_CLASSES)
            return fault_set(fault, FAULT_PERMANENT,
                             "%s has label %u at %zu where labels end at %d: name the folder of "
                             "Fashion-MNIST with --data DIR",
                             labels, out->labels.bytes[i], i, DATASET_CLASSES - 1);
    out->count = out->images.dims[0];
    return 0;
}

/* dataset_read -- read the four files of a folder; limit = use only the first so many training
 * images, 0 = all */
int dataset_read(const char *folder, size_t limit, struct dataset *out, struct fault *fault)
{
    struct dataset dataset = {0};
    if (dataset_split_read(folder, "train", &dataset.train, fault) < 0 ||
        dataset_split_read(folder, "t10k", &dataset.test, fault) < 0)
        goto clear;
    if (limit > dataset.train.count) {
        fault_set(fault, FAULT_USAGE, "--images %zu is more than the %zu training images of %s: give fewer",
                  limit, dataset.train.count, folder);
        goto clear;
    }
    if (limit > 0)
        dataset.train.count = limit;
    *out = dataset;
    return 0;

clear:
    dataset_clear(&dataset);
    return -1;
}

/* dataset_image -- the pixels of one image, row-major */
const uint8_t *dataset_image(const struct dataset_split *split, size_t index)
{
    return split->images.bytes + index * DATASET_PIXELS;
}

/* dataset_label -- the class of one image */
unsigned dataset_label(const struct dataset_split *split, size_t index)
{
    return split->labels.bytes[index];
}

/* dataset_clear -- free everything; safe on a zeroed struct */
void dataset_clear(struct dataset *dataset)
{
    idx_clear(&dataset->train.images);
    idx_clear(&dataset->train.labels);
    idx_clear(&dataset->test.images);
    idx_clear(&dataset->test.labels);
    *dataset = (struct dataset){0};
}
