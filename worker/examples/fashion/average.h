/* SPDX-License-Identifier: BSD-3-Clause */
/* The moving average of a variable, as TensorFlow's ExponentialMovingAverage keeps it with num_updates:
 * average -= (1 - d)*(average - v) with d = min(decay, (1 + n)/(10 + n)), n the number of the step from 1. */
#ifndef FASHION_AVERAGE_H
#define FASHION_AVERAGE_H

#include <stddef.h>
#include <stdint.h>

/* average_rate -- 1 - d after a step (from 0): in double, rounded to f32 once */
float average_rate(double decay, uint64_t step);

/* average_apply -- of n elements, in f32 */
void average_apply(float rate, const float *v, float *average, size_t n);

#endif
