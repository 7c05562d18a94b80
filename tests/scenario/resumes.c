/* SPDX-License-Identifier: BSD-3-Clause */
/* resumes -- a job that ends in the middle and goes on from its newest checkpoint is the job that did not end: to the bit. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "tests/scenario/inside.h"
#include "tests/scenario/restart.h"
#include "tests/scenario/scenario.h"
#include "transport/base/error.h"

/* resumes_killed -- a job that is killed after some steps; what it has written is left in the store. */
static int resumes_killed(struct stage *stage, struct store *store, struct cluster_job job, uint64_t salt)
{
    struct cluster *c;

    store_start(store, RESTART_EVERY);
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    CHECK(c, c->worker[0].start.restored == 0 && c->worker[0].start.step == 0, "it does not begin anew");
    TRY(restart_play(c, 0, RESTART_EVERY, salt));
    TRY(restart_written(c, RESTART_EVERY));
    TRY(restart_play(c, RESTART_EVERY, RESTART_KILL, salt));
    stage_drop(stage);
    return 0;
}

/* resumes_pair -- a job is killed and goes on in another form; another one is never killed. */
static int resumes_pair(struct stage *stage, struct store *store, const struct cluster_job *before,
                        const struct cluster_job *after)
{
    struct cluster_job job = *after;
    struct cluster *whole, *c;

    TRY(resumes_killed(stage, store, *before, 0));
    TRY(stage_open(stage, before, &whole));
    TRY(restart_play(whole, 0, RESTART_END, 0));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, RESTART_EVERY));
    TRY(restart_play(c, RESTART_EVERY, RESTART_END, 1));
    TRY(restart_same(c, whole));
    TRY(restart_written(c, 2 * RESTART_EVERY));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* resumes_compare -- the same, whatever becomes of it nothing is left in the store. */
static int resumes_compare(struct stage *stage, const struct cluster_job *before,
                           const struct cluster_job *after)
{
    struct store store;

    store_start(&store, RESTART_EVERY);
    int status = resumes_pair(stage, &store, before, after);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage); /* before the store goes */
    store_clear(&store);
    return status;
}

/* resumes_every_optimizer -- values, slots, averages, masters, powers, and the rate of each step. */
static int resumes_every_optimizer(struct stage *stage)
{
    static const char *const keys[] = {
        "optimizer=sgd warmup_steps=6",
        "optimizer=momentum average_decay=0.9 learning_rate=0.1",
        "optimizer=nesterov l2_decay=0.01 learning_rate=0.1",
        "optimizer=adagrad schedule=exponential learning_rate_steps=2 learning_rate_factor=0.5",
        "optimizer=rmsprop momentum=0.5 learning_rate=0.01 clip_norm=20",
        "optimizer=adam average_decay=0.99 average_by_step=yes clip_global_norm=3 learning_rate=0.1",
        "optimizer=adamw formula=torch schedule=cosine learning_rate_steps=20 learning_rate=0.1",
        "optimizer=none"};

    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        const struct cluster_job job = restart_job(keys[k], 2, 1, 1);
        TRY(resumes_compare(stage, &job, &job));
    }
    return 0;
}

/* resumes_other_layout -- another number of ps and of lanes reads what there is. */
static int resumes_other_layout(struct stage *stage)
{
    static const uint32_t shapes[][4] = {{1, 1, 2, 2}, {3, 2, 1, 1}, {2, 1, 3, 3}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const char *keys = "optimizer=adam average_decay=0.9 learning_rate=0.1";
        const struct cluster_job before = restart_job(keys, 2, shapes[i][0], shapes[i][1]),
                                 after = restart_job(keys, 2, shapes[i][2], shapes[i][3]);
        TRY(resumes_compare(stage, &before, &after));
    }
    return 0;
}

/* resumes_many_replicas -- R > T. */
static int resumes_many_replicas(struct stage *stage)
{
    const struct cluster_job job =
        restart_job("replicas_to_aggregate=5 optimizer=momentum learning_rate=0.1", 2, 2, 1);

    return resumes_compare(stage, &job, &job);
}

/* resumes_policies -- contributions that are told one by one, though all must come. */
static int resumes_policies(struct stage *stage)
{
    const struct cluster_job job =
        restart_job("non_finite=skip optimizer=momentum learning_rate=0.1", 3, 2, 2);

    return resumes_compare(stage, &job, &job);
}

/* resumes_told -- the newest checkpoint names the contributors of every step before it, those of before the job was killed, too; counters of workers go on. */
static int resumes_told(struct cluster *c, const struct cluster *whole, const struct store *store,
                        const uint32_t *sets)
{
    const struct archive_state *state = &store->steps[store_newest(store)].state;

    CHECK(c, state->set_count == state->step, "%zu sets are in the checkpoint of step %llu", state->set_count,
          (unsigned long long)state->step);
    for (size_t i = 0; i < state->set_count; i++) {
        uint32_t ranks = 0;
        for (uint32_t k = 0; k < state->sets[i].count; k++)
            ranks |= 1u << state->sets[i].ranks[k];
        CHECK(c, state->sets[i].step == i && ranks == sets[i], "set %zu is of step %llu, ranks %#x, not %#x",
              i, (unsigned long long)state->sets[i].step, ranks, sets[i]);
    }
    for (uint32_t w = 0; w < c->workers; w++) {
        uint64_t is = cluster_counts(c, w).accepted, right = cluster_counts(whole, w).accepted;
        CHECK(c, is == right && right > 0, "%llu contributions of worker %u were accepted, not %llu",
              (unsigned long long)is, w, (unsigned long long)right);
    }
    return 0;
}

/* resumes_sets -- R < T: a job that is killed and goes on, with the sets that another one has recorded. */
static int resumes_sets(struct stage *stage)
{
    struct cluster_job job =
        restart_job("replicas_to_aggregate=2 optimizer=momentum learning_rate=0.1", 3, 2, 1);
    struct cluster *whole, *c;
    struct store store;
    uint32_t sets[CLUSTER_SETS_MAX];

    TRY(stage_open(stage, &job, &whole));
    TRY(restart_play(whole, 0, RESTART_END, 0));
    memcpy(sets, whole->sets, sizeof(sets));
    job.replay = sets;
    TRY(resumes_killed(stage, &store, job, 1));
    job.store = &store;
    int status = stage_open(stage, &job, &c);
    if (status == 0)
        status = restart_began(c, RESTART_EVERY);
    if (status == 0)
        status = restart_play(c, RESTART_EVERY, RESTART_END, 2);
    if (status == 0)
        status = restart_same(c, whole);
    for (uint64_t s = RESTART_EVERY; status == 0 && s < RESTART_END; s++)
        if (c->sets[s] != sets[s])
            status = FAIL(stage->ground, "step %llu is made by others", (unsigned long long)s);
    if (status == 0)
        status = restart_written(c, 2 * RESTART_EVERY);
    if (status == 0)
        status = resumes_told(c, whole, &store, sets);
    if (status == 0)
        status = stage_close(stage);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage);
    store_clear(&store);
    return status;
}

/* resumes_turns -- one worker after the other, each contribution a step. */
static int resumes_turns(struct cluster *c, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        uint32_t w = (uint32_t)(step % c->workers);
        restart_gradients(c, w, step);
        RUN(c, w);
        GS(c, step + 1);
    }
    return 0;
}

/* resumes_alone -- async and bounded: in one order of acts there is one result. */
static int resumes_alone(struct stage *stage, const char *keys, struct store *store)
{
    struct cluster_job job = restart_job(keys, 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(resumes_turns(whole, 0, RESTART_END));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(resumes_turns(c, 0, RESTART_EVERY));
    TRY(restart_written(c, RESTART_EVERY));
    TRY(resumes_turns(c, RESTART_EVERY, RESTART_KILL));
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, RESTART_EVERY));
    TRY(resumes_turns(c, RESTART_EVERY, RESTART_END));
    TRY(restart_same(c, whole));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* resumes_every_mode -- tf goes on with new tokens, async and bounded with new clocks. */
static int resumes_every_mode(struct stage *stage)
{
    static const char *const alone[] = {"update=async optimizer=momentum learning_rate=0.1",
                                        "update=bounded bound=1 optimizer=momentum learning_rate=0.1"};
    const struct cluster_job tf =
        restart_job("update=tf initial_tokens=0 optimizer=momentum learning_rate=0.1", 2, 2, 1);

    TRY(resumes_compare(stage, &tf, &tf));
    for (size_t m = 0; m < 2; m++) {
        struct store store;
        store_start(&store, RESTART_EVERY);
        int status = resumes_alone(stage, alone[m], &store);
        while (status != 0 && stage->job_count > 0)
            stage_drop(stage);
        store_clear(&store);
        TRY(status);
    }
    return 0;
}

/* resumes_tune -- worker 0 changes what holds from a step on, as it comes to step `at`. */
static int resumes_tune(struct cluster *c, uint64_t step)
{
    static const struct {
        uint64_t at, from;
        const char *key, *value;
    } changes[] = {{1, 2, "learning_rate", "0.5"},
                   {2, 3, "learning_rate", "0.25"},
                   {2, 3, "clip_value", "1.5"},
                   {3, RESTART_EVERY, "momentum", "0.75"},
                   {3, RESTART_KILL + 1, "learning_rate", "0.125"}};

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (changes[i].at == step)
            CHECK(c,
                  session_tune(c->worker[0].model, changes[i].key, changes[i].value, changes[i].from,
                               cluster_now(c)) == 0,
                  "%s cannot be changed", changes[i].key);
    return 0;
}

/* resumes_tuned -- steps with these changes. */
static int resumes_tuned(struct cluster *c, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        TRY(resumes_tune(c, step));
        TRY(cluster_settle(c));
        TRY(restart_step(c, step, 0));
    }
    return 0;
}

/* resumes_changes_in -- see below. */
static int resumes_changes_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=1 clip_value=4", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(resumes_tuned(whole, 0, RESTART_END));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(resumes_tuned(c, 0, RESTART_EVERY));
    TRY(restart_written(c, RESTART_EVERY));
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, RESTART_EVERY));
    TRY(resumes_tuned(c, RESTART_EVERY, RESTART_END));
    TRY(restart_same(c, whole));
    TRY(restart_written(c, 2 * RESTART_EVERY));
    stage_drop(stage);
    /* and once more, from a checkpoint of a job that has not made the changes itself */
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, 2 * RESTART_EVERY));
    TRY(resumes_tuned(c, 2 * RESTART_EVERY, RESTART_END));
    TRY(restart_same(c, whole));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* resumes_changes -- what holds by then, and what is still to come. */
static int resumes_changes(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, resumes_changes_in);
}

/* resumes_own_in -- see below. */
static int resumes_own_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = {
        .workers = 2,
        .shards = 2,
        .variables =
            {{.name = "a"},
             {.name = "mine", .kind = STEPGATE_AUX, .dims = {3000}, .initial_count = 1, .initial = {7}}},
        .cut_bytes = 5000,
        .store = store};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (uint32_t w = 0; w < 2; w++)
        GRADIENT(c, w, 1, 10 + w, 20 + w, 30 + w);
    RUN(c, 0, 1);
    GS(c, 1);
    cluster_absent(c, 1, 1); /* worker 1 keeps what it has */
    GRADIENT(c, 0, 1, 11, 21, 31);
    RUN(c, 0, 1);
    TRY(restart_written(c, 2));
    stage_drop(stage);
    job.workers = 3;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, 2));
    RUN(c, 0, 1, 2);
    for (uint64_t i = 0; i < 3000; i++) {
        PULLED(c, 0, 1, i, 11 + 10 * (double)(i % 3));
        PULLED(c, 1, 1, i, 11 + 10 * (double)(i % 3));
    }
    PULLED(c, 2, 1, 0, 0.74705881); /* what it gives as its initial value: 0x3f3f3f3f */
    return 0;
}

/* resumes_own -- aux variables go back to their workers; a rank that was not there begins with its own. */
static int resumes_own(struct stage *stage)
{
    return restart_in(stage, 1, resumes_own_in);
}

/* resumes_frozen_in -- see below. */
static int resumes_frozen_in(struct stage *stage, struct store *store)
{
    const struct cluster_job job = {
        .shards = 2,
        .keys = "average_decay=0.5",
        .variables =
            {{.name = "a"},
             {.name = "still", .dims = {4}, .options = "frozen=yes", .initial_count = 2, .initial = {3, 4}},
             {.name = "plain", .options = "average=no", .initial_count = 1, .initial = {9}}},
        .store = store};
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    RUN(c, 0);
    RUN(c, 0);
    RUN(c, 0);
    TRY(restart_written(c, 3));
    double a = cluster_value(c, 0, 0), plain = cluster_value(c, 2, 0);
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, 3));
    for (int i = 0; i < 2; i++) { /* in both parities */
        for (uint64_t e = 0; e < 4; e++)
            EXACT(c, 1, e, 3 + (double)(e % 2));
        if (i == 0) {
            EXACT(c, 0, 0, a);
            EXACT(c, 2, 0, plain);
        }
        RUN(c, 0);
    }
    return 0;
}

/* resumes_frozen -- what never changes, and what is not averaged. */
static int resumes_frozen(struct stage *stage)
{
    return restart_in(stage, 3, resumes_frozen_in);
}

/* resumes_damaged_in -- see below. */
static int resumes_damaged_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(restart_play(whole, 0, RESTART_END, 0));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_play(c, 0, RESTART_EVERY, 0));
    TRY(restart_written(c, RESTART_EVERY));
    TRY(restart_play(c, RESTART_EVERY, 2 * RESTART_EVERY, 0));
    TRY(restart_written(c, 2 * RESTART_EVERY));
    stage_drop(stage);
    store->steps[2 * RESTART_EVERY].damaged = true;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, RESTART_EVERY));
    CHECK(c, strstr(c->said, "the checkpoint of step 8 is not taken: the part of step 8 is damaged") != NULL,
          "it was said: %s", c->said);
    TRY(restart_play(c, RESTART_EVERY, RESTART_END, 0));
    TRY(restart_same(c, whole));
    stage_drop(stage);
    stage_drop(stage);
    /* where none is left that can be read, nothing begins anew in silence */
    store->steps[RESTART_EVERY].damaged = store->steps[2 * RESTART_EVERY].damaged = true;
    if (cluster_open(stage->ground, &job, &c) == 0) {
        cluster_drop(&c);
        return FAIL(stage->ground, "it begins anew");
    }
    if (strstr(stage->ground->why, "can be read") == NULL)
        return -1;
    return 0;
}

/* resumes_damaged -- one that cannot be read is refused, the one before is taken. */
static int resumes_damaged(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, resumes_damaged_in);
}

/* resumes_other_model_in -- see below. */
static int resumes_other_model_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;

    TRY(resumes_killed(stage, store, job, 0));
    job.store = store;
    job.keys = "optimizer=momentum learning_rate=0.2";
    if (cluster_open(stage->ground, &job, &c) == 0) {
        cluster_drop(&c);
        return FAIL(stage->ground, "another model goes on");
    }
    return strstr(stage->ground->why, "the checkpoint is of another model m") != NULL ? 0 : -1;
}

/* resumes_other_model -- does not go on with it. */
static int resumes_other_model(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, resumes_other_model_in);
}

/* resumes_late_in -- see below. */
static int resumes_late_in(struct stage *stage, struct store *store)
{
    static const uint64_t shifts[] = {32765, 40000, 65532, 131071};
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 2);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(restart_play(whole, 0, RESTART_END, 0));
    TRY(resumes_killed(stage, store, job, 0));
    job.store = store;
    store->archive.every_steps = 0;
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        store->shift = shifts[i];
        TRY(stage_open(stage, &job, &c));
        TRY(restart_began(c, shifts[i] + RESTART_EVERY));
        for (uint64_t step = RESTART_EVERY; step < RESTART_END; step++) {
            for (uint32_t w = 0; w < 2; w++) {
                restart_gradients(c, w, step * 10);
                RUN(c, w);
            }
            GS(c, shifts[i] + step + 1);
        }
        for (uint32_t v = 0; v < c->variables; v++)
            for (uint64_t e = 0; e < c->elements[v]; e++)
                TRY(restart_element(c, "element", v, e, cluster_value(c, v, e), cluster_value(whole, v, e)));
        stage_drop(stage);
    }
    return 0;
}

/* resumes_late -- of steps whose number does not fit the bits of an announcement. */
static int resumes_late(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, resumes_late_in);
}

const struct scenario scenario_resumes[] = {
    {"checkpoint_and_resume_gives_the_bits_of_a_run_without", resumes_every_optimizer, false},
    {"checkpoint_is_read_by_other_shards_and_lanes", resumes_other_layout, false},
    {"checkpoint_and_resume_with_more_replicas_than_workers", resumes_many_replicas, false},
    {"checkpoint_and_resume_with_a_policy", resumes_policies, false},
    {"checkpoint_and_resume_with_recorded_sets", resumes_sets, false},
    {"checkpoint_and_resume_in_every_mode", resumes_every_mode, false},
    {"checkpoint_keeps_changes_of_hyper_parameters", resumes_changes, false},
    {"checkpoint_keeps_what_is_a_workers_own", resumes_own, false},
    {"checkpoint_keeps_what_is_frozen", resumes_frozen, false},
    {"checkpoint_that_is_damaged_is_not_taken", resumes_damaged, false},
    {"checkpoint_of_another_model_is_not_taken", resumes_other_model, false},
    {"checkpoint_of_a_large_step", resumes_late, false},
    {NULL, NULL, false}};
