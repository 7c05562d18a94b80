/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reference -- what a simulated job must compute: plain loops over the whole model, in one place, knowing no plan, shard or lane. Step by step, from
 * the contributions that were decided to be part of each.
 */
#ifndef TESTS_SIMULATION_REFERENCE_H
#define TESTS_SIMULATION_REFERENCE_H

#include "tests/simulation/contribution.h"
#include "tests/simulation/shape.h"

enum reference_array {
    REFERENCE_VALUE,
    REFERENCE_FIRST,
    REFERENCE_SECOND,
    REFERENCE_AVERAGE,
    REFERENCE_ARRAYS
};

struct reference_member {
    uint32_t rank;
    uint64_t sequence;
};

/* A step: what was published after so many updates, and whose contributions the next update took. */
struct reference_frame {
    void *values[SHAPE_VARIABLES_MAX]; /* in the variable's dtype; NULL: aux */
    struct reference_member *set;      /* tf: NULL */
    uint32_t count;                    /* of contributions of the next update; 0: it changes nothing */
    bool decided;
};

/* What is kept of a variable beside what is published, in the computing type. */
struct reference_state {
    double *arrays[SHAPE_VARIABLES_MAX][REFERENCE_ARRAYS];
};

struct reference {
    const struct shape *shape;
    const struct contribution_log *logs; /* [workers] */
    struct reference_frame *frames;      /* [step + 1] */
    uint64_t step, room;
    struct reference_state now, before; /* before: one step earlier */
    /* what is being summed: of one step, or in tf since the last one */
    double *sums[SHAPE_VARIABLES_MAX];
    double *row_weight[SHAPE_VARIABLES_MAX]; /* sparse: [rows], 0: not there */
    bool begun[SHAPE_VARIABLES_MAX];         /* assigned: some value is there */
    double present[SHAPE_VARIABLES_MAX];     /* assigned: weights */
    double divisor;
    uint32_t summed;                                      /* contributions */
    uint8_t *aux[SHAPE_WORKERS_MAX][SHAPE_VARIABLES_MAX]; /* what the ps keep */
    float beta1_power, beta2_power;
    double wide_beta1_power, wide_beta2_power;
    uint64_t updates, clipped; /* clipped: steps whose global norm was */
};

/* reference_start -- step 0. Returns 0, or -1 without memory. */
int reference_start(struct reference *reference, const struct shape *shape,
                    const struct contribution_log *logs);
void reference_clear(struct reference *reference);
/* reference_accumulate -- tf: one more contribution to the accumulators. */
void reference_accumulate(struct reference *reference, struct contribution *contribution);
/* reference_take -- the next step, of these contributions in this order; tf: set NULL, of what is accumulated. count 0: nothing is applied. Returns 0, or -1 without memory. */
int reference_take(struct reference *reference, const struct reference_member *set, uint32_t count);
/* reference_has -- is the contribution in the set of that step? */
bool reference_has(const struct reference *reference, uint64_t step, uint32_t rank, uint64_t sequence);

/* The scalars of one step, each of one type. */
struct rule_scalars {
    double rate, momentum, rho, one_minus_rho, beta2, one_minus_beta1, one_minus_beta2, epsilon, alpha, root2,
        decay, l2, clip_value, average_rate, scale;
};
/* rule_scalars_at -- of a step, for variables that are computed in f64 (wide) or f32, before the norm of its mean is known. */
void rule_scalars_at(const struct reference *reference, bool wide, struct rule_scalars *out);
/* rule_slots -- arrays of state of the optimizer; rule_initial -- what each starts as. */
int rule_slots(const struct shape *shape);
double rule_initial(const struct shape *shape, bool wide, int slot);
/* rule_element -- one step of one element: mean is its gradient, at[] points to its value, slots and average (NULL: none). */
void rule_element(const struct shape *shape, const struct shape_variable *v,
                  const struct rule_scalars *scalars, double mean, double *const at[REFERENCE_ARRAYS]);

#endif
