/* SPDX-License-Identifier: BSD-3-Clause */
/* A sum of doubles that is rounded once, at the end, as Python's math.fsum: J. R. Shewchuk, "Adaptive
 * Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates". In whatever order the
 * numbers come, the result is the same. */
#ifndef FASHION_FSUM_H
#define FASHION_FSUM_H

#include <stddef.h>

enum { FSUM_PARTIALS = 64 }; /* of 53 bits each, without overlap: more than all exponents need */

struct fsum {
    double partials[FSUM_PARTIALS]; /* rising in size; their sum is exact */
    size_t count;
    double special; /* the sum of what was not finite */
};

/* fsum_add -- one more; a zeroed struct is the sum of nothing */
void fsum_add(struct fsum *sum, double value);

/* fsum_round -- the sum, rounded to nearest even */
double fsum_round(const struct fsum *sum);

#endif
