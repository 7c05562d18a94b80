/* SPDX-License-Identifier: BSD-3-Clause */
/* machine -- the figures of this machine that the formulas of cost.h take: memory bandwidth and the latency of shared memory, measured now. */
#ifndef PERF_MODEL_MACHINE_H
#define PERF_MODEL_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "perf/model/cost.h"

/*
 * machine_measure -- for ps of so many lanes and a model of so many parameters: the best of some passes of a = a + b over arrays of that size, and half the shortest round trip of a
 * notify between two processes. 0, or -1 with one line in `text`.
 */
int machine_measure(uint64_t lanes, uint64_t parameters, struct cost_machine *out, char *text, size_t bytes);

#endif
