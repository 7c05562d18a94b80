/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin -- the process that made something. Asked in every call of the API, so without a system call: a page that the kernel wipes in forked children,
 * and the process's number only where a kernel does not know that.
 */
#ifndef TRANSPORT_BASE_ORIGIN_H
#define TRANSPORT_BASE_ORIGIN_H

#include <stdbool.h>
#include <sys/types.h>

struct origin {
    const volatile char *mark; /* a page: 1 here, 0 in children; NULL: the number decides */
    pid_t process;
};

/* origin_here -- this process is the origin; origin_clear frees. */
void origin_here(struct origin *origin);
void origin_clear(struct origin *origin);
/* origin_is_here -- is this the process, not a forked child of it? Async-signal-safe. */
bool origin_is_here(const struct origin *origin);

#endif
