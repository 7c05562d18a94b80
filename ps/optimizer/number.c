/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/number.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define NUMBER_BLOCK 256  /* elements that are widened at a time, on the stack */
#define NUMBER_PARTIALS 8 /* of a norm; changing it changes bits */

/* number_bits -- of a float. */
static inline uint32_t number_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* number_float -- of its bits. */
static inline float number_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* number_bytes -- see the header. */
size_t number_bytes(int dtype)
{
    switch (dtype) {
    case NUMBER_F32: return 4;
    case NUMBER_F64: return 8;
    case NUMBER_F16:
    case NUMBER_BF16: return 2;
    default: return 0;
    }
}

/* number_from_f16 -- by selections instead of branches, so that the loop over it can be vectorised. */
static inline float number_from_f16(uint16_t from)
{
    uint32_t sign = (uint32_t)(from & 0x8000u) << 16, rest = from & 0x7fffu;
    uint32_t normal = (rest << 13) + (112u << 23); /* the biases are 15 and 127 */
    uint32_t special = (normal + (112u << 23)) | (rest > 0x7c00u ? 0x400000u : 0);
    /* A denormal is a count of 2^-24; made from the integer, it does not meet a mode that flushes denormals. */
    uint32_t denormal = number_bits((float)(int32_t)rest * 0x1p-24f);
    uint32_t bits = rest >= 0x7c00u ? special : normal;

    return number_float(sign | (rest < 0x400u ? denormal : bits));
}

/* number_to_f16 -- rounds to nearest even. */
static inline uint16_t number_to_f16(float from)
{
    uint32_t bits = number_bits(from), rest = bits & 0x7fffffffu;
    uint32_t odd = (rest >> 13) & 1u;
    uint32_t normal =
        (rest - (112u << 23) + 0xfffu + odd) >> 13; /* a carry into the exponent is right, up to infinity */
    /* The last place of 0.5 is a denormal's unit: the addition rounds as it has to. */
    uint32_t denormal = number_bits(number_float(rest) + 0.5f) - number_bits(0.5f);
    uint32_t nan = 0x7e00u | ((rest >> 13) & 0x3ffu);
    uint32_t half = rest < 0x38800000u ? denormal : normal;

    half = rest >= 0x47800000u ? 0x7c00u : half;
    half = rest > 0x7f800000u ? nan : half;
    return (uint16_t)((bits >> 16 & 0x8000u) | half);
}

/* number_from_bf16 -- the upper half of a float. */
static inline float number_from_bf16(uint16_t from)
{
    uint32_t bits = (uint32_t)from << 16;

    return number_float((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits);
}

/* number_to_bf16 -- rounds to nearest even. */
static inline uint16_t number_to_bf16(float from)
{
    uint32_t bits = number_bits(from);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;

    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

/* number_widen_f16 -- the loop alone. */
static void number_widen_f16(const uint16_t *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = number_from_f16(from[i]);
}

/* number_widen_bf16 -- the loop alone. */
static void number_widen_bf16(const uint16_t *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = number_from_bf16(from[i]);
}

/* number_quiet_f32 -- copies; x + 0 would lose the sign of -0, so the bit is set by hand. */
static void number_quiet_f32(const float *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = number_bits(from[i]);
        to[i] = number_float((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits);
    }
}

/* number_widen_f32 -- see the header. */
void number_widen_f32(int dtype, const void *from, float *to, size_t n)
{
    const double *doubles = from;

    switch (dtype) {
    case NUMBER_F32: number_quiet_f32(from, to, n); break;
    case NUMBER_F16: number_widen_f16(from, to, n); break;
    case NUMBER_BF16: number_widen_bf16(from, to, n); break;
    case NUMBER_F64:
        for (size_t i = 0; i < n; i++)
            to[i] = (float)doubles[i];
        break;
    default: assert(!"a dtype");
    }
}

/* number_widen_f64 -- see the header. */
void number_widen_f64(int dtype, const void *from, double *to, size_t n)
{
    const double *doubles = from;
    const unsigned char *bytes = from;
    float block[NUMBER_BLOCK];

    if (dtype == NUMBER_F64) {
        for (size_t i = 0; i < n; i++) {
            uint64_t bits;
            memcpy(&bits, &doubles[i], sizeof(bits));
            if ((bits & INT64_MAX) > UINT64_C(0x7ff0000000000000))
                bits |= UINT64_C(0x8000000000000);
            memcpy(&to[i], &bits, sizeof(bits));
        }
        return;
    }
    for (size_t first = 0; first < n; first += NUMBER_BLOCK) {
        size_t m = n - first < NUMBER_BLOCK ? n - first : NUMBER_BLOCK;
        number_widen_f32(dtype, bytes + first * number_bytes(dtype), block, m);
        for (size_t i = 0; i < m; i++)
            to[first + i] = (double)block[i];
    }
}

/* number_narrow_f16 -- the loop alone. */
static void number_narrow_f16(const float *restrict from, uint16_t *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = number_to_f16(from[i]);
}

/* number_narrow_bf16 -- the loop alone. */
static void number_narrow_bf16(const float *restrict from, uint16_t *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = number_to_bf16(from[i]);
}

/* number_narrow_f32 -- see the header. */
void number_narrow_f32(int dtype, const float *from, void *to, size_t n)
{
    switch (dtype) {
    case NUMBER_F32: number_quiet_f32(from, to, n); break;
    case NUMBER_F16: number_narrow_f16(from, to, n); break;
    case NUMBER_BF16: number_narrow_bf16(from, to, n); break;
    case NUMBER_F64: number_widen_f64(NUMBER_F32, from, to, n); break;
    default: assert(!"a dtype");
    }
}

/* number_finite_16 -- no element has all bits of the exponent. */
static bool number_finite_16(const uint16_t *p, size_t n, uint16_t exponent)
{
    uint16_t bad = 0;

    for (size_t i = 0; i < n; i++)
        bad = (uint16_t)(bad | ((p[i] & exponent) == exponent));
    return bad == 0;
}

/* number_finite_32 -- likewise. */
static bool number_finite_32(const float *p, size_t n)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= (number_bits(p[i]) & 0x7f800000u) == 0x7f800000u;
    return bad == 0;
}

/* number_finite_64 -- likewise; the exponent's bits are in the upper half, and 32-bit comparisons are what every processor has. */
static bool number_finite_64(const double *p, size_t n)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &p[i], sizeof(bits));
        bad |= ((uint32_t)(bits >> 32) & 0x7ff00000u) == 0x7ff00000u;
    }
    return bad == 0;
}

/* number_all_finite -- see the header. */
bool number_all_finite(int dtype, const void *p, size_t n)
{
    switch (dtype) {
    case NUMBER_F32: return number_finite_32(p, n);
    case NUMBER_F64: return number_finite_64(p, n);
    case NUMBER_F16: return number_finite_16(p, n, 0x7c00u);
    case NUMBER_BF16: return number_finite_16(p, n, 0x7f80u);
    default: assert(!"a dtype"); return false;
    }
}

/* number_square -- adds the squares of n elements to the partial sums; n is a multiple of NUMBER_PARTIALS but in the last block. */
static void number_square(double partial[NUMBER_PARTIALS], const double *p, size_t n)
{
    size_t whole = n - n % NUMBER_PARTIALS;

    for (size_t i = 0; i < whole; i += NUMBER_PARTIALS)
        for (size_t j = 0; j < NUMBER_PARTIALS; j++)
            partial[j] += p[i + j] * p[i + j];
    for (size_t j = 0; j < n - whole; j++)
        partial[j] += p[whole + j] * p[whole + j];
}

/* number_norm -- see the header. */
double number_norm(int dtype, const void *p, size_t n)
{
    double partial[NUMBER_PARTIALS] = {0}, block[NUMBER_BLOCK];
    const unsigned char *bytes = p;

    assert(n <= NUMBER_NORM_MAX);
    for (size_t first = 0; first < n; first += NUMBER_BLOCK) {
        size_t m = n - first < NUMBER_BLOCK ? n - first : NUMBER_BLOCK;
        number_widen_f64(dtype, bytes + first * number_bytes(dtype), block, m);
        number_square(partial, block, m);
    }
    return ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
           ((partial[1] + partial[5]) + (partial[3] + partial[7]));
}
