/* SPDX-License-Identifier: BSD-3-Clause */
/* The types that parameters and gradients can have. The network computes in f32 whatever they are. */
#ifndef FASHION_DTYPE_H
#define FASHION_DTYPE_H

#include <stddef.h>

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16 };

/* dtype_name -- as the command line and the result call it */
const char *dtype_name(enum dtype dtype);

/* dtype_bytes -- of an element */
size_t dtype_bytes(enum dtype dtype);

/* dtype_narrow -- round n numbers to nearest, to even where two are as near; f32 is copied. Too large
 * becomes an infinity, too small a denormal number or zero. */
void dtype_narrow(enum dtype dtype, const float *from, void *to, size_t n);

/* dtype_widen -- n numbers as f32, exactly */
void dtype_widen(enum dtype dtype, const void *from, float *to, size_t n);

/* dtype_round -- n numbers in place: narrow and widen again */
void dtype_round(enum dtype dtype, float *values, size_t n);

#endif
