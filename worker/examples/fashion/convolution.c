/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/convolution.h"

#include <stdlib.h>
#include <string.h>

#include "worker/examples/fashion/matrix.h"
#include "worker/examples/fashion/pooling.h"

enum { CONVOLUTION_CACHE_BYTES = 512 * 1024 }; /* half of a usual second-level cache */

/* convolution_init -- take the memory for batches of up to so many images */
int convolution_init(struct convolution *conv, size_t capacity, size_t side_in, size_t channels_in,
                     size_t kernel, size_t channels_out)
{
    size_t side_out = side_in - kernel + 1;
    size_t rows = side_out * side_out;
    size_t patch = kernel * kernel * channels_in;
    size_t chunk = CONVOLUTION_CACHE_BYTES / (rows * patch * sizeof(float));
    chunk = chunk < 1 ? 1 : chunk;
    *conv = (struct convolution){
        .side_in = side_in,
        .channels_in = channels_in,
        .kernel = kernel,
        .channels_out = channels_out,
        .side_out = side_out,
        .side_pooled = side_out / 2,
        .chunk = chunk,
        .unfolded = calloc(chunk * rows * patch, sizeof(float)),
        .unfolded_gradient = calloc(chunk * rows * patch, sizeof(float)),
        .plain = calloc(chunk * rows * channels_out, sizeof(float)),
        .choice = calloc(capacity * rows / 4 * channels_out, sizeof(int32_t)),
    };
    if (conv->unfolded == NULL || conv->unfolded_gradient == NULL || conv->plain == NULL ||
        conv->choice == NULL)
        return -1;
    return 0;
}

/* convolution_clear -- free the memory */
void convolution_clear(struct convolution *conv)
{
    free(conv->unfolded);
    free(conv->unfolded_gradient);
    free(conv->plain);
    free(conv->choice);
    *conv = (struct convolution){0};
}

/* convolution_copy -- a run of floats too short for memcpy to pay: four at a time, then the rest */
static inline void convolution_copy(float *to, const float *from, size_t run)
{
    size_t i = 0;
    for (; i + 4 <= run; i += 4)
        memcpy(to + i, from + i, 4 * sizeof *to);
    for (; i < run; i++)
        to[i] = from[i];
}

/* convolution_unfold -- one row per output place: the patch of the input it sees. A row of a patch
 * is one piece of memory, for channels lie innermost. */
static void convolution_unfold(const struct convolution *conv, size_t images, const float *in)
{
    size_t row = conv->side_in * conv->channels_in;
    size_t run = conv->kernel * conv->channels_in;
    float *to = conv->unfolded;
    for (size_t n = 0; n < images; n++, in += conv->side_in * row)
        for (size_t y = 0; y < conv->side_out; y++)
            for (size_t x = 0; x < conv->side_out; x++)
                for (size_t k = 0; k < conv->kernel; k++, to += run)
                    convolution_copy(to, in + (y + k) * row + x * conv->channels_in, run);
}

/* convolution_fold -- the reverse: every place of the input collects from all patches that saw it
 */
static void convolution_fold(const struct convolution *conv, size_t images, float *in_gradient)
{
    size_t row = conv->side_in * conv->channels_in;
    size_t run = conv->kernel * conv->channels_in;
    const float *from = conv->unfolded_gradient;
    memset(in_gradient, 0, images * conv->side_in * row * sizeof *in_gradient);
    for (size_t n = 0; n < images; n++, in_gradient += conv->side_in * row)
        for (size_t y = 0; y < conv->side_out; y++)
            for (size_t x = 0; x < conv->side_out; x++)
                for (size_t k = 0; k < conv->kernel; k++, from += run) {
                    float *restrict to = in_gradient + (y + k) * row + x * conv->channels_in;
                    for (size_t i = 0; i < run; i++)
                        to[i] += from[i];
                }
}

/* convolution_chunk -- how many images the chunk that begins at n has */
static size_t convolution_chunk(const struct convolution *conv, size_t images, size_t n)
{
    return images - n < conv->chunk ? images - n : conv->chunk;
}

/* convolution_forward -- out: [images][side_pooled][side_pooled][channels_out] */
void convolution_forward(struct convolution *conv, size_t images, const float *in, const float *weights,
                         const float *bias, float *out)
{
    size_t rows = conv->side_out * conv->side_out;
    size_t patch = conv->kernel * conv->kernel * conv->channels_in;
    size_t in_size = conv->side_in * conv->side_in * conv->channels_in;
    size_t out_size = conv->side_pooled * conv->side_pooled * conv->channels_out;
    for (size_t n = 0; n < images; n += conv->chunk) {
        size_t now = convolution_chunk(conv, images, n);
        convolution_unfold(conv, now, in + n * in_size);
        matrix_multiply(now * rows, conv->channels_out, patch, conv->unfolded, weights, conv->plain);
        pooling_forward(now, conv->side_out, conv->channels_out, conv->plain, bias, out + n * out_size,
                        conv->choice + n * out_size);
    }
}

/* convolution_backward_bias -- the gradient of the bias */
void convolution_backward_bias(const struct convolution *conv, size_t images, const float *out_gradient,
                               float *bias_gradient)
{
    pooling_bias(images, conv->side_out, conv->channels_out, out_gradient, conv->choice, bias_gradient);
}

/* convolution_backward -- the gradient of the weights, and of the input unless in_gradient is NULL
 */
void convolution_backward(struct convolution *conv, size_t images, const float *in, const float *weights,
                          const float *out_gradient, float *weights_gradient, float *in_gradient)
{
    size_t rows = conv->side_out * conv->side_out;
    size_t patch = conv->kernel * conv->kernel * conv->channels_in;
    size_t in_size = conv->side_in * conv->side_in * conv->channels_in;
    size_t out_size = conv->side_pooled * conv->side_pooled * conv->channels_out;
    for (size_t n = 0; n < images; n += conv->chunk) {
        size_t now = convolution_chunk(conv, images, n);
        pooling_backward(now, conv->side_out, conv->channels_out, out_gradient + n * out_size,
                         conv->choice + n * out_size, conv->plain);
        /* Unfolding again is cheaper than keeping a batch of it: it would not stay in the cache. */
        convolution_unfold(conv, now, in + n * in_size);
        matrix_multiply_left_transposed(patch, conv->channels_out, now * rows, conv->unfolded, conv->plain,
                                        n > 0 ? 1.0F : 0.0F, weights_gradient);
        if (in_gradient == NULL)
            continue;
        matrix_multiply_right_transposed(now * rows, patch, conv->channels_out, conv->plain, weights,
                                         conv->unfolded_gradient);
        convolution_fold(conv, now, in_gradient + n * in_size);
    }
}
