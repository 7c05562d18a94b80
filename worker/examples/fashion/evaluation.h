/* SPDX-License-Identifier: BSD-3-Clause */
/* How good a set of parameters is, on images it is not being trained on or on those it is. */
#ifndef FASHION_EVALUATION_H
#define FASHION_EVALUATION_H

#include <stddef.h>

#include "worker/examples/fashion/dataset.h"
#include "worker/examples/fashion/network.h"

enum { EVALUATION_BATCH = 100 };

/* evaluation_result -- over the images judged */
struct evaluation_result {
    double loss; /* mean */
    double accuracy;
};

/* evaluation_run -- judge the first so many images of a split; the network must hold
 * EVALUATION_BATCH images. Negative what traffic gave. */
int evaluation_run(struct network *network, const struct dataset_split *split, size_t count,
                   const struct network_traffic *traffic, struct evaluation_result *out);

#endif
