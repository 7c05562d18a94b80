/* SPDX-License-Identifier: BSD-3-Clause */
/* steps -- the step, in both modes. */
#include <stddef.h>

#include "tests/scenario/scenario.h"

static const char *const steps_modes[] = {"replicas_to_aggregate=2", "update=tf initial_tokens=0"};

/* steps_push_waits_for_nobody -- everything of a contribution is out although nobody else has come; then its worker waits. */
static int steps_push_waits_for_nobody(struct stage *stage)
{
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {
            .workers = 2, .shards = 2, .keys = steps_modes[m], .variables = {{.name = "a"}, {.name = "b"}}};
        TRY(stage_open(stage, &job, &c));
        RUN(c, 1);
        WAITS(c, 1);
        LOCAL(c, 0, 0);
        GS(c, 0);
        RUN(c, 0);
        GS(c, 1);
    }
    return 0;
}

/* steps_taken_once -- the R-th contribution takes the step: every variable of every shard moves once, and so do the slots. */
static int steps_taken_once(struct stage *stage)
{
    static const char *const keys[] = {
        "optimizer=momentum momentum=0.5 learning_rate=1",
        "update=tf initial_tokens=0 optimizer=momentum momentum=0.5 learning_rate=1"};
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {
            .workers = 2,
            .shards = 3,
            .lanes = 2,
            .keys = keys[m],
            .variables = {{.name = "a"}, {.name = "b"}, {.name = "c", .dims = {9000}}},
            .cut_bytes = 20000};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 2; w++)
            for (uint32_t v = 0; v < 3; v++)
                GRADIENT(c, w, v, 1 + 2 * w);
        RUN(c, 0);
        for (uint32_t v = 0; v < 3; v++)
            EXACT(c, v, 0, 0);
        RUN(c, 1);
        GS(c, 1);
        for (uint32_t v = 0; v < 3; v++) {
            EXACT(c, v, c->elements[v] - 1, -2);
            SLOT(c, v, 0, c->elements[v] - 1, 2);
        }
        for (uint32_t s = 0; s < 3; s++) {
            struct shard_stats stats;
            shard_stats(c->ps[s].shard, &stats);
            CHECK(c, stats.steps == 1, "ps %u has taken %llu steps", s, (unsigned long long)stats.steps);
        }
        RUN(c, 1, 0);
        GS(c, 2);
        for (uint32_t v = 0; v < 3; v++)
            EXACT(c, v, 0, -2 - 3);
    }
    return 0;
}

/* steps_rate_of_the_step_before -- the update that makes gs k uses the rate of step k - 1. */
static int steps_rate_of_the_step_before(struct stage *stage)
{
    static const struct cluster_job job = {
        .keys = "schedule=exponential learning_rate=8 learning_rate_factor=0.5 learning_rate_steps=1",
        .variables = {{.name = "v"}}};
    static const double value[] = {-8, -12, -14};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 1);
    for (uint64_t k = 1; k <= 3; k++) {
        RUN(c, 0);
        GS(c, k);
        EXACT(c, 0, 0, value[k - 1]);
    }
    return 0;
}

/* steps_token_sets_the_local_step -- and what is pulled with it is that step, whole and applied. */
static int steps_token_sets_the_local_step(struct stage *stage)
{
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {.workers = 2,
                                        .shards = 2,
                                        .lanes = 2,
                                        .keys = steps_modes[m],
                                        .variables = {{.name = "a"}, {.name = "b"}}};
        TRY(stage_open(stage, &job, &c));
        for (uint64_t step = 0; step < 3; step++) {
            for (uint32_t w = 0; w < 2; w++) {
                LOCAL(c, w, step);
                RUN(c, w);
                PULLED(c, w, 0, 0, -0.4 * (double)step);
                PULLED(c, w, 1, 0, -0.4 * (double)step);
            }
        }
    }
    return 0;
}

/* steps_everybody_at_once -- no order of acts at all: whoever has a token runs; what is pulled is one step, every time. */
static int steps_everybody_at_once(struct stage *stage)
{
    static const char *const keys[] = {"replicas_to_aggregate=3", "replicas_to_aggregate=2",
                                       "update=tf replicas_to_aggregate=2"};
    struct cluster *c;

    for (size_t m = 0; m < sizeof(keys) / sizeof(keys[0]); m++) {
        const struct cluster_job job = {
            .workers = 3,
            .shards = 2,
            .lanes = 2,
            .keys = keys[m],
            .variables = {{.name = "a", .dims = {9000}}, {.name = "b"}, {.name = "c", .dims = {4096}}},
            .cut_bytes = 20000,
            .group_bytes = 4096};
        TRY(stage_open(stage, &job, &c));
        for (int round = 0; round < 12; round++) {
            for (uint32_t w = 0; w < 3; w++)
                if (c->worker[w].state == CLUSTER_HAS_TOKEN)
                    TRY(cluster_start(c, w));
            TRY(cluster_settle(c));
        }
        CHECK(c, cluster_gs(c) != UINT64_MAX && cluster_gs(c) >= 4, "only step %lld after 12 rounds",
              (long long)cluster_gs(c));
    }
    return 0;
}

/* steps_stale_is_never_applied -- ls < gs: the values stay, also where it comes late several steps. */
static int steps_stale_is_never_applied(struct stage *stage)
{
    static const char *const keys[] = {"replicas_to_aggregate=1",
                                       "update=tf replicas_to_aggregate=1 initial_tokens=0"};
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {.workers = 2, .keys = keys[m], .variables = {{.name = "v"}}};
        TRY(stage_open(stage, &job, &c));
        GRADIENT(c, 1, 0, 1000);
        RUN(c, 0);
        GS(c, 1);
        NEAR(c, 0, 0, -0.2);
        RUN(c, 0);
        GS(c, 2);
        NEAR(c, 0, 0, -0.4);
        RUN(c, 1);
        GS(c, 2);
        NEAR(c, 0, 0, -0.4);
        VERDICT(c, 1, STALE, 0);
        COUNTED(c, 1, 0, 1);
    }
    return 0;
}

/* steps_chief_declares -- worker 0 gives the initial values, what others give is not looked at; after that all are alike. */
static int steps_chief_declares(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .shards = 2,
        .variables = {{.name = "a", .dims = {3}, .initial_count = 3, .initial = {1, 2, 3}},
                      {.name = "b", .initial_count = 1, .initial = {-7}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t i = 0; i < 3; i++)
        EXACT(c, 0, i, 1 + (double)i);
    EXACT(c, 1, 0, -7);
    RUN(c, 1, 0);
    for (uint32_t w = 0; w < 2; w++) {
        PULLED(c, w, 0, 2, 3);
        PULLED(c, w, 1, 0, -7);
    }
    GS(c, 1);
    return 0;
}

const struct scenario scenario_steps[] = {
    {"step_a_push_waits_for_nobody", steps_push_waits_for_nobody, false},
    {"step_the_rth_contribution_takes_it_exactly_once", steps_taken_once, false},
    {"step_k_is_made_with_the_rate_of_the_step_before", steps_rate_of_the_step_before, false},
    {"step_a_token_sets_the_local_step", steps_token_sets_the_local_step, false},
    {"step_is_pulled_whole_whoever_runs", steps_everybody_at_once, false},
    {"step_a_stale_contribution_is_never_applied", steps_stale_is_never_applied, false},
    {"step_the_chief_declares_and_then_all_are_alike", steps_chief_declares, false},
    {NULL, NULL, false}};
