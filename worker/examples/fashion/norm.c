/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/norm.h"

#include <math.h>

/* norm_block -- the sum of the squares of n <= NORM_BLOCK elements */
double norm_block(const float *values, size_t n)
{
    double p[8] = {0};
    for (size_t i = 0; i < n; i++)
        p[i % 8] += (double)values[i] * (double)values[i];
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

/* norm_plain -- of a variable: the sums of its blocks, added one after the other */
double norm_plain(const float *values, size_t n)
{
    double sum = 0.0;
    for (size_t first = 0; first < n; first += NORM_BLOCK)
        sum += norm_block(values + first, n - first < NORM_BLOCK ? n - first : NORM_BLOCK);
    return sum;
}

/* norm_exact -- adds the sums of a variable's blocks to an exact sum */
void norm_exact(struct fsum *sum, const float *values, size_t n)
{
    for (size_t first = 0; first < n; first += NORM_BLOCK)
        fsum_add(sum, norm_block(values + first, n - first < NORM_BLOCK ? n - first : NORM_BLOCK));
}

/* norm_scale -- what to multiply by where the root of a sum of squares is above limit; 1 elsewhere */
double norm_scale(double squares, double limit)
{
    double norm = sqrt(squares);
    return norm > limit ? limit / norm : 1.0;
}
