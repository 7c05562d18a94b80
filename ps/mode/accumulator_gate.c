/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/mode/accumulator_gate.h"

#include <stdlib.h>

#include "transport/base/error.h"

#define GATE_ROOM_FIRST 4

/* accumulator_gate_start -- no contribution, nobody waits. */
void accumulator_gate_start(struct accumulator_gate *gate, uint64_t step)
{
    *gate = (struct accumulator_gate){.step = step};
}

/* accumulator_gate_clear -- frees. */
void accumulator_gate_clear(struct accumulator_gate *gate)
{
    free(gate->takes);
    *gate = (struct accumulator_gate){0};
}

/* accumulator_gate_accepts -- a contribution to a step that is taken is stale. */
bool accumulator_gate_accepts(const struct accumulator_gate *gate, uint64_t step)
{
#ifdef STEPGATE_MUTANT_NO_STALE_CHECK
    return gate != NULL && step + 1 > 0;
#endif
    return step >= gate->step;
}

/* accumulator_gate_push -- one more, unless stale. */
bool accumulator_gate_push(struct accumulator_gate *gate, uint64_t step)
{
    if (!accumulator_gate_accepts(gate, step))
        return false;
    gate->count++;
    return true;
}

/* accumulator_gate_grow -- room for one more take. */
static int accumulator_gate_grow(struct accumulator_gate *gate)
{
    if (gate->waiting < gate->room)
        return 0;
    size_t room = gate->room > 0 ? 2 * gate->room : GATE_ROOM_FIRST;
    uint64_t *takes = calloc(room, sizeof(*takes));
    if (takes == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu takes that wait", room);
    for (size_t i = 0; i < gate->waiting; i++)
        takes[i] = gate->takes[(gate->first + i) % gate->room];
    free(gate->takes);
    gate->takes = takes;
    gate->first = 0;
    gate->room = room;
    return 0;
}

/* accumulator_gate_take -- stands at the end of the line. */
int accumulator_gate_take(struct accumulator_gate *gate, int64_t n, uint64_t *ticket)
{
    if (n <= 0)
        return error_set(STEPGATE_EINVAL, 0, "take at least 1 contribution", "a take of %lld contributions",
                         (long long)n);
    int status = accumulator_gate_grow(gate);
    if (status != 0)
        return status;
    gate->takes[(gate->first + gate->waiting) % gate->room] = (uint64_t)n;
    *ticket = gate->ticket + gate->waiting++;
    return 0;
}

/* accumulator_gate_ready -- enough for the first in line. */
bool accumulator_gate_ready(const struct accumulator_gate *gate)
{
    return gate->waiting > 0 && gate->count >= gate->takes[gate->first];
}

/* accumulator_gate_serve -- takes all there is; from here on what was current is stale. */
bool accumulator_gate_serve(struct accumulator_gate *gate, uint64_t *ticket, uint64_t *count)
{
    if (!accumulator_gate_ready(gate))
        return false;
    *ticket = gate->ticket++;
    *count = gate->count;
    gate->first = (gate->first + 1) % gate->room;
    gate->waiting--;
    gate->count = 0;
    gate->step++;
    return true;
}

/* accumulator_gate_set_step -- unconditional. */
bool accumulator_gate_set_step(struct accumulator_gate *gate, uint64_t step)
{
    bool lower = step < gate->step;

    gate->step = step;
    return lower;
}
