/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/verbs/completion.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/event.h"
#include "transport/verbs/pump.h"
#include "transport/verbs/verbs.h"

#define QUEUE_EXTRA 16U       /* send queue: beside the operations, frames of our own */
#define QUEUE_DEPTH_LEAST 32U /* a shallower send queue cannot be kept busy */
#define QUEUE_SLOW 64U        /* every so many polls the descriptors are looked at, armed or not */
#define QUEUE_SLOW_CONNECTING 4U
#define QUEUE_PATIENCE 1000U /* polls after which a closing endpoint ends although completions keep coming */

/* queue_room -- sizes the completion queue so that it can never overrun: that would kill every connection. */
static int queue_room(struct queue *queue, uint32_t endpoints, int *entries)
{
    const struct device *device = queue->device;
    uint64_t limit = (uint64_t)device->max_cqe;

    queue->depth = device->operations + QUEUE_EXTRA;
    if (queue->depth > device->max_wr)
        queue->depth = device->max_wr;
    if (endpoints * (uint64_t)(queue->depth + CREDIT_RECEIVES) > limit) {
        uint64_t share = limit / endpoints;
        if (share < QUEUE_DEPTH_LEAST + CREDIT_RECEIVES)
            return error_set(STEPGATE_ELIMIT, 0, "more ps, or fewer workers per ps",
                             "%u connections need %llu completion entries, %s has %d", endpoints,
                             (unsigned long long)endpoints * (QUEUE_DEPTH_LEAST + CREDIT_RECEIVES),
                             device->name, device->max_cqe);
        queue->depth = (uint32_t)share - CREDIT_RECEIVES;
    }
    *entries = (int)(endpoints * (queue->depth + CREDIT_RECEIVES));
    return 0;
}

/* queue_watch -- adds a descriptor to the one that the caller sleeps on. */
static int queue_watch(struct queue *queue, int fd, bool nonblocking)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

    if (nonblocking) {
        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
            return -1;
    }
    return epoll_ctl(queue->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* queue_open -- makes the parts. */
static int queue_open(struct queue *queue, int entries)
{
    struct device *device = queue->device;

    queue->cm = seam_cm_channel();
    queue->comp = seam_comp_channel(device->context);
    if (queue->cm == NULL || queue->comp == NULL)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot make event channels on %s", device->name);
    queue->cq = seam_create_cq(device->context, entries, queue, queue->comp, device_vector(device));
    if (queue->cq == NULL)
        return error_set(STEPGATE_ELIMIT, errno, NULL,
                         "%s makes no completion queue of %d entries (its limit is %d)", device->name,
                         entries, device->max_cqe);
    queue->epoll = epoll_create1(EPOLL_CLOEXEC);
    queue->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    queue->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (queue->epoll < 0 || queue->timer < 0 || queue->wake < 0 ||
        queue_watch(queue, queue->cm->fd, true) != 0 || queue_watch(queue, queue->comp->fd, true) != 0 ||
        queue_watch(queue, device->context->async_fd, false) != 0 ||
        queue_watch(queue, queue->timer, false) != 0 || queue_watch(queue, queue->wake, false) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, "ulimit -n", "cannot make a queue");
    return 0;
}

/* queue_new -- a queue with room for a number of endpoints. */
int queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out)
{
    int entries = 0;

    if (endpoints == 0)
        endpoints = 1;
    if (endpoints > UINT16_MAX)
        return error_set(STEPGATE_ELIMIT, 0, "more queues", "%u endpoints on one queue, at most %d",
                         endpoints, UINT16_MAX);
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a queue");
    struct stepgate_queue *base = &queue->base;
    base->transport = verbs_transport();
    queue->device = (struct device *)fabric;
    queue->epoll = queue->timer = queue->wake = -1;
    queue->capacity = endpoints;
    atomic_init(&queue->async, 0);
    queue->slots = calloc(endpoints, sizeof(*queue->slots));
    queue->generations = calloc(endpoints, sizeof(*queue->generations));
    int ret;
    if (queue->slots == NULL || queue->generations == NULL)
        ret = error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a queue");
    else if ((ret = queue_room(queue, endpoints, &entries)) == 0)
        ret = queue_open(queue, entries);
    if (ret != 0) {
        queue_delete(&base);
        return ret;
    }
    *out = base;
    return 0;
}

/* queue_cq_events -- takes the completion channel's events, so that its descriptor is quiet again. */
static void queue_cq_events(struct queue *queue)
{
    while (seam_cq_event(queue->comp) == 0)
        queue->cq_events++;
}

/* queue_delete -- its endpoints and listeners are gone. */
void queue_delete(struct stepgate_queue **queue)
{
    if (queue == NULL || *queue == NULL)
        return;
    struct queue *inner = (struct queue *)*queue;
    if (inner->cq != NULL) {
        queue_cq_events(inner);
        seam_ack_cq_events(inner->cq, inner->cq_events); /* or destroying it waits for ever */
        seam_destroy_cq(inner->cq);
    }
    if (inner->comp != NULL)
        seam_comp_channel_destroy(inner->comp);
    if (inner->cm != NULL)
        seam_cm_channel_destroy(inner->cm);
    if (inner->epoll >= 0)
        (void)close(inner->epoll);
    if (inner->timer >= 0)
        (void)close(inner->timer);
    if (inner->wake >= 0)
        (void)close(inner->wake);
    free(inner->slots);
    free(inner->generations);
    free(inner->stash);
    free(inner);
    *queue = NULL;
}

/* queue_enter -- gives an endpoint a slot. */
int queue_enter(struct queue *queue, struct endpoint *endpoint)
{
    for (uint32_t i = 0; queue->count < queue->capacity && i < queue->capacity; i++) {
        if (queue->slots[i] != NULL)
            continue;
        queue->slots[i] = endpoint;
        queue->generations[i] = (uint16_t)((queue->generations[i] + 1) & QUEUE_GENERATIONS);
        endpoint->slot = (uint16_t)i;
        endpoint->generation = queue->generations[i];
        queue->count++;
        return 0;
    }
    return error_set(STEPGATE_ELIMIT, 0, "make the queue for more endpoints",
                     "the queue has room for %u endpoints", queue->capacity);
}

/* queue_leave -- frees the slot, and forgets held receives. */
void queue_leave(struct queue *queue, struct endpoint *endpoint)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < queue->held_count; i++)
        if (queue->held[i].endpoint != endpoint)
            queue->held[kept++] = queue->held[i];
    queue->held_count = kept;
    queue->slots[endpoint->slot] = NULL;
    queue->held_back -= endpoint->held_back;
    endpoint->held_back = false;
    queue->count--;
}

/* queue_hold_back -- see the header. */
void queue_hold_back(struct queue *queue, struct endpoint *endpoint)
{
    queue->held_back += !endpoint->held_back;
    endpoint->held_back = true;
}

/* queue_hand_over -- what was held back and found no successor. */
static void queue_hand_over(struct queue *queue)
{
    for (uint32_t i = 0; i < queue->capacity && queue->held_back > 0; i++)
        if (queue->slots[i] != NULL && queue->slots[i]->held_back)
            pump(queue->slots[i]);
}

/* queue_request_id -- the number of a work request. */
uint64_t queue_request_id(const struct endpoint *endpoint, bool receive, uint32_t number)
{
    return (receive ? QUEUE_RECEIVE : 0) | (uint64_t)endpoint->generation << 48 |
           (uint64_t)endpoint->slot << 32 | number;
}

/* queue_find -- the endpoint of a completion. */
struct endpoint *queue_find(struct queue *queue, uint64_t request_id)
{
    uint32_t slot = (uint32_t)(request_id >> 32) & UINT16_MAX;
    struct endpoint *endpoint = slot < queue->capacity ? queue->slots[slot] : NULL;

    if (endpoint == NULL || endpoint->generation != ((request_id >> 48) & QUEUE_GENERATIONS))
        return NULL;
    return endpoint;
}

/* queue_hold -- keeps a receive until the next poll. */
void queue_hold(struct queue *queue, struct endpoint *endpoint, uint32_t receive)
{
    queue->held[queue->held_count++] = (struct queue_held){endpoint, receive};
}

/* queue_stash_room -- room for a batch. */
struct ibv_wc *queue_stash_room(struct queue *queue)
{
    if (queue->stash_next == queue->stash_count)
        queue->stash_next = queue->stash_count = 0;
    if (queue->stash_size - queue->stash_count < QUEUE_BATCH) {
        uint32_t size = queue->stash_size * 2 + QUEUE_BATCH;
        struct ibv_wc *larger = realloc(queue->stash, size * sizeof(*larger));
        if (larger == NULL)
            return NULL;
        queue->stash = larger;
        queue->stash_size = size;
    }
    return &queue->stash[queue->stash_count];
}

/* queue_wake -- the flag first, then the descriptor, for a thread that sleeps. */
void queue_wake(struct queue *queue)
{
    uint64_t one = 1;

    /* release: pairs with the exchange in event_drain, which then reads the endpoints' flags */
    atomic_store_explicit(&queue->async, 1, memory_order_release);
    ssize_t written = write(queue->wake, &one, sizeof(one)); /* full: it is awake already */
    (void)written;
}

/* queue_release -- the caller has looked at the messages of the last poll. */
static void queue_release(struct queue *queue)
{
    uint32_t count = queue->held_count;

    queue->held_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct endpoint *endpoint = queue->held[i].endpoint;
        if (endpoint->state > ENDPOINT_CLOSING)
            continue;
        endpoint_release(endpoint, queue->held[i].receive);
        pump(endpoint);
    }
}

/* queue_refill -- the next completion to look at; NULL: there is none now. */
static const struct ibv_wc *queue_refill(struct queue *queue)
{
    if (queue->wc_next < queue->wc_count)
        return &queue->wc[queue->wc_next];
    queue->wc_next = queue->wc_count = 0;
    if (queue->stash_next < queue->stash_count) {
        queue->wc[0] = queue->stash[queue->stash_next++];
        queue->wc_count = 1;
        return &queue->wc[0];
    }
    int n = seam_poll_cq(queue->cq, QUEUE_BATCH, queue->wc);
    if (n < 0) {
        /* nothing will ever come of it again: every endpoint must hear. Relaxed: see struct device. */
        atomic_store_explicit(&queue->device->fatal, 1, memory_order_relaxed);
        queue_wake(queue);
    }
    if (n <= 0)
        return NULL;
    queue->wc_count = n;
    return &queue->wc[0];
}

/* queue_completions -- takes completions; *empty: there is none left. */
static int queue_completions(struct queue *queue, struct stepgate_event *events, int max, bool *empty)
{
    const struct ibv_wc *wc;
    int n = 0;

    *empty = false;
    while (n < max && queue->held_count < QUEUE_HELD) {
        bool used;
        if ((wc = queue_refill(queue)) == NULL) {
            *empty = true;
            break;
        }
        n += completion_handle(queue, wc, &events[n], &used);
        if (used)
            queue->wc_next++;
    }
    return n;
}

/* queue_slow -- what needs system calls: the connection manager, asynchronous events, deadlines. */
static int queue_slow(struct queue *queue, struct stepgate_event *events, int max)
{
    uint64_t scrap;
    int n = 0;

    if (queue->armed) {
        queue->armed = false;
        queue_cq_events(queue);
        while (read(queue->timer, &scrap, sizeof(scrap)) > 0 || read(queue->wake, &scrap, sizeof(scrap)) > 0)
            continue;
    }
    while (n < max) {
        int one = connection_event(queue, &events[n]);
        if (one < 0)
            break;
        n += one;
    }
    event_drain(queue);
    if (queue->connecting + queue->unheard > 0)
        connection_expire(queue, clock_now());
    return n;
}

/* queue_settle -- closing endpoints end once all their completions have been looked at. */
static void queue_settle(struct queue *queue, bool empty)
{
    for (uint32_t i = 0; i < queue->capacity && queue->closing > 0; i++) {
        struct endpoint *endpoint = queue->slots[i];
        if (endpoint == NULL || endpoint->state != ENDPOINT_CLOSING ||
            endpoint->closing_since == queue->polls)
            continue;
        if (empty || endpoint->closing_since + QUEUE_PATIENCE < queue->polls) {
            endpoint_end(endpoint);
            endpoint_set_state(endpoint, ENDPOINT_FAILING);
        }
    }
}

/* queue_report -- failing endpoints tell. */
static int queue_report(struct queue *queue, struct stepgate_event *events, int max)
{
    int n = 0;

    for (uint32_t i = 0; i < queue->capacity && queue->failing > 0; i++) {
        struct endpoint *endpoint = queue->slots[i];
        while (n < max && endpoint != NULL && endpoint->state == ENDPOINT_FAILING)
            endpoint_report(endpoint, &events[n++]);
    }
    return n;
}

/* queue_poll -- takes up to max events. What is rare comes first, so that no load of completions can starve it. */
int queue_poll(struct stepgate_queue *queue, struct stepgate_event *events, int max)
{
    struct queue *inner = (struct queue *)queue;
    bool empty;
    int n = 0;

    inner->polls++;
    if (inner->held_count > 0)
        queue_release(inner);
    if (inner->held_back > 0)
        queue_hand_over(inner);
    if (inner->failing > 0)
        n += queue_report(inner, events, max);
    /* acquire: pairs with queue_wake */
    bool woken = atomic_load_explicit(&inner->async, memory_order_acquire) != 0;
    if (inner->armed || woken || inner->polls % QUEUE_SLOW == 0 ||
        (inner->connecting > 0 && inner->polls % QUEUE_SLOW_CONNECTING == 0))
        n += queue_slow(inner, events + n, max - n);
    if (inner->device_event && n < max)
        event_report(inner, &events[n++]);
    n += queue_completions(inner, events + n, max - n, &empty);
    if (inner->closing > 0)
        queue_settle(inner, empty);
    if (inner->failing > 0)
        n += queue_report(inner, events + n, max - n);
    return n;
}

/* queue_arm -- arms the completion channel, then looks once more: what came before is not announced. */
int queue_arm(struct stepgate_queue *queue)
{
    struct queue *inner = (struct queue *)queue;

    if (inner->held_count + inner->held_back > 0 || inner->closing + inner->failing > 0 ||
        inner->device_event ||
        atomic_load_explicit(&inner->async, memory_order_acquire) != 0) /* pairs with queue_wake */
        return 1;
    inner->armed = true;
    if (seam_req_notify(inner->cq) != 0 || queue_refill(inner) != NULL)
        return 1;
    if (inner->connecting + inner->unheard > 0) {
        uint64_t at = connection_deadline(inner);
        struct itimerspec when = {
            .it_value = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)}};
        if (at != CLOCK_NEVER && timerfd_settime(inner->timer, TFD_TIMER_ABSTIME, &when, NULL) != 0)
            return 1;
    }
    return 0;
}

/* queue_fd -- the epoll descriptor. */
int queue_fd(struct stepgate_queue *queue)
{
    return ((struct queue *)queue)->epoll;
}
