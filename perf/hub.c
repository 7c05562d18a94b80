/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/hub.h"

#include <stdlib.h>
#include <string.h>

#include "perf/lane.h"
#include "perf/server.h"

/* hub_ports -- of a hub that has been opened. */
static int hub_ports(struct hub *hub, uint32_t connections)
{
    hub->wire.ports = calloc(connections, sizeof(*hub->wire.ports));
    if (hub->wire.ports == NULL)
        return wire_wrong(&hub->wire, "no memory for connections");
    hub->wire.port_count = connections;
    for (uint32_t i = 0; i < connections; i++)
        wire_port(&hub->wire.ports[i], &hub->wire, hub->wire.queue);
    return 0;
}

/* hub_new -- see hub.h. */
int hub_new(struct hub *hub, const struct settings *s, uint32_t connections, char *address, size_t bytes)
{
    bool yields = hub->wire.yields;

    memset(hub, 0, sizeof(*hub));
    hub->wire.yields = yields;
    hub->wire.can.size = sizeof(hub->wire.can);
    hub->wire.inline_most = (uint32_t)s->inline_bytes;
    if (wire_open(&hub->wire, s, connections + 1) != 0 || hub_ports(hub, connections) != 0)
        return -1;
    return server_listen(&hub->wire, s, true, address, bytes);
}

/* hub_beside -- see hub.h. */
int hub_beside(struct hub *hub, struct wire *server, uint32_t connections)
{
    memset(hub, 0, sizeof(*hub));
    int status = server->transport->queue_new(server->fabric, connections, &hub->queue);
    if (status < 0)
        return wire_fail(&hub->wire, status, "further connections");
    wire_port(&hub->wire, server, hub->queue);
    if (hub_ports(hub, connections) != 0)
        return -1;
    server->ports = hub->wire.ports;
    server->port_count = connections;
    return 0;
}

/* hub_attend -- one port. 0 or -1. */
static int hub_attend(struct hub *hub, struct wire *port)
{
    if (port->endpoint == NULL)
        return 0;
    if (port->gone) {
        wire_free(port);
        hub->gone++;
        return 0;
    }
    if (port->heard && port->region == NULL)
        return server_settle(port);
    if (port->heard) {
        port->heard = false;
        return server_obey(port);
    }
    return port->region != NULL ? lane_confirm(port) : 0;
}

/* hub_progress -- see hub.h. A client may go at any time: only a failure of another kind is one of the hub. */
int hub_progress(struct hub *hub)
{
    if (wire_progress(&hub->wire) < 0)
        return -1;
    for (uint32_t i = 0; i < hub->wire.port_count; i++) {
        struct wire *port = &hub->wire.ports[i];
        if (hub_attend(hub, port) != 0 && !port->gone)
            return wire_wrong(&hub->wire, port->text);
    }
    return 0;
}

/* hub_free -- see hub.h. */
void hub_free(struct hub *hub)
{
    for (uint32_t i = 0; hub->wire.ports != NULL && i < hub->wire.port_count; i++)
        wire_free(&hub->wire.ports[i]);
    free(hub->wire.ports);
    hub->wire.ports = NULL;
    if (hub->queue != NULL)
        hub->wire.transport->queue_delete(&hub->queue);
    wire_free(&hub->wire);
}
