/* SPDX-License-Identifier: BSD-3-Clause */
/* What follows each convolution, in one pass: bias, maximum over 2 x 2, and ReLU. Adding the bias
 * and clamping at zero commute with the maximum, so both are done on a quarter of the values.
 * Layout: [image][row][column][channel]; channels are a multiple of four, sides are even. */
#ifndef FASHION_POOLING_H
#define FASHION_POOLING_H

#include <stddef.h>
#include <stdint.h>

/* pooling_forward -- from side x side to side/2 x side/2; choice keeps which of the four won, or 4
 * where ReLU cut */
void pooling_forward(size_t images, size_t side, size_t channels, const float *in, const float *bias,
                     float *out, int32_t *choice);

/* pooling_backward -- the gradient goes to the winner alone; writes all of in_gradient */
void pooling_backward(size_t images, size_t side, size_t channels, const float *out_gradient,
                      const int32_t *choice, float *in_gradient);

/* pooling_bias -- the gradient of the bias: what passed the ReLU, summed over images and places */
void pooling_bias(size_t images, size_t side, size_t channels, const float *out_gradient,
                  const int32_t *choice, float *bias_gradient);

#endif
