/* SPDX-License-Identifier: BSD-3-Clause */
/* child -- a process made here, which ends when this one does, and has one line to tell before its work begins. */
#ifndef PERF_CHILD_H
#define PERF_CHILD_H

#include <stddef.h>
#include <sys/types.h>

/*
 * child_new -- makes a process that runs life(context, pipe) and ends. What it writes into the pipe until it closes it is its line; an error
 * begins with a `!`. Returns when the line is there: the process, or -1 with what is wrong as the line.
 */
pid_t child_new(void (*life)(void *context, int pipe), void *context, char *line, size_t bytes);
/* child_wait -- waits for it, however long it takes; its status, 0 if there is none. Sets 0. */
int child_wait(pid_t *child);
/* child_end -- waits for it, and kills it if it does not end; its status, 0 if all was well or there is none. Sets 0. */
int child_end(pid_t *child);

#endif
