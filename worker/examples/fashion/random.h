/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers that depend on nothing but their seed: no state outside the struct, no libc, no
 * platform. */
#ifndef FASHION_RANDOM_H
#define FASHION_RANDOM_H

#include <stdint.h>

struct random_stream {
    uint64_t state;
};

/* random_stream_of -- the stream that belongs to a seed, a purpose and an index in it */
struct random_stream random_stream_of(uint64_t seed, uint64_t purpose, uint64_t index);

/* random_next -- 64 evenly distributed bits (splitmix64) */
uint64_t random_next(struct random_stream *stream);

/* random_below -- an even choice among 0 ... bound - 1; bound > 0 */
uint64_t random_below(struct random_stream *stream, uint64_t bound);

/* random_normal -- an approximately normal number, mean 0, deviation 1 */
double random_normal(struct random_stream *stream);

#endif
