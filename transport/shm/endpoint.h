/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint -- a connection to one peer: its socket, its two rings, and where it stands.
 *
 *   active:  CALLING (the listener's queue was full: connect again) -> ASKING -> UP -> DOWN (DISCONNECTED was reported)
 *   passive:                                                                    UP -> DOWN
 *
 * `broken` says that the connection has ended and why; what came before is still delivered, then DISCONNECTED. A socket ends a moment before its process does: of
 * one that was killed it is waited for that moment, so that the end of the connection can be told from one that the peer has closed.
 */
#ifndef TRANSPORT_SHM_ENDPOINT_H
#define TRANSPORT_SHM_ENDPOINT_H

#include <stdbool.h>

#include "stepgate/transport.h"
#include "transport/shm/queue.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"

enum shm_endpoint_state { SHM_ENDPOINT_CALLING, SHM_ENDPOINT_ASKING, SHM_ENDPOINT_UP, SHM_ENDPOINT_DOWN };

/* A region that we granted: granting it again gives the same descriptor. */
struct shm_given {
    uint64_t region, number;
    unsigned access;
};

/* Memory that the peer granted; the descriptor until it is mapped, the mapping from then on, both until the endpoint is deleted. */
struct shm_grant {
    uint64_t number, length;
    unsigned access;
    int fd;
    struct shm_segment *segment;
};

struct shm_endpoint {
    struct stepgate_endpoint base;
    struct shm_watch watch;
    struct shm_queue *queue;
    struct shm_domain *domain;
    enum shm_endpoint_state state;
    int fd, bell;                     /* socket; the doorbell of the peer's queue */
    int pid;                          /* of the peer */
    bool connected_due, broken, deaf; /* deaf: the ring is not read any more, its content makes no sense */
    uint32_t operations;
    uint64_t peer_domain, connection;
    struct shm_segment *segment;
    struct shm_sender sender;
    struct shm_receiver receiver;
    uint64_t *contexts; /* of operations that have completed, a ring of `operations` */
    uint32_t completed_first, completed;
    /* connecting */
    uint64_t deadline;
    uint16_t port;
    char address[STEPGATE_ADDRESS_BYTES];
    uint32_t hello_bytes; /* ours, then the peer's */
    uint8_t hello[STEPGATE_HELLO_BYTES];
    /* the end */
    uint64_t parting; /* until then it is not told: does the peer's process end, too? 0: no need to wait */
    int process;      /* while parting: readable when it has */
    bool died;        /* it has */
    int code;
    const char *remedy;
    char why[256];
    /* grants, see remote.h */
    struct shm_given *given;
    uint32_t given_count, given_room;
    struct shm_grant *grants;
    uint32_t grant_count, grant_room;
};

int shm_endpoint_connect(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                         const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out);
int shm_endpoint_accept(struct stepgate_request *request, struct stepgate_queue *queue,
                        struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                        struct stepgate_endpoint **out);
void shm_endpoint_delete(struct stepgate_endpoint **endpoint);
void shm_endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes);
int shm_endpoint_capabilities(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out);

/* shm_endpoint_break -- the connection has ended with a positive code; only the first reason counts. */
void shm_endpoint_break(struct shm_endpoint *endpoint, int code, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* For the queue: the socket wants attention; the next deadline, after what has passed was dealt with; the events that are there (*last:
 * the last error is that of an event, so the poll ends here); asks to be rung for, true: there is something already; no more. */
void shm_endpoint_look(struct shm_endpoint *endpoint);
uint64_t shm_endpoint_deadline(struct shm_endpoint *endpoint, uint64_t now);
int shm_endpoint_take(struct shm_endpoint *endpoint, struct stepgate_event *events, int max, bool *last);
bool shm_endpoint_arm(struct shm_endpoint *endpoint);
void shm_endpoint_disarm(struct shm_endpoint *endpoint);

#endif
