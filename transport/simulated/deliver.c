/* SPDX-License-Identifier: BSD-3-Clause */
/* deliver -- what happens when a delivery is due. */
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/simulated/state.h"

/* deliver_operation -- the operation that a delivery belongs to, if it is still in flight. */
static struct sim_operation *deliver_operation(struct sim_endpoint *endpoint, const struct sim_item *item)
{
    if (endpoint == NULL || item->operation == SIM_NONE || endpoint->state == SIM_DEAD)
        return NULL;
    struct sim_operation *operation = &endpoint->operations[item->operation];
    return operation->used && operation->generation == item->generation ? operation : NULL;
}

/* deliver_done -- the acknowledgement of a write sets out for its sender. */
static void deliver_done(struct world *world, struct sim_endpoint *sender, const struct sim_item *item)
{
    struct sim_item *done = sim_item_new(world, SIM_DONE, sender);

    if (done == NULL)
        return;
    done->to = sender->id;
    done->to_node = sender->node;
    done->from_node = item->to_node; /* the acknowledgement comes from there */
    done->operation = item->operation;
    done->generation = item->generation;
    done->due = world->now + sim_latency(world);
    sim_agenda_put(world, done);
}

/* deliver_refuse -- an access outside the grant: the connection breaks on both sides. */
static void deliver_refuse(struct world *world, const struct sim_item *item)
{
    struct sim_endpoint *sender = sim_endpoint_live(world, item->from);
    struct sim_endpoint *target = sim_endpoint_live(world, item->to);

    world->counts.access_refusals++;
    sim_trace(world, "refuse access", item->from, item->to, item->remote_offset, item->length);
    if (sender != NULL)
        sim_endpoint_break(sender, -STEPGATE_EACCESS, NULL, 0, false);
    if (target != NULL)
        sim_endpoint_break(target, -STEPGATE_EPEER, NULL, 0, false);
}

/* deliver_target -- the region that a piece goes to or comes from, checked as a device would. NULL: refused. */
static struct sim_region *deliver_target(struct world *world, const struct sim_endpoint *target,
                                         const struct sim_item *item, unsigned access)
{
    struct sim_region *region = sim_region_live(world, item->region);
    const struct sim_grant *grant = region != NULL ? sim_region_grant(region, item->key) : NULL;

    if (grant == NULL || region->node != target->node || region->domain != target->domain->id ||
        grant->peer_node != item->from_node || (grant->access & access) == 0 ||
        item->remote_offset > region->base.length || item->length > region->base.length - item->remote_offset)
        return NULL;
    return region;
}

/* deliver_lost -- the target's region is deleted, and a mapped world has memory there that nobody uses any more. */
static bool deliver_lost(const struct world *world, const struct sim_item *item)
{
    return world->options.mapped && item->region < world->tables[SIM_REGION].count &&
           sim_table_get(&world->tables[SIM_REGION], item->region) == NULL;
}

/* deliver_write -- a piece of a write lands. */
static void deliver_write(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *target = sim_endpoint_live(world, item->to);
    struct sim_endpoint *sender = sim_endpoint_live(world, item->from);
    struct sim_operation *operation = deliver_operation(sender, item);

    if (target == NULL) {
        world->counts.dropped++; /* the sender will hear of it: a close is under way */
        return;
    }
    if (item->length > 0 && deliver_lost(world, item)) {
        world->counts.dropped++;
    } else if (item->length > 0) {
        struct sim_region *region = deliver_target(world, target, item, STEPGATE_ACCESS_WRITE);
        const uint8_t *bytes = item->data;
        if (bytes == NULL && operation != NULL) {
            struct sim_region *local = sim_region_live(world, operation->local_region);
            bytes = local != NULL ? local->memory->bytes + operation->local_offset + item->offset : NULL;
        }
        if (region == NULL || bytes == NULL) {
            deliver_refuse(world, item);
            return;
        }
        memmove(region->memory->bytes + item->remote_offset, bytes, item->length);
    }
    sim_trace(world, "write", item->from, item->to, item->remote_offset, item->length);
    if (operation != NULL && --operation->left == 0 && !operation->done)
        deliver_done(world, sender, item);
}

/* deliver_asked -- a read's request has arrived, and its target sends the bytes. */
static void deliver_asked(struct sim_endpoint *target, const struct sim_item *item)
{
    struct sim_item *answer = malloc(sizeof(*answer));

    if (answer == NULL) {
        target->world->counts.dropped++;
        return;
    }
    *answer = *item; /* a read has no data of its own yet */
    answer->asked = true;
    sim_link_put(target, answer);
}

/* deliver_read -- a piece of a read is copied. */
static void deliver_read(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *target = sim_endpoint_live(world, item->to);
    struct sim_endpoint *reader = sim_endpoint_live(world, item->from);
    struct sim_operation *operation = deliver_operation(reader, item);

    if (target == NULL || operation == NULL) {
        world->counts.dropped++;
        return;
    }
    if (world->options.link_bytes_per_s > 0 && !item->asked) {
        deliver_asked(target, item);
        return;
    }
    if (item->length > 0) {
        struct sim_region *region = deliver_target(world, target, item, STEPGATE_ACCESS_READ);
        struct sim_region *local = sim_region_live(world, operation->local_region);
        if (region == NULL || local == NULL) {
            deliver_refuse(world, item);
            return;
        }
        memmove(local->memory->bytes + operation->local_offset + item->offset,
                region->memory->bytes + item->remote_offset, item->length);
    }
    sim_trace(world, "read", item->from, item->to, item->remote_offset, item->length);
    if (--operation->left > 0)
        return;
    operation->used = false;
    reader->in_flight--;
    if ((operation->flags & STEPGATE_POST_COMPLETE) != 0) {
        struct stepgate_event event = {
            .kind = STEPGATE_EVENT_COMPLETION, .endpoint = &reader->base, .context = operation->context};
        sim_queue_push(reader->queue, &event, NULL, SIM_NONE);
    }
}

/* deliver_signal -- a notify or message arrives. */
static void deliver_signal(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *target = sim_endpoint_live(world, item->to);

    if (target == NULL || target->state != SIM_CONNECTED) {
        world->counts.dropped++;
        return;
    }
    bool notify = item->kind == SIM_NOTIFY;
    struct stepgate_event event = {.kind = notify ? STEPGATE_EVENT_NOTIFY : STEPGATE_EVENT_MESSAGE,
                                   .endpoint = &target->base,
                                   .value = item->value,
                                   .length = item->data_bytes};
    target->heard = true;
    sim_trace(world, notify ? "notify" : "message", item->from, item->to, item->value, item->data_bytes);
    sim_queue_push(target->queue, &event, item->data, item->from);
    item->data = NULL;
}

/* deliver_grant -- what a mapped region's descriptor needs has arrived. */
static void deliver_grant(struct world *world, const struct sim_item *item)
{
    struct sim_region *region = sim_table_get(&world->tables[SIM_REGION], item->region);
    struct sim_grant *grant = region != NULL ? sim_region_grant(region, item->key) : NULL;

    if (grant != NULL && sim_endpoint_live(world, item->to) != NULL)
        grant->arrived = true;
    sim_trace(world, "grant", item->from, item->to, item->region, 0);
}

/* deliver_refusal -- tells an active side that there is no connection. */
static void deliver_refusal(struct world *world, struct sim_endpoint *active, const struct sim_item *item)
{
    struct sim_item *refused = sim_item_new(world, SIM_REFUSED, active);

    if (refused == NULL)
        return;
    refused->to = active->id;
    refused->to_node = active->node;
    refused->from_node = item->to_node;
    refused->status = -STEPGATE_EREFUSED;
    refused->due = world->now + sim_latency(world);
    sim_agenda_put(world, refused);
}

/* deliver_connect -- a connection request reaches its listener, or nobody. */
static void deliver_connect(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *active = sim_endpoint_live(world, item->from);
    struct sim_listener *listener = sim_table_get(&world->tables[SIM_LISTENER], item->to);

    if (active == NULL || active->state != SIM_CONNECTING)
        return;
    sim_trace(world, "connect", item->from, item->to, 0, 0);
    if (listener == NULL || sim_node(world, listener->node)->killed) {
        deliver_refusal(world, active, item);
        return;
    }
    struct sim_request *request = calloc(1, sizeof(*request));
    if (request == NULL || sim_table_add(&world->tables[SIM_REQUEST], request, &request->id) < 0) {
        free(request);
        deliver_refusal(world, active, item);
        return;
    }
    request->base.transport = simulated_transport();
    request->world = world;
    request->node = listener->node;
    request->listener = listener->id;
    request->active = active->id;
    request->active_node = active->node;
    request->connection = active->connection;
    struct stepgate_event event = {.kind = STEPGATE_EVENT_REQUEST,
                                   .listener = &listener->base,
                                   .request = &request->base,
                                   .length = item->data_bytes};
    sim_queue_push(listener->queue, &event, item->data, SIM_NONE);
    item->data = NULL;
}

/* deliver_accepted -- the active side learns that it is connected. */
static void deliver_accepted(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *active = sim_endpoint_live(world, item->to);
    struct sim_endpoint *passive = sim_endpoint_live(world, item->from);
    struct sim_item *ready;

    if (active == NULL || active->state != SIM_CONNECTING || passive == NULL || passive->state == SIM_DEAD ||
        (ready = sim_item_new(world, SIM_READY, active)) == NULL) {
        if (passive != NULL)
            sim_endpoint_break(passive, -STEPGATE_EPEER, NULL, 0, false);
        if (active != NULL)
            sim_endpoint_break(active, -STEPGATE_EPEER, NULL, 0, false);
        return;
    }
    active->state = SIM_CONNECTED;
    active->peer = passive->id;
    active->peer_node = passive->node;
    ready->to = passive->id;
    ready->to_node = passive->node;
    sim_signal_put(active, ready);
    sim_trace(world, "accepted", item->from, item->to, 0, 0);
    struct stepgate_event event = {
        .kind = STEPGATE_EVENT_CONNECTED, .endpoint = &active->base, .length = item->data_bytes};
    sim_queue_push(active->queue, &event, item->data, SIM_NONE);
    item->data = NULL;
}

/* deliver_ready -- the passive side learns that it is connected. */
static void deliver_ready(struct world *world, const struct sim_item *item)
{
    struct sim_endpoint *passive = sim_endpoint_live(world, item->to);

    if (passive == NULL || passive->state != SIM_ACCEPTING)
        return;
    passive->state = SIM_CONNECTED;
    sim_trace(world, "ready", item->from, item->to, 0, 0);
    struct stepgate_event event = {.kind = STEPGATE_EVENT_CONNECTED, .endpoint = &passive->base};
    sim_queue_push(passive->queue, &event, NULL, SIM_NONE);
}

/* sim_moot -- has a timer lost its meaning? It must not move time on then. */
bool sim_moot(const struct world *world, const struct sim_item *item)
{
    if (item->kind != SIM_CONNECT_TIMEOUT && item->kind != SIM_PEER_TIMEOUT)
        return false;
    struct sim_endpoint *endpoint = sim_endpoint_live(world, item->to);
    if (endpoint == NULL)
        return true;
    if (item->kind == SIM_CONNECT_TIMEOUT)
        return endpoint->state != SIM_CONNECTING && endpoint->state != SIM_ACCEPTING;
    if (endpoint->state == SIM_CONNECTED && sim_agenda_holds(world, endpoint->id))
        return false;
    endpoint->timer = false;
    return true;
}

/* sim_deliver -- performs one delivery. */
void sim_deliver(struct world *world, struct sim_item *item)
{
    struct sim_endpoint *target = sim_endpoint_live(world, item->to);
    struct sim_operation *operation;

    switch (item->kind) {
    case SIM_DEPART: sim_link_depart(world, item->to_node); return;
    case SIM_CONNECT: deliver_connect(world, item); return;
    case SIM_ACCEPTED: deliver_accepted(world, item); return;
    case SIM_READY: deliver_ready(world, item); return;
    case SIM_WRITE: deliver_write(world, item); return;
    case SIM_READ: deliver_read(world, item); return;
    case SIM_NOTIFY:
    case SIM_MESSAGE: deliver_signal(world, item); return;
    case SIM_GRANT: deliver_grant(world, item); return;
    case SIM_CREDIT:
        if (target != NULL && target->signals > 0)
            target->signals--;
        return;
    case SIM_DONE:
        operation = deliver_operation(target, item);
        if (operation != NULL) {
            operation->done = true;
            sim_operation_retire(target);
        }
        return;
    case SIM_REFUSED:
        if (target != NULL && target->state == SIM_CONNECTING) {
            sim_trace(world, "refused", item->from, item->to, 0, 0);
            sim_endpoint_break(target, item->status, item->data, item->data_bytes, false);
            item->data = NULL;
        }
        return;
    case SIM_CLOSE:
        if (target != NULL && target->state != SIM_DEAD) {
            sim_trace(world, "close", item->from, item->to, 0, 0);
            sim_endpoint_break(target, item->status, NULL, 0, false);
        }
        return;
    case SIM_CONNECT_TIMEOUT:
        sim_trace(world, "connect timeout", item->to, SIM_NONE, 0, 0);
        sim_endpoint_break(target, -STEPGATE_EUNREACHABLE, NULL, 0, true);
        return;
    case SIM_PEER_TIMEOUT:
        sim_trace(world, "peer timeout", item->to, SIM_NONE, 0, 0);
        target->timer = false;
        sim_endpoint_break(target, -STEPGATE_EPEER, NULL, 0, true);
        return;
    default: return;
    }
}
