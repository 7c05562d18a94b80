/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus -- how many processors this process may use at once. */
#ifndef TRANSPORT_PLACE_CPUS_H
#define TRANSPORT_PLACE_CPUS_H

#include <stddef.h>

/* cpus_allowed -- processors in the calling thread's affinity, or fewer where a control group's
 * quota is smaller; at least 1. */
unsigned cpus_allowed(void);

/* cpus_of_quota -- what a line of cpu.max ("200000 100000", "max 100000") allows, rounded down, at
 * least 1; 0: no limit. */
unsigned cpus_of_quota(const char *line);

/* cpus_text -- numbers that rise, as "0-3,8"; one that does not fit ends in "...". */
void cpus_text(const unsigned *cpus, unsigned count, char *out, size_t bytes);

#endif
