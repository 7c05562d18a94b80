/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/play.h"

#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "ps/shard/shard.h"
#include "tests/simulation/reference.h"
#include "tests/simulation/trainee.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/session/inside.h"

#define PLAY_SHARDS_MAX 3
#define PLAY_LANES_MAX 3
#define PLAY_ADDRESS_BYTES 32
#define PLAY_LIVENESS_MS 1000
#define PLAY_JOIN_MS 4000
#define PLAY_LIMIT_NS (UINT64_C(30000) * CLOCK_MS) /* no wait outlives this much virtual time */
#define PLAY_ROUNDS 2000000

enum play_fault {
    PLAY_NOTHING,
    PLAY_KILL_WORKER,
    PLAY_KILL_PS,
    PLAY_FREEZE_WORKER,
    PLAY_FREEZE_SHORT,
    PLAY_PARTITION,
    PLAY_DISCONNECT
};

struct play_ps {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[PLAY_LANES_MAX];
    struct lane *lanes[PLAY_LANES_MAX];
    struct mailbox mailbox;
    struct shard *shard;
    int status; /* once it is over */
    bool over;
    struct message last_commit;
};

struct play_worker {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct trainee trainee;
};

struct play {
    uint64_t seed;
    struct random_source random;
    struct world *world;
    struct reference reference;
    uint32_t shards, lanes, workers;
    uint64_t group_bytes, cut_bytes;
    struct proof_secret secret;
    struct play_ps ps[PLAY_SHARDS_MAX];
    char addresses[PLAY_SHARDS_MAX][PLAY_ADDRESS_BYTES];
    struct play_worker worker[REFERENCE_WORKERS_MAX];
    int fault;
    uint64_t fault_at, thaw_at;
    uint32_t fault_worker, fault_ps;
    bool fault_done, broken; /* broken: the job may fail */
    struct play_counts *counts;
    FILE *trace;
};

/* play_trace -- a line of the world's. */
static void play_trace(void *context, const char *line)
{
    fprintf(context, "%s\n", line);
}

/* play_shape -- how large the job is and what it computes. */
static void play_shape(struct play *play)
{
    static const uint64_t sizes[] = {1, 7, 64, 1000, 4096, 9000, 20000};
    struct random_source *random = &play->random;
    struct reference *r = &play->reference;

    play->workers = 1 + (uint32_t)random_below(random, 4);
    play->shards = 1 + (uint32_t)random_below(random, PLAY_SHARDS_MAX);
    play->lanes = 1 + (uint32_t)random_below(random, PLAY_LANES_MAX);
    play->group_bytes =
        random_chance(random, 600) ? UINT64_C(4096) << random_below(random, 3) : UINT64_C(1) << 20;
    play->cut_bytes = random_chance(random, 500) ? 20000 : UINT64_C(1) << 28;
    r->seed = random_next(random);
    r->workers = play->workers;
    r->variables = 1 + (uint32_t)random_below(random, 5);
    r->steps = 3 + (uint32_t)random_below(random, 7);
    for (uint32_t v = 0; v < r->variables; v++)
        r->elements[v] = sizes[random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
    r->momentum = random_chance(random, 600);
    r->weighted = random_chance(random, 300);
    r->absences = random_chance(random, 300);
    r->rate = 0.25f;
    r->factor = 0.5f;
    play->secret.bytes = 32;
    for (size_t i = 0; i < play->secret.bytes; i++)
        play->secret.data[i] = (uint8_t)random_next(random);
    play->fault = random_chance(random, 450) ? PLAY_NOTHING : 1 + (int)random_below(random, PLAY_DISCONNECT);
    play->fault_at =
        random_below(random, 5) == 0 ? random_below(random, 20 * CLOCK_MS) : random_below(random, CLOCK_MS);
    play->fault_worker = (uint32_t)random_below(random, play->workers);
    play->fault_ps = (uint32_t)random_below(random, play->shards);
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
                                   .workers = play->workers,
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
    struct shard_config config = {.number = s,
                                  .shards = play->shards,
                                  .workers = play->workers,
                                  .lanes = play->lanes,
                                  .listen = play->addresses[s],
                                  .leader = play->addresses[0],
                                  .lane_list = ps->lanes,
                                  .mailbox = &ps->mailbox,
                                  .job = "play",
                                  .secret = &play->secret,
                                  .incarnation = 100 + s,
                                  .group_bytes = play->group_bytes,
                                  .cut_bytes = play->cut_bytes,
                                  .join_timeout_ms = PLAY_JOIN_MS,
                                  .liveness_ms = PLAY_LIVENESS_MS,
                                  .close_timeout_ms = 500};
    config.fabrics[0] = (struct shard_fabric){ps->fabric, ps->queue};
    return status != 0 ? status : shard_new(&config, world_now_ns(play->world), &ps->shard);
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
                                    .workers = play->workers,
                                    .shards = play->shards,
                                    .addresses = addresses,
                                    .routes = {{worker->queue, worker->domain}},
                                    .job = "play",
                                    .secret = play->secret,
                                    .incarnation = 1000 + w,
                                    .join_timeout_ms = PLAY_JOIN_MS,
                                    .liveness_ms = PLAY_LIVENESS_MS};
    struct trainee *trainee = &worker->trainee;
    trainee->reference = &play->reference;
    trainee->rank = w;
    random_seed(&trainee->random, random_next(&play->random));
    trainee->callers = random_chance(&play->random, 250);
    play->counts->callers += trainee->callers;
    return status != 0 ? status : session_new(&config, world_now_ns(play->world), &trainee->session);
}

/* play_alive -- does an actor of this node run? */
static bool play_alive(const struct world_node *node)
{
    return !world_node_killed(node) && !world_node_frozen(node);
}

/* play_break -- the planned fault. */
static void play_break(struct play *play, uint64_t now)
{
    struct play_worker *worker = &play->worker[play->fault_worker];
    struct play_ps *ps = &play->ps[play->fault_ps];

    play->fault_done = true;
    play->broken = play->fault != PLAY_FREEZE_SHORT;
    switch (play->fault) {
    case PLAY_KILL_WORKER:
        world_kill(worker->node);
        play->counts->killed_workers++;
        break;
    case PLAY_KILL_PS:
        world_kill(ps->node);
        play->counts->killed_ps++;
        break;
    case PLAY_FREEZE_WORKER:
        world_freeze(worker->node);
        play->counts->frozen++;
        break;
    case PLAY_FREEZE_SHORT:
        world_freeze(worker->node);
        play->thaw_at = now + (1 + random_below(&play->random, 300)) * CLOCK_MS;
        play->counts->frozen++;
        break;
    case PLAY_PARTITION:
        world_partition(worker->node, ps->node);
        play->counts->partitions++;
        break;
    case PLAY_DISCONNECT: {
        struct session_shard *shard = &worker->trainee.session->shards[play->fault_ps];
        struct link *link = &shard->control.link;
        if (shard->welcome && random_chance(&play->random, 600))
            link = random_chance(&play->random, 500) ? &shard->push[0].link : &shard->pull[0].link;
        if (link->endpoint != NULL) {
            world_disconnect(link->endpoint);
            play->counts->disconnects++;
        }
        break;
    }
    default: break;
    }
}

/* play_repeat -- late and repeated events that must change nothing: an old notify, an old commit, an old token. */
static void play_repeat(struct play *play, uint64_t now)
{
    uint32_t w = (uint32_t)random_below(&play->random, play->workers),
             s = (uint32_t)random_below(&play->random, play->shards);
    struct trainee *trainee = &play->worker[w].trainee;

    if (!play_alive(play->worker[w].node) || trainee_over(trainee) || trainee->model == NULL ||
        trainee->step == 0)
        return;
    struct session_model *model = trainee->model;
    uint32_t lane = (uint32_t)random_below(&play->random, play->lanes);
    struct link *push = &trainee->session->shards[s].push[lane].link;
    if (random_chance(&play->random, 500) && push->state == LINK_UP) {
        uint32_t group = (uint32_t)random_below(&play->random, model->plan->shard[s].groups);
        uint64_t old = model->step > 0 ? model->step - 1 : 0;
        /* only what was really sent before is repeated: the step before the open one */
        if (model->plan->shard[s].spans[group][lane].fragments > 0 && model->step > 0 &&
            reference_weight(&play->reference, w, (uint32_t)old) > 0 &&
            push->endpoint->transport->endpoint_notify(push->endpoint,
                                                       slot_notify(model->number, 0, group, old)) == 0)
            play->counts->late_notifies++;
        return;
    }
    struct shard *leader = play->ps[0].shard;
    if (!play_alive(play->ps[0].node) || leader->models[0] == NULL ||
        leader->models[0]->phase != PHASE_RUNNING || leader->models[0]->step == 0 || leader->ending)
        return;
    uint64_t step = leader->models[0]->step - 1;
    if (s != 0 && random_chance(&play->random, 500)) {
        const struct optimizer_hyper hyper = {
            .rate = play->reference.rate, .momentum = play->reference.factor, .scale = 1};
        struct message commit = {
            .kind = MESSAGE_COMMIT, .step = step, .slot_kind = SLOT_GRADIENT, .set_kind = MESSAGE_SET_ALL};
        memcpy(commit.hyper, &hyper, sizeof(hyper));
        if (link_send(&leader->peers[s].link, &commit, now) == 0)
            play->counts->repeated_commits++;
    } else {
        const struct message token = {
            .kind = MESSAGE_TOKEN, .step = step, .sequence = step > 0 ? step - 1 : UINT64_MAX};
        shard_send(leader, w, &token, now);
        play->counts->repeated_tokens++;
    }
}

/* play_round -- every actor once, in a random order, some left out. Returns 1 if any did something. */
static int play_round(struct play *play, bool all)
{
    uint32_t actors = play->shards * (1 + play->lanes) + play->workers;
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
            continue;
        }
        struct play_ps *ps = &play->ps[a / (1 + play->lanes)];
        uint32_t part = a % (1 + play->lanes);
        if (!play_alive(ps->node) || ps->over)
            continue;
        if (part > 0) {
            busy |= lane_progress(ps->lanes[part - 1], now);
        } else {
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
    uint64_t earliest = play->fault != PLAY_NOTHING && !play->fault_done ? play->fault_at : CLOCK_NEVER;

    if (play->thaw_at != 0 && play->thaw_at < earliest)
        earliest = play->thaw_at;
    for (uint32_t s = 0; s < play->shards; s++) {
        const struct play_ps *ps = &play->ps[s];
        if (!play_alive(ps->node) || ps->over)
            continue;
        uint64_t one = shard_deadline(ps->shard);
        earliest = one < earliest ? one : earliest;
        for (uint32_t l = 0; l < play->lanes; l++) {
            one = lane_deadline(ps->lanes[l]);
            earliest = one < earliest ? one : earliest;
        }
    }
    for (uint32_t w = 0; w < play->workers; w++)
        if (play_alive(play->worker[w].node) && !trainee_over(&play->worker[w].trainee)) {
            uint64_t one = session_deadline(play->worker[w].trainee.session);
            earliest = one < earliest ? one : earliest;
        }
    return earliest;
}

/* play_is_over -- everybody that can still act has ended. */
static bool play_is_over(const struct play *play)
{
    for (uint32_t s = 0; s < play->shards; s++)
        if (play_alive(play->ps[s].node) && !play->ps[s].over)
            return false;
    for (uint32_t w = 0; w < play->workers; w++)
        if (play_alive(play->worker[w].node) && !trainee_over(&play->worker[w].trainee))
            return false;
    return true;
}

/* play_stuck -- words who still waits. */
static void play_stuck(const struct play *play, char *why, size_t size)
{
    size_t used = (size_t)snprintf(why, size, "a wait did not end within %llu ms of virtual time:",
                                   (unsigned long long)(PLAY_LIMIT_NS / CLOCK_MS));

    for (uint32_t s = 0; s < play->shards && used < size; s++)
        if (!play->ps[s].over)
            used += (size_t)snprintf(why + used, size - used, " ps%u(step %llu)", s,
                                     play->ps[s].shard->models[0] != NULL
                                         ? (unsigned long long)play->ps[s].shard->models[0]->step
                                         : 0ull);
    for (uint32_t w = 0; w < play->workers && used < size; w++)
        if (!trainee_over(&play->worker[w].trainee))
            used += (size_t)snprintf(why + used, size - used, " worker%u(state %d, step %u)", w,
                                     play->worker[w].trainee.state, play->worker[w].trainee.step);
}

/* play_run -- until everybody has ended. */
static int play_run(struct play *play, char *why, size_t size)
{
    for (uint64_t round = 0;; round++) {
        uint64_t now = world_now_ns(play->world);
        if (play->fault != PLAY_NOTHING && !play->fault_done && now >= play->fault_at)
            play_break(play, now);
        if (play->thaw_at != 0 && now >= play->thaw_at) {
            world_thaw(play->worker[play->fault_worker].node);
            play->thaw_at = 0;
            play->counts->thawed++;
        }
        if (random_chance(&play->random, 20))
            play_repeat(play, now);
        int busy = play_round(play, false);
        if (!busy)
            busy = play_round(play, true);
        if (play_is_over(play))
            return 0;
        if (now > PLAY_LIMIT_NS || round > PLAY_ROUNDS) {
            play_stuck(play, why, size);
            return -1;
        }
        uint64_t due = world_next_time(play->world), timer = play_earliest(play);
        now = world_now_ns(play->world);
        if (busy && (random_chance(&play->random, 300) || due > now + CLOCK_MS / 10))
            continue; /* processors are fast: nobody sleeps through a time-out with work before him */
        if (due <= timer || busy) {
            if (world_step(play->world) == 0 && !busy)
                world_advance(play->world, CLOCK_MS);
        } else if (timer == CLOCK_NEVER) {
            play_stuck(play, why, size);
            return -1;
        } else {
            world_advance(play->world, timer > now ? timer - now : 1000);
        }
    }
}

/* play_shard_bits -- a shard's parameters are exactly those of its step, and the leader has committed that far. */
static int play_shard_bits(const struct play *play, uint32_t s, char *why, size_t size)
{
    const struct shard *shard = play->ps[s].shard;
    const struct shard_model *model = shard->models[0];
    uint64_t bytes, step;
    const uint8_t *arena = shard_parameters(shard, 0, &bytes, &step);

    if (arena == NULL || (model->ordered && world_node_killed(play->ps[s].node)))
        return 0;
    const struct leader_model *lead = play->ps[0].shard->leads[0];
    uint64_t committed = lead != NULL ? atomic_load(&lead->step) : 0;
    if (step > committed) {
        snprintf(why, size, "ps %u is at step %llu, the leader has committed %llu", s,
                 (unsigned long long)step, (unsigned long long)committed);
        return -1;
    }
    const struct plan_shard *planned = &model->plan->shard[s];
    for (size_t p = 0; p < planned->pieces; p++) {
        const struct plan_piece *piece = &model->plan->by_shard[planned->first_piece + p];
        const uint8_t *expected =
            (const uint8_t *)play->reference.values[step][piece->variable] + piece->first;
        if (memcmp(arena + piece->offset, expected, piece->bytes) != 0) {
            snprintf(why, size, "ps %u holds other bits of variable %u at step %llu", s, piece->variable,
                     (unsigned long long)step);
            return -1;
        }
    }
    return 0;
}

/* play_judge -- what must hold at the end. */
static int play_judge(struct play *play, char *why, size_t size)
{
    bool complete = true;

    for (uint32_t w = 0; w < play->workers; w++) {
        const struct trainee *trainee = &play->worker[w].trainee;
        play->counts->steps += trainee->steps_done;
        if (trainee->wrong[0] != 0) {
            snprintf(why, size, "%s", trainee->wrong);
            return -1;
        }
        complete = complete && trainee->state == TRAINEE_DONE;
        if (trainee->state == TRAINEE_FAILED && !play->broken) {
            const struct stepgate_error *error = session_failure(trainee->session);
            snprintf(why, size, "worker %u failed without a fault: %d %s", w, trainee->error,
                     error != NULL ? error->text : "");
            return -1;
        }
    }
    for (uint32_t s = 0; s < play->shards; s++) {
        if (play_shard_bits(play, s, why, size) != 0)
            return -1;
        if (!play->broken && play->ps[s].status != 0) {
            snprintf(why, size, "ps %u ended with %d without a fault", s, play->ps[s].status);
            return -1;
        }
        for (uint32_t l = 0; l < play->lanes; l++) {
            struct lane_stats stats;
            lane_stats(play->ps[s].lanes[l], &stats);
            play->counts->stale += stats.stale;
            play->counts->duplicates += stats.duplicates;
        }
    }
    play->counts->finished += complete;
    play->counts->failed_jobs += !complete;
    return 0;
}

/* play_clear -- everything is deleted, in the order in which programs do it. */
static void play_clear(struct play *play)
{
    for (uint32_t w = 0; w < play->workers; w++) {
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

/* play_seed -- see play.h. */
int play_seed(uint64_t seed, FILE *trace, struct play_counts *counts, uint64_t *hash, char *why, size_t size)
{
    struct play *play = calloc(1, sizeof(*play));
    struct world_options options;
    int status = -1;

    snprintf(why, size, "no memory");
    if (play == NULL)
        return -1;
    play->seed = seed;
    play->counts = counts;
    play->trace = trace;
    random_seed(&play->random, seed);
    play_shape(play);
    world_options_default(&options, random_next(&play->random));
    options.mapped = random_chance(&play->random, 400);
    options.trace = trace != NULL ? play_trace : NULL;
    options.trace_context = trace;
    if (world_new(&options, &play->world) != 0)
        goto free_play;
    for (uint32_t s = 0; s < play->shards; s++)
        snprintf(play->addresses[s], PLAY_ADDRESS_BYTES, "ps%u:%u", s, 7000 + s);
    status = reference_run(&play->reference);
    for (uint32_t s = 0; status == 0 && s < play->shards; s++)
        status = play_make_ps(play, s);
    for (uint32_t w = 0; status == 0 && w < play->workers; w++)
        status = play_make_worker(play, w);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        snprintf(why, size, "the job could not be set up: %d %s", status, error.text);
        status = -1;
    }
    if (status == 0)
        status = play_run(play, why, size);
    counts->jobs++;
    counts->several_shards += play->shards > 1;
    counts->several_lanes += play->lanes > 1;
    counts->mapped += options.mapped;
    if (status == 0)
        status = play_judge(play, why, size);
    for (uint32_t s = 0; s < play->shards && play->ps[s].shard != NULL; s++)
        if (play->ps[s].shard->models[0] != NULL && play->ps[s].shard->models[0]->plan != NULL) {
            counts->cut_variables += play->ps[s].shard->models[0]->plan->pieces - play->reference.variables;
            break;
        }
    *hash = world_trace_hash(play->world);
    play_add_world(counts, play->world);
    play_clear(play);
    if (status == 0 && world_objects(play->world) != 0) {
        snprintf(why, size, "%u objects of the transport were left behind", world_objects(play->world));
        status = -1;
    }
    world_delete(&play->world);
    reference_clear(&play->reference);
free_play:
    free(play);
    return status;
}
