/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/mean.h"

/* mean_of -- see the header */
void mean_of(size_t count, size_t elements, const float *const *gradients, const float *factors,
             double divisor, float *mean)
{
    float by = (float)divisor;
    for (size_t i = 0; i < elements; i++) {
        float s = factors == NULL ? gradients[0][i] : factors[0] * gradients[0][i];
        for (size_t c = 1; c < count; c++) {
            float g = factors == NULL ? gradients[c][i] : factors[c] * gradients[c][i];
            s = s + g;
        }
        mean[i] = s / by;
    }
}
