/* SPDX-License-Identifier: BSD-3-Clause */
/* examples -- the worked examples: SGD with rate 2, worker w pushes 0.1 + 0.2 w, v starts at 0; a round is w0, then w1, each one step. */
#include <stdio.h>

#include "tests/scenario/scenario.h"

/* examples_two_tokens -- R 2, T 2, 2 tokens, tf, 3 rounds. */
static int examples_two_tokens(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=2 initial_tokens=2",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    GS(c, 1);
    NEAR(c, 0, 0, -0.4);
    LOCAL(c, 0, 0);
    LOCAL(c, 1, 0);
    RUN(c, 0, 1);
    GS(c, 1);
    NEAR(c, 0, 0, -0.4);
    LOCAL(c, 0, 1);
    LOCAL(c, 1, 1);
    COUNTED(c, 0, 1, 1);
    COUNTED(c, 1, 1, 1);
    RUN(c, 0, 1);
    GS(c, 2);
    NEAR(c, 0, 0, -0.8);
    COUNTED(c, 0, 2, 1);
    COUNTED(c, 1, 2, 1);
    return 0;
}

/* examples_lockstep_of -- R 2, T 2, no tokens, 3 rounds. */
static int examples_lockstep_of(struct stage *stage, const char *keys)
{
    const struct cluster_job job = {.workers = 2, .keys = keys, .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t round = 1; round <= 3; round++) {
        RUN(c, 0);
        WAITS(c, 0);
        GS(c, round - 1);
        RUN(c, 1);
        GS(c, round);
        LOCAL(c, 0, round);
        LOCAL(c, 1, round);
    }
    NEAR(c, 0, 0, -1.2);
    COUNTED(c, 0, 3, 0);
    COUNTED(c, 1, 3, 0);
    return 0;
}

/* examples_lockstep -- in both modes. */
static int examples_lockstep(struct stage *stage)
{
    TRY(examples_lockstep_of(stage, "update=tf replicas_to_aggregate=2 initial_tokens=0"));
    return examples_lockstep_of(stage, "replicas_to_aggregate=2");
}

/* examples_one_worker -- R 2, T 2, default tokens, tf, only w0 runs. */
static int examples_one_worker(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2, .keys = "update=tf", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    GS(c, 0);
    RUN(c, 0);
    GS(c, 1);
    NEAR(c, 0, 0, -0.2);
    COUNTED(c, 0, 2, 0);
    LOCAL(c, 0, 0);
    RUN(c, 0);
    GS(c, 1);
    NEAR(c, 0, 0, -0.2);
    VERDICT(c, 0, STALE, 0);
    COUNTED(c, 0, 2, 1);
    return 0;
}

/* examples_backup -- R 2, T 3, 3 tokens, tf: w0, w2; then w1; then all three; then w0; then w1. */
static int examples_backup(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .keys = "update=tf replicas_to_aggregate=2 initial_tokens=3",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 2);
    GS(c, 1);
    NEAR(c, 0, 0, -0.6);
    RUN(c, 1);
    GS(c, 1);
    VERDICT(c, 1, STALE, 0);
    RUN(c, 0, 1, 2);
    GS(c, 1);
    for (uint32_t w = 0; w < 3; w++) {
        VERDICT(c, w, STALE, 0);
        LOCAL(c, w, 1);
    }
    RUN(c, 0);
    WAITS(c, 0);
    RUN(c, 1);
    GS(c, 2);
    NEAR(c, 0, 0, -1.0);
    return 0;
}

/* examples_four_of_two -- R 4, T 2, 2 tokens, tf, 6 rounds. */
static int examples_four_of_two(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=4 initial_tokens=2",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t round = 1; round <= 6; round++) {
        RUN(c, 0, 1);
        GS(c, round / 2);
        NEAR(c, 0, 0, -0.4 * (double)(round / 2));
        COUNTED(c, 0, round, 0);
        COUNTED(c, 1, round, 0);
    }
    return 0;
}

/* examples_too_few_tokens -- R 4, T 2, 1 token. */
static int examples_too_few_tokens(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=4 initial_tokens=1",
                                           .variables = {{.name = "v"}}};

    return cluster_refused(stage->ground, &job, STEPGATE_EINVAL, "at least 2 initial tokens are needed");
}

/* examples_two_shards -- a variable here, another and a sparse one there. */
static int examples_two_shards(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .shards = 2,
                                           .lanes = 2,
                                           .keys = "update=tf replicas_to_aggregate=2 initial_tokens=2",
                                           .variables = {{.name = "v0"},
                                                         {.name = "v1", .initial_count = 1, .initial = {1}},
                                                         {.name = "sparse",
                                                          .kind = STEPGATE_SPARSE,
                                                          .dims = {2, 1},
                                                          .options = "rows_max=2",
                                                          .initial_count = 2,
                                                          .initial = {3, 4}}}};
    static const double v0[] = {-0.4, -0.4, -0.8}, v1[] = {-1, -1, -3}, row1[] = {3.6, 3.6, 3.2};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++) {
        GRADIENT(c, w, 1, 0.9 + 0.2 * w);
        cluster_rows(c, w, 2, INDICES(1), VALUES(0.1 + 0.2 * w));
    }
    for (uint32_t time = 0; time < 3; time++) {
        RUN(c, 0, 1);
        GS(c, time == 2 ? 2 : 1);
        LOCAL(c, 0, time);
        LOCAL(c, 1, time);
        NEAR(c, 0, 0, v0[time]);
        NEAR(c, 1, 0, v1[time]);
        EXACT(c, 2, 0, 3);
        NEAR(c, 2, 1, row1[time]);
    }
    return 0;
}

/* examples_sparse_mean -- {0: [1, 0], 1: [0, 2]} + {0: [0, 1], 2: [3, 0]}. The rate is 1, so that the table is the mean with a minus. */
static int examples_sparse_mean(struct stage *stage)
{
    static const char *const updates[] = {"update=strict learning_rate=1",
                                          "update=tf initial_tokens=0 learning_rate=1"};
    static const double mean[] = {0.5, 0.5, 0, 2, 3, 0, 0, 0};
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {
            .workers = 2,
            .keys = updates[u],
            .variables = {
                {.name = "table", .kind = STEPGATE_SPARSE, .dims = {4, 2}, .options = "rows_max=2"}}};
        TRY(stage_open(stage, &job, &c));
        cluster_rows(c, 0, 0, INDICES(0, 1), VALUES(1, 0, 0, 2));
        cluster_rows(c, 1, 0, INDICES(0, 2), VALUES(0, 1, 3, 0));
        RUN(c, 0, 1);
        GS(c, 1);
        for (uint64_t i = 0; i < 8; i++)
            EXACT(c, 0, i, -mean[i]);
    }
    return 0;
}

/* examples_mean_of_two -- pushes 10, 20 give 15: what is published without an optimizer is the mean itself. */
static int examples_mean_of_two(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=tf initial_tokens=0 optimizer=none", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 10);
    GRADIENT(c, 1, 0, 20);
    RUN(c, 0, 1);
    EXACT(c, 0, 0, 15);
    return 0;
}

/* examples_mean_of_ten -- ten workers at once push 10, 20, ..., 100: 55. */
static int examples_mean_of_ten(struct stage *stage)
{
    static const char *const updates[] = {"update=tf initial_tokens=0 optimizer=none", "optimizer=none"};
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {.workers = 10, .keys = updates[u], .variables = {{.name = "v"}}};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 10; w++)
            GRADIENT(c, w, 0, 10.0 * (w + 1));
        for (uint32_t w = 0; w < 10; w++)
            TRY(cluster_start(c, w));
        TRY(cluster_settle(c));
        GS(c, 1);
        EXACT(c, 0, 0, 55);
    }
    return 0;
}

/* examples_third_push -- a take of 3 waits until the third push. */
static int examples_third_push(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "update=tf initial_tokens=0 optimizer=none", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++) {
        GS(c, 0);
        EXACT(c, 0, 0, 0);
        GRADIENT(c, w, 0, 10.0 * (w + 1));
        RUN(c, w);
    }
    GS(c, 1);
    EXACT(c, 0, 0, 20);
    return 0;
}

/* examples_dtypes -- f16, f32 and f64 all give 4.5 for 0..9. */
static int examples_dtypes(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 10,
                                           .keys = "update=tf initial_tokens=0 optimizer=none",
                                           .variables = {{.name = "half", .dtype = STEPGATE_F16},
                                                         {.name = "single", .dtype = STEPGATE_F32},
                                                         {.name = "double", .dtype = STEPGATE_F64}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 10; w++)
        for (uint32_t v = 0; v < 3; v++)
            GRADIENT(c, w, v, w);
    RUN(c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    for (uint32_t v = 0; v < 3; v++)
        EXACT(c, v, 0, 4.5);
    return 0;
}

const struct scenario scenario_examples[] = {
    {"example_two_of_two_with_two_tokens", examples_two_tokens, true},
    {"example_two_of_two_in_lockstep", examples_lockstep, true},
    {"example_one_worker_supplies_both", examples_one_worker, true},
    {"example_two_of_three_with_a_backup", examples_backup, true},
    {"example_four_of_two", examples_four_of_two, false},
    {"example_too_few_tokens", examples_too_few_tokens, false},
    {"example_two_shards_and_a_sparse_variable", examples_two_shards, true},
    {"example_sparse_mean", examples_sparse_mean, false},
    {"example_mean_of_two_pushes", examples_mean_of_two, false},
    {"example_mean_of_ten_pushes", examples_mean_of_ten, false},
    {"example_a_take_of_three_waits_for_the_third_push", examples_third_push, false},
    {"example_mean_in_every_dtype", examples_dtypes, false},
    {NULL, NULL, false}};
