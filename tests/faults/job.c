/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/job.h"

#include <dirent.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#define JOB_MS 6000 /* of a wait, where a machine is not slow */
#define JOB_STEPS 4
#define JOB_DENSE 3000
#define JOB_ROWS 40
#define JOB_WIDTH 4

/* Variables in order of declaration. */
enum job_variable { JOB_WEIGHT, JOB_BIAS, JOB_TABLE, JOB_MEAN, JOB_OWN, JOB_VARIABLES };

static const struct {
    const char *name;
    int kind, rank;
    uint64_t dims[2];
} job_variables[JOB_VARIABLES] = {[JOB_WEIGHT] = {"weight", STEPGATE_TRAINED, 1, {JOB_DENSE}},
                                  [JOB_BIAS] = {"bias", STEPGATE_TRAINED, 1, {7}},
                                  [JOB_TABLE] = {"table", STEPGATE_SPARSE, 2, {JOB_ROWS, JOB_WIDTH}},
                                  [JOB_MEAN] = {"mean", STEPGATE_ASSIGNED, 1, {5}},
                                  [JOB_OWN] = {"own", STEPGATE_AUX, 1, {3}}};

struct job_state {
    const struct job_plan *plan;
    const struct job_ground *ground;
    const char *folder;
    struct job_report *report;
    int ms;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool begun;             /* all threads are there */
    bool listens, will_not; /* the ps */
    struct stepgate_server *server;
    char address[STEPGATE_ADDRESS_BYTES];
    uint64_t end; /* the step that is looked at and not made */
};

struct job_actor {
    struct job_state *state;
    int rank; /* JOB_WORKERS: the ps */
    pthread_t thread;
    struct job_end *end;
    struct stepgate_job *job;
    struct stepgate_model *model;
    uint64_t values;
};

/* The test's own threads are none of the points, and are there before any is armed. */
int __real_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*body)(void *), void *context);
int __real_pthread_join(pthread_t thread, void **result);

/* job_log -- a line of the library's. */
static void job_log(void *context, int level, const char *line)
{
    struct job_report *report = context;
    size_t length = strlen(line), at = atomic_fetch_add(&report->logged, length + 1);

    (void)level;
    if (at + length + 1 >= sizeof(report->log))
        return;
    memcpy(report->log + at, line, length);
    report->log[at + length] = '\n';
}

/* job_keep -- a status, with what is known of it, if it is the first that is an error; returns it. */
static int job_keep(struct job_end *end, int status)
{
    if (status < 0 && end->status == 0) {
        end->status = status;
        end->error.size = sizeof(end->error);
        stepgate_error_last(&end->error);
    }
    return status;
}

/* job_knobs -- sets names and values in turn. */
static int job_knobs(struct stepgate_options *options, const char *const *knobs)
{
    int status = 0;

    for (; status >= 0 && knobs != NULL && knobs[0] != NULL; knobs += 2)
        status = stepgate_options_set(options, knobs[0], knobs[1]);
    return status;
}

/* job_options -- of the ps or a worker. */
static int job_options(struct job_actor *actor, struct stepgate_options **options)
{
    struct job_state *state = actor->state;
    char listen[STEPGATE_ADDRESS_BYTES], rank[16], join[16], alive[16], end[16];
    bool ps = actor->rank == JOB_WORKERS;
    const char *const common[] = {
        "transport", state->ground->transport, "workers", "2",        "join_timeout", join, "liveness",
        alive,       "close_timeout",          end,       "insecure", "on",           NULL};
    const char *const servers[] = {"listen",
                                   listen,
                                   "lanes",
                                   "2",
                                   "checkpoint",
                                   state->plan->checkpoints ? state->folder : "",
                                   "checkpoint_steps",
                                   state->plan->checkpoints ? "2" : "0",
                                   NULL};
    const char *const workers[] = {"ps_hosts", state->address, "task_index", rank, NULL};

    snprintf(listen, sizeof(listen), "%s:0", state->ground->host);
    snprintf(join, sizeof(join), "%ds", 3 * state->ground->slowness);
    snprintf(alive, sizeof(alive), "%ds", 20 * state->ground->slowness);
    snprintf(end, sizeof(end), "%ds", 2 * state->ground->slowness);
    snprintf(rank, sizeof(rank), "%d", actor->rank);
    int status = stepgate_options_new(options);
    if (status >= 0)
        status = stepgate_options_log(*options, job_log, state->report, STEPGATE_LOG_INFO);
    if (status >= 0)
        status = job_knobs(*options, common);
    if (status >= 0)
        status = job_knobs(*options, ps ? servers : workers);
    if (status >= 0 && ps)
        status = job_knobs(*options, state->plan->server);
    return status;
}

/* job_told -- the ps listens, or never will. */
static void job_told(struct job_state *state, bool listens)
{
    pthread_mutex_lock(&state->lock);
    state->listens = listens;
    state->will_not = !listens;
    pthread_cond_broadcast(&state->moved);
    pthread_mutex_unlock(&state->lock);
}

/* job_gate -- waits until all threads are there. */
static void job_gate(struct job_state *state)
{
    pthread_mutex_lock(&state->lock);
    while (!state->begun)
        pthread_cond_wait(&state->moved, &state->lock);
    pthread_mutex_unlock(&state->lock);
}

/* job_address -- waits for the ps; false: there will be none. */
static bool job_address(struct job_state *state)
{
    pthread_mutex_lock(&state->lock);
    while (!state->listens && !state->will_not)
        pthread_cond_wait(&state->moved, &state->lock);
    bool listens = state->listens;
    pthread_mutex_unlock(&state->lock);
    return listens;
}

/* job_serve -- the ps's thread. */
static void *job_serve(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;
    struct stepgate_options *options = NULL;
    struct stepgate_server *server = NULL;

    job_gate(state);
    int status = job_options(actor, &options);
    if (status >= 0)
        status = stepgate_server_new(options, &server);
    job_keep(actor->end, status);
    stepgate_options_delete(&options);
    if (status >= 0)
        status =
            job_keep(actor->end, stepgate_server_address(server, state->address, sizeof(state->address)));
    state->server = server;
    job_told(state, status >= 0);
    if (status >= 0)
        job_keep(actor->end, stepgate_server_run(server));
    pthread_mutex_lock(&state->lock);
    state->server = NULL;
    pthread_mutex_unlock(&state->lock);
    stepgate_server_delete(&server);
    return NULL;
}

/* job_declare -- the model, committed. */
static int job_declare(struct job_actor *actor)
{
    static float initial[JOB_DENSE];
    const char *const *key = actor->state->plan->keys;
    struct stepgate_model_info info = {.size = sizeof(info)};
    int status = stepgate_model_new(actor->job, "m", &actor->model);

    for (; status >= 0 && key != NULL && key[0] != NULL; key += 2)
        status = stepgate_model_set(actor->model, key[0], key[1]);
    for (int v = 0; status >= 0 && v < JOB_VARIABLES; v++) {
        int id = -1;
        status = stepgate_model_variable(actor->model, job_variables[v].name, job_variables[v].kind,
                                         STEPGATE_F32, job_variables[v].rank, job_variables[v].dims, &id);
        if (status >= 0 && v == JOB_TABLE)
            status = stepgate_model_variable_set(actor->model, id, "rows_max", "8");
    }
    for (int v = JOB_WEIGHT; status >= 0 && actor->rank == 0 && v <= JOB_BIAS; v++)
        status =
            stepgate_model_initialize(actor->model, v, initial, job_variables[v].dims[0] * sizeof(float));
    if (status >= 0)
        status = stepgate_model_commit(actor->model, actor->state->ms, &info);
    return status;
}

/* job_push -- one variable: numbers of rank, step, variable and place. */
static int job_push(struct job_actor *actor, uint64_t step, int v)
{
    const uint64_t rows[3] = {step, step + 5, (uint64_t)actor->rank + 20};
    float values[3 * JOB_WIDTH];
    void *gradient = NULL;

    if (v == JOB_TABLE) {
        for (int i = 0; i < 3 * JOB_WIDTH; i++)
            values[i] = (float)((int)step + actor->rank + i) / 7.0f;
        return stepgate_step_push_rows(actor->model, v, rows, 3, values);
    }
    int status = stepgate_buffer_gradient(actor->model, v, &gradient);
    for (uint64_t i = 0; status >= 0 && i < job_variables[v].dims[0]; i++)
        ((float *)gradient)[i] = (float)((int)(step * 5 + i) % 17 + actor->rank * 7 + v) / 9.0f;
    return status < 0 ? status : stepgate_step_push(actor->model, v);
}

/* job_sum -- takes bytes into the sum of what was read (FNV-1a). */
static void job_sum(uint64_t *sum, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *sum = (*sum ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
}

/* job_read -- all values of the step that is open. */
static int job_read(struct job_actor *actor)
{
    static const uint64_t rows[2] = {3, 20};
    float some[2 * JOB_WIDTH];
    const void *value = NULL;
    int status = stepgate_step_pull(actor->model, STEPGATE_ALL, actor->state->ms, NULL);

    actor->values = UINT64_C(0xcbf29ce484222325);
    for (int v = 0; status >= 0 && v < JOB_VARIABLES; v++) {
        if (v == JOB_TABLE || v == JOB_OWN)
            continue;
        status = stepgate_buffer_parameter(actor->model, v, &value);
        if (status >= 0)
            job_sum(&actor->values, value, job_variables[v].dims[0] * sizeof(float));
    }
    if (status >= 0)
        status = stepgate_step_pull_rows(actor->model, JOB_TABLE, rows, 2, some, actor->state->ms, NULL);
    if (status >= 0)
        job_sum(&actor->values, some, sizeof(some));
    return status;
}

/* job_look -- what can be looked at and changed in mid-training. */
static int job_look(struct job_actor *actor, uint64_t step)
{
    static const int ids[2] = {JOB_WEIGHT, JOB_TABLE};
    static float weight[JOB_DENSE], slot[JOB_DENSE], table[JOB_ROWS * JOB_WIDTH];
    void *const out[2] = {weight, table};
    struct stepgate_contributions counts = {.size = sizeof(counts)};
    int status = stepgate_model_snapshot(actor->model, STEPGATE_SNAPSHOT_PARAMETERS, ids, 2, out,
                                         actor->state->ms, NULL);

    if (status >= 0)
        status = stepgate_model_slot(actor->model, JOB_WEIGHT, "momentum", actor->state->ms, slot,
                                     sizeof(slot), NULL);
    if (status >= 0)
        status = stepgate_model_contributions(actor->model, 1, actor->state->ms, &counts);
    if (status >= 0)
        status = stepgate_model_tune(actor->model, "learning_rate", "0.05", step + 1);
    return status;
}

/* job_step -- one; the last is left open. */
static int job_step(struct job_actor *actor, uint64_t *at)
{
    struct job_state *state = actor->state;
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = stepgate_step_begin(actor->model, actor->state->ms, &info);

    *at = info.step;
    if (status >= 0)
        status = job_read(actor);
    if (status < 0 || info.step == state->end)
        return status;
    for (int v = 0; status >= 0 && v < JOB_VARIABLES; v++)
        status = job_push(actor, info.step, v);
    if (status >= 0 && state->plan->looks && actor->rank == 0 && info.step == 1)
        status = job_look(actor, info.step);
    return status < 0 ? status : stepgate_step_finish(actor->model, 1);
}

/* job_train -- from the join to the end. */
static int job_train(struct job_actor *actor)
{
    struct job_state *state = actor->state;
    uint64_t step = 0;
    int status = job_declare(actor);

    do {
        if (status >= 0)
            status = job_step(actor, &step);
    } while (status >= 0 && step < state->end);
    if (status >= 0 && state->plan->checkpoints && actor->rank == 0)
        status = stepgate_checkpoint(actor->model, actor->state->ms, NULL);
    if (status >= 0)
        status = stepgate_job_barrier(actor->job, actor->state->ms);
    if (status >= 0)
        status = stepgate_job_leave(actor->job, actor->state->ms);
    return status;
}

/* job_work -- a worker's thread. */
static void *job_work(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;
    struct stepgate_options *options = NULL;

    job_gate(state);
    if (!job_address(state))
        return NULL;
    int status = job_keep(actor->end, job_options(actor, &options));
    if (status >= 0)
        status = job_keep(actor->end, stepgate_job_join(options, actor->state->ms, &actor->job));
    stepgate_options_delete(&options);
    pthread_mutex_lock(&state->lock);
    if (status < 0 && state->server != NULL) /* as whoever started the processes does */
        stepgate_server_stop(state->server);
    pthread_mutex_unlock(&state->lock);
    if (status >= 0)
        job_keep(actor->end, job_train(actor));
    stepgate_model_delete(&actor->model);
    stepgate_job_delete(&actor->job);
    return NULL;
}

/* job_once -- all of them from their first call to their last. */
static void job_once(struct job_state *state, uint64_t number)
{
    struct job_actor actors[JOB_ACTORS];
    struct job_report *report = state->report;

    state->begun = state->listens = state->will_not = false;
    memset(actors, 0, sizeof(actors));
    for (int a = 0; a < JOB_ACTORS; a++) {
        actors[a].state = state;
        actors[a].rank = a;
        actors[a].end = &report->end[a];
        memset(actors[a].end, 0, sizeof(*actors[a].end));
        if (__real_pthread_create(&actors[a].thread, NULL, a == JOB_WORKERS ? job_serve : job_work,
                                  &actors[a]) != 0)
            abort(); /* no test without threads */
    }
    point_arm(number, state->ground->kinds, state->ground->call);
    pthread_mutex_lock(&state->lock);
    state->begun = true;
    pthread_cond_broadcast(&state->moved);
    pthread_mutex_unlock(&state->lock);
    report->values = 0;
    for (int a = 0; a < JOB_ACTORS; a++) {
        __real_pthread_join(actors[a].thread, NULL);
        report->values = report->values * 31 + actors[a].values;
    }
    report->points = point_disarm();
    report->failed = point_failed();
}

/* job_descriptors -- how many are open. */
static long job_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    long count = 0;

    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* job_run -- see job.h. */
void job_run(const struct job_plan *plan, const struct job_ground *ground, const char *folder,
             uint64_t number, struct job_report *report)
{
    struct job_state state = {
        .plan = plan, .ground = ground, .folder = folder, .report = report, .ms = JOB_MS * ground->slowness};
    struct wrap_kept kept;

    pthread_mutex_init(&state.lock, NULL);
    pthread_cond_init(&state.moved, NULL);
    state.end = JOB_STEPS;
    if (plan->resumes) {
        job_once(&state, 0);
        state.end += JOB_STEPS;
        atomic_store(&report->logged, 0);
        memset(report->log, 0, sizeof(report->log));
    }
    if (strcmp(ground->transport, "verbs") == 0) /* librdmacm keeps what it has found out at its first call */
        rdma_free_devices(rdma_get_devices(NULL));
    long descriptors = job_descriptors();
    wrap_kept(&kept);
    job_once(&state, number);
    report->descriptors = job_descriptors() - descriptors;
    wrap_kept(&report->kept);
    report->kept.threads -= kept.threads;
    report->kept.mappings -= kept.mappings;
    report->kept.objects -= kept.objects;
    pthread_cond_destroy(&state.moved);
    pthread_mutex_destroy(&state.lock);
#ifdef __SANITIZE_ADDRESS__
    report->leaks = __lsan_do_recoverable_leak_check() != 0;
#endif
    atomic_store(&report->whole, true);
}
