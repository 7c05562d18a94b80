/* SPDX-License-Identifier: BSD-3-Clause */
/* modes -- async, bounded, and optimizer = none. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/scenario/scenario.h"
#include "transport/base/clock.h"

/* modes_async -- each contribution is a step of its own, on every shard, with its staleness. */
static int modes_async(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .keys = "update=async learning_rate=1",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++)
        for (uint32_t v = 0; v < 2; v++)
            GRADIENT(c, w, v, 1 << w);
    RUN(c, 0);
    GS(c, 1);
    LOCAL(c, 0, 1);
    VERDICT(c, 0, APPLIED, 0);
    RUN(c, 1);
    GS(c, 2);
    LOCAL(c, 1, 2);
    CHECK(c, c->worker[1].info.staleness == 1, "staleness %llu",
          (unsigned long long)c->worker[1].info.staleness);
    RUN(c, 0, 0);
    GS(c, 4);
    CHECK(c, c->worker[0].info.staleness == 0, "staleness %llu",
          (unsigned long long)c->worker[0].info.staleness);
    RUN(c, 2);
    GS(c, 5);
    LOCAL(c, 2, 5);
    VERDICT(c, 2, APPLIED, 4);
    CHECK(c, c->worker[2].info.staleness == 4, "staleness %llu",
          (unsigned long long)c->worker[2].info.staleness);
    for (uint32_t v = 0; v < 2; v++)
        EXACT(c, v, 0, -(1 + 2 + 1 + 1 + 4));
    COUNTED(c, 0, 3, 0);
    COUNTED(c, 2, 1, 0);
    return 0;
}

/* modes_async_pull -- is what is there now, and says from which step to which; whoever else runs meanwhile. */
static int modes_async_pull(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3,
        .shards = 2,
        .lanes = 2,
        .keys = "update=async learning_rate=1",
        .variables = {{.name = "a", .dims = {9000}}, {.name = "b"}, {.name = "c", .dims = {64}}},
        .cut_bytes = 20000,
        .group_bytes = 4096};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    LOCAL(c, 2, 0);
    RUN(c, 2);
    CHECK(c, c->worker[2].pulls[0].lowest == 2 && c->worker[2].pulls[0].highest == 2,
          "steps %llu to %llu are pulled", (unsigned long long)c->worker[2].pulls[0].lowest,
          (unsigned long long)c->worker[2].pulls[0].highest);
    for (int round = 0; round < 6; round++) {
        for (uint32_t w = 0; w < 3; w++)
            TRY(cluster_start(c, w));
        TRY(cluster_settle(c));
    }
    GS(c, 21);
    return 0;
}

/* modes_async_weight -- the weight of one that is alone cancels out; an abandoned one is no step. */
static int modes_async_weight(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=async learning_rate=1 non_finite=drop", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 4);
    c->worker[0].weight = 3;
    RUN(c, 0);
    EXACT(c, 0, 0, -4);
    c->worker[0].weight = 0;
    RUN(c, 0);
    GS(c, 1);
    VERDICT(c, 0, EMPTY, 1);
    LOCAL(c, 0, 1);
    GRADIENT(c, 1, 0, (double)NAN);
    RUN(c, 1);
    GS(c, 1);
    VERDICT(c, 1, NON_FINITE, 0);
    EXACT(c, 0, 0, -4);
    return 0;
}

/* modes_async_lost -- nobody needs the others. */
static int modes_async_lost(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=async", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 1);
    TRY(cluster_lose(c, 1));
    RUN(c, 0, 0);
    GS(c, 3);
    return 0;
}

/* modes_in_vain -- everybody goes on contributing until the job has failed, or for much longer than its deadline. */
static int modes_in_vain(struct cluster *c)
{
    uint64_t until = clock_after(cluster_now(c), 10 * c->job.step_timeout_ms);

    while (cluster_now(c) < until && c->worker[0].state != CLUSTER_FAILED) {
        for (uint32_t w = 0; w < c->workers; w++)
            if (c->worker[w].state == CLUSTER_HAS_TOKEN)
                TRY(cluster_start(c, w));
        TRY(cluster_let(c, 20));
    }
    return 0;
}

/* modes_nothing_counts -- nobody waits for anybody, and yet no step is taken: that has a deadline, too, from the last step on. */
static int modes_nothing_counts(struct stage *stage)
{
    static const char *const keys[] = {"update=async non_finite=drop",
                                       "update=bounded bound=1 non_finite=drop",
                                       "update=tf initial_tokens=1000000 non_finite=drop"};
    struct cluster *c;

    for (size_t m = 0; m < 3; m++) {
        const struct cluster_job job = {.workers = 2,
                                        .shards = 2,
                                        .keys = keys[m],
                                        .step_timeout_ms = 600,
                                        .stall_report_ms = 200,
                                        .variables = {{.name = "a"}, {.name = "b"}}};
        TRY(stage_open(stage, &job, &c));
        GRADIENT(c, 0, 0, (double)NAN);
        GRADIENT(c, 0, 1, (double)NAN);
        c->worker[1].weight = 0;
        TRY(modes_in_vain(c));
        CHECK(c, strstr(c->said, "m, step 0: not complete after ") != NULL, "it was said: %s", c->said);
        FAILED(c, 0, STEPGATE_ESTEPTIME, "step 0 of model m is not complete");
        FAILED(c, 0, STEPGATE_ESTEPTIME, "dropped as not finite (of worker 0), ");
        FAILED(c, 1, STEPGATE_ESTEPTIME, "abandoned or empty (of worker 1)");
        stage_drop(stage);
    }
    return 0;
}

/* modes_something_counts -- what counts for nothing between steps ends no job, however long it goes on. */
static int modes_something_counts(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .keys = "update=async non_finite=drop learning_rate=1",
                                           .step_timeout_ms = 1500,
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 1, 0, (double)NAN);
    uint64_t until = clock_after(cluster_now(c), 2 * job.step_timeout_ms), steps = 0;
    while (cluster_now(c) < until) {
        RUN(c, 1);
        TRY(cluster_let(c, 100));
        RUN(c, 1, 0);
        steps++;
    }
    GS(c, steps);
    return 0;
}

/* modes_bounded -- more than s ahead of the slowest waits for its token; the slowest lets it go on. */
static int modes_bounded(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "update=bounded bound=2 learning_rate=1", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 0);
    LOCAL(c, 0, 2);
    RUN(c, 0);
    WAITS(c, 0);
    GS(c, 3); /* what it has given is a step all the same */
    RUN(c, 1);
    WAITS(c, 0); /* w2 is the slowest now */
    RUN(c, 2);
    LOCAL(c, 0, 5);
    GS(c, 5);
    RUN(c, 0);
    WAITS(c, 0);
    RUN(c, 2, 1);
    LOCAL(c, 0, 8);
    return 0;
}

/* modes_bounded_zero -- keeps them together. */
static int modes_bounded_zero(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "update=bounded bound=0", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t round = 0; round < 3; round++) {
        RUN(c, 0);
        WAITS(c, 0);
        RUN(c, 1);
        LOCAL(c, 0, 2 * (round + 1));
        LOCAL(c, 1, 2 * (round + 1));
    }
    return 0;
}

/* modes_bounded_lost -- the slowest live worker is what counts. */
static int modes_bounded_lost(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "update=bounded bound=1", .variables = {{.name = "v"}}};
    static const struct cluster_job no_bound = {.keys = "update=bounded", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 0);
    WAITS(c, 0);
    RUN(c, 1);
    WAITS(c, 0);
    TRY(cluster_lose(c, 2));
    LOCAL(c, 0, 3);
    RUN(c, 0);
    WAITS(c, 0);
    TRY(cluster_leave(c, 1));
    LOCAL(c, 0, 4);
    return cluster_refused(stage->ground, &no_bound, STEPGATE_EINVAL, "there is no bound");
}

/* modes_none -- the mean itself is what a pull gives; whatever was there before. */
static int modes_none(struct stage *stage)
{
    static const char *const keys[] = {"optimizer=none", "optimizer=none replicas_to_aggregate=4",
                                       "optimizer=none update=tf initial_tokens=0"};
    static const struct cluster_job alone = {.keys = "optimizer=none update=async",
                                             .variables = {{.name = "v"}}};
    struct cluster *c;

    for (size_t m = 0; m < 3; m++) {
        const struct cluster_job job = {.workers = 2,
                                        .keys = keys[m],
                                        .variables = {{.name = "a", .initial_count = 1, .initial = {50}},
                                                      {.name = "wide", .dtype = STEPGATE_F64},
                                                      {.name = "table",
                                                       .kind = STEPGATE_SPARSE,
                                                       .dims = {3, 1},
                                                       .options = "rows_max=1",
                                                       .initial_count = 1,
                                                       .initial = {9}}}};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 2; w++) {
            GRADIENT(c, w, 0, 2 + 4 * w);
            GRADIENT(c, w, 1, 2 + 4 * w);
            cluster_rows(c, w, 2, INDICES(w), VALUES(3 + 2 * w));
        }
        for (uint32_t i = 0; i < (m == 1 ? 2u : 1u); i++)
            RUN(c, 0, 1);
        GS(c, 1);
        GRADIENT(c, 0, 0, 0);
        RUN(c, 0);
        for (uint32_t v = 0; v < 2; v++)
            PULLED(c, 0, v, 0, 4);
        PULLED(c, 0, 2, 0, 3);
        PULLED(c, 0, 2, 1, 5);
        PULLED(c, 0, 2, 2, 9);
    }
    return cluster_refused(stage->ground, &alone, STEPGATE_EINVAL, "nothing to apply in update async");
}

const struct scenario scenario_modes[] = {
    {"async_each_contribution_is_a_step", modes_async, false},
    {"async_a_pull_tells_its_steps", modes_async_pull, false},
    {"async_weights_and_what_is_left_out", modes_async_weight, false},
    {"async_goes_on_without_a_lost_worker", modes_async_lost, false},
    {"async_contributions_in_vain_have_a_deadline", modes_nothing_counts, false},
    {"async_contributions_in_vain_between_steps_do_not", modes_something_counts, false},
    {"bounded_whoever_is_too_far_ahead_waits", modes_bounded, false},
    {"bounded_by_zero_keeps_everybody_together", modes_bounded_zero, false},
    {"bounded_counts_live_workers", modes_bounded_lost, false},
    {"none_publishes_the_mean", modes_none, false},
    {NULL, NULL, false}};
