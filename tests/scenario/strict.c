/* SPDX-License-Identifier: BSD-3-Clause */
/* strict -- what strict mode changes, row by row, and what a contribution weighs. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "tests/scenario/scenario.h"

/* strict_no_batch_wasted -- no initial tokens when R <= T: every batch of every worker counts from step 0 on. */
static int strict_no_batch_wasted(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3, .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t step = 0; step < 4; step++) {
        RUN(c, 2, 0);
        WAITS(c, 0);
        WAITS(c, 2);
        GS(c, step);
        RUN(c, 1);
        for (uint32_t w = 0; w < 3; w++) {
            LOCAL(c, w, step + 1);
            VERDICT(c, w, APPLIED, step);
            COUNTED(c, w, step + 1, 0);
        }
    }
    return 0;
}

/* strict_shares -- R > T: rank r supplies floor(R / T) + (r < R mod T), and waits only behind the last of them. */
static int strict_shares(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "replicas_to_aggregate=5 learning_rate=1", .variables = {{.name = "v"}}};
    static const struct cluster_job many = {
        .workers = 2, .keys = "replicas_to_aggregate=65", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t step = 0; step < 2; step++) {
        for (uint32_t i = 0; i < 3; i++) {
            LOCAL(c, 0, step);
            if (i > 0)
                VERDICT(c, 0, NONE, 0);
            GRADIENT(c, 0, 0, 1 + i);
            RUN(c, 0);
            PULLED(c, 0, 0, 0, -3 * (double)step);
        }
        WAITS(c, 0);
        GRADIENT(c, 1, 0, 4);
        RUN(c, 1);
        LOCAL(c, 1, step);
        GS(c, step);
        GRADIENT(c, 1, 0, 5);
        RUN(c, 1);
        GS(c, step + 1);
        EXACT(c, 0, 0, -3 * (double)(step + 1));
        VERDICT(c, 0, APPLIED, step);
        VERDICT(c, 1, APPLIED, step);
        COUNTED(c, 0, 3 * (step + 1), 0);
        COUNTED(c, 1, 2 * (step + 1), 0);
    }
    return cluster_refused(stage->ground, &many, STEPGATE_EINVAL, "more than 32 of each of 2 workers");
}

/* strict_one_decision -- a push counts for all variables on all shards or for none. */
static int strict_one_decision(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3,
        .shards = 3,
        .lanes = 2,
        .keys = "replicas_to_aggregate=2 learning_rate=1",
        .variables = {{.name = "a", .dims = {9000}},
                      {.name = "b"},
                      {.name = "c", .kind = STEPGATE_SPARSE, .dims = {3, 1}, .options = "rows_max=3"}},
        .cut_bytes = 20000};
    static const double mean[2] = {5.5, 6}; /* of w1 and w2, of w0 and w2 */
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++) {
        GRADIENT(c, w, 0, w == 1 ? 1 : w == 0 ? 2 : 10);
        GRADIENT(c, w, 1, w == 1 ? 1 : w == 0 ? 2 : 10);
        cluster_rows(c, w, 2, INDICES(1), VALUES(w == 1 ? 1 : w == 0 ? 2 : 10));
    }
    RUN(c, 2, 1, 0);
    GS(c, 1);
    VERDICT(c, 0, STALE, 0);
    EXACT(c, 0, 0, -mean[0]);
    EXACT(c, 0, 8999, -mean[0]);
    EXACT(c, 1, 0, -mean[0]);
    EXACT(c, 2, 1, -mean[0]);
    RUN(c, 0, 2, 1);
    GS(c, 2);
    VERDICT(c, 1, STALE, 1);
    EXACT(c, 0, 0, -mean[0] - mean[1]);
    EXACT(c, 0, 8999, -mean[0] - mean[1]);
    EXACT(c, 1, 0, -mean[0] - mean[1]);
    EXACT(c, 2, 1, -mean[0] - mean[1]);
    return 0;
}

/* strict_distinct -- one worker gives one of the R, and then waits. */
static int strict_distinct(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "replicas_to_aggregate=2", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint64_t step = 0; step < 2; step++) {
        RUN(c, 1);
        WAITS(c, 1);
        GS(c, step);
        RUN(c, 2);
        GS(c, step + 1);
    }
    COUNTED(c, 1, 2, 0);
    COUNTED(c, 2, 2, 0);
    return 0;
}

/* strict_exactly_r -- also of many at once; which ones is recorded, and their mean is the step. */
static int strict_exactly_r(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 4, .keys = "replicas_to_aggregate=2 optimizer=none", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 4; w++)
        GRADIENT(c, w, 0, 1u << w);
    for (uint64_t step = 0; step < 6; step++) {
        uint64_t before = cluster_gs(c);
        for (uint32_t w = 0; w < 4; w++)
            if (c->worker[w].state == CLUSTER_HAS_TOKEN)
                TRY(cluster_start(c, w));
        TRY(cluster_settle(c));
        uint64_t now = cluster_gs(c);
        CHECK(c, now == c->set_count && now > before, "step %llu, %llu sets", (unsigned long long)now,
              (unsigned long long)c->set_count);
        for (uint64_t k = before; k < now; k++)
            CHECK(c, __builtin_popcount(c->sets[k]) == 2, "set %x of step %llu", c->sets[k],
                  (unsigned long long)k);
        EXACT(c, 0, 0, c->sets[now - 1] / 2.0);
    }
    return 0;
}

/* strict_told -- the token of one that came late says so, and for which step; it goes on from the step that is open. */
static int strict_told(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "replicas_to_aggregate=2", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1, 0, 1, 0, 1);
    GS(c, 3);
    LOCAL(c, 2, 0);
    RUN(c, 2);
    VERDICT(c, 2, STALE, 0);
    LOCAL(c, 2, 3);
    RUN(c, 2, 0);
    GS(c, 4);
    VERDICT(c, 2, APPLIED, 3);
    VERDICT(c, 0, APPLIED, 3);
    COUNTED(c, 2, 1, 1);
    return 0;
}

/* strict_addressed -- nobody takes the tokens of one that left, and burns batches with them. */
static int strict_addressed(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "replicas_to_aggregate=1", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    TRY(cluster_leave(c, 2));
    for (uint64_t step = 1; step < 5; step++) {
        RUN(c, 0);
        LOCAL(c, 0, step + 1);
        VERDICT(c, 0, APPLIED, step);
    }
    COUNTED(c, 0, 5, 0);
    return 0;
}

/* strict_one_step_each_pull -- one that is slow pulls a step that is there, whole, and is told which. */
static int strict_one_step_each_pull(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .keys = "replicas_to_aggregate=2",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1, 0, 1);
    GS(c, 2);
    LOCAL(c, 2, 0);
    RUN(c, 2);
    for (uint32_t v = 0; v < 2; v++) {
        PULLED(c, 2, v, 0, -0.8);
        CHECK(c, c->worker[2].pulls[v].lowest == 2 && c->worker[2].pulls[v].highest == 2,
              "it has pulled steps %llu to %llu", (unsigned long long)c->worker[2].pulls[v].lowest,
              (unsigned long long)c->worker[2].pulls[v].highest);
    }
    return 0;
}

/* strict_rank_order -- whatever the order of arrival, the shards and the lanes: the same bits, those of a sum by rank. */
static int strict_rank_order(struct stage *stage)
{
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    static const float gradients[3] = {1e8f, 3.1f, -1e8f};
    float sum = gradients[0];
    struct cluster *c;

    sum = sum + gradients[1];
    sum = sum + gradients[2];
    for (uint32_t i = 0; i < 4; i++) {
        const struct cluster_job job = {.workers = 3,
                                        .shards = 1 + i % 3,
                                        .lanes = 1 + i % 2,
                                        .keys = "learning_rate=1",
                                        .variables = {{.name = "a"}, {.name = "b", .dims = {9000}}},
                                        .cut_bytes = 20000,
                                        .group_bytes = 4096};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 3; w++) {
            GRADIENT(c, w, 0, (double)gradients[w]);
            GRADIENT(c, w, 1, (double)gradients[w]);
        }
        RUN(c, orders[i][0], orders[i][1], orders[i][2]);
        EXACT(c, 0, 0, (double)-(sum / 3));
        EXACT(c, 1, 0, (double)-(sum / 3));
        EXACT(c, 1, 8999, (double)-(sum / 3));
        TRY(stage_close(stage));
    }
    return 0;
}

/* strict_averages -- whoever can read the step can read its average. */
static int strict_averages(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .shards = 2,
        .keys = "learning_rate=1 average_decay=0.5",
        .variables = {{.name = "a"}, {.name = "b", .initial_count = 1, .initial = {8}}}};
    static const double a[] = {-4, -8, -12}, average[] = {-2, -5, -8.5}, b[] = {6, 3, -0.5};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t v = 0; v < 2; v++)
            GRADIENT(c, w, v, 4);
    for (uint64_t step = 0; step < 3; step++) {
        RUN(c, 0, 1);
        GS(c, step + 1);
        EXACT(c, 0, 0, a[step]);
        AVERAGE(c, 0, 0, average[step]);
        EXACT(c, 1, 0, 8 + a[step]);
        AVERAGE(c, 1, 0, b[step]);
    }
    return 0;
}

/* strict_propagate -- the default: a NaN counts like any other number, and whoever pushed it is not told otherwise. */
static int strict_propagate(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2, .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 1, 0, (double)NAN);
    RUN(c, 0, 1);
    GS(c, 1);
    EXACT(c, 0, 0, (double)NAN);
    VERDICT(c, 1, APPLIED, 0);
    return 0;
}

/* strict_drop -- that contribution counts for nothing, with the reason; with R = T the others' mean is the step. */
static int strict_drop(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "non_finite=drop learning_rate=1", .variables = {{.name = "a"}, {.name = "b"}}};
    static const struct cluster_job spare = {.workers = 3,
                                             .keys =
                                                 "non_finite=drop learning_rate=1 replicas_to_aggregate=2",
                                             .variables = {{.name = "a"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 1);
    GRADIENT(c, 0, 1, 2);
    GRADIENT(c, 1, 0, 100);
    GRADIENT(c, 1, 1, (double)INFINITY);
    RUN(c, 1, 0);
    GS(c, 1);
    EXACT(c, 0, 0, -1);
    EXACT(c, 1, 0, -2);
    VERDICT(c, 0, APPLIED, 0);
    VERDICT(c, 1, NON_FINITE, 0);
    CHECK(c, cluster_counts(c, 1).non_finite == 1, "it is not counted");

    TRY(stage_open(stage, &spare, &c));
    GRADIENT(c, 0, 0, (double)NAN);
    GRADIENT(c, 1, 0, 2);
    GRADIENT(c, 2, 0, 4);
    RUN(c, 0, 1);
    GS(c, 0);
    RUN(c, 2);
    GS(c, 1);
    EXACT(c, 0, 0, -3);
    VERDICT(c, 0, NON_FINITE, 0);
    return 0;
}

/* strict_fail -- the job ends for everybody, and says whose it was. */
static int strict_fail(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .shards = 2, .keys = "non_finite=fail", .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 2, 1, (double)-INFINITY);
    RUN(c, 0, 2);
    for (uint32_t w = 0; w < 3; w++)
        FAILED(c, w, STEPGATE_ENONFINITE, "worker 2");
    EXACT(c, 0, 0, 0);
    EXACT(c, 1, 0, 0);
    stage_drop(stage);
    return 0;
}

/* strict_skip -- one that is not finite makes nobody apply; the step moves on, and every token says so. */
static int strict_skip(struct stage *stage)
{
    static const char *const keys[] = {
        "non_finite=skip optimizer=momentum momentum=0.5 learning_rate=1",
        "update=tf initial_tokens=0 non_finite=skip optimizer=momentum momentum=0.5 "
        "learning_rate=1"};
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {
            .workers = 2, .shards = 2, .keys = keys[m], .variables = {{.name = "a"}, {.name = "b"}}};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 2; w++)
            for (uint32_t v = 0; v < 2; v++)
                GRADIENT(c, w, v, 2);
        RUN(c, 0, 1);
        EXACT(c, 0, 0, -2);
        GRADIENT(c, 0, 1, (double)NAN);
        RUN(c, 0, 1);
        GS(c, 2);
        for (uint32_t w = 0; w < 2; w++) {
            VERDICT(c, w, SKIPPED, 1);
            LOCAL(c, w, 2);
        }
        for (uint32_t v = 0; v < 2; v++) {
            EXACT(c, v, 0, -2);
            SLOT(c, v, 0, 0, 2);
        }
        GRADIENT(c, 0, 1, 2);
        RUN(c, 0, 1);
        GS(c, 3);
        EXACT(c, 0, 0, -5);
        EXACT(c, 1, 0, -5);
        VERDICT(c, 0, APPLIED, 2);
    }
    return 0;
}

/* strict_weights -- mean = sum(w g) / sum(w). */
static int strict_weights(struct stage *stage)
{
    static const char *const updates[] = {"optimizer=none", "optimizer=none update=tf initial_tokens=0"};
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {
            .workers = 2,
            .keys = updates[u],
            .variables = {
                {.name = "v"},
                {.name = "table", .kind = STEPGATE_SPARSE, .dims = {3, 1}, .options = "rows_max=3"}}};
        TRY(stage_open(stage, &job, &c));
        GRADIENT(c, 0, 0, 2);
        GRADIENT(c, 1, 0, 10);
        cluster_rows(c, 0, 1, INDICES(0, 1), VALUES(2, 5));
        cluster_rows(c, 1, 1, INDICES(1, 2), VALUES(9, 7));
        c->worker[0].weight = 3;
        RUN(c, 0, 1);
        EXACT(c, 0, 0, (3 * 2 + 10) / 4.0);
        EXACT(c, 1, 0, 2);
        EXACT(c, 1, 1, (3 * 5 + 9) / 4.0);
        EXACT(c, 1, 2, 7);
    }
    return 0;
}

/* strict_weights_wide -- weights that f32 has not: in f64 they count as they are, the same for every kind of variable; in f32 the nearest ones do. */
static int strict_weights_wide(struct stage *stage)
{
    static const char *const updates[] = {"optimizer=none", "optimizer=none update=tf initial_tokens=0"};
    const double weights[2] = {0.1, 0.7}, sum = 0.1 * 3 + 0.7 * 5, mean = sum / (0.1 + 0.7);
    const float narrow = (float)weights[0] * 3 + (float)weights[1] * 5, divisor = (float)(0.1 + 0.7);
    struct cluster *c;

    for (size_t u = 0; u < 2; u++) {
        const struct cluster_job job = {
            .workers = 2,
            .keys = updates[u],
            .variables = {{.name = "wide", .dtype = STEPGATE_F64},
                          {.name = "table",
                           .kind = STEPGATE_SPARSE,
                           .dtype = STEPGATE_F64,
                           .dims = {2, 1},
                           .options = "rows_max=2"},
                          {.name = "kept", .kind = STEPGATE_ASSIGNED, .dtype = STEPGATE_F64},
                          {.name = "narrow"}}};
        TRY(stage_open(stage, &job, &c));
        for (uint32_t w = 0; w < 2; w++) {
            for (uint32_t v = 0; v < 4; v++)
                if (v != 1)
                    GRADIENT(c, w, v, 3 + 2 * w);
            cluster_rows(c, w, 1, INDICES(1), VALUES(3 + 2 * w));
            c->worker[w].weight = weights[w];
        }
        if (u == 0)
            RUN(c, 1, 0); /* summed by rank */
        else
            RUN(c, 0, 1); /* summed as they come */
        EXACT(c, 0, 0, mean);
        EXACT(c, 1, 1, mean);
        EXACT(c, 2, 0, mean);
        EXACT(c, 3, 0, (double)(narrow / divisor));
    }
    return 0;
}

/* strict_product_not_formed -- with all weights 1 what is added are the gradients themselves. */
static int strict_product_not_formed(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .keys = "optimizer=none", .variables = {{.name = "v"}}};
    static const float g[3] = {1.1f, 2.3f, 1e-8f};
    float sum = g[0] + g[1];
    struct cluster *c;

    sum = sum + g[2];
    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++)
        GRADIENT(c, w, 0, (double)g[w]);
    RUN(c, 2, 1, 0);
    EXACT(c, 0, 0, (double)(sum / 3));
    return 0;
}

/* strict_empty -- an abandoned contribution counts for nothing: with R = T the others make the step, with R < T another takes its place. */
static int strict_empty(struct stage *stage)
{
    static const struct cluster_job all = {
        .workers = 2, .keys = "learning_rate=1", .variables = {{.name = "v"}}};
    static const struct cluster_job spare = {
        .workers = 3, .keys = "learning_rate=1 replicas_to_aggregate=2", .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &all, &c));
    GRADIENT(c, 0, 0, 100);
    GRADIENT(c, 1, 0, 4);
    c->worker[0].weight = 0;
    RUN(c, 0, 1);
    GS(c, 1);
    EXACT(c, 0, 0, -4);
    VERDICT(c, 0, EMPTY, 0);
    VERDICT(c, 1, APPLIED, 0);
    c->worker[1].weight = 0;
    RUN(c, 1, 0); /* nobody's: the values stay, the step goes on */
    GS(c, 2);
    EXACT(c, 0, 0, -4);
    VERDICT(c, 1, EMPTY, 1);

    TRY(stage_open(stage, &spare, &c));
    GRADIENT(c, 0, 0, 100);
    GRADIENT(c, 1, 0, 2);
    GRADIENT(c, 2, 0, 6);
    c->worker[0].weight = 0;
    RUN(c, 0, 1);
    GS(c, 0);
    RUN(c, 2);
    GS(c, 1);
    EXACT(c, 0, 0, -4);
    VERDICT(c, 0, EMPTY, 0);
    return 0;
}

/* strict_wrong_weight -- what is no weight is refused, and changes nothing. */
static int strict_wrong_weight(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 1, .keys = "learning_rate=1", .variables = {{.name = "v"}}};
    static const double wrong[] = {-1, 1e-31, 1e31, (double)NAN, (double)INFINITY};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    CHECK(c, session_absent(c->worker[0].model, 0, cluster_now(c)) == 0, "absent is refused");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int status = session_finish(c->worker[0].model, wrong[i], cluster_now(c));
        CHECK(c, status == -STEPGATE_EINVAL, "a weight of %g gives %d", wrong[i], status);
    }
    CHECK(c, session_finish(c->worker[0].model, 1, cluster_now(c)) == 0, "a weight of 1 is refused");
    c->worker[0].state = CLUSTER_WAITS;
    TRY(cluster_settle(c));
    VERDICT(c, 0, APPLIED, 0);
    return 0;
}

/* strict_absent_is_zero -- an absent gradient of one worker counts as zeros in the mean over everybody. */
static int strict_absent_is_zero(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2, .keys = "learning_rate=1", .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 4);
    GRADIENT(c, 0, 1, 4);
    cluster_absent(c, 1, 0);
    GRADIENT(c, 1, 1, 2);
    RUN(c, 0, 1);
    EXACT(c, 0, 0, -2);
    EXACT(c, 1, 0, -3);
    return 0;
}

/* strict_lost -- a worker that dies ends the job of R = T; everybody learns who it was. */
static int strict_lost(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .shards = 2, .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    TRY(cluster_lose(c, 2));
    FAILED(c, 0, STEPGATE_ELOST, "worker 2");
    FAILED(c, 1, STEPGATE_ELOST, "worker 2");
    stage_drop(stage);
    return 0;
}

/* strict_too_late -- a deadline for steps: who is missing is named. */
static int strict_too_late(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3, .step_timeout_ms = 200, .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    TRY(cluster_let(c, 500)); /* nobody waits for anybody yet */
    RUN(c, 0, 1);
    WAITS(c, 0);
    TRY(cluster_let(c, 500));
    for (uint32_t w = 0; w < 3; w++)
        FAILED(c, w, STEPGATE_ESTEPTIME, "waiting for worker 2");
    stage_drop(stage);
    return 0;
}

/* strict_leaving -- one that leaves lowers T: while R are there the job goes on, with fewer it fails and names who is missing. */
static int strict_leaving(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 4,
                                           .shards = 2,
                                           .keys = "replicas_to_aggregate=2",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    TRY(cluster_leave(c, 3));
    TRY(cluster_leave(c, 0));
    RUN(c, 1, 2); /* w2 is late, then takes part */
    GS(c, 1);
    RUN(c, 2);
    GS(c, 2);
    TRY(cluster_leave(c, 1));
    RUN(c, 2);
    FAILED(c, 2, STEPGATE_ELOST, "worker 0 left");
    stage_drop(stage);
    return 0;
}

/* strict_leave_in_lockstep -- where everybody is in every step, whoever goes on alone learns who has left. */
static int strict_leave_in_lockstep(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2, .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    TRY(cluster_leave(c, 1));
    LOCAL(c, 0, 1);
    RUN(c, 0);
    FAILED(c, 0, STEPGATE_ELOST, "worker 1 left");
    stage_drop(stage);
    return 0;
}

/* strict_leave_within_a_step -- what somebody has given to a step that will not come any more keeps nobody from ending well. */
static int strict_leave_within_a_step(struct stage *stage)
{
    static const char *const keys[] = {"replicas_to_aggregate=2", "replicas_to_aggregate=4"};
    struct cluster *c;

    for (size_t m = 0; m < 2; m++) {
        const struct cluster_job job = {
            .workers = 2, .shards = 2, .keys = keys[m], .variables = {{.name = "a"}, {.name = "b"}}};
        TRY(stage_open(stage, &job, &c));
        RUN(c, 0);
        TRY(cluster_leave(c, 0));
        LOCAL(c, 1, 0);
        TRY(stage_close(stage));
    }
    return 0;
}

const struct scenario scenario_strict[] = {
    {"strict_wastes_no_batch", strict_no_batch_wasted, false},
    {"strict_more_replicas_than_workers_are_shared_out", strict_shares, false},
    {"strict_a_push_counts_for_everything_or_nothing", strict_one_decision, false},
    {"strict_only_distinct_workers_count", strict_distinct, false},
    {"strict_takes_exactly_r_and_records_them", strict_exactly_r, false},
    {"strict_tells_who_came_late", strict_told, false},
    {"strict_tokens_are_addressed", strict_addressed, false},
    {"strict_a_pull_is_of_one_step", strict_one_step_each_pull, false},
    {"strict_sums_by_rank_in_every_layout", strict_rank_order, false},
    {"strict_averages_are_those_of_the_step", strict_averages, false},
    {"strict_propagates_what_is_not_finite", strict_propagate, false},
    {"strict_drops_what_is_not_finite", strict_drop, false},
    {"strict_fails_and_says_whose_it_was", strict_fail, false},
    {"skip_makes_nobody_apply", strict_skip, false},
    {"weights_weigh_the_mean", strict_weights, false},
    {"weights_are_rounded_to_the_type_of_the_variable_alone", strict_weights_wide, false},
    {"weights_of_one_form_no_product", strict_product_not_formed, false},
    {"weights_of_zero_count_for_nothing", strict_empty, false},
    {"weights_that_are_none_are_refused", strict_wrong_weight, false},
    {"strict_an_absent_gradient_counts_as_zeros", strict_absent_is_zero, false},
    {"strict_a_lost_worker_is_named", strict_lost, false},
    {"strict_a_step_that_lasts_names_who_is_missing", strict_too_late, false},
    {"strict_whoever_leaves_lowers_t", strict_leaving, false},
    {"strict_leaving_lockstep_is_named", strict_leave_in_lockstep, false},
    {"strict_leaving_within_a_step_harms_nobody", strict_leave_within_a_step, false},
    {NULL, NULL, false}};
