/* SPDX-License-Identifier: BSD-3-Clause */
/* A convolution without padding, followed by bias, 2 x 2 maximum and ReLU. Layout of images:
 * [image][row][column][channel]; of weights: [kernel row][kernel column][channel in][channel out].
 */
#ifndef FASHION_CONVOLUTION_H
#define FASHION_CONVOLUTION_H

#include <stddef.h>
#include <stdint.h>

struct convolution {
    size_t side_in;
    size_t channels_in;
    size_t kernel;
    size_t channels_out;
    size_t side_out;    /* side_in - kernel + 1, even */
    size_t side_pooled; /* side_out / 2 */
    size_t chunk;       /* images worked on at once, so that what is unfolded stays in the cache */
    float *unfolded;    /* [chunk x side_out x side_out][kernel x kernel x channels_in] */
    float *unfolded_gradient;
    float *plain;    /* [chunk x side_out x side_out][channels_out] */
    int32_t *choice; /* of all images of the batch, kept for backward */
};

/* convolution_init -- take the memory for batches of up to so many images; -1 without memory (then
 * clear) */
int convolution_init(struct convolution *conv, size_t capacity, size_t side_in, size_t channels_in,
                     size_t kernel, size_t channels_out);

/* convolution_clear -- free the memory */
void convolution_clear(struct convolution *conv);

/* convolution_forward -- out: [images][side_pooled][side_pooled][channels_out] */
void convolution_forward(struct convolution *conv, size_t images, const float *in, const float *weights,
                         const float *bias, float *out);

/* convolution_backward_bias -- the gradient of the bias */
void convolution_backward_bias(const struct convolution *conv, size_t images, const float *out_gradient,
                               float *bias_gradient);

/* convolution_backward -- the gradient of the weights, and of the input unless in_gradient is NULL
 */
void convolution_backward(struct convolution *conv, size_t images, const float *in, const float *weights,
                          const float *out_gradient, float *weights_gradient, float *in_gradient);

#endif
