/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exact -- a sum of doubles without rounding: the order of additions, and how they were shared out, do not show in the result.
 *
 * A fixed-point number wide enough for every finite double. Limb i counts units of 2^(32 i - 1074) and has room for the carries of many additions.
 */
#ifndef PS_OPTIMIZER_EXACT_H
#define PS_OPTIMIZER_EXACT_H

#include <stddef.h>
#include <stdint.h>

#include "transport/base/bytes.h"

#define EXACT_LIMBS 68
#define EXACT_BYTES (1 + 4 * (EXACT_LIMBS - 1) + 8) /* of the packed form, always */

struct exact_sum {
    int64_t limbs[EXACT_LIMBS];
    uint32_t pending; /* additions since the carries were last handed up */
    uint8_t special;  /* what was added that is not finite; sticky */
};

/* exact_clear -- the sum of nothing: 0. */
void exact_clear(struct exact_sum *sum);
/* exact_add -- adds any double, infinities and NaN too. */
void exact_add(struct exact_sum *sum, double value);
/* exact_merge -- adds what `more` has summed. */
void exact_merge(struct exact_sum *sum, const struct exact_sum *more);
/* exact_round -- the sum, rounded to nearest even once; infinite if it is too large; NaN if a NaN or both infinities were added. */
double exact_round(const struct exact_sum *sum);
/* exact_pack -- appends EXACT_BYTES; equal sums give equal bytes. */
void exact_pack(const struct exact_sum *sum, struct bytes_writer *w);
/* exact_unpack -- takes EXACT_BYTES and checks every one. Errors: EPROTOCOL. */
int exact_unpack(struct bytes_reader *r, struct exact_sum *out);

#endif
