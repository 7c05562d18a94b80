/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/arrival.h"

/* arrival_add -- see arrival.h. */
enum arrival_verdict arrival_add(struct arrival *arrival, uint8_t all, uint32_t group, uint64_t sequence)
{
    uint8_t span = (uint8_t)(1u << group);

#ifndef STEPGATE_MUTANT_LATE_CHUNK_ACCEPTED
    if (sequence + 1 < arrival->next)
        return ARRIVAL_STALE;
    if (sequence + 1 > arrival->next)
        *arrival = (struct arrival){.next = sequence + 1};
#else
    arrival->next = sequence + 1;
    if (arrival->spans == all)
        arrival->spans = 0;
#endif
    if (arrival->spans & span)
        return ARRIVAL_AGAIN;
    arrival->spans |= span;
    return arrival->spans == all ? ARRIVAL_WHOLE : ARRIVAL_NEW;
}
