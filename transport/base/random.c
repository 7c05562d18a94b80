/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/random.h"

/* random_seed -- starts a sequence. */
void random_seed(struct random_source *source, uint64_t seed)
{
    source->state = seed;
}

/* random_next -- splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t random_next(struct random_source *source)
{
    uint64_t z = (source->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* random_below -- a number in [0, bound); the high half of a product has no visible bias for small bounds. */
uint64_t random_below(struct random_source *source, uint64_t bound)
{
    return (uint64_t)(((__uint128_t)random_next(source) * bound) >> 64);
}

/* random_chance -- true in per_mille of 1000 cases. */
int random_chance(struct random_source *source, unsigned per_mille)
{
    return random_below(source, 1000) < per_mille;
}
