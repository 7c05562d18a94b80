/* SPDX-License-Identifier: BSD-3-Clause */
/* The mean of gradients, element by element, all in f32, in the order given:
 *
 *     all factors 1:  s = g[0];         s = s + g[1];         ...  mean = s / (float)divisor
 *     otherwise:      s = f[0] * g[0];  s = s + f[1] * g[1];  ...  mean = s / (float)divisor
 *
 * Each product and each sum is rounded to f32 by itself, and the division is a true division. */
#ifndef FASHION_MEAN_H
#define FASHION_MEAN_H

#include <stddef.h>

/* mean_of -- of at least one gradient; factors NULL: all are 1. The divisor is the sum of the
 * gradients' weights. */
void mean_of(size_t count, size_t elements, const float *const *gradients, const float *factors,
             double divisor, float *mean);

#endif
