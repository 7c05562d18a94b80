/* SPDX-License-Identifier: BSD-3-Clause */
/* topology -- a picture of the machine: nodes, cores, RDMA devices, and who a job would put where. Chosen by what a ps itself chooses with. */
#ifndef PERF_TOPOLOGY_H
#define PERF_TOPOLOGY_H

#include <jansson.h>
#include <stdio.h>

#include "perf/report.h"
#include "perf/settings.h"

struct topology;

/* topology_new -- of this machine, or of what HWLOC_SYNTHETIC describes. 0, or -1 with one line in `text`. */
int topology_new(const struct settings *settings, struct topology **out, char *text, size_t bytes);
/* topology_delete -- sets NULL, safe on NULL. */
void topology_delete(struct topology **topology);
/* topology_draw -- one frame a node. */
void topology_draw(const struct topology *topology, FILE *to);
/* topology_rows -- one row for each lane, each ps's memory, each worker. */
void topology_rows(const struct topology *topology, struct report *report);
/* topology_object -- everything, for JSON and for topology_plot. */
json_t *topology_object(const struct topology *topology);
/* topology_why -- what decided. */
const char *topology_why(const struct topology *topology);

/* topology_plot -- gnuplot's commands for such an object, behind those that name terminal and output. */
void topology_plot(FILE *to, const json_t *object);

#endif
