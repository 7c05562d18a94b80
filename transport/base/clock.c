/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/clock.h"

#include <time.h>

/* clock_now -- nanoseconds of CLOCK_MONOTONIC. */
uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* clock_after -- a deadline. */
uint64_t clock_after(uint64_t now, int64_t ms)
{
    return ms < 0 ? CLOCK_NEVER : now + (uint64_t)ms * CLOCK_MS;
}
