/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link -- a connection between two members of the job: an endpoint, its handshake, an outbox for messages that the endpoint
 * cannot take yet, heartbeats and liveness. A state machine: it is told the time, and posts through the contract.
 *
 *   active:   CONNECTING -> (CONNECTED: sends its proof) -> PROVING -> (peer's proof is right) -> UP
 *   passive:  CONNECTING -> (CONNECTED)                  -> PROVING -> (peer's proof is right: sends its own) -> UP
 *                                                                   -> (it is wrong: says ABORT, EAUTH) -> DOWN
 *   any       -> DOWN, for good, unless it is held; link->error says why
 *
 * A link that was up and is held (link_hold) has lost its connection and nothing else: it is connected or accepted anew, with the same peer, and
 * then every message that one side has not received is sent again, in its place. Proofs and heartbeats say how many were.
 *
 * A link belongs to one thread: that of its queue. The endpoint's `user` is the link.
 */
#ifndef PS_PROTOCOL_LINK_H
#define PS_PROTOCOL_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/protocol/message.h"
#include "ps/protocol/outbox.h"
#include "stepgate/transport.h"
#include "transport/handshake/hello.h"
#include "transport/handshake/proof.h"

enum link_state { LINK_NEW = 0, LINK_CONNECTING = 1, LINK_PROVING = 2, LINK_UP = 3, LINK_DOWN = 4 };

enum link_event_kind {
    LINK_NOTHING = 0,
    LINK_CAME_UP = 1,    /* both proofs were right */
    LINK_MESSAGE = 2,    /* link->message holds it, until the next link_event */
    LINK_NOTIFY = 3,     /* event->value */
    LINK_COMPLETION = 4, /* event->context, event->status */
    LINK_WENT_DOWN = 5   /* once; link->error says why */
};

/* What ended a link that is down. */
enum link_end {
    LINK_END_REASON =
        0, /* a refusal, a violation, silence, want of memory, a process that is gone: another connection would not help */
    LINK_END_BROKEN = 1, /* the connection failed under it */
    LINK_END_CLOSED = 2  /* the other side has closed it, or perhaps its process is gone */
};

#define LINK_OPENING_BYTES 64u

struct link {
    struct stepgate_endpoint *endpoint;
    void *owner; /* of the user's */
    int tag;     /* of the user's */
    enum link_state state;
    bool active;
    bool came_up;      /* once */
    bool held;         /* from link_hold until it is up again */
    enum link_end end; /* of a link that is down */
    uint64_t peer;     /* incarnation of whom it was up with */
    struct hello mine, theirs;
    uint8_t mine_bytes[STEPGATE_HELLO_BYTES], theirs_bytes[STEPGATE_HELLO_BYTES];
    const struct proof_secret *secret;
    uint64_t liveness_ns; /* 0: no heartbeats are sent or expected */
    uint64_t last_sent, last_heard;
    uint64_t
        last_looked; /* by link_progress; a long gap means that this process was stopped, and says nothing of the peer */
    uint64_t stopped_ms; /* the last such gap; 0: none */
    struct stepgate_error error;
    struct message message;
    struct outbox outbox;
    uint64_t received, told; /* messages counted so far; how many of them the peer was told of */
    uint8_t opening
        [LINK_OPENING_BYTES]; /* a proof, or its refusal, that waits: it comes before all that is kept */
    uint16_t opening_length;
};

/* link_init -- a link that is not connected; secret must outlive it. liveness_ms 0: no heartbeats. */
void link_init(struct link *link, const struct proof_secret *secret, int64_t liveness_ms);
/* link_connect -- the active side: hello is completed with a fresh nonce. */
int link_connect(struct link *link, struct stepgate_queue *queue, struct stepgate_domain *domain,
                 const char *address, const struct hello *hello, uint64_t now);
/* link_accept -- the passive side; theirs are the peer's hello bytes from the request event (56 of them). Consumes the request. */
int link_accept(struct link *link, struct stepgate_request *request, struct stepgate_queue *queue,
                struct stepgate_domain *domain, const struct hello *hello, const void *theirs,
                uint32_t theirs_length, uint64_t now);
/* link_event -- takes an event of its endpoint, returns enum link_event_kind: what the user should look at. */
int link_event(struct link *link, const struct stepgate_event *event, uint64_t now);
/* link_device -- an event of a device, which belongs to no link. What it says is the last error of this thread; true: the device is lost, false: it is worth a line. */
bool link_device(const struct stepgate_event *event);
/* link_send -- queues a message; it is sent at once if the endpoint takes it, in order in any case; on a held link when it is up again. Errors: EPEER (down), ENOMEM. */
int link_send(struct link *link, const struct message *message, uint64_t now);
/* link_progress -- sends what waits in the outbox, heartbeats, and looks at liveness: returns LINK_NOTHING or LINK_WENT_DOWN (once). */
int link_progress(struct link *link, uint64_t now);
/* link_acknowledge -- tells the peer at once how much has come. */
void link_acknowledge(struct link *link, uint64_t now);
/* link_hold -- the connection goes, what was said over it stays. Of a link that was never up nothing stays. */
void link_hold(struct link *link);
/* link_kept -- does it hold messages that the peer may not have received? */
bool link_kept(const struct link *link);
/* link_idle -- nothing waits in the outbox. */
bool link_idle(const struct link *link);
/* link_deadline -- when link_progress wants to be called at the latest. */
uint64_t link_deadline(const struct link *link);
/* link_fail -- takes the link down with the last error of this thread (for protocol violations met by the user). */
void link_fail(struct link *link);
/* Events taken from a queue and not all looked at yet. */
struct link_batch {
    struct stepgate_event *events;
    int count;
};
/* link_forget -- takes the events of the link's endpoint out of the batch; before a link_close that may come in the middle of one. */
void link_forget(const struct link *link, struct link_batch *batch);
/* link_close -- deletes the endpoint and frees the outbox; may be connected anew after link_init. */
void link_close(struct link *link);

#endif
