/* SPDX-License-Identifier: BSD-3-Clause */
/* member -- one ps or worker of a crew: what it is told in its environment, where it listens, and when it is started again. */
#ifndef WORKER_LAUNCH_MEMBER_H
#define WORKER_LAUNCH_MEMBER_H

#include <stdint.h>

#include "worker/launch/child.h"
#include "worker/launch/crew.h"

struct member {
    struct child child;
    bool server; /* a ps */
    unsigned rank;
    char address[HOSTS_ADDRESS_BYTES]; /* of a ps; "" before it has said it */
    unsigned restarts;                 /* how often it was started again */
    uint64_t start_at;                 /* when it is started again; CLOCK_NEVER: it is not to be */
};

/* member_init -- not started. The member stays where it is from now on. */
void member_init(struct member *member, bool server, unsigned rank);
/*
 * member_start -- also again, when member_is_drained: hosts is ps_hosts as far as it is known. A ps that has said where it listens is to listen
 * there again, for everybody knows it by that address. Errors: as child_start.
 */
int member_start(struct member *member, const struct crew_plan *plan, const char *hosts, struct sink *out,
                 struct sink *err);
/* member_is_drained -- all that it has written was read, or nobody is waited for any more who holds its outputs open. */
bool member_is_drained(const struct member *member, bool given_up);

#endif
