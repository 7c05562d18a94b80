/* SPDX-License-Identifier: BSD-3-Clause */
/* The images and labels the trainer learns from and is tested with. */
#ifndef FASHION_DATASET_H
#define FASHION_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/idx.h"

enum { DATASET_SIDE = 28, DATASET_PIXELS = DATASET_SIDE * DATASET_SIDE, DATASET_CLASSES = 10 };

/* dataset_split -- images and their labels, equally many */
struct dataset_split {
    struct idx images;
    struct idx labels;
    size_t count;
};

struct dataset {
    struct dataset_split train;
    struct dataset_split test;
};

/* dataset_read -- read the four files of a folder; limit = use only the first so many training
 * images, 0 = all */
int dataset_read(const char *folder, size_t limit, struct dataset *out, struct fault *fault);

/* dataset_image -- the pixels of one image, row-major */
const uint8_t *dataset_image(const struct dataset_split *split, size_t index);

/* dataset_label -- the class of one image */
unsigned dataset_label(const struct dataset_split *split, size_t index);

/* dataset_clear -- free everything; safe on a zeroed struct */
void dataset_clear(struct dataset *dataset);

#endif
