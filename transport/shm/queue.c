/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/listener.h"
#include "transport/shm/ring.h"
#include "transport/shm/shm.h"

#define QUEUE_KEPT_BYTES ((size_t)128 << 10)
#define QUEUE_BATCH 64
#define QUEUE_BATCHES 16 /* per look: nobody can keep a poll busy for ever */
#define QUEUE_LOOK_NS CLOCK_MS
#define QUEUE_LOOK_WAITING 4U /* while something connects every so many polls look */

static_assert(QUEUE_KEPT_BYTES >= SHM_MESSAGE_BYTES, "a poll brings at least one message");

/* queue_failed -- reports why the parts of a queue cannot be made. */
static int queue_failed(const char *what)
{
    if (errno == EMFILE || errno == ENFILE || errno == ENOSPC)
        return error_set(STEPGATE_ELIMIT, errno, "raise the limits: ulimit -n, fs.epoll.max_user_watches",
                         "cannot %s", what);
    return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot %s", what);
}

/* queue_open -- makes the descriptors. */
static int queue_open(struct shm_queue *queue)
{
    int status;

    queue->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (queue->epoll < 0)
        return queue_failed("make a queue");
    queue->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (queue->timer < 0)
        return queue_failed("make the timer of a queue");
    queue->bell = shm_doorbell_new();
    if (queue->bell < 0)
        return queue->bell;
    status = shm_queue_watch(queue, queue->timer, EPOLLIN, &queue->quiet);
    return status < 0 ? status : shm_queue_watch(queue, queue->bell, EPOLLIN, &queue->quiet);
}

/* shm_queue_new -- there is no limit to the endpoints; the number says how much room to make at once. */
int shm_queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out)
{
    struct shm_queue *queue = calloc(1, sizeof(*queue));
    int status;

    if (queue == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a queue");
    struct stepgate_queue *base = &queue->base;
    base->transport = shm_transport();
    queue->fabric = (struct shm_fabric *)fabric;
    queue->epoll = queue->timer = queue->bell = -1;
    queue->quiet.kind = SHM_WATCH_QUIET;
    queue->room = endpoints > 0 ? endpoints : 1;
    queue->endpoints = calloc(queue->room, sizeof(struct shm_endpoint *));
    queue->kept = malloc(QUEUE_KEPT_BYTES);
    if (queue->endpoints == NULL || queue->kept == NULL)
        status = error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a queue of %u endpoints", endpoints);
    else
        status = queue_open(queue);
    if (status < 0) {
        shm_queue_delete(&base);
        return status;
    }
    *out = base;
    return 0;
}

/* shm_queue_delete -- its endpoints and listeners are gone by now. */
void shm_queue_delete(struct stepgate_queue **queue)
{
    if (queue == NULL || *queue == NULL)
        return;
    struct shm_queue *inner = (struct shm_queue *)*queue;
    if (inner->epoll >= 0)
        close(inner->epoll);
    if (inner->timer >= 0)
        close(inner->timer);
    if (inner->bell >= 0)
        close(inner->bell);
    free(inner->endpoints);
    free(inner->kept);
    free(inner);
    *queue = NULL;
}

/* shm_queue_enter -- at the end of the array. */
int shm_queue_enter(struct shm_queue *queue, struct shm_endpoint *endpoint)
{
    if (queue->count == queue->room) {
        uint32_t room = queue->room * 2;
        struct shm_endpoint **grown = realloc(queue->endpoints, room * sizeof(struct shm_endpoint *));
        if (grown == NULL)
            return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for %u endpoints on a queue", room);
        queue->endpoints = grown;
        queue->room = room;
    }
    queue->endpoints[queue->count++] = endpoint;
    return 0;
}

/* shm_queue_leave -- the last one takes its place. */
void shm_queue_leave(struct shm_queue *queue, struct shm_endpoint *endpoint)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->endpoints[i] == endpoint) {
            queue->endpoints[i] = queue->endpoints[--queue->count];
            return;
        }
    }
}

/* shm_queue_watch -- level-triggered: what a look leaves is seen by the next one. */
int shm_queue_watch(struct shm_queue *queue, int fd, uint32_t events, struct shm_watch *watch)
{
    struct epoll_event event = {.events = events | EPOLLRDHUP, .data = {.ptr = watch}};

    if (epoll_ctl(queue->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(queue->epoll, EPOLL_CTL_MOD, fd, &event) == 0))
        return 0;
    return queue_failed("watch a descriptor");
}

/* shm_queue_unwatch -- it is no error if it is not there. */
void shm_queue_unwatch(struct shm_queue *queue, int fd)
{
    struct epoll_event unused = {0};

    if (fd >= 0)
        (void)epoll_ctl(queue->epoll, EPOLL_CTL_DEL, fd, &unused);
}

/* shm_queue_room -- behind what this poll has kept already. */
uint8_t *shm_queue_room(struct shm_queue *queue, size_t *bytes)
{
    *bytes = QUEUE_KEPT_BYTES - queue->kept_bytes;
    return queue->kept + queue->kept_bytes;
}

/* shm_queue_keep -- each begins at a multiple of 8. */
const void *shm_queue_keep(struct shm_queue *queue, size_t bytes)
{
    const void *data = queue->kept + queue->kept_bytes;

    queue->kept_bytes += (bytes + 7) & ~(size_t)7;
    return data;
}

/* shm_queue_stir -- our own doorbell. */
void shm_queue_stir(struct shm_queue *queue)
{
    if (queue->armed)
        shm_doorbell_ring(queue->bell);
}

/* queue_dispatch -- one descriptor of the epoll set wants attention. */
static void queue_dispatch(const struct shm_watch *watch)
{
    switch (watch->kind) {
    case SHM_WATCH_ENDPOINT: shm_endpoint_look(watch->owner); break;
    case SHM_WATCH_LISTENER: shm_listener_look(watch->owner); break;
    case SHM_WATCH_CALLER: shm_caller_look(watch->owner); break;
    case SHM_WATCH_QUIET: break;
    }
}

/* queue_deadlines -- looks at what has one; returns the next one. */
static uint64_t queue_deadlines(struct shm_queue *queue, uint64_t now)
{
    uint64_t next = CLOCK_NEVER;

    for (uint32_t i = 0; i < queue->count; i++) {
        uint64_t at = shm_endpoint_deadline(queue->endpoints[i], now);
        next = at < next ? at : next;
    }
    for (struct shm_listener *listener = queue->listeners; listener != NULL; listener = listener->next) {
        uint64_t at = shm_listener_deadline(listener, now);
        next = at < next ? at : next;
    }
    return next;
}

/* queue_look -- makes the system calls. It changes what endpoints and listeners know; events are made afterwards. */
static void queue_look(struct shm_queue *queue)
{
    struct epoll_event ready[QUEUE_BATCH];
    int n = QUEUE_BATCH;

    for (int batch = 0; batch < QUEUE_BATCHES && n == QUEUE_BATCH; batch++) {
        n = epoll_wait(queue->epoll, ready, QUEUE_BATCH, 0);
        for (int i = 0; i < n; i++)
            queue_dispatch(ready[i].data.ptr);
    }
    if (queue->waiting > 0)
        (void)queue_deadlines(queue, clock_now());
}

/* queue_quiet -- takes what woke the caller. */
static void queue_quiet(struct shm_queue *queue)
{
    uint64_t count;
    ssize_t taken = read(queue->timer, &count, sizeof(count));

    (void)taken;
    shm_doorbell_clear(queue->bell);
}

/* queue_disarm -- the doorbell is cleared before the rings are looked at: who rings later rings for a later record. */
static void queue_disarm(struct shm_queue *queue)
{
    queue->armed = false;
    queue_quiet(queue);
    for (uint32_t i = 0; i < queue->count; i++)
        shm_endpoint_disarm(queue->endpoints[i]);
}

/* queue_due -- is it time for system calls? The coarse clock costs a load; its tick is 1 to 10 ms. */
static bool queue_due(struct shm_queue *queue)
{
    struct timespec time;

    if (queue->waiting > 0 && queue->polls % QUEUE_LOOK_WAITING == 0)
        return true;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    uint64_t now = (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
    if (now - queue->looked < QUEUE_LOOK_NS)
        return false;
    queue->looked = now;
    return true;
}

/* shm_queue_poll -- events are made here and nowhere else, so that none is left over for an endpoint that is deleted. */
int shm_queue_poll(struct stepgate_queue *base, struct stepgate_event *events, int max)
{
    struct shm_queue *queue = (struct shm_queue *)base;
    bool armed = queue->armed, last = false;
    int n = 0;

    queue->kept_bytes = 0;
    queue->polls++;
    if (armed)
        queue_disarm(queue);
    if (armed || queue_due(queue))
        queue_look(queue);
    for (struct shm_listener *listener = queue->listeners; listener != NULL; listener = listener->next)
        n += shm_listener_take(listener, events + n, max - n);
    uint32_t count = queue->count, at = queue->next < count ? queue->next : 0;
    queue->next = at + 1; /* in turn, so that one endpoint can't starve the others */
    for (uint32_t i = 0; i < count && n < max && !last; i++) {
        n += shm_endpoint_take(queue->endpoints[at], events + n, max - n, &last);
        at = at + 1 < count ? at + 1 : 0;
    }
    return n;
}

/* queue_set_timer -- for the next deadline. */
static int queue_set_timer(struct shm_queue *queue)
{
    uint64_t at = queue->waiting > 0 ? queue_deadlines(queue, clock_now()) : CLOCK_NEVER;
    struct itimerspec when = {0};

    if (at == CLOCK_NEVER && !queue->timed)
        return 0;
    queue->timed = at != CLOCK_NEVER;
    if (queue->timed) { /* else it is stopped */
        when.it_value.tv_sec = (time_t)(at / UINT64_C(1000000000));
        when.it_value.tv_nsec = (long)(at % UINT64_C(1000000000));
    }
    return timerfd_settime(queue->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* shm_queue_arm -- first asks to be woken, then looks whether there is something already. */
int shm_queue_arm(struct stepgate_queue *base)
{
    struct shm_queue *queue = (struct shm_queue *)base;
    struct epoll_event ready;

    queue_quiet(queue); /* whoever rang so far has put its record into a ring that is looked at below */
    queue->armed = true;
    for (struct shm_listener *listener = queue->listeners; listener != NULL; listener = listener->next)
        if (shm_listener_pending(listener))
            return 1;
    for (uint32_t i = 0; i < queue->count; i++)
        if (shm_endpoint_arm(queue->endpoints[i]))
            return 1;
    if (queue_set_timer(queue) != 0)
        return 1;
    return epoll_wait(queue->epoll, &ready, 1, 0) > 0;
}

/* shm_queue_fd -- the epoll descriptor. */
int shm_queue_fd(struct stepgate_queue *queue)
{
    return ((struct shm_queue *)queue)->epoll;
}
