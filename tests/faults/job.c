/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "tests/faults/program.h"

#define JOB_MS 6000 /* of a wait, where a machine is not slow */
#define JOB_STEPS 4
#define JOB_TEXT_BYTES 8192
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

struct job_ps {
    struct stepgate_server *server; /* while it runs */
    char address[STEPGATE_ADDRESS_BYTES];
    bool listens;
    pthread_t thread; /* of the program */
    bool runs;
};

struct job_state {
    const struct job_plan *plan;
    const struct job_ground *ground;
    const char *folder;
    struct job_report *report;
    int ms;
    unsigned ps_count;
    bool records; /* or replays, where the plan has sets */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool begun;    /* all threads are there */
    bool will_not; /* a ps that never listens */
    bool lost;     /* the ps that the plan loses */
    bool reached, observed;
    int streams; /* what the program writes; -1: there is none */
    struct job_ps ps[JOB_PS];
    uint64_t end; /* the step that is looked at and not made */
};

struct job_actor {
    struct job_state *state;
    int number; /* in the report */
    int rank;   /* among its like */
    pthread_t thread;
    struct job_end *end;
    struct stepgate_job *job;
    struct stepgate_model *model;
    uint64_t values;
};

/* The test's own threads are none of the points, and are there before any is armed. */
int __real_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*body)(void *), void *context);
int __real_pthread_join(pthread_t thread, void **result);
/* Nor are its looks at what the program writes. */
ssize_t __real_pread(int fd, void *data, size_t bytes, off_t at);

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

/* job_hosts -- the list of ps as a worker sees it, or ps `own`, which listens at the last one of its own. */
static void job_hosts(const struct job_state *state, unsigned own, char *out, size_t size)
{
    size_t used = 0;

    out[0] = 0;
    for (unsigned p = 0; p < state->ps_count; p++) {
        char address[STEPGATE_ADDRESS_BYTES + 8];
        snprintf(address, sizeof(address), "%s:0", p == own ? state->ground->host : "-");
        if (state->ps[p].address[0] != 0)
            snprintf(address, sizeof(address), "%s", state->ps[p].address);
        used += (size_t)snprintf(out + used, size - used, "%s%s", p > 0 ? "," : "", address);
    }
}

/* job_options -- of a ps, a worker or the observer. */
static int job_options(struct job_actor *actor, struct stepgate_options **options)
{
    struct job_state *state = actor->state;
    const struct job_plan *plan = state->plan;
    char hosts[JOB_PS * (STEPGATE_ADDRESS_BYTES + 8)], rank[16], join[16], alive[16], end[16], path[256];
    bool ps = actor->number >= JOB_FIRST_PS && actor->number < JOB_OBSERVER;
    bool observer = actor->number == JOB_OBSERVER;
    const char *const common[] = {"transport",
                                  state->ground->transport,
                                  "ps_hosts",
                                  hosts,
                                  "workers",
                                  "2",
                                  "join_timeout",
                                  join,
                                  "liveness",
                                  alive,
                                  "close_timeout",
                                  end,
                                  "lost_ps",
                                  plan->loses ? "rewind" : "fail",
                                  NULL};
    const char *const open[] = {"insecure", "on", NULL};
    const char *const secret[] = {"secret_file", path, NULL};
    const char *const place[] = {"task_index", rank, NULL};
    const char *const servers[] = {"lanes",
                                   "2",
                                   "checkpoint",
                                   plan->checkpoints ? state->folder : "",
                                   "checkpoint_steps",
                                   plan->checkpoints ? "2" : "0",
                                   NULL};
    const char *const sets[] = {state->records ? "record_sets" : "replay_sets", path, NULL};
    const char *const observers[] = {"job_name", "observer", NULL};

    job_hosts(state, ps ? (unsigned)actor->rank : JOB_PS, hosts, sizeof(hosts));
    snprintf(join, sizeof(join), "%ds", 3 * state->ground->slowness);
    snprintf(alive, sizeof(alive), "%ds", 20 * state->ground->slowness);
    snprintf(end, sizeof(end), "%ds", 2 * state->ground->slowness);
    snprintf(rank, sizeof(rank), "%d", actor->rank);
    snprintf(path, sizeof(path), "%s/secret", state->folder);
    int status = stepgate_options_new(options);
    if (status >= 0)
        status = stepgate_options_log(*options, job_log, state->report, STEPGATE_LOG_INFO);
    if (status >= 0)
        status = job_knobs(*options, common);
    if (status >= 0)
        status = job_knobs(*options, plan->secret ? secret : open);
    if (status >= 0)
        status = job_knobs(*options, observer ? observers : place);
    if (status >= 0 && ps)
        status = job_knobs(*options, servers);
    snprintf(path, sizeof(path), "%s/sets", state->folder);
    if (status >= 0 && ps && plan->sets && actor->rank == 0)
        status = job_knobs(*options, sets);
    return status;
}

/* job_say -- something that others wait for has come about. */
static void job_say(struct job_state *state, bool *what)
{
    pthread_mutex_lock(&state->lock);
    *what = true;
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

/* job_text -- what the program has written so far. */
static void job_text(const struct job_state *state, char out[JOB_TEXT_BYTES])
{
    ssize_t got = __real_pread(state->streams, out, JOB_TEXT_BYTES - 1, 0);

    out[got > 0 ? got : 0] = 0;
}

/* job_look_for -- has the program said where it listens? The lock is held. */
static void job_look_for(struct job_state *state)
{
    struct timespec soon;
    char text[JOB_TEXT_BYTES];

    job_text(state, text);
    const char *at = strstr(text, "\nlistening ");
    if (at != NULL && strchr(at + 1, '\n') != NULL) {
        sscanf(at, "\nlistening %63s", state->ps[0].address);
        state->ps[0].listens = true;
        return;
    }
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 2000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&state->moved, &state->lock, &soon);
}

/* job_address -- waits for the first `count` ps; false: one of them never comes. */
static bool job_address(struct job_state *state, unsigned count)
{
    bool all = false;

    pthread_mutex_lock(&state->lock);
    while (!all && !state->will_not) {
        all = true;
        for (unsigned p = 0; p < count; p++)
            all = all && state->ps[p].listens;
        if (!all && state->plan->program)
            job_look_for(state);
        else if (!all)
            pthread_cond_wait(&state->moved, &state->lock);
    }
    pthread_mutex_unlock(&state->lock);
    return all;
}

/* job_stop -- stops every ps, as whoever started the processes does where one has failed at its beginning; or one alone. */
static void job_stop(struct job_state *state, unsigned first, unsigned count)
{
    pthread_mutex_lock(&state->lock);
    for (unsigned p = first; p < first + count; p++) {
        if (state->ps[p].server != NULL)
            stepgate_server_stop(state->ps[p].server);
        if (state->ps[p].runs)
            pthread_kill(state->ps[p].thread, SIGTERM);
    }
    pthread_mutex_unlock(&state->lock);
}

/* job_serve_once -- from its options to its end. */
static int job_serve_once(struct job_actor *actor)
{
    struct job_state *state = actor->state;
    struct job_ps *ps = &state->ps[actor->rank];
    struct stepgate_options *options = NULL;
    struct stepgate_server *server = NULL;
    int status = job_options(actor, &options);

    if (status >= 0)
        status = stepgate_server_new(options, &server);
    job_keep(actor->end, status);
    stepgate_options_delete(&options);
    if (status >= 0)
        status = job_keep(actor->end, stepgate_server_address(server, ps->address, sizeof(ps->address)));
    if (status >= 0) {
        pthread_mutex_lock(&state->lock);
        ps->server = server;
        pthread_mutex_unlock(&state->lock);
        job_say(state, &ps->listens);
        status = job_keep(actor->end, stepgate_server_run(server));
        pthread_mutex_lock(&state->lock);
        ps->server = NULL;
        pthread_mutex_unlock(&state->lock);
    } else {
        job_say(state, &state->will_not);
        job_stop(state, 0, state->ps_count);
    }
    stepgate_server_delete(&server);
    return status;
}

/* job_program -- the thread of a ps that is the program. */
static void *job_program(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;
    struct job_ps *ps = &state->ps[0];
    char hosts[STEPGATE_ADDRESS_BYTES + 8], file[256], join[16], text[JOB_TEXT_BYTES];
    char *argv[] = {
        "stepgate-ps",    "--ps-hosts",         hosts, "--workers=2",    "--transport", "shm",
        "--insecure",     "--address-file",     file,  "--join-timeout", join,          "--lanes=2",
        "--liveness=20s", "--close-timeout=2s", NULL};

    snprintf(hosts, sizeof(hosts), "%s:0", state->ground->host);
    snprintf(file, sizeof(file), "%s/address", state->folder);
    snprintf(join, sizeof(join), "%ds", 3 * state->ground->slowness);
    job_gate(state);
    pthread_mutex_lock(&state->lock);
    ps->thread = pthread_self();
    ps->runs = true;
    pthread_mutex_unlock(&state->lock);
    int status = program_ps((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);
    pthread_mutex_lock(&state->lock);
    ps->runs = false;
    state->will_not = true; /* whoever has not heard by now where it listens */
    pthread_cond_broadcast(&state->moved);
    pthread_mutex_unlock(&state->lock);
    job_text(state, text);
    job_log(state->report, STEPGATE_LOG_INFO, text);
    if (status != 0 && status != 128 + SIGTERM) {
        actor->end->status = -status;
        actor->end->error.code = status;
        snprintf(actor->end->error.text, sizeof(actor->end->error.text), "%s",
                 strstr(text, "ps 0: ") != NULL || strstr(text, "stepgate-ps: ") != NULL ? "its streams tell"
                                                                                         : "");
    }
    return NULL;
}

/* job_serve -- a ps's thread; the one that is lost is started again. */
static void *job_serve(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;
    bool again;

    job_gate(state);
    if (!job_address(state, (unsigned)actor->rank)) /* a ps knows those before it */
        return NULL;
    do {
        bool before = state->lost;
        int status = job_serve_once(actor);
        again = status >= 0 && state->plan->loses && (unsigned)actor->rank == state->ps_count - 1 &&
                !before && state->lost;
    } while (again);
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

/* job_lose -- the ps that the plan loses, once. */
static void job_lose(struct job_state *state)
{
    if (state->lost)
        return;
    job_say(state, &state->lost);
    job_stop(state, state->ps_count - 1, 1);
}

/* job_step -- one; the last is left open. */
static int job_step(struct job_actor *actor, uint64_t *at)
{
    struct job_state *state = actor->state;
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = stepgate_step_begin(actor->model, state->ms, &info);

    if (status < 0)
        return status;
    *at = info.step;
    status = job_read(actor);
    if (status < 0 || info.step >= state->end)
        return status;
    for (int v = 0; status >= 0 && v < JOB_VARIABLES; v++)
        status = job_push(actor, info.step, v);
    if (status >= 0 && state->plan->looks && actor->rank == 0 && info.step == 1)
        status = job_look(actor, info.step);
    if (status >= 0 && state->plan->loses && actor->rank == 0 && info.step == 2)
        job_lose(state);
    return status < 0 ? status : stepgate_step_finish(actor->model, 1);
}

/* job_end -- what is done in the step that is left open. */
static int job_end(struct job_actor *actor)
{
    struct job_state *state = actor->state;
    int status = 0;

    if (state->plan->observes) {
        job_say(state, &state->reached);
        pthread_mutex_lock(&state->lock);
        while (!state->observed)
            pthread_cond_wait(&state->moved, &state->lock);
        pthread_mutex_unlock(&state->lock);
    }
    if (state->plan->checkpoints && actor->rank == 0)
        status = stepgate_checkpoint(actor->model, state->ms, NULL);
    if (status >= 0)
        status = stepgate_job_barrier(actor->job, state->ms);
    return status < 0 ? status : stepgate_job_leave(actor->job, state->ms);
}

/* job_train -- from the join to the end; what it is told of going back is no error. */
static int job_train(struct job_actor *actor)
{
    struct job_state *state = actor->state;
    uint64_t step = 0;
    int status = job_declare(actor);

    while (status >= 0 || status == -STEPGATE_EREWOUND) {
        do
            status = job_step(actor, &step);
        while (status >= 0 && step < state->end);
        if (status < 0)
            continue;
        status = job_end(actor);
        if (status >= 0)
            break;
    }
    return status;
}

/* job_join -- with options of its own; where it cannot, the ps are stopped. */
static int job_join(struct job_actor *actor)
{
    struct stepgate_options *options = NULL;
    int status = job_keep(actor->end, job_options(actor, &options));

    if (status >= 0)
        status = job_keep(actor->end, stepgate_job_join(options, actor->state->ms, &actor->job));
    stepgate_options_delete(&options);
    if (status < 0)
        job_stop(actor->state, 0, actor->state->ps_count);
    return status;
}

/* job_work -- a worker's thread. */
static void *job_work(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;

    job_gate(state);
    if (job_address(state, state->ps_count) && job_join(actor) >= 0)
        job_keep(actor->end, job_train(actor));
    if (actor->end->status != 0) /* nothing comes any more that the observer waits for */
        job_say(state, &state->reached);
    stepgate_model_delete(&actor->model);
    stepgate_job_delete(&actor->job);
    return NULL;
}

/* job_watch -- reads when the last step is there. */
static int job_watch(struct job_actor *actor)
{
    struct job_state *state = actor->state;
    int status = stepgate_model_attach(actor->job, "m", state->ms, &actor->model);

    pthread_mutex_lock(&state->lock);
    while (!state->reached)
        pthread_cond_wait(&state->moved, &state->lock);
    pthread_mutex_unlock(&state->lock);
    return status < 0 ? status : job_read(actor);
}

/* job_observe -- the observer's thread. A job that ends before it has read everything is no error of its own. */
static void *job_observe(void *context)
{
    struct job_actor *actor = context;
    struct job_state *state = actor->state;

    job_gate(state);
    if (job_address(state, state->ps_count) && job_join(actor) >= 0) {
        int status = job_watch(actor);
        job_keep(actor->end, status == -STEPGATE_EENDED ? 0 : status);
    }
    if (actor->job != NULL && actor->end->status >= 0)
        job_keep(actor->end, stepgate_job_leave(actor->job, state->ms));
    job_say(state, &state->observed);
    stepgate_model_delete(&actor->model);
    stepgate_job_delete(&actor->job);
    return NULL;
}

/* job_body -- what the thread of an actor does; NULL: there is none in this plan. */
static void *(*job_body(const struct job_state *state, int number))(void *)
{
    if (number < JOB_WORKERS)
        return job_work;
    if (number == JOB_OBSERVER)
        return state->plan->observes ? job_observe : NULL;
    if (state->plan->program)
        return number == JOB_FIRST_PS ? job_program : NULL;
    return number - JOB_FIRST_PS < (int)state->ps_count ? job_serve : NULL;
}

/* job_once -- all of them from their first call to their last. */
static void job_once(struct job_state *state, uint64_t number)
{
    struct job_actor actors[JOB_ACTORS];
    struct job_report *report = state->report;

    state->begun = state->will_not = state->lost = state->reached = state->observed = false;
    memset(state->ps, 0, sizeof(state->ps));
    memset(actors, 0, sizeof(actors));
    for (int a = 0; a < JOB_ACTORS; a++) {
        void *(*body)(void *) = job_body(state, a);
        actors[a] = (struct job_actor){.state = state,
                                       .number = a,
                                       .rank = a < JOB_FIRST_PS ? a : a - JOB_FIRST_PS,
                                       .end = &report->end[a]};
        memset(actors[a].end, 0, sizeof(*actors[a].end));
        if (body != NULL && __real_pthread_create(&actors[a].thread, NULL, body, &actors[a]) != 0)
            abort(); /* no test without threads */
    }
    point_arm(number, state->ground->kinds, state->ground->call);
    job_say(state, &state->begun);
    report->values = 0;
    for (int a = 0; a < JOB_ACTORS; a++) {
        if (job_body(state, a) != NULL)
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

/* job_streams -- where this process writes to from now on. */
static int job_streams(void)
{
    int file = memfd_create("streams", MFD_CLOEXEC);

    if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0)
        abort();
    setvbuf(stdout, NULL, _IONBF, 0);
    return file;
}

/* job_secret -- the file of those that have one. */
static void job_secret(const struct job_state *state)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/secret", state->folder);
    int file = state->plan->secret ? open(path, O_WRONLY | O_CREAT, 0600) : -1;
    if (file >= 0 && write(file, "0123456789abcdef0123456789abcdef", 32) != 32)
        abort();
    if (file >= 0)
        close(file);
}

/* job_run -- see job.h. */
void job_run(const struct job_plan *plan, const struct job_ground *ground, const char *folder,
             uint64_t number, struct job_report *report)
{
    struct job_state state = {.plan = plan,
                              .ground = ground,
                              .folder = folder,
                              .report = report,
                              .ms = JOB_MS * ground->slowness,
                              .ps_count = plan->two ? 2 : 1};
    struct wrap_kept kept;

    pthread_mutex_init(&state.lock, NULL);
    pthread_cond_init(&state.moved, NULL);
    state.end = JOB_STEPS;
    state.streams = plan->program ? job_streams() : -1;
    state.records = !plan->again;
    job_secret(&state);
    if (plan->again) {
        state.records = true;
        job_once(&state, 0);
        state.records = false;
        if (plan->checkpoints)
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
