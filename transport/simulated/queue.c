/* SPDX-License-Identifier: BSD-3-Clause */
/* queue -- events on their way to a poller. */
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/simulated/state.h"

/* sim_queue_new -- an empty queue; it grows with what arrives. */
int sim_queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out)
{
    struct sim_fabric *owner = (struct sim_fabric *)fabric;
    struct sim_queue *queue = calloc(1, sizeof(*queue));

    (void)endpoints;
    if (queue == NULL || sim_table_add(&owner->world->tables[SIM_QUEUE], queue, &queue->id) < 0) {
        free(queue);
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a queue");
    }
    queue->base.transport = simulated_transport();
    queue->fabric = owner;
    *out = &queue->base;
    return 0;
}

/* sim_queue_release -- frees the data that the last poll handed out. */
static void sim_queue_release(struct sim_queue *queue)
{
    for (uint32_t i = 0; i < queue->taken_count; i++)
        free(queue->taken[i]);
    queue->taken_count = 0;
}

/* sim_queue_free -- frees a queue with the events in it. */
void sim_queue_free(struct sim_queue *queue)
{
    sim_queue_release(queue);
    for (uint32_t i = 0; i < queue->count; i++)
        free(queue->events[queue->first + i].data);
    free(queue->taken);
    free(queue->events);
    free(queue);
}

/* sim_queue_delete -- everything on it must be gone. */
void sim_queue_delete(struct stepgate_queue **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct sim_queue *queue = (struct sim_queue *)*pointer;
    sim_table_drop(&queue->fabric->world->tables[SIM_QUEUE], queue->id);
    sim_queue_free(queue);
    *pointer = NULL;
}

/* sim_queue_push -- adds an event; it owns data from now on. */
void sim_queue_push(struct sim_queue *queue, const struct stepgate_event *event, uint8_t *data,
                    uint32_t credit_to)
{
    if (queue->first > 0 && queue->first + queue->count == queue->room) {
        memmove(queue->events, queue->events + queue->first, queue->count * sizeof(*queue->events));
        queue->first = 0;
    }
    if (sim_grow(&queue->events, &queue->room, queue->first + queue->count + 1, sizeof(*queue->events)) < 0) {
        free(data);
        return;
    }
    struct sim_event *place = &queue->events[queue->first + queue->count++];
    place->event = *event;
    place->event.data = data;
    place->data = data;
    place->credit_to = credit_to;
}

/* sim_queue_credit -- tells the sender of a notify or message that there is room again. */
static void sim_queue_credit(struct world *world, const struct sim_event *event)
{
    struct sim_endpoint *receiver = (struct sim_endpoint *)event->event.endpoint;
    struct sim_item *item = event->credit_to != SIM_NONE ? sim_item_new(world, SIM_CREDIT, receiver) : NULL;

    if (item == NULL)
        return;
    item->to = event->credit_to;
    item->due = world->now + sim_latency(world);
    sim_agenda_put(world, item);
}

/* sim_queue_explain -- leaves words for the poller about a connection that was not made. */
static void sim_queue_explain(const struct stepgate_event *event)
{
    const struct sim_endpoint *endpoint = (const struct sim_endpoint *)event->endpoint;

    if (event->kind != STEPGATE_EVENT_DISCONNECTED || !endpoint->active)
        return;
    if (event->status == -STEPGATE_EREFUSED)
        error_set(STEPGATE_EREFUSED, 0, "is the peer running, and is this its address?",
                  "%s refused the connection", endpoint->address);
    else if (event->status == -STEPGATE_EUNREACHABLE)
        error_set(STEPGATE_EUNREACHABLE, 0, "is the peer running, and is this its address?",
                  "no answer from %s", endpoint->address);
    else
        error_set(-event->status, 0, NULL, "the connection to %s is lost", endpoint->address);
}

/* sim_queue_poll -- takes events; sometimes fewer than there are. */
int sim_queue_poll(struct stepgate_queue *base, struct stepgate_event *events, int max)
{
    struct sim_queue *queue = (struct sim_queue *)base;
    struct world *world = queue->fabric->world;
    const struct sim_node *node = sim_node(world, queue->fabric->node);

    sim_queue_release(queue);
    if (max <= 0 || queue->count == 0 || node->killed || node->frozen)
        return 0;
    uint32_t take = queue->count < (uint32_t)max ? queue->count : (uint32_t)max;
    if (take > 1)
        take = 1 + (uint32_t)random_below(&world->random, take);
    if (sim_grow(&queue->taken, &queue->taken_room, take, sizeof(*queue->taken)) < 0)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory to poll");
    for (uint32_t i = 0; i < take; i++) {
        struct sim_event *event = &queue->events[queue->first++];
        queue->count--;
        events[i] = event->event;
        queue->taken[queue->taken_count++] = event->data;
        sim_queue_credit(world, event);
        sim_queue_explain(&event->event);
    }
    if (queue->count == 0)
        queue->first = 0;
    return (int)take;
}

/* sim_queue_arm -- 1 when there is something to poll. */
int sim_queue_arm(struct stepgate_queue *queue)
{
    return ((struct sim_queue *)queue)->count > 0;
}

/* sim_queue_fd -- a simulated queue never sleeps. */
int sim_queue_fd(struct stepgate_queue *queue)
{
    (void)queue;
    return -1;
}

/* sim_queue_forget -- drops the waiting events of an endpoint that is being deleted. */
void sim_queue_forget(struct sim_queue *queue, const struct stepgate_endpoint *endpoint)
{
    uint32_t kept = queue->first;

    for (uint32_t i = 0; i < queue->count; i++) {
        struct sim_event *event = &queue->events[queue->first + i];
        if (event->event.endpoint == endpoint)
            free(event->data);
        else
            queue->events[kept++] = *event;
    }
    queue->count = kept - queue->first;
}

/* sim_queue_refuse -- refuses the requests of a listener that nobody has taken. */
void sim_queue_refuse(struct sim_queue *queue, const struct stepgate_listener *listener)
{
    uint32_t kept = queue->first;

    for (uint32_t i = 0; i < queue->count; i++) {
        struct sim_event *event = &queue->events[queue->first + i];
        if (event->event.kind == STEPGATE_EVENT_REQUEST && event->event.listener == listener) {
            sim_request_refuse(event->event.request, NULL, 0);
            free(event->data);
        } else {
            queue->events[kept++] = *event;
        }
    }
    queue->count = kept - queue->first;
}
