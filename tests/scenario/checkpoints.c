/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoints -- when one is made, and what becomes of a job meanwhile. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "tests/scenario/inside.h"
#include "tests/scenario/restart.h"
#include "tests/scenario/scenario.h"
#include "transport/base/error.h"

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
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;
    uint64_t step = 99;

    job.store = store;
    TRY(stage_open(stage, &job, &c));
    TRY(checkpoints_ask(c, 0, &step)); /* before anything */
    CHECK(c, step == 0 && store_newest(store) == 0, "it is of step %llu", (unsigned long long)step);
    TRY(restart_play(c, 0, 3, 0));
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
    TRY(restart_play(c, 4, 5, 0));
    TRY(checkpoints_ask(c, 0, &step));
    CHECK(c, step == 5 && store_newest(store) == 5, "it is of step %llu", (unsigned long long)step);
    stage_drop(stage);
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, 5));
    TRY(checkpoints_ask(c, 1, &step)); /* it goes on from that one */
    CHECK(c, step == 5, "it is of step %llu", (unsigned long long)step);
    return 0;
}

/* checkpoints_asked -- by a worker, at any time. */
static int checkpoints_asked(struct stage *stage)
{
    return restart_in(stage, 0, checkpoints_asked_in);
}

/* checkpoints_nowhere -- without an archive it is an error, and nothing else happens. */
static int checkpoints_nowhere(struct stage *stage)
{
    const struct cluster_job job = restart_job("optimizer=sgd", 1, 1, 1);
    struct stepgate_error error;
    struct cluster *c;
    uint64_t step;

    TRY(stage_open(stage, &job, &c));
    int status = checkpoints_ask(c, 0, &step);
    error_save(&error);
    CHECK(c, status == -STEPGATE_ESTATE && strstr(error.text, "no folder for checkpoints") != NULL,
          "asking gives %d (%s)", status, error.text);
    return restart_play(c, 0, 2, 0);
}

/* checkpoints_refused_in -- see below. */
static int checkpoints_refused_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct stepgate_error error;
    struct cluster *c;
    uint64_t step;

    job.store = store;
    store->refuses = true;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_play(c, 0, 2, 0));
    int status = checkpoints_ask(c, 1, &step);
    error_save(&error);
    CHECK(c, status == -STEPGATE_ESYSTEM && strstr(error.text, "has no room for its part") != NULL,
          "asking gives %d (%s)", status, error.text);
    CHECK(c, strstr(c->said, "has no room for its part: free space") != NULL, "it was said: %s", c->said);
    TRY(restart_play(c, 2, 3, 0));
    store->refuses = false;
    TRY(restart_play(c, 3, RESTART_EVERY, 0));
    return restart_written(c, RESTART_EVERY);
}

/* checkpoints_refused -- one that cannot be written ends nothing, and the next one is tried. */
static int checkpoints_refused(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, checkpoints_refused_in);
}

/* checkpoints_stopped_in -- see below. */
static int checkpoints_stopped_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *whole, *c;

    TRY(stage_open(stage, &job, &whole));
    TRY(restart_play(whole, 0, RESTART_END, 0));
    job.store = store;
    for (uint32_t s = 0; s < 2; s++) { /* the leader, or another one */
        char word[32];
        TRY(stage_open(stage, &job, &c));
        if (s > 0)
            TRY(restart_began(c, 2 + s));
        TRY(restart_play(c, 2 * s + (s > 0), 3 + s, 0));
        shard_stop(c->ps[s].shard, cluster_now(c));
        snprintf(word, sizeof(word), "ps %u was stopped", s);
        FAILED(c, 0, STEPGATE_ELOST, word);
        FAILED(c, 1, STEPGATE_ELOST, word);
        CHECK(c, store_newest(store) == 3 + s, "the newest checkpoint is of step %lld",
              (long long)store_newest(store));
        stage_drop(stage);
    }
    TRY(stage_open(stage, &job, &c));
    TRY(restart_began(c, 4));
    TRY(restart_play(c, 4, RESTART_END, 0));
    return restart_same(c, whole);
}

/* checkpoints_stopped -- whichever ps is stopped: the newest step is written first. */
static int checkpoints_stopped(struct stage *stage)
{
    return restart_in(stage, 0, checkpoints_stopped_in);
}

/* checkpoints_slow_in -- see below. */
static int checkpoints_slow_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 2, 2, 1);
    struct cluster *c;
    uint64_t step;

    job.store = store;
    TRY(stage_open(stage, &job, &c));
    store->held = true;
    TRY(restart_play(c, 0, 2 * RESTART_EVERY, 0)); /* training does not wait for the disk */
    CHECK(c, store_newest(store) == UINT64_MAX, "step %llu is written",
          (unsigned long long)store_newest(store));
    CHECK(c, strstr(c->said, "that of step 8 is left out, that of step 4 is not on its disk yet") != NULL,
          "it was said: %s", c->said);
    c->said[0] = 0;
    TRY(restart_play(c, 2 * RESTART_EVERY, 3 * RESTART_EVERY, 0));
    CHECK(c, c->said[0] == 0, "it is said again: %s", c->said);
    CHECK(c, session_checkpoint_try(c->worker[1].model, cluster_now(c), &step) == -STEPGATE_EAGAIN,
          "at once");
    TRY(cluster_settle(c));
    store->held = false;
    TRY(restart_written(c, 3 * RESTART_EVERY)); /* what somebody asks for is made then */
    TRY(checkpoints_ask(c, 1, &step));
    CHECK(c, step == 3 * RESTART_EVERY && store->completed == 2, "%u were made", store->completed);
    CHECK(c, store->steps[RESTART_EVERY].complete, "the first one was not completed");
    TRY(restart_play(c, 3 * RESTART_EVERY, 4 * RESTART_EVERY, 0));
    return restart_written(c, 4 * RESTART_EVERY);
}

/* checkpoints_slow -- a disk that does not keep up. */
static int checkpoints_slow(struct stage *stage)
{
    return restart_in(stage, RESTART_EVERY, checkpoints_slow_in);
}

/* checkpoints_time_in -- see below. */
static int checkpoints_time_in(struct stage *stage, struct store *store)
{
    struct cluster_job job = restart_job("optimizer=momentum learning_rate=0.1", 1, 1, 1);
    struct cluster *c;

    job.store = store;
    store->archive.every_ms = 3000;
    TRY(stage_open(stage, &job, &c));
    TRY(restart_play(c, 0, 2, 0));
    CHECK(c, store->saved == 0, "one comes too early");
    TRY(cluster_let(c, 3100));
    CHECK(c, store->saved == 0, "one is made although nothing has changed");
    TRY(restart_play(c, 2, 3, 0));
    TRY(restart_written(c, 3));
    TRY(restart_play(c, 3, 5, 0));
    CHECK(c, store->completed == 1, "%u were made", store->completed);
    TRY(cluster_let(c, 3100));
    TRY(restart_play(c, 5, 6, 0));
    return restart_written(c, 6);
}

/* checkpoints_time -- with the first step that is taken so long after the last one. */
static int checkpoints_time(struct stage *stage)
{
    return restart_in(stage, 0, checkpoints_time_in);
}

const struct scenario scenario_checkpoints[] = {
    {"checkpoint_is_made_when_a_worker_asks", checkpoints_asked, false},
    {"checkpoint_without_a_folder_is_an_error", checkpoints_nowhere, false},
    {"checkpoint_that_cannot_be_written_ends_nothing", checkpoints_refused, false},
    {"checkpoint_is_made_before_a_ps_is_stopped", checkpoints_stopped, false},
    {"checkpoint_that_is_slow_holds_nobody_up", checkpoints_slow, false},
    {"checkpoint_comes_by_time", checkpoints_time, false},
    {NULL, NULL, false}};
