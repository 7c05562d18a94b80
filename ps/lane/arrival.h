/* SPDX-License-Identifier: BSD-3-Clause */
/* arrival -- what has come of the contribution that is being written into one slot of one worker: its spans, each counted once. */
#ifndef PS_LANE_ARRIVAL_H
#define PS_LANE_ARRIVAL_H

#include <stdint.h>

struct arrival {
    uint64_t next; /* its sequence + 1; 0: nothing has come yet */
    uint8_t spans; /* bits: these groups' have arrived */
};

enum arrival_verdict {
    ARRIVAL_NEW = 1,
    ARRIVAL_WHOLE = 2, /* new, and the last one that was missing */
    ARRIVAL_AGAIN = 3, /* it was there already */
    ARRIVAL_STALE = 4  /* of a contribution before the one in the slot */
};

/* arrival_add -- the span of `group` of contribution `sequence` has come; `all`: bits of the groups there are. */
enum arrival_verdict arrival_add(struct arrival *arrival, uint8_t all, uint32_t group, uint64_t sequence);

#endif
