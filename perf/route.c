/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/route.h"

#include "worker/api/inside.h"

/* route_of -- see route.h. */
int route_of(struct stepgate_job *job, struct stepgate_capabilities *out)
{
    struct stepgate_capabilities can = {.size = sizeof(can)};

    job_lock(job);
    int status = session_capabilities(job->session, &can);
    job_unlock(job);
    if (status == 0)
        *out = can;
    return status;
}
