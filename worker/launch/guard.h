/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard -- a small process that ends the launcher's children when the launcher itself is killed and cannot. It knows their process
 * groups, so that the children of a child end too, and holds nothing else of the launcher's open.
 */
#ifndef WORKER_LAUNCH_GUARD_H
#define WORKER_LAUNCH_GUARD_H

#include <sys/types.h>

struct guard {
    pid_t pid;
    int pipe; /* written by the launcher; its end tells the guard that the launcher is gone */
};

/* guard_start -- before the first child. Errors: ESYSTEM, ELIMIT. */
int guard_start(struct guard *guard);
/* guard_watch -- one more process group. */
void guard_watch(struct guard *guard, pid_t group);
/* guard_forget -- before the last process of a group is reaped, after which its number may be somebody else's. */
void guard_forget(struct guard *guard, pid_t group);
/* guard_release -- every child has ended: the guard ends and does nothing. */
void guard_release(struct guard *guard);

#endif
