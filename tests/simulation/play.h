/* SPDX-License-Identifier: BSD-3-Clause */
/* play -- one whole job from a seed: its shape, its faults, its end, and what must hold of it. */
#ifndef TESTS_SIMULATION_PLAY_H
#define TESTS_SIMULATION_PLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/simulation/shape.h"
#include "transport/simulated/world.h"

struct play_counts {
    uint64_t jobs, finished, failed_jobs;
    uint64_t modes[SHAPE_MODES], policies[MODEL_SKIP + 1], optimizers[MODEL_ADAMW + 1], torch, averages,
        clipped_norms, clipped_values, clipped_contributions;
    uint64_t wide, narrow, other_gradients, frozen_variables, sparse, assigned, aux, weighted;
    uint64_t killed_workers, killed_ps, frozen, thawed, woken, partitions, disconnects, left, spared, shrunk;
    uint64_t broken, rebuilt, rebuilt_jobs;
    uint64_t paused_workers, paused_ps, parted_workers, parted_ps, pauses_over;
    uint64_t failed_non_finite, failed_gone, failed_stuck;
    uint64_t late_notifies, repeated_commits, repeated_tokens;
    uint64_t steps, stale_notifies, duplicates, several_shards, several_lanes, cut_variables, mapped, callers;
    uint64_t applied, stale, empty, dropped, skipped, carried, larger, held, compared_states;
    uint64_t rows, split_rows, pulls_of_rows, pulls_of_all, mixed_pulls, newer_pulls, pull_retries, sleeps,
        bad, absent, waits;
    struct world_counts world;
};

struct play_options {
    int mode;    /* enum shape_mode; -1: any */
    bool small;  /* jobs that tests/reference/tf_model can compute */
    FILE *trace; /* NULL, or where every event is written */
};

/* play_seed -- runs one job. Returns 0, or -1 with the reason in `why`. *hash is that of every event. */
int play_seed(uint64_t seed, const struct play_options *options, struct play_counts *counts, uint64_t *hash,
              char *why, size_t size);

#endif
