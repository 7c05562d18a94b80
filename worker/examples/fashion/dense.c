/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/dense.h"

#include "worker/examples/fashion/matrix.h"

/* dense_forward -- out: [images][out] */
void dense_forward(const struct dense *dense, size_t images, const float *in, const float *weights,
                   const float *bias, float *out)
{
    matrix_multiply(images, dense->out, dense->in, in, weights, out);
    for (size_t n = 0; n < images; n++, out += dense->out)
        for (size_t i = 0; i < dense->out; i++) {
            float value = out[i] + bias[i];
            out[i] = value > 0.0F || !dense->relu ? value : 0.0F;
        }
}

/* dense_cut -- with ReLU: silence the gradient where the output was cut */
void dense_cut(const struct dense *dense, size_t images, const float *out, float *out_gradient)
{
    if (!dense->relu)
        return;
    for (size_t i = 0; i < images * dense->out; i++)
        out_gradient[i] = out[i] > 0.0F ? out_gradient[i] : 0.0F;
}

/* dense_backward_bias -- the gradient of the bias */
void dense_backward_bias(const struct dense *dense, size_t images, const float *out_gradient,
                         float *bias_gradient)
{
    for (size_t i = 0; i < dense->out; i++)
        bias_gradient[i] = 0.0F;
    for (size_t n = 0; n < images; n++, out_gradient += dense->out)
        for (size_t i = 0; i < dense->out; i++)
            bias_gradient[i] += out_gradient[i];
}

/* dense_backward_weights -- the gradient of the weights */
void dense_backward_weights(const struct dense *dense, size_t images, const float *in,
                            const float *out_gradient, float *weights_gradient)
{
    matrix_multiply_left_transposed(dense->in, dense->out, images, in, out_gradient, 0.0F, weights_gradient);
}

/* dense_backward_input -- the gradient of the input */
void dense_backward_input(const struct dense *dense, size_t images, const float *weights,
                          const float *out_gradient, float *in_gradient)
{
    matrix_multiply_right_transposed(images, dense->in, dense->out, out_gradient, weights, in_gradient);
}
