/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/base/error.h"

#define GUARD_WORD "stepgate"
#define GUARD_FD (STDERR_FILENO + 1) /* whatever gets the number of an output may be written to by mistake */

/* What goes through the pipe, so short that it is written in one piece. What does not begin with the word is not for the guard. */
struct guard_frame {
    char word[sizeof(GUARD_WORD) - 1];
    pid_t group; /* negative: is to be forgotten; 0: there is nothing left to do */
};
_Static_assert(sizeof(struct guard_frame) == sizeof(GUARD_WORD) - 1 + sizeof(pid_t), "a frame has no holes");

/* guard_detach -- nothing that is meant for the launcher reaches the guard, and it keeps nothing open that somebody waits for. */
static void guard_detach(int in)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid();
    if (in != GUARD_FD)
        dup2(in, GUARD_FD);
    close_range(0, GUARD_FD - 1, 0);
    close_range(GUARD_FD + 1, ~0U, 0);
    prctl(PR_SET_NAME, "stepgate-guard");
    if (chdir("/") != 0)
        return; /* it only keeps a file system busy */
}

/* guard_read -- the group of the next frame; false: the end of the pipe. Byte by byte, so that strange ones do not hide a frame behind them. */
static bool guard_read(pid_t *group)
{
    struct guard_frame frame = {.group = 0};
    char *bytes = (char *)&frame;

    for (;;) {
        memmove(bytes, bytes + 1, sizeof(frame) - 1);
        ssize_t n;
        do
            n = read(GUARD_FD, bytes + sizeof(frame) - 1, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1)
            return false;
        if (memcmp(frame.word, GUARD_WORD, sizeof(frame.word)) != 0)
            continue;
        if (frame.group == 1) /* would mean everybody */
            continue;
        *group = frame.group;
        return true;
    }
}

/* guard_drop -- takes out the one that a negative number stands for; returns how many are left. */
static size_t guard_drop(pid_t *groups, size_t count, pid_t negative)
{
    for (size_t i = 0; i < count; i++)
        if (-groups[i] == negative) {
            groups[i] = groups[count - 1];
            return count - 1;
        }
    return count;
}

/* guard_main -- collects groups until the pipe ends. */
static void guard_main(void)
{
    pid_t group;
    pid_t *groups = NULL;
    size_t count = 0, size = 0;

    while (guard_read(&group)) {
        if (group == 0)
            _exit(0);
        if (group < 0) {
            count = guard_drop(groups, count, group);
            continue;
        }
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

/* guard_pipe -- both ends above the outputs' numbers. */
static int guard_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= GUARD_FD)
            continue;
        int high = fcntl(ends[i], F_DUPFD_CLOEXEC, GUARD_FD), os_errno = errno;
        if (high < 0) {
            close(ends[0]);
            close(ends[1]);
            return os_errno;
        }
        close(ends[i]);
        ends[i] = high;
    }
    return 0;
}

/* guard_start -- forks it. */
int guard_start(struct guard *guard)
{
    int ends[2];
    int os_errno = guard_pipe(ends);

    if (os_errno != 0)
        return error_set(STEPGATE_ELIMIT, os_errno, "raise the limit: ulimit -n", "cannot make a pipe");
    pid_t pid = fork();
    if (pid < 0) {
        os_errno = errno;
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

/* guard_tell -- writes a frame. */
static void guard_tell(struct guard *guard, pid_t group)
{
    struct guard_frame frame = {.group = group};
    memcpy(frame.word, GUARD_WORD, sizeof(frame.word));
    /* If the guard is gone there is nobody to tell; the children still have their own signal for the launcher's death. */
    ssize_t written = write(guard->pipe, &frame, sizeof(frame));
    (void)written;
}

/* guard_watch -- tells it a group. */
void guard_watch(struct guard *guard, pid_t group)
{
    guard_tell(guard, group);
}

/* guard_forget -- tells it that a group is gone. */
void guard_forget(struct guard *guard, pid_t group)
{
    guard_tell(guard, -group);
}

/* guard_release -- tells it to end, and waits until it has. */
void guard_release(struct guard *guard)
{
    guard_tell(guard, 0);
    close(guard->pipe);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}
