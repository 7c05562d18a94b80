/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/pooling.h"

#include "worker/examples/fashion/vector.h"

enum { POOLING_CUT = 4 };

/* pooling_cell -- one output place, all channels */
static void pooling_cell(size_t channels, const float *top, const float *bottom, const float *bias,
                         float *out, int32_t *choice)
{
    const vector_f32 zero = {0.0F, 0.0F, 0.0F, 0.0F};
    for (size_t c = 0; c < channels; c += VECTOR_LANES) {
        vector_f32 in0 = vector_load(top + c);
        vector_f32 in1 = vector_load(top + channels + c);
        vector_f32 in2 = vector_load(bottom + c);
        vector_f32 in3 = vector_load(bottom + channels + c);
        vector_i32 right_on_top = in1 > in0;
        vector_i32 right_below = in3 > in2;
        vector_f32 best_on_top = vector_select(right_on_top, in1, in0);
        vector_f32 best_below = vector_select(right_below, in3, in2);
        vector_i32 below = best_below > best_on_top;
        vector_f32 best = vector_select(below, best_below, best_on_top) + vector_load(bias + c);
        vector_i32 which = vector_select_i32(below, 2 - right_below, 0 - right_on_top);
        vector_i32 passed = best > zero;
        vector_store_i32(choice + c, vector_select_i32(passed, which, vector_all_i32(POOLING_CUT)));
        vector_store(out + c, vector_keep(passed, best));
    }
}

/* pooling_forward -- from side x side to side/2 x side/2 */
void pooling_forward(size_t images, size_t side, size_t channels, const float *in, const float *bias,
                     float *out, int32_t *choice)
{
    size_t row = side * channels;
    /* Rows of all images follow each other and side is even, so pairs of rows never straddle two
     * images. */
    for (size_t pair = 0; pair < images * side / 2; pair++, in += 2 * row)
        for (size_t x = 0; x < side / 2; x++, out += channels, choice += channels)
            pooling_cell(channels, in + 2 * x * channels, in + row + 2 * x * channels, bias, out, choice);
}

/* pooling_cell_spread -- the gradient of one output place to its four inputs */
static void pooling_cell_spread(size_t channels, const float *out, const int32_t *choice, float *top,
                                float *bottom)
{
    for (size_t c = 0; c < channels; c += VECTOR_LANES) {
        vector_f32 gradient = vector_load(out + c);
        vector_i32 which = vector_load_i32(choice + c);
        vector_store(top + c, vector_keep(which == vector_all_i32(0), gradient));
        vector_store(top + channels + c, vector_keep(which == vector_all_i32(1), gradient));
        vector_store(bottom + c, vector_keep(which == vector_all_i32(2), gradient));
        vector_store(bottom + channels + c, vector_keep(which == vector_all_i32(3), gradient));
    }
}

/* pooling_backward -- the gradient goes to the winner alone; writes all of in_gradient */
void pooling_backward(size_t images, size_t side, size_t channels, const float *out_gradient,
                      const int32_t *choice, float *in_gradient)
{
    size_t row = side * channels;
    for (size_t pair = 0; pair < images * side / 2; pair++, in_gradient += 2 * row)
        for (size_t x = 0; x < side / 2; x++, out_gradient += channels, choice += channels)
            pooling_cell_spread(channels, out_gradient, choice, in_gradient + 2 * x * channels,
                                in_gradient + row + 2 * x * channels);
}

/* pooling_bias -- the gradient of the bias: what passed the ReLU, summed over images and places */
void pooling_bias(size_t images, size_t side, size_t channels, const float *out_gradient,
                  const int32_t *choice, float *bias_gradient)
{
    for (size_t c = 0; c < channels; c++)
        bias_gradient[c] = 0.0F;
    for (size_t i = 0; i < images * (side / 2) * (side / 2);
         i++, out_gradient += channels, choice += channels)
        for (size_t c = 0; c < channels; c += VECTOR_LANES) {
            vector_i32 passed = vector_load_i32(choice + c) != vector_all_i32(POOLING_CUT);
            vector_f32 sum =
                vector_load(bias_gradient + c) + vector_keep(passed, vector_load(out_gradient + c));
            vector_store(bias_gradient + c, sum);
        }
}
