/* SPDX-License-Identifier: BSD-3-Clause */
/* Four numbers at a time, for the loops that compilers leave scalar: a comparison of floats may
 * trap, so by default gcc makes branches of those. The results are those of the plain loop, number
 * by number. */
#ifndef FASHION_VECTOR_H
#define FASHION_VECTOR_H

#include <stdint.h>
#include <string.h>

enum { VECTOR_LANES = 4 };

typedef float vector_f32 __attribute__((vector_size(16)));
typedef int32_t vector_i32
    __attribute__((vector_size(16))); /* as the result of a comparison: -1 true, 0 false */

/* vector_load -- from any address of a float */
static inline vector_f32 vector_load(const float *from)
{
    vector_f32 value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* vector_load_i32 -- from any address of an integer */
static inline vector_i32 vector_load_i32(const int32_t *from)
{
    vector_i32 value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* vector_store -- to any address of a float */
static inline void vector_store(float *to, vector_f32 value)
{
    memcpy(to, &value, sizeof value);
}

/* vector_store_i32 -- to any address of an integer */
static inline void vector_store_i32(int32_t *to, vector_i32 value)
{
    memcpy(to, &value, sizeof value);
}

/* vector_keep -- value where the mask is true, 0 elsewhere */
static inline vector_f32 vector_keep(vector_i32 mask, vector_f32 value)
{
    return (vector_f32)(mask & (vector_i32)value);
}

/* vector_select_i32 -- a where the mask is true, b elsewhere */
static inline vector_i32 vector_select_i32(vector_i32 mask, vector_i32 a, vector_i32 b)
{
    return (mask & a) | (~mask & b);
}

/* vector_select -- a where the mask is true, b elsewhere */
static inline vector_f32 vector_select(vector_i32 mask, vector_f32 a, vector_f32 b)
{
    return (vector_f32)vector_select_i32(mask, (vector_i32)a, (vector_i32)b);
}

/* vector_all_i32 -- the same number four times */
static inline vector_i32 vector_all_i32(int32_t value)
{
    return (vector_i32){value, value, value, value};
}

#endif
