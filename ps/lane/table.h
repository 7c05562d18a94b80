/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table -- the piece of a sparse variable that a lane owns: rows that were pushed are merged, and only they, and those of the step before, are
 * written. Cost follows rows, not the table.
 */
#ifndef PS_LANE_TABLE_H
#define PS_LANE_TABLE_H

#include "ps/lane/board.h"

struct table;

/* table_new -- of one fragment, which is a whole piece. Errors: ENOMEM. */
int table_new(const struct board *board, const struct plan_fragment *fragment, struct table **out);
void table_delete(struct table **table);
/* table_add -- merges the rows of one contribution: its indices are copied, then checked. Errors: ENOMEM, EPROTOCOL. */
int table_add(struct table *table, const struct board_contribution *contribution);
/* table_step -- the board's order, BOARD_APPLY or BOARD_CARRY. Errors: as table_add. */
int table_step(struct table *table);
/* table_measure -- adds the squares of the mean rows. Errors: as table_add. */
int table_measure(struct table *table, struct exact_sum *measure);

#endif
