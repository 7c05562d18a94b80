/* SPDX-License-Identifier: BSD-3-Clause */
/* contribution -- what a worker handed in, as it was meant, and what it was told of it. */
#ifndef TESTS_SIMULATION_CONTRIBUTION_H
#define TESTS_SIMULATION_CONTRIBUTION_H

#include <stddef.h>

#include "tests/simulation/shape.h"

/* Of one variable. */
struct contribution_part {
    bool pushed, absent;
    uint64_t rows;     /* sparse: merged, rising */
    uint64_t *indices; /* [rows] */
    void *values;      /* in the gradient dtype: elements, or rows x width */
};

/* The token that answered it, as the leader decided it. */
struct contribution_answer {
    uint32_t times;
    int verdict;
    uint64_t verdict_step, staleness, step;
};

struct contribution {
    uint32_t rank;
    uint64_t sequence, step; /* its local step */
    double weight;           /* 0: abandoned */
    bool finished;
    struct contribution_part parts[SHAPE_VARIABLES_MAX];
    struct contribution_answer answer;
    bool taken; /* part of the step `taken_step`, or of its accumulators */
    uint64_t taken_step;
};

/* All of one worker, by sequence. */
struct contribution_log {
    struct contribution **list;
    size_t count, room;
};

/* contribution_new -- the next one of a worker; NULL without memory. */
struct contribution *contribution_new(struct contribution_log *log, uint32_t rank, uint64_t step);
/* contribution_at -- NULL if there is none. */
struct contribution *contribution_at(const struct contribution_log *log, uint64_t sequence);
/* contribution_last -- the newest one, or NULL. */
struct contribution *contribution_last(const struct contribution_log *log);
void contribution_clear(struct contribution_log *log, uint32_t variables);
/* contribution_finite -- is everything finite that the ps looks at? */
bool contribution_finite(const struct shape *shape, const struct contribution *contribution);
/* contribution_factor -- by what its gradients are multiplied: its weight, scaled down where its norm is clipped. */
double contribution_factor(const struct shape *shape, const struct contribution *contribution);

#endif
