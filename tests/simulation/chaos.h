/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * chaos -- one whole job from a seed in which processes die, stand still, hear nothing of each other, and are started again: workers that come back under
 * their rank, ps that go on from a checkpoint, and everybody back to it. Workers are driven through the public calls. What each contributes to a step is
 * a function of the step and its values, so that what must come out is known whoever made it, and how often.
 */
#ifndef TESTS_SIMULATION_CHAOS_H
#define TESTS_SIMULATION_CHAOS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/simulation/shape.h"
#include "transport/simulated/world.h"

/* Where in the commit of a step a ps may die. */
enum chaos_arrow {
    CHAOS_COUNTED,  /* the leader: a contribution is complete on every ps */
    CHAOS_DECIDED,  /* the leader: a step is decided, and nobody was told */
    CHAOS_ORDERED,  /* any: the order has come */
    CHAOS_APPLYING, /* any: a lane begins with it */
    CHAOS_APPLIED,  /* the leader: it is applied everywhere */
    CHAOS_TOLD,     /* the leader: a worker is to be told, and others were or were not */
    CHAOS_ARROWS
};

enum chaos_lost { CHAOS_LOST_FAIL, CHAOS_LOST_WAIT, CHAOS_LOST_SHRINK, CHAOS_LOSTS };

struct chaos_counts {
    uint64_t jobs, modes[SHAPE_MODES], policies[CHAOS_LOSTS], several_shards, rewinding;
    uint64_t finished, finished_after, failed; /* after: something went wrong before */
    uint64_t killed_workers, workers_back, frozen_workers, woken_workers, replaced_workers, short_freezes;
    uint64_t killed_ps, killed_leaders, arrows[CHAOS_ARROWS], frozen_ps, ps_again, ps_failed, ps_back;
    uint64_t short_partitions, long_partitions, broken;
    uint64_t rewound_begins, checkpoints, restores, steps, again, other_sets, shrunk_steps, pulls, arrays;
    uint64_t repeated_commits, repeated_tokens;
    struct world_counts world;
};

/* chaos_seed -- runs one job. mode: enum shape_mode, or -1: any. Returns 0, or -1 with the reason in `why`. *hash is that of every event. */
int chaos_seed(uint64_t seed, int mode, FILE *trace, struct chaos_counts *counts, uint64_t *hash, char *why,
               size_t size);

#endif
