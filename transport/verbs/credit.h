/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit -- who may consume a receive of the peer. Each end posts CREDIT_RECEIVES receives before the connection is made;
 * every SEND and every write-with-immediate consumes one. Reposted receives are *owed* to the peer and announced in the
 * header of the next frame, or in a frame of its own once CREDIT_THRESHOLD are owed.
 *
 * The last CREDIT_RESERVE credits may be used by credit frames only. No deadlock: suppose both ends are out of credits with nothing under
 * way. The frame sent last (in causal order) was then a credit frame; it announced at least CREDIT_THRESHOLD, so that its receiver
 * was not out of credits when it came, and has sent nothing since: a contradiction. An end that is blocked at the reserve has sent more than
 * CREDIT_THRESHOLD frames that are not announced, so that its peer owes enough to announce them.
 */
#ifndef TRANSPORT_VERBS_CREDIT_H
#define TRANSPORT_VERBS_CREDIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define CREDIT_RECEIVES 64U
#define CREDIT_RESERVE 2U
#define CREDIT_THRESHOLD 16U
#define CREDIT_REPOST 8U /* receives are posted in lists of this length */

static_assert(CREDIT_RECEIVES - CREDIT_RESERVE - (CREDIT_REPOST - 1) >= CREDIT_THRESHOLD,
              "an end blocked at the reserve must be owed an announcement");

struct credit {
    uint32_t available; /* receives of the peer that we may consume */
    uint32_t owed;      /* receives posted again here, not yet announced */
};

/* credit_init -- the state at the start of a connection. */
void credit_init(struct credit *credit);
/* credit_may_send -- a notify or a message may go now. */
bool credit_may_send(const struct credit *credit);
/* credit_may_return -- a credit frame is due and may go now. */
bool credit_may_return(const struct credit *credit);
/* credit_take -- one receive of the peer is consumed. */
void credit_take(struct credit *credit);
/* credit_owe -- n receives were posted again. */
void credit_owe(struct credit *credit, uint32_t n);
/* credit_claim -- all that is owed, to be announced in a frame now; it is owed no more. */
uint16_t credit_claim(struct credit *credit);
/* credit_gain -- the peer announced n; false: more than it can have, the peer is broken. */
bool credit_gain(struct credit *credit, uint32_t n);

#endif
