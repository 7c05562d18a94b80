/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout -- where the ps and workers of a job that share a machine are to run: which core each lane has, which ones the workers have, and
 * on which NUMA node a ps's memory lies. It only chooses; binding carries it out.
 *
 *   auto     lanes on cores of their own, beside the RDMA device, then on the cores nearest to it; workers on the other cores. With fewer cores
 *            than lanes and workers nothing is pinned; nor on a machine with one node and no device, where no core is better than another.
 *   node:1   the same, beside that node instead of the device
 *   0-3,8    lane i on the i-th processor of the list, again from the first behind the last; workers on processors that are not in it
 *   none     wherever the system puts them
 */
#ifndef TRANSPORT_PLACE_LAYOUT_H
#define TRANSPORT_PLACE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/place/machine.h"
#include "transport/place/nic.h"

/* What shares the machine. */
struct layout_wish {
    const char *bind;      /* as above */
    const struct nic *nic; /* NULL: no RDMA device */
    unsigned servers;      /* at least 1 */
    unsigned lanes;        /* of each; 0: as many as the list has, or the node that is asked for */
    unsigned workers;
};

struct layout {
    unsigned servers, lanes, workers;
    bool pinned;         /* lane_cpus and workers count */
    unsigned *lane_cpus; /* [servers * lanes] */
    int *
        memory; /* [servers] the system's number of the node of its memory; -1: wherever the system puts it */
    unsigned *worker_cpus; /* those of worker 0, of worker 1, ...; each worker's rise */
    unsigned
        *worker_first; /* [workers + 1] places in worker_cpus; a worker without any runs where it likes */
    char why[256];     /* what decided, in words */
};

/* layout_check -- is this a text that bind can have? Whether it fits the machine is seen later. */
bool layout_check(const char *bind);
/* layout_choose -- Errors: EINVAL (malformed, or names a processor or node that may not be used), ENOMEM. */
int layout_choose(const struct machine *machine, const struct layout_wish *wish, struct layout **out);
/* layout_delete -- sets NULL, safe on NULL. */
void layout_delete(struct layout **layout);

#endif
