/* SPDX-License-Identifier: BSD-3-Clause */
/* A fault is the one line a user reads when the trainer gives up, and the exit status that goes
 * with it. */
#ifndef FASHION_FAULT_H
#define FASHION_FAULT_H

enum fault_status {
    FAULT_NONE = 0,
    FAULT_PERMANENT = 1, /* trying again gives the same */
    FAULT_USAGE = 2,     /* the command line is wrong */
    FAULT_REQUEUE = 75   /* a peer was lost or late: the same command may succeed */
};

struct fault {
    int status;
    char text[1024];
};

/* fault_set -- record the first fault; later ones are its consequences. Returns -1 for the caller
 * to return. */
int fault_set(struct fault *fault, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
