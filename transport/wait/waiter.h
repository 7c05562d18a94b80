/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waiter -- waits for any of several descriptors, by spinning, yielding and sleeping.
 *
 * What it does when is patience's matter. One thread waits on a waiter at a time; waiter_wake may be called from any thread and from a
 * signal handler.
 */
#ifndef TRANSPORT_WAIT_WAITER_H
#define TRANSPORT_WAIT_WAITER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/wait/patience.h"

struct waiter;

enum waiter_outcome {
    WAITER_TIMEOUT = 0, /* the deadline passed, after one more look */
    WAITER_READY = 1,   /* ready said so */
    WAITER_WOKEN = 2    /* waiter_wake was called since the last time this was returned */
};

/* What is waited for. */
struct waiter_goal {
    /* ready -- moves things on without blocking (polls the queues); true ends the wait. */
    bool (*ready)(void *context);
    /* arm -- asks that the descriptors turn readable at the next event; true: something is pending
     * already, look again before sleeping. NULL: the descriptors need no arming. */
    bool (*arm)(void *context);
    void *context;
};

/*
 * waiter_new -- pollers: how many threads, of all processes on this machine, wait at the same time
 * for parts of the same job; 0 if that is not known, which counts as more than there are
 * processors. Errors: ENOMEM, ELIMIT (descriptors), ESYSTEM.
 */
int waiter_new(enum patience_mode mode, unsigned pollers, struct waiter **out);
/* waiter_delete -- the descriptors stay open; sets NULL, safe on NULL. */
void waiter_delete(struct waiter **waiter);

/* waiter_add_fd -- watches for readability, until waiter_remove_fd. Errors: EINVAL, ELIMIT,
 * ESYSTEM. */
int waiter_add_fd(struct waiter *waiter, int fd);
/* waiter_remove_fd -- before the descriptor is closed; one that is not watched is ignored. */
void waiter_remove_fd(struct waiter *waiter, int fd);
/* waiter_fd -- readable when any watched descriptor is, or waiter_wake was called; owned by the
 * waiter. */
int waiter_fd(const struct waiter *waiter);

/* waiter_wait -- deadline: nanoseconds of clock_now, CLOCK_NEVER for none. Returns enum
 * waiter_outcome, or -ESYSTEM. */
int waiter_wait(struct waiter *waiter, uint64_t deadline, const struct waiter_goal *goal);
/* waiter_wake -- async-signal-safe: the wait under way, or the next one, returns WAITER_WOKEN.
 * errno is preserved. */
void waiter_wake(struct waiter *waiter);
/* waiter_is_woken -- takes a wake that no wait has returned yet. */
bool waiter_is_woken(struct waiter *waiter);

#endif
