/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/job.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/clock.h"
#include "perf/port.h"
#include "perf/route.h"
#include "stepgate/stepgate.h"

#define JOB_TEXT 2048
#define JOB_SHARDS_MAX 64
#define JOB_JOIN_MS 60000
#define JOB_STEP_MS 120000
#define JOB_RATE 0.01f
#define JOB_MOMENTUM 0.9f

/* One process's part of what all share. */
struct job_seat {
    pid_t pid;
    char text[JOB_TEXT]; /* its error; "": none */
    uint32_t place;      /* among the errors of all, from 1; the first one is the cause */
};

/* In memory that all processes of a measurement share. */
struct job_board {
    struct job_result result;
    char address[JOB_SHARDS_MAX][STEPGATE_ADDRESS_BYTES];
    /* listening: ps that have written their address, release; the parent's acquire load sees it. */
    _Atomic uint32_t listening;
    /* end: the step that nobody trains; stored by worker 0, release; loaded by all workers, acquire. */
    _Atomic uint64_t end;
    _Atomic uint32_t errors; /* that there are; their order is that of the clock, near enough */
    uint32_t seats;
    struct job_seat seat[]; /* ps, then workers */
};

struct job_process {
    const struct job_plan *plan;
    struct job_board *board;
    uint32_t index; /* among its role */
    bool ps;
};

/* job_plan_of -- see job.h. */
struct job_plan job_plan_of(const struct settings *s, uint64_t workers, uint64_t parameters)
{
    return (struct job_plan){.transport = s->transport,
                             .address = s->address,
                             .optimizer = s->optimizer,
                             .wait = s->wait,
                             .bind = s->bind,
                             .workers = workers,
                             .shards = s->shards,
                             .lanes = s->lanes,
                             .parameters = parameters,
                             .variables = s->variables,
                             .warmup = s->warmup,
                             .iterations = s->iterations,
                             .duration = s->duration,
                             .rewrite = s->rewrite};
}

/* job_seat_of -- of a process. */
static struct job_seat *job_seat_of(const struct job_process *p)
{
    return &p->board->seat[p->ps ? p->index : p->plan->shards + p->index];
}

/* job_say -- the library's last error becomes this process's. */
static int job_say(const struct job_process *p, const char *what)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct job_seat *seat = job_seat_of(p);

    stepgate_error_last(&error);
    if (seat->place == 0)
        seat->place = atomic_fetch_add_explicit(&p->board->errors, 1, memory_order_relaxed) + 1;
    snprintf(seat->text, sizeof(seat->text), "%s %u, %s: %s%s%s", p->ps ? "ps" : "worker", p->index, what,
             error.text, error.remedy[0] != '\0' ? ": " : "", error.remedy);
    return -1;
}

/* job_options -- of one process. */
static int job_options(const struct job_process *p, struct stepgate_options **out)
{
    const struct job_plan *plan = p->plan;
    char number[32], listen[128], hosts[JOB_SHARDS_MAX * (STEPGATE_ADDRESS_BYTES + 1)] = "", name[64];
    int status = stepgate_options_new(out);
    size_t length = 0;

    if (status < 0)
        return status;
    snprintf(number, sizeof(number), "%llu", (unsigned long long)plan->workers);
    status = stepgate_options_set(*out, "workers", number);
    for (uint64_t s = 0; s < plan->shards; s++)
        length += (size_t)snprintf(
            hosts + length, sizeof(hosts) - length, "%s%s", s > 0 ? "," : "",
            p->ps && (p->index == s || p->board->address[s][0] == '\0') ? "-:0" : p->board->address[s]);
    snprintf(listen, sizeof(listen), "%s:0", plan->address != NULL ? plan->address : "127.0.0.1");
    snprintf(name, sizeof(name), "perf-%d", (int)getppid());
    const char *const pairs[][2] = {{"job", name},
                                    {"transport", plan->transport},
                                    {"wait", plan->wait},
                                    {"bind", p->ps ? plan->bind : NULL},
                                    {"ps_hosts", hosts},
                                    {"listen", p->ps ? listen : NULL},
                                    {"join_timeout", "60s"},
                                    {"step_timeout", "120s"},
                                    {"liveness", "60s"}, /* memory of large models is made ready in silence */
                                    {"insecure", plan->address != NULL ? "on" : NULL},
                                    {"log", "warn"}};
    for (size_t i = 0; status >= 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i][1] != NULL)
            status = stepgate_options_set(*out, pairs[i][0], pairs[i][1]);
    snprintf(number, sizeof(number), "%u", p->index);
    if (status >= 0)
        status = stepgate_options_set(*out, "task_index", number);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)plan->lanes);
    return status < 0 || !p->ps ? status : stepgate_options_set(*out, "lanes", number);
}

/* job_serve -- a ps: until the job is over. */
static int job_serve(const struct job_process *p)
{
    struct stepgate_options *options = NULL;
    struct stepgate_server *server = NULL;
    int status = job_options(p, &options);

    if (status >= 0)
        status = stepgate_server_new(options, &server);
    if (status >= 0)
        status = stepgate_server_address(server, p->board->address[p->index], STEPGATE_ADDRESS_BYTES);
    if (status >= 0) {
        atomic_fetch_add_explicit(&p->board->listening, 1, memory_order_release); /* pairs with job_start */
        status = stepgate_server_run(server);
    }
    status = status < 0 ? job_say(p, "serving") : 0;
    stepgate_server_delete(&server);
    stepgate_options_delete(&options);
    return status;
}

/* job_gradient -- what worker w pushes in a step, in every element: a multiple of 1/64, so that every sum is exact. */
static float job_gradient(const struct job_plan *plan, uint64_t step, uint64_t w)
{
    return (float)((plan->rewrite ? step % 7 : 0) + w % 5 + 1) / 64;
}

/* job_declare -- the model: variables of equal size, the first takes what is left over. */
static int job_declare(const struct job_plan *plan, struct stepgate_job *job, struct stepgate_model **model)
{
    uint64_t each = plan->parameters / plan->variables;
    char rate[32], momentum[32], name[32];
    int status = stepgate_model_new(job, "model", model), id;

    snprintf(rate, sizeof(rate), "%.9g", (double)JOB_RATE);
    snprintf(momentum, sizeof(momentum), "%.9g", (double)JOB_MOMENTUM);
    if (status >= 0)
        status = stepgate_model_set(*model, "optimizer", plan->optimizer);
    if (status >= 0 && strcmp(plan->optimizer, "none") != 0)
        status = stepgate_model_set(*model, "learning_rate", rate);
    if (status >= 0 && (strcmp(plan->optimizer, "momentum") == 0 || strcmp(plan->optimizer, "nesterov") == 0))
        status = stepgate_model_set(*model, "momentum", momentum);
    for (uint64_t v = 0; status >= 0 && v < plan->variables; v++) {
        uint64_t n = each + (v == 0 ? plan->parameters % plan->variables : 0);
        snprintf(name, sizeof(name), "v%llu", (unsigned long long)v);
        status = stepgate_model_variable(*model, name, STEPGATE_TRAINED, STEPGATE_F32, 1, &n, &id);
    }
    return status >= 0 ? stepgate_model_commit(*model, JOB_JOIN_MS, NULL) : status;
}

/* job_fill -- one value into all elements. */
static void job_fill(float *at, uint64_t n, float value)
{
    for (uint64_t i = 0; i < n; i++)
        at[i] = value;
}

/* job_step -- pull, write, push all variables, finish. */
static int job_step(const struct job_process *p, struct stepgate_model *model, uint64_t step)
{
    const struct job_plan *plan = p->plan;
    int status = stepgate_step_pull(model, STEPGATE_ALL, JOB_STEP_MS, NULL);

    for (uint64_t v = 0; status >= 0 && v < plan->variables; v++) {
        void *gradient;
        uint64_t n = plan->parameters / plan->variables + (v == 0 ? plan->parameters % plan->variables : 0);
        if (plan->rewrite || step == 0) {
            status = stepgate_buffer_gradient(model, (int)v, &gradient);
            if (status >= 0)
                job_fill(gradient, n, job_gradient(plan, step, p->index));
        }
        if (status >= 0)
            status = stepgate_step_push(model, (int)v);
    }
    return status >= 0 ? stepgate_step_finish(model, 1) : status;
}

/* job_cpu -- nanoseconds of processor time of the ps, or of the workers. */
static uint64_t job_cpu(const struct job_board *board, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;

    for (uint64_t i = from; i < to; i++) {
        struct timespec t;
        clockid_t clock;
        if (clock_getcpuclockid(board->seat[i].pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
            sum += (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    }
    return sum;
}

/* job_check -- the parameters after `steps` steps, against a plain loop in f32 with the rounding that is promised. */
static int job_check(const struct job_process *p, struct stepgate_model *model, uint64_t steps)
{
    const struct job_plan *plan = p->plan;
    bool momentum = strcmp(plan->optimizer, "momentum") == 0;
    float value = 0, moment = 0;

    if (!momentum && strcmp(plan->optimizer, "sgd") != 0)
        return 0;
    for (uint64_t k = 0; k < steps; k++) {
        float mean = 0;
        for (uint64_t w = 0; w < plan->workers; w++)
            mean += job_gradient(plan, k, w);
        mean /= (float)plan->workers;
        float kept = JOB_MOMENTUM * moment;
        moment = momentum ? kept + mean : mean;
        float change = JOB_RATE * moment;
        value -= change;
    }
    for (uint64_t v = 0; v < plan->variables; v++) {
        const void *pointer;
        uint64_t n = plan->parameters / plan->variables + (v == 0 ? plan->parameters % plan->variables : 0);
        int status = stepgate_buffer_parameter(model, (int)v, &pointer);
        if (status < 0)
            return status;
        for (uint64_t i = 0; i < n; i++)
            if (((const float *)pointer)[i] != value) {
                snprintf(
                    job_seat_of(p)->text, JOB_TEXT,
                    "worker %u: element %llu of variable %llu is %.9g after %llu steps, not %.9g: wrong data",
                    p->index, (unsigned long long)i, (unsigned long long)v,
                    (double)((const float *)pointer)[i], (unsigned long long)steps, (double)value);
                return 1;
            }
    }
    return 0;
}

/* Worker 0's times. */
struct job_clock {
    uint64_t begin, last, ps_cpu, worker_cpu;
};

/* job_tick -- worker 0 has its token: the step before is over. */
static void job_tick(const struct job_process *p, struct job_clock *clock, uint64_t step)
{
    const struct job_plan *plan = p->plan;
    struct job_result *result = &p->board->result;
    uint64_t now = perf_clock_now();

    if (step == plan->warmup) {
        clock->ps_cpu = job_cpu(p->board, 0, plan->shards);
        clock->worker_cpu = job_cpu(p->board, plan->shards, p->board->seats);
        now = perf_clock_now();
        clock->begin = now;
    } else if (step > plan->warmup) {
        histogram_add(&result->step, now - clock->last);
    }
    clock->last = now;
}

/* job_limit -- worker 0, before it pushes in a step: once the time is over the next step is nobody's any more. */
static void job_limit(const struct job_process *p, const struct job_clock *clock, uint64_t step)
{
    if (p->plan->duration > 0 && step > p->plan->warmup &&
        (double)(clock->last - clock->begin) >= p->plan->duration * 1e9)
        atomic_store_explicit(&p->board->end, step + 1, memory_order_release); /* pairs with job_loop */
}

/* job_loop -- all steps of a worker. */
static int job_loop(const struct job_process *p, struct stepgate_model *model, uint64_t *steps)
{
    struct job_clock clock = {0};
    struct job_result *result = &p->board->result;
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status;

    for (;;) {
        status = stepgate_step_begin(model, JOB_STEP_MS, &info);
        if (status < 0)
            return status;
        if (p->index == 0)
            job_tick(p, &clock, info.step);
        /* Pairs with job_limit: nobody has a token for step k + 1 before worker 0 has pushed in step k. */
        if (info.step >= atomic_load_explicit(&p->board->end, memory_order_acquire))
            break;
        if (p->index == 0)
            job_limit(p, &clock, info.step);
        status = job_step(p, model, info.step);
        if (status < 0)
            return status;
    }
    if (p->index == 0) {
        result->elapsed_ns = clock.last - clock.begin;
        result->steps = info.step - p->plan->warmup;
        result->all_steps = info.step;
        result->ps_cpu_ns = job_cpu(p->board, 0, p->plan->shards) - clock.ps_cpu;
        result->worker_cpu_ns = job_cpu(p->board, p->plan->shards, p->board->seats) - clock.worker_cpu;
    }
    *steps = info.step;
    return stepgate_step_pull(model, STEPGATE_ALL, JOB_STEP_MS, NULL);
}

/* job_route -- worker 0, before its first step: how its bytes will travel, and what the device has counted so far. */
static int job_route(const struct job_process *p, struct stepgate_job *job)
{
    struct job_result *r = &p->board->result;
    int status = route_of(job, &r->can);

    if (status < 0)
        return status;
    json_t *counters = port_counters(r->can.device, r->can.path.port);
    size_t length = json_dumpb(counters, r->counters, sizeof(r->counters) - 1, JSON_COMPACT);
    r->counters[length < sizeof(r->counters) ? length : 0] = '\0';
    json_decref(counters);
    return 0;
}

/* job_work -- a worker. */
static int job_work(const struct job_process *p)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    struct stepgate_job_stats stats = {.size = sizeof(stats)};
    uint64_t steps = 0;
    int status = job_options(p, &options);

    if (status >= 0)
        status = stepgate_job_join(options, JOB_JOIN_MS, &job);
    if (status >= 0)
        status = job_declare(p->plan, job, &model);
    if (status >= 0 && p->index == 0)
        status = job_route(p, job);
    if (status >= 0)
        status = job_loop(p, model, &steps);
    if (status >= 0 && p->index == 0) {
        status = job_check(p, model, steps);
        (void)stepgate_job_stats(job, &stats);
        p->board->result.bytes_pushed = stats.bytes_pushed;
        p->board->result.bytes_pulled = stats.bytes_pulled;
        p->board->result.bytes_copied = stats.bytes_copied;
        snprintf(p->board->result.transport, sizeof(p->board->result.transport), "%s",
                 stepgate_job_transport(job));
    }
    if (status >= 0) {
        int left = stepgate_job_leave(job, JOB_STEP_MS);
        status = left < 0 ? left : status;
    }
    if (status < 0)
        (void)job_say(p, "training");
    stepgate_model_delete(&model);
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    return status == 0 ? 0 : -1;
}

/* job_fork -- one process; its end is its error's. */
static int job_fork(const struct job_process *p)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        job_seat_of(p)->pid = getpid();
        _exit((p->ps ? job_serve(p) : job_work(p)) == 0 ? 0 : 1);
    }
    if (pid > 0)
        job_seat_of(p)->pid = pid;
    return pid > 0 ? 0 : -1;
}

/* job_start -- ps first, one after the other, since each must know the leader's address; then workers. */
static int job_start(const struct job_plan *plan, struct job_board *board)
{
    for (uint32_t s = 0; s < plan->shards; s++) {
        struct job_process ps = {plan, board, s, true};
        if (job_fork(&ps) != 0)
            return -1;
        for (int ms = 0; atomic_load_explicit(&board->listening, memory_order_acquire) <= s;
             ms++) { /* pairs with job_serve */
            if (ms > JOB_JOIN_MS || board->seat[s].text[0] != '\0')
                return -1;
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
    }
    for (uint32_t w = 0; w < plan->workers; w++) {
        struct job_process worker = {plan, board, w, false};
        if (job_fork(&worker) != 0)
            return -1;
    }
    return 0;
}

/* job_end -- waits for all processes; when one has failed, the others are ended. */
static int job_end(struct job_board *board, bool failed)
{
    for (uint32_t left = board->seats; left > 0; left--) {
        int status = 0;
        for (uint32_t i = 0; failed && i < board->seats; i++)
            if (board->seat[i].pid > 0)
                kill(board->seat[i].pid, SIGKILL);
        pid_t pid = wait(&status);
        if (pid < 0)
            break;
        for (uint32_t i = 0; i < board->seats; i++)
            if (board->seat[i].pid == pid)
                board->seat[i].pid = 0;
        failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed ? -1 : 0;
}

/* job_measure -- see job.h. */
int job_measure(const struct job_plan *plan, struct job_result *result, char *text, size_t bytes)
{
    size_t seats = (size_t)(plan->shards + plan->workers),
           length = sizeof(struct job_board) + seats * sizeof(struct job_seat);

    if (plan->shards > JOB_SHARDS_MAX || plan->variables > plan->parameters) {
        snprintf(text, bytes, "%llu variables do not fit %llu parameters: give fewer --variables",
                 (unsigned long long)plan->variables, (unsigned long long)plan->parameters);
        return -1;
    }
    struct job_board *board = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        snprintf(text, bytes, "no memory for the result of %zu processes", seats);
        return -1;
    }
    board->seats = (uint32_t)seats;
    board->end = plan->duration > 0 ? UINT64_MAX : plan->warmup + plan->iterations;
    histogram_clear(&board->result.step);
    fflush(NULL); /* or a child's buffers hold it, too */
    int status = job_end(board, job_start(plan, board) != 0);
    if (status == 0)
        *result = board->result;
    else
        snprintf(text, bytes, "a process of the job was killed, or could not be started");
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; status != 0 && i < seats; i++)
        if (board->seat[i].text[0] != '\0' && board->seat[i].place < first) {
            first = board->seat[i].place;
            snprintf(text, bytes, "%s", board->seat[i].text);
        }
    munmap(board, length);
    return status;
}
