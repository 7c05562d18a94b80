/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire -- a connection between two processes to be measured, through the transport contract alone. Over shm, or over verbs with --address, both are on this
 * host: the measuring one makes the other. Over verbs without it one is the server, started by hand, and the other is given its address.
 *
 * Each has a region of two halves of the same size: what the peer writes or reads, and what is written from or read into. A measuring client
 * sends orders, one for each case; its server does its part of each until the client leaves. With -q there are further connections between the
 * two, each with a region of its own: the client's on the queue of the first one, the server's on a hub's.
 */
#ifndef PERF_WIRE_H
#define PERF_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "perf/lines.h"
#include "perf/settings.h"
#include "stepgate/transport.h"

#define WIRE_TEXT 1024
#define WIRE_MESSAGE 128 /* the longest message that is no order */

enum wire_what {
    WIRE_IDLE = 1, /* the server's memory is used, its processor is not */
    WIRE_PING =
        2, /* until the next order: answers each write of `size` bytes, seen by its last byte, by one */
    WIRE_NOTIFY = 3, /* until the next order: answers each notify */
    WIRE_CHECK = 4,  /* looks whether its half holds the pattern of `seed`, and says so */
    WIRE_FILL = 5,   /* fills its half with the pattern of `seed` */
    WIRE_LINES = 6,  /* until they are stopped: answers on the lines that both processes have */
    WIRE_TOKEN = 7,  /* until the next order: takes headers, answers each by a token (lane.h) */
    WIRE_SLOT = 8,   /* until the next order: takes contributions, confirms each (lane.h) */
    WIRE_WORDS = 9,  /* lets the parameters of step `seed` be read (lane.h) */
    WIRE_WIDEN = 10  /* makes room for `seed` further connections */
};

struct wire_order {
    uint32_t magic, what;
    uint64_t good; /* in the answer */
    uint64_t offset, size, seed;
};

struct hub;

struct wire {
    const struct stepgate_transport_v1 *transport;
    struct stepgate_fabric *fabric;
    struct stepgate_domain *domain;
    struct stepgate_queue *queue;
    struct stepgate_listener *listener;
    struct stepgate_endpoint *endpoint;
    struct stepgate_region *region;
    struct stepgate_remote *remote; /* the peer's region */
    struct stepgate_capabilities can;
    uint64_t half;        /* bytes of each half */
    uint32_t inline_most; /* writes up to this size are inline */
    struct lines *lines;  /* shared with the process that was made here; NULL: with none */
    pid_t peer;           /* the process that was made here; 0: none */
    bool connected, gone;
    uint64_t completed; /* completions that came */
    uint64_t notifies;
    uint32_t notified; /* the last value */
    bool heard;        /* an order, an answer or a grant has come */
    struct wire_order order;
    bool takes_messages; /* that are no orders: the last one is kept */
    uint64_t messages;
    uint32_t message_bytes;
    uint8_t message[WIRE_MESSAGE];
    struct stepgate_descriptor descriptor;
    uint64_t taken;       /* notifies that were answered: lane.c */
    uint64_t first, seen; /* completions before a flow, and those that it has counted: transfer.c */
    struct wire *ports; /* of a hub one for each connection, of others one for each further one; else NULL */
    uint32_t port_count;
    struct hub *hub; /* of a server whose client has further connections: what has its ports; else NULL */
    bool is_port;    /* fabric, domain and queue are another one's */
    bool whole;      /* a client's: it fails with any of its connections */
    bool yields;     /* gives its processor away whenever there is nothing to do */
    char text[WIRE_TEXT]; /* what went wrong */
};

/* wire_client -- the measuring end, connected as often as the settings say; half: bytes that a case needs at most. 0, or -1 with `text` in the wire. */
int wire_client(struct wire *wire, const struct settings *settings, uint64_t half);
/* wire_close -- the client has no more orders; the process made here ends. 0, or -1 if it failed. */
int wire_close(struct wire *wire);

/* wire_progress -- looks once at the queue. Negative: the peer is gone, or a completion was bad. */
int wire_progress(struct wire *wire);
/* wire_tell -- sends an order; wire_ask -- and waits for its answer. 0 or -1. */
int wire_tell(struct wire *wire, const struct wire_order *order);
int wire_ask(struct wire *wire, struct wire_order *order);
/* wire_count, wire_at -- the connections of a client: number 0 is the wire itself. */
uint32_t wire_count(const struct wire *wire);
struct wire *wire_at(struct wire *wire, uint32_t number);
/* wire_inbound, wire_outbound -- the halves. */
uint8_t *wire_inbound(const struct wire *wire);
uint8_t *wire_outbound(const struct wire *wire);
/* wire_fill, wire_holds -- the pattern of a seed. */
void wire_fill(uint8_t *bytes, uint64_t size, uint64_t seed);
bool wire_holds(const uint8_t *bytes, uint64_t size, uint64_t seed);
/* wire_write, wire_read -- post one operation, from or into the outbound half at `offset`, into or from the peer's inbound half at the same place; a full queue is polled
 * until there is room. flags: STEPGATE_POST_COMPLETE (a read always has it), STEPGATE_POST_MORE. Negative: as wire_progress. */
int wire_write(struct wire *wire, uint64_t offset, uint64_t size, unsigned flags);
int wire_read(struct wire *wire, uint64_t offset, uint64_t size, unsigned flags);
int wire_notify(struct wire *wire, uint32_t value);
/* wire_send -- a message. */
int wire_send(struct wire *wire, const void *data, uint32_t bytes);

/* What makes the two ends of a wire. */

/* wire_port -- makes a wire of zeros one that shares what another one has opened, with a queue. */
void wire_port(struct wire *port, const struct wire *of, struct stepgate_queue *queue);
/* wire_open -- fabric, domain and queue for so many connections, in a wire of zeros. */
int wire_open(struct wire *wire, const struct settings *settings, uint32_t connections);
/* wire_bind -- the calling thread to a processor of its own, if there are two: the measuring one is number 0. */
int wire_bind(struct wire *wire, const struct settings *settings, unsigned index);
/* wire_region -- memory of two halves; wire_grant -- for the peer to use; wire_import -- the peer's, whose grant has come. */
int wire_region(struct wire *wire, uint64_t half);
int wire_grant(struct wire *wire);
int wire_import(struct wire *wire);
/* wire_await -- polls until *flag, with the patience that a step of the talk before a measurement may need; wrong: what to say otherwise. */
int wire_await(struct wire *wire, const bool *flag, const char *wrong);
/* wire_fail, wire_wrong -- the library's last error, or a text of ours, is what went wrong, if nothing was before. -1. */
int wire_fail(struct wire *wire, int code, const char *what);
int wire_wrong(struct wire *wire, const char *text);
/* wire_free -- everything but the peer's process. */
void wire_free(struct wire *wire);

#endif
