/* SPDX-License-Identifier: BSD-3-Clause */
/* How long gradients are: the sums of squares that clipping by a norm is decided by, in double.
 *
 * A variable is cut into blocks of NORM_BLOCK elements. In a block, the square of element i is added
 * to partial sum i mod 8, and the partial sums are added as
 * ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7)). */
#ifndef FASHION_NORM_H
#define FASHION_NORM_H

#include <stddef.h>

#include "worker/examples/fashion/fsum.h"

enum { NORM_BLOCK = 4096 };

/* norm_block -- the sum of the squares of n <= NORM_BLOCK elements */
double norm_block(const float *values, size_t n);

/* norm_plain -- of a variable: the sums of its blocks, added one after the other */
double norm_plain(const float *values, size_t n);

/* norm_exact -- adds the sums of a variable's blocks to an exact sum */
void norm_exact(struct fsum *sum, const float *values, size_t n);

/* norm_scale -- what to multiply by where the root of a sum of squares is above limit; 1 elsewhere */
double norm_scale(double squares, double limit);

#endif
