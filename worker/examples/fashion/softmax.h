/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax with cross entropy: what the network is judged by. */
#ifndef FASHION_SOFTMAX_H
#define FASHION_SOFTMAX_H

#include <stddef.h>
#include <stdint.h>

/* softmax_score -- sum of the losses of a batch, and how many labels had the highest score */
struct softmax_score {
    double loss;
    size_t right;
};

/* softmax_judge -- the score of a batch; gradient, unless NULL, gets that of the mean loss by the
 * scores */
struct softmax_score softmax_judge(size_t images, size_t classes, const float *scores, const uint8_t *labels,
                                   float *gradient);

#endif
