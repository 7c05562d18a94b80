/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job -- a small whole job in this process: ps and workers, each in a thread, through the public calls. What becomes of each is reported, and nothing
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
#define JOB_PS 2 /* at most */
#define JOB_FIRST_PS JOB_WORKERS
#define JOB_OBSERVER (JOB_FIRST_PS + JOB_PS)
#define JOB_ACTORS (JOB_OBSERVER + 1) /* the workers by rank, then the ps, then the observer */
#define JOB_LOG_BYTES 16384

/* What is done in a job, beside training a few steps. */
struct job_plan {
    const char *name;
    const char *const *keys; /* of the model: names and values in turn, up to NULL */
    bool checkpoints;        /* the ps have a folder, and a checkpoint is asked for */
    bool sets;               /* who contributed is recorded, or replayed where a job went before */
    bool
        again; /* a job of the same plan that is not reported went before in the same folder: it is gone on with, or replayed */
    bool looks;    /* snapshots, slots, counts and changes of hyper-parameters */
    bool two;      /* ps */
    bool observes; /* an observer reads the last step */
    bool secret;   /* in a file, which all of them read */
    bool
        loses; /* the last ps is stopped in mid-training, and comes back: the job goes back to a checkpoint */
    bool program; /* the ps is stepgate-ps, which reads its flags and writes to its streams */
    bool varies;  /* its values are not the same each time */
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
