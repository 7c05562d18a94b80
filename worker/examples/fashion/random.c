/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/random.h"

/* random_mix -- the finaliser of splitmix64: every input bit reaches every output bit */
static uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* random_stream_of -- the stream that belongs to a seed, a purpose and an index in it */
struct random_stream random_stream_of(uint64_t seed, uint64_t purpose, uint64_t index)
{
    uint64_t state = random_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    state = random_mix(state ^ (purpose + UINT64_C(0x632be59bd9b4e019)));
    state = random_mix(state ^ (index + UINT64_C(0xd1342543de82ef95)));
    return (struct random_stream){.state = state};
}

/* random_next -- 64 evenly distributed bits (splitmix64) */
uint64_t random_next(struct random_stream *stream)
{
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(stream->state);
}

/* random_below -- an even choice among 0 ... bound - 1; bound > 0 */
uint64_t random_below(struct random_stream *stream, uint64_t bound)
{
    /* The first 2^64 mod bound values would make small results likelier: draw again. */
    uint64_t uneven = (UINT64_MAX - bound + 1) % bound;
    uint64_t x;
    do
        x = random_next(stream);
    while (x < uneven);
    return x % bound;
}

/* random_normal -- an approximately normal number, mean 0, deviation 1 */
double random_normal(struct random_stream *stream)
{
    /* The sum of twelve even numbers: no libm, so the same bits everywhere. */
    double sum = -6.0;
    for (int i = 0; i < 12; i++)
        sum += (double)(random_next(stream) >> 11) * 0x1p-53;
    return sum;
}
