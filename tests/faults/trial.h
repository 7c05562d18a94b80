/* SPDX-License-Identifier: BSD-3-Clause */
/* trial -- one job in a process of its own, one of whose points fails, and what is to be said of it. Several run beside each other: most of them wait. */
#ifndef TESTS_FAULTS_TRIAL_H
#define TESTS_FAULTS_TRIAL_H

#include <sys/types.h>

#include "tests/faults/job.h"

#define TRIAL_FOLDER_BYTES 64

/* What came of it. */
enum trial_verdict {
    TRIAL_WRONG,   /* as trial_judge has said */
    TRIAL_REFUSED, /* an error that says what failed */
    TRIAL_SAME,    /* the result of a job in which nothing failed */
    TRIAL_WHOLE    /* nothing failed: there are fewer points */
};

struct trial {
    pid_t pid; /* 0: none */
    uint64_t number;
    uint64_t begun, until; /* milliseconds of trial_now */
    uint64_t starved;      /* processes that the kernel had killed for want of memory when it began */
    char folder[TRIAL_FOLDER_BYTES];
    struct job_report *report; /* shared with the process */
    bool overdue;
};

/* trial_now -- milliseconds of a clock that never jumps. */
uint64_t trial_now(void);
/* trial_new -- room for one; NULL: there is none. */
struct trial *trial_new(void);
/* trial_delete -- no process may run. */
void trial_delete(struct trial **trial);
/* trial_start -- begins one, in a folder that is made in `work`. 0, or -1: no process, no folder. */
int trial_start(struct trial *trial, const struct job_plan *plan, const struct job_ground *ground,
                const char *work, uint64_t number);
/* trial_ended -- looks whether it has, and kills it if it is overdue; *status as waitpid gives it. */
bool trial_ended(struct trial *trial, int *status);
/* trial_judge -- of one that has ended; values: what a job gives in which nothing fails (0: not known yet). Says what is wrong. */
enum trial_verdict trial_judge(const struct trial *trial, const struct job_plan *plan, int status,
                               uint64_t values);

#endif
