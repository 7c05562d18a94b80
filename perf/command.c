/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/clock.h"

/* command_beside -- see command.h. */
int command_beside(const char *name, char *out, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", out, bytes - 1);

    if (length <= 0)
        return -1;
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    size_t room = bytes - (size_t)(slash + 1 - out);
    if ((size_t)snprintf(slash + 1, room, "%s", name) >= room)
        return -1;
    return access(out, X_OK);
}

/* command_become -- in the new process; returns only what it writes into `told` if it cannot. */
static void command_become(const char *const *argv, pid_t parent, int out, int told)
{
    int null = open("/dev/null", O_RDONLY);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0)
        execvp(argv[0], (char *const *)(void *)argv);
    int error = errno;
    ssize_t ignored = write(told, &error, sizeof(error));
    (void)ignored;
    _exit(127);
}

/* command_start -- see command.h. */
int command_start(struct command *command, const char *const *argv)
{
    int ends[2], told[2], error = 0;
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    if (pipe2(told, O_CLOEXEC) != 0) {
        error = errno;
        goto close_ends;
    }
    command->pid = fork();
    if (command->pid == 0)
        command_become(argv, parent, ends[1], told[1]);
    error = command->pid < 0 ? errno : 0;
    close(told[1]);
    if (command->pid > 0 && read(told[0], &error, sizeof(error)) == (ssize_t)sizeof(error))
        waitpid(command->pid, NULL, 0);
    close(told[0]);
    if (error == 0) {
        close(ends[1]);
        command->fd = ends[0];
        return 0;
    }

close_ends:
    close(ends[0]);
    close(ends[1]);
    return error;
}

/* command_status -- of one that has ended or is about to. */
static int command_status(struct command *command)
{
    int status = 0;

    close(command->fd);
    while (waitpid(command->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    command->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* command_end -- see command.h. */
int command_end(struct command *command, double seconds, char *text, size_t bytes)
{
    uint64_t until = perf_clock_now() + (uint64_t)(seconds * 1e9);
    size_t length = 0;

    for (;;) {
        struct pollfd fd = {.fd = command->fd, .events = POLLIN};
        uint64_t now = perf_clock_now();
        if (now >= until)
            break;
        if (poll(&fd, 1, (int)((until - now) / 1000000) + 1) <= 0)
            continue;
        if (length + 1 >= bytes) { /* the end is what matters */
            memmove(text, text + bytes / 2, length - bytes / 2);
            length -= bytes / 2;
        }
        ssize_t n = read(command->fd, text + length, bytes - 1 - length);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        length += n > 0 ? (size_t)n : 0;
    }
    text[length] = '\0';
    if (perf_clock_now() >= until)
        kill(command->pid, SIGKILL);
    return command_status(command);
}

/* command_stop -- see command.h. */
void command_stop(struct command *command)
{
    if (command->pid <= 0)
        return;
    kill(command->pid, SIGKILL);
    (void)command_status(command);
}
