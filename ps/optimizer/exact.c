/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/exact.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "transport/base/error.h"

#define EXACT_LOWEST (-1074) /* exponent of the unit of limb 0: the smallest denormal */
#define EXACT_PENDING_MAX                                                                                    \
    (UINT32_C(1) << 29) /* additions of less than 2^33 each that an int64_t surely holds */
#define EXACT_TOP (EXACT_LIMBS - 1)

/* What is not finite. */
enum exact_special { EXACT_NAN = 1, EXACT_PLUS = 2, EXACT_MINUS = 4 };

static_assert(32 * EXACT_TOP > 1024 - EXACT_LOWEST, "every finite double lies below the top limb");

/* exact_clear -- see the header. */
void exact_clear(struct exact_sum *sum)
{
    memset(sum, 0, sizeof(*sum));
}

/* exact_settle -- hands carries up: every limb but the top one is then in 0 .. 2^32 - 1, which makes the form of a sum its only one. */
static void exact_settle(struct exact_sum *sum)
{
    int64_t carry = 0;

    for (int i = 0; i < EXACT_TOP; i++) {
        int64_t whole = sum->limbs[i] + carry;
        sum->limbs[i] = whole & INT64_C(0xffffffff);
        carry = (whole - sum->limbs[i]) / (INT64_C(1) << 32);
    }
    sum->limbs[EXACT_TOP] += carry;
    sum->pending = 0;
}

/* exact_add -- see the header. */
void exact_add(struct exact_sum *sum, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    unsigned exponent = (unsigned)(bits >> 52) & 0x7ffu;
    if (exponent == 0x7ffu) {
        unsigned special = mantissa != 0 ? EXACT_NAN : (bits >> 63) != 0 ? EXACT_MINUS : EXACT_PLUS;
        sum->special = (uint8_t)(sum->special | special);
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    unsigned place = exponent > 0 ? exponent - 1 : 0, shift = place % 32;
    int64_t *limb = &sum->limbs[place / 32], sign = (bits >> 63) != 0 ? -1 : 1;
    uint64_t low = (mantissa & 0xffffffffu) << shift, high = (mantissa >> 32) << shift;
    limb[0] += sign * (int64_t)(low & 0xffffffffu);
    limb[1] += sign * (int64_t)((low >> 32) + (high & 0xffffffffu));
    limb[2] += sign * (int64_t)(high >> 32);
    if (++sum->pending == EXACT_PENDING_MAX)
        exact_settle(sum);
}

/* exact_merge -- see the header. */
void exact_merge(struct exact_sum *sum, const struct exact_sum *more)
{
    struct exact_sum settled = *more;

    exact_settle(&settled);
    exact_settle(sum);
    for (int i = 0; i < EXACT_LIMBS; i++)
        sum->limbs[i] += settled.limbs[i];
    exact_settle(sum);
    sum->special |= more->special;
}

/* exact_negate -- of a settled sum. */
static void exact_negate(struct exact_sum *sum)
{
    for (int i = 0; i < EXACT_LIMBS; i++)
        sum->limbs[i] = -sum->limbs[i];
    exact_settle(sum);
}

/* exact_bit -- one bit of a settled sum that is not negative. */
static unsigned exact_bit(const struct exact_sum *sum, int place)
{
    int limb = place / 32 < EXACT_TOP ? place / 32 : EXACT_TOP;

    return (unsigned)(sum->limbs[limb] >> (place - 32 * limb)) & 1u;
}

/* exact_below -- whether any bit below `place` is set. */
static bool exact_below(const struct exact_sum *sum, int place)
{
    for (int i = 0; i < place / 32; i++)
        if (sum->limbs[i] != 0)
            return true;
    return (sum->limbs[place / 32] & ((INT64_C(1) << place % 32) - 1)) != 0;
}

/* exact_finite -- the nearest double of a settled sum that is not negative. */
static double exact_finite(const struct exact_sum *sum)
{
    int top = 32 * EXACT_TOP + 62;

    while (top >= 0 && exact_bit(sum, top) == 0)
        top--;
    if (top >= 1024 - EXACT_LOWEST)
        return (double)INFINITY;
    int last =
        top > 52 ? top - 52 : 0; /* the place of the last bit that is kept: denormals have fewer than 53 */
    uint64_t mantissa = 0;
    for (int place = top; place >= last; place--)
        mantissa = mantissa << 1 | exact_bit(sum, place);
    if (last > 0 && exact_bit(sum, last - 1) != 0 && ((mantissa & 1) != 0 || exact_below(sum, last - 1)))
        mantissa++;
    return ldexp((double)mantissa, last + EXACT_LOWEST); /* exact, or infinite */
}

/* exact_round -- see the header. */
double exact_round(const struct exact_sum *sum)
{
    struct exact_sum settled = *sum;

    if ((sum->special & EXACT_NAN) != 0 || sum->special == (EXACT_PLUS | EXACT_MINUS))
        return (double)NAN;
    if (sum->special != 0)
        return sum->special == EXACT_PLUS ? (double)INFINITY : -(double)INFINITY;
    exact_settle(&settled);
    if (settled.limbs[EXACT_TOP] >= 0)
        return exact_finite(&settled);
    exact_negate(&settled);
    return -exact_finite(&settled);
}

/* exact_pack -- see the header. */
void exact_pack(const struct exact_sum *sum, struct bytes_writer *w)
{
    struct exact_sum settled = *sum;

    exact_settle(&settled);
    bytes_put_u8(w, settled.special);
    for (int i = 0; i < EXACT_TOP; i++)
        bytes_put_u32(w, (uint32_t)settled.limbs[i]);
    bytes_put_u64(w, (uint64_t)settled.limbs[EXACT_TOP]);
}

/* exact_unpack -- see the header. */
int exact_unpack(struct bytes_reader *r, struct exact_sum *out)
{
    struct exact_sum sum;

    exact_clear(&sum);
    sum.special = bytes_get_u8(r);
    for (int i = 0; i < EXACT_TOP; i++)
        sum.limbs[i] = bytes_get_u32(r);
    uint64_t top = bytes_get_u64(r);
    memcpy(&sum.limbs[EXACT_TOP], &top, sizeof(top));
    /* 2^64 additions of the largest double stay below 2^20 in the top limb: far more is damage, and could overflow a merge. */
    if (r->underflow || sum.special > (EXACT_NAN | EXACT_PLUS | EXACT_MINUS) ||
        sum.limbs[EXACT_TOP] >= INT64_C(1) << 40 || sum.limbs[EXACT_TOP] < -(INT64_C(1) << 40))
        return error_set(STEPGATE_EPROTOCOL, 0, "", "an exact sum is damaged");
    *out = sum;
    return 0;
}
