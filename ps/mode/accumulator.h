/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accumulator -- the reference's conditional accumulator as one object: a gate that decides, and the numbers behind it. No threads: a take
 * that must wait is served by the push that brings what it needs, and its mean is kept until it is fetched.
 *
 * dtypes are STEPGATE_F32, STEPGATE_F64 and STEPGATE_F16. f32 and f64 are summed and divided in themselves, f16 in f32, and rounded when
 * taken.
 */
#ifndef PS_MODE_ACCUMULATOR_H
#define PS_MODE_ACCUMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepgate/model.h"

#define ACCUMULATOR_NO_SHAPE (-1)
#define ACCUMULATOR_ANY UINT64_MAX /* a dimension that is not declared */

struct accumulator_shape {
    int rank; /* ACCUMULATOR_NO_SHAPE: not declared */
    uint64_t dims[STEPGATE_RANK_MAX];
};

struct accumulator_settings {
    int dtype;
    bool sparse;
    bool sum; /* take gives the sum, not the mean */
    struct accumulator_shape shape;
    uint64_t step;
};

/* A sparse gradient as its worker has it: one index per row, in any order; equal ones are added up. */
struct accumulator_sparse {
    int index_bits; /* 32 or 64 */
    const void *indices;
    struct accumulator_shape index_shape; /* a vector */
    const void *values;
    struct accumulator_shape value_shape; /* rank >= 1, one row per index */
};

/* What a take gives. accumulator_taken_free frees it. */
struct accumulator_taken {
    uint64_t ticket;
    uint64_t count;                 /* contributions */
    struct accumulator_shape shape; /* of the values; sparse: of the rows, one per index */
    uint64_t *indices;              /* sparse: rising */
    void *values;                   /* of the dtype */
};

struct accumulator;

/* accumulator_new -- Errors: EINVAL (dtype, shape), ENOMEM. */
int accumulator_new(const struct accumulator_settings *settings, struct accumulator **out);
void accumulator_delete(struct accumulator **accumulator);
/*
 * accumulator_push -- 1: accepted, 0: stale, and not even looked at. Errors: EINVAL (not the declared shape, or not that of the first gradient
 * since the last take; nothing is added), ENOMEM (the same).
 */
int accumulator_push(struct accumulator *accumulator, uint64_t step, const struct accumulator_shape *shape,
                     const void *values);
/* accumulator_push_sparse -- the same; also EINVAL: indices that are no vector or too large, values of rank 0, not one row per index. */
int accumulator_push_sparse(struct accumulator *accumulator, uint64_t step,
                            const struct accumulator_sparse *gradient);
/* accumulator_take -- asks for what is there as soon as that are n contributions or more. Errors: EINVAL (n <= 0), ENOMEM. */
int accumulator_take(struct accumulator *accumulator, int64_t n, uint64_t *ticket);
/* accumulator_fetch -- 1 and the oldest take that was served and not fetched, or 0. Errors: ENOMEM (nothing is lost, it may be repeated). */
int accumulator_fetch(struct accumulator *accumulator, struct accumulator_taken *out);
void accumulator_taken_free(struct accumulator_taken *taken);
/* accumulator_set_step -- whatever it was; clears nothing. True: a warning is due, it was higher. */
bool accumulator_set_step(struct accumulator *accumulator, uint64_t step);
uint64_t accumulator_step(const struct accumulator *accumulator);
uint64_t accumulator_count(const struct accumulator *accumulator);

#endif
