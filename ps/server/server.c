/* SPDX-License-Identifier: BSD-3-Clause */
/* server -- a ps inside any process: opens transports, makes shard and lanes, and runs them in threads. */
#include "stepgate/server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "ps/server/aside.h"
#include "ps/server/checkpoints.h"
#include "ps/server/need.h"
#include "ps/server/neighbour.h"
#include "ps/server/sets.h"
#include "ps/shard/shard.h"
#include "transport/base/available.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/hosts.h"
#include "transport/base/knob.h"
#include "transport/base/limit.h"
#include "transport/base/origin.h"
#include "transport/base/pages.h"
#include "transport/place/binding.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"
#include "transport/wait/waiter.h"

/* Parameters of a shard beyond this are written past the caches. A system may tell of all last-level caches together; a lane has one of them. */
#define SERVER_CACHE_BYTES (UINT64_C(32) << 20)

/* One lane with what its thread needs. Lane 0 runs in the thread of stepgate_server_run, with the shard. */
struct server_lane {
    struct stepgate_server *server;
    struct lane *lane;
    struct waiter *waiter; /* lane 0: the server's own */
    struct stepgate_queue *queues[LANE_FABRICS_MAX];
    pthread_t thread;
    bool runs;
};

struct stepgate_server {
    struct origin origin; /* the process that made it: a forked child must not touch anything */
    struct knobs knobs;
    struct proof_secret secret;
    struct hosts ps;
    uint32_t number, workers, lanes;
    int kernels; /* enum optimizer_kind */
    struct stepgate_fabric *fabrics[LANE_FABRICS_MAX];
    struct stepgate_queue *queues[LANE_FABRICS_MAX];
    unsigned fabric_count;
    char listen[STEPGATE_ADDRESS_BYTES + 4];
    struct waiter *waiter;
    struct binding *binding;
    bool remembers; /* the binding of memory works here */
    struct mailbox mailbox;
    struct server_lane *lane_threads;
    struct lane **lane_list;
    struct shard *shard;
    struct checkpoints *checkpoints; /* NULL: there are none */
    struct sets *sets;               /* NULL: neither recorded nor replayed */
    struct asides asides;            /* threads that work for the shard, or did */
    atomic_bool stop;                /* asked to stop: release store in _stop, acquire load in the loop */
    atomic_bool ended; /* lanes end: release store after the shard's end, acquire load in their loops */
};

/* server_wake_lane -- the shard has something for a lane. Lane 0 runs in the shard's own thread. */
static void server_wake_lane(void *context, uint32_t lane)
{
    struct stepgate_server *server = context;

    if (lane != 0)
        waiter_wake(server->lane_threads[lane].waiter);
}

/* server_wake_shard -- a lane has something for the shard. */
static void server_wake_shard(void *context)
{
    struct server_lane *thread = context;

    if (thread != &thread->server->lane_threads[0])
        waiter_wake(thread->server->waiter);
}

/* server_listen_address -- the knob, or this ps's entry in the list; a missing port is 0. */
static int server_listen_address(struct stepgate_server *server)
{
    const char *text = knob_text(&server->knobs, "listen");

    if (text == NULL || text[0] == 0) {
        if (server->number >= server->ps.count || !server->ps.entries[server->number].known)
            return error_set(STEPGATE_EINVAL, 0, "give --listen host:port, or this ps's entry in --ps-hosts",
                             "ps %u has no address to listen at", server->number);
        text = server->ps.entries[server->number].address;
    }
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool port = colon != NULL && (bracket == NULL || colon > bracket);
    snprintf(server->listen, sizeof(server->listen), "%s%s", text, port ? "" : ":0");
    return 0;
}

/* server_settings -- numbers and lists from the knobs. */
static int server_settings(struct stepgate_server *server)
{
    const char *text = knob_text(&server->knobs, "ps_hosts"),
               *secret = knob_text(&server->knobs, "secret_file");
    int status = hosts_parse("ps_hosts", text != NULL ? text : "", &server->ps);

    if (status != 0)
        return status;
    int role = knob_int(&server->knobs, "job_name");
    if (role != KNOB_ROLE_NONE && role != KNOB_ROLE_PS)
        return error_set(STEPGATE_EINVAL, 0, "give a ps --job-name ps", "this is a ps, but job_name says %s",
                         knob_text(&server->knobs, "job_name"));
    int workers = knobs_workers(&server->knobs);
    if (workers < 0)
        return workers;
    server->workers = (uint32_t)workers;
    server->number = (uint32_t)knob_int(&server->knobs, "task_index");
    server->lanes = (uint32_t)knob_int(&server->knobs, "lanes");
    server->kernels = optimizer_kind_of(knob_text(&server->knobs, "kernels"));
    if (server->kernels < 0)
        return error_set(STEPGATE_EINVAL, 0, "leave it at auto, or run where there are such instructions",
                         "kernels: this processor has no %s", knob_text(&server->knobs, "kernels"));
    if (server->ps.count == 0 && server->number != 0)
        return error_set(STEPGATE_EINVAL, 0, "give --ps-hosts with the address of every ps",
                         "no ps is named");
    if (server->ps.count > 0 && server->number >= server->ps.count)
        return error_set(STEPGATE_EINVAL, 0, "ranks are 0 .. number of ps - 1", "ps %u of a list of %zu",
                         server->number, server->ps.count);
    if (server->number != 0 && (!server->ps.entries[0].known || server->ps.entries[0].port == 0))
        return error_set(STEPGATE_EINVAL, 0, "give the address of ps 0 in --ps-hosts",
                         "ps %u does not know the address of ps 0", server->number);
    if (secret != NULL && secret[0] != 0)
        status = proof_load(secret, &server->secret);
    return status != 0 ? status : server_listen_address(server);
}

/* server_open -- one transport, with the shard's queue on it. */
static int server_open(struct stepgate_server *server, const struct stepgate_transport_v1 *transport)
{
    const char *device = knob_text(&server->knobs, "device");
    int64_t peer = knob_time_ms(&server->knobs, "peer_timeout");
    struct stepgate_fabric_options options = {.size = sizeof(options)};
    unsigned f = server->fabric_count;

    options.address = server->listen;
    options.device = device != NULL && device[0] != 0 ? device : NULL;
    options.peer_timeout_ms = peer > 0 ? (int)peer : 0;
    /* The shard's queue takes the first one; then lane l has number l + 1, and the ps of one host begin apart. */
    options.vector = server->number * (server->lanes + 1);
    int status = transport->fabric_open(&options, &server->fabrics[f]);
    if (status != 0)
        return status;
    uint32_t endpoints = server->workers + (uint32_t)server->ps.count + 8;
    status = transport->queue_new(server->fabrics[f], endpoints, &server->queues[f]);
    if (status != 0) {
        transport->fabric_delete(&server->fabrics[f]);
        return status;
    }
    server->fabric_count++;
    return waiter_add_fd(server->waiter, transport->queue_fd(server->queues[f]));
}

/* server_alone -- only shm, at an address that is there for other hosts: said now, since all they would see is a ps that never comes. */
static void server_alone(const struct stepgate_server *server, const char *why)
{
    if (hosts_is_loopback(server->listen))
        return;
    log_line(&server->knobs.log, LOG_WARN,
             "transport auto is shm alone here, since %s: workers on other hosts cannot reach this ps at %s",
             why, server->listen);
}

/* server_open_all -- as the knob `transport` says. Verbs that was asked for is never replaced. */
static int server_open_all(struct stepgate_server *server)
{
    int choice = knob_int(&server->knobs, "transport");
    bool closed = server->secret.bytes == 0 && !knob_bool(&server->knobs, "insecure");

    if (choice != KNOB_TRANSPORT_VERBS) {
        int status = server_open(server, shm_transport());
        if (status != 0 || choice == KNOB_TRANSPORT_SHM)
            return status;
    }
    if (closed && choice == KNOB_TRANSPORT_VERBS)
        return error_set(STEPGATE_EINVAL, 0, "give --secret-file (stepgate-run makes one), or --insecure",
                         "without a secret a ps does not listen on a network");
    if (closed) {
        server_alone(server, "there is no secret (--secret-file)");
        return 0;
    }
    int status = server_open(server, verbs_transport());
    if (choice == KNOB_TRANSPORT_AUTO &&
        (status == -STEPGATE_ENODEVICE || status == -STEPGATE_EADDRESS || status == -STEPGATE_EUNREACHABLE)) {
        struct stepgate_error error;
        error_save(&error);
        server_alone(server, error.text);
        return 0; /* shm is what this machine has */
    }
    return status;
}

/* server_waiter -- over shm the workers are on this machine, and they wait too. */
static int server_waiter(const struct stepgate_server *server, struct waiter **out)
{
    bool shm = knob_int(&server->knobs, "transport") != KNOB_TRANSPORT_VERBS;
    unsigned pollers = server->lanes + (shm ? server->workers : 0);

    return waiter_new((enum patience_mode)knob_int(&server->knobs, "wait"), pollers, out);
}

/* server_device -- the name of a fabric's device; NULL: it has none. */
static const char *server_device(const struct stepgate_fabric *fabric)
{
    return strcmp(fabric->device, fabric->transport->name) != 0 ? fabric->device : NULL;
}

/* server_bind -- the last fabric is the one with a device, if any has one. */
static int server_bind(struct stepgate_server *server)
{
    const char *device = server_device(server->fabrics[server->fabric_count - 1]);
    struct neighbour_count here;
    struct nic nic;
    int status = neighbour_count(server->listen, server->number, &server->ps,
                                 knob_text(&server->knobs, "worker_hosts"), server->workers, &here);

    if (status != 0)
        return status;
    if (device != NULL)
        nic_find(NIC_SYS, device, &nic);
    const struct layout_wish wish = {.bind = knob_text(&server->knobs, "bind"),
                                     .nic = device != NULL ? &nic : NULL,
                                     .servers = here.servers,
                                     .lanes = server->lanes,
                                     .workers = here.workers};
    return binding_choose(&wish, here.index, &server->binding);
}

/* server_make_lane -- a lane with its queues, and a waiter unless it runs with the shard. */
static int server_make_lane(struct stepgate_server *server, uint32_t number, uint64_t incarnation)
{
    struct server_lane *thread = &server->lane_threads[number];
    struct lane_config config = {.number = number,
                                 .workers = server->workers,
                                 .shard = server->number,
                                 .shards = server->ps.count > 0 ? (uint32_t)server->ps.count : 1,
                                 .job = hello_job_hash(knob_text(&server->knobs, "job")),
                                 .incarnation = incarnation,
                                 .secret = &server->secret,
                                 .to_shard = &server->mailbox,
                                 .wake_shard = server_wake_shard,
                                 .wake_context = thread};
    int status = 0;

    thread->server = server;
    thread->waiter = server->waiter;
    if (number != 0) {
        thread->waiter = NULL;
        status = server_waiter(server, &thread->waiter);
    }
    for (unsigned f = 0; status == 0 && f < server->fabric_count; f++) {
        const struct stepgate_transport_v1 *transport = server->fabrics[f]->transport;
        status = transport->queue_new(server->fabrics[f], 2 * server->workers + 8, &thread->queues[f]);
        if (status == 0)
            status = waiter_add_fd(thread->waiter, transport->queue_fd(thread->queues[f]));
        config.queues[f] = thread->queues[f];
    }
    return status != 0 ? status : lane_new(&config, &server->lane_list[number]);
}

/* server_open_sets -- ps 0 decides, so it records and repeats. */
static int server_open_sets(struct stepgate_server *server)
{
    const char *record = knob_text(&server->knobs, "record_sets"),
               *replay = knob_text(&server->knobs, "replay_sets");
    bool records = record != NULL && record[0] != 0, replays = replay != NULL && replay[0] != 0;

    if (server->number != 0 || (!records && !replays))
        return 0;
    return sets_open(records ? record : NULL, replays ? replay : NULL, server->workers, &server->sets);
}

/* server_make_shard -- after the lanes. */
static int server_make_shard(struct stepgate_server *server, uint64_t incarnation)
{
    const struct knobs *knobs = &server->knobs;
    struct shard_config config = {.number = server->number,
                                  .shards = server->ps.count > 0 ? (uint32_t)server->ps.count : 1,
                                  .workers = server->workers,
                                  .lanes = server->lanes,
                                  .listen = server->listen,
                                  .leader = server->number != 0 ? server->ps.entries[0].address : NULL,
                                  .lane_list = server->lane_list,
                                  .mailbox = &server->mailbox,
                                  .wake_lane = server_wake_lane,
                                  .aside = asides_begin,
                                  .aside_context = &server->asides,
                                  .wake_context = server,
                                  .job = knob_text(knobs, "job"),
                                  .secret = &server->secret,
                                  .incarnation = incarnation,
                                  .group_bytes = knob_bytes(knobs, "group_bytes"),
                                  .lost = knob_int(knobs, "lost_worker"),
                                  .return_timeout_ms = knob_time_ms(knobs, "return_timeout"),
                                  .kernels = (enum optimizer_kind)server->kernels,
                                  .ahead = (enum shard_ahead)knob_int(knobs, "sum_ahead"),
                                  .cache_bytes = SERVER_CACHE_BYTES,
                                  .cut_bytes = knob_bytes(knobs, "cut_bytes"),
                                  .join_timeout_ms = knob_time_ms(knobs, "join_timeout"),
                                  .liveness_ms = knob_time_ms(knobs, "liveness"),
                                  .reconnect = (uint32_t)knob_int(knobs, "reconnect"),
                                  .close_timeout_ms = knob_time_ms(knobs, "close_timeout"),
                                  .stall_report_ms = knob_time_ms(knobs, "stall_report"),
                                  .step_timeout_ms = knob_time_ms(knobs, "step_timeout"),
                                  .memory_available = available_memory,
                                  .memory_lockable = limit_lockable,
                                  .log = knobs->log};

    if (server->sets != NULL) {
        config.declare = sets_model;
        config.record = sets_commit;
    }
    if (sets_replays(server->sets))
        config.replay = sets_replay;
    config.sets_context = server->sets;
    config.archive = checkpoints_archive(server->checkpoints);
    for (unsigned f = 0; f < server->fabric_count; f++)
        config.fabrics[f] = (struct shard_fabric){server->fabrics[f], server->queues[f]};
    return shard_new(&config, clock_now(), &server->shard);
}

/* server_say -- one line about what was chosen. */
static void server_say(const struct stepgate_server *server)
{
    char transports[192] = "", binding[128], explained[512], pages[128];

    for (unsigned f = 0; f < server->fabric_count; f++) {
        const struct stepgate_fabric *fabric = server->fabrics[f];
        size_t used = strlen(transports);
        const char *device = server_device(fabric);
        snprintf(transports + used, sizeof(transports) - used, "%s%s%s%s%s", f > 0 ? " and " : "",
                 fabric->transport->name, device != NULL ? " (" : "", device != NULL ? device : "",
                 device != NULL ? ")" : "");
    }
    binding_describe(server->binding, binding, sizeof(binding));
    log_line(
        &server->knobs.log, LOG_INFO,
        "ps %u of %zu for %u worker%s, listening %s, transport %s, %u lane%s, kernels %s, bind %s, wait %s",
        server->number, server->ps.count > 0 ? server->ps.count : 1, server->workers,
        server->workers == 1 ? "" : "s", shard_address(server->shard), transports, server->lanes,
        server->lanes > 1 ? "s" : "", optimizer_kind_name((enum optimizer_kind)server->kernels), binding,
        knob_text(&server->knobs, "wait"));
    binding_explain(server->binding, explained, sizeof(explained));
    pages_describe(pages, sizeof(pages));
    log_line(&server->knobs.log, LOG_INFO, "%s; %s", explained, pages);
}

/* server_unbound -- placement is a wish: a thread that cannot have it runs where it is. */
static void server_unbound(const struct stepgate_server *server)
{
    struct stepgate_error error;

    error_save(&error);
    log_line(&server->knobs.log, LOG_WARN, "%s; %s", error.text, error.remedy);
}

/* server_make -- lanes, then the shard: what they take lies on the node of this ps's memory. */
static int server_make(struct stepgate_server *server)
{
    uint64_t incarnation;
    int status = 0;

    proof_random(&incarnation, sizeof(incarnation));
    server->lane_threads = calloc(server->lanes, sizeof(*server->lane_threads));
    server->lane_list = calloc(server->lanes, sizeof(*server->lane_list));
    if (server->lane_threads == NULL || server->lane_list == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u lanes", server->lanes);
    struct binding_past *past = binding_save(server->binding);
    server->remembers = binding_apply_memory(server->binding) == 0;
    if (!server->remembers)
        server_unbound(server);
    for (uint32_t l = 0; status == 0 && l < server->lanes; l++)
        status = server_make_lane(server, l, incarnation);
    if (status == 0)
        status = server_open_sets(server);
    if (status == 0)
        status = checkpoints_open(&server->knobs, server->number, &server->checkpoints);
    if (status == 0)
        status = server_make_shard(server, incarnation);
    binding_restore(server->binding, &past);
    return status;
}

/* server_need -- are the system's limits large enough? */
static int server_need(const struct stepgate_server *server, void (*tell)(void *context, const char *line),
                       void *context)
{
    const char *checkpoint = knob_text(&server->knobs, "checkpoint");
    const struct need_wish wish = {.workers = server->workers,
                                   .lanes = server->lanes,
                                   .shards = server->ps.count > 0 ? (uint32_t)server->ps.count : 1,
                                   .number = server->number,
                                   .fabrics = server->fabrics,
                                   .fabric_count = server->fabric_count,
                                   .checkpoint = checkpoint != NULL ? checkpoint : ""};

    return need_check(&wish, tell, context);
}

/* server_begin -- up to what must not fail later for want of something; *out is set also where it fails, unless there was no memory for it. */
static int server_begin(const struct stepgate_options *options, struct stepgate_server **out)
{
    struct stepgate_server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a server");
    origin_here(&server->origin);
    int status = knobs_copy(stepgate_options_knobs(options), &server->knobs);
    if (status != 0) {
        origin_clear(&server->origin);
        free(server);
        return status;
    }
    mailbox_init(&server->mailbox);
    *out = server;
    status = server_settings(server);
    if (status == 0)
        status = server_waiter(server, &server->waiter);
    server->asides.waiter = server->waiter;
    return status == 0 ? server_open_all(server) : status;
}

/* server_give_up -- deletes; the last error stays. */
static int server_give_up(struct stepgate_server **server, int status)
{
    struct stepgate_error error;

    error_save(&error);
    stepgate_server_delete(server);
    if (status != 0)
        error_restore(&error);
    return status;
}

/* stepgate_server_check -- see server.h. */
int stepgate_server_check(const struct stepgate_options *options,
                          void (*tell)(void *context, const char *line), void *context)
{
    struct stepgate_server *server = NULL;

    if (options == NULL || tell == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "options and tell must not be NULL");
    int status = server_begin(options, &server);
    if (status == 0)
        status = server_need(server, tell, context);
    return server_give_up(&server, status);
}

/* stepgate_server_new -- listens. */
int stepgate_server_new(const struct stepgate_options *options, struct stepgate_server **out)
{
    if (options == NULL || out == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "options and server must not be NULL");
    struct stepgate_server *server = NULL;
    int status = server_begin(options, &server);
    if (status == 0)
        status = server_need(server, NULL, NULL);
    if (status == 0)
        status = server_bind(server);
    if (status == 0)
        status = server_make(server);
    if (status != 0)
        return server_give_up(&server, status);
    server_say(server);
    *out = server;
    return 0;
}

/* server_arm -- arms queues before sleep; true: something is pending already. */
static bool server_arm(struct stepgate_queue *const queues[LANE_FABRICS_MAX])
{
    bool pending = false;

    for (unsigned f = 0; f < LANE_FABRICS_MAX && queues[f] != NULL; f++)
        pending = queues[f]->transport->queue_arm(queues[f]) != 0 || pending;
    return pending;
}

/* server_lane_ready -- one round of a lane's thread. */
static bool server_lane_ready(void *context)
{
    struct server_lane *thread = context;

    return lane_progress(thread->server->lane_list[thread - thread->server->lane_threads], clock_now()) !=
               0 ||
           atomic_load_explicit(&thread->server->ended,
                                memory_order_acquire); /* pairs with server_end_lanes */
}

/* server_lane_arm -- its queues. */
static bool server_lane_arm(void *context)
{
    struct server_lane *thread = context;

    return server_arm(thread->queues);
}

/* server_lane_run -- the thread of a lane other than 0. */
static void *server_lane_run(void *context)
{
    struct server_lane *thread = context;
    ptrdiff_t number = thread - thread->server->lane_threads;
    struct lane *lane = thread->server->lane_list[number];
    const struct waiter_goal goal = {server_lane_ready, server_lane_arm, thread};

    if (binding_apply(thread->server->binding, (unsigned)number) < 0)
        server_unbound(thread->server);
    while (
        !atomic_load_explicit(&thread->server->ended, memory_order_acquire)) /* pairs with server_end_lanes */
        if (lane_progress(lane, clock_now()) == 0)
            waiter_wait(thread->waiter, lane_deadline(lane), &goal);
    return NULL;
}

/* server_start_lanes -- signals are for the program's own threads. */
static int server_start_lanes(struct stepgate_server *server)
{
    sigset_t all, before;
    int status = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t l = 1; status == 0 && l < server->lanes; l++) {
        struct server_lane *thread = &server->lane_threads[l];
        status = pthread_create(&thread->thread, NULL, server_lane_run, thread);
        thread->runs = status == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status == 0 ? 0 : error_set(STEPGATE_ESYSTEM, status, "use fewer lanes", "no thread for a lane");
}

/* server_end_lanes -- bounded: a lane never waits for anything but its waiter. */
static void server_end_lanes(struct stepgate_server *server)
{
    atomic_store_explicit(&server->ended, true, memory_order_release); /* pairs with the lanes' loops */
    for (uint32_t l = 1; server->lane_threads != NULL && l < server->lanes; l++)
        if (server->lane_threads[l].runs) {
            waiter_wake(server->lane_threads[l].waiter);
            pthread_join(server->lane_threads[l].thread, NULL);
            server->lane_threads[l].runs = false;
        }
}

/* server_ready -- one round of shard and lane 0. */
static bool server_ready(void *context)
{
    struct stepgate_server *server = context;
    uint64_t now = clock_now();
    int busy = lane_progress(server->lane_list[0], now);

    busy |= shard_progress(server->shard, now);
    return busy != 0 || shard_finished(server->shard, NULL);
}

/* server_arm_all -- the shard's and lane 0's queues. */
static bool server_arm_all(void *context)
{
    struct stepgate_server *server = context;
    bool pending = server_arm(server->queues);

    return server_arm(server->lane_threads[0].queues) || pending;
}

/* server_serve -- lanes in their threads, lane 0 and the shard here, until the job ends. */
static int server_serve(struct stepgate_server *server)
{
    const struct waiter_goal goal = {server_ready, server_arm_all, server};
    bool stopped = false;
    int status = server_start_lanes(server);

    if (status != 0) {
        server_end_lanes(server);
        return status;
    }
    while (!shard_finished(server->shard, &status)) {
        if (!stopped && atomic_load_explicit(&server->stop, memory_order_acquire)) { /* pairs with _stop */
            shard_stop(server->shard, clock_now());
            stopped = true;
        }
        if (server_ready(server))
            continue;
        uint64_t a = shard_deadline(server->shard), b = lane_deadline(server->lane_list[0]);
        waiter_wait(server->waiter, a < b ? a : b, &goal);
    }
    server_end_lanes(server);
    int written = sets_close(&server->sets);
    return stopped ? 0 : status != 0 ? status : written;
}

/* stepgate_server_run -- the thread is the program's: what it was bound to before comes back. */
int stepgate_server_run(struct stepgate_server *server)
{
    if (server == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "the server is NULL");
    if (!origin_is_here(&server->origin))
        return error_set(STEPGATE_EFORKED, 0, "make a server of the child's own",
                         "the server belongs to process %d", (int)server->origin.process);
    struct binding_past *past = binding_save(server->binding);
    if (binding_apply(server->binding, 0) < 0 ||
        (server->remembers && binding_apply_memory(server->binding) < 0))
        server_unbound(server);
    int status = server_serve(server);
    binding_restore(server->binding, &past);
    return status;
}

/* stepgate_server_stop -- an atomic store and a write: safe in a signal handler. */
void stepgate_server_stop(struct stepgate_server *server)
{
    if (server == NULL || !origin_is_here(&server->origin))
        return;
    atomic_store_explicit(&server->stop, true, memory_order_release); /* pairs with stepgate_server_run */
    waiter_wake(server->waiter);
}

/* stepgate_server_address -- where workers connect to. */
int stepgate_server_address(const struct stepgate_server *server, char *text, size_t bytes)
{
    if (server == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "server and text must not be NULL");
    if (strlen(shard_address(server->shard)) >= bytes)
        return error_set(STEPGATE_EINVAL, 0, "give STEPGATE_ADDRESS_BYTES",
                         "%zu bytes are too few for the address", bytes);
    snprintf(text, bytes, "%s", shard_address(server->shard));
    return 0;
}

/* stepgate_server_stats -- while no other thread runs the server, or as a rough picture while one does. */
int stepgate_server_stats(const struct stepgate_server *server, struct stepgate_server_stats *stats)
{
    struct shard_stats inner;

    if (server == NULL || stats == NULL || stats->size < sizeof(*stats))
        return error_set(STEPGATE_EINVAL, 0, "set stats.size",
                         "server or stats is NULL, or stats is too small");
    shard_stats(server->shard, &inner);
    stats->steps = inner.steps;
    stats->bytes_promised = inner.memory_promised;
    stats->bytes_registered = inner.memory_registered;
    stats->workers = inner.connected;
    return 0;
}

/* stepgate_server_delete -- lanes, then shard, then queues, then fabrics. */
void stepgate_server_delete(struct stepgate_server **out)
{
    if (out == NULL || *out == NULL)
        return;
    struct stepgate_server *server = *out;
    *out = NULL;
    if (!origin_is_here(&server->origin))
        return; /* the child has none of its threads and shares every descriptor */
    server_end_lanes(server);
    asides_end(&server->asides);
    for (uint32_t l = 0; server->lane_list != NULL && l < server->lanes; l++)
        lane_delete(&server->lane_list[l]);
    shard_delete(&server->shard);
    sets_close(&server->sets);
    checkpoints_close(&server->checkpoints);
    for (uint32_t l = 0; server->lane_threads != NULL && l < server->lanes; l++) {
        struct server_lane *thread = &server->lane_threads[l];
        for (unsigned f = 0; f < LANE_FABRICS_MAX; f++)
            if (thread->queues[f] != NULL)
                thread->queues[f]->transport->queue_delete(&thread->queues[f]);
        if (l != 0)
            waiter_delete(&thread->waiter);
    }
    for (unsigned f = 0; f < server->fabric_count; f++) {
        server->queues[f]->transport->queue_delete(&server->queues[f]);
        server->fabrics[f]->transport->fabric_delete(&server->fabrics[f]);
    }
    waiter_delete(&server->waiter);
    binding_delete(&server->binding);
    mailbox_clear(&server->mailbox);
    free(server->lane_threads);
    free(server->lane_list);
    hosts_clear(&server->ps);
    knobs_clear(&server->knobs);
    explicit_bzero(&server->secret, sizeof(server->secret));
    origin_clear(&server->origin);
    free(server);
}
