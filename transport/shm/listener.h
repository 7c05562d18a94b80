/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * listener -- waits for connections. Who has connected but not said what for yet is a caller; with its request frame it becomes a request.
 */
#ifndef TRANSPORT_SHM_LISTENER_H
#define TRANSPORT_SHM_LISTENER_H

#include <stdbool.h>

#include "stepgate/transport.h"
#include "transport/shm/frame.h"
#include "transport/shm/queue.h"

struct shm_request {
    struct stepgate_request base;
    int fd;
    int pid;
    struct shm_frame frame; /* with the doorbell */
    struct shm_request *next;
};

struct shm_caller {
    struct shm_watch watch;
    struct shm_listener *listener;
    int fd;
    int pid;
    uint64_t deadline;
    struct shm_caller *next;
};

struct shm_listener {
    struct stepgate_listener base;
    struct shm_watch watch;
    struct shm_queue *queue;
    struct shm_listener *next;
    int fd;
    uint64_t stalled; /* no descriptor was free: when to try again; 0: not stalled */
    struct shm_caller *callers;
    struct shm_request *first, **last; /* not taken yet */
    char address[STEPGATE_ADDRESS_BYTES];
};

int shm_listener_new(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out);
int shm_listener_address(struct stepgate_listener *listener, char *text, size_t bytes);
void shm_listener_delete(struct stepgate_listener **listener);
void shm_request_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes);

/* shm_request_reject -- consumes a request with a status (positive code; 0: the program refused). */
void shm_request_reject(struct shm_request *request, int code, const void *hello, uint32_t hello_bytes);

/* For the queue: the socket of a listener or caller wants attention; the next deadline, after what has passed was dealt with; the events
 * that are there; are there any? */
void shm_listener_look(struct shm_listener *listener);
void shm_caller_look(struct shm_caller *caller);
uint64_t shm_listener_deadline(struct shm_listener *listener, uint64_t now);
int shm_listener_take(struct shm_listener *listener, struct stepgate_event *events, int max);
bool shm_listener_pending(const struct shm_listener *listener);

#endif
