/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link -- what bytes cost, where a world has a rate: each node has one port to a network that is never full itself. A port sends frames of its connections in
 * turn, fairly (self-clocked: the frame with the smallest tag is next, and a connection's tags grow with its bytes), and takes frames in as they arrive; both directions at once.
 * A delivery is due when the receiver's port has taken in its last frame:
 *
 *   taken = max(left + latency - time of the frame, taken) + time of the frame         left: when the frame has left the sender's port
 *
 * Nothing of one connection overtakes anything else of it, so that no barrier has to be kept in mind. A read is a request without bytes, which its target answers with
 * as many as it asks for.
 */
#include <stdlib.h>

#include "transport/base/error.h"
#include "transport/simulated/state.h"

#define LINK_FRAME_BYTES 4096

/* link_time -- nanoseconds of so many bytes. */
static uint64_t link_time(const struct world *world, uint64_t bytes)
{
    return (uint64_t)((double)bytes * 1e9 / (double)world->options.link_bytes_per_s);
}

/* link_left -- bytes that have not been sent yet. */
static uint64_t link_left(const struct sim_item *item)
{
    bool transfer = item->kind == SIM_WRITE || item->kind == SIM_READ;

    return (transfer ? item->length : item->data_bytes) - item->sent;
}

/* link_frame -- bytes of the next frame. */
static uint64_t link_frame(const struct sim_item *item)
{
    uint64_t left = link_left(item);

    return left < LINK_FRAME_BYTES ? left : LINK_FRAME_BYTES;
}

/* link_start -- the next frame's turn begins, if the port is free. */
static void link_start(struct world *world, uint32_t number)
{
    struct sim_port *port = &sim_node(world, number)->port;

    if (port->sending != NULL || port->waiting.count == 0)
        return;
    struct sim_item *turn = sim_item_at(world, SIM_DEPART, number);
    if (turn == NULL)
        return; /* whatever is put here next tries again */
    port->sending = sim_heap_pop(&port->waiting);
    port->tag = port->sending->due;
    turn->due = world->now + link_time(world, link_frame(port->sending));
    sim_agenda_put(world, turn);
}

/* link_wait -- in line at the port; without memory for a place it is dropped, as a network may. */
static void link_wait(struct world *world, struct sim_port *port, struct sim_item *item, uint64_t tag)
{
    item->due = tag;
    if (sim_heap_put(&port->waiting, item) == 0)
        return;
    world->counts.dropped++;
    sim_item_delete(item);
}

/* sim_link_put -- a delivery gets in line at the port of the endpoint that sends its bytes, behind what the same endpoint sent before. */
void sim_link_put(struct sim_endpoint *sender, struct sim_item *item)
{
    struct world *world = sender->world;
    struct sim_port *port = &sim_node(world, sender->node)->port;
    uint64_t start = sender->tag > port->tag ? sender->tag : port->tag;

    sender->tag = start + link_left(item);
    link_wait(world, port, item, start + link_frame(item));
    link_start(world, sender->node);
}

/* sim_link_depart -- a frame has left a port. */
void sim_link_depart(struct world *world, uint32_t number)
{
    struct sim_port *port = &sim_node(world, number)->port;
    struct sim_item *item = port->sending;

    port->sending = NULL;
    if (item != NULL) {
        struct sim_port *receiver =
            &sim_node(world, item->kind == SIM_READ ? item->from_node : item->to_node)->port;
        uint64_t bytes = link_frame(item), time = link_time(world, bytes),
                 arrives = world->now + sim_latency(world) - time;
        receiver->taken = (arrives > receiver->taken ? arrives : receiver->taken) + time;
        item->sent += bytes;
        if (link_left(item) > 0) {
            link_wait(world, port, item, item->due + link_frame(item));
        } else {
            item->due = receiver->taken;
            sim_agenda_put(world, item);
        }
    }
    link_start(world, number);
}

/* sim_link_cut -- the sender is gone: what waits at ports is lost. */
void sim_link_cut(struct world *world, const struct sim_endpoint *from)
{
    for (uint32_t n = 0; n < world->node_count; n++) {
        struct sim_port *port = &world->nodes[n]->port;
        if (port->sending != NULL && port->sending->from == from->id) {
            world->counts.dropped++;
            sim_item_delete(port->sending);
            port->sending = NULL; /* its turn ends all the same */
        }
        sim_heap_cut(world, &port->waiting, from->id);
    }
}

/* sim_link_free -- forgets what waits at a port. */
void sim_link_free(struct sim_port *port)
{
    sim_item_delete(port->sending);
    for (uint32_t i = 0; i < port->waiting.count; i++)
        sim_item_delete(port->waiting.heap[i]);
    free(port->waiting.heap);
}
