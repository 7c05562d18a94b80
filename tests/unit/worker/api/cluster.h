/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster -- a ps in a thread of this process and its workers, all over shm and through the public headers alone. One thread drives the
 * workers in turn: a call that needs all of them is tried with 0 ms on each until it is done on each. Every wait has a deadline.
 */
#ifndef TESTS_UNIT_WORKER_API_CLUSTER_H
#define TESTS_UNIT_WORKER_API_CLUSTER_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepgate/stepgate.h"

#define CLUSTER_WORKERS_MAX 4
#define CLUSTER_MS 8000 /* deadline of every wait */
#define CLUSTER_PS (-1) /* instead of a worker's rank */

struct cluster {
    int workers;
    struct stepgate_server *server;
    pthread_t thread;
    bool runs;
    int status; /* of stepgate_server_run, once the thread is joined */
    char address[STEPGATE_ADDRESS_BYTES];
    struct stepgate_job *job[CLUSTER_WORKERS_MAX];
    struct stepgate_model *model[CLUSTER_WORKERS_MAX];
};

/* must -- the call succeeds; if not, its error is shown. */
#define must(call) cluster_expect((call), 0, "", #call, __FILE__, __LINE__)
/* refused -- the call fails with the code, and the error's text has the word in it. */
#define refused(code, word, call) cluster_expect((call), -(code), word, #call, __FILE__, __LINE__)

/* cluster_expect -- what must and refused do. */
static inline void cluster_expect(int got, int expected, const char *word, const char *call, const char *file,
                                  int line)
{
    struct stepgate_error error = {.size = sizeof(error)};

    stepgate_error_last(&error);
    if (got == expected && (word[0] == 0 || strstr(error.text, word) != NULL))
        return;
    print_error("%s: %d, not %d%s%s\n  last error: %s\n", call, got, expected, word[0] != 0 ? " with " : "",
                word, error.text);
    _fail(file, line);
}

/* cluster_now -- milliseconds of a clock that never jumps. */
static inline int64_t cluster_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* cluster_pause -- lets other threads run. */
static inline void cluster_pause(int ms)
{
    poll(NULL, 0, ms);
}

/* cluster_options -- of the ps or a worker; knobs: names and values in turn up to NULL, may be NULL. */
static inline struct stepgate_options *cluster_options(const struct cluster *c, int rank,
                                                       const char *const *knobs)
{
    struct stepgate_options *options = NULL;
    char text[16];

    must(stepgate_options_new(&options));
    must(stepgate_options_set(options, "transport", "shm"));
    snprintf(text, sizeof(text), "%d", c->workers);
    must(stepgate_options_set(options, "workers", text));
    snprintf(text, sizeof(text), "%d", rank == CLUSTER_PS ? 0 : rank);
    must(stepgate_options_set(options, "task_index", text));
    must(stepgate_options_set(options, "join_timeout", "8s"));
    must(stepgate_options_set(options, "liveness", "60s"));
    if (rank == CLUSTER_PS)
        must(stepgate_options_set(options, "listen", "127.0.0.1:0"));
    else
        must(stepgate_options_set(options, "ps_hosts", c->address));
    for (; knobs != NULL && knobs[0] != NULL; knobs += 2)
        must(stepgate_options_set(options, knobs[0], knobs[1]));
    return options;
}

/* cluster_run -- the ps's thread. */
static inline void *cluster_run(void *context)
{
    struct cluster *c = context;

    return (void *)(intptr_t)stepgate_server_run(c->server);
}

/* cluster_serve -- starts the ps. */
static inline void cluster_serve(struct cluster *c, int workers, const char *const *knobs)
{
    memset(c, 0, sizeof(*c));
    c->workers = workers;
    struct stepgate_options *options = cluster_options(c, CLUSTER_PS, knobs);
    must(stepgate_server_new(options, &c->server));
    stepgate_options_delete(&options);
    must(stepgate_server_address(c->server, c->address, sizeof(c->address)));
    assert_int_equal(pthread_create(&c->thread, NULL, cluster_run, c), 0);
    c->runs = true;
}

/* cluster_served -- waits for the end of the ps's thread, and returns what it returned. */
static inline int cluster_served(struct cluster *c)
{
    struct timespec until;
    void *status = NULL;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLUSTER_MS / 1000;
    if (c->runs)
        assert_int_equal(pthread_timedjoin_np(c->thread, &status, &until), 0);
    c->runs = false;
    return (int)(intptr_t)status;
}

/* What all workers must do before any of them is done. */
typedef int cluster_call(struct cluster *c, int worker);

/* cluster_each -- tries the call on each worker until each is done, or one fails: returns that one's error. */
static inline int cluster_each(struct cluster *c, cluster_call *call)
{
    bool done[CLUSTER_WORKERS_MAX] = {false};
    int left = c->workers;

    for (int64_t until = cluster_now() + CLUSTER_MS; left > 0; cluster_pause(left > 0 ? 1 : 0)) {
        for (int w = 0; w < c->workers; w++) {
            int status = done[w] ? 0 : call(c, w);
            if (status != 0 && status != -STEPGATE_EAGAIN)
                return status;
            left -= !done[w] && status == 0;
            done[w] = done[w] || status == 0;
        }
        assert_true(cluster_now() < until);
    }
    return 0;
}

/* cluster_try_commit -- one look at the commit of the worker's model. */
static inline int cluster_try_commit(struct cluster *c, int w)
{
    return stepgate_model_commit(c->model[w], 0, NULL);
}

/* cluster_join -- joins every worker; knobs are for all of them. */
static inline void cluster_join(struct cluster *c, const char *const *knobs)
{
    for (int w = 0; w < c->workers; w++) {
        struct stepgate_options *options = cluster_options(c, w, knobs);
        must(stepgate_job_join(options, CLUSTER_MS, &c->job[w]));
        stepgate_options_delete(&options);
    }
}

/* cluster_up -- a ps and its workers, joined, each with an empty model that takes a learning rate of 1. */
static inline void cluster_up(struct cluster *c, int workers)
{
    cluster_serve(c, workers, NULL);
    cluster_join(c, NULL);
    for (int w = 0; w < workers; w++) {
        must(stepgate_model_new(c->job[w], "m", &c->model[w]));
        must(stepgate_model_set(c->model[w], "learning_rate", "1"));
    }
}

/* cluster_variable -- declares it on every worker; returns its number. */
static inline int cluster_variable(struct cluster *c, const char *name, uint64_t elements)
{
    int id = -1;

    for (int w = 0; w < c->workers; w++)
        must(stepgate_model_variable(c->model[w], name, STEPGATE_TRAINED, STEPGATE_F32, 1, &elements, &id));
    return id;
}

/* cluster_commit -- on every worker. */
static inline void cluster_commit(struct cluster *c)
{
    must(cluster_each(c, cluster_try_commit));
}

/* cluster_begin -- opens the next step on every worker, and pulls everything. */
static inline void cluster_begin(struct cluster *c)
{
    for (int w = 0; w < c->workers; w++)
        must(stepgate_step_begin(c->model[w], CLUSTER_MS, NULL));
    for (int w = 0; w < c->workers; w++)
        must(stepgate_step_pull(c->model[w], STEPGATE_ALL, CLUSTER_MS, NULL));
}

/* cluster_push -- one worker's gradient: the same value in every element. */
static inline void cluster_push(struct cluster *c, int w, int id, float value)
{
    struct stepgate_variable_info info = {.size = sizeof(info)};
    void *gradient = NULL;

    must(stepgate_model_describe(c->model[w], id, &info));
    must(stepgate_buffer_gradient(c->model[w], id, &gradient));
    for (uint64_t i = 0; i < info.elements; i++)
        ((float *)gradient)[i] = value;
    must(stepgate_step_push(c->model[w], id));
}

/* cluster_value -- an element of the value that a worker has pulled. */
static inline float cluster_value(struct cluster *c, int w, int id, size_t element)
{
    const void *value = NULL;

    must(stepgate_buffer_parameter(c->model[w], id, &value));
    return ((const float *)value)[element];
}

/* cluster_finish -- with weight 1 on every worker. */
static inline void cluster_finish(struct cluster *c)
{
    for (int w = 0; w < c->workers; w++)
        must(stepgate_step_finish(c->model[w], 1));
}

/* cluster_clear -- takes everything down, in whatever state a test has left it. */
static inline void cluster_clear(struct cluster *c)
{
    for (int w = 0; w < CLUSTER_WORKERS_MAX; w++)
        stepgate_job_delete(&c->job[w]);
    stepgate_server_stop(c->server);
    cluster_served(c);
    stepgate_server_delete(&c->server);
}

/* cluster_down -- the orderly end: everybody leaves, and the ps says that the job went well. */
static inline void cluster_down(struct cluster *c)
{
    for (int w = 0; w < c->workers; w++)
        must(stepgate_job_leave(c->job[w], CLUSTER_MS));
    for (int w = 0; w < c->workers; w++)
        stepgate_job_delete(&c->job[w]);
    assert_int_equal(cluster_served(c), 0);
    stepgate_server_delete(&c->server);
}

#endif
