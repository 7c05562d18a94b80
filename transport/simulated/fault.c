/* SPDX-License-Identifier: BSD-3-Clause */
/* fault -- what can happen to nodes and connections. */
#include "transport/simulated/state.h"

#define FAULT_NOTICE_NS                                                                                      \
    UINT64_C(2000000) /* a killed process or a broken connection is noticed within this time */

/* fault_node -- the inside of a node. */
static struct sim_node *fault_node(const struct world_node *node)
{
    return sim_node(node->world, node->index);
}

/* fault_close -- tells an endpoint, in a while, that its connection is gone. */
static void fault_close(struct world *world, struct sim_endpoint *endpoint, const struct sim_endpoint *teller)
{
    struct sim_item *item = sim_item_new(world, SIM_CLOSE, teller);

    if (item == NULL)
        return;
    item->to = endpoint->id;
    item->to_node = endpoint->node;
    item->status = -STEPGATE_EPEER;
    item->due = world->now + random_below(&world->random, FAULT_NOTICE_NS);
    sim_agenda_put(world, item);
}

/* world_kill -- the process dies. */
void world_kill(struct world_node *node)
{
    struct world *world = node->world;
    struct sim_node *dying = fault_node(node);
    struct sim_table *endpoints = &world->tables[SIM_ENDPOINT];
    bool parked = dying->host_frozen;

    if (dying->killed)
        return;
    world->counts.kills++;
    sim_trace(world, "kill", SIM_NONE, SIM_NONE, node->index, 0);
    for (uint32_t i = 0; i < endpoints->count; i++) {
        struct sim_endpoint *endpoint = endpoints->slots[i];
        if (endpoint == NULL || endpoint->node != node->index)
            continue;
        sim_agenda_cut(world, endpoint);
        if (endpoint->state != SIM_DEAD)
            sim_endpoint_close_peer(endpoint);
        endpoint->state = SIM_DEAD;
    }
    for (uint32_t i = 0; i < world->tables[SIM_REQUEST].count; i++) {
        struct sim_request *request = world->tables[SIM_REQUEST].slots[i];
        struct sim_endpoint *active = request != NULL ? sim_endpoint_live(world, request->active) : NULL;
        if (request != NULL && request->node == node->index && active != NULL)
            fault_close(world, active, active);
    }
    dying->killed = true;
    dying->frozen = dying->host_frozen = false;
    if (parked)
        sim_agenda_unpark(world);
}

/* world_freeze -- the process, or its host, stops. */
void world_freeze(struct world_node *node)
{
    struct sim_node *frozen = fault_node(node);

    if (frozen->killed || frozen->frozen)
        return;
    node->world->counts.freezes++;
    frozen->frozen = true;
    frozen->host_frozen = random_chance(&node->world->random, 500);
    sim_trace(node->world, "freeze", SIM_NONE, SIM_NONE, node->index, frozen->host_frozen);
}

/* world_thaw -- it goes on. */
void world_thaw(struct world_node *node)
{
    struct sim_node *frozen = fault_node(node);

    if (!frozen->frozen)
        return;
    sim_trace(node->world, "thaw", SIM_NONE, SIM_NONE, node->index, 0);
    frozen->frozen = frozen->host_frozen = false;
    sim_agenda_unpark(node->world);
}

/* world_partition -- cuts the wire between two nodes. */
void world_partition(struct world_node *a, struct world_node *b)
{
    struct world *world = a->world;

    for (uint32_t i = 0; i < world->partition_count; i++)
        if ((world->partitions[i].a == a->index && world->partitions[i].b == b->index) ||
            (world->partitions[i].a == b->index && world->partitions[i].b == a->index))
            return;
    if (sim_grow(&world->partitions, &world->partition_room, world->partition_count + 1,
                 sizeof(*world->partitions)) < 0)
        return;
    world->counts.partitions++;
    sim_trace(world, "partition", SIM_NONE, SIM_NONE, a->index, b->index);
    world->partitions[world->partition_count++] = (struct sim_pair){a->index, b->index};
}

/* world_heal -- mends it. */
void world_heal(struct world_node *a, struct world_node *b)
{
    struct world *world = a->world;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < world->partition_count; i++) {
        struct sim_pair pair = world->partitions[i];
        if ((pair.a == a->index && pair.b == b->index) || (pair.a == b->index && pair.b == a->index))
            continue;
        world->partitions[kept++] = pair;
    }
    if (kept == world->partition_count)
        return;
    world->partition_count = kept;
    sim_trace(world, "heal", SIM_NONE, SIM_NONE, a->index, b->index);
    sim_agenda_unpark(world);
}

/* world_disconnect -- breaks one connection. */
void world_disconnect(struct stepgate_endpoint *pointer)
{
    struct sim_endpoint *endpoint = (struct sim_endpoint *)pointer;
    struct world *world = endpoint->world;
    struct sim_endpoint *peer =
        endpoint->state == SIM_CONNECTED ? sim_endpoint_live(world, endpoint->peer) : NULL;

    if (endpoint->state == SIM_DEAD)
        return;
    world->counts.disconnects++;
    sim_trace(world, "disconnect", endpoint->id, endpoint->peer, 0, 0);
    /* Each side hears of it from itself, so that a partition does not keep the news back. */
    fault_close(world, endpoint, endpoint);
    if (peer != NULL)
        fault_close(world, peer, peer);
}

/* world_node_killed -- is it dead? */
bool world_node_killed(const struct world_node *node)
{
    return fault_node(node)->killed;
}

/* world_node_frozen -- does it stand still? */
bool world_node_frozen(const struct world_node *node)
{
    return fault_node(node)->frozen;
}

/* world_objects -- what live nodes have not deleted. */
uint32_t world_objects(const struct world *world)
{
    uint32_t objects = 0;

    for (int kind = 0; kind < SIM_KINDS; kind++) {
        for (uint32_t i = 0; i < world->tables[kind].count; i++) {
            const void *object = world->tables[kind].slots[i];
            uint32_t node = SIM_NONE;
            if (object == NULL)
                continue;
            switch (kind) {
            case SIM_FABRIC: node = ((const struct sim_fabric *)object)->node; break;
            case SIM_DOMAIN: node = ((const struct sim_domain *)object)->fabric->node; break;
            case SIM_REGION: node = ((const struct sim_region *)object)->node; break;
            case SIM_QUEUE: node = ((const struct sim_queue *)object)->fabric->node; break;
            case SIM_LISTENER: node = ((const struct sim_listener *)object)->node; break;
            case SIM_REQUEST: node = ((const struct sim_request *)object)->node; break;
            case SIM_ENDPOINT: node = ((const struct sim_endpoint *)object)->node; break;
            default: node = ((const struct sim_remote *)object)->node; break;
            }
            objects += !sim_node(world, node)->killed;
        }
    }
    return objects;
}
