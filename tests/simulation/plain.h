/* SPDX-License-Identifier: BSD-3-Clause */
/* plain -- numbers of the four types, one at a time, as doubles. Slow, and shares nothing with what the ps computes with. */
#ifndef TESTS_SIMULATION_PLAIN_H
#define TESTS_SIMULATION_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/optimizer/number.h"

#define PLAIN_BLOCK 4096u /* elements whose squares are added together */

/* plain_bytes -- of an element of a dtype (enum stepgate_dtype). */
size_t plain_bytes(int dtype);
/* plain_get -- element i of an array, which may be aligned to nothing. */
double plain_get(int dtype, const void *array, uint64_t i);
/* plain_put -- rounds to nearest even. A value for a 16-bit type is one that f32 holds. */
void plain_put(int dtype, void *array, uint64_t i, double value);
/* plain_round -- the result of one operation on f32 (not wide) or f64. Of operands that f32 holds, a sum, product, quotient or root that was
 * rounded to f64 first is rounded to the same f32. */
static inline double plain_round(bool wide, double value)
{
    return wide ? value : number_rounded_f32(value);
}
/* plain_norm -- the squares of at most PLAIN_BLOCK numbers: eight sums, one for each residue of the place, then a tree. */
double plain_norm(const double *numbers, uint64_t count);
/* plain_equal -- the same bits; every NaN is like any other. */
bool plain_equal(int dtype, const void *a, const void *b, uint64_t count);

/* A sum of finite doubles without rounding, as numbers that do not overlap (Shewchuk), rising. */
struct plain_sum {
    double parts[64];
    int count;
    bool bad; /* something that is not finite was added */
};
void plain_sum_add(struct plain_sum *sum, double value);
/* plain_sum_round -- rounded once; NaN if anything was not finite. */
double plain_sum_round(const struct plain_sum *sum);

#endif
