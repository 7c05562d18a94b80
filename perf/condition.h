/* SPDX-License-Identifier: BSD-3-Clause */
/* condition -- under what a measurement was made: machine, system, processors, memory, versions. What cannot be read is null. */
#ifndef PERF_CONDITION_H
#define PERF_CONDITION_H

#include <jansson.h>

/* condition_new -- one object with unit in the keys; NULL: no memory. */
json_t *condition_new(void);
/* condition_line -- text in one line: "AMD EPYC, 2 processors (0-1), 1 NUMA node, kernel 6.1.0-49-amd64". */
void condition_line(const json_t *conditions, char *out, size_t bytes);

#endif
