/* SPDX-License-Identifier: BSD-3-Clause */
/* compare -- what a ps holds of a piece of a variable, with what the reference has. */
#ifndef TESTS_SIMULATION_COMPARE_H
#define TESTS_SIMULATION_COMPARE_H

#include "ps/shard/inside.h"
#include "tests/simulation/reference.h"

/* compare_state -- optimizer slots, master copy and average, with that state. NULL: all have the same bits, or the name of one that hasn't; *compared is raised by each. */
const char *compare_state(const struct reference *reference, const struct shard_model *model,
                          const struct plan_piece *piece, const struct reference_state *state,
                          uint64_t *compared);
/* compare_aux -- what a ps keeps for each worker of an aux variable: is it the same? */
bool compare_aux(const struct reference *reference, const struct shard_model *model,
                 const struct plan_piece *piece);

#endif
