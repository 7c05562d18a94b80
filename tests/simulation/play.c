/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/play.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define PLAY_LIVENESS_MS 1000
#define PLAY_JOIN_MS 4000
#define PLAY_RECONNECT 1000                        /* as often as anything breaks */
#define PLAY_LIMIT_NS (UINT64_C(30000) * CLOCK_MS) /* no wait outlives this much virtual time */
#define PLAY_ROUNDS 2000000
#define PLAY_SLOW_PER_MILLE 900 /* turns that a slow ps leaves out */
#define PLAY_IDLE_NS                                                                                         \
    1000 /* of a round in which somebody waits to try again, and twice that in each that follows, up to 64 times */

/* play_wrong -- see inside.h. */
void play_wrong(struct play *play, const char *format, ...)
{
    va_list arguments;

    if (play->wrong[0] != 0)
        return;
    va_start(arguments, format);
    vsnprintf(play->wrong, sizeof(play->wrong), format, arguments);
    va_end(arguments);
}

/* play_trace -- a line of the world's. */
static void play_trace(void *context, const char *line)
{
    fprintf(context, "%s\n", line);
}

/* play_draw -- what the job is, and on how much it runs. */
static void play_draw(struct play *play, const struct play_options *options)
{
    struct random_source *random = &play->random;
    bool small = options->small;

    shape_draw(&play->shape, random, options->mode, small);
    play->shards = 1 + (uint32_t)random_below(random, small ? 2 : PLAY_SHARDS_MAX);
    play->lanes = 1 + (uint32_t)random_below(random, small ? 2 : PLAY_LANES_MAX);
    play->group_bytes =
        random_chance(random, 600) ? UINT64_C(4096) << random_below(random, 3) : UINT64_C(1) << 20;
    play->cut_bytes = random_chance(random, 500) ? 20000 : UINT64_C(1) << 28;
    play->chunk_bytes = random_chance(random, 300) ? UINT64_C(1024) << (2 * random_below(random, 3)) : 0;
    if (small && random_chance(random, 300))
        play->cut_bytes = 40; /* the table of five rows lies on two ps */
    play->slow_ps = (uint32_t)random_below(random, 2 * play->shards);
    play->secret.bytes = 32;
    for (size_t i = 0; i < play->secret.bytes; i++)
        play->secret.data[i] = (uint8_t)random_next(random);
    play_plan_fault(play);
    play_plan_breaks(play);
    play_plan_pauses(play);
}

/* play_aside -- the memory of a model takes some time, up to a few times of what a silent peer is given. */
static int play_aside(void *context, void (*work)(void *what), void *what)
{
    struct play_ps *ps = context;
    uint64_t ms = ps->play->shape.seed * 7919 % (3 * PLAY_LIVENESS_MS);

    ps->aside = work;
    ps->aside_what = what;
    ps->aside_at = world_now_ns(ps->play->world) + ms * CLOCK_MS;
    return 0;
}

/* play_aside_due -- does it, when it is time. */
static void play_aside_due(struct play_ps *ps, uint64_t now)
{
    if (ps->aside == NULL || now < ps->aside_at)
        return;
    void (*work)(void *what) = ps->aside;
    ps->aside = NULL;
    work(ps->aside_what);
}

/* play_make_ps -- one node with a shard and its lanes. */
static int play_make_ps(struct play *play, uint32_t s)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    struct play_ps *ps = &play->ps[s];
    char name[32];

    snprintf(name, sizeof(name), "ps%u", s);
    int status = world_node_new(play->world, name, &ps->node);
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .peer_timeout_ms = 2000, .connect_timeout_ms = 1000};
    options.world = ps->node;
    mailbox_init(&ps->mailbox);
    if (status == 0)
        status = transport->fabric_open(&options, &ps->fabric);
    if (status == 0)
        status = transport->queue_new(ps->fabric, 64, &ps->queue);
    for (uint32_t l = 0; status == 0 && l < play->lanes; l++) {
        struct lane_config lane = {.number = l,
                                   .workers = play->shape.workers,
                                   .shard = s,
                                   .shards = play->shards,
                                   .job = hello_job_hash("play"),
                                   .incarnation = 100 + s,
                                   .secret = &play->secret,
                                   .to_shard = &ps->mailbox};
        status = transport->queue_new(ps->fabric, 64, &ps->lane_queues[l]);
        lane.queues[0] = ps->lane_queues[l];
        if (status == 0)
            status = lane_new(&lane, &ps->lanes[l]);
    }
    struct shard_config config = {
        .number = s,
        .shards = play->shards,
        .workers = play->shape.workers,
        .lanes = play->lanes,
        .listen = play->addresses[s],
        .leader = play->addresses[0],
        .lane_list = ps->lanes,
        .mailbox = &ps->mailbox,
        .job = "play",
        .secret = &play->secret,
        .incarnation = 100 + s,
        .kernels = (enum optimizer_kind)optimizer_kind_of("auto"),
        .ahead = play->shape.seed / 2 % 2 == 0 ? SHARD_AHEAD_ON : SHARD_AHEAD_OFF,
        .cache_bytes = play->shape.seed % 2 == 0 ? 1 : 0, /* every second job stores past the caches */
        .group_bytes = play->group_bytes,
        .cut_bytes = play->cut_bytes,
        .join_timeout_ms = PLAY_JOIN_MS,
        .liveness_ms = PLAY_LIVENESS_MS,
        .reconnect = play->rebuilds ? PLAY_RECONNECT : 0,
        .lost = play->shape.shrinks ? MODE_LOST_SHRINK : MODE_LOST_FAIL,
        .close_timeout_ms = 500};
    config.fabrics[0] = (struct shard_fabric){ps->fabric, ps->queue};
    ps->play = play;
    if (play->shape.seed % 3 == 1) {
        config.aside = play_aside;
        config.aside_context = ps;
    }
    return status != 0 ? status : shard_new(&config, world_now_ns(play->world), &ps->shard);
}

/* play_trainee -- a worker's ways. */
static void play_trainee(struct play *play, uint32_t w)
{
    struct random_source *random = &play->random;
    struct trainee *trainee = &play->worker[w].trainee;
    const struct shape *shape = &play->shape;

    trainee->shape = shape;
    trainee->reference = &play->reference;
    trainee->log = &play->logs[w];
    trainee->rank = w;
    random_seed(&trainee->random, random_next(random));
    trainee->callers = random_chance(random, 250);
    trainee->slow_per_mille = random_chance(random, 300) ? 20 + (unsigned)random_below(random, 150) : 0;
    trainee->pass_per_mille = random_chance(random, 250) ? 800 : 50;
    trainee->barrier = shape_lockstep(shape) || random_chance(random, 500);
    if (play->fault == PLAY_LEAVE && w == play->fault_worker)
        trainee->quits = 1 + random_below(random, (uint64_t)shape->steps * shape_quota(shape, w));
    trainee->deletes = random_chance(random, 500);
    trainee->quits_at_once = random_chance(random, 400);
    play->counts->callers += trainee->callers;
}

/* play_make_worker -- one node with a session. */
static int play_make_worker(struct play *play, uint32_t w)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    struct play_worker *worker = &play->worker[w];
    const char *addresses[PLAY_SHARDS_MAX];
    char name[32];

    snprintf(name, sizeof(name), "worker%u", w);
    int status = world_node_new(play->world, name, &worker->node);
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .peer_timeout_ms = 2000, .connect_timeout_ms = 1000};
    options.world = worker->node;
    if (status == 0)
        status = transport->fabric_open(&options, &worker->fabric);
    if (status == 0)
        status = transport->queue_new(worker->fabric, 64, &worker->queue);
    if (status == 0)
        status = transport->domain_new(worker->fabric, &worker->domain);
    for (uint32_t s = 0; s < play->shards; s++)
        addresses[s] = play->addresses[s];
    struct session_config config = {.rank = w,
                                    .workers = play->shape.workers,
                                    .shards = play->shards,
                                    .addresses = addresses,
                                    .routes = {{worker->queue, worker->domain}},
                                    .job = "play",
                                    .secret = play->secret,
                                    .incarnation = 1000 + w,
                                    .join_timeout_ms = PLAY_JOIN_MS,
                                    .chunk_bytes = play->chunk_bytes,
                                    .liveness_ms = PLAY_LIVENESS_MS,
                                    .reconnect = play->rebuilds ? PLAY_RECONNECT : 0};
    play_trainee(play, w);
    return status != 0 ? status : session_new(&config, world_now_ns(play->world), &worker->trainee.session);
}

/* play_alive -- does an actor of this node run? */
bool play_alive(const struct world_node *node)
{
    return !world_node_killed(node) && !world_node_frozen(node);
}

/* play_round -- every actor once, in a random order, some left out. Returns 1 if any did something. */
static int play_round(struct play *play, bool all)
{
    uint32_t actors = play->shards * (1 + play->lanes) + play->shape.workers;
    uint32_t start = (uint32_t)random_below(&play->random, actors);
    int busy = 0;

    for (uint32_t i = 0; i < actors; i++) {
        uint32_t a = (start + i) % actors;
        uint64_t now = world_now_ns(play->world);
        if (!all && random_chance(&play->random, 350))
            continue;
        if (a >= play->shards * (1 + play->lanes)) {
            struct play_worker *worker = &play->worker[a - play->shards * (1 + play->lanes)];
            if (play_alive(worker->node) && !trainee_over(&worker->trainee))
                busy |= trainee_move(&worker->trainee, now);
            if (worker->trainee.state == TRAINEE_DONE && worker->trainee.deletes)
                session_delete(&worker->trainee.session);
            continue;
        }
        struct play_ps *ps = &play->ps[a / (1 + play->lanes)];
        uint32_t part = a % (1 + play->lanes);
        if (!play_alive(ps->node) || ps->over)
            continue;
        if (!all && a / (1 + play->lanes) == play->slow_ps &&
            random_chance(&play->random, PLAY_SLOW_PER_MILLE))
            continue;
        if (part > 0) {
            busy |= lane_progress(ps->lanes[part - 1], now);
        } else {
            play_aside_due(ps, now);
            busy |= shard_progress(ps->shard, now);
            ps->over = shard_finished(ps->shard, &ps->status);
            busy |= ps->over;
        }
    }
    return busy;
}

/* play_earliest -- when the next actor or plan wants to act. */
static uint64_t play_earliest(const struct play *play)
{
    uint64_t earliest = play->fault != PLAY_NOTHING && play->fault != PLAY_LEAVE && !play->fault_done
                            ? play->fault_at
                            : CLOCK_NEVER;

    if (play->break_at < earliest)
        earliest = play->break_at;
    if (play->pause.next_at < earliest)
        earliest = play->pause.next_at;
    if (play->pause.until < earliest)
        earliest = play->pause.until;
    if (play->thaw_at != 0 && play->thaw_at < earliest)
        earliest = play->thaw_at;
    for (uint32_t s = 0; s < play->shards; s++) {
        const struct play_ps *ps = &play->ps[s];
        if (!play_alive(ps->node) || ps->over)
            continue;
        uint64_t one = shard_deadline(ps->shard);
        earliest = one < earliest ? one : earliest;
        if (ps->aside != NULL)
            earliest = ps->aside_at < earliest ? ps->aside_at : earliest;
        for (uint32_t l = 0; l < play->lanes; l++) {
            one = lane_deadline(ps->lanes[l]);
            earliest = one < earliest ? one : earliest;
        }
    }
    for (uint32_t w = 0; w < play->shape.workers; w++)
        if (play_alive(play->worker[w].node) && !trainee_over(&play->worker[w].trainee)) {
            uint64_t one = trainee_deadline(&play->worker[w].trainee);
            earliest = one < earliest ? one : earliest;
        }
    return earliest;
}

/* play_is_over -- everybody that can still act, or will again, has ended. */
static bool play_is_over(const struct play *play)
{
    if (play->pause.until != CLOCK_NEVER || (play->wakes_late && play->thaw_at != 0))
        return false;
    for (uint32_t s = 0; s < play->shards; s++)
        if (play_alive(play->ps[s].node) && !play->ps[s].over)
            return false;
    for (uint32_t w = 0; w < play->shape.workers; w++)
        if (play_alive(play->worker[w].node) && !trainee_over(&play->worker[w].trainee))
            return false;
    return true;
}

/* play_stuck -- words who still waits. */
static void play_stuck(struct play *play)
{
    char who[400];
    size_t used = 0;

    for (uint32_t s = 0; s < play->shards && used < sizeof(who); s++)
        if (!play->ps[s].over)
            used += (size_t)snprintf(who + used, sizeof(who) - used, " ps%u(step %llu)", s,
                                     play->ps[s].shard->models[0] != NULL
                                         ? (unsigned long long)play->ps[s].shard->models[0]->step
                                         : 0ull);
    for (uint32_t w = 0; w < play->shape.workers && used < sizeof(who); w++)
        if (!trainee_over(&play->worker[w].trainee))
            used += (size_t)snprintf(who + used, sizeof(who) - used, " worker%u(state %d, step %llu)", w,
                                     play->worker[w].trainee.state,
                                     (unsigned long long)play->worker[w].trainee.step);
    play_wrong(play, "a wait did not end within %llu ms of virtual time:%s",
               (unsigned long long)(PLAY_LIMIT_NS / CLOCK_MS), who);
}

/* play_sleep -- nobody has anything to do, or nothing that can't wait: time passes. */
static bool play_sleep(struct play *play, bool busy)
{
    uint64_t due = world_next_time(play->world), timer = play_earliest(play), now = world_now_ns(play->world);

    play->idle_rounds = busy ? 0 : play->idle_rounds + 1;
    if (busy && (random_chance(&play->random, 300) || due > now + CLOCK_MS / 10))
        return true; /* processors are fast: nobody sleeps through a time-out with work before him */
    if (due <= timer || busy) {
        if (world_step(play->world) == 0 && !busy)
            world_advance(play->world, CLOCK_MS);
    } else if (timer == CLOCK_NEVER) {
        return false;
    } else {
        unsigned times = play->idle_rounds < 6 ? play->idle_rounds : 6;
        world_advance(play->world, timer > now ? timer - now : (uint64_t)PLAY_IDLE_NS << times);
    }
    return true;
}

/* play_all_right -- has nobody seen anything wrong? */
static bool play_all_right(struct play *play)
{
    for (uint32_t w = 0; w < play->shape.workers; w++)
        if (play->worker[w].trainee.wrong[0] != 0)
            play_wrong(play, "%s", play->worker[w].trainee.wrong);
    if (play->referee.wrong[0] != 0)
        play_wrong(play, "%s", play->referee.wrong);
    return play->wrong[0] == 0;
}

/* play_run -- until everybody has ended. */
static void play_run(struct play *play)
{
    for (uint64_t round = 0; play_all_right(play) && !play_is_over(play); round++) {
        uint64_t now = world_now_ns(play->world);
        if (now > PLAY_LIMIT_NS || round > PLAY_ROUNDS) {
            play_stuck(play);
            return;
        }
        if (play_fault_due(play, now))
            play_break(play, now);
        play_break_connections(play, now);
        play_thaw(play, now);
        play_pause(play, now);
        if (random_chance(&play->random, 60))
            play_repeat(play, now);
        int busy = play_round(play, false);
        if (!busy)
            busy = play_round(play, true);
        if (!play_is_over(play) && !play_sleep(play, busy)) {
            play_stuck(play);
            return;
        }
    }
}

/* play_clear -- everything is deleted, in the order in which programs do it. */
static void play_clear(struct play *play)
{
    for (uint32_t w = 0; w < play->shape.workers; w++) {
        struct play_worker *worker = &play->worker[w];
        session_delete(&worker->trainee.session);
        trainee_clear(&worker->trainee);
        if (worker->domain != NULL)
            worker->domain->transport->domain_delete(&worker->domain);
        if (worker->queue != NULL)
            worker->queue->transport->queue_delete(&worker->queue);
        if (worker->fabric != NULL)
            worker->fabric->transport->fabric_delete(&worker->fabric);
    }
    for (uint32_t s = 0; s < play->shards; s++) {
        struct play_ps *ps = &play->ps[s];
        for (uint32_t l = 0; l < play->lanes; l++)
            lane_delete(&ps->lanes[l]);
        shard_delete(&ps->shard);
        for (uint32_t l = 0; l < play->lanes; l++)
            if (ps->lane_queues[l] != NULL)
                ps->lane_queues[l]->transport->queue_delete(&ps->lane_queues[l]);
        if (ps->queue != NULL)
            ps->queue->transport->queue_delete(&ps->queue);
        if (ps->fabric != NULL) {
            ps->fabric->transport->fabric_delete(&ps->fabric);
            mailbox_clear(&ps->mailbox);
        }
    }
}

/* play_add_world -- sums the world's counters up. */
static void play_add_world(struct play_counts *counts, const struct world *world)
{
    struct world_counts one;
    uint64_t *to = (uint64_t *)(void *)&counts->world;
    const uint64_t *from = (const uint64_t *)(const void *)&one;

    world_counters(world, &one);
    for (size_t i = 0; i < sizeof(one) / sizeof(uint64_t); i++)
        to[i] += from[i];
}

/* play_describe -- what kind of job it was, and where everybody got to: the end of a trace. */
static void play_describe(const struct play *play, FILE *out)
{
    const struct shape *shape = &play->shape;
    static const char *const faults[] = {"nothing",      "kill worker", "kill ps",    "freeze worker",
                                         "freeze short", "partition",   "disconnect", "leave"};

    fprintf(out,
            "job: mode %s, R %u, T %u, steps %u, tokens %u, bound %u, policy %d, optimizer %d%s, %u ps, %u "
            "lanes, cut %llu\n",
            shape_mode_name(shape->mode), shape->replicas, shape->workers, shape->steps, shape->tokens,
            shape->bound, shape->non_finite, shape->optimizer, shape->torch ? " of torch" : "", play->shards,
            play->lanes, (unsigned long long)play->cut_bytes);
    fprintf(out, "job: clip %g %g %g, l2 %g, average %g, weighted %d\n", shape->clip_value, shape->clip_norm,
            shape->clip_global_norm, shape->l2, shape->average_decay, shape->weighted);
    for (uint32_t i = 0; i < shape->variables; i++) {
        const struct shape_variable *v = &shape->variable[i];
        fprintf(
            out,
            "variable %u: kind %d, dtype %d, gradient %d, %llu x %llu, at most %llu rows%s%s%s%s, scale %g\n",
            i, v->kind, v->dtype, v->gradient_dtype, (unsigned long long)v->rows,
            (unsigned long long)v->width, (unsigned long long)v->rows_max, v->frozen ? ", frozen" : "",
            v->decays ? ", decays" : "", v->rank0 ? ", of rank 0" : "", v->by_replicas ? ", by replicas" : "",
            (double)v->rate_scale);
    }
    fprintf(out, "fault: %s, worker %u, ps %u, at %llu, %s\n", faults[play->fault], play->fault_worker,
            play->fault_ps, (unsigned long long)play->fault_at, play->fault_done ? "done" : "not done");
    for (uint32_t w = 0; w < shape->workers; w++) {
        const struct trainee *t = &play->worker[w].trainee;
        fprintf(out, "worker %u: state %d, step %llu, %zu contributions, leaves after %llu, error %d %s\n", w,
                t->state, (unsigned long long)t->step, t->log->count, (unsigned long long)t->quits,
                t->error.code, t->error.text);
        for (size_t i = 0; i < t->log->count; i++) {
            const struct contribution *c = t->log->list[i];
            fprintf(out, "  contribution %zu: step %llu, weight %g%s, told %d of %llu, then step %llu\n", i,
                    (unsigned long long)c->step, c->weight, c->taken ? ", taken" : "", c->answer.verdict,
                    (unsigned long long)c->answer.verdict_step, (unsigned long long)c->answer.step);
        }
    }
}

/* play_set_up -- everything there is before anybody moves. */
static int play_set_up(struct play *play)
{
    int status = reference_start(&play->reference, &play->shape, play->logs);

    if (status == 0)
        referee_start(&play->referee, &play->shape, &play->reference);
    for (uint32_t s = 0; status == 0 && s < play->shards; s++) {
        snprintf(play->addresses[s], PLAY_ADDRESS_BYTES, "ps%u:%u", s, 7000 + s);
        status = play_make_ps(play, s);
    }
    for (uint32_t w = 0; status == 0 && w < play->shape.workers; w++)
        status = play_make_worker(play, w);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        play_wrong(play, "the job could not be set up: %d %s", status, error.text);
    }
    return status;
}

/* play_tear_down -- everything goes, and nothing of the transport is left. */
static void play_tear_down(struct play *play)
{
    play_clear(play);
    if (play->world != NULL && world_objects(play->world) != 0)
        play_wrong(play, "%u objects of the transport were left behind", world_objects(play->world));
    world_delete(&play->world);
    reference_clear(&play->reference);
    for (uint32_t w = 0; w < play->shape.workers; w++)
        contribution_clear(&play->logs[w], play->shape.variables);
    free(play->accumulates);
}

/* play_seed -- see play.h. */
int play_seed(uint64_t seed, const struct play_options *how, struct play_counts *counts, uint64_t *hash,
              char *why, size_t size)
{
    struct play *play = calloc(1, sizeof(*play));
    struct world_options options;
    int status;

    snprintf(why, size, "no memory");
    if (play == NULL)
        return -1;
    play->counts = counts;
    random_seed(&play->random, seed);
    play_draw(play, how);
    world_options_default(&options, random_next(&play->random));
    options.mapped = random_chance(&play->random, 400);
    options.trace = how->trace != NULL ? play_trace : NULL;
    options.trace_context = how->trace;
    counts->mapped += options.mapped;
    observe_start(play);
    if (world_new(&options, &play->world) == 0 && play_set_up(play) == 0) {
        play_run(play);
        if (play->wrong[0] == 0)
            play_judge(play);
        play_count(play);
        if (how->trace != NULL)
            play_describe(play, how->trace);
        *hash = world_trace_hash(play->world);
        play_add_world(counts, play->world);
    } else {
        play_wrong(play, "no memory for a world");
    }
    play_tear_down(play);
    observe_end();
    snprintf(why, size, "%s", play->wrong);
    status = play->wrong[0] != 0 ? -1 : 0;
    free(play);
    return status;
}
