/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos_worker -- a process of a worker in a chaos: the program's loop over the public calls, one small move at a time, and the service it would have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepgate/buffer.h"
#include "stepgate/job.h"
#include "stepgate/model.h"
#include "stepgate/option.h"
#include "stepgate/step.h"
#include "tests/simulation/chaos_inside.h"
#include "tests/simulation/plain.h"

#define WORKER_PAUSE_NS (3 * CLOCK_MS) /* of one pause, at most */

/* chaos_worker_over -- see the header. */
bool chaos_worker_over(const struct chaos_worker *w)
{
    return w->state == CHAOS_DONE || w->state == CHAOS_FAILED;
}

/* worker_options -- as a launcher gives them. */
static int worker_options(struct chaos_worker *w)
{
    const struct chaos *chaos = w->chaos;
    char hosts[CHAOS_SHARDS_MAX * CHAOS_ADDRESS_BYTES] = "", numbers[5][24];
    int status = stepgate_options_new(&w->options);

    for (uint32_t s = 0; s < chaos->shards; s++)
        snprintf(hosts + strlen(hosts), sizeof(hosts) - strlen(hosts), "%s%s", s > 0 ? "," : "",
                 chaos->ps[s].address);
    snprintf(numbers[0], sizeof(numbers[0]), "%u", chaos->shape.workers);
    snprintf(numbers[1], sizeof(numbers[1]), "%u", w->rank);
    snprintf(numbers[2], sizeof(numbers[2]), "%dms", CHAOS_JOIN_MS);
    snprintf(numbers[3], sizeof(numbers[3]), "%dms", CHAOS_LIVENESS_MS);
    snprintf(numbers[4], sizeof(numbers[4]), "%llu", (unsigned long long)chaos->chunk_bytes);
    const char *const pairs[][2] = {{"job", "chaos"},
                                    {"job_name", "worker"},
                                    {"ps_hosts", hosts},
                                    {"workers", numbers[0]},
                                    {"task_index", numbers[1]},
                                    {"join_timeout", numbers[2]},
                                    {"liveness", numbers[3]},
                                    {"chunk_bytes", numbers[4]},
                                    {"reconnect", chaos->rebuilds ? "3" : "0"},
                                    {"lost_ps", chaos->rewinds ? "rewind" : "fail"},
                                    {"service", "off"}};
    for (size_t i = 0; status == 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++)
        status = stepgate_options_set(w->options, pairs[i][0], pairs[i][1]);
    return status != 0 ? status : stepgate_options_log(w->options, chaos_say, w->node, LOG_WARN);
}

/* worker_job -- what a join begins with, over the simulated transport; no descriptor of it is ever waited on. */
static int worker_job(struct chaos_worker *w)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    struct stepgate_job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return -STEPGATE_ENOMEM;
    origin_here(&job->origin);
    job->epoll_fd = job->wake_fd = job->loop_fd = job->tell_fd = job->service_fd = -1;
    pthread_mutex_init(&job->lock, NULL);
    job->lock_there = true;
    job->secret = w->chaos->secret;
    job->rewind.on = w->chaos->rewinds;
    w->job = job;
    int status = knobs_copy(stepgate_options_knobs(w->options), &job->knobs);
    struct job_route *route = &job->routes[0];
    if (status == 0)
        status = chaos_fabric(w->node, &route->fabric);
    if (status == 0)
        status = transport->queue_new(route->fabric, 64, &route->queue);
    if (status == 0)
        status = transport->domain_new(route->fabric, &route->domain);
    job->route_count = status == 0;
    return status != 0 ? status : job_session(job, false, world_now_ns(w->chaos->world), &job->session);
}

/* chaos_worker_start -- see the header. */
int chaos_worker_start(struct chaos *chaos, uint32_t rank)
{
    char name[32];

    if (chaos->process_count == CHAOS_PROCESSES_MAX)
        return error_set(STEPGATE_ELIMIT, 0, "", "too many workers were started");
    struct chaos_worker *w = &chaos->processes[chaos->process_count];
    *w = (struct chaos_worker){.chaos = chaos,
                               .rank = rank,
                               .callers = random_chance(&chaos->work, 250),
                               .slow_per_mille = random_chance(&chaos->work, 300)
                                                     ? 20 + (unsigned)random_below(&chaos->work, 150)
                                                     : 0};
    snprintf(name, sizeof(name), "worker%u-%u", rank, chaos->process_count);
    chaos->start_at[rank] = CLOCK_NEVER;
    int status = world_node_new(chaos->world, name, &w->node);
    if (status == 0)
        status = worker_options(w);
    if (status == 0)
        status = worker_job(w);
    chaos->process_count++;
    if (chaos->worker[rank] != NULL)
        chaos->worker[rank]->replaced = true;
    chaos->worker[rank] = w;
    return status;
}

/* worker_close -- the contribution that is open is nobody's. */
static void worker_close(struct chaos_worker *w)
{
    for (uint32_t v = 0; v < SHAPE_VARIABLES_MAX; v++) {
        free(w->open.parts[v].indices);
        free(w->open.parts[v].values);
    }
    w->open = (struct contribution){0};
    w->opened = false;
}

/* chaos_worker_clear -- see the header. */
void chaos_worker_clear(struct chaos_worker *w)
{
    stepgate_job_delete(&w->job);
    if (w->options != NULL)
        stepgate_options_delete(&w->options);
    w->model = NULL;
    worker_close(w);
    for (uint32_t v = 0; v < SHAPE_VARIABLES_MAX; v++) {
        free(w->own_gradient[v]);
        free(w->own_parameter[v]);
        w->own_gradient[v] = w->own_parameter[v] = NULL;
    }
}

/* worker_go -- to the next state, perhaps after a pause. */
static int worker_go(struct chaos_worker *w, int state)
{
    struct chaos *chaos = w->chaos;

    w->state = state;
    if (state == CHAOS_LEAVES)
        chaos_fault_last(chaos);
    if (w->slow_per_mille > 0 && random_chance(&chaos->work, w->slow_per_mille))
        w->pause_until = world_now_ns(chaos->world) + 1 + random_below(&chaos->work, WORKER_PAUSE_NS);
    return 1;
}

/* worker_fails -- its program ends. */
static int worker_fails(struct chaos_worker *w)
{
    struct chaos *chaos = w->chaos;

    error_save(&w->error);
    w->state = CHAOS_FAILED;
    if (chaos->trace != NULL)
        fprintf(chaos->trace, "%llu worker%u fails: %s\n", (unsigned long long)world_now_ns(chaos->world),
                w->rank, w->error.text);
    chaos_worker_clear(w);
    return 1;
}

/* worker_answer -- what a call says: 1: go on; 0: later; where the job goes back, begin is next. */
static int worker_answer(struct chaos_worker *w, int status, int next)
{
    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status == -STEPGATE_EREWOUND) {
        worker_close(w);
        w->told = false;
        return worker_go(w, CHAOS_BEGINS);
    }
    return status != 0 ? worker_fails(w) : worker_go(w, next);
}

/* worker_declare -- the model of the shape, with its initial values. */
static int worker_declare(struct chaos_worker *w)
{
    const struct shape *shape = &w->chaos->shape;
    int status = stepgate_model_new(w->job, "simulated", &w->model);

    if (status == 0)
        status = shape_declare(shape, session_model_declared(w->model->session));
    for (uint32_t i = 0; status == 0 && i < shape->variables; i++) {
        const struct shape_variable *v = &shape->variable[i];
        uint64_t bytes = v->elements * plain_bytes(v->dtype);
        uint8_t *initial = malloc(bytes);
        if (initial == NULL)
            return -STEPGATE_ENOMEM;
        shape_initial(shape, i, initial);
        status = stepgate_model_initialize(w->model, (int)i, initial, bytes);
        free(initial);
    }
    return status;
}

/* worker_own -- buffers of the program's for every variable. */
static int worker_own(struct chaos_worker *w)
{
    const struct shape *shape = &w->chaos->shape;
    int status = 0;

    for (uint32_t i = 0; w->callers && status == 0 && i < shape->variables; i++) {
        const struct shape_variable *v = &shape->variable[i];
        uint64_t bytes = v->elements * plain_bytes(v->dtype),
                 gradient = v->elements * plain_bytes(v->gradient_dtype);
        w->own_gradient[i] = calloc(1, gradient);
        w->own_parameter[i] = calloc(1, bytes);
        if (w->own_gradient[i] == NULL || w->own_parameter[i] == NULL)
            return -STEPGATE_ENOMEM;
        if (v->kind != STEPGATE_SPARSE)
            status =
                stepgate_buffer_attach(w->model, (int)i, STEPGATE_USE_GRADIENT, w->own_gradient[i], gradient);
        if (status == 0)
            status =
                stepgate_buffer_attach(w->model, (int)i, STEPGATE_USE_PARAMETER, w->own_parameter[i], bytes);
    }
    return status;
}

/* worker_shuffle -- an order of the variables. */
static void worker_shuffle(struct chaos_worker *w)
{
    uint32_t count = w->chaos->shape.variables;

    for (uint32_t v = 0; v < count; v++)
        w->order[v] = v;
    for (uint32_t v = count; v > 1; v--) {
        uint32_t other = (uint32_t)random_below(&w->chaos->work, v), keep = w->order[v - 1];
        w->order[v - 1] = w->order[other];
        w->order[other] = keep;
    }
    w->next = 0;
}

/* worker_begin -- the next step, the next contribution to this one, or the end. */
static int worker_begin(struct chaos_worker *w)
{
    struct chaos *chaos = w->chaos;
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = stepgate_step_begin(w->model, 0, &info);

    if (status != 0)
        return worker_answer(w, status, w->state);
    if (info.rewound || !w->begun)
        w->life = chaos->lives;
    chaos_oracle_told(chaos, w, &info);
    bool more = w->begun && !info.rewound && info.step == w->step && shape_lockstep(&chaos->shape);
    chaos->counts->rewound_begins += (uint64_t)info.rewound;
    w->round = more ? w->round + 1 : 0;
    w->step = info.step;
    w->begun = true;
    w->done = info.step >= chaos->shape.steps;
    if (w->round >= shape_quota(&chaos->shape, w->rank) && !w->done) {
        chaos_wrong(chaos, "worker %u is let into step %llu %u times", w->rank, (unsigned long long)w->step,
                    w->round + 1);
        return 1;
    }
    uint64_t sequence = w->step * shape_quota(&chaos->shape, w->rank) + w->round;
    w->open = (struct contribution){
        .rank = w->rank, .step = w->step, .sequence = chaos->exact ? sequence : w->begins};
    w->begins++;
    w->opened = !w->done;
    w->open.weight = chaos_oracle_weight(&chaos->shape, &w->open);
    worker_shuffle(w);
    w->all = random_chance(&chaos->work, 250);
    return worker_go(w, CHAOS_PULLS);
}

/* worker_pull -- one variable after the other; now and then all at once before. */
static int worker_pull(struct chaos_worker *w)
{
    struct chaos *chaos = w->chaos;
    uint64_t step = UINT64_MAX;
    const void *value = NULL;

    if (w->next == chaos->shape.variables) {
        worker_shuffle(w);
        bool meets = shape_lockstep(&chaos->shape) || chaos->shape.seed % 2 == 0;
        return worker_go(w, !w->done ? CHAOS_PUSHES : meets ? CHAOS_MEETS : CHAOS_LEAVES);
    }
    uint32_t v = w->order[w->next];
    int status = 0;
    if (w->all) {
        status = stepgate_step_pull(w->model, STEPGATE_ALL, 0, NULL);
        w->all = status == -STEPGATE_EAGAIN;
    }
    if (status == 0)
        status = stepgate_step_pull(w->model, (int)v, 0, &step);
    if (status == 0)
        status = stepgate_buffer_parameter(w->model, (int)v, &value);
    if (status != 0)
        return worker_answer(w, status, w->state);
    if (w->own_parameter[v] != NULL && value != w->own_parameter[v])
        chaos_wrong(chaos, "worker %u reads variable %u elsewhere than in its own buffer", w->rank, v);
    chaos_oracle_pulled(chaos, w, v, value, step);
    w->next++;
    return 1;
}

/* worker_rows -- hands in what there is of a sparse variable. */
static int worker_rows(struct chaos_worker *w, uint32_t v, const void *value)
{
    struct maker_list list = {0};
    int status = chaos_oracle_fill(&w->chaos->shape, &w->open, v, value, &list);

    if (status == 0)
        status = stepgate_step_push_rows(w->model, (int)v, list.indices, list.count, list.values);
    maker_list_clear(&list);
    return status;
}

/* worker_dense -- hands in a variable. */
static int worker_dense(struct chaos_worker *w, uint32_t v, const void *value)
{
    const struct shape_variable *variable = &w->chaos->shape.variable[v];
    void *gradient = NULL;
    int status = chaos_oracle_fill(&w->chaos->shape, &w->open, v, value, NULL);

    if (status == 0)
        status = stepgate_buffer_gradient(w->model, (int)v, &gradient);
    if (status != 0)
        return status;
    memcpy(gradient, w->open.parts[v].values, variable->elements * plain_bytes(variable->gradient_dtype));
    return stepgate_step_push(w->model, (int)v);
}

/* worker_variable -- one variable; EAGAIN: its buffer may not be written yet. */
static int worker_variable(struct chaos_worker *w, uint32_t v)
{
    const struct shape *shape = &w->chaos->shape;
    const struct shape_variable *variable = &shape->variable[v];
    const void *value = NULL;

    if (chaos_oracle_absent(shape, &w->open, v))
        return stepgate_step_absent(w->model, (int)v);
    int status = 1;
    if (variable->kind != STEPGATE_SPARSE && (shape->mode != SHAPE_EQUAL || variable->kind == STEPGATE_AUX))
        status = stepgate_buffer_is_idle(w->model, (int)v);
    if (status != 1)
        return status == 0 ? -STEPGATE_EAGAIN : status;
    status = variable->kind == STEPGATE_AUX ? 0 : stepgate_buffer_parameter(w->model, (int)v, &value);
    if (status != 0)
        return status;
    return variable->kind == STEPGATE_SPARSE ? worker_rows(w, v, value) : worker_dense(w, v, value);
}

/* worker_push -- one variable, or the end of the contribution; one that is abandoned may leave the rest out. */
static int worker_push(struct chaos_worker *w)
{
    struct chaos *chaos = w->chaos;
    bool all = w->next == chaos->shape.variables,
         early = w->open.weight <= 0 && random_chance(&chaos->work, 300);

    if (all || early) {
        double weight = w->open.weight;
        worker_close(w);
        w->told = w->round + 1 == shape_quota(&chaos->shape, w->rank);
        return worker_answer(w, stepgate_step_finish(w->model, weight), CHAOS_BEGINS);
    }
    int status = worker_variable(w, w->order[w->next]);
    if (status == 0) {
        w->next++;
        return 1;
    }
    return worker_answer(w, status, w->state);
}

/* worker_comes -- joins, declares, commits. */
static int worker_comes(struct chaos_worker *w)
{
    struct stepgate_model_info info = {.size = sizeof(info)};
    int status;

    if (w->state == CHAOS_JOINS) {
        status = stepgate_job_join(w->options, 0, &w->job);
        if (status == 0)
            status = worker_declare(w);
        return worker_answer(w, status, CHAOS_COMMITS);
    }
    status = stepgate_model_commit(w->model, 0, &info);
    if (status == 0)
        status = worker_own(w);
    w->chaos->counts->workers_back += status == 0 && info.restored == 2;
    return worker_answer(w, status, CHAOS_BEGINS);
}

/* worker_goes -- meets the others, leaves; the process ends. */
static int worker_goes(struct chaos_worker *w)
{
    if (w->state == CHAOS_MEETS)
        return worker_answer(w, stepgate_job_barrier(w->job, 0), CHAOS_LEAVES);
    int busy = worker_answer(w, stepgate_job_leave(w->job, 0), CHAOS_DONE);
    if (w->state == CHAOS_DONE)
        chaos_worker_clear(w);
    return busy;
}

/* chaos_worker_move -- see the header. */
int chaos_worker_move(struct chaos_worker *w)
{
    uint64_t now = world_now_ns(w->chaos->world), before;

    if (chaos_worker_over(w) || w->job == NULL || !chaos_acts(w->node))
        return 0;
    before = session_changes(w->job->session);
    (void)stepgate_job_progress(w->job); /* the calls say what has failed */
    int busy = session_changes(w->job->session) != before;
    w->chaos->back = w->chaos->back || w->job->rewind.state != REWIND_NONE;
    if (now < w->pause_until)
        return busy;
    w->pause_until = 0;
    switch (w->state) {
    case CHAOS_JOINS:
    case CHAOS_COMMITS: return worker_comes(w) | busy;
    case CHAOS_BEGINS: return worker_begin(w) | busy;
    case CHAOS_PULLS: return worker_pull(w) | busy;
    case CHAOS_PUSHES: return worker_push(w) | busy;
    default: return worker_goes(w) | busy;
    }
}

/* chaos_worker_deadline -- see the header. */
uint64_t chaos_worker_deadline(const struct chaos_worker *w)
{
    uint64_t earliest = CLOCK_NEVER;

    if (chaos_worker_over(w) || w->job == NULL || !chaos_acts(w->node))
        return earliest;
    earliest = session_deadline(w->job->session);
    if (rewind_deadline(w->job) < earliest)
        earliest = rewind_deadline(w->job);
    if (w->pause_until != 0 && w->pause_until < earliest)
        earliest = w->pause_until;
    return earliest;
}
