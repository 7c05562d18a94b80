/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JOB -- membership of this process in a job, as a worker; or, with job_name=observer, as a reader (tune.h).
 *
 * Timeouts everywhere are milliseconds: 0 = try once, -1 = the job's knob. A call with 0 that returns -STEPGATE_EAGAIN has started:
 * repeat it until it is done; stepgate_job_fd() turns readable when repeating may help.
 *
 * Threads: one thread at a time per model; pushes of different variables may come from any threads at once; different models and
 * jobs run in parallel. A child after fork gets -STEPGATE_EFORKED; its parent is unharmed.
 *
 * With the option lost_ps=rewind any call may give -STEPGATE_EREWOUND, of class OPERATION: the job goes back to a checkpoint, and stepgate_step_begin is the next one to call (step.h).
 *
 * After an error of class JOB every call repeats that code, and only _delete is left.
 */
#ifndef STEPGATE_JOB_H
#define STEPGATE_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "stepgate/option.h"

struct stepgate_job;

/*
 * stepgate_job_join -- connects to every ps of the job and introduces this worker. options are copied. With ms 0 and -STEPGATE_EAGAIN,
 * *job is set to the unfinished job: repeat with it (the argument must then be non-NULL on input), or delete it; so *job must be NULL at first.
 * Errors: EJOIN (not everybody there in time: names who), EWRONGJOB, EVERSION, EAUTH, ERANK, ENODEVICE, EADDRESS, EINVAL.
 */
int stepgate_job_join(const struct stepgate_options *options, int ms, struct stepgate_job **job);
/* stepgate_job_delete -- bounded by close_timeout, whatever state; without a leave before it, the ps take this worker for lost. */
void stepgate_job_delete(struct stepgate_job **job);

int stepgate_job_role(const struct stepgate_job *job);              /* enum stepgate_role */
int stepgate_job_rank(const struct stepgate_job *job);              /* 0 .. size-1; of an observer: -1 */
int stepgate_job_size(const struct stepgate_job *job);              /* number of workers, T */
int stepgate_job_servers(const struct stepgate_job *job);           /* number of ps */
const char *stepgate_job_transport(const struct stepgate_job *job); /* "shm", "verbs" or "shm+verbs" */

/* stepgate_job_fd -- readable when repeating a call that returned -STEPGATE_EAGAIN may help; owned by the job. */
int stepgate_job_fd(struct stepgate_job *job);
/* stepgate_job_progress -- moves events and heartbeats on without waiting; for service=off. */
int stepgate_job_progress(struct stepgate_job *job);
/* stepgate_job_interrupt -- async-signal-safe: the wait that is under way (or the next one) returns -STEPGATE_EINTR. */
void stepgate_job_interrupt(struct stepgate_job *job);
/* stepgate_job_barrier -- returns when every worker of the job is in it. A worker that waits there holds nobody back in update bounded, and afterwards nobody
 * counts as ahead. */
int stepgate_job_barrier(struct stepgate_job *job, int ms);
/*
 * stepgate_job_leave -- says good-bye to every ps: this worker is done. Nothing but _delete is left afterwards. In update strict with R >= T every worker must run the same
 * number of steps: when others contribute to one that a worker left out, the job ends with -STEPGATE_ELOST; with R < T, tf, async and bounded they go on.
 */
int stepgate_job_leave(struct stepgate_job *job, int ms);
/* stepgate_job_error -- the first error of class JOB, copied (error->size set by the caller); returns its negative code, 0 if none. */
int stepgate_job_error(const struct stepgate_job *job, struct stepgate_error *error);

struct stepgate_job_stats {
    size_t size;           /* set by the caller: sizeof(struct stepgate_job_stats) */
    uint64_t steps;        /* begins that succeeded, over all models */
    uint64_t bytes_pushed; /* gradient bytes handed to the transport or copied into slots */
    uint64_t bytes_pulled; /* parameter bytes moved to this process; 0 where they are mapped */
    uint64_t bytes_copied; /* bytes copied by this process's CPU on either way */
    uint64_t pushes, pulls;
    uint64_t wait_ns;      /* time spent in waits of begin and pull */
    uint64_t pull_retries; /* reads that were repeated, since a ps went on to another step meanwhile */
    uint64_t reconnects;   /* how often the connections to a ps were made anew */
};
/* stepgate_job_stats -- counters since the join. */
int stepgate_job_stats(const struct stepgate_job *job, struct stepgate_job_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
