/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue -- looks at the rings of its endpoints. queue_fd is an epoll descriptor over the doorbell that peers ring, the sockets, and a
 * timer for deadlines of connecting. While the program polls busily, system calls are made about every millisecond only, and at once
 * after the queue was armed.
 */
#ifndef TRANSPORT_SHM_QUEUE_H
#define TRANSPORT_SHM_QUEUE_H

#include <stdbool.h>

#include "stepgate/transport.h"
#include "transport/shm/fabric.h"

struct shm_endpoint;
struct shm_listener;

/* What a descriptor in the epoll set belongs to. */
enum shm_watch_kind { SHM_WATCH_QUIET, SHM_WATCH_ENDPOINT, SHM_WATCH_LISTENER, SHM_WATCH_CALLER };
struct shm_watch {
    enum shm_watch_kind kind;
    void *owner;
};

struct shm_queue {
    struct stepgate_queue base;
    struct shm_fabric *fabric;
    int epoll, timer, bell;
    struct shm_watch quiet; /* timer and doorbell: they wake, and say no more */
    struct shm_endpoint **endpoints;
    uint32_t count, room, next;
    uint32_t waiting; /* endpoints and callers with a deadline */
    struct shm_listener *listeners;
    uint8_t *kept; /* data of the events of the last poll */
    size_t kept_bytes;
    uint64_t polls, looked;
    bool armed, timed; /* timed: the timer is set */
};

int shm_queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out);
void shm_queue_delete(struct stepgate_queue **queue);
int shm_queue_poll(struct stepgate_queue *queue, struct stepgate_event *events, int max);
int shm_queue_arm(struct stepgate_queue *queue);
int shm_queue_fd(struct stepgate_queue *queue);

/* shm_queue_enter, shm_queue_leave -- an endpoint comes and goes. Errors: ENOMEM. */
int shm_queue_enter(struct shm_queue *queue, struct shm_endpoint *endpoint);
void shm_queue_leave(struct shm_queue *queue, struct shm_endpoint *endpoint);
/* shm_queue_watch -- puts a descriptor into the epoll set; events 0: hang-ups alone. Errors: ELIMIT, ESYSTEM. */
int shm_queue_watch(struct shm_queue *queue, int fd, uint32_t events, struct shm_watch *watch);
/* shm_queue_unwatch -- takes it out. Always before close: a child of this process may hold a copy, and keep it in the set. */
void shm_queue_unwatch(struct shm_queue *queue, int fd);
/* shm_queue_room -- where data that lives until the next poll may be written, and how much of it. */
uint8_t *shm_queue_room(struct shm_queue *queue, size_t *bytes);
/* shm_queue_keep -- keeps what was written there. */
const void *shm_queue_keep(struct shm_queue *queue, size_t bytes);
/* shm_queue_stir -- there is an event now: wakes the caller if it sleeps or is about to. */
void shm_queue_stir(struct shm_queue *queue);

#endif
