/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accumulator_gate -- the decisions of a conditional accumulator, without numbers: whether a push is stale, and which take is served when.
 *
 * The step moves on when a take is served. Takes hold tickets, are served strictly in their order, and each waits for its own number of
 * contributions, which is a minimum: a take gets all that is there. No threads.
 */
#ifndef PS_MODE_ACCUMULATOR_GATE_H
#define PS_MODE_ACCUMULATOR_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accumulator_gate {
    uint64_t step;
    uint64_t count;  /* contributions since the last take */
    uint64_t ticket; /* of the first take that waits */
    uint64_t *takes; /* what each take that waits needs, a ring */
    size_t first, waiting, room;
};

/* accumulator_gate_start -- no contribution, nobody waits. accumulator_gate_clear frees what came after. */
void accumulator_gate_start(struct accumulator_gate *gate, uint64_t step);
void accumulator_gate_clear(struct accumulator_gate *gate);
/* accumulator_gate_accepts -- would a push with this local step be accepted? One that is ahead is, too. */
bool accumulator_gate_accepts(const struct accumulator_gate *gate, uint64_t step);
/* accumulator_gate_push -- counts a contribution, unless it is stale; true: accepted. */
bool accumulator_gate_push(struct accumulator_gate *gate, uint64_t step);
/* accumulator_gate_take -- queues a take of at least n contributions. Errors: EINVAL (n <= 0), ENOMEM. */
int accumulator_gate_take(struct accumulator_gate *gate, int64_t n, uint64_t *ticket);
/* accumulator_gate_ready -- has the first take that waits what it needs? */
bool accumulator_gate_ready(const struct accumulator_gate *gate);
/* accumulator_gate_serve -- serves the first take if it is ready: its ticket, and how many contributions it got. */
bool accumulator_gate_serve(struct accumulator_gate *gate, uint64_t *ticket, uint64_t *count);
/* accumulator_gate_set_step -- sets the step whatever it was, and clears nothing. True: a warning is due, it was higher. */
bool accumulator_gate_set_step(struct accumulator_gate *gate, uint64_t step);

#endif
