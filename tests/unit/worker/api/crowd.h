/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd -- one or more ps, each in a thread of its own, with workers that train at full speed in threads, and observers, all in this process over
 * shm. The model is such that every parameter is a function of the step: sgd with a rate of 1, all gradients are 1, so after k steps all are -k.
 */
#ifndef TESTS_UNIT_WORKER_API_CROWD_H
#define TESTS_UNIT_WORKER_API_CROWD_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "tests/unit/worker/api/cluster.h"
#include "transport/shm/shm.h"

#define CROWD_PS_MAX 3
#define CROWD_MS 30000 /* deadline of every wait: there are more threads than processors */

#ifdef __SANITIZE_THREAD__
#define CROWD_SCALE 8 /* times fewer steps */
#else
#define CROWD_SCALE 1
#endif

/* crowd_main -- under the thread sanitizer all look at shared memory at one address, so that it sees who does. */
#ifdef __SANITIZE_THREAD__
#define crowd_main(tests) (shm_share_mappings(true), cmocka_run_group_tests(tests, NULL, NULL))
#else
#define crowd_main(tests) cmocka_run_group_tests(tests, NULL, NULL)
#endif

struct crowd_worker {
    struct crowd *crowd;
    int rank;
    pthread_t thread;
    bool runs;
    int status; /* 0, or of the call that failed */
    struct stepgate_job *job;
    struct stepgate_model *model;
};

struct crowd {
    int workers, servers;
    char hosts[STEPGATE_ADDRESS_BYTES];
    struct stepgate_server *server[CROWD_PS_MAX];
    pthread_t thread[CROWD_PS_MAX];
    struct crowd_worker worker[CLUSTER_WORKERS_MAX];
    const char *const *knobs; /* of the workers, in turn with their values, up to NULL; may be NULL */
    const char *const *keys;  /* of the model, in turn with their values, up to NULL */
    const uint64_t *sizes;    /* elements of each variable, up to 0 */
    int (*each)(struct crowd_worker *w, uint64_t step); /* called by each worker in each step; may be NULL */
    atomic_ullong steps;                                /* the job's last one; UINT64_MAX: not known yet */
    atomic_ullong reached;                              /* newest step that worker 0 has begun */
    atomic_ullong held; /* workers do not begin this step before it is raised */
};

/* crowd_port -- one that is free just now. */
static inline int crowd_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* crowd_options -- what all have in common. */
static inline struct stepgate_options *crowd_options(const struct crowd *c)
{
    struct stepgate_options *options = NULL;
    char text[16];

    must(stepgate_options_new(&options));
    must(stepgate_options_set(options, "transport", "shm"));
    snprintf(text, sizeof(text), "%d", c->workers);
    must(stepgate_options_set(options, "workers", text));
    must(stepgate_options_set(options, "ps_hosts", c->hosts));
    must(stepgate_options_set(options, "join_timeout", "30s"));
    must(stepgate_options_set(options, "liveness", "60s"));
    return options;
}

/* crowd_run_server -- a ps's thread. */
static inline void *crowd_run_server(void *context)
{
    return (void *)(intptr_t)stepgate_server_run(context);
}

/* crowd_listen -- makes ps s; knobs: in turn with their values, up to NULL. */
static inline void crowd_listen(struct crowd *c, int s, const char *const *knobs)
{
    struct stepgate_options *options = crowd_options(c);
    char text[16];

    snprintf(text, sizeof(text), "%d", s);
    must(stepgate_options_set(options, "task_index", text));
    must(stepgate_options_set(options, "lanes", "2"));
    for (const char *const *k = knobs; k != NULL && k[0] != NULL; k += 2)
        must(stepgate_options_set(options, k[0], k[1]));
    must(stepgate_server_new(options, &c->server[s]));
    stepgate_options_delete(&options);
}

/* crowd_serve -- starts the ps; knobs are for all of them. */
static inline void crowd_serve(struct crowd *c, int workers, int servers, const char *const *knobs)
{
    memset(c, 0, sizeof(*c));
    c->workers = workers;
    c->servers = servers;
    atomic_store(&c->held, UINT64_MAX);
    for (int s = 0, used = 0; s < servers; s++)
        used += snprintf(c->hosts + used, sizeof(c->hosts) - (size_t)used, "%s127.0.0.1:%d", s > 0 ? "," : "",
                         crowd_port());
    for (int s = 0; s < servers; s++)
        crowd_listen(c, s, knobs);
    for (int s = 0; s < servers; s++)
        assert_int_equal(pthread_create(&c->thread[s], NULL, crowd_run_server, c->server[s]), 0);
}

/* crowd_commit -- for workers that are driven by hand, in turn. */
static inline void crowd_commit(struct crowd *c)
{
    int64_t until = cluster_now() + CROWD_MS;
    bool done[CLUSTER_WORKERS_MAX] = {false};

    for (int left = c->workers; left > 0; cluster_pause(left > 0 ? 1 : 0)) {
        for (int r = 0; r < c->workers; r++) {
            int status = done[r] ? 0 : stepgate_model_commit(c->worker[r].model, 0, NULL);
            if (status != -STEPGATE_EAGAIN)
                must(status);
            left -= !done[r] && status == 0;
            done[r] = done[r] || status == 0;
        }
        assert_true(cluster_now() < until);
    }
}

/* crowd_leave -- those that are driven by hand. */
static inline void crowd_leave(struct crowd *c)
{
    for (int r = 0; r < c->workers; r++)
        must(stepgate_job_leave(c->worker[r].job, CROWD_MS));
}

/* crowd_declare -- variables "0", "1", ... and the keys. In a worker's thread: nothing is asserted there. */
static inline int crowd_declare(struct crowd_worker *w)
{
    const struct crowd *c = w->crowd;
    int status = stepgate_model_new(w->job, "m", &w->model), id;
    char name[16];

    for (int v = 0; status == 0 && c->sizes[v] > 0; v++) {
        snprintf(name, sizeof(name), "%d", v);
        status =
            stepgate_model_variable(w->model, name, STEPGATE_TRAINED, STEPGATE_F32, 1, &c->sizes[v], &id);
    }
    if (status == 0)
        status = stepgate_model_set(w->model, "learning_rate", "1");
    for (const char *const *k = c->keys; status == 0 && k != NULL && k[0] != NULL; k += 2)
        status = stepgate_model_set(w->model, k[0], k[1]);
    return status;
}

/* crowd_ones -- pushes a gradient of ones of every variable. */
static inline int crowd_ones(struct crowd_worker *w)
{
    int status = 0;

    for (int v = 0; status == 0 && w->crowd->sizes[v] > 0; v++) {
        void *gradient = NULL;
        status = stepgate_buffer_gradient(w->model, v, &gradient);
        for (uint64_t i = 0;
             status == 0 && ((float *)gradient)[w->crowd->sizes[v] - 1] != 1 && i < w->crowd->sizes[v]; i++)
            ((float *)gradient)[i] = 1;
        if (status == 0)
            status = stepgate_step_push(w->model, v);
    }
    return status;
}

/* crowd_train -- steps until the job has had enough of them. */
static inline int crowd_train(struct crowd_worker *w)
{
    struct crowd *c = w->crowd;
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = 0;

    while (status == 0) {
        status = stepgate_step_begin(w->model, CROWD_MS, &info);
        if (status != 0)
            break;
        if (w->rank == 0)
            atomic_store(&c->reached, info.step);
        while (info.step >= atomic_load(&c->held))
            cluster_pause(1);
        if (info.step >= atomic_load(&c->steps))
            break;
        status = c->each != NULL ? c->each(w, info.step) : 0;
        if (status == 0)
            status = crowd_ones(w);
        if (status == 0)
            status = stepgate_step_finish(w->model, 1);
    }
    return status;
}

/* crowd_run_worker -- joins, trains, leaves. */
static inline void *crowd_run_worker(void *context)
{
    struct crowd_worker *w = context;

    w->status = stepgate_model_commit(w->model, CROWD_MS, NULL);
    if (w->status == 0)
        w->status = crowd_train(w);
    /* whoever sees the end first leaves last: the others may still need its contribution to go on to their end */
    if (w->status == 0)
        w->status = stepgate_job_barrier(w->job, CROWD_MS);
    if (w->status == 0)
        w->status = stepgate_job_leave(w->job, CROWD_MS);
    if (w->status != 0) {
        struct stepgate_error error = {.size = sizeof(error)};
        stepgate_error_last(&error);
        print_error("worker %d: %s\n", w->rank, error.text);
    }
    return NULL;
}

/* crowd_enter -- worker r joins, perhaps not for the first time, and declares its model, unless there are no sizes. */
static inline void crowd_enter(struct crowd *c, int r)
{
    struct crowd_worker *w = &c->worker[r];
    struct stepgate_options *options = crowd_options(c);
    char text[16];

    *w = (struct crowd_worker){.crowd = c, .rank = r};
    snprintf(text, sizeof(text), "%d", r);
    must(stepgate_options_set(options, "task_index", text));
    for (const char *const *k = c->knobs; k != NULL && k[0] != NULL; k += 2)
        must(stepgate_options_set(options, k[0], k[1]));
    must(stepgate_job_join(options, CROWD_MS, &w->job));
    stepgate_options_delete(&options);
    if (c->sizes != NULL)
        must(crowd_declare(w));
}

/* crowd_join -- the workers join, and declare their models, unless sizes is NULL. */
static inline void crowd_join(struct crowd *c, const char *const *keys, const uint64_t *sizes)
{
    c->keys = keys;
    c->sizes = sizes;
    for (int r = 0; r < c->workers; r++)
        crowd_enter(c, r);
}

/* crowd_start -- the workers commit, and train up to that step; or until they are stopped. */
static inline void crowd_start(struct crowd *c, uint64_t steps)
{
    atomic_store(&c->steps, steps);
    for (int r = 0; r < c->workers; r++) {
        assert_int_equal(pthread_create(&c->worker[r].thread, NULL, crowd_run_worker, &c->worker[r]), 0);
        c->worker[r].runs = true;
    }
}

/* crowd_reach -- waits until training has come to that step. */
static inline void crowd_reach(struct crowd *c, uint64_t step)
{
    int64_t until = cluster_now() + 2 * CROWD_MS;

    while (atomic_load(&c->reached) < step) {
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
}

/* crowd_observer -- joins as one. */
static inline struct stepgate_job *crowd_observer(const struct crowd *c)
{
    struct stepgate_options *options = crowd_options(c);
    struct stepgate_job *job = NULL;

    must(stepgate_options_set(options, "job_name", "observer"));
    must(stepgate_job_join(options, CROWD_MS, &job));
    stepgate_options_delete(&options);
    return job;
}

/* crowd_attach -- an observer's model. */
static inline struct stepgate_model *crowd_attach(struct stepgate_job *job)
{
    struct stepgate_model *model = NULL;

    must(stepgate_model_attach(job, "m", CROWD_MS, &model));
    return model;
}

/* crowd_same -- all elements have that value. Read once each, and by memcmp: sanitizers look at every access of a loop. */
static inline void crowd_same(const float *values, uint64_t count, float value)
{
    float block[1024];
    uint64_t length = sizeof(block) / sizeof(block[0]);

    for (uint64_t i = 0; i < length; i++)
        block[i] = value + 0.0F; /* never -0 */
    for (uint64_t from = 0; from < count; from += length) {
        length = count - from < length ? count - from : length;
        if (memcmp(values + from, block, length * sizeof(float)) == 0)
            continue;
        for (uint64_t i = from; i < from + length; i++)
            if (values[i] != value) {
                print_error("element %llu of %llu is %g, not %g\n", (unsigned long long)i,
                            (unsigned long long)count, (double)values[i], (double)value);
                fail();
            }
        assert_true(value == 0); /* -0 is the same; anything else has changed in between */
    }
}

/* crowd_end -- the workers have left, or leave now, and every ps says that the job went well. */
static inline void crowd_end(struct crowd *c)
{
    for (int r = 0; r < c->workers; r++) {
        if (c->worker[r].runs)
            pthread_join(c->worker[r].thread, NULL);
        assert_int_equal(c->worker[r].status, 0);
        stepgate_job_delete(&c->worker[r].job);
    }
    for (int s = 0; s < c->servers; s++) {
        void *status = NULL;
        pthread_join(c->thread[s], &status);
        assert_int_equal((int)(intptr_t)status, 0);
        stepgate_server_delete(&c->server[s]);
    }
}

/* crowd_stop -- the workers leave, all after the same step: one that none of them has begun. */
static inline void crowd_stop(struct crowd *c)
{
    atomic_store(&c->steps, atomic_load(&c->reached) + 3);
    atomic_store(&c->held, UINT64_MAX);
    crowd_end(c);
}

#endif
