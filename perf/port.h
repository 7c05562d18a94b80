/* SPDX-License-Identifier: BSD-3-Clause */
/* port -- the port of an RDMA device that a measurement uses: what the system says of it, and what it counts meanwhile. */
#ifndef PERF_PORT_H
#define PERF_PORT_H

#include <jansson.h>

#include "stepgate/transport.h"

/* port_new -- conditions with the unit in the keys: of the device, and of the connection's path; path NULL: there is none. NULL: it is no RDMA device. */
json_t *port_new(const char *device, const struct stepgate_path *path);
/* port_line -- conditions in one line. */
void port_line(const json_t *conditions, char *out, size_t bytes);
/* port_counters -- what the device has counted at the port so far, by name; an empty object where it counts nothing. */
json_t *port_counters(const char *device, unsigned port);
/* port_deltas -- what has changed between two looks. */
json_t *port_deltas(const json_t *before, const json_t *after);

#endif
