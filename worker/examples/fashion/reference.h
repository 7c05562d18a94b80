/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference: strict mode's arithmetic, written down as plainly as it can be. Whatever stepgate
 * does with any number of ps, over any transport, must end with these bits. */
#ifndef FASHION_REFERENCE_H
#define FASHION_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/exchange.h"

/* reference_mean -- the mean of the parts' gradients, element by element, all in f32, in rank
 * order:
 *
 *     all weights 1:  s = g[0];         s = s + g[1];         ...  mean = s / (float)parts
 *     otherwise:      s = w[0] * g[0];  s = s + w[1] * g[1];  ...  mean = s / (float)(w[0] + w[1] +
 * ...)
 *
 * Each product and each sum is rounded to f32 by itself, and the division is a true division. */
void reference_mean(size_t parts, size_t elements, const float *const *gradients, const uint32_t *weights,
                    float *mean);

/* reference_sgd -- var = var - rate * g */
void reference_sgd(size_t elements, float rate, const float *gradient, float *value);

/* reference_momentum -- accum = momentum * accum + g; var = var - rate * accum, as TensorFlow's
 * ApplyMomentum */
void reference_momentum(size_t elements, float rate, float momentum, const float *gradient, float *accum,
                        float *value);

/* reference_new -- an exchange of one process that computes all parts; NULL with the fault set */
struct exchange *reference_new(const struct exchange_recipe *recipe, unsigned parts, struct fault *fault);

#endif
