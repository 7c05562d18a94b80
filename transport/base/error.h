/* SPDX-License-Identifier: BSD-3-Clause */
/* error -- sets the last error of the calling thread. */
#ifndef TRANSPORT_BASE_ERROR_H
#define TRANSPORT_BASE_ERROR_H

#include "stepgate/error.h"

/*
 * error_set -- records code (positive), errno (0: none), remedy ("" or NULL: none) and a formatted line for this thread, forgets what an
 * earlier error said of peer, step and time, and returns -code. So `return error_set(...)` is the usual form.
 */
int error_set(int code, int os_errno, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* error_one_line -- replaces control characters, such as the end of a line, by question marks; error_set does it. */
void error_one_line(char *text);

/* error_peer -- adds to the last error which peer it concerns; host and device may be NULL. */
void error_peer(int role, int rank, const char *host, const char *device);

/* error_step -- adds the step concerned and the time waited (-1: did not wait). */
void error_step(uint64_t step, int64_t waited_ms);

/* error_restore -- makes a saved error the last error of this thread again; returns -error->code. */
int error_restore(const struct stepgate_error *error);

/* error_save -- copies the last error of this thread. */
void error_save(struct stepgate_error *error);

#endif
