/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint -- listeners, requests and connections: how they begin and end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/simulated/state.h"

/* endpoint_parse -- splits "NAME:PORT". */
static int endpoint_parse(const char *address, char name[SIM_NAME_BYTES], uint16_t *port)
{
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;
    char *end = NULL;

    if (colon != NULL && colon != address && colon - address < SIM_NAME_BYTES && colon[1] >= '0' &&
        colon[1] <= '9') {
        unsigned long number = strtoul(colon + 1, &end, 10);
        if (*end == 0 && number <= UINT16_MAX) {
            memcpy(name, address, (size_t)(colon - address));
            name[colon - address] = 0;
            *port = (uint16_t)number;
            return 0;
        }
    }
    return error_set(STEPGATE_EADDRESS, 0, "write NAME:PORT", "\"%s\" is no address of a simulated node",
                     address != NULL ? address : "");
}

/* endpoint_listener -- who listens at a name and port; NULL: nobody. */
static struct sim_listener *endpoint_listener(const struct world *world, const char *name, uint16_t port)
{
    for (uint32_t i = 0; i < world->tables[SIM_LISTENER].count; i++) {
        struct sim_listener *listener = world->tables[SIM_LISTENER].slots[i];
        if (listener == NULL || listener->port != port)
            continue;
        const struct sim_node *node = sim_node(world, listener->node);
        if (!node->killed && strcmp(node->name, name) == 0)
            return listener;
    }
    return NULL;
}

/* sim_listener_new -- listens on the name of the queue's node. */
int sim_listener_new(struct stepgate_queue *base, const char *address, struct stepgate_listener **out)
{
    struct sim_queue *queue = (struct sim_queue *)base;
    struct world *world = queue->fabric->world;
    struct sim_node *node = sim_node(world, queue->fabric->node);
    char name[SIM_NAME_BYTES];
    uint16_t port;
    int rc = endpoint_parse(address, name, &port);

    if (rc < 0)
        return rc;
    if (strcmp(name, node->name) != 0)
        return error_set(STEPGATE_EADDRESS, 0, NULL, "%s is not an address of this host (%s)", address,
                         node->name);
    while (port == 0) {
        port = node->next_port++;
        if (endpoint_listener(world, name, port) != NULL)
            port = 0;
    }
    if (endpoint_listener(world, name, port) != NULL)
        return error_set(STEPGATE_EBUSY, 0, "take another port, or 0 for a free one",
                         "the port of %s is in use", address);
    struct sim_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL || sim_table_add(&world->tables[SIM_LISTENER], listener, &listener->id) < 0) {
        free(listener);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a listener");
    }
    listener->base.transport = simulated_transport();
    listener->queue = queue;
    listener->node = queue->fabric->node;
    listener->port = port;
    *out = &listener->base;
    return 0;
}

/* sim_listener_address -- "NAME:PORT". */
int sim_listener_address(struct stepgate_listener *base, char *text, size_t bytes)
{
    const struct sim_listener *listener = (const struct sim_listener *)base;
    int length = snprintf(text, bytes, "%s:%u",
                          sim_node(listener->queue->fabric->world, listener->node)->name, listener->port);

    return length < 0 || (size_t)length >= bytes
               ? error_set(STEPGATE_EINVAL, 0, NULL, "no room for the address")
               : 0;
}

/* sim_listener_delete -- refuses what was not taken yet. */
void sim_listener_delete(struct stepgate_listener **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_listener *listener = (struct sim_listener *)*pointer;
    sim_queue_refuse(listener->queue, &listener->base);
    sim_table_drop(&listener->queue->fabric->world->tables[SIM_LISTENER], listener->id);
    free(listener);
    *pointer = NULL;
}

/* endpoint_new -- what both sides have in common. */
static struct sim_endpoint *endpoint_new(struct sim_queue *queue, struct sim_domain *domain, void *user)
{
    struct world *world = queue->fabric->world;
    struct sim_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return NULL;
    endpoint->depth = world->options.depth;
    if (queue->fabric->operations > 0 && queue->fabric->operations < endpoint->depth)
        endpoint->depth = queue->fabric->operations;
    endpoint->operations = calloc(endpoint->depth, sizeof(*endpoint->operations));
    if (endpoint->operations == NULL ||
        sim_table_add(&world->tables[SIM_ENDPOINT], endpoint, &endpoint->id) < 0) {
        free(endpoint->operations);
        free(endpoint);
        return NULL;
    }
    endpoint->base.transport = simulated_transport();
    endpoint->base.user = user;
    endpoint->queue = queue;
    endpoint->domain = domain;
    endpoint->world = world;
    endpoint->node = queue->fabric->node;
    endpoint->peer = SIM_NONE;
    endpoint->peer_node = queue->fabric->node;
    endpoint->barrier = endpoint->tail = endpoint->signal = world->now;
    return endpoint;
}

/* sim_endpoint_free -- frees the memory of an endpoint. */
void sim_endpoint_free(struct sim_endpoint *endpoint)
{
    free(endpoint->operations);
    free(endpoint);
}

/* sim_endpoint_live -- an endpoint by number, of a process that is alive. */
struct sim_endpoint *sim_endpoint_live(const struct world *world, uint32_t id)
{
    struct sim_endpoint *endpoint = sim_table_get(&world->tables[SIM_ENDPOINT], id);

    return endpoint != NULL && !sim_node(world, endpoint->node)->killed ? endpoint : NULL;
}

/* endpoint_item -- a delivery with a hello; NULL: out of memory. */
static struct sim_item *endpoint_item(struct world *world, int kind, const struct sim_endpoint *from,
                                      const void *hello, uint32_t hello_bytes)
{
    struct sim_item *item = sim_item_new(world, kind, from);

    if (item == NULL || hello_bytes == 0)
        return item;
    item->data = malloc(hello_bytes);
    if (item->data == NULL) {
        sim_item_delete(item);
        return NULL;
    }
    memcpy(item->data, hello, hello_bytes);
    item->data_bytes = hello_bytes;
    return item;
}

/* endpoint_timer -- bounds how long an endpoint waits for its connection. */
static int endpoint_timer(struct sim_endpoint *endpoint)
{
    struct world *world = endpoint->world;
    struct sim_item *timer = sim_item_new(world, SIM_CONNECT_TIMEOUT, endpoint);

    if (timer == NULL)
        return -STEPGATE_ENOMEM;
    timer->to = endpoint->id;
    timer->to_node = endpoint->node;
    timer->due = world->now + endpoint->queue->fabric->connect_timeout_ns;
    sim_agenda_put(world, timer);
    return 0;
}

/* endpoint_host -- a node with a name, alive if there is such a one; SIM_NONE: the name is unknown. */
static uint32_t endpoint_host(const struct world *world, const char *name)
{
    uint32_t found = SIM_NONE;

    for (uint32_t i = 0; i < world->node_count; i++)
        if (strcmp(world->nodes[i]->name, name) == 0 && (found == SIM_NONE || !world->nodes[i]->killed))
            found = i;
    return found;
}

/* sim_endpoint_connect -- sends a request on its way. */
int sim_endpoint_connect(struct stepgate_queue *base, struct stepgate_domain *domain, const char *address,
                         const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out)
{
    struct sim_queue *queue = (struct sim_queue *)base;
    struct world *world = queue->fabric->world;
    char name[SIM_NAME_BYTES];
    uint16_t port;
    int rc = endpoint_parse(address, name, &port);

    if (rc < 0)
        return rc;
    if (hello_bytes > STEPGATE_HELLO_BYTES || ((struct sim_domain *)domain)->fabric != queue->fabric)
        return error_set(STEPGATE_EINVAL, 0, NULL,
                         "a hello has at most %d bytes, and queue and domain one fabric",
                         STEPGATE_HELLO_BYTES);
    if (sim_node(world, queue->fabric->node)->killed)
        return error_set(STEPGATE_EDEVICE, 0, NULL, "this simulated node is dead");
    uint32_t host = endpoint_host(world, name);
    if (host == SIM_NONE)
        return error_set(STEPGATE_EADDRESS, 0, "check the name",
                         "%s: there is no simulated node of this name", address);
    struct sim_endpoint *endpoint = endpoint_new(queue, (struct sim_domain *)domain, user);
    struct sim_item *item =
        endpoint != NULL ? endpoint_item(world, SIM_CONNECT, endpoint, hello, hello_bytes) : NULL;
    if (item == NULL || endpoint_timer(endpoint) < 0) {
        sim_item_delete(item);
        if (endpoint != NULL) {
            sim_table_drop(&world->tables[SIM_ENDPOINT], endpoint->id);
            sim_endpoint_free(endpoint);
        }
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to connect to %s", address);
    }
    const struct sim_listener *listener = endpoint_listener(world, name, port);
    item->to = listener != NULL ? listener->id : SIM_NONE;
    item->to_node = listener != NULL ? listener->node : host;
    item->due = world->now + sim_latency(world);
    endpoint->active = true;
    endpoint->state = SIM_CONNECTING;
    endpoint->peer_node = item->to_node;
    endpoint->connection = ++world->connections;
    snprintf(endpoint->address, sizeof(endpoint->address), "%s", address);
    world->counts.connects++;
    sim_trace(world, "post connect", endpoint->id, item->to, item->to_node, port);
    sim_agenda_put(world, item);
    *out = &endpoint->base;
    return 0;
}

/* endpoint_request_free -- a request is used up. */
static void endpoint_request_free(struct sim_request *request)
{
    sim_table_drop(&request->world->tables[SIM_REQUEST], request->id);
    free(request);
}

/* endpoint_answer -- sends an acceptance or refusal to the active side. */
static void endpoint_answer(struct world *world, struct sim_item *item, const struct sim_request *request)
{
    item->to = request->active;
    item->to_node = request->active_node;
    item->due = world->now + sim_latency(world);
    sim_agenda_put(world, item);
}

/* sim_endpoint_accept -- accepts a request on any queue of the node. */
int sim_endpoint_accept(struct stepgate_request *base, struct stepgate_queue *queue_base,
                        struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                        struct stepgate_endpoint **out)
{
    struct sim_request *request = (struct sim_request *)base;
    struct sim_queue *queue = (struct sim_queue *)queue_base;
    struct world *world = request->world;
    bool valid = hello_bytes <= STEPGATE_HELLO_BYTES && queue->fabric->node == request->node &&
                 ((struct sim_domain *)domain)->fabric == queue->fabric;

    if (!valid || sim_node(world, request->node)->killed) {
        sim_request_refuse(base, NULL, 0);
        return error_set(
            STEPGATE_EINVAL, 0, NULL,
            "a request is accepted by its own node, on one fabric, with a hello of at most %d bytes",
            STEPGATE_HELLO_BYTES);
    }
    struct sim_endpoint *endpoint = endpoint_new(queue, (struct sim_domain *)domain, user);
    struct sim_item *item =
        endpoint != NULL ? endpoint_item(world, SIM_ACCEPTED, endpoint, hello, hello_bytes) : NULL;
    if (item == NULL || endpoint_timer(endpoint) < 0) {
        sim_item_delete(item);
        if (endpoint != NULL) {
            sim_table_drop(&world->tables[SIM_ENDPOINT], endpoint->id);
            sim_endpoint_free(endpoint);
        }
        sim_request_refuse(base, NULL, 0);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to accept a connection");
    }
    endpoint->state = SIM_ACCEPTING;
    endpoint->peer = request->active;
    endpoint->peer_node = request->active_node;
    endpoint->connection = request->connection;
    sim_trace(world, "post accept", endpoint->id, request->active, 0, 0);
    endpoint_answer(world, item, request);
    endpoint_request_free(request);
    *out = &endpoint->base;
    return 0;
}

/* sim_request_refuse -- refuses a request, with the reason in the hello. */
void sim_request_refuse(struct stepgate_request *base, const void *hello, uint32_t hello_bytes)
{
    struct sim_request *request = (struct sim_request *)base;
    struct world *world = request->world;
    struct sim_endpoint *active = sim_endpoint_live(world, request->active);

    if (active != NULL && !sim_node(world, request->node)->killed) {
        uint32_t bytes = hello_bytes < STEPGATE_HELLO_BYTES ? hello_bytes : STEPGATE_HELLO_BYTES;
        struct sim_item *item = endpoint_item(world, SIM_REFUSED, active, hello, bytes);
        if (item != NULL) {
            item->from_node = request->node;
            item->status = -STEPGATE_EREFUSED;
            endpoint_answer(world, item, request);
        }
    }
    endpoint_request_free(request);
}

/* sim_endpoint_close_peer -- lets the other end know, after a random while, that this one is gone. */
void sim_endpoint_close_peer(struct sim_endpoint *endpoint)
{
    struct world *world = endpoint->world;
    struct sim_item *item = endpoint->peer != SIM_NONE ? sim_item_new(world, SIM_CLOSE, endpoint) : NULL;

    if (item == NULL)
        return;
    item->status = -STEPGATE_EPEER;
    item->due = world->now + sim_latency(world) +
                random_below(&world->random, 500 * world->options.latency_max_ns + 1);
    sim_agenda_put(world, item);
}

/* sim_endpoint_break -- the connection is of no use any more: fails what is in flight, then says DISCONNECTED, once. Takes hello. */
void sim_endpoint_break(struct sim_endpoint *endpoint, int status, uint8_t *hello, uint32_t hello_bytes,
                        bool tell)
{
    struct world *world = endpoint->world;

    if (endpoint->state == SIM_DEAD) {
        free(hello);
        return;
    }
    world->counts.refused_connects += endpoint->active && endpoint->state == SIM_CONNECTING;
    sim_agenda_cut(world, endpoint);
    endpoint->state = SIM_DEAD;
    if (tell)
        sim_endpoint_close_peer(endpoint);
    for (;;) {
        struct sim_operation *oldest = NULL;
        for (uint32_t i = 0; i < endpoint->depth; i++) {
            struct sim_operation *operation = &endpoint->operations[i];
            if (operation->used && (oldest == NULL || operation->order < oldest->order))
                oldest = operation;
        }
        if (oldest == NULL)
            break;
        oldest->used = false;
        if ((oldest->flags & STEPGATE_POST_COMPLETE) != 0) {
            struct stepgate_event event = {.kind = STEPGATE_EVENT_COMPLETION,
                                           .endpoint = &endpoint->base,
                                           .status = status,
                                           .context = oldest->context};
            sim_queue_push(endpoint->queue, &event, NULL, SIM_NONE);
        }
    }
    endpoint->in_flight = endpoint->signals = 0;
    sim_trace(world, "disconnected", endpoint->id, endpoint->peer, (uint64_t)-status, 0);
    struct stepgate_event event = {.kind = STEPGATE_EVENT_DISCONNECTED,
                                   .endpoint = &endpoint->base,
                                   .status = status,
                                   .length = hello_bytes};
    sim_queue_push(endpoint->queue, &event, hello, SIM_NONE);
}

/* sim_endpoint_delete -- no event of it arrives and nothing lands through it any more. */
void sim_endpoint_delete(struct stepgate_endpoint **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_endpoint *endpoint = (struct sim_endpoint *)*pointer;
    struct world *world = endpoint->world;
    if (endpoint->state != SIM_DEAD) {
        sim_agenda_cut(world, endpoint);
        sim_endpoint_close_peer(endpoint);
    }
    sim_trace(world, "delete", endpoint->id, endpoint->peer, 0, 0);
    sim_queue_forget(endpoint->queue, &endpoint->base);
    sim_table_drop(&world->tables[SIM_ENDPOINT], endpoint->id);
    sim_endpoint_free(endpoint);
    *pointer = NULL;
}

/* sim_endpoint_trouble -- a world has no counters. */
void sim_endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes)
{
    (void)endpoint;
    (void)bytes;
    text[0] = 0;
}

/* sim_endpoint_capabilities -- the limits of the world. */
int sim_endpoint_capabilities(struct stepgate_endpoint *base, struct stepgate_capabilities *out)
{
    const struct sim_endpoint *endpoint = (const struct sim_endpoint *)base;
    const struct world_options *options = &endpoint->world->options;

    if (out == NULL || out->size < sizeof(*out))
        return error_set(STEPGATE_EINVAL, 0, NULL, "capabilities need their size set");
    *out = (struct stepgate_capabilities){
        .size = out->size,
        .can = (unsigned)(options->mapped ? STEPGATE_CAN_MAP : STEPGATE_CAN_USE_CALLERS) |
               STEPGATE_CAN_IMMEDIATE,
        .inline_bytes = options->inline_bytes,
        .operations = endpoint->depth,
        .reads_in_flight = endpoint->depth,
        .message_bytes = options->message_bytes,
        .piece_bytes = options->piece_bytes,
        .device = "simulated",
    };
    return 0;
}
