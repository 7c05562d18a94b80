/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/child.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/clock.h"

#define CHILD_PATIENCE_NS UINT64_C(5000000000)

/* child_read -- the line, until the child closes its end. */
static size_t child_read(int pipe, char *line, size_t bytes)
{
    size_t length = 0;
    ssize_t n;

    while (length + 1 < bytes && (n = read(pipe, line + length, bytes - 1 - length)) > 0)
        length += (size_t)n;
    line[length] = '\0';
    return length;
}

/* child_new -- see child.h. */
pid_t child_new(void (*life)(void *context, int pipe), void *context, char *line, size_t bytes)
{
    int ends[2];
    pid_t parent = getpid(), child = -1;

    snprintf(line, bytes, "no process could be made");
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        if (getppid() == parent)
            life(context, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    if (child > 0 && child_read(ends[0], line, bytes) > 0 && line[0] == '!') {
        memmove(line, line + 1, strlen(line));
        (void)child_end(&child);
        child = -1;
    }
    close(ends[0]);
    return child;
}

/* child_wait -- see child.h. */
int child_wait(pid_t *child)
{
    int status = 0;

    if (*child > 0 && waitpid(*child, &status, 0) < 0)
        status = -1;
    *child = 0;
    return status;
}

/* child_end -- see child.h. */
int child_end(pid_t *child)
{
    uint64_t begin = perf_clock_now();
    int status = 0;

    if (*child <= 0)
        return 0;
    while (waitpid(*child, &status, WNOHANG) == 0)
        if (perf_clock_now() - begin > CHILD_PATIENCE_NS)
            kill(*child, SIGKILL);
        else
            sched_yield();
    *child = 0;
    return status;
}
