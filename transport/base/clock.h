/* SPDX-License-Identifier: BSD-3-Clause */
/* clock -- monotonic time in nanoseconds. The state machines never read it: they are told the time. */
#ifndef TRANSPORT_BASE_CLOCK_H
#define TRANSPORT_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_MS UINT64_C(1000000)
#define CLOCK_NEVER UINT64_MAX

/* clock_now -- nanoseconds of CLOCK_MONOTONIC. */
uint64_t clock_now(void);

/* clock_after -- now + ms; ms < 0 gives CLOCK_NEVER. */
uint64_t clock_after(uint64_t now, int64_t ms);

#endif
