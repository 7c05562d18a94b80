/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * child -- one ps or worker that the launcher started: its process group, its outputs and how it ended. An ended child is not
 * reaped before child_clear, so that its group's number cannot come to mean somebody else.
 */
#ifndef WORKER_LAUNCH_CHILD_H
#define WORKER_LAUNCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "worker/launch/stream.h"

/* One variable of the environment; value NULL: not set. */
struct child_setting {
    const char *name;
    const char *value;
};

/* How to start a child. */
struct child_start {
    char *const *argv; /* [0] is looked for in PATH if it has no slash */
    const struct child_setting *settings;
    size_t count;
    int secret; /* a descriptor that it inherits; -1: none */
    bool live;  /* its standard output is a terminal of its own, so that it shows progress in place */
    const unsigned *cpus; /* processors that it may use */
    unsigned cpu_count;   /* 0: those of the launcher */
    struct sink *out, *err;
};

struct child {
    char name[32];  /* "worker 0" */
    char label[32]; /* "worker 0: " */
    pid_t pid;      /* 0: not started; also the number of its process group */
    bool ended;
    bool told;   /* the launcher sent it a signal to end */
    bool killed; /* by the launcher, with SIGKILL */
    int status;  /* of its exit; 0 if a signal ended it */
    int signal;  /* that ended it; 0: none */
    struct stream out, err;
};

/* child_start -- name is set before; also again, after child_clear. Errors: ESYSTEM, ELIMIT. A program that cannot be executed ends with 126 or 127 and says why. */
int child_start(struct child *child, const struct child_start *start);
/* child_look -- whether it has ended since the last look. */
bool child_look(struct child *child);
/* child_is_running -- started and not ended. */
bool child_is_running(const struct child *child);
/* child_signal -- to its whole process group, if it is running. */
void child_signal(struct child *child, int number);
/* child_failed -- ended, and not with status 0. */
bool child_failed(const struct child *child);
/* child_exit_status -- its status as a shell would tell it. */
int child_exit_status(const struct child *child);
/* child_describe -- how it ended: "worker 2 was killed by signal 9 (Killed)". */
void child_describe(const struct child *child, char *out, size_t bytes);
/* child_sweep -- kills what is left of its process group. */
void child_sweep(const struct child *child);
/* child_clear -- closes its outputs and reaps it. */
void child_clear(struct child *child);

#endif
