/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/base/error.h"

/* guard_detach -- nothing that is meant for the launcher reaches the guard, and it keeps nothing open that somebody waits for. */
static void guard_detach(int in)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid();
    if (in != STDIN_FILENO)
        dup2(in, STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    prctl(PR_SET_NAME, "stepgate-guard");
    if (chdir("/") != 0)
        return; /* it only keeps a file system busy */
}

/* guard_main -- collects groups until the pipe ends; 0 on it says that there is nothing left to do. */
static void guard_main(void)
{
    pid_t group;
    pid_t *groups = NULL;
    size_t count = 0, size = 0;

    for (;;) {
        ssize_t n = read(STDIN_FILENO, &group, sizeof(group)); /* so short that it is written in one piece */
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(group))
            break;
        if (group == 0)
            _exit(0);
        if (count == size) {
            size_t larger = size > 0 ? size * 2 : 64;
            pid_t *moved = realloc(groups, larger * sizeof(*groups));
            if (moved == NULL)
                continue;
            groups = moved;
            size = larger;
        }
        groups[count++] = group;
    }
    for (size_t i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    _exit(0);
}

/* guard_start -- forks it. */
int guard_start(struct guard *guard)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set(STEPGATE_ELIMIT, errno, "raise the limit: ulimit -n", "cannot make a pipe");
    pid_t pid = fork();
    if (pid < 0) {
        int os_errno = errno;
        close(ends[0]);
        close(ends[1]);
        return error_set(STEPGATE_ESYSTEM, os_errno, "raise the limit: ulimit -u", "cannot start a process");
    }
    if (pid == 0) {
        guard_detach(ends[0]);
        guard_main();
    }
    close(ends[0]);
    *guard = (struct guard){.pid = pid, .pipe = ends[1]};
    return 0;
}

/* guard_watch -- tells it a group. */
void guard_watch(struct guard *guard, pid_t group)
{
    /* If the guard is gone there is nobody to tell; the children still have their own signal for the launcher's death. */
    ssize_t written = write(guard->pipe, &group, sizeof(group));
    (void)written;
}

/* guard_release -- tells it to end, and waits until it has. */
void guard_release(struct guard *guard)
{
    guard_watch(guard, 0);
    close(guard->pipe);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
