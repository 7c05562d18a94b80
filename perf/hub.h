/* SPDX-License-Identifier: BSD-3-Clause */
/* hub -- the server's end of many wires: one queue, and for each connection a port with memory of its own, as a lane has them of its workers. */
#ifndef PERF_HUB_H
#define PERF_HUB_H

#include "perf/wire.h"

struct hub {
    struct wire wire;             /* what listens; its ports are the connections */
    struct stepgate_queue *queue; /* of a hub beside a server; else NULL: the wire's is its own */
    uint32_t gone;                /* ports whose clients have left */
};

/* hub_new -- listens for so many connections, and tells where. 0, or -1 with `text` in the hub's wire. */
int hub_new(struct hub *hub, const struct settings *settings, uint32_t connections, char *address,
            size_t bytes);
/* hub_beside -- for so many further connections that come to a server's listener: they share what it has opened, but for a queue of their own. 0, or -1 with `text` in
 * the hub's wire. */
int hub_beside(struct hub *hub, struct wire *server, uint32_t connections);
/* hub_progress -- looks once at the queue, and does what every port was asked for: orders, and contributions to be confirmed. 0 or -1. */
int hub_progress(struct hub *hub);
/* hub_free -- everything. */
void hub_free(struct hub *hub);

#endif
