/* SPDX-License-Identifier: BSD-3-Clause */
/* shape -- what a simulated job is: drawn from a seed, declared to a session, and known to the reference and the referee in these words alone. */
#ifndef TESTS_SIMULATION_SHAPE_H
#define TESTS_SIMULATION_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/protocol/model.h"
#include "transport/base/random.h"

#define SHAPE_VARIABLES_MAX 8
#define SHAPE_WORKERS_MAX 6

enum shape_mode {
    SHAPE_EQUAL, /* strict, R = T */
    SHAPE_FEWER, /* R < T */
    SHAPE_MORE,  /* R > T */
    SHAPE_TF,
    SHAPE_ASYNC,
    SHAPE_BOUNDED,
    SHAPE_MODES
};

struct shape_variable {
    int kind, dtype, gradient_dtype; /* enums of stepgate/model.h */
    int rank;
    uint64_t rows, width, elements; /* rank 1: width 1 */
    uint64_t rows_max;              /* sparse */
    bool frozen, decays, average;
    bool by_replicas; /* sparse: a row is divided like everything else */
    bool rank0;       /* assigned */
    float rate_scale;
};

struct shape {
    uint64_t seed;
    int mode;                   /* enum shape_mode */
    bool small;                 /* a job that tests/reference/tf_model can compute */
    uint32_t workers, replicas; /* T, R; R 1 in async and bounded */
    uint32_t steps;             /* a worker that gets a step from here on is done */
    uint32_t tokens;            /* tf: initial ones */
    uint32_t bound;             /* bounded */
    bool shrinks;               /* strict: R becomes what those that are left can give */
    int non_finite;             /* enum model_non_finite */
    int optimizer;              /* enum model_optimizer */
    bool torch;
    double rate, momentum, rho, beta1, beta2, epsilon, accumulator, weight_decay, l2; /* as declared */
    double clip_value, clip_norm, clip_global_norm;
    double average_decay; /* 0: none */
    bool average_by_step;
    int schedule; /* enum model_schedule */
    double rate_end, rate_factor;
    uint64_t rate_steps, warmup;
    bool staircase;
    bool weighted;                                               /* contributions have weights other than 1 */
    unsigned absent_per_mille, abandon_per_mille, bad_per_mille; /* of gradients; of contributions */
    uint32_t variables;
    struct shape_variable variable[SHAPE_VARIABLES_MAX];
};

/* shape_draw -- mode: enum shape_mode, or -1: any. small: for tf_model. */
void shape_draw(struct shape *shape, struct random_source *random, int mode, bool small);
/* shape_declare -- to a model that has nothing yet. */
int shape_declare(const struct shape *shape, struct model *model);
/* shape_mode_name -- as the command line has it. */
const char *shape_mode_name(int mode);
/* shape_quota -- contributions of a rank to one step. */
uint32_t shape_quota(const struct shape *shape, uint32_t rank);
/* shape_lockstep -- every worker is in every step. */
static inline bool shape_lockstep(const struct shape *shape)
{
    return shape->mode == SHAPE_EQUAL || shape->mode == SHAPE_MORE;
}
/* shape_alone -- each contribution is a step. */
static inline bool shape_alone(const struct shape *shape)
{
    return shape->mode == SHAPE_ASYNC || shape->mode == SHAPE_BOUNDED;
}
/* shape_spares -- may a job go on without a worker that is lost? */
static inline bool shape_spares(const struct shape *shape)
{
    return shape->mode == SHAPE_TF || shape_alone(shape) ||
           (shape->mode == SHAPE_FEWER && shape->workers > shape->replicas) || shape->shrinks;
}
/* shape_moves -- is the variable changed by gradients? */
static inline bool shape_moves(const struct shape_variable *v)
{
    return !v->frozen && (v->kind == STEPGATE_TRAINED || v->kind == STEPGATE_SPARSE);
}
/* shape_wide -- is it computed in f64? */
static inline bool shape_wide(const struct shape_variable *v)
{
    return v->dtype == STEPGATE_F64;
}

/* shape_mix -- a hash of five numbers. */
uint64_t shape_mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* shape_unit -- a number in [-1, 1) that every type but the 16-bit ones holds. */
double shape_unit(uint64_t bits);
/* shape_initial -- the initial value of an element of a variable, as its dtype has it. */
void shape_initial(const struct shape *shape, uint32_t variable, void *out);

#endif
