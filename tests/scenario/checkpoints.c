/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoints -- a job that ends in the middle and goes on from its newest checkpoint is the job that did not end: to the bit. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "tests/scenario/inside.h"
#include "tests/scenario/scenario.h"
#include "transport/base/error.h"

#define CHECKPOINTS_EVERY 4 /* steps from one to the next */
#define CHECKPOINTS_KILL 6  /* steps that a job takes before all of it is killed */
#define CHECKPOINTS_END 9   /* and those that there are */

/* checkpoints_job -- variables of all types and kinds; one is cut, where there are several ps. */
static struct cluster_job checkpoints_job(const char *keys, uint32_t workers, uint32_t shards, uint32_t lanes)
{
    return (struct cluster_job){
        .workers = workers,
        .shards = shards,
        .lanes = lanes,
        .keys = keys,
        .cut_bytes = 17000,
        .group_bytes = 9000,
        .variables = {
            {.name = "a", .dims = {9000}, .initial_count = 3, .initial = {1, -2, 0.25}},
            {.name = "half", .dtype = STEPGATE_F16, .dims = {5000}, .initial_count = 2, .initial = {0.5, 3}},
            {.name = "table",
             .kind = STEPGATE_SPARSE,
             .dtype = STEPGATE_F64,
             .dims = {40, 3},
             .options = "rows_max=4",
             .initial_count = 2,
             .initial = {-1, 1}},
            {.name = "statistics", .kind = STEPGATE_ASSIGNED, .dims = {7}}}};
}

/* checkpoints_number -- some number for a worker's part of a step: many digits, and the same in every run. */
static double checkpoints_number(uint64_t step, uint32_t w, uint32_t v, uint32_t i)
{
    uint64_t mixed =
        (step + 1) * 2654435761u ^ (w + 1u) * 40503u ^ (v + 1u) * 9176263u ^ (i + 1u) * 73856093u;

    mixed ^= mixed >> 15;
    return ((double)(mixed % 4001) - 2000) / 1024;
}

/* checkpoints_gradients -- what a worker contributes to a step is given by the step. */
static void checkpoints_gradients(struct cluster *c, uint32_t w, uint64_t step)
{
    const struct model *declared = session_model_declared(c->worker[w].model);

    for (uint32_t v = 0; v < c->variables; v++) {
        double values[6];
        for (uint32_t i = 0; i < 6; i++)
            values[i] = checkpoints_number(step, w, v, i);
        const uint64_t rows[2] = {(step * 5 + w) % 19, 20 + (step * 3 + v) % 19};
        if (declared->variables[v].kind == STEPGATE_SPARSE)
            cluster_rows(c, w, v, 2, rows, 6, values);
        else
            cluster_gradient(c, w, v, 5, values);
    }
}

/* checkpoints_step -- everybody contributes, as often as it must; who begins depends on `salt`. */
static int checkpoints_step(struct cluster *c, uint64_t step, uint64_t salt)
{
    const struct model *declared = session_model_declared(c->worker[0].model);

    for (uint32_t i = 0; i < model_quota(declared, c->workers, 0); i++)
        for (uint32_t k = 0; k < c->workers; k++) {
            uint32_t w = (uint32_t)((k + step * 7 + salt) % c->workers);
            if (i >= model_quota(declared, c->workers, w))
                continue;
            checkpoints_gradients(c, w, step * 10 + i);
            RUN(c, w);
        }
    GS(c, step + 1);
    return 0;
}

/* checkpoints_play -- all steps from `from` to `to`. */
static int checkpoints_play(struct cluster *c, uint64_t from, uint64_t to, uint64_t salt)
{
    for (uint64_t step = from; step < to; step++)
        TRY(checkpoints_step(c, step, salt));
    return 0;
}

/* checkpoints_element -- one number of two jobs; NaN: neither has it. */
static int checkpoints_element(const struct cluster *c, const char *what, uint32_t v, uint64_t element,
                               double is, double must_be)
{
    CHECK(c, memcmp(&is, &must_be, sizeof(is)) == 0 || (isnan(is) && isnan(must_be)),
          "%s %llu of variable %u is %.17g, not %.17g", what, (unsigned long long)element, v, is, must_be);
    return 0;
}

/* checkpoints_same -- values, slots and averages of two jobs have the same bits. */
static int checkpoints_same(const struct cluster *c, const struct cluster *other)
{
    const struct model *declared = session_model_declared(c->worker[0].model);

    for (uint32_t v = 0; v < c->variables; v++) {
        bool states = (declared->variables[v].kind == STEPGATE_TRAINED ||
                       declared->variables[v].kind == STEPGATE_SPARSE) &&
                      !declared->variables[v].frozen;
        for (uint64_t i = 0; i < c->elements[v] && declared->variables[v].kind != STEPGATE_AUX; i++) {
            TRY(checkpoints_element(c, "element", v, i, cluster_value(c, v, i), cluster_value(other, v, i)));
            for (unsigned s = 0; states && s < model_optimizer_slots(declared); s++)
                TRY(checkpoints_element(c, "slot element", v, i, cluster_slot(c, v, s, i),
                                        cluster_slot(other, v, s, i)));
            if (states && declared->average_decay > 0)
                TRY(checkpoints_element(c, "average element", v, i, cluster_average(c, v, i),
                                        cluster_average(other, v, i)));
        }
    }
    return 0;
}

/* checkpoints_written -- until the newest checkpoint is of that step: a thread of its own writes it. */
static int checkpoints_written(struct cluster *c, uint64_t step)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);

    while (store_newest(c->job.store) != step && cluster_now(c) < until)
        cluster_pass(c, until);
    CHECK(c, store_newest(c->job.store) == step, "the newest checkpoint is of step %lld, not %llu",
          (long long)store_newest(c->job.store), (unsigned long long)step);
    return 0;
}

/* checkpoints_began -- every worker knows where it goes on. */
static int checkpoints_began(struct cluster *c, uint64_t step)
{
    for (uint32_t w = 0; w < c->workers; w++) {
        CHECK(c, c->worker[w].start.restored == 1 && c->worker[w].start.step == step,
              "commit tells worker %u: restored %d, step %llu", w, c->worker[w].start.restored,
              (unsigned long long)c->worker[w].start.step);
        LOCAL(c, w, step);
    }
    GS(c, step);
    return 0;
}

/* checkpoints_killed -- a job that is killed after some steps; what it has written is left in the store. */
static int checkpoints_killed(struct stage *stage, struct store *store, struct cluster_job job, uint64_t salt)
{
    struct cluster *c;

    store_start(store, CHECKPOINTS_EVERY);
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    CHECK(c, c->worker[0].start.restored == 0 && c->worker[0].start.step == 0, "it does not begin anew");
    TRY(checkpoints_play(c, 0, CHECKPOINTS_EVERY, salt));
    TRY(checkpoints_written(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_play(c, CHECKPOINTS_EVERY, CHECKPOINTS_KILL, salt));
    stage_drop(stage);
    return 0;
}

/* checkpoints_pair -- a job is killed and goes on in another form; another one is never killed. */
static int checkpoints_pair(struct stage *stage, struct store *store, const struct cluster_job *before,
                            const struct cluster_job *after)
{
    struct cluster_job job = *after;
    struct cluster *whole, *c;

    TRY(checkpoints_killed(stage, store, *before, 0));
    TRY(stage_open(stage, before, &whole));
    TRY(checkpoints_play(whole, 0, CHECKPOINTS_END, 0));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_play(c, CHECKPOINTS_EVERY, CHECKPOINTS_END, 1));
    TRY(checkpoints_same(c, whole));
    TRY(checkpoints_written(c, 2 * CHECKPOINTS_EVERY));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* checkpoints_compare -- the same, whatever becomes of it nothing is left in the store. */
static int checkpoints_compare(struct stage *stage, const struct cluster_job *before,
                               const struct cluster_job *after)
{
    struct store store;

    store_start(&store, CHECKPOINTS_EVERY);
    int status = checkpoints_pair(stage, &store, before, after);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage); /* before the store goes */
    store_clear(&store);
    return status;
}

/* checkpoints_every_optimizer -- values, slots, averages, masters, powers, and the rate of each step. */
static int checkpoints_every_optimizer(struct stage *stage)
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
        const struct cluster_job job = checkpoints_job(keys[k], 2, 1, 1);
        TRY(checkpoints_compare(stage, &job, &job));
    }
    return 0;
}

/* checkpoints_other_layout -- another number of ps and of lanes reads what there is. */
static int checkpoints_other_layout(struct stage *stage)
{
    static const uint32_t shapes[][4] = {{1, 1, 2, 2}, {3, 2, 1, 1}, {2, 1, 3, 3}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const char *keys = "optimizer=adam average_decay=0.9 learning_rate=0.1";
        const struct cluster_job before = checkpoints_job(keys, 2, shapes[i][0], shapes[i][1]),
                                 after = checkpoints_job(keys, 2, shapes[i][2], shapes[i][3]);
        TRY(checkpoints_compare(stage, &before, &after));
    }
    return 0;
}

/* checkpoints_many_replicas -- R > T. */
static int checkpoints_many_replicas(struct stage *stage)
{
    const struct cluster_job job =
        checkpoints_job("replicas_to_aggregate=5 optimizer=momentum learning_rate=0.1", 2, 2, 1);

    return checkpoints_compare(stage, &job, &job);
}

/* checkpoints_policies -- contributions that are told one by one, though all must come. */
static int checkpoints_policies(struct stage *stage)
{
    const struct cluster_job job =
        checkpoints_job("non_finite=skip optimizer=momentum learning_rate=0.1", 3, 2, 2);

    return checkpoints_compare(stage, &job, &job);
}

/* checkpoints_sets -- R < T: a job that is killed and goes on, with the sets that another one has recorded. */
static int checkpoints_sets(struct stage *stage)
{
    struct cluster_job job =
        checkpoints_job("replicas_to_aggregate=2 optimizer=momentum learning_rate=0.1", 3, 2, 1);
    struct cluster *whole, *c;
    struct store store;
    uint32_t sets[CLUSTER_SETS_MAX];

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_play(whole, 0, CHECKPOINTS_END, 0));
    memcpy(sets, whole->sets, sizeof(sets));
    job.replay = sets;
    TRY(checkpoints_killed(stage, &store, job, 1));
    job.store = &store;
    int status = stage_open(stage, &job, &c);
    if (status == 0)
        status = checkpoints_began(c, CHECKPOINTS_EVERY);
    if (status == 0)
        status = checkpoints_play(c, CHECKPOINTS_EVERY, CHECKPOINTS_END, 2);
    if (status == 0)
        status = checkpoints_same(c, whole);
    for (uint64_t s = CHECKPOINTS_EVERY; status == 0 && s < CHECKPOINTS_END; s++)
        if (c->sets[s] != sets[s])
            status = FAIL(stage->ground, "step %llu is made by others", (unsigned long long)s);
    if (status == 0)
        status = stage_close(stage);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage);
    store_clear(&store);
    return status;
}

/* checkpoints_turns -- one worker after the other, each contribution a step. */
static int checkpoints_turns(struct cluster *c, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        uint32_t w = (uint32_t)(step % c->workers);
        checkpoints_gradients(c, w, step);
        RUN(c, w);
        GS(c, step + 1);
    }
    return 0;
}

/* checkpoints_alone -- async and bounded: in one order of acts there is one result. */
static int checkpoints_alone(struct stage *stage, const char *keys, struct store *store)
{
    struct cluster_job job = checkpoints_job(keys, 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_turns(whole, 0, CHECKPOINTS_END));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_turns(c, 0, CHECKPOINTS_EVERY));
    TRY(checkpoints_written(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_turns(c, CHECKPOINTS_EVERY, CHECKPOINTS_KILL));
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_turns(c, CHECKPOINTS_EVERY, CHECKPOINTS_END));
    TRY(checkpoints_same(c, whole));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* checkpoints_every_mode -- tf goes on with new tokens, async and bounded with new clocks. */
static int checkpoints_every_mode(struct stage *stage)
{
    static const char *const alone[] = {"update=async optimizer=momentum learning_rate=0.1",
                                        "update=bounded bound=1 optimizer=momentum learning_rate=0.1"};
    const struct cluster_job tf =
        checkpoints_job("update=tf initial_tokens=0 optimizer=momentum learning_rate=0.1", 2, 2, 1);

    TRY(checkpoints_compare(stage, &tf, &tf));
    for (size_t m = 0; m < 2; m++) {
        struct store store;
        store_start(&store, CHECKPOINTS_EVERY);
        int status = checkpoints_alone(stage, alone[m], &store);
        while (status != 0 && stage->job_count > 0)
            stage_drop(stage);
        store_clear(&store);
        TRY(status);
    }
    return 0;
}

/* checkpoints_tune -- worker 0 changes what holds from a step on, as it comes to step `at`. */
static int checkpoints_tune(struct cluster *c, uint64_t step)
{
    static const struct {
        uint64_t at, from;
        const char *key, *value;
    } changes[] = {{1, 2, "learning_rate", "0.5"},
                   {2, 3, "learning_rate", "0.25"},
                   {2, 3, "clip_value", "1.5"},
                   {3, CHECKPOINTS_EVERY, "momentum", "0.75"},
                   {3, CHECKPOINTS_KILL + 1, "learning_rate", "0.125"}};

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        if (changes[i].at == step)
            CHECK(c,
                  session_tune(c->worker[0].model, changes[i].key, changes[i].value, changes[i].from,
                               cluster_now(c)) == 0,
                  "%s cannot be changed", changes[i].key);
    return 0;
}

/* checkpoints_tuned -- steps with these changes. */
static int checkpoints_tuned(struct cluster *c, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        TRY(checkpoints_tune(c, step));
        TRY(cluster_settle(c));
        TRY(checkpoints_step(c, step, 0));
    }
    return 0;
}

/* checkpoints_changes_in -- see below. */
static int checkpoints_changes_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=1 clip_value=4", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_tuned(whole, 0, CHECKPOINTS_END));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_tuned(c, 0, CHECKPOINTS_EVERY));
    TRY(checkpoints_written(c, CHECKPOINTS_EVERY));
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_tuned(c, CHECKPOINTS_EVERY, CHECKPOINTS_END));
    TRY(checkpoints_same(c, whole));
    TRY(checkpoints_written(c, 2 * CHECKPOINTS_EVERY));
    stage_drop(stage);
    /* and once more, from a checkpoint of a job that has not made the changes itself */
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, 2 * CHECKPOINTS_EVERY));
    TRY(checkpoints_tuned(c, 2 * CHECKPOINTS_EVERY, CHECKPOINTS_END));
    TRY(checkpoints_same(c, whole));
    TRY(stage_close(stage));
    return stage_close(stage);
}

/* checkpoints_in -- a scenario with a store of its own. */
static int checkpoints_in(struct stage *stage, uint64_t every,
                          int (*play)(struct stage *stage, struct store *store))
{
    struct store store;

    store_start(&store, every);
    int status = play(stage, &store);
    while (status != 0 && stage->job_count > 0)
        stage_drop(stage);
    while (status == 0 && stage->job_count > 0)
        status = stage_close(stage);
    store_clear(&store);
    return status;
}

/* checkpoints_changes -- what holds by then, and what is still to come. */
static int checkpoints_changes(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_changes_in);
}

/* checkpoints_own_in -- see below. */
static int checkpoints_own_in(struct stage *stage, struct store *store)
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
    TRY(checkpoints_written(c, 2));
    stage_drop(stage);
    job.workers = 3;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, 2));
    RUN(c, 0, 1, 2);
    for (uint64_t i = 0; i < 3000; i++) {
        PULLED(c, 0, 1, i, 11 + 10 * (double)(i % 3));
        PULLED(c, 1, 1, i, 11 + 10 * (double)(i % 3));
    }
    PULLED(c, 2, 1, 0, 0.74705881); /* what it gives as its initial value: 0x3f3f3f3f */
    return 0;
}

/* checkpoints_own -- aux variables go back to their workers; a rank that was not there begins with its own. */
static int checkpoints_own(struct stage *stage)
{
    return checkpoints_in(stage, 1, checkpoints_own_in);
}

/* checkpoints_frozen_in -- see below. */
static int checkpoints_frozen_in(struct stage *stage, struct store *store)
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
    TRY(checkpoints_written(c, 3));
    double a = cluster_value(c, 0, 0), plain = cluster_value(c, 2, 0);
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, 3));
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

/* checkpoints_frozen -- what never changes, and what is not averaged. */
static int checkpoints_frozen(struct stage *stage)
{
    return checkpoints_in(stage, 3, checkpoints_frozen_in);
}

/* checkpoints_damaged_in -- see below. */
static int checkpoints_damaged_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_play(whole, 0, CHECKPOINTS_END, 0));
    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_play(c, 0, CHECKPOINTS_EVERY, 0));
    TRY(checkpoints_written(c, CHECKPOINTS_EVERY));
    TRY(checkpoints_play(c, CHECKPOINTS_EVERY, 2 * CHECKPOINTS_EVERY, 0));
    TRY(checkpoints_written(c, 2 * CHECKPOINTS_EVERY));
    stage_drop(stage);
    store->steps[2 * CHECKPOINTS_EVERY].damaged = true;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, CHECKPOINTS_EVERY));
    CHECK(c, strstr(c->said, "the checkpoint of step 8 is not taken: the part of step 8 is damaged") != NULL,
          "it was said: %s", c->said);
    TRY(checkpoints_play(c, CHECKPOINTS_EVERY, CHECKPOINTS_END, 0));
    TRY(checkpoints_same(c, whole));
    stage_drop(stage);
    stage_drop(stage);
    /* where none is left that can be read, nothing begins anew in silence */
    store->steps[CHECKPOINTS_EVERY].damaged = store->steps[2 * CHECKPOINTS_EVERY].damaged = true;
    if (cluster_open(stage->ground, &job, &c) == 0) {
        cluster_drop(&c);
        return FAIL(stage->ground, "it begins anew");
    }
    if (strstr(stage->ground->why, "can be read") == NULL)
        return -1;
    return 0;
}

/* checkpoints_damaged -- one that cannot be read is refused, the one before is taken. */
static int checkpoints_damaged(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_damaged_in);
}

/* checkpoints_other_model_in -- see below. */
static int checkpoints_other_model_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;

    TRY(checkpoints_killed(stage, store, job, 0));
    job.store = store;
    job.keys = "optimizer=momentum learning_rate=0.2";
    if (cluster_open(stage->ground, &job, &c) == 0) {
        cluster_drop(&c);
        return FAIL(stage->ground, "another model goes on");
    }
    return strstr(stage->ground->why, "the checkpoint is of another model m") != NULL ? 0 : -1;
}

/* checkpoints_other_model -- does not go on with it. */
static int checkpoints_other_model(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_other_model_in);
}

/* checkpoints_ask -- a worker asks until it is answered. */
static int checkpoints_ask(struct cluster *c, uint32_t w, uint64_t *step)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);

    for (;;) {
        int status = session_checkpoint_try(c->worker[w].model, cluster_now(c), step);
        if (status != -STEPGATE_EAGAIN)
            return status;
        if (cluster_now(c) >= until)
            return FAIL(c->ground, "worker %u gets no answer", w);
        cluster_pass(c, until);
    }
}

/* checkpoints_asked_in -- see below. */
static int checkpoints_asked_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;
    uint64_t step = 99;

    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_ask(c, 0, &step)); /* before anything */
    CHECK(c, step == 0 && store_newest(store) == 0, "it is of step %llu", (unsigned long long)step);
    TRY(checkpoints_play(c, 0, 3, 0));
    CHECK(c, store->completed == 1, "%u were made", store->completed);
    TRY(checkpoints_ask(c, 1, &step));
    CHECK(c, step == 3 && store_newest(store) == 3, "it is of step %llu", (unsigned long long)step);
    TRY(checkpoints_ask(c, 0, &step)); /* it is there: nothing is written again */
    CHECK(c, step == 3 && store->completed == 2, "%u were made", store->completed);
    RUN(c, 1); /* in the middle of a step it is that step's */
    TRY(checkpoints_ask(c, 0, &step));
    CHECK(c, step == 3, "it is of step %llu", (unsigned long long)step);
    RUN(c, 0);
    GS(c, 4);
    /* given up, and asked for again a step later: the answer is to the later one */
    CHECK(c, session_checkpoint_try(c->worker[0].model, cluster_now(c), &step) == -STEPGATE_EAGAIN,
          "at once");
    session_checkpoint_cancel(c->worker[0].model);
    TRY(checkpoints_play(c, 4, 5, 0));
    TRY(checkpoints_ask(c, 0, &step));
    CHECK(c, step == 5 && store_newest(store) == 5, "it is of step %llu", (unsigned long long)step);
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, 5));
    TRY(checkpoints_ask(c, 1, &step)); /* it goes on from that one */
    CHECK(c, step == 5, "it is of step %llu", (unsigned long long)step);
    return 0;
}

/* checkpoints_asked -- by a worker, at any time. */
static int checkpoints_asked(struct stage *stage)
{
    return checkpoints_in(stage, 0, checkpoints_asked_in);
}

/* checkpoints_nowhere -- without an archive it is an error, and nothing else happens. */
static int checkpoints_nowhere(struct stage *stage)
{
    const struct cluster_job job = checkpoints_job("optimizer=sgd", 1, 1, 1);
    struct stepgate_error error;
    struct cluster *c;
    uint64_t step;

    TRY(stage_open(stage, &job, &c));
    int status = checkpoints_ask(c, 0, &step);
    error_save(&error);
    CHECK(c, status == -STEPGATE_ESTATE && strstr(error.text, "no folder for checkpoints") != NULL,
          "asking gives %d (%s)", status, error.text);
    return checkpoints_play(c, 0, 2, 0);
}

/* checkpoints_refused_in -- see below. */
static int checkpoints_refused_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct stepgate_error error;
    struct cluster *c;
    uint64_t step;

    job.store = store;
    store->refuses = true;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_play(c, 0, 2, 0));
    int status = checkpoints_ask(c, 1, &step);
    error_save(&error);
    CHECK(c, status == -STEPGATE_ESYSTEM && strstr(error.text, "has no room for its part") != NULL,
          "asking gives %d (%s)", status, error.text);
    CHECK(c, strstr(c->said, "has no room for its part: free space") != NULL, "it was said: %s", c->said);
    TRY(checkpoints_play(c, 2, 3, 0));
    store->refuses = false;
    TRY(checkpoints_play(c, 3, CHECKPOINTS_EVERY, 0));
    return checkpoints_written(c, CHECKPOINTS_EVERY);
}

/* checkpoints_refused -- one that cannot be written ends nothing, and the next one is tried. */
static int checkpoints_refused(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_refused_in);
}

/* checkpoints_stopped_in -- see below. */
static int checkpoints_stopped_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_play(whole, 0, CHECKPOINTS_END, 0));
    job.store = store;
    for (uint32_t s = 0; s < 2; s++) { /* the leader, or another one */
        char word[32];
        TRY(stage_open(stage, &job, &c));
        if (s > 0)
            TRY(checkpoints_began(c, 2 + s));
        TRY(checkpoints_play(c, 2 * s + (s > 0), 3 + s, 0));
        shard_stop(c->ps[s].shard, cluster_now(c));
        snprintf(word, sizeof(word), "ps %u was stopped", s);
        FAILED(c, 0, STEPGATE_ELOST, word);
        FAILED(c, 1, STEPGATE_ELOST, word);
        CHECK(c, store_newest(store) == 3 + s, "the newest checkpoint is of step %lld",
              (long long)store_newest(store));
        stage_drop(stage);
    }
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_began(c, 4));
    TRY(checkpoints_play(c, 4, CHECKPOINTS_END, 0));
    return checkpoints_same(c, whole);
}

/* checkpoints_stopped -- whichever ps is stopped: the newest step is written first. */
static int checkpoints_stopped(struct stage *stage)
{
    return checkpoints_in(stage, 0, checkpoints_stopped_in);
}

/* checkpoints_slow_in -- see below. */
static int checkpoints_slow_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;
    uint64_t step;

    job.store = store;
    TRY(stage_open(stage, &job, &c));
    store->held = true;
    TRY(checkpoints_play(c, 0, 2 * CHECKPOINTS_EVERY, 0)); /* training does not wait for the disk */
    CHECK(c, store_newest(store) == UINT64_MAX, "step %llu is written",
          (unsigned long long)store_newest(store));
    CHECK(c, strstr(c->said, "that of step 8 is left out, that of step 4 is not on its disk yet") != NULL,
          "it was said: %s", c->said);
    c->said[0] = 0;
    TRY(checkpoints_play(c, 2 * CHECKPOINTS_EVERY, 3 * CHECKPOINTS_EVERY, 0));
    CHECK(c, c->said[0] == 0, "it is said again: %s", c->said);
    CHECK(c, session_checkpoint_try(c->worker[1].model, cluster_now(c), &step) == -STEPGATE_EAGAIN,
          "at once");
    TRY(cluster_settle(c));
    store->held = false;
    TRY(checkpoints_written(c, 3 * CHECKPOINTS_EVERY)); /* what somebody asks for is made then */
    TRY(checkpoints_ask(c, 1, &step));
    CHECK(c, step == 3 * CHECKPOINTS_EVERY && store->completed == 2, "%u were made", store->completed);
    CHECK(c, store->steps[CHECKPOINTS_EVERY].complete, "the first one was not completed");
    TRY(checkpoints_play(c, 3 * CHECKPOINTS_EVERY, 4 * CHECKPOINTS_EVERY, 0));
    return checkpoints_written(c, 4 * CHECKPOINTS_EVERY);
}

/* checkpoints_slow -- a disk that does not keep up. */
static int checkpoints_slow(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_slow_in);
}

/* checkpoints_time_in -- see below. */
static int checkpoints_time_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 1, 1, 1);
    struct cluster *c;

    job.store = store;
    store->archive.every_ms = 3000;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_play(c, 0, 2, 0));
    CHECK(c, store->saved == 0, "one comes too early");
    TRY(cluster_let(c, 3100));
    CHECK(c, store->saved == 0, "one is made although nothing has changed");
    TRY(checkpoints_play(c, 2, 3, 0));
    TRY(checkpoints_written(c, 3));
    TRY(checkpoints_play(c, 3, 5, 0));
    CHECK(c, store->completed == 1, "%u were made", store->completed);
    TRY(cluster_let(c, 3100));
    TRY(checkpoints_play(c, 5, 6, 0));
    return checkpoints_written(c, 6);
}

/* checkpoints_time -- with the first step that is taken so long after the last one. */
static int checkpoints_time(struct stage *stage)
{
    return checkpoints_in(stage, 0, checkpoints_time_in);
}

/* checkpoints_late_in -- see below. */
static int checkpoints_late_in(struct stage *stage, struct store *store)
{
    static const uint64_t shifts[] = {32765, 40000, 65532, 131071};
    struct cluster_job job = checkpoints_job("optimizer=momentum learning_rate=0.1", 2, 2, 2);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(checkpoints_play(whole, 0, CHECKPOINTS_END, 0));
    TRY(checkpoints_killed(stage, store, job, 0));
    job.store = store;
    store->archive.every_steps = 0;
    for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
        store->shift = shifts[i];
        TRY(stage_open(stage, &job, &c));
        TRY(checkpoints_began(c, shifts[i] + CHECKPOINTS_EVERY));
        for (uint64_t step = CHECKPOINTS_EVERY; step < CHECKPOINTS_END; step++) {
            for (uint32_t w = 0; w < 2; w++) {
                checkpoints_gradients(c, w, step * 10);
                RUN(c, w);
            }
            GS(c, shifts[i] + step + 1);
        }
        for (uint32_t v = 0; v < c->variables; v++)
            for (uint64_t e = 0; e < c->elements[v]; e++)
                TRY(checkpoints_element(c, "element", v, e, cluster_value(c, v, e),
                                        cluster_value(whole, v, e)));
        stage_drop(stage);
    }
    return 0;
}

/* checkpoints_late -- of steps whose number does not fit the bits of an announcement. */
static int checkpoints_late(struct stage *stage)
{
    return checkpoints_in(stage, CHECKPOINTS_EVERY, checkpoints_late_in);
}

const struct scenario scenario_checkpoints[] = {
    {"checkpoint_and_resume_gives_the_bits_of_a_run_without", checkpoints_every_optimizer, false},
    {"checkpoint_is_read_by_other_shards_and_lanes", checkpoints_other_layout, false},
    {"checkpoint_and_resume_with_more_replicas_than_workers", checkpoints_many_replicas, false},
    {"checkpoint_and_resume_with_a_policy", checkpoints_policies, false},
    {"checkpoint_and_resume_with_recorded_sets", checkpoints_sets, false},
    {"checkpoint_and_resume_in_every_mode", checkpoints_every_mode, false},
    {"checkpoint_keeps_changes_of_hyper_parameters", checkpoints_changes, false},
    {"checkpoint_keeps_what_is_a_workers_own", checkpoints_own, false},
    {"checkpoint_keeps_what_is_frozen", checkpoints_frozen, false},
    {"checkpoint_that_is_damaged_is_not_taken", checkpoints_damaged, false},
    {"checkpoint_of_another_model_is_not_taken", checkpoints_other_model, false},
    {"checkpoint_is_made_when_a_worker_asks", checkpoints_asked, false},
    {"checkpoint_without_a_folder_is_an_error", checkpoints_nowhere, false},
    {"checkpoint_that_cannot_be_written_ends_nothing", checkpoints_refused, false},
    {"checkpoint_is_made_before_a_ps_is_stopped", checkpoints_stopped, false},
    {"checkpoint_that_is_slow_holds_nobody_up", checkpoints_slow, false},
    {"checkpoint_comes_by_time", checkpoints_time, false},
    {"checkpoint_of_a_large_step", checkpoints_late, false},
    {NULL, NULL, false}};
