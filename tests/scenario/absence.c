/* SPDX-License-Identifier: BSD-3-Clause */
/* absence -- strict mode: workers that are lost while the job goes on, and those that come back. */
#include "tests/scenario/scenario.h"

/* absence_of_a_backup -- R < T: while R are left the job goes on, and with fewer it ends and names who is missing. What was pushed to a part of the ps never counts. */
static int absence_of_a_backup(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 4,
                                           .shards = 2,
                                           .keys = "replicas_to_aggregate=2",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1);
    GS(c, 1);
    TRY(cluster_lose(c, 2));
    RUN(c, 0, 1);
    GS(c, 2);
    RUN(c, 3);
    VERDICT(c, 3, STALE, 0);
    RUN(c, 0);
    TRY(cluster_lose(c, 0)); /* what it has handed in counts */
    RUN(c, 1);
    GS(c, 3);
    TRY(cluster_lose(c, 3));
    RUN(c, 1);
    FAILED(c, 1, STEPGATE_ELOST, "takes 2 contributions, and there are 1 of 4 workers: worker 0 is lost");
    stage_drop(stage);
    return 0;
}

/* absence_back -- R = T: the job waits for who is lost, which goes on from the current step; what it had pushed of it counts, if all of it was there, and then once. */
static int absence_back(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 3,
        .shards = 2,
        .lost = MODE_LOST_WAIT,
        .keys = "learning_rate=1",
        .variables = {{.name = "a", .initial_count = 1, .initial = {8}}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++) {
        GRADIENT(c, w, 0, 3);
        GRADIENT(c, w, 1, 6);
    }
    RUN(c, 0, 1, 2);
    GS(c, 1);
    TRY(cluster_lose(c, 1));
    RUN(c, 0, 2);
    WAITS(c, 0);
    GS(c, 1);
    TRY(cluster_return(c, 1));
    LOCAL(c, 1, 1);
    RUN(c, 1);
    GS(c, 2);
    RUN(c, 0); /* complete: it counts although its worker is gone */
    TRY(cluster_lose(c, 0));
    RUN(c, 1, 2);
    GS(c, 3);
    TRY(cluster_return(c, 0)); /* worker 0 initializes nothing again */
    LOCAL(c, 0, 3);
    EXACT(c, 0, 0, -1);
    EXACT(c, 1, 0, -18);
    TRY(cluster_lose(c, 0));
    TRY(cluster_lose(c, 1));
    TRY(cluster_lose(c, 2));
    TRY(cluster_return(c, 2));
    TRY(cluster_return(c, 0));
    RUN(c, 2, 0);
    TRY(cluster_return(c, 1));
    RUN(c, 1);
    GS(c, 4);
    COUNTED(c, 0, 4, 0);
    EXACT(c, 0, 0, -4);
    return 0;
}

/* absence_back_many -- R > T: a part of what a worker gives to a step is given anew when it comes back. */
static int absence_back_many(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .shards = 2,
                                           .lost = MODE_LOST_WAIT,
                                           .keys = "learning_rate=1 replicas_to_aggregate=4",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0, 1, 0, 1);
    GS(c, 1);
    GRADIENT(c, 0, 0, 100);
    RUN(c, 0); /* one of two */
    TRY(cluster_lose(c, 0));
    RUN(c, 1, 1);
    GS(c, 1);
    TRY(cluster_return(c, 0));
    GRADIENT(c, 0, 0, 1);
    GRADIENT(c, 1, 0, 1);
    LOCAL(c, 0, 1);
    RUN(c, 0, 0);
    GS(c, 2);
    RUN(c, 0, 1, 1, 0);
    GS(c, 3);
    return 0;
}

/* absence_backup_back -- R < T: who comes back takes part again, from the current step on. */
static int absence_backup_back(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .keys = "replicas_to_aggregate=2",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    TRY(cluster_lose(c, 2));
    RUN(c, 0, 1);
    RUN(c, 0, 1);
    GS(c, 2);
    TRY(cluster_return(c, 2));
    LOCAL(c, 2, 2);
    TRY(cluster_lose(c, 0));
    RUN(c, 2, 1);
    GS(c, 3);
    VERDICT(c, 2, APPLIED, 2);
    return 0;
}

/* absence_shrinks -- R becomes what those that are left can give, and grows again with who comes back. */
static int absence_shrinks(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .lost = MODE_LOST_SHRINK,
                                           .keys = "learning_rate=1",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++) {
        GRADIENT(c, w, 0, w + 1);
        GRADIENT(c, w, 1, 1);
    }
    RUN(c, 0, 1, 2);
    EXACT(c, 0, 0, -2);
    RUN(c, 0, 1);
    TRY(cluster_lose(c, 2)); /* those that wait for it go on */
    GS(c, 2);
    EXACT(c, 0, 0, -3.5);
    RUN(c, 1);
    WAITS(c, 1);
    RUN(c, 0);
    GS(c, 3);
    EXACT(c, 0, 0, -5);
    TRY(cluster_return(c, 2));
    LOCAL(c, 2, 3);
    RUN(c, 0, 1);
    WAITS(c, 0);
    RUN(c, 2);
    GS(c, 4);
    EXACT(c, 0, 0, -7);
    TRY(cluster_leave(c, 0)); /* it has no more data: the others finish */
    RUN(c, 1, 2);
    GS(c, 5);
    TRY(cluster_lose(c, 1));
    RUN(c, 2);
    GS(c, 6);
    return 0;
}

/* absence_shrinks_many -- R > T: each that is left gives as much as before. */
static int absence_shrinks_many(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .lost = MODE_LOST_SHRINK,
                                           .keys = "learning_rate=1 replicas_to_aggregate=5",
                                           .variables = {{.name = "v"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 3; w++)
        GRADIENT(c, w, 0, 5 * (w + 1));
    RUN(c, 0, 1, 2, 0, 1);
    EXACT(c, 0, 0, -9);
    GRADIENT(c, 0, 0, 3);
    GRADIENT(c, 1, 0, 100);
    GRADIENT(c, 2, 0, 6);
    RUN(c, 0, 0, 1);
    TRY(cluster_lose(c, 1)); /* one of its two is there: it does not count */
    WAITS(c, 0);
    RUN(c, 2);
    GS(c, 2);
    EXACT(c, 0, 0, -13);
    return 0;
}

/* absence_in_vain -- who is waited for does not come: the job ends, and says whose loss it was. */
static int absence_in_vain(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .lost = MODE_LOST_WAIT,
                                           .return_ms = 400,
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    TRY(cluster_lose(c, 1));
    RUN(c, 0);
    WAITS(c, 0);
    TRY(cluster_let(c, 200));
    WAITS(c, 0);
    TRY(cluster_let(c, 400));
    FAILED(c, 0, STEPGATE_ELOST, "worker 1 is lost, and did not come back");
    FAILED(c, 2, STEPGATE_ELOST, "worker 1 is lost, and did not come back");
    stage_drop(stage);
    return 0;
}

/* absence_back_aux -- what worker 0 gives as initial values, and what is kept beside the parameters, stays as it was. */
static int absence_back_aux(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .lost = MODE_LOST_WAIT,
        .keys = "learning_rate=1 optimizer=momentum momentum=0.5",
        .variables = {{.name = "v", .initial_count = 1, .initial = {1}},
                      {.name = "x", .kind = STEPGATE_AUX, .initial_count = 1, .initial = {7}}}};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++) {
        GRADIENT(c, w, 0, 2);
        GRADIENT(c, w, 1, 40 + w);
    }
    RUN(c, 0, 1);
    EXACT(c, 0, 0, -1);
    TRY(cluster_lose(c, 0));
    TRY(cluster_return(c, 0));
    if (c->worker[0].start.restored != 2 || c->worker[0].start.step != 1)
        return cluster_fail(stage->ground, __FILE__, __LINE__, "its commit says step %llu, restored %d",
                            (unsigned long long)c->worker[0].start.step, c->worker[0].start.restored);
    RUN(c, 0, 1);
    double aux = cluster_pulled(c, 0, 1, 0);
    if (!(aux >= 40) || aux > 40)
        return cluster_fail(stage->ground, __FILE__, __LINE__, "its aux variable is %g", aux);
    EXACT(c, 0, 0, -4);
    return 0;
}

#define ABSENCE_STEPS 24
#define ABSENCE_ACTS 4000

/* absence_gradient -- of a worker to a step: an integer that any number of them up to 4 divides, so that every mean is exact. */
static double absence_gradient(uint32_t w, uint64_t step, uint32_t v)
{
    return 12 * (double)(1 + (7 * w + 5 * step + 3 * v) % 11);
}

/* absence_expected -- what a variable is after all steps that were taken, as they were recorded. */
static double absence_expected(const struct cluster *c, uint32_t v)
{
    double value = 0;

    for (uint64_t step = 0; step < c->set_count; step++) {
        double sum = 0, count = 0;
        for (uint32_t w = 0; w < c->workers; w++)
            if (c->sets[step] >> w & 1u) {
                sum += absence_gradient(w, step, v);
                count++;
            }
        value -= count > 0 ? sum / count : 0;
    }
    return value;
}

/* absence_act -- something happens to a worker: it hands in, it is lost in the midst of whatever it does, it comes back. */
static int absence_act(struct cluster *c, uint32_t w, uint32_t *lost)
{
    struct cluster_worker *worker = &c->worker[w];

    switch (worker->state) {
    case CLUSTER_HAS_TOKEN:
        for (uint32_t v = 0; v < c->variables; v++)
            GRADIENT(c, w, v, absence_gradient(w, worker->info.step, v));
        TRY(cluster_start(c, w));
        break;
    case CLUSTER_AWAY:
        if (random_chance(&c->random, 300))
            TRY(cluster_return_begin(c, w));
        break;
    case CLUSTER_FAILED:
        return cluster_fail(c->ground, __FILE__, __LINE__, "worker %u has failed: %s", w, worker->text);
    default: break;
    }
    bool dies = worker->state != CLUSTER_AWAY && random_chance(&c->random, 60);
    if (dies && c->job.lost != MODE_LOST_WAIT) { /* as many are left as the job needs */
        uint32_t there = 0, needed = c->job.lost == MODE_LOST_SHRINK ? 1 : 2;
        for (uint32_t i = 0; i < c->workers; i++)
            there += c->worker[i].state != CLUSTER_AWAY && c->worker[i].state != CLUSTER_JOINS &&
                     c->worker[i].state != CLUSTER_COMMITS;
        dies = there > needed;
    }
    if (dies && *lost < 12) {
        cluster_kill(c, w);
        ++*lost;
    }
    return 0;
}

/* absence_random -- whoever is lost at whatever moment, and comes back or not: every step is the mean over the contributions that are recorded, on every shard. */
static int absence_random(struct stage *stage, const struct cluster_job *job)
{
    struct cluster *c;
    uint32_t lost = 0;

    TRY(stage_open(stage, job, &c));
    for (uint32_t act = 0; c->set_count < ABSENCE_STEPS; act++) {
        uint64_t until = cluster_now(c) + UINT64_C(20000000);
        if (act == ABSENCE_ACTS)
            return cluster_fail(stage->ground, __FILE__, __LINE__,
                                "only %llu steps were taken, %u workers were lost",
                                (unsigned long long)c->set_count, lost);
        TRY(absence_act(c, (uint32_t)random_below(&c->random, c->workers), &lost));
        for (uint64_t moves = random_below(&c->random, 12); moves > 0; moves--)
            cluster_pass(c, until);
    }
    TRY(cluster_settle(c));
    for (uint32_t v = 0; v < c->variables; v++)
        EXACT(c, v, 0, absence_expected(c, v));
    for (uint64_t step = 0; job->lost == MODE_LOST_WAIT && step < c->set_count; step++)
        if (c->sets[step] != (1u << c->workers) - 1)
            return cluster_fail(stage->ground, __FILE__, __LINE__, "step %llu is not of all workers: %x",
                                (unsigned long long)step, c->sets[step]);
    if (lost == 0)
        return cluster_fail(stage->ground, __FILE__, __LINE__, "nobody was lost");
    stage_drop(stage);
    return 0;
}

/* absence_random_wait -- R = T: in the end it is as if nobody had ever been lost. */
static int absence_random_wait(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .lanes = 2,
                                           .lost = MODE_LOST_WAIT,
                                           .keys = "learning_rate=1",
                                           .variables = {{.name = "a"}, {.name = "b"}, {.name = "c"}}};
    return absence_random(stage, &job);
}

/* absence_random_many -- R > T. */
static int absence_random_many(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 2,
                                           .shards = 3,
                                           .lost = MODE_LOST_WAIT,
                                           .keys = "learning_rate=1 replicas_to_aggregate=4",
                                           .variables = {{.name = "a"}, {.name = "b"}, {.name = "c"}}};
    return absence_random(stage, &job);
}

/* absence_random_backup -- R < T. */
static int absence_random_backup(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 4,
                                           .shards = 2,
                                           .keys = "learning_rate=1 replicas_to_aggregate=2",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    return absence_random(stage, &job);
}

/* absence_random_shrink_many -- the same with R > T: nobody begins a step that is complete without it. */
static int absence_random_shrink_many(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 3,
                                           .shards = 2,
                                           .lost = MODE_LOST_SHRINK,
                                           .keys = "learning_rate=1 replicas_to_aggregate=6",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    return absence_random(stage, &job);
}

/* absence_random_shrink -- R becomes what is left, and grows again. */
static int absence_random_shrink(struct stage *stage)
{
    static const struct cluster_job job = {.workers = 4,
                                           .shards = 2,
                                           .lost = MODE_LOST_SHRINK,
                                           .keys = "learning_rate=1",
                                           .variables = {{.name = "a"}, {.name = "b"}}};
    return absence_random(stage, &job);
}

const struct scenario scenario_absence[] = {
    {"strict_a_lost_backup_worker_lowers_t", absence_of_a_backup, false},
    {"strict_waits_for_a_lost_worker", absence_back, true},
    {"strict_waits_for_a_lost_worker_with_several_contributions", absence_back_many, false},
    {"strict_a_backup_worker_comes_back", absence_backup_back, false},
    {"strict_shrinks_to_those_that_are_left", absence_shrinks, true},
    {"strict_shrinks_by_what_a_lost_worker_gave", absence_shrinks_many, false},
    {"strict_does_not_wait_for_ever", absence_in_vain, false},
    {"strict_who_comes_back_finds_what_it_had", absence_back_aux, false},
    {"strict_whoever_is_lost_when_the_values_are_the_same", absence_random_wait, false},
    {"strict_whoever_of_several_contributions_is_lost_when_the_values_are_the_same", absence_random_many,
     false},
    {"strict_backup_workers_are_lost_and_come_back_at_any_moment", absence_random_backup, false},
    {"strict_shrinks_at_any_moment", absence_random_shrink, false},
    {"strict_shrinks_at_any_moment_with_several_contributions", absence_random_shrink_many, false},
    {NULL, NULL, false}};
