/* SPDX-License-Identifier: BSD-3-Clause */
/* random -- a small seeded generator (splitmix64): the same seed gives the same numbers everywhere. Not for secrets. */
#ifndef TRANSPORT_BASE_RANDOM_H
#define TRANSPORT_BASE_RANDOM_H

#include <stdint.h>

struct random_source {
    uint64_t state;
};

/* random_seed -- starts a sequence. */
void random_seed(struct random_source *source, uint64_t seed);
/* random_next -- 64 random bits. */
uint64_t random_next(struct random_source *source);
/* random_below -- a number in [0, bound), bound > 0. */
uint64_t random_below(struct random_source *source, uint64_t bound);
/* random_chance -- true in `per_mille` of 1000 cases. */
int random_chance(struct random_source *source, unsigned per_mille);

#endif
