/* SPDX-License-Identifier: BSD-3-Clause */
/* restarts -- who may be started again: one budget for all ps and workers of a crew, and a pause that grows for whoever fails again. */
#ifndef WORKER_LAUNCH_RESTARTS_H
#define WORKER_LAUNCH_RESTARTS_H

#include <stdint.h>

#include "worker/launch/child.h"

struct restarts {
    unsigned most, used;
};

/* restarts_take -- for a child that has ended; true: it may be started again, which is counted. Another try helps one that a signal ended or that says so itself. */
bool restarts_take(struct restarts *restarts, const struct child *child);
/* restarts_pause_ms -- between its end and its start, for one that was started again `times` times before. */
int64_t restarts_pause_ms(unsigned times);

#endif
