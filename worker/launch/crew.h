/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew -- all ps and workers of a job on this machine, from their start to the end of the last of them.
 *
 *   ps 0 starts and says where it listens; the other ps start with that address; when all have said theirs the workers start.
 *
 *   who                        what                                  when
 *   a child fails              the others may end by themselves,     close_timeout + 2 s
 *                              so that what they have to say is seen
 *   a child is killed or ends  it is started again as it was, a ps   0.25 s, then twice
 *   with status 75, restarts   at the address that it has said       as long each time
 *   a worker fails, spare      nothing: the job decides whether it goes on
 *   all workers have ended     the ps may end by themselves          2 s
 *   a signal for the launcher  goes to the workers; the ps follow    close_timeout + 2 s
 *                              when the workers have ended
 *   SIGTERM, and the ps have   goes to the ps, which write the newest step    20 s + close_timeout + 2 s
 *   a folder for checkpoints   and end the job for the workers
 *   nobody reads the output    SIGTERM to the workers; the ps follow     close_timeout + 2 s
 *   then                       SIGTERM to whoever is left, after     close_timeout
 *                              that SIGKILL
 *   a second Ctrl-C            SIGKILL to all                        at once
 *   the launcher is killed     its guard kills all                   at once
 */
#ifndef WORKER_LAUNCH_CREW_H
#define WORKER_LAUNCH_CREW_H

#include "transport/base/hosts.h"
#include "transport/base/knob.h"
#include "transport/place/layout.h"

struct crew_plan {
    const char *server;         /* the program stepgate-ps */
    char *const *program;       /* argv of a worker */
    unsigned servers, workers;  /* at least 1 each */
    const struct knobs *knobs;  /* those that are given go to every child */
    struct hosts_entry listen;  /* port 0: free ones; else ps i listens on port + i */
    const struct layout *seats; /* where workers sit; NULL: wherever they like */
    int secret;                 /* descriptor to inherit; -1: none */
    bool spare;        /* a worker that fails ends nobody else, as long as another runs or has done well */
    unsigned restarts; /* how often members are started again, all together */
};

/* crew_run -- returns the exit status: of the child that failed first (one that only lost a peer counts after others), else 0. */
int crew_run(const struct crew_plan *plan);

#endif
