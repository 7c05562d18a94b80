/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/plain.h"

#include <math.h>
#include <string.h>

#include "stepgate/model.h"

#define PLAIN_HALVES 65536u

/* plain_bytes -- see the header. */
size_t plain_bytes(int dtype)
{
    return dtype == STEPGATE_F64 ? 8 : dtype == STEPGATE_F32 ? 4 : 2;
}

/* plain_from_half -- sign, 5 bits of exponent, 10 of fraction. */
static double plain_from_half(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31u);
    double fraction = (double)(bits & 1023u);
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);

    if (exponent == 31)
        value = fraction == 0 ? (double)INFINITY : (double)NAN;
    return (bits & 0x8000u) != 0 ? -value : value;
}

/* plain_half -- out of a table of all of them. */
static double plain_half(uint16_t bits)
{
    static double table[PLAIN_HALVES];
    static bool there;

    for (unsigned i = 0; !there && i < PLAIN_HALVES; i++)
        table[i] = plain_from_half(i);
    there = true;
    return table[bits];
}

/* plain_get -- see the header. */
double plain_get(int dtype, const void *array, uint64_t i)
{
    const uint8_t *at = (const uint8_t *)array + i * plain_bytes(dtype);
    uint16_t half;
    uint32_t word;
    float single;
    double value;

    switch (dtype) {
    case STEPGATE_F64: memcpy(&value, at, sizeof(value)); return value;
    case STEPGATE_F32: memcpy(&single, at, sizeof(single)); return (double)single;
    default: break;
    }
    memcpy(&half, at, sizeof(half));
    if (dtype == STEPGATE_F16)
        return plain_half(half);
    word = (uint32_t)half << 16;
    memcpy(&single, &word, sizeof(single));
    return (double)single;
}

/* plain_grid -- the nearest number with so many bits, of which the smallest that are normal have the exponent `lowest` (as frexp has it). */
static double plain_grid(double value, int bits, int lowest)
{
    int exponent;

    frexp(value, &exponent);
    int unit = (exponent > lowest ? exponent : lowest) - bits;
    return ldexp(nearbyint(ldexp(value, -unit)), unit);
}

/* plain_to_half -- the bits of an f16. */
static uint16_t plain_to_half(double value)
{
    unsigned sign = signbit(value) ? 0x8000u : 0;
    double size = fabs(value);
    int exponent;

    if (isnan(value))
        return 0x7e00u;
    size = isfinite(size) ? plain_grid(size, 11, -13) : size;
    if (size > 65504)
        return (uint16_t)(sign | 0x7c00u);
    if (size < ldexp(1, -14))
        return (uint16_t)(sign | (unsigned)ldexp(size, 24));
    double fraction = frexp(size, &exponent);
    return (uint16_t)(sign | ((unsigned)(exponent + 14) << 10) | ((unsigned)ldexp(fraction, 11) & 1023u));
}

/* plain_put -- see the header. */
void plain_put(int dtype, void *array, uint64_t i, double value)
{
    uint8_t *at = (uint8_t *)array + i * plain_bytes(dtype);
    float single = (float)value;
    uint16_t half;
    uint32_t word;

    switch (dtype) {
    case STEPGATE_F64: memcpy(at, &value, sizeof(value)); return;
    case STEPGATE_F32: memcpy(at, &single, sizeof(single)); return;
    case STEPGATE_F16: half = plain_to_half(value); break;
    default:
        if (isfinite(value) && value != 0)
            single = (float)plain_grid(value, 8, -125);
        memcpy(&word, &single, sizeof(word));
        half = isnan(value) ? 0x7fc0u : (uint16_t)(word >> 16);
    }
    memcpy(at, &half, sizeof(half));
}

/* plain_norm -- see the header. */
double plain_norm(const double *numbers, uint64_t count)
{
    double s[8] = {0};

    for (uint64_t i = 0; i < count; i++) {
        double square = numbers[i] * numbers[i];
        s[i % 8] += square;
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* plain_equal -- see the header. */
bool plain_equal(int dtype, const void *a, const void *b, uint64_t count)
{
    size_t bytes = plain_bytes(dtype);

    if (memcmp(a, b, count * bytes) == 0)
        return true;
    for (uint64_t i = 0; i < count; i++)
        if (memcmp((const uint8_t *)a + i * bytes, (const uint8_t *)b + i * bytes, bytes) != 0 &&
            !(isnan(plain_get(dtype, a, i)) && isnan(plain_get(dtype, b, i))))
            return false;
    return true;
}

/* plain_sum_add -- see the header. */
void plain_sum_add(struct plain_sum *sum, double value)
{
    int kept = 0;

    sum->bad = sum->bad || !isfinite(value);
    for (int i = 0; !sum->bad && i < sum->count; i++) {
        double other = sum->parts[i], high, low;
        if (fabs(value) < fabs(other)) {
            double keep = value;
            value = other;
            other = keep;
        }
        high = value + other;
        low = other - (high - value);
        if (low != 0)
            sum->parts[kept++] = low;
        value = high;
    }
    if (!sum->bad)
        sum->parts[kept++] = value;
    sum->count = kept;
}

/* plain_sum_round -- from the largest part down to the first that does not fit; a half is decided by what lies below it. */
double plain_sum_round(const struct plain_sum *sum)
{
    int i = sum->count - 1;
    double high, low = 0;

    if (sum->bad)
        return (double)NAN;
    if (i < 0)
        return 0;
    high = sum->parts[i];
    while (i > 0) {
        double before = high, part = sum->parts[--i];
        high = before + part;
        low = part - (high - before);
        if (low != 0)
            break;
    }
    if (i > 0 && ((low < 0 && sum->parts[i - 1] < 0) || (low > 0 && sum->parts[i - 1] > 0))) {
        double twice = 2 * low, next = high + twice;
        if (twice == next - high)
            high = next;
    }
    return high;
}
