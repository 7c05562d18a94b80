/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefix -- the sum of the first contributions of a step, made while the others are still on their way. Where every step has every worker's contribution, whose
 * order is that of the ranks, the sum of ranks 0 to k - 1 is the beginning of the mean as mean.h forms it, to the bit. Which contributions were summed is noted, and
 * looked at again when the order has come: what does not fit the order is not used.
 */
#ifndef PS_LANE_PREFIX_H
#define PS_LANE_PREFIX_H

#include "ps/lane/arrival.h"
#include "ps/lane/board.h"

struct prefix;

/* prefix_new -- of a board that has an arena for it; arrivals: [workers * depth], the lane's own. Errors: ENOMEM. */
int prefix_new(const struct board *board, uint32_t lane, const struct arrival *arrivals, struct prefix **out);
void prefix_delete(struct prefix **prefix);
/* prefix_progress -- sums one piece, some ten thousand elements. Not while an order is carried out. Returns 1 if there was one. */
int prefix_progress(struct prefix *prefix);
/* prefix_begin -- before the board's order is carried out: what was not summed of the order's own contributions is forgotten. */
void prefix_begin(struct prefix *prefix);
/*
 * prefix_count -- how many contributions of the order's set, from the first on, are summed in the arena at element `first` of a fragment: 0, or at least 2. Down to
 * *end, which is lowered, it is as many.
 */
uint32_t prefix_count(const struct prefix *prefix, uint32_t group, size_t fragment, uint64_t first,
                      uint64_t *end);
/* prefix_over -- the board's order was carried out: after a step nothing of what was summed holds. */
void prefix_over(struct prefix *prefix);

#endif
