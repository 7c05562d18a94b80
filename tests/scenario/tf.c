/* SPDX-License-Identifier: BSD-3-Clause */
/* tf -- the rules of the reference. What needs an accumulator of its own is in tests/unit/ps/mode. */
#include <math.h>
#include <stddef.h>

#include "tests/scenario/scenario.h"

/* tf_stale_push -- returns success, is not counted. */
static int tf_stale_push(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=1 initial_tokens=0",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    GS(c, 1);
    VERDICT(c, 1, STALE, 0);
    COUNTED(c, 0, 1, 0);
    COUNTED(c, 1, 0, 1);
    LOCAL(c, 1, 1);
    RUN(c, 1);
    GS(c, 2);
    VERDICT(c, 1, APPLIED, 1);
    return 0;
}

/* tf_counts_contributions -- three of one worker make a step of three. */
static int tf_counts_contributions(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "update=tf optimizer=none", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t i = 0; i < 3; i++) {
        GS(c, 0);
        GRADIENT(c, 2, 0, i);
        RUN(c, 2);
    }
    GS(c, 1);
    EXACT(c, 0, 0, 1);
    COUNTED(c, 2, 3, 0);
    return 0;
}

/* tf_one_queue -- max(T, R) tokens per step, first in first out, taken by whoever is next: also by one who makes all of the steps. */
static int tf_one_queue(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=1 initial_tokens=0",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    GS(c, 1);
    LOCAL(c, 0, 1);
    RUN(c, 0);
    GS(c, 2);
    LOCAL(c, 0, 1); /* the second token of step 0, which was meant for w1 */
    RUN(c, 0);
    GS(c, 2);
    VERDICT(c, 0, STALE, 1);
    LOCAL(c, 0, 2);
    return 0;
}

/* tf_tokens_per_step -- more tokens than max(T, R) may be asked for; fewer than R are refused. */
static int tf_tokens_per_step(struct stage *stage)
{
    static const struct cluster_job job = {.keys = "update=tf initial_tokens=0 tokens_per_step=3",
                                           .variables = {{.name = "v"}}};
    static const struct cluster_job few = {.workers = 3,
                                           .keys = "update=tf replicas_to_aggregate=3 tokens_per_step=2",
                                           .variables = {{.name = "v"}}};
    static const uint64_t local[] = {1, 1, 1, 2, 2, 2};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (size_t i = 0; i < 6; i++) {
        RUN(c, 0);
        LOCAL(c, 0, local[i]);
    }
    GS(c, 3);
    COUNTED(c, 0, 3, 3);
    return cluster_refused(stage->ground, &few, STEPGATE_EINVAL, "at least 3 tokens per step are needed");
}

/* tf_default_tokens -- R of them, of the step at the start. */
static int tf_default_tokens(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "update=tf replicas_to_aggregate=2", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    LOCAL(c, 0, 0);
    RUN(c, 1);
    LOCAL(c, 1, 0);
    GS(c, 1);
    RUN(c, 2);
    LOCAL(c, 2, 1);
    return 0;
}

/* tf_tokens_of_r_and_t -- an explicit count of at least R - T: that many are enough. */
static int tf_tokens_of_r_and_t(struct stage *stage)
{
    static const struct cluster_job enough = {.workers = 2,
                                              .keys = "update=tf replicas_to_aggregate=5 initial_tokens=3",
                                              .variables = {{.name = "v"}}};
    static const struct cluster_job few = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=5 initial_tokens=2",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &enough, &c));
    RUN(c, 0, 1, 0);
    for (uint32_t w = 0; w < 2; w++)
        LOCAL(c, w, 0);
    RUN(c, 0);
    WAITS(c, 0);
    GS(c, 0);
    RUN(c, 1);
    GS(c, 1);
    COUNTED(c, 0, 3, 0);
    COUNTED(c, 1, 2, 0);
    return cluster_refused(stage->ground, &few, STEPGATE_EINVAL, "at least 3 initial tokens are needed");
}

/* tf_several_batches -- R > T: a worker contributes several times with one local step, from the same parameters. */
static int tf_several_batches(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 1,
                                           .keys = "update=tf replicas_to_aggregate=3 initial_tokens=2",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t i = 0; i < 3; i++) {
        LOCAL(c, 0, 0);
        GRADIENT(c, 0, 0, 1 + i);
        RUN(c, 0);
        PULLED(c, 0, 0, 0, 0);
    }
    GS(c, 1);
    EXACT(c, 0, 0, -4);
    LOCAL(c, 0, 1);
    return 0;
}

/* tf_rows -- merged by index, each divided by those who brought it; what counts for the step are contributions, also without rows. */
static int tf_rows(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3,
        .keys = "update=tf initial_tokens=0 learning_rate=1",
        .variables = {{.name = "table", .kind = STEPGATE_SPARSE, .dims = {4, 1}, .options = "rows_max=4"}}};
    static const double value[] = {-2, -7, 0, -3};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    cluster_rows(c, 0, 0, INDICES(3, 0), VALUES(2, 1));
    cluster_rows(c, 1, 0, 0, NULL, 0, NULL);
    cluster_rows(c, 2, 0, INDICES(0, 1, 3), VALUES(3, 7, 4));
    RUN(c, 0, 1);
    GS(c, 0);
    RUN(c, 2);
    GS(c, 1);
    for (uint64_t i = 0; i < 4; i++)
        EXACT(c, 0, i, value[i]);
    return 0;
}

/* tf_absent -- a gradient that nobody has moves nothing. */
static int tf_absent(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "update=tf initial_tokens=0 learning_rate=1",
        .variables = {{.name = "a"}, {.name = "b", .initial_count = 1, .initial = {5}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++) {
        GRADIENT(c, w, 0, 2 + 2 * w);
        cluster_absent(c, w, 1);
    }
    RUN(c, 0, 1);
    GS(c, 1);
    EXACT(c, 0, 0, -3);
    EXACT(c, 1, 0, 5);
    return 0;
}

/* tf_skipped -- the mean is over those who have it; what nobody has stays, though momentum would move it. */
static int tf_skipped(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "update=tf initial_tokens=0 learning_rate=1 optimizer=momentum momentum=0.5",
        .variables = {{.name = "a"}, {.name = "b", .initial_count = 1, .initial = {5}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 2);
    GRADIENT(c, 0, 1, 4);
    GRADIENT(c, 1, 0, 4);
    cluster_absent(c, 1, 1);
    RUN(c, 0, 1);
    GS(c, 1);
    EXACT(c, 0, 0, -3);
    EXACT(c, 1, 0, 1);
    for (uint32_t w = 0; w < 2; w++) {
        GRADIENT(c, w, 0, 0);
        cluster_absent(c, w, 1);
    }
    RUN(c, 0, 1);
    GS(c, 2);
    EXACT(c, 0, 0, -4.5);
    EXACT(c, 1, 0, 1);
    return 0;
}

/* tf_all_absent -- is an error, and the step can be abandoned or handed in again. */
static int tf_all_absent(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 1, .keys = "update=tf", .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    struct session_model *model = c->worker[0].model;
    for (uint32_t v = 0; v < 2; v++)
        CHECK(c, session_absent(model, v, cluster_now(c)) == 0, "absent is refused");
    int status = session_finish(model, 1, cluster_now(c));
    CHECK(c, status == -STEPGATE_EINVAL, "a contribution without any gradient gives %d", status);
    CHECK(c, session_finish(model, 0, cluster_now(c)) == 0, "it cannot be abandoned");
    c->worker[0].state = CLUSTER_WAITS;
    TRY(cluster_settle(c));
    VERDICT(c, 0, EMPTY, 0);
    GS(c, 0);
    return 0;
}

/* tf_averages -- start at the initial value, and follow by a fixed decay, or by one that is driven by the step: 2/11 first. */
static int tf_averages(struct stage *stage)
{
    static const struct cluster_job fixed = {
        .keys = "update=tf learning_rate=1 average_decay=0.75",
        .variables = {{.name = "v", .initial_count = 1, .initial = {8}}}};
    static const struct cluster_job driven = {
        .keys = "update=tf learning_rate=1 average_decay=0.2 average_by_step=yes",
        .variables = {{.name = "v", .initial_count = 1, .initial = {11}}}};
    struct cluster *c;

    TRY(stage_open(stage, &fixed, &c));
    GRADIENT(c, 0, 0, 4);
    AVERAGE(c, 0, 0, 8);
    RUN(c, 0);
    EXACT(c, 0, 0, 4);
    AVERAGE(c, 0, 0, 8 - 0.25 * (8 - 4));
    RUN(c, 0); /* with the one initial token, at step 0: dropped */
    RUN(c, 0);
    EXACT(c, 0, 0, 0);
    AVERAGE(c, 0, 0, 7 - 0.25 * (7 - 0));

    TRY(stage_open(stage, &driven, &c));
    GRADIENT(c, 0, 0, 11);
    RUN(c, 0);
    EXACT(c, 0, 0, 0);
    AVERAGE(c, 0, 0, 11 - (1 - 2.0 / 11) * 11);
    RUN(c, 0, 0);
    EXACT(c, 0, 0, -11);
    AVERAGE(c, 0, 0, 2 - (1 - 0.2) * (2 + 11)); /* (1 + 2) / (10 + 2) is more than the decay */
    return 0;
}

/* tf_errors -- a model without variables; a step before the model is committed is the library's to refuse. */
static int tf_errors(struct stage *stage)
{
    static const struct cluster_job empty = {.workers = 2, .keys = "update=tf"};
    static const struct cluster_job tokens = {.keys = "initial_tokens=1", .variables = {{.name = "v"}}};
    static const struct cluster_job total = {
        .workers = 2, .keys = "update=tf total_num_replicas=3", .variables = {{.name = "v"}}};

    TRY(cluster_refused(stage->ground, &empty, STEPGATE_EINVAL, "no variable"));
    TRY(cluster_refused(stage->ground, &tokens, STEPGATE_EINVAL, "initial_tokens is set, but"));
    return cluster_refused(stage->ground, &total, STEPGATE_EINVAL, "total_num_replicas is 3");
}

/* tf_dead_worker -- the reference's weakness, kept here: tokens of one that is gone are taken by others, and the job goes on. */
static int tf_dead_worker(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=tf replicas_to_aggregate=1 initial_tokens=0",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    TRY(cluster_lose(c, 1));
    RUN(c, 0);
    LOCAL(c, 0, 1);
    RUN(c, 0);
    LOCAL(c, 0, 1);
    RUN(c, 0);
    LOCAL(c, 0, 2);
    COUNTED(c, 0, 2, 1);
    GS(c, 2);
    return 0;
}

/* tf_tokens_used_up -- a contribution that is dropped or abandoned has taken its token: when none is left the job ends, and says whose they were. */
static int tf_tokens_used_up(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=tf initial_tokens=0 non_finite=drop", .variables = {{.name = "v"}}};
    struct cluster *c;

    for (int abandons = 0; abandons < 2; abandons++) {
        TRY(stage_open(stage, &job, &c));
        RUN(c, 0, 1);
        GS(c, 1);
        if (abandons != 0)
            c->worker[1].weight = 0;
        else
            GRADIENT(c, 1, 0, (double)NAN);
        RUN(c, 0, 1);
        FAILED(c, 0, STEPGATE_ELOST,
               "every worker waits for a token of step 1 of model m, and none can come; 1 ");
        FAILED(c, 1, STEPGATE_ELOST,
               abandons != 0 ? "used up a token each: 1 abandoned or empty (of worker 1)"
                             : "used up a token each: 1 dropped as not finite (of worker 1)");
        stage_drop(stage);
    }
    return 0;
}

/* tf_departed -- whoever left is not said to be lost, and the other way round. */
static int tf_departed(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=tf initial_tokens=0", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    TRY(cluster_leave(c, 1));
    RUN(c, 0);
    FAILED(c, 0, STEPGATE_ELOST, "worker 1 has left, every other one waits for a token");
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(cluster_lose(c, 1));
    RUN(c, 0);
    FAILED(c, 0, STEPGATE_ELOST, "worker 1 is lost, every other one waits for a token");
    stage_drop(stage);
    return 0;
}

const struct scenario scenario_tf[] = {
    {"tf_a_stale_push_is_success_and_not_counted", tf_stale_push, false},
    {"tf_counts_contributions_not_workers", tf_counts_contributions, false},
    {"tf_tokens_are_one_queue_for_everybody", tf_one_queue, false},
    {"tf_tokens_per_step", tf_tokens_per_step, false},
    {"tf_initial_tokens_are_r_by_default", tf_default_tokens, false},
    {"tf_initial_tokens_are_at_least_r_minus_t", tf_tokens_of_r_and_t, false},
    {"tf_more_replicas_than_workers_take_several_batches", tf_several_batches, false},
    {"tf_rows_are_divided_by_those_who_brought_them", tf_rows, false},
    {"tf_a_gradient_that_nobody_has_moves_nothing", tf_absent, false},
    {"tf_an_absent_gradient_is_skipped", tf_skipped, false},
    {"tf_all_gradients_absent_is_an_error", tf_all_absent, false},
    {"tf_averages_start_at_the_initial_value", tf_averages, false},
    {"tf_what_cannot_be_is_refused", tf_errors, false},
    {"tf_a_dead_worker_leaves_its_tokens", tf_dead_worker, false},
    {"tf_tokens_that_are_used_up_end_the_job", tf_tokens_used_up, false},
    {"tf_whoever_left_is_not_called_lost", tf_departed, false},
    {NULL, NULL, false}};
