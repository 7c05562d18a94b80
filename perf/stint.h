/* SPDX-License-Identifier: BSD-3-Clause */
/* stint -- how long a case goes on: for a number of iterations, or for a time. */
#ifndef PERF_STINT_H
#define PERF_STINT_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/settings.h"

struct stint {
    uint64_t iterations; /* where there is no end */
    uint64_t end;        /* of perf_clock_now; 0: count iterations */
};

/* stint_warmup -- before anything is measured. */
struct stint stint_warmup(const struct settings *settings);
/* stint_measured -- as -n or -D ask for it; a time begins now. */
struct stint stint_measured(const struct settings *settings);
/* stint_goes_on -- after `done` iterations: is there one more? Those that belong together, `each` of them, are never parted. */
bool stint_goes_on(const struct stint *stint, uint64_t done, uint64_t each);

#endif
