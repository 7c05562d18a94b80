/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint -- a connection to one peer: a queue pair, its ring of operations, its credits, and where it stands.
 *
 *   active:   ADDRESS -> ROUTE -> ANSWER -> UP          passive:  ACCEPTED -> UP
 *   any of them -> CLOSING (what came before the end is still taken from the completion queue)
 *               -> FAILING (the queue pair is destroyed; flagged operations are reported) -> DOWN (DISCONNECTED was reported)
 */
#ifndef TRANSPORT_VERBS_ENDPOINT_H
#define TRANSPORT_VERBS_ENDPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "stepgate/transport.h"
#include "transport/verbs/credit.h"
#include "transport/verbs/device.h"
#include "transport/verbs/frame.h"
#include "transport/verbs/queue.h"
#include "transport/verbs/ring.h"

enum endpoint_state {
    ENDPOINT_NEW = 0,
    ENDPOINT_ADDRESS = 1,
    ENDPOINT_ROUTE = 2,
    ENDPOINT_ANSWER = 3,
    ENDPOINT_ACCEPTED = 4,
    ENDPOINT_UP = 5,
    ENDPOINT_CLOSING = 6,
    ENDPOINT_FAILING = 7,
    ENDPOINT_DOWN = 8
};

/* Whose a connection manager's identifier is: its context points to one of these, embedded in the owner. */
enum owner_kind { OWNER_ENDPOINT = 1, OWNER_LISTENER = 2, OWNER_REQUEST = 3 };
struct owner {
    enum owner_kind kind;
};
#define OWNER_OF(pointer, type) ((type *)(void *)((char *)(pointer)-offsetof(type, owner)))

#define ENDPOINT_STAGES 16U /* registered frames for messages too long for inline */
#define ENDPOINT_FRAMES_BYTES ((size_t)(CREDIT_RECEIVES + ENDPOINT_STAGES) * FRAME_STRIDE) /* registered */
#define ENDPOINT_NUDGES 8U
#define ENDPOINT_NUDGE_MS 20    /* the first, each next one after twice the time */
#define ENDPOINT_SIGNAL_MAX 16U /* every so many requests one is signalled */

static_assert(ENDPOINT_SIGNAL_MAX <= ENDPOINT_STAGES,
              "among the requests that hold all stages one must be signalled");

struct endpoint {
    struct stepgate_endpoint base;
    struct owner owner;
    struct queue *queue;
    struct domain *domain;
    struct rdma_cm_id *id; /* NULL once the connection has ended */
    bool active, has_qp, heard, open_due, held_back;
    enum endpoint_state state;
    uint16_t slot, generation;
    uint64_t deadline; /* of connecting, and then of the next nudge */
    uint8_t nudges;    /* that may still be sent, while nothing has come: see connection_nudge */
    char peer[STEPGATE_ADDRESS_BYTES];
    uint8_t hello[STEPGATE_HELLO_BYTES]; /* ours until it was sent, then the peer's */
    bool hello_came;
    /* the end */
    int status;
    bool closed; /* by the other side */
    char why[256];
    const char *remedy;
    uint64_t closing_since; /* count of the queue's polls */
    atomic_int async;       /* set by the thread that met the event (relaxed), read by ours */
    /* sending */
    struct ring ring;
    struct credit credit;
    uint32_t depth;      /* of the send queue */
    uint32_t sent, done; /* work requests, running numbers */
    uint32_t since_signal, signal_every;
    uint32_t reads, reads_limit; /* in flight, and how many may be */
    uint32_t inline_bytes;
    uint32_t stages_used, stages_taken; /* in use now; running number */
    uint8_t *store;  /* frames of waiting messages, one per place of the ring; touched when used */
    uint8_t *frames; /* registered: CREDIT_RECEIVES receives, then ENDPOINT_STAGES stages */
    struct ibv_mr *frames_mr;
    /* receiving */
    uint8_t repost[CREDIT_REPOST];
    uint32_t repost_count;
};

/* endpoint_new -- an endpoint with its memory and a place on the queue. Errors: ENOMEM, ELIMIT. */
int endpoint_new(struct queue *queue, struct domain *domain, void *user, struct endpoint **out);
/* endpoint_free -- gives everything back; whatever state it is in. */
void endpoint_free(struct endpoint *endpoint);
/* endpoint_create_qp -- the queue pair on endpoint->id, with all receives posted. Errors: ELIMIT, ENOMEM, ENOTSUP, ESYSTEM. */
int endpoint_create_qp(struct endpoint *endpoint);
/* endpoint_set_state -- moves on, and keeps the counters of the queue. */
void endpoint_set_state(struct endpoint *endpoint, enum endpoint_state state);
/* endpoint_up -- the connection stands. */
void endpoint_up(struct endpoint *endpoint);
/* endpoint_has_heard -- something has come, or nothing ever will. */
void endpoint_has_heard(struct endpoint *endpoint);
/* endpoint_close -- the connection has broken with a positive code; only the first reason counts. */
void endpoint_close(struct endpoint *endpoint, int code, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* endpoint_closed -- the same, because the other side has closed it. */
void endpoint_closed(struct endpoint *endpoint, const char *remedy, const char *why);
/* endpoint_end -- takes the connection down: from here on nobody reads or writes through it. */
void endpoint_end(struct endpoint *endpoint);
/* endpoint_report -- the next event of a failing endpoint. */
void endpoint_report(struct endpoint *endpoint, struct stepgate_event *event);
/* endpoint_release -- a receive may be posted again. */
void endpoint_release(struct endpoint *endpoint, uint32_t receive);
/* endpoint_receive -- the memory of a receive. */
uint8_t *endpoint_receive(struct endpoint *endpoint, uint32_t receive);

void endpoint_delete(struct stepgate_endpoint **endpoint);
void endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes);
int endpoint_capabilities(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out);
int endpoint_export(struct stepgate_endpoint *endpoint, struct stepgate_region *region, unsigned access,
                    struct stepgate_descriptor *out);
int endpoint_import(struct stepgate_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                    struct stepgate_remote **out);

#endif
