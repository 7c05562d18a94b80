/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * number -- arrays of the four types that values and gradients have. Knows types only.
 *
 * Every array is aligned to its elements. Bits never depend on the width of a vector register.
 */
#ifndef PS_OPTIMIZER_NUMBER_H
#define PS_OPTIMIZER_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* The numbers of enum stepgate_dtype. */
enum number_dtype { NUMBER_F32 = 1, NUMBER_F64 = 2, NUMBER_F16 = 3, NUMBER_BF16 = 4 };

#define NUMBER_NORM_MAX 4096 /* elements of one number_norm */

/*
 * number_rounded_f32 -- a double, rounded to f32. Not (double)(float)value: gcc 12 leaves out that rounding where it makes vectors of it. What goes
 * through a volatile object is rounded.
 */
static inline double number_rounded_f32(double value)
{
    volatile float rounded = (float)value;

    return (double)rounded;
}

/* number_bytes -- of one element; 0 for a type that there is not. */
size_t number_bytes(int dtype);
/* number_widen_f32 -- n elements as f32: exact, except that f64 is rounded to nearest even. NaN becomes a quiet NaN. */
void number_widen_f32(int dtype, const void *from, float *to, size_t n);
/* number_widen_f64 -- n elements as f64: exact. */
void number_widen_f64(int dtype, const void *from, double *to, size_t n);
/* number_narrow_f32 -- rounds to nearest even; too large becomes an infinity, too small a denormal or zero, NaN a quiet NaN. */
void number_narrow_f32(int dtype, const float *from, void *to, size_t n);
/* number_all_finite -- no infinity and no NaN among n elements. */
bool number_all_finite(int dtype, const void *p, size_t n);
/*
 * number_norm -- the sum of squares of n <= NUMBER_NORM_MAX elements in double, always in the same order: element i is added to partial
 * sum i mod 8, and the eight are added as a tree. Whoever cuts an array at multiples of NUMBER_NORM_MAX from its first element and adds the
 * pieces exactly (exact.h) gets the same bits however the pieces are shared out.
 */
double number_norm(int dtype, const void *p, size_t n);

#endif
