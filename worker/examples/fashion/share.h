/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of a global batch a worker computes. With R contributions to a step and T workers there
 * are max(R, T) parts. With R <= T worker r has part r; with R > T the first R mod T workers have one
 * part more than the others, and each worker's parts lie side by side. */
#ifndef FASHION_SHARE_H
#define FASHION_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share {
    unsigned parts; /* of a global batch */
    unsigned first; /* part of this worker */
    unsigned count; /* of its parts */
    bool several;   /* R > T: each contribution to a step is another part */
};

/* share_of -- of one worker */
struct share share_of(unsigned replicas, unsigned workers, unsigned rank);

/* share_part -- the part that a worker computes for its contribution number n (from 0) to a step */
unsigned share_part(const struct share *share, uint64_t n);

#endif
