/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job -- a small whole job in this process: one ps and its workers, each in a thread, through the public calls. What becomes of each is reported, and nothing
 * is taken back that the library should take back itself.
 */
#ifndef TESTS_FAULTS_JOB_H
#define TESTS_FAULTS_JOB_H

#include <stdatomic.h>
#include <stdint.h>

#include "stepgate/stepgate.h"
#include "tests/faults/point.h"
#include "tests/faults/wrap.h"

#define JOB_WORKERS 2
#define JOB_ACTORS (JOB_WORKERS + 1) /* the workers by rank, then the ps */
#define JOB_LOG_BYTES 16384

/* What is done in a job, beside training a few steps. */
struct job_plan {
    const char *name;
    const char *const *server; /* knobs of the ps: names and values in turn, up to NULL */
    const char *const *keys;   /* of the model, likewise */
    bool checkpoints;          /* the ps has a folder, and a checkpoint is asked for */
    bool resumes;              /* a job that went before has left one there, and is not reported */
    bool looks;                /* snapshots, slots, counts and changes of hyper-parameters */
};

/* Where it is done. */
struct job_ground {
    const char *transport, *host; /* shm or verbs, at that address */
    unsigned kinds;               /* of points */
    const char *call;             /* of points: that one alone; NULL: all */
    int slowness;                 /* an emulated machine is given that much more time */
};

/* How it ended for one. */
struct job_end {
    int status; /* 0, or the code of the call that failed */
    struct stepgate_error error;
};

/* In memory that the parent shares. */
struct job_report {
    atomic_bool whole; /* the job has ended, and all that follows is there */
    struct point failed;
    uint64_t points;
    struct job_end end[JOB_ACTORS];
    uint64_t values;  /* a sum over what the workers read last */
    long descriptors; /* that were not given back */
    struct wrap_kept kept;
    bool leaks; /* memory, as far as there is somebody who looks */
    atomic_size_t logged;
    char log[JOB_LOG_BYTES]; /* what the library said, a line each */
};

/* job_run -- the plan, in `folder`, which is empty; point `number` fails. */
void job_run(const struct job_plan *plan, const struct job_ground *ground, const char *folder,
             uint64_t number, struct job_report *report);

#endif
