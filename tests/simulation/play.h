/* SPDX-License-Identifier: BSD-3-Clause */
/* play -- one whole job from a seed: its shape, its faults, its end, and what must hold of it. */
#ifndef TESTS_SIMULATION_PLAY_H
#define TESTS_SIMULATION_PLAY_H

#include <stdint.h>
#include <stdio.h>

#include "transport/simulated/world.h"

struct play_counts {
    uint64_t jobs, finished, failed_jobs;
    uint64_t killed_workers, killed_ps, frozen, thawed, partitions, disconnects;
    uint64_t late_notifies, repeated_commits, repeated_tokens;
    uint64_t steps, stale, duplicates, several_shards, several_lanes, cut_variables, mapped, callers;
    struct world_counts world;
};

/* play_seed -- runs one job. Returns 0, or -1 with the reason in `why`. trace: NULL, or where every event is written. *hash is the trace's. */
int play_seed(uint64_t seed, FILE *trace, struct play_counts *counts, uint64_t *hash, char *why, size_t size);

#endif
