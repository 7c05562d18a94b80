/* SPDX-License-Identifier: BSD-3-Clause */
/* streams -- the three descriptors that a program is born with, and whether what it printed has arrived. */
#ifndef TRANSPORT_BASE_STREAMS_H
#define TRANSPORT_BASE_STREAMS_H

/*
 * streams_ensure -- first thing in main: /dev/null in the place of each of 0, 1 and 2 that is closed, so that no later descriptor gets
 * the number of an output; and a write beyond the limit of a file's size is an error of that write instead of a death by SIGXFSZ.
 */
void streams_ensure(void);

/* streams_finish -- last thing in main: returns status; if it is 0 and standard output was lost, says so in one line and returns 1. */
int streams_finish(const char *program, int status);

#endif
