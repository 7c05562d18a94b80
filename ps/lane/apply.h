/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * apply -- carries out an order on one span: fragment by fragment, each by its kind and type. Bytes in, bytes out: knows boards, no links and
 * no steps but the order's.
 */
#ifndef PS_LANE_APPLY_H
#define PS_LANE_APPLY_H

#include "ps/lane/arrival.h"
#include "ps/lane/board.h"

struct apply;

/* apply_new -- what lane number `lane` needs to carry out a board's orders: room for pointers, and for the rows of its sparse pieces. Errors: ENOMEM. */
int apply_new(const struct board *board, uint32_t lane, struct apply **out);
void apply_delete(struct apply **apply);
/* apply_watch -- of a board with an arena for it: from now on apply_ahead may sum what has arrived; arrivals: [workers * depth]. Errors: ENOMEM. */
int apply_watch(struct apply *apply, const struct arrival *arrivals);
/* apply_ahead -- sums a piece of what has arrived of a step that is not complete. Not while an order is carried out. Returns 1 if there was one. */
int apply_ahead(struct apply *apply);
/* apply_begin -- before the first span of an order. */
void apply_begin(struct apply *apply);
/* apply_span -- the board's order, on the span of one group. Errors: ENOMEM (rows), EPROTOCOL (a push that does not fit what was declared). */
int apply_span(struct apply *apply, uint32_t group);
/* apply_over -- behind the last span of an order. */
void apply_over(struct apply *apply);

#endif
