/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/average.h"

/* average_rate -- 1 - d after a step (from 0) */
float average_rate(double decay, uint64_t step)
{
    double n = (double)step + 1.0;
    double early = (1.0 + n) / (10.0 + n);
    return (float)(1.0 - (early < decay ? early : decay));
}

/* average_apply -- of n elements, in f32 */
void average_apply(float rate, const float *v, float *average, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float apart = average[i] - v[i];
        float change = rate * apart;
        average[i] = average[i] - change;
    }
}
