/* SPDX-License-Identifier: BSD-3-Clause */
/* neighbour -- who of the job shares the host of this ps, as far as its lists tell: what decides how many cores there are for its lanes. */
#ifndef PS_SERVER_NEIGHBOUR_H
#define PS_SERVER_NEIGHBOUR_H

#include "transport/base/hosts.h"

struct neighbour_count {
    unsigned servers; /* on this host, this one among them; at least 1 */
    unsigned index;   /* of this one among them */
    unsigned workers; /* that may be on this host */
};

/*
 * neighbour_count -- listen: where ps `number` listens; ps: the list of all; worker_hosts: the knob, NULL or "" where nothing but the
 * number of workers is said, so that all of them may be here. A ps whose address is not known here may be on this host. Errors: EINVAL.
 */
int neighbour_count(const char *listen, unsigned number, const struct hosts *ps, const char *worker_hosts,
                    unsigned workers, struct neighbour_count *out);

#endif
