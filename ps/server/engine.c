/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/server/aside.h"
#include "ps/server/checkpoints.h"
#include "ps/server/need.h"
#include "ps/server/sets.h"
#include "transport/base/available.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/limit.h"
#include "transport/base/registry.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"

/* Parameters of a shard beyond this are written past the caches. A system may tell of all last-level caches together; a lane has one of them. */
#define ENGINE_CACHE_BYTES (UINT64_C(32) << 20)

/* One lane with what its thread needs. Lane 0 runs in the thread of engine_serve, with the shard. */
struct engine_lane {
    struct engine *engine;
    struct waiter *waiter; /* lane 0: the server's own */
    struct stepgate_queue *queues[LANE_FABRICS_MAX];
    pthread_t thread;
    bool runs;
};

struct engine {
    const struct settings *settings;
    struct waiter *waiter;         /* somebody else's */
    const struct binding *binding; /* the same */
    struct stepgate_fabric *fabrics[LANE_FABRICS_MAX];
    struct stepgate_queue *queues[LANE_FABRICS_MAX];
    unsigned fabric_count;
    struct mailbox mailbox;
    struct engine_lane *lane_threads;
    struct lane **lane_list;
    struct shard *shard;
    struct checkpoints *checkpoints; /* NULL: there are none */
    struct sets *sets;               /* NULL: neither recorded nor replayed */
    struct asides asides;            /* threads that work for the shard, or did */
    atomic_bool ended; /* lanes end: release store after the shard's end, acquire load in their loops */
};

/* engine_wake_lane -- the shard has something for a lane. Lane 0 runs in the shard's own thread. */
static void engine_wake_lane(void *context, uint32_t lane)
{
    struct engine *engine = context;

    if (lane != 0)
        waiter_wake(engine->lane_threads[lane].waiter);
}

/* engine_wake_shard -- a lane has something for the shard. */
static void engine_wake_shard(void *context)
{
    struct engine_lane *thread = context;

    if (thread != &thread->engine->lane_threads[0])
        waiter_wake(thread->engine->waiter);
}

/* engine_add -- one transport, with the shard's queue on it. */
static int engine_add(struct engine *engine, const struct stepgate_transport_v1 *transport)
{
    const struct settings *s = engine->settings;
    const char *device = knob_text(&s->knobs, "device");
    int64_t peer = knob_time_ms(&s->knobs, "peer_timeout");
    struct stepgate_fabric_options options = {.size = sizeof(options)};
    unsigned f = engine->fabric_count;

    options.address = s->listen;
    options.device = device != NULL && device[0] != 0 ? device : NULL;
    options.peer_timeout_ms = peer > 0 ? (int)peer : 0;
    /* The shard's queue takes the first one; then lane l has number l + 1, and the ps of one host begin apart. */
    options.vector = s->number * (s->lanes + 1);
    int status = transport->fabric_open(&options, &engine->fabrics[f]);
    if (status != 0)
        return status;
    uint32_t endpoints = s->workers + (uint32_t)s->ps.count + 8;
    status = transport->queue_new(engine->fabrics[f], endpoints, &engine->queues[f]);
    if (status != 0) {
        transport->fabric_delete(&engine->fabrics[f]);
        return status;
    }
    engine->fabric_count++;
    return waiter_add_fd(engine->waiter, transport->queue_fd(engine->queues[f]));
}

/* engine_alone -- only shm, at an address that is there for other hosts: said now, since all they would see is a ps that never comes. */
static void engine_alone(const struct engine *engine, const char *why)
{
    const struct settings *s = engine->settings;
    if (hosts_is_loopback(s->listen))
        return;
    log_line(&s->knobs.log, LOG_WARN,
             "transport auto is shm alone here, since %s: workers on other hosts cannot reach this ps at %s",
             why, s->listen);
}

/* engine_add_all -- as the knob `transport` says. Verbs that was asked for is never replaced. */
static int engine_add_all(struct engine *engine)
{
    const struct settings *s = engine->settings;
    int choice = knob_int(&s->knobs, "transport");
    bool closed = s->secret.bytes == 0 && !knob_bool(&s->knobs, "insecure");

    if (choice < KNOB_TRANSPORT_OTHERS && choice != KNOB_TRANSPORT_VERBS) {
        int status = engine_add(engine, shm_transport());
        if (status != 0 || choice == KNOB_TRANSPORT_SHM)
            return status;
    }
    if (closed && choice >= KNOB_TRANSPORT_VERBS)
        return error_set(STEPGATE_EINVAL, 0, "give --secret-file (stepgate-run makes one), or --insecure",
                         "without a secret a ps does not listen on a network");
    if (closed) {
        engine_alone(engine, "there is no secret (--secret-file)");
        return 0;
    }
    int status =
        engine_add(engine, choice < KNOB_TRANSPORT_OTHERS ? verbs_transport()
                                                          : registry_at(choice - KNOB_TRANSPORT_OTHERS));
    if (choice == KNOB_TRANSPORT_AUTO &&
        (status == -STEPGATE_ENODEVICE || status == -STEPGATE_EADDRESS || status == -STEPGATE_EUNREACHABLE)) {
        struct stepgate_error error;
        error_save(&error);
        engine_alone(engine, error.text);
        return 0; /* shm is what this machine has */
    }
    return status;
}

/* engine_waiter -- over shm the workers are on this machine, and they wait too. */
int engine_waiter(const struct settings *settings, struct waiter **out)
{
    bool shm = knob_int(&settings->knobs, "transport") != KNOB_TRANSPORT_VERBS;
    unsigned pollers = settings->lanes + (shm ? settings->workers : 0);

    return waiter_new((enum patience_mode)knob_int(&settings->knobs, "wait"), pollers, out);
}

/* engine_name -- the name of a fabric's device; NULL: it has none. */
static const char *engine_name(const struct stepgate_fabric *fabric)
{
    return strcmp(fabric->device, fabric->transport->name) != 0 ? fabric->device : NULL;
}

/* engine_device -- the last fabric is the one with a device, if any has one. */
const char *engine_device(const struct engine *engine)
{
    return engine_name(engine->fabrics[engine->fabric_count - 1]);
}

/* engine_make_lane -- a lane with its queues, and a waiter unless it runs with the shard. */
static int engine_make_lane(struct engine *engine, uint32_t number, uint64_t incarnation)
{
    const struct settings *s = engine->settings;
    struct engine_lane *thread = &engine->lane_threads[number];
    struct lane_config config = {.number = number,
                                 .workers = s->workers,
                                 .shard = s->number,
                                 .shards = settings_shards(s),
                                 .job = hello_job_hash(knob_text(&s->knobs, "job")),
                                 .incarnation = incarnation,
                                 .secret = &s->secret,
                                 .to_shard = &engine->mailbox,
                                 .wake_shard = engine_wake_shard,
                                 .wake_context = thread};
    int status = 0;

    thread->engine = engine;
    thread->waiter = engine->waiter;
    if (number != 0) {
        thread->waiter = NULL;
        status = engine_waiter(s, &thread->waiter);
    }
    for (unsigned f = 0; status == 0 && f < engine->fabric_count; f++) {
        const struct stepgate_transport_v1 *transport = engine->fabrics[f]->transport;
        status = transport->queue_new(engine->fabrics[f], 2 * s->workers + 8, &thread->queues[f]);
        if (status == 0)
            status = waiter_add_fd(thread->waiter, transport->queue_fd(thread->queues[f]));
        config.queues[f] = thread->queues[f];
    }
    return status != 0 ? status : lane_new(&config, &engine->lane_list[number]);
}

/* engine_open_sets -- ps 0 decides, so it records and repeats. */
static int engine_open_sets(struct engine *engine)
{
    const struct settings *s = engine->settings;
    const char *record = knob_text(&s->knobs, "record_sets"), *replay = knob_text(&s->knobs, "replay_sets");
    bool records = record != NULL && record[0] != 0, replays = replay != NULL && replay[0] != 0;

    if (s->number != 0 || (!records && !replays))
        return 0;
    return sets_open(records ? record : NULL, replays ? replay : NULL, s->workers, &engine->sets);
}

/* engine_make_shard -- after the lanes. */
static int engine_make_shard(struct engine *engine, uint64_t incarnation, bool again)
{
    const struct settings *s = engine->settings;
    const struct knobs *knobs = &s->knobs;
    struct shard_config config = {.number = s->number,
                                  .shards = settings_shards(s),
                                  .workers = s->workers,
                                  .lanes = s->lanes,
                                  .listen = s->listen,
                                  .leader = s->number != 0 ? s->ps.entries[0].address : NULL,
                                  .lane_list = engine->lane_list,
                                  .mailbox = &engine->mailbox,
                                  .wake_lane = engine_wake_lane,
                                  .aside = asides_begin,
                                  .aside_context = &engine->asides,
                                  .wake_context = engine,
                                  .job = knob_text(knobs, "job"),
                                  .secret = &s->secret,
                                  .incarnation = incarnation,
                                  .group_bytes = knob_bytes(knobs, "group_bytes"),
                                  .lost = knob_int(knobs, "lost_worker"),
                                  .start_workers = (uint32_t)knob_int(knobs, "start_workers"),
                                  .start_after_ms = knob_time_ms(knobs, "start_after"),
                                  .return_timeout_ms = knob_time_ms(knobs, "return_timeout"),
                                  .kernels = (enum optimizer_kind)s->kernels,
                                  .ahead = (enum shard_ahead)knob_int(knobs, "sum_ahead"),
                                  .cache_bytes = ENGINE_CACHE_BYTES,
                                  .cut_bytes = knob_bytes(knobs, "cut_bytes"),
                                  .join_timeout_ms = knob_time_ms(knobs, "join_timeout"),
                                  .liveness_ms = knob_time_ms(knobs, "liveness"),
                                  .reconnect = (uint32_t)knob_int(knobs, "reconnect"),
                                  .close_timeout_ms = knob_time_ms(knobs, "close_timeout"),
                                  .stall_report_ms = knob_time_ms(knobs, "stall_report"),
                                  .step_timeout_ms = knob_time_ms(knobs, "step_timeout"),
                                  .memory_available = available_memory,
                                  .memory_lockable = limit_lockable,
                                  .rewinds = s->rewinds,
                                  .again = again,
                                  .log = knobs->log};

    if (engine->sets != NULL) {
        config.declare = sets_model;
        config.record = sets_commit;
    }
    if (sets_replays(engine->sets))
        config.replay = sets_replay;
    config.sets_context = engine->sets;
    config.archive = checkpoints_archive(engine->checkpoints);
    for (unsigned f = 0; f < engine->fabric_count; f++)
        config.fabrics[f] = (struct shard_fabric){engine->fabrics[f], engine->queues[f]};
    return shard_new(&config, clock_now(), &engine->shard);
}

/* engine_arm -- arms queues before sleep; true: something is pending already. */
static bool engine_arm(struct stepgate_queue *const queues[LANE_FABRICS_MAX])
{
    bool pending = false;

    for (unsigned f = 0; f < LANE_FABRICS_MAX && queues[f] != NULL; f++)
        pending = queues[f]->transport->queue_arm(queues[f]) != 0 || pending;
    return pending;
}

/* engine_lane_ready -- one round of a lane's thread. */
static bool engine_lane_ready(void *context)
{
    struct engine_lane *thread = context;

    return lane_progress(thread->engine->lane_list[thread - thread->engine->lane_threads], clock_now()) !=
               0 ||
           atomic_load_explicit(&thread->engine->ended,
                                memory_order_acquire); /* pairs with engine_end_lanes */
}

/* engine_lane_arm -- its queues. */
static bool engine_lane_arm(void *context)
{
    struct engine_lane *thread = context;

    return engine_arm(thread->queues);
}

/* engine_unbound -- placement is a wish: a thread that cannot have it runs where it is. */
static void engine_unbound(const struct engine *engine)
{
    const struct settings *s = engine->settings;
    struct stepgate_error error;

    error_save(&error);
    log_line(&s->knobs.log, LOG_WARN, "%s; %s", error.text, error.remedy);
}

/* engine_lane_run -- the thread of a lane other than 0. */
static void *engine_lane_run(void *context)
{
    struct engine_lane *thread = context;
    ptrdiff_t number = thread - thread->engine->lane_threads;
    struct lane *lane = thread->engine->lane_list[number];
    const struct waiter_goal goal = {engine_lane_ready, engine_lane_arm, thread};

    if (binding_apply(thread->engine->binding, (unsigned)number) < 0)
        engine_unbound(thread->engine);
    while (
        !atomic_load_explicit(&thread->engine->ended, memory_order_acquire)) /* pairs with engine_end_lanes */
        if (lane_progress(lane, clock_now()) == 0)
            waiter_wait(thread->waiter, lane_deadline(lane), &goal);
    return NULL;
}

/* engine_start_lanes -- signals are for the program's own threads. */
static int engine_start_lanes(struct engine *engine)
{
    const struct settings *s = engine->settings;
    sigset_t all, before;
    int status = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t l = 1; status == 0 && l < s->lanes; l++) {
        struct engine_lane *thread = &engine->lane_threads[l];
        status = pthread_create(&thread->thread, NULL, engine_lane_run, thread);
        thread->runs = status == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0 ? 0 : error_set(STEPGATE_ESYSTEM, status, "use fewer lanes", "no thread for a lane");
}

/* engine_end_lanes -- bounded: a lane never waits for anything but its waiter. */
static void engine_end_lanes(struct engine *engine)
{
    const struct settings *s = engine->settings;
    atomic_store_explicit(&engine->ended, true, memory_order_release); /* pairs with the lanes' loops */
    for (uint32_t l = 1; engine->lane_threads != NULL && l < s->lanes; l++)
        if (engine->lane_threads[l].runs) {
            waiter_wake(engine->lane_threads[l].waiter);
            pthread_join(engine->lane_threads[l].thread, NULL);
            engine->lane_threads[l].runs = false;
        }
}

/* engine_ready -- one round of shard and lane 0. */
static bool engine_ready(void *context)
{
    struct engine *engine = context;
    uint64_t now = clock_now();
    int busy = lane_progress(engine->lane_list[0], now);

    busy |= shard_progress(engine->shard, now);
    return busy != 0 || shard_finished(engine->shard, NULL);
}

/* engine_arm_all -- the shard's and lane 0's queues. */
static bool engine_arm_all(void *context)
{
    struct engine *engine = context;
    bool pending = engine_arm(engine->queues);

    return engine_arm(engine->lane_threads[0].queues) || pending;
}

/* engine_serve -- lanes in their threads, lane 0 and the shard here, until the job ends. */
int engine_serve(struct engine *engine, atomic_bool *stop)
{
    const struct waiter_goal goal = {engine_ready, engine_arm_all, engine};
    bool asked = false, stopped = false;
    int status = engine_start_lanes(engine);

    if (status != 0) {
        engine_end_lanes(engine);
        return status;
    }
    while (!shard_finished(engine->shard, &status)) {
        if (!asked &&
            atomic_load_explicit(stop, memory_order_acquire)) { /* pairs with stepgate_server_stop */
            stopped = shard_stop(engine->shard, clock_now());
            asked = true;
        }
        if (engine_ready(engine))
            continue;
        uint64_t a = shard_deadline(engine->shard), b = lane_deadline(engine->lane_list[0]);
        waiter_wait(engine->waiter, a < b ? a : b, &goal);
    }
    engine_end_lanes(engine);
    int written = sets_close(&engine->sets);
    return stopped ? 0 : status != 0 ? status : written;
}

/* engine_open -- see engine.h. */
int engine_open(const struct settings *settings, struct waiter *waiter, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a ps");
    engine->settings = settings;
    engine->waiter = engine->asides.waiter = waiter;
    mailbox_init(&engine->mailbox);
    *out = engine;
    return engine_add_all(engine);
}

/* engine_make -- see engine.h. */
int engine_make(struct engine *engine, const struct binding *binding, bool again)
{
    const struct settings *s = engine->settings;
    uint64_t incarnation;
    int status = 0;

    proof_random(&incarnation, sizeof(incarnation));
    engine->binding = binding;
    engine->lane_threads = calloc(s->lanes, sizeof(*engine->lane_threads));
    engine->lane_list = calloc(s->lanes, sizeof(*engine->lane_list));
    if (engine->lane_threads == NULL || engine->lane_list == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u lanes", s->lanes);
    for (uint32_t l = 0; status == 0 && l < s->lanes; l++)
        status = engine_make_lane(engine, l, incarnation);
    if (status == 0)
        status = engine_open_sets(engine);
    if (status == 0)
        status = checkpoints_open(&s->knobs, s->number, &engine->checkpoints);
    return status == 0 ? engine_make_shard(engine, incarnation, again) : status;
}

/* engine_need -- see engine.h. */
int engine_need(const struct engine *engine, void (*tell)(void *context, const char *line), void *context)
{
    const struct settings *s = engine->settings;
    const char *checkpoint = knob_text(&s->knobs, "checkpoint");
    const struct need_wish wish = {.workers = s->workers,
                                   .lanes = s->lanes,
                                   .shards = settings_shards(s),
                                   .number = s->number,
                                   .fabrics = engine->fabrics,
                                   .fabric_count = engine->fabric_count,
                                   .checkpoint = checkpoint != NULL ? checkpoint : ""};

    return need_check(&wish, tell, context);
}

/* engine_transports -- see engine.h. */
void engine_transports(const struct engine *engine, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (unsigned f = 0; f < engine->fabric_count && used < size; f++) {
        const struct stepgate_fabric *fabric = engine->fabrics[f];
        const char *device = engine_name(fabric);
        int n =
            snprintf(text + used, size - used, "%s%s%s%s%s", f > 0 ? " and " : "", fabric->transport->name,
                     device != NULL ? " (" : "", device != NULL ? device : "", device != NULL ? ")" : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

/* engine_can_rewind -- see engine.h. */
bool engine_can_rewind(const struct engine *engine)
{
    return engine->settings->rewinds && shard_can_rewind(engine->shard);
}

/* engine_has_trained -- of the shard. */
bool engine_has_trained(const struct engine *engine)
{
    return shard_has_trained(engine->shard);
}

/* engine_address -- with the real port. */
const char *engine_address(const struct engine *engine)
{
    return shard_address(engine->shard);
}

/* engine_stats -- of the shard. */
void engine_stats(const struct engine *engine, struct shard_stats *out)
{
    shard_stats(engine->shard, out);
}

/* engine_delete_queues -- those of the lanes, then the shard's with their transports. */
static void engine_delete_queues(struct engine *engine)
{
    for (uint32_t l = 0; engine->lane_threads != NULL && l < engine->settings->lanes; l++) {
        struct engine_lane *thread = &engine->lane_threads[l];
        for (unsigned f = 0; f < LANE_FABRICS_MAX; f++)
            if (thread->queues[f] != NULL)
                thread->queues[f]->transport->queue_delete(&thread->queues[f]);
        if (l != 0)
            waiter_delete(&thread->waiter);
    }
    for (unsigned f = 0; f < engine->fabric_count; f++) {
        engine->queues[f]->transport->queue_delete(&engine->queues[f]);
        engine->fabrics[f]->transport->fabric_delete(&engine->fabrics[f]);
    }
}

/* engine_delete -- lanes, then shard, then queues, then fabrics. */
void engine_delete(struct engine **out)
{
    struct engine *engine = *out;
    struct stepgate_error error;

    if (engine == NULL)
        return;
    error_save(&error);
    *out = NULL;
    engine_end_lanes(engine);
    asides_end(&engine->asides);
    for (uint32_t l = 0; engine->lane_list != NULL && l < engine->settings->lanes; l++)
        lane_delete(&engine->lane_list[l]);
    shard_delete(&engine->shard);
    sets_close(&engine->sets);
    checkpoints_close(&engine->checkpoints);
    engine_delete_queues(engine);
    mailbox_clear(&engine->mailbox);
    free(engine->lane_threads);
    free(engine->lane_list);
    free(engine);
    error_restore(&error);
}
