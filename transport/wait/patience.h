/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience -- what a thread that waits does next. It only decides, from times; who waits carries it out.
 *
 *   spin       looks again, always
 *   adaptive   looks again for PATIENCE_SPIN_NS where there are processors to spare; gives its processor away, looks, and so on for PATIENCE_YIELD_NS; then
 *              sleeps. To be woken costs about as long as this lasts. Where a processor that was given away is late to come back, as it is
 *              beside a program that always computes, it sleeps at once for PATIENCE_REST_NS, and if that happens again, for
 *              twice as long each time: a thread that is woken is let in sooner than one that gave way.
 *   sleep      sleeps at once
 */
#ifndef TRANSPORT_WAIT_PATIENCE_H
#define TRANSPORT_WAIT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define PATIENCE_SPIN_NS UINT64_C(50000)
#define PATIENCE_YIELD_NS UINT64_C(100000)
#define PATIENCE_LATE_NS UINT64_C(2000000)
#define PATIENCE_REST_NS UINT64_C(10000000)
#define PATIENCE_REST_MOST (16 * PATIENCE_REST_NS)

/* In the order of the knob's choices. */
enum patience_mode { PATIENCE_SPIN = 0, PATIENCE_ADAPTIVE = 1, PATIENCE_SLEEP = 2 };

enum patience_act { PATIENCE_LOOKS, PATIENCE_YIELDS, PATIENCE_SLEEPS };

struct patience {
    enum patience_mode mode;
    bool spare;          /* there are more processors than threads that poll */
    uint64_t rest_until; /* it sleeps at once until then */
    uint64_t rest;       /* how long it last did */
};

/* patience_next -- since: when it began to wait, or was woken last. */
enum patience_act patience_next(const struct patience *patience, uint64_t since, uint64_t now);
/* patience_gave -- its processor was given away at one time, and back at the other. */
void patience_gave(struct patience *patience, uint64_t away, uint64_t back);

#endif
