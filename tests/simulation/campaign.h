/* SPDX-License-Identifier: BSD-3-Clause */
/* campaign -- how often each kind of event must happen in many jobs. */
#ifndef TESTS_SIMULATION_CAMPAIGN_H
#define TESTS_SIMULATION_CAMPAIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kind of event, how often it happened, and per how many jobs it must at least happen once; 0: it need not. */
struct campaign_floor {
    const char *name;
    uint64_t count, jobs;
};

/* campaign_print -- how often each kind of event happened; returns how many stayed below their floor. */
uint64_t campaign_print(const struct campaign_floor *floors, size_t count, uint64_t jobs, bool judge);
#define CAMPAIGN_PRINT(floors, jobs, judge)                                                                  \
    campaign_print((floors), sizeof(floors) / sizeof((floors)[0]), (jobs), (judge))

struct chaos_counts;
/* campaign_chaos -- of jobs in which processes die and are started again. */
uint64_t campaign_chaos(const struct chaos_counts *counts, bool judge);

#endif
