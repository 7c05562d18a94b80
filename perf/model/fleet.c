/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/model/fleet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/lane/lane.h"
#include "ps/shard/shard.h"
#include "transport/base/error.h"
#include "transport/simulated/world.h"
#include "worker/session/session.h"

#define FLEET_SHARDS_MAX 64
#define FLEET_LANES_MAX 64
#define FLEET_JOIN_MS 600000
#define FLEET_DEPTH 64
#define FLEET_RETRY_NS 1000 /* of virtual time, where somebody tries again until it is there */
#define FLEET_RATE 0.01f
#define FLEET_MOMENTUM 0.9f
#define FLEET_GROUP_BYTES (UINT64_C(1) << 20)
#define FLEET_CUT_BYTES 4096 /* a shard's part of the variable is not much larger than another's */
#define FLEET_PORT ":7000"

enum fleet_state {
    FLEET_JOINING,
    FLEET_COMMITTING,
    FLEET_BEGINNING,
    FLEET_PULLING,
    FLEET_COMPUTING,
    FLEET_WAITING, /* for the buffer of the gradient */
    FLEET_MEETING,
    FLEET_LEAVING,
    FLEET_DONE
};

struct fleet_ps {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[FLEET_LANES_MAX];
    struct mailbox mailbox;
    struct lane *lanes[FLEET_LANES_MAX];
    struct shard *shard;
    uint64_t deadline;
    bool awake, over;
};

struct fleet_worker {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct session *session;
    struct session_model *model;
    int state;
    uint64_t step, computed_at, deadline;
    bool awake;
};

struct fleet {
    const struct fleet_plan *plan;
    struct world *world;
    struct proof_secret secret;
    char addresses[FLEET_SHARDS_MAX][24];
    struct fleet_ps *ps;
    struct fleet_worker *worker;
    uint64_t *begun; /* [warmup + steps + 1]: when the first worker began it, + 1; 0: nobody yet */
    float *expected;
    uint64_t compared;
    char wrong[256];
};

/* fleet_end -- the step that nobody trains. */
static uint64_t fleet_end(const struct fleet *f)
{
    return f->plan->warmup + f->plan->steps;
}

/* fleet_gradient -- of one element: a multiple of 2^-23 in [-1, 1), by a hash. */
static float fleet_gradient(uint64_t step, uint32_t worker, uint64_t i)
{
    uint64_t x =
        i * UINT64_C(0x9e3779b97f4a7c15) + worker * UINT64_C(0xbf58476d1ce4e5b9) + step * 0x94d049bbu;

    x ^= x >> 31;
    x *= UINT64_C(0x94d049bb133111eb);
    return (float)((int32_t)(x >> 40) - (1 << 23)) / (float)(1 << 23);
}

/* fleet_fabric_options -- nobody is given up for a wait that is long in virtual time alone. */
static struct stepgate_fabric_options fleet_fabric_options(struct world_node *node)
{
    return (struct stepgate_fabric_options){.size = sizeof(struct stepgate_fabric_options),
                                            .peer_timeout_ms = FLEET_JOIN_MS,
                                            .connect_timeout_ms = FLEET_JOIN_MS,
                                            .world = node};
}

/* fleet_lane_up -- one lane with its queue. */
static int fleet_lane_up(struct fleet *f, uint32_t s, uint32_t l)
{
    struct fleet_ps *ps = &f->ps[s];
    int status = ps->fabric->transport->queue_new(ps->fabric, f->plan->workers, &ps->lane_queues[l]);
    const struct lane_config config = {.number = l,
                                       .workers = f->plan->workers,
                                       .shard = s,
                                       .shards = f->plan->shards,
                                       .queues = {ps->lane_queues[l]},
                                       .job = hello_job_hash("fleet"),
                                       .incarnation = 1 + s,
                                       .secret = &f->secret,
                                       .to_shard = &ps->mailbox};

    return status != 0 ? status : lane_new(&config, &ps->lanes[l]);
}

/* fleet_ps_up -- a shard and its lanes. */
static int fleet_ps_up(struct fleet *f, uint32_t s)
{
    struct fleet_ps *ps = &f->ps[s];
    char name[24];

    snprintf(name, sizeof(name), "ps%u", s);
    mailbox_init(&ps->mailbox);
    int status = world_node_new(f->world, name, &ps->node);
    struct stepgate_fabric_options options = fleet_fabric_options(ps->node);
    if (status == 0)
        status = simulated_transport()->fabric_open(&options, &ps->fabric);
    if (status == 0)
        status = ps->fabric->transport->queue_new(ps->fabric, f->plan->workers, &ps->queue);
    for (uint32_t l = 0; status == 0 && l < f->plan->lanes; l++)
        status = fleet_lane_up(f, s, l);
    const struct shard_config config = {.number = s,
                                        .shards = f->plan->shards,
                                        .workers = f->plan->workers,
                                        .lanes = f->plan->lanes,
                                        .listen = f->addresses[s],
                                        .leader = f->addresses[0],
                                        .fabrics = {{ps->fabric, ps->queue}},
                                        .lane_list = ps->lanes,
                                        .mailbox = &ps->mailbox,
                                        .job = "fleet",
                                        .secret = &f->secret,
                                        .incarnation = 1 + s,
                                        .group_bytes = FLEET_GROUP_BYTES,
                                        .cut_bytes = FLEET_CUT_BYTES,
                                        .kernels = (enum optimizer_kind)optimizer_kind_of("auto"),
                                        .join_timeout_ms = FLEET_JOIN_MS,
                                        .close_timeout_ms = FLEET_JOIN_MS};
    ps->awake = true;
    return status != 0 ? status : shard_new(&config, world_now_ns(f->world), &ps->shard);
}

/* fleet_worker_up -- a session that has not joined. */
static int fleet_worker_up(struct fleet *f, uint32_t w)
{
    struct fleet_worker *worker = &f->worker[w];
    const char *addresses[FLEET_SHARDS_MAX];
    char name[24];

    snprintf(name, sizeof(name), "worker%u", w);
    int status = world_node_new(f->world, name, &worker->node);
    struct stepgate_fabric_options options = fleet_fabric_options(worker->node);
    if (status == 0)
        status = simulated_transport()->fabric_open(&options, &worker->fabric);
    if (status == 0)
        status = worker->fabric->transport->queue_new(worker->fabric, 64, &worker->queue);
    if (status == 0)
        status = worker->fabric->transport->domain_new(worker->fabric, &worker->domain);
    for (uint32_t s = 0; s < f->plan->shards; s++)
        addresses[s] = f->addresses[s];
    const struct session_config config = {.rank = w,
                                          .workers = f->plan->workers,
                                          .shards = f->plan->shards,
                                          .addresses = addresses,
                                          .routes = {{worker->queue, worker->domain}},
                                          .job = "fleet",
                                          .secret = f->secret,
                                          .incarnation = 1000 + w,
                                          .join_timeout_ms = FLEET_JOIN_MS};
    worker->awake = true;
    return status != 0 ? status : session_new(&config, world_now_ns(f->world), &worker->session);
}

/* fleet_declare -- one variable, momentum. */
static int fleet_declare(struct fleet *f, struct fleet_worker *worker)
{
    const uint64_t dims[] = {f->plan->parameters};
    char replicas[16], rate[32], momentum[32];

    snprintf(replicas, sizeof(replicas), "%u", f->plan->replicas);
    snprintf(rate, sizeof(rate), "%.9g", (double)FLEET_RATE);
    snprintf(momentum, sizeof(momentum), "%.9g", (double)FLEET_MOMENTUM);
    const char *const keys[][2] = {{"optimizer", "momentum"},
                                   {"learning_rate", rate},
                                   {"momentum", momentum},
                                   {"replicas_to_aggregate", replicas}};
    int status = session_model_new(worker->session, "model", &worker->model);
    for (size_t i = 0; status == 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
        status = model_set(session_model_declared(worker->model), keys[i][0], keys[i][1]);
    if (status == 0)
        status =
            model_add(session_model_declared(worker->model), "v", STEPGATE_TRAINED, STEPGATE_F32, 1, dims);
    return status < 0 ? status : 0;
}

/* fleet_begin -- a token has come: the step is noted. */
static int fleet_begin(struct fleet *f, struct fleet_worker *worker, uint64_t now)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = session_begin_try(worker->model, now, &info);

    if (status != 0)
        return status;
    worker->step = info.step < fleet_end(f) ? info.step : fleet_end(f);
    if (f->begun[worker->step] == 0)
        f->begun[worker->step] = now + 1;
    worker->state = FLEET_PULLING;
    return 0;
}

/* fleet_compare -- a worker's last parameters. */
static void fleet_compare(struct fleet *f, uint32_t rank)
{
    const void *pointer = NULL;

    if (f->plan->replicas != f->plan->workers || session_parameter(f->worker[rank].model, 0, &pointer) != 0)
        return;
    f->compared += f->plan->parameters;
    for (uint64_t i = 0; f->wrong[0] == 0 && i < f->plan->parameters; i++)
        if (memcmp((const float *)pointer + i, &f->expected[i], sizeof(float)) != 0)
            snprintf(f->wrong, sizeof(f->wrong),
                     "worker %u: element %llu is %.9g after %llu steps, a plain loop has %.9g: wrong data",
                     rank, (unsigned long long)i, (double)((const float *)pointer)[i],
                     (unsigned long long)fleet_end(f), (double)f->expected[i]);
}

/* fleet_pull -- then the worker computes, or is done. */
static int fleet_pull(struct fleet *f, uint32_t rank, uint64_t now)
{
    struct fleet_worker *worker = &f->worker[rank];
    int status = session_pull_try(worker->model, STEPGATE_ALL, now, NULL);

    if (status != 0)
        return status;
    worker->state = FLEET_COMPUTING;
    if (worker->step == fleet_end(f)) {
        fleet_compare(f, rank);
        worker->state = FLEET_MEETING;
        return 0;
    }
    worker->computed_at =
        now + (f->plan->compute_ns != NULL ? f->plan->compute_ns(f->plan->context, rank, worker->step) : 0);
    return 0;
}

/* fleet_push -- the gradient of a step, as soon as its buffer is free. */
static int fleet_push(struct fleet *f, uint32_t rank, uint64_t now)
{
    struct fleet_worker *worker = &f->worker[rank];
    void *gradient;

    worker->state = FLEET_WAITING;
    if (f->plan->replicas < f->plan->workers && session_is_idle(worker->model, 0) != 1)
        return session_error(worker->session) != 0 ? session_error(worker->session) : -STEPGATE_EAGAIN;
    int status = session_gradient(worker->model, 0, &gradient);
    for (uint64_t i = 0; status == 0 && i < f->plan->parameters; i++)
        ((float *)gradient)[i] = fleet_gradient(worker->step, rank, i);
    if (status == 0)
        status = session_push(worker->model, 0, now);
    if (status == 0)
        status = session_finish(worker->model, 1, now);
    worker->state = FLEET_BEGINNING;
    return status;
}

/* fleet_step -- what a worker's program does next. */
static int fleet_step(struct fleet *f, uint32_t rank, uint64_t now)
{
    struct fleet_worker *worker = &f->worker[rank];
    int status;

    switch (worker->state) {
    case FLEET_JOINING:
        status = session_join_try(worker->session, now);
        if (status == 0)
            status = fleet_declare(f, worker);
        break;
    case FLEET_COMMITTING: status = session_commit_try(worker->model, now, NULL); break;
    case FLEET_BEGINNING: return fleet_begin(f, worker, now);
    case FLEET_PULLING: return fleet_pull(f, rank, now);
    case FLEET_COMPUTING: return now < worker->computed_at ? -STEPGATE_EAGAIN : fleet_push(f, rank, now);
    case FLEET_WAITING: return fleet_push(f, rank, now);
    case FLEET_MEETING: status = session_barrier_try(worker->session, now); break;
    default: status = session_leave_try(worker->session, now); break;
    }
    if (status == 0)
        worker->state++;
    if (worker->state == FLEET_DONE)
        session_delete(&worker->session); /* its connections end, and the ps see that nobody is left */
    return status;
}

/* fleet_failed -- this thread's last error is the job's. */
static void fleet_failed(struct fleet *f, const char *who, uint32_t number)
{
    struct stepgate_error error = {.size = sizeof(error)};

    error_save(&error);
    if (f->wrong[0] == 0)
        snprintf(f->wrong, sizeof(f->wrong), "%s %u: %.200s", who, number, error.text);
}

/* fleet_worker_move -- its library, and its program. Returns whether anything was done. */
static bool fleet_worker_move(struct fleet *f, uint32_t rank, uint64_t now)
{
    struct fleet_worker *worker = &f->worker[rank];
    bool busy = session_progress(worker->session, now) != 0;
    int status = fleet_step(f, rank, now);

    if (status != 0 && status != -STEPGATE_EAGAIN)
        fleet_failed(f, "worker", rank);
    worker->deadline = worker->state == FLEET_DONE ? UINT64_MAX : session_deadline(worker->session);
    if (worker->state == FLEET_COMPUTING && worker->computed_at < worker->deadline)
        worker->deadline = worker->computed_at;
    return busy || status == 0;
}

/* fleet_end_ps -- lanes before their shard; its connections end, and other ps see that. */
static void fleet_end_ps(const struct fleet *f, struct fleet_ps *ps)
{
    for (uint32_t l = 0; l < f->plan->lanes; l++)
        lane_delete(&ps->lanes[l]);
    shard_delete(&ps->shard);
}

/* fleet_ps_move -- a shard and its lanes. Returns whether anything was done. */
static bool fleet_ps_move(struct fleet *f, uint32_t s, uint64_t now)
{
    struct fleet_ps *ps = &f->ps[s];
    int status = 0;
    bool busy = shard_progress(ps->shard, now) != 0;

    ps->deadline = shard_deadline(ps->shard);
    for (uint32_t l = 0; l < f->plan->lanes; l++) {
        busy = lane_progress(ps->lanes[l], now) != 0 || busy;
        uint64_t deadline = lane_deadline(ps->lanes[l]);
        ps->deadline = deadline < ps->deadline ? deadline : ps->deadline;
    }
    ps->over = shard_finished(ps->shard, &status);
    if (ps->over && status != 0)
        fleet_failed(f, "ps", s);
    if (ps->over)
        fleet_end_ps(f, ps);
    return busy;
}

/* fleet_pending -- does a queue hold events? */
static bool fleet_pending(struct stepgate_queue *queue)
{
    return queue->transport->queue_arm(queue) == 1;
}

/* fleet_ps_called -- has a shard or a lane anything to do? */
static bool fleet_ps_called(const struct fleet *f, const struct fleet_ps *ps, uint64_t now)
{
    bool called = ps->awake || now >= ps->deadline || fleet_pending(ps->queue);

    for (uint32_t l = 0; !called && l < f->plan->lanes; l++)
        called = fleet_pending(ps->lane_queues[l]);
    return called;
}

/* fleet_round -- everybody who has anything to do. *timer: when the next one wants to, whatever arrives. Returns whether anything was done, or, with *live false, that all have ended. */
static bool fleet_round(struct fleet *f, uint64_t now, uint64_t *timer, bool *live)
{
    bool busy = false;

    *timer = UINT64_MAX;
    *live = false;
    for (uint32_t s = 0; s < f->plan->shards; s++) {
        struct fleet_ps *ps = &f->ps[s];
        if (!ps->over && fleet_ps_called(f, ps, now))
            ps->awake = fleet_ps_move(f, s, now);
        busy = busy || (!ps->over && ps->awake);
        *live = *live || !ps->over;
        *timer = !ps->over && ps->deadline < *timer ? ps->deadline : *timer;
    }
    for (uint32_t w = 0; w < f->plan->workers; w++) {
        struct fleet_worker *worker = &f->worker[w];
        if (worker->state == FLEET_DONE)
            continue;
        if (worker->awake || now >= worker->deadline || fleet_pending(worker->queue))
            worker->awake = fleet_worker_move(f, w, now);
        busy = busy || worker->awake;
        *live = true;
        *timer = worker->deadline < *timer ? worker->deadline : *timer;
    }
    return busy;
}

/* fleet_play -- processors are infinitely fast: time passes only when nobody has anything to do. */
static void fleet_play(struct fleet *f)
{
    bool live = true;

    while (f->wrong[0] == 0) {
        uint64_t timer, now = world_now_ns(f->world);
        bool busy = fleet_round(f, now, &timer, &live);
        if (!live)
            return;
        if (busy)
            continue;
        uint64_t due = world_next_time(f->world);
        if (due == UINT64_MAX && timer == UINT64_MAX) {
            snprintf(f->wrong, sizeof(f->wrong), "everybody waits, and nothing is on its way");
            return;
        }
        if (due <= timer)
            world_step(f->world);
        else
            world_advance(f->world, timer > now ? timer - now : FLEET_RETRY_NS);
        while (due <= timer && world_next_time(f->world) == due)
            world_step(f->world); /* what arrives in one moment is found in one round */
    }
}

/* fleet_expect -- the plain loop: the sum in rank order, a true division, momentum. */
static void fleet_expect(struct fleet *f)
{
    const struct fleet_plan *plan = f->plan;

    for (uint64_t i = 0; i < plan->parameters; i++) {
        float value = 0, moment = 0;
        for (uint64_t k = 0; k < fleet_end(f); k++) {
            float mean = fleet_gradient(k, 0, i);
            for (uint32_t w = 1; w < plan->workers; w++)
                mean += fleet_gradient(k, w, i);
            mean /= (float)plan->workers;
            float kept = FLEET_MOMENTUM * moment;
            moment = kept + mean;
            float change = FLEET_RATE * moment;
            value -= change;
        }
        f->expected[i] = value;
    }
}

/* fleet_up -- everybody is there, and nobody has joined. */
static int fleet_up(struct fleet *f)
{
    const struct fleet_plan *plan = f->plan;
    struct world_options options;

    world_options_default(&options, 1);
    options.depth = FLEET_DEPTH;
    options.latency_min_ns = options.latency_max_ns = plan->latency_ns;
    options.link_bytes_per_s = plan->link_bytes_per_s;
    options.delay_per_mille = options.reorder_per_mille = options.split_per_mille = 0;
    options.tear_per_mille = options.early_per_mille = options.eagain_per_mille = 0;
    int status = world_new(&options, &f->world);
    f->secret.bytes = 32;
    for (uint32_t s = 0; s < plan->shards; s++)
        snprintf(f->addresses[s], sizeof(f->addresses[s]), "ps%u" FLEET_PORT, s);
    for (uint32_t s = 0; status == 0 && s < plan->shards; s++)
        status = fleet_ps_up(f, s);
    for (uint32_t w = 0; status == 0 && w < plan->workers; w++)
        status = fleet_worker_up(f, w);
    if (status != 0)
        fleet_failed(f, "fleet of", plan->workers);
    return status;
}

/* fleet_drop_ps -- what is left of it. */
static void fleet_drop_ps(const struct fleet *f, struct fleet_ps *ps)
{
    fleet_end_ps(f, ps);
    for (uint32_t l = 0; l < f->plan->lanes; l++)
        simulated_transport()->queue_delete(&ps->lane_queues[l]);
    simulated_transport()->queue_delete(&ps->queue);
    simulated_transport()->fabric_delete(&ps->fabric);
    mailbox_clear(&ps->mailbox);
}

/* fleet_down -- frees everything. */
static void fleet_down(struct fleet *f)
{
    for (uint32_t w = 0; f->worker != NULL && w < f->plan->workers; w++) {
        session_delete(&f->worker[w].session);
        simulated_transport()->domain_delete(&f->worker[w].domain);
        simulated_transport()->queue_delete(&f->worker[w].queue);
        simulated_transport()->fabric_delete(&f->worker[w].fabric);
    }
    for (uint32_t s = 0; f->ps != NULL && s < f->plan->shards; s++)
        fleet_drop_ps(f, &f->ps[s]);
    world_delete(&f->world);
    free(f->worker);
    free(f->ps);
    free(f->begun);
    free(f->expected);
}

/* fleet_run -- see fleet.h. */
int fleet_run(const struct fleet_plan *plan, struct fleet_result *result, char *text, size_t bytes)
{
    struct fleet f = {.plan = plan};
    struct world_counts counts;

    if (plan->shards > FLEET_SHARDS_MAX || plan->lanes > FLEET_LANES_MAX || plan->workers == 0 ||
        plan->replicas == 0 || plan->replicas > plan->workers || plan->latency_ns == 0 || plan->steps == 0) {
        snprintf(text, bytes,
                 "such a fleet cannot be: 1 to %d ps and lanes, R from 1 to the number of workers",
                 FLEET_SHARDS_MAX);
        return -1;
    }
    f.ps = calloc(plan->shards, sizeof(*f.ps));
    f.worker = calloc(plan->workers, sizeof(*f.worker));
    f.begun = calloc(fleet_end(&f) + 1, sizeof(*f.begun));
    f.expected = calloc(plan->parameters, sizeof(*f.expected));
    if (f.ps == NULL || f.worker == NULL || f.begun == NULL || f.expected == NULL) {
        snprintf(f.wrong, sizeof(f.wrong), "no memory for a fleet of %u workers", plan->workers);
    } else if (fleet_up(&f) == 0) {
        if (plan->replicas == plan->workers)
            fleet_expect(&f);
        fleet_play(&f);
    }
    if (f.wrong[0] == 0) {
        world_counters(f.world, &counts);
        *result = (struct fleet_result){.step_ns = (double)(f.begun[fleet_end(&f)] - f.begun[plan->warmup]) /
                                                   (double)plan->steps,
                                        .compared = f.compared,
                                        .deliveries = counts.steps};
    }
    fleet_down(&f);
    snprintf(text, bytes, "%s", f.wrong);
    return f.wrong[0] == 0 ? 0 : -1;
}
