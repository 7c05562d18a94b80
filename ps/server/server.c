/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server -- a ps inside any process: its settings, its place on the machine, and the engine that serves. Where another ps is lost and the job goes back to a
 * checkpoint, the engine is made anew at the same address.
 */
#include "stepgate/server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/protocol/rewind.h"
#include "ps/server/engine.h"
#include "ps/server/neighbour.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/origin.h"
#include "transport/base/pages.h"

#define SERVER_RETRY_MS 50 /* until an address that is still in use is tried again */

struct stepgate_server {
    struct origin origin; /* the process that made it: a forked child must not touch anything */
    struct settings settings;
    struct waiter *waiter;
    struct binding *binding;
    bool remembers;           /* the binding of memory works here */
    pthread_mutex_t lock;     /* guards engine and stats where another thread asks for the counters */
    struct engine *engine;    /* NULL: it is being made anew */
    struct shard_stats stats; /* of the engine before, for as long */
    char address[STEPGATE_ADDRESS_BYTES];
    bool again;                  /* it goes back: there must be a checkpoint */
    unsigned rewinds;            /* in a row, without a step in between */
    struct stepgate_error cause; /* of the first of them */
    atomic_bool stop;            /* asked to stop: release store in _stop, acquire load in engine_serve */
};

/* server_bind -- where its threads and its memory are to be. */
static int server_bind(struct stepgate_server *server)
{
    const struct settings *s = &server->settings;
    const char *device = engine_device(server->engine);
    struct neighbour_count here;
    struct nic nic;
    int status = neighbour_count(s->listen, s->number, &s->ps, knob_text(&s->knobs, "worker_hosts"),
                                 s->workers, &here);

    if (status != 0)
        return status;
    if (device != NULL)
        nic_find(NIC_SYS, device, &nic);
    const struct layout_wish wish = {.bind = knob_text(&s->knobs, "bind"),
                                     .nic = device != NULL ? &nic : NULL,
                                     .servers = here.servers,
                                     .lanes = s->lanes,
                                     .workers = here.workers};
    return binding_choose(&wish, here.index, &server->binding);
}

/* server_say -- one line about what was chosen. */
static void server_say(const struct stepgate_server *server)
{
    const struct settings *s = &server->settings;
    char transports[192], binding[128], explained[512], pages[128];

    engine_transports(server->engine, transports, sizeof(transports));
    binding_describe(server->binding, binding, sizeof(binding));
    log_line(
        &s->knobs.log, LOG_INFO,
        "ps %u of %u for %u worker%s, listening %s, transport %s, %u lane%s, kernels %s, bind %s, wait %s",
        s->number, settings_shards(s), s->workers, s->workers == 1 ? "" : "s", server->address, transports,
        s->lanes, s->lanes > 1 ? "s" : "", optimizer_kind_name((enum optimizer_kind)s->kernels), binding,
        knob_text(&s->knobs, "wait"));
    binding_explain(server->binding, explained, sizeof(explained));
    pages_describe(pages, sizeof(pages));
    log_line(&s->knobs.log, LOG_INFO, "%s; %s", explained, pages);
}

/* server_unbound -- placement is a wish: a thread that cannot have it runs where it is. */
static void server_unbound(const struct stepgate_server *server)
{
    struct stepgate_error error;

    error_save(&error);
    log_line(&server->settings.knobs.log, LOG_WARN, "%s; %s", error.text, error.remedy);
}

/* server_make -- the engine: what it takes lies on the node of this ps's memory. */
static int server_make(struct stepgate_server *server)
{
    struct binding_past *past = binding_save(server->binding);

    server->remembers = binding_apply_memory(server->binding) == 0;
    if (!server->remembers)
        server_unbound(server);
    int status = engine_make(server->engine, server->binding, false);
    binding_restore(server->binding, &past);
    return status;
}

/* server_begin -- up to what must not fail later for want of something; *out is set also where it fails, unless there was no memory for it. */
static int server_begin(const struct stepgate_options *options, struct stepgate_server **out)
{
    struct stepgate_server *server = calloc(1, sizeof(*server));
    if (server == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a server");
    origin_here(&server->origin);
    knobs_init(&server->settings.knobs);
    pthread_mutex_init(&server->lock, NULL);
    *out = server;
    int status = settings_read(stepgate_options_knobs(options), &server->settings);
    if (status == 0)
        status = engine_waiter(&server->settings, &server->waiter);
    return status == 0 ? engine_open(&server->settings, server->waiter, &server->engine) : status;
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
        status = engine_need(server->engine, tell, context);
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
        status = engine_need(server->engine, NULL, NULL);
    if (status == 0)
        status = server_bind(server);
    if (status == 0)
        status = server_make(server);
    if (status != 0)
        return server_give_up(&server, status);
    snprintf(server->address, sizeof(server->address), "%s", engine_address(server->engine));
    /* A port that was taken freely stays this ps's. */
    snprintf(server->settings.listen, sizeof(server->settings.listen), "%s", server->address);
    server_say(server);
    *out = server;
    return 0;
}

/* server_goes_back -- has the engine failed for the loss of another ps, and not too often? status: what it ended with. */
static bool server_goes_back(struct stepgate_server *server, int status)
{
    struct stepgate_error why;

    error_save(&why);
    engine_stats(server->engine, &server->stats);
    if (status == 0 || !rewind_for(&why) || !engine_can_rewind(server->engine))
        return false;
    server->again = engine_has_trained(server->engine);
    if (server->stats.steps > 0)
        server->rewinds = 0;
    if (server->rewinds == 0)
        server->cause = why;
    return ++server->rewinds <= REWINDS_IN_A_ROW;
}

/* server_let_go -- the engine goes; who asks for the counters meanwhile gets those of its end. */
static void server_let_go(struct stepgate_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct engine *engine = server->engine;
    server->engine = NULL;
    server->stats.connected = 0;
    pthread_mutex_unlock(&server->lock);
    engine_delete(&engine);
}

/* server_renew -- another engine. */
static int server_renew(struct stepgate_server *server)
{
    struct engine *engine = NULL;
    int status = engine_open(&server->settings, server->waiter, &engine);

    if (status == 0)
        status = engine_make(engine, server->binding, server->again);
    if (status != 0) {
        engine_delete(&engine);
        return status;
    }
    pthread_mutex_lock(&server->lock);
    server->engine = engine;
    pthread_mutex_unlock(&server->lock);
    return 0;
}

/* server_nothing -- is never there: whoever waits for it sleeps until the deadline, or until it is woken. */
static bool server_nothing(void *context)
{
    (void)context;
    return false;
}

/* server_rewind -- makes the engine anew where the one before listened; for as long as anybody is waited for, that address may still be in use. */
static int server_rewind(struct stepgate_server *server)
{
    const struct waiter_goal goal = {server_nothing, server_nothing, NULL};
    int64_t join = knob_time_ms(&server->settings.knobs, "join_timeout");
    uint64_t deadline = clock_after(clock_now(), join);
    struct stepgate_error why;
    char within[48] = "for as long as it takes";

    error_save(&why);
    if (join >= 0)
        snprintf(within, sizeof(within), "for up to %lld ms", (long long)join);
    log_line(&server->settings.knobs.log, LOG_WARN,
             "%s; this ps goes back to a checkpoint, and waits %s until everybody is here again", why.text,
             within);
    server_let_go(server);
    for (;;) {
        int status = server_renew(server);
        uint64_t now = clock_now();
        if (status != -STEPGATE_EBUSY || now >= deadline ||
            atomic_load_explicit(&server->stop, memory_order_acquire)) /* pairs with stepgate_server_stop */
            return status;
        waiter_wait(server->waiter, clock_after(now, SERVER_RETRY_MS), &goal);
    }
}

/* server_end -- what a job ended with that had gone back before: when nothing came of that, the first loss is the cause. */
static int server_end(const struct stepgate_server *server, int status)
{
    struct stepgate_error why;
    struct shard_stats stats = server->stats;

    if (status == 0 || server->rewinds == 0 || stats.steps > 0)
        return status;
    error_save(&why);
    if (rewind_for(&why))
        error_set(STEPGATE_ELOST, 0, server->cause.remedy,
                  "%.200s; it went back to a checkpoint %d times, without a step: %.200s", server->cause.text,
                  REWINDS_IN_A_ROW, why.text);
    else
        error_set(why.code, why.os_errno, why.remedy, "%.230s; going back to a checkpoint failed: %.230s",
                  server->cause.text, why.text);
    error_peer(server->cause.role, server->cause.rank, server->cause.host, server->cause.device);
    return -why.code;
}

/* server_serve -- one engine after the other, until the job ends. */
static int server_serve(struct stepgate_server *server)
{
    if (server->engine == NULL)
        return error_set(STEPGATE_ESTATE, 0, "make another server",
                         "this ps has served, and could not be made anew");
    int status = engine_serve(server->engine, &server->stop);

    while (server_goes_back(server, status)) {
        status = server_rewind(server);
        if (status == 0)
            status = engine_serve(server->engine, &server->stop);
        else if (atomic_load_explicit(&server->stop,
                                      memory_order_acquire)) /* pairs with stepgate_server_stop */
            return 0;
        else
            break;
    }
    return server_end(server, status);
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
    if (strlen(server->address) >= bytes)
        return error_set(STEPGATE_EINVAL, 0, "give STEPGATE_ADDRESS_BYTES",
                         "%zu bytes are too few for the address", bytes);
    snprintf(text, bytes, "%s", server->address);
    return 0;
}

/* stepgate_server_stats -- while no other thread runs the server, or as a rough picture while one does. */
int stepgate_server_stats(const struct stepgate_server *server, struct stepgate_server_stats *stats)
{
    struct shard_stats inner;

    if (server == NULL || stats == NULL || stats->size < sizeof(*stats))
        return error_set(STEPGATE_EINVAL, 0, "set stats.size",
                         "server or stats is NULL, or stats is too small");
    struct stepgate_server *mutable_server = (struct stepgate_server *)(uintptr_t)server;
    pthread_mutex_lock(&mutable_server->lock);
    if (server->engine != NULL)
        engine_stats(server->engine, &inner);
    else
        inner = server->stats;
    pthread_mutex_unlock(&mutable_server->lock);
    stats->steps = inner.steps;
    stats->bytes_promised = inner.memory_promised;
    stats->bytes_registered = inner.memory_registered;
    stats->workers = inner.connected;
    return 0;
}

/* stepgate_server_delete -- the engine first. */
void stepgate_server_delete(struct stepgate_server **out)
{
    if (out == NULL || *out == NULL)
        return;
    struct stepgate_server *server = *out;
    *out = NULL;
    if (!origin_is_here(&server->origin))
        return; /* the child has none of its threads and shares every descriptor */
    engine_delete(&server->engine);
    waiter_delete(&server->waiter);
    binding_delete(&server->binding);
    settings_clear(&server->settings);
    pthread_mutex_destroy(&server->lock);
    origin_clear(&server->origin);
    free(server);
}
