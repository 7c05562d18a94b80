/* SPDX-License-Identifier: BSD-3-Clause */
/* A layer in which every output sees every input: out = in * weights + bias, with ReLU or without.
 * Layout of weights: [in][out]. */
#ifndef FASHION_DENSE_H
#define FASHION_DENSE_H

#include <stdbool.h>
#include <stddef.h>

struct dense {
    size_t in;
    size_t out;
    bool relu;
};

/* dense_forward -- out: [images][out] */
void dense_forward(const struct dense *dense, size_t images, const float *in, const float *weights,
                   const float *bias, float *out);

/* dense_cut -- with ReLU: silence the gradient where the output was cut; done once, before the two
 * below */
void dense_cut(const struct dense *dense, size_t images, const float *out, float *out_gradient);

/* dense_backward_bias -- the gradient of the bias */
void dense_backward_bias(const struct dense *dense, size_t images, const float *out_gradient,
                         float *bias_gradient);

/* dense_backward_weights -- the gradient of the weights */
void dense_backward_weights(const struct dense *dense, size_t images, const float *in,
                            const float *out_gradient, float *weights_gradient);

/* dense_backward_input -- the gradient of the input */
void dense_backward_input(const struct dense *dense, size_t images, const float *weights,
                          const float *out_gradient, float *in_gradient);

#endif
