/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/wait/patience.h"

/* patience_next -- see patience.h. */
enum patience_act patience_next(const struct patience *patience, uint64_t since, uint64_t now)
{
    uint64_t waited = now - since, spins = patience->spare ? PATIENCE_SPIN_NS : 0;

    if (patience->mode == PATIENCE_SPIN)
        return PATIENCE_LOOKS;
    if (patience->mode == PATIENCE_SLEEP || now < patience->rest_until)
        return PATIENCE_SLEEPS;
    if (waited < spins)
        return PATIENCE_LOOKS;
    return waited < spins + PATIENCE_YIELD_NS ? PATIENCE_YIELDS : PATIENCE_SLEEPS;
}

/* patience_gave -- see patience.h. */
void patience_gave(struct patience *patience, uint64_t away, uint64_t back)
{
    bool again = away < patience->rest_until + patience->rest;

    if (back - away < PATIENCE_LATE_NS)
        return;
    patience->rest = !again                                ? PATIENCE_REST_NS
                     : patience->rest < PATIENCE_REST_MOST ? 2 * patience->rest
                                                           : patience->rest;
    patience->rest_until = back + patience->rest;
}
