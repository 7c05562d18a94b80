/* SPDX-License-Identifier: BSD-3-Clause */
/* dtypes -- types of elements and gradients, and the kinds of variables that no optimizer moves. */
#include <stddef.h>

#include "tests/scenario/scenario.h"

/* dtypes_master -- f16 and bf16: an f32 master copy is updated; what is published is it, rounded to nearest even. */
static int dtypes_master(struct stage *stage)
{
    static const struct cluster_job job = {
        .keys = "learning_rate=0.0001220703125", /* 2^-13 */
        .variables = {{.name = "half", .dtype = STEPGATE_F16, .initial_count = 1, .initial = {1}},
                      {.name = "brain", .dtype = STEPGATE_BF16, .initial_count = 1, .initial = {1}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, -1);
    GRADIENT(c, 0, 1, -16);
    /* Half steps above 1 are 2^-10 and 2^-7: eight updates make one of them; four are a tie, which goes to the even neighbour. */
    for (int i = 1; i <= 8; i++) {
        RUN(c, 0);
        EXACT(c, 0, 0, i <= 4 ? 1 : 1 + 0x1p-10);
        EXACT(c, 1, 0, i * 0x1p-9 <= 0x1p-8 ? 1 : i * 0x1p-9 < 3 * 0x1p-8 ? 1 + 0x1p-7 : 1 + 0x1p-6);
    }
    return 0;
}

/* dtypes_wide -- an f64 variable is computed in f64. */
static int dtypes_wide(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3,
        .keys = "learning_rate=1",
        .variables = {{.name = "wide", .dtype = STEPGATE_F64, .initial_count = 1, .initial = {1}}}};
    const double sum = 0x1p-40 + 0.1 + 0.3, mean = sum / 3;
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 0x1p-40);
    GRADIENT(c, 1, 0, 0.1);
    GRADIENT(c, 2, 0, 0.3);
    RUN(c, 0, 1, 2);
    EXACT(c, 0, 0, 1 - mean);
    return 0;
}

/* dtypes_gradient -- gradients may be narrower than their variable: they are widened before they are summed; never wider. */
static int dtypes_gradient(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "learning_rate=1",
        .variables = {{.name = "a", .options = "gradient_dtype=bf16"},
                      {.name = "wide", .dtype = STEPGATE_F64, .options = "gradient_dtype=f16"},
                      {.name = "half", .dtype = STEPGATE_F16, .options = "gradient_dtype=f32"},
                      {.name = "table",
                       .kind = STEPGATE_SPARSE,
                       .dims = {2, 1},
                       .options = "rows_max=2 gradient_dtype=f16"}}};
    static const struct cluster_job wider = {.variables = {{.name = "a", .options = "gradient_dtype=f64"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t v = 0; v < 3; v++) {
        GRADIENT(c, 0, v, 1);
        GRADIENT(c, 1, v, v == 0 ? 1 + 0x1p-7 : 1 + 0x1p-10);
    }
    cluster_rows(c, 0, 3, INDICES(1), VALUES(1));
    cluster_rows(c, 1, 3, INDICES(1), VALUES(1 + 0x1p-10));
    RUN(c, 0, 1);
    EXACT(c, 0, 0, -(1 + 0x1p-8));
    EXACT(c, 1, 0, -(1 + 0x1p-11));
    EXACT(c, 2, 0, -1); /* between two halves: to the even one */
    EXACT(c, 3, 1, -(1 + 0x1p-11));
    return cluster_refused(stage->ground, &wider, STEPGATE_EINVAL, "gradient");
}

/* dtypes_sums_are_wide -- halves are summed in f32: what a half cannot hold is in the mean. */
static int dtypes_sums_are_wide(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "optimizer=none", .variables = {{.name = "half", .dtype = STEPGATE_F16}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 60000);
    GRADIENT(c, 1, 0, 60000);
    GRADIENT(c, 2, 0, 30000);
    RUN(c, 0, 1, 2);
    EXACT(c, 0, 0,
          50000 -
              16 * (50000 % 32 != 0)); /* 50,000 lies between 49,984 and 50,016 and goes to the even one */
    return 0;
}

/* dtypes_assigned -- takes the mean of what is pushed, or what worker 0 pushed; nothing else moves it. */
static int dtypes_assigned(struct stage *stage)
{
    static const char *const updates[] = {"update=strict", "update=tf initial_tokens=0"};
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {
            .workers = 3,
            .keys = updates[u],
            .variables = {{.name = "v"},
                          {.name = "mean", .kind = STEPGATE_ASSIGNED, .initial_count = 1, .initial = {5}},
                          {.name = "first",
                           .kind = STEPGATE_ASSIGNED,
                           .options = "assign=rank0",
                           .initial_count = 1,
                           .initial = {6}}}};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 3; w++) {
            GRADIENT(c, w, 1, 10 + 2 * w);
            GRADIENT(c, w, 2, 20 + w);
        }
        cluster_absent(c, 2, 1);
        RUN(c, 2, 1, 0);
        EXACT(c, 1, 0, 11);
        EXACT(c, 2, 0, 20);
        for (uint32_t w = 0; w < 3; w++) {
            cluster_absent(c, w, 1);
            if (w == 0)
                cluster_absent(c, w, 2);
        }
        RUN(c, 2, 1, 0); /* nobody gives one: they stay */
        GS(c, 2);
        EXACT(c, 1, 0, 11);
        EXACT(c, 2, 0, 20);
    }
    return 0;
}

/* dtypes_aux -- each worker has its own, and pulls what it has pushed last. */
static int dtypes_aux(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .variables = {{.name = "v"}, {.name = "aux", .kind = STEPGATE_AUX, .dims = {2}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++)
        GRADIENT(c, w, 1, 7 + w, 70 + w);
    RUN(c, 0, 1);
    for (uint32_t w = 0; w < 2; w++)
        PULLED(c, w, 1, 0, 0);
    RUN(c, 0, 1);
    for (uint32_t w = 0; w < 2; w++) {
        PULLED(c, w, 1, 0, 7 + w);
        PULLED(c, w, 1, 1, 70 + w);
    }
    return 0;
}

/* dtypes_frozen -- keeps its value; its rate and decay can be its own otherwise. */
static int dtypes_frozen(struct stage *stage)
{
    static const struct cluster_job job = {
        .keys = "learning_rate=1 l2_decay=0.5",
        .variables = {{.name = "frozen", .options = "frozen=yes", .initial_count = 1, .initial = {3}},
                      {.name = "scaled",
                       .options = "learning_rate_scale=0.25 decays=no",
                       .initial_count = 1,
                       .initial = {3}},
                      {.name = "plain", .initial_count = 1, .initial = {3}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t v = 0; v < 3; v++)
        GRADIENT(c, 0, v, 2);
    RUN(c, 0);
    EXACT(c, 0, 0, 3);
    EXACT(c, 1, 0, 3 - 0.25 * 2);
    EXACT(c, 2, 0, 3 - (2 + 0.5 * 3));
    return 0;
}

const struct scenario scenario_dtypes[] = {
    {"dtypes_of_16_bits_have_a_master_copy", dtypes_master, false},
    {"dtypes_f64_is_computed_in_f64", dtypes_wide, false},
    {"dtypes_of_gradients_may_be_narrower", dtypes_gradient, false},
    {"dtypes_of_16_bits_are_summed_in_f32", dtypes_sums_are_wide, false},
    {"kind_assigned_takes_the_mean_or_the_first", dtypes_assigned, false},
    {"kind_aux_is_private", dtypes_aux, false},
    {"kind_frozen_keeps_its_value", dtypes_frozen, false},
    {NULL, NULL, false}};
