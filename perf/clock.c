/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/clock.h"

#include <stdlib.h>
#include <time.h>

/* clock_read -- one of the system's clocks, in nanoseconds. */
static uint64_t clock_read(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* perf_clock_now -- see clock.h. */
uint64_t perf_clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC_RAW);
}

/* perf_clock_cpu -- see clock.h. */
uint64_t perf_clock_cpu(void)
{
    return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

/* clock_compare -- for qsort. */
static int clock_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* perf_clock_overhead -- of 101 batches, each long enough that the clock's grain does not matter. */
double perf_clock_overhead(void)
{
    enum { BATCHES = 101, LOOKS = 100 };
    uint64_t batch[BATCHES];

    for (int b = 0; b < BATCHES; b++) {
        uint64_t begin = perf_clock_now(), end = begin;
        for (int i = 0; i < LOOKS; i++)
            end = perf_clock_now();
        batch[b] = end - begin;
    }
    qsort(batch, BATCHES, sizeof(batch[0]), clock_compare);
    return (double)batch[BATCHES / 2] / LOOKS;
}
