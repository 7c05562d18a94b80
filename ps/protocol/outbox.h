/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox -- what a link has to say, in order: packed messages that wait for the endpoint, and behind them those that are sent and of which the
 * peer has not said yet that it has them. These are sent again when the connection was rebuilt: whoever hands in a message need not know.
 *
 *   | done with | sent, not acknowledged | to be sent | free |
 *               head                     next         used
 *
 * Messages are counted, not numbered: the n-th that is handed in is the n-th that arrives. Not counted, nor kept, are those that mean
 * something on one connection alone: heartbeats, and what comes with a descriptor.
 */
#ifndef PS_PROTOCOL_OUTBOX_H
#define PS_PROTOCOL_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTBOX_BYTES_MAX (UINT32_C(64) << 20) /* a peer that takes nothing for so long is not kept */

struct outbox {
    uint8_t *bytes; /* messages, the length (u16) before each */
    size_t head, next, used, size;
    uint64_t acknowledged; /* messages counted so far that are done with */
};

/* outbox_counts -- is a message of this kind counted and kept? */
bool outbox_counts(int kind);
/* outbox_put -- a copy of a packed message, behind all others. Errors: ENOMEM. */
int outbox_put(struct outbox *outbox, const uint8_t *data, uint16_t length);
/* outbox_next -- the first message that is to be sent; NULL: there is none. */
const uint8_t *outbox_next(const struct outbox *outbox, uint16_t *length);
/* outbox_sent -- it is. */
void outbox_sent(struct outbox *outbox);
/* outbox_acknowledge -- the peer has received so many. Errors: EPROTOCOL (more than were sent, or fewer than it has said). */
int outbox_acknowledge(struct outbox *outbox, uint64_t received);
/* outbox_hold -- the connection is gone: what was meant for it alone is dropped. */
void outbox_hold(struct outbox *outbox);
/* outbox_again -- there is another one, and the peer has received so many: all others are to be sent again. Errors: as above. */
int outbox_again(struct outbox *outbox, uint64_t received);
/* outbox_idle -- nothing waits to be sent. */
bool outbox_idle(const struct outbox *outbox);
/* outbox_kept -- is there something that the peer has not acknowledged? */
bool outbox_kept(const struct outbox *outbox);
/* outbox_clear -- frees everything, counts from 0. */
void outbox_clear(struct outbox *outbox);

#endif
