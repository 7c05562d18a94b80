/* SPDX-License-Identifier: BSD-3-Clause */
/* command -- another program, run for what it prints. It ends with this process, and at its deadline. */
#ifndef PERF_COMMAND_H
#define PERF_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

struct command {
    pid_t pid;
    int fd; /* its standard output and error */
};

/* command_beside -- the path of a program in the folder of this one: 0, or -1 if it is not there. */
int command_beside(const char *name, char *out, size_t bytes);
/* command_start -- argv ends with NULL; argv[0] is looked for in PATH. 0, or a positive errno. */
int command_start(struct command *command, const char *const *argv);
/* command_end -- reads until it ends, `seconds` at most, then kills it. The end of what it printed is in `text`, NUL-terminated. Its exit status; 128 + signal
 * if it was killed. */
int command_end(struct command *command, double seconds, char *text, size_t bytes);
/* command_stop -- of one that serves: ends it now. */
void command_stop(struct command *command);

#endif
