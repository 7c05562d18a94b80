/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue -- one completion queue and one event channel of the connection manager, so that one thread serves all that happens to its
 * endpoints. queue_fd is an epoll descriptor over the completion channel, the connection manager, the device's asynchronous events, a
 * timer (deadlines of connecting) and a wake-up from other queues.
 *
 * A work request carries where it belongs:  bit 63 receive | 48..62 generation | 32..47 slot | 0..31 running number or receive.
 * Completions of an endpoint that is gone are known by their generation.
 */
#ifndef TRANSPORT_VERBS_QUEUE_H
#define TRANSPORT_VERBS_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "stepgate/transport.h"
#include "transport/verbs/device.h"

#define QUEUE_BATCH 32
#define QUEUE_HELD 64U
#define QUEUE_RECEIVE (UINT64_C(1) << 63)
#define QUEUE_GENERATIONS 0x7fffU

struct endpoint;

struct queue_held {
    struct endpoint *endpoint;
    uint32_t receive;
};

struct queue {
    struct stepgate_queue base;
    struct device *device;
    struct rdma_event_channel *cm;
    struct ibv_comp_channel *comp;
    struct ibv_cq *cq;
    int epoll, timer, wake;
    uint32_t capacity, count; /* endpoints: room, and present */
    uint32_t depth;           /* send queue of each endpoint */
    struct endpoint **slots;
    uint16_t *generations;
    struct ibv_wc wc[QUEUE_BATCH]; /* taken from the device, not yet looked at */
    int wc_next, wc_count;
    struct ibv_wc *stash; /* taken while an endpoint was deleted: see queue_stash_room */
    uint32_t stash_next, stash_count, stash_size;
    struct queue_held held[QUEUE_HELD]; /* receives whose data the caller may look at until the next poll */
    uint32_t held_count;
    uint32_t held_back;                    /* endpoints with operations that the next poll hands over */
    uint32_t connecting, closing, failing; /* endpoints in these states */
    uint32_t unheard;                      /* endpoints that may have to nudge their peers */
    uint64_t polls;
    unsigned cq_events; /* taken, not acknowledged */
    bool armed;
    bool fatal_seen;
    atomic_int async; /* an endpoint's async flag, or the device's, was set: release; our exchange acquires */
    int device_status;
    char device_text[128];
    bool device_event;
};

int queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out);
void queue_delete(struct stepgate_queue **queue);
int queue_poll(struct stepgate_queue *queue, struct stepgate_event *events, int max);
int queue_arm(struct stepgate_queue *queue);
int queue_fd(struct stepgate_queue *queue);

/* queue_enter -- gives an endpoint a slot. Errors: ELIMIT. */
int queue_enter(struct queue *queue, struct endpoint *endpoint);
/* queue_hold_back -- the endpoint has operations that wait for another one, or for the next poll. */
void queue_hold_back(struct queue *queue, struct endpoint *endpoint);
/* queue_leave -- frees the slot and forgets the endpoint's held receives; its completions are unknown from here on. */
void queue_leave(struct queue *queue, struct endpoint *endpoint);
/* queue_request_id -- the number of a work request of an endpoint. */
uint64_t queue_request_id(const struct endpoint *endpoint, bool receive, uint32_t number);
/* queue_find -- the endpoint of a completion, or NULL. */
struct endpoint *queue_find(struct queue *queue, uint64_t request_id);
/* queue_hold -- keeps a receive until the next poll; the caller has checked that there is room. */
void queue_hold(struct queue *queue, struct endpoint *endpoint, uint32_t receive);
/* queue_stash_room -- room for a batch at the end of the stash; NULL: no memory. Filled in by the caller, who then adds to
 * stash_count. The stash is looked at after wc[] and before the device, so that the order of completions is kept. */
struct ibv_wc *queue_stash_room(struct queue *queue);
/* queue_wake -- makes the queue of another thread look at its async flags. */
void queue_wake(struct queue *queue);

#endif
