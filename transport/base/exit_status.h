/* SPDX-License-Identifier: BSD-3-Clause */
/* exit_status -- what a program's end tells whoever started it, and the one line that explains it.
 */
#ifndef TRANSPORT_BASE_EXIT_STATUS_H
#define TRANSPORT_BASE_EXIT_STATUS_H

#include <stddef.h>

enum exit_status {
    EXIT_STATUS_OK = 0,
    EXIT_STATUS_PERMANENT = 1,   /* would fail again */
    EXIT_STATUS_USAGE = 2,       /* the command line or the environment is wrong */
    EXIT_STATUS_REQUEUE = 75,    /* a peer or device was lost, or somebody was late: worth another try */
    EXIT_STATUS_TERMINATED = 143 /* SIGTERM */
};

/* exit_status_unknown -- the line for an argument that a program does not know; names the nearest flag of the knob table. */
void exit_status_unknown(const char *argument, char *out, size_t bytes);

/* exit_status_line -- text and remedy of this thread's last error, or the name of the code if it is
 * none of it. */
void exit_status_line(int code, char *out, size_t bytes);

#endif
