/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel -- one fused pass over a span: sum in the order given, mean, optimizer. Knows types only.
 *
 *   s = g[0]; s += g[1]; ...               (all weights 1: no product is formed)
 *   s = w[0]*g[0]; s += w[1]*g[1]; ...     (otherwise; each product and sum rounded to f32)
 *   mean = s / divisor                     (a true division)
 *   sgd:       next = now - rate * mean
 *   momentum:  accum = momentum * accum + mean;  next = now - rate * accum      (TensorFlow 1.x, ApplyMomentum)
 *
 * The order of operations on an element is the same for every vector width, so the bits are.
 */
#ifndef PS_LANE_KERNEL_H
#define PS_LANE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct kernel_sum {
    const float *const *gradients; /* [count], each already at the span's first element */
    const float *weights;          /* [count], NULL: all 1 */
    size_t count;                  /* >= 1 */
    float divisor;
};

/* kernel_sgd -- next[i] = now[i] - rate * mean[i], for n elements. */
void kernel_sgd(const struct kernel_sum *sum, const float *now, float *next, float rate, size_t n);
/* kernel_momentum -- with the accumulator updated in place. */
void kernel_momentum(const struct kernel_sum *sum, const float *now, float *next, float *accum, float rate,
                     float momentum, size_t n);

#endif
