/* SPDX-License-Identifier: BSD-3-Clause */
/* route -- how the connections of a job travel, which the public calls do not tell. */
#ifndef PERF_ROUTE_H
#define PERF_ROUTE_H

#include "stepgate/job.h"
#include "stepgate/transport.h"

/* route_of -- of this worker's connection to ps 0: device, path and limits as both ends have agreed on them. 0, or a negative code. */
int route_of(struct stepgate_job *job, struct stepgate_capabilities *out);

#endif
