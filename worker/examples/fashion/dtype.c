/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/dtype.h"

#include <stdint.h>
#include <string.h>

/* dtype_name -- as the command line and the result call it */
const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {[DTYPE_F32] = "f32", [DTYPE_F16] = "f16", [DTYPE_BF16] = "bf16"};
    return names[dtype];
}

/* dtype_bytes -- of an element */
size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* dtype_shift -- x / 2^places, rounded to nearest even; places from 1 to 31 */
static inline uint32_t dtype_shift(uint32_t x, unsigned places)
{
    uint32_t whole = x >> places, rest = x & ((1U << places) - 1), half = 1U << (places - 1);
    return whole + (rest > half || (rest == half && (whole & 1U) != 0));
}

/* dtype_to_f16 -- 5 bits of exponent, 10 of fraction. The exponents' biases are 15 and 127. */
static inline uint16_t dtype_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000U, rest = bits & 0x7fffffffU, exponent = rest >> 23;
    if (rest > 0x7f800000U)
        return (uint16_t)(sign | 0x7e00U | (rest >> 13 & 0x3ffU));
    if (exponent > 142)
        return (uint16_t)(sign | 0x7c00U); /* 2^16 and more */
    if (exponent > 112)
        return (uint16_t)(sign | dtype_shift(rest - (112U << 23), 13)); /* a carry may make it infinite */
    if (exponent < 102)
        return (uint16_t)sign; /* below half of the smallest */
    return (uint16_t)(sign | dtype_shift((rest & 0x7fffffU) | 0x800000U, 126 - exponent));
}

/* dtype_from_f16 -- exact */
static inline float dtype_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16, exponent = half >> 10 & 31U, fraction = half & 0x3ffU;
    uint32_t bits = sign | (exponent + 112) << 23 | fraction << 13;
    float value;
    if (exponent == 31)
        bits = sign | 0x7f800000U | fraction << 13;
    if (exponent == 0) {
        value = (float)fraction * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* dtype_to_bf16 -- the upper half of an f32 */
static inline uint16_t dtype_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return (uint16_t)(bits >> 16 | 0x40U); /* rounded, a NaN could become an infinity */
    return (uint16_t)dtype_shift(bits, 16);
}

/* dtype_from_bf16 -- exact */
static inline float dtype_from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* dtype_narrow -- round n numbers to nearest even */
void dtype_narrow(enum dtype dtype, const float *from, void *to, size_t n)
{
    uint16_t *halves = to;
    switch (dtype) {
    case DTYPE_F32: memcpy(to, from, n * sizeof *from); break;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            halves[i] = dtype_to_f16(from[i]);
        break;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            halves[i] = dtype_to_bf16(from[i]);
        break;
    }
}

/* dtype_widen -- n numbers as f32, exactly */
void dtype_widen(enum dtype dtype, const void *from, float *to, size_t n)
{
    const uint16_t *halves = from;
    switch (dtype) {
    case DTYPE_F32: memcpy(to, from, n * sizeof *to); break;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++)
            to[i] = dtype_from_f16(halves[i]);
        break;
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++)
            to[i] = dtype_from_bf16(halves[i]);
        break;
    }
}

/* dtype_round -- n numbers in place */
void dtype_round(enum dtype dtype, float *values, size_t n)
{
    if (dtype == DTYPE_F16)
        for (size_t i = 0; i < n; i++)
            values[i] = dtype_from_f16(dtype_to_f16(values[i]));
    if (dtype == DTYPE_BF16)
        for (size_t i = 0; i < n; i++)
            values[i] = dtype_from_bf16(dtype_to_bf16(values[i]));
}
