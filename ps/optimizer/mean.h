/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mean -- the mean of contributions, in the order given. Knows types only.
 *
 *   s = g[0]; s += g[1]; ...               (factors NULL: no product is formed)
 *   s = f[0]*g[0]; s += f[1]*g[1]; ...     (otherwise; each product and each sum rounded)
 *   mean = s / divisor                     (a true division)
 *
 * Everything in the computing type: gradients are widened to it, factors and the divisor are rounded to it.
 */
#ifndef PS_OPTIMIZER_MEAN_H
#define PS_OPTIMIZER_MEAN_H

#include <stddef.h>

struct mean_sum {
    const void *const *gradients; /* [count], each at the element number 0 */
    const double *factors;        /* [count], NULL: all 1 */
    size_t count;                 /* >= 1 */
    double divisor;
    int dtype; /* of the gradients, enum number_dtype; never wider than the computing type */
};

/* mean_f32 -- the mean of the elements first .. first + n, any n. */
void mean_f32(const struct mean_sum *sum, size_t first, size_t n, float *out);
/* mean_f64 -- the same for a variable that is computed in f64. */
void mean_f64(const struct mean_sum *sum, size_t first, size_t n, double *out);

#endif
