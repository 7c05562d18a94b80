/* SPDX-License-Identifier: BSD-3-Clause */
/* move -- how a job goes on: round by round, and what workers are told to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ps/optimizer/number.h"
#include "tests/scenario/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define MOVE_NEAR_MS 20 /* a timer that is due sooner belongs to what is going on */
#define MOVE_ROUNDS 10  /* in a world nothing happens for so many: nothing will */
#define MOVE_QUIET_MS                                                                                        \
    2 /* nothing happens for so long: nothing will; but the end of a process may show later */
#define MOVE_QUIET_ROUNDS                                                                                    \
    20 /* and in so many looks: time alone passes while a busy machine lets others run */
#define MOVE_PATIENCE_MS 10000
#define MOVE_QUIET_SOFT_MS 30 /* over a network, in an emulated machine; checks are patient there */

/* move_fail -- the session of a worker has failed: the job is over for it. */
static int move_fail(struct cluster_worker *worker, int status)
{
    struct stepgate_error error;

    error_save(&error);
    worker->state = CLUSTER_FAILED;
    worker->error = status;
    snprintf(worker->text, sizeof(worker->text), "%s", error.text);
    return 1;
}

/* move_push -- one variable of a contribution. */
static int move_push(struct cluster *c, uint32_t w, uint32_t v)
{
    struct cluster_worker *worker = &c->worker[w];
    const struct cluster_gradient *gradient = &worker->gradients[v];
    const struct model_variable *declared = &session_model_declared(worker->model)->variables[v];
    void *to;

    if (gradient->absent)
        return session_absent(worker->model, v, cluster_now(c));
    if (declared->kind == STEPGATE_SPARSE)
        return cluster_push_rows(c, w, v, gradient->rows, gradient->indices, gradient->count,
                                 gradient->values);
    int status = session_gradient(worker->model, v, &to);
    if (status != 0)
        return status;
    cluster_narrow(declared->gradient_dtype, gradient->values, gradient->count, to, declared->elements);
    return session_push(worker->model, v, cluster_now(c));
}

/* move_hand_in -- everything, in some order, and the end of the step. */
static int move_hand_in(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    uint32_t start = (uint32_t)random_below(&c->random, c->variables);
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < c->variables; i++)
        status = move_push(c, w, (start + i) % c->variables);
    if (status == 0)
        status = session_finish(worker->model, worker->weight, cluster_now(c));
    if (status != 0)
        return move_fail(worker, status);
    worker->state = CLUSTER_WAITS;
    return 1;
}

/* move_pull -- all values, then sparse variables by name. */
static int move_pull(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    const struct model *declared = session_model_declared(worker->model);
    int status = 0;

    for (; status == 0 && worker->pulling <= c->variables; worker->pulling += status == 0) {
        uint32_t v = worker->pulling - 1;
        if (worker->pulling == 0)
            status = session_pull_try(worker->model, STEPGATE_ALL, cluster_now(c), NULL);
        else if (declared->variables[v].kind == STEPGATE_SPARSE)
            status = session_pull_try(worker->model, (int)v, cluster_now(c), NULL);
    }
    if (status == 0)
        cluster_note(c, w);
    return status;
}

/* move_back -- a worker that was started again joins, declares what it had, and commits. */
static int move_back(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    int status = 0;

    if (worker->state == CLUSTER_JOINS) {
        status = session_join_try(worker->session, cluster_now(c));
        if (status == 0)
            status = cluster_declare(c, w);
        if (status != 0)
            return status;
        worker->state = CLUSTER_COMMITS;
    }
    status = session_commit_try(worker->model, cluster_now(c), &worker->start);
    if (status == 0)
        worker->state = CLUSTER_WAITS;
    return status;
}

/* move_worker -- one move. */
static int move_worker(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    int busy, status;

    if (worker->session == NULL || worker->state == CLUSTER_FAILED)
        return 0;
    busy = session_progress(worker->session, cluster_now(c));
    if (worker->state != CLUSTER_AWAY && session_error(worker->session) != 0)
        return move_fail(worker, session_error(worker->session));
    switch (worker->state) {
    case CLUSTER_WAITS:
        worker->info.size = sizeof(worker->info);
        status = session_begin_try(worker->model, cluster_now(c), &worker->info);
        if (status == 0)
            worker->state = CLUSTER_HAS_TOKEN;
        break;
    case CLUSTER_JOINS:
    case CLUSTER_COMMITS: status = move_back(c, w); break;
    case CLUSTER_PULLS:
        status = c->job.blind ? 0 : move_pull(c, w);
        if (status == 0)
            return move_hand_in(c, w);
        break;
    default: return busy;
    }
    if (status == -STEPGATE_EAGAIN)
        return busy;
    return status != 0 ? move_fail(worker, status) : 1;
}

/* move_ps -- the shard (part 0) or a lane. */
static int move_ps(struct cluster *c, uint32_t s, uint32_t part)
{
    struct cluster_ps *ps = &c->ps[s];
    int busy;

    if (ps->shard == NULL || ps->over)
        return 0;
    if (part > 0)
        return lane_progress(ps->lanes[part - 1], cluster_now(c));
    busy = ps->aside_count > 0 &&
           !c->job.store->held; /* and a thread of its own is faster or slower than everybody */
    if (busy && random_chance(&c->random, 300))
        cluster_asides(c, s, false);
    busy |= shard_progress(ps->shard, cluster_now(c));
    cluster_record(c, s);
    ps->over = shard_finished(ps->shard, &ps->status);
    return busy | ps->over;
}

/* cluster_round -- see inside.h. In a world some are left out, in a random order. */
int cluster_round(struct cluster *c, bool all)
{
    uint32_t parts = c->shards * (1 + c->lanes), actors = parts + c->workers;
    uint32_t start = (uint32_t)random_below(&c->random, actors);
    int busy = 0;

    for (uint32_t i = 0; i < actors; i++) {
        uint32_t a = (start + i) % actors;
        if (!all && random_chance(&c->random, 350))
            continue;
        if (a >= parts)
            busy |= move_worker(c, a - parts);
        else
            busy |= move_ps(c, a / (1 + c->lanes), a % (1 + c->lanes));
    }
    return busy;
}

/* move_earlier -- of two times. */
static uint64_t move_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* move_timer -- when the next actor wants to be called. */
static uint64_t move_timer(const struct cluster *c)
{
    uint64_t timer = CLOCK_NEVER;

    for (uint32_t s = 0; s < c->shards; s++) {
        if (c->ps[s].shard == NULL || c->ps[s].over)
            continue;
        timer = move_earlier(timer, shard_deadline(c->ps[s].shard));
        for (uint32_t l = 0; l < c->lanes; l++)
            timer = move_earlier(timer, lane_deadline(c->ps[s].lanes[l]));
    }
    for (uint32_t w = 0; w < c->workers; w++)
        if (c->worker[w].session != NULL && c->worker[w].state != CLUSTER_FAILED)
            timer = move_earlier(timer, session_deadline(c->worker[w].session));
    return timer;
}

/* move_time -- time passes in the world up to what is due next; 0: nothing is due soon. */
static int move_time(struct cluster *c)
{
    uint64_t now = cluster_now(c), due = world_next_time(c->world), timer = move_timer(c);

    if (due <= timer && due != CLOCK_NEVER)
        return world_step(c->world);
    if (timer > now + MOVE_NEAR_MS * CLOCK_MS)
        return 0;
    world_advance(c->world, timer > now ? timer - now : 1000);
    return 1;
}

/* cluster_move -- see inside.h. */
int cluster_move(struct cluster *c)
{
    if (c->ground->simulated) {
        int busy = cluster_round(c, false);
        /* a poll may return less than there is, or nothing */
        for (int i = 0; !busy && i < MOVE_ROUNDS; i++)
            busy = cluster_round(c, true);
        if (busy && random_chance(&c->random, 300))
            return 1;
        if (busy && world_next_time(c->world) > cluster_now(c) + CLOCK_MS)
            return 1;
        return move_time(c) || busy;
    }
    uint64_t quiet = c->ground->soft ? MOVE_QUIET_SOFT_MS : MOVE_QUIET_MS;
    if (cluster_round(c, true) || c->busy_at == 0) {
        c->busy_at = cluster_now(c);
        c->quiet_rounds = 0;
        return 1;
    }
    c->quiet_rounds++;
    if (c->ground->soft)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return c->quiet_rounds < MOVE_QUIET_ROUNDS || cluster_now(c) < c->busy_at + quiet * CLOCK_MS;
}

/* cluster_pass -- see inside.h. */
void cluster_pass(struct cluster *c, uint64_t until)
{
    if (cluster_move(c) || !c->ground->simulated)
        return;
    uint64_t now = cluster_now(c), timer = move_earlier(move_timer(c), until);
    world_advance(c->world, timer > now ? timer - now : 1000);
}

/* cluster_settle -- see cluster.h. */
int cluster_settle(struct cluster *c)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);

    c->busy_at = 0;
    while (cluster_move(c))
        if (cluster_now(c) > until)
            return FAIL(c->ground, "the job does not come to rest");
    return cluster_check_pulls(c);
}

/* cluster_let -- see cluster.h. */
int cluster_let(struct cluster *c, int ms)
{
    uint64_t until = clock_after(cluster_now(c), ms);

    while (cluster_now(c) < until)
        cluster_pass(c, until);
    return cluster_settle(c);
}

/* cluster_patience -- see cluster.h. */
bool cluster_patience(struct cluster *c, uint64_t *until)
{
    if (c->ground->simulated)
        return false;
    if (*until == 0)
        *until = clock_after(cluster_now(c), MOVE_PATIENCE_MS);
    cluster_pass(c, *until);
    return cluster_now(c) < *until;
}

/* cluster_await_end -- see cluster.h. */
void cluster_await_end(struct cluster *c, uint32_t w)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);

    while (c->worker[w].state != CLUSTER_FAILED && cluster_now(c) < until)
        cluster_pass(c, until);
}

/* cluster_start -- see cluster.h. */
int cluster_start(struct cluster *c, uint32_t w)
{
    if (c->worker[w].state != CLUSTER_HAS_TOKEN)
        return FAIL(c->ground, "worker %u has no token to run a step with (state %d, %s)", w,
                    c->worker[w].state, c->worker[w].text);
    c->worker[w].state = CLUSTER_PULLS;
    c->worker[w].pulling = 0;
    return 0;
}

/* cluster_run -- see cluster.h. */
int cluster_run(struct cluster *c, uint32_t w)
{
    uint64_t until = 0;
    int status;

    while (c->worker[w].state == CLUSTER_WAITS && cluster_patience(c, &until))
        continue;
    status = cluster_start(c, w);
    if (status == 0)
        status = cluster_settle(c);
    while (status == 0 && c->worker[w].state == CLUSTER_PULLS && cluster_patience(c, &until))
        continue;
    if (status == 0 && c->worker[w].state == CLUSTER_PULLS)
        return FAIL(c->ground, "worker %u cannot pull", w);
    return status;
}

/* cluster_kill -- see cluster.h. */
void cluster_kill(struct cluster *c, uint32_t w)
{
    c->worker[w].state = CLUSTER_AWAY;
    session_delete(&c->worker[w].session);
    c->worker[w].model = NULL;
}

/* cluster_lose -- see cluster.h. */
int cluster_lose(struct cluster *c, uint32_t w)
{
    cluster_kill(c, w);
    return cluster_settle(c);
}

/* cluster_leave -- see cluster.h. */
int cluster_leave(struct cluster *c, uint32_t w)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);
    struct cluster_worker *worker = &c->worker[w];

    worker->state = CLUSTER_AWAY;
    for (;;) {
        int status = session_leave_try(worker->session, cluster_now(c));
        if (status == 0)
            break;
        if (status != -STEPGATE_EAGAIN)
            return cluster_error(c->ground, "leave", status);
        if (cluster_now(c) >= until)
            return FAIL(c->ground, "worker %u cannot leave", w);
        cluster_pass(c, until);
    }
    return cluster_lose(c, w); /* its process ends */
}

/* move_gradient -- the values of a gradient. */
static struct cluster_gradient *move_gradient(struct cluster *c, uint32_t w, uint32_t v, uint32_t count,
                                              const double *values)
{
    struct cluster_gradient *gradient = &c->worker[w].gradients[v];

    memset(gradient, 0, sizeof(*gradient));
    gradient->count = count;
    for (uint32_t i = 0; i < count; i++)
        gradient->values[i] = values[i];
    return gradient;
}

/* cluster_gradient -- see cluster.h. */
void cluster_gradient(struct cluster *c, uint32_t w, uint32_t v, uint32_t count, const double *values)
{
    move_gradient(c, w, v, count, values);
}

/* cluster_rows -- see cluster.h. */
void cluster_rows(struct cluster *c, uint32_t w, uint32_t v, uint32_t rows, const uint64_t *indices,
                  uint32_t count, const double *values)
{
    struct cluster_gradient *gradient = move_gradient(c, w, v, count, values);

    gradient->rows = rows;
    for (uint32_t i = 0; i < rows; i++)
        gradient->indices[i] = indices[i];
}

/* cluster_absent -- see cluster.h. */
void cluster_absent(struct cluster *c, uint32_t w, uint32_t v)
{
    move_gradient(c, w, v, 0, NULL)->absent = true;
}

/* cluster_push_rows -- see cluster.h. The caller's memory is gone when the call returns. */
int cluster_push_rows(struct cluster *c, uint32_t w, uint32_t v, uint32_t rows, const uint64_t *indices,
                      uint32_t count, const double *values)
{
    struct session_model *model = c->worker[w].model;
    const struct model_variable *declared = &session_model_declared(model)->variables[v];
    uint64_t elements = rows * declared->row_elements;
    void *bytes = malloc(elements * number_bytes(declared->gradient_dtype) + 1);

    cluster_narrow(declared->gradient_dtype, values, count > 0 ? count : 1, bytes, count > 0 ? elements : 0);
    int status = session_push_rows(model, v, indices, rows, bytes, cluster_now(c));
    free(bytes);
    return status;
}
