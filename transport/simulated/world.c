/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/simulated/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/simulated/state.h"

/* world_options_default -- a lively world. */
void world_options_default(struct world_options *options, uint64_t seed)
{
    *options = (struct world_options){
        .seed = seed,
        .depth = 16,
        .inline_bytes = 64,
        .message_bytes = 4096,
        .piece_bytes = 1 << 20,
        .latency_min_ns = 500,
        .latency_max_ns = 5000,
        .delay_max_ns = 2000000,
        .delay_per_mille = 30,
        .reorder_per_mille = 250,
        .split_per_mille = 500,
        .tear_per_mille = 500,
        .early_per_mille = 200,
        .eagain_per_mille = 30,
    };
}

/* world_new -- an empty world. */
int world_new(const struct world_options *options, struct world **out)
{
    if (options == NULL || out == NULL || options->depth == 0 || options->inline_bytes < 64 ||
        options->message_bytes < 1024 || options->latency_max_ns < options->latency_min_ns)
        return error_set(STEPGATE_EINVAL, 0, "start from world_options_default()",
                         "options of a simulated world are out of range");
    struct world *world = calloc(1, sizeof(*world));
    if (world == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a simulated world");
    world->options = *options;
    world->hash = UINT64_C(0xcbf29ce484222325);
    world->last_from = SIM_NONE;
    random_seed(&world->random, options->seed);
    *out = world;
    return 0;
}

/* world_free_objects -- frees what the users of the world left in it. */
static void world_free_objects(struct world *world)
{
    for (int kind = 0; kind < SIM_KINDS; kind++) {
        struct sim_table *table = &world->tables[kind];
        for (uint32_t i = 0; i < table->count; i++) {
            void *object = table->slots[i];
            if (object == NULL)
                continue;
            switch (kind) {
            case SIM_ENDPOINT: sim_endpoint_free(object); break;
            case SIM_QUEUE: sim_queue_free(object); break;
            case SIM_REGION: sim_region_free(object); break;
            case SIM_REMOTE: {
                struct stepgate_remote *remote = object;
                sim_remote_delete(&remote);
                break;
            }
            default: free(object); break;
            }
        }
        free(table->slots);
        table->slots = NULL;
        table->count = 0;
    }
}

/* world_delete -- frees the world with all that is in it. */
void world_delete(struct world **pointer)
{
    struct world *world = pointer != NULL ? *pointer : NULL;

    if (world == NULL)
        return;
    sim_agenda_clear(world);
    world_free_objects(world);
    for (uint32_t i = 0; i < world->node_count; i++) {
        sim_link_free(&world->nodes[i]->port);
        free(world->nodes[i]);
    }
    free(world->nodes);
    free(world->partitions);
    free(world);
    *pointer = NULL;
}

/* world_node_new -- a process on the host `name`. */
int world_node_new(struct world *world, const char *name, struct world_node **out)
{
    if (name == NULL || name[0] == 0 || strlen(name) >= SIM_NAME_BYTES || strchr(name, ':') != NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL,
                         "a simulated node needs a name of 1 to %d characters without colon",
                         SIM_NAME_BYTES - 1);
    struct sim_node *node = calloc(1, sizeof(*node));
    if (node == NULL ||
        sim_grow(&world->nodes, &world->node_room, world->node_count + 1, sizeof(*world->nodes)) < 0) {
        free(node);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a simulated node");
    }
    node->base.world = world;
    node->base.index = world->node_count;
    node->next_port = 40000;
    snprintf(node->name, sizeof(node->name), "%s", name);
    world->nodes[world->node_count++] = node;
    *out = &node->base;
    return 0;
}

/* world_now_ns -- virtual time. */
uint64_t world_now_ns(const struct world *world)
{
    return world->now;
}

/* sim_node -- a node by its number. */
struct sim_node *sim_node(const struct world *world, uint32_t index)
{
    return world->nodes[index];
}

/* sim_blocked -- does a fault hold back what goes from one node to the other? */
bool sim_blocked(const struct world *world, uint32_t from, uint32_t to)
{
    if (world->nodes[from]->host_frozen || world->nodes[to]->host_frozen)
        return true;
    for (uint32_t i = 0; i < world->partition_count; i++) {
        const struct sim_pair *pair = &world->partitions[i];
        if ((pair->a == from && pair->b == to) || (pair->a == to && pair->b == from))
            return true;
    }
    return false;
}

/* sim_latency -- how long a delivery takes. */
uint64_t sim_latency(struct world *world)
{
    const struct world_options *options = &world->options;
    uint64_t latency = options->latency_min_ns +
                       random_below(&world->random, options->latency_max_ns - options->latency_min_ns + 1);

    if (random_chance(&world->random, options->reorder_per_mille))
        latency = random_below(&world->random, 4 * options->latency_max_ns + 1);
    if (options->delay_max_ns > 0 && random_chance(&world->random, options->delay_per_mille)) {
        world->counts.delays++;
        latency += 1 + random_below(&world->random, options->delay_max_ns);
    }
    return latency;
}

/* sim_trace -- adds an event to the hash and tells it to the trace function. */
void sim_trace(struct world *world, const char *what, uint32_t from, uint32_t to, uint64_t a, uint64_t b)
{
    const uint64_t words[] = {world->now, ((uint64_t)from << 32) | to, a, b};
    uint64_t hash = world->hash;

    for (const char *c = what; *c != 0; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (int shift = 0; shift < 64; shift += 8)
            hash = (hash ^ ((words[i] >> shift) & 0xff)) * UINT64_C(0x100000001b3);
    world->hash = hash;
    if (world->options.trace != NULL) {
        char line[160];
        char sender[16] = "-", target[16] = "-";
        if (from != SIM_NONE)
            snprintf(sender, sizeof(sender), "%" PRIu32, from);
        if (to != SIM_NONE)
            snprintf(target, sizeof(target), "%" PRIu32, to);
        snprintf(line, sizeof(line), "%" PRIu64 " ns: %s %s -> %s (%" PRIu64 ", %" PRIu64 ")", world->now,
                 what, sender, target, a, b);
        world->options.trace(world->options.trace_context, line);
    }
}

/* world_peer_timer -- work of a connected endpoint is held back: its device gives up after the peer timeout. */
static void world_peer_timer(struct world *world, uint32_t from, uint64_t since)
{
    struct sim_endpoint *endpoint = sim_endpoint_live(world, from);

    if (endpoint == NULL || endpoint->state != SIM_CONNECTED || endpoint->timer)
        return;
    struct sim_item *timer = sim_item_new(world, SIM_PEER_TIMEOUT, endpoint);
    if (timer == NULL)
        return;
    timer->to = endpoint->id;
    timer->to_node = endpoint->node;
    timer->due = (since > world->now ? since : world->now) + endpoint->queue->fabric->peer_timeout_ns;
    endpoint->timer = true;
    sim_agenda_put(world, timer);
}

/* world_ripe -- the next delivery that is neither moot nor held back; NULL when there is none. */
static struct sim_item *world_ripe(struct world *world)
{
    for (;;) {
        struct sim_item *top = sim_agenda_top(world);
        if (top == NULL)
            return NULL;
        if (sim_moot(world, top)) {
            sim_item_delete(sim_agenda_pop(world));
            continue;
        }
        if (!sim_blocked(world, top->from_node, top->to_node))
            return top;
        sim_agenda_park(world, sim_agenda_pop(world));
        world_peer_timer(world, top->from, top->due);
    }
}

/* world_step -- performs the next delivery. */
int world_step(struct world *world)
{
    if (world_ripe(world) == NULL)
        return 0;
    struct sim_item *item = sim_agenda_pop(world);
    if (item->due > world->now)
        world->now = item->due;
    world->counts.steps += item->kind != SIM_DEPART;
    if (item->seq > world->last_seq) {
        world->last_seq = item->seq;
        world->last_from = item->from;
    } else if (item->from != world->last_from) {
        world->counts.reorders++;
    }
    sim_deliver(world, item);
    sim_item_delete(item);
    return 1;
}

/* world_next_time -- when the next delivery is due. */
uint64_t world_next_time(struct world *world)
{
    const struct sim_item *next = world_ripe(world);

    if (next == NULL)
        return CLOCK_NEVER;
    return next->due > world->now ? next->due : world->now;
}

/* world_advance -- lets time pass. */
void world_advance(struct world *world, uint64_t ns)
{
    uint64_t until = world->now + ns;

    while (world_next_time(world) <= until && world_step(world) > 0)
        continue;
    if (until > world->now)
        world->now = until;
}

/* world_counters -- what happened so far. */
void world_counters(const struct world *world, struct world_counts *out)
{
    *out = world->counts;
}

/* world_trace_hash -- the hash of all events. */
uint64_t world_trace_hash(const struct world *world)
{
    return world->hash;
}
