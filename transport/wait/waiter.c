/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/wait/waiter.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/place/cpus.h"

#define WAITER_LOOKS_PER_CLOCK 16 /* reading the clock costs about as much as looking at an empty queue */

struct waiter {
    struct patience patience;
    int epoll;
    int event; /* made readable by waiter_wake */
    atomic_bool woken;
};

/* waiter_system_error -- for a descriptor that could not be made or watched. */
static int waiter_system_error(int os_errno, const char *what)
{
    if (os_errno == EMFILE || os_errno == ENFILE || os_errno == ENOSPC)
        return error_set(STEPGATE_ELIMIT, os_errno, "raise the limit: ulimit -n", "cannot %s", what);
    if (os_errno == ENOMEM)
        return error_set(STEPGATE_ENOMEM, os_errno, NULL, "cannot %s", what);
    return error_set(STEPGATE_ESYSTEM, os_errno, NULL, "cannot %s", what);
}

/* waiter_new -- watches nothing but its own event yet. */
int waiter_new(enum patience_mode mode, unsigned pollers, struct waiter **out)
{
    struct waiter *waiter = malloc(sizeof(*waiter));
    int code;

    if (waiter == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a waiter");
    *waiter = (struct waiter){.patience = {.mode = mode, .spare = pollers > 0 && pollers < cpus_allowed()}};
    atomic_init(&waiter->woken, false);
    waiter->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (waiter->epoll < 0) {
        code = waiter_system_error(errno, "make a descriptor to wait on");
        goto free_waiter;
    }
    waiter->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (waiter->event < 0) {
        code = waiter_system_error(errno, "make a descriptor to be woken by");
        goto close_epoll;
    }
    code = waiter_add_fd(waiter, waiter->event);
    if (code < 0)
        goto close_event;
    *out = waiter;
    return 0;
close_event:
    close(waiter->event);
close_epoll:
    close(waiter->epoll);
free_waiter:
    free(waiter);
    return code;
}

/* waiter_delete -- closes its own descriptors. */
void waiter_delete(struct waiter **waiter)
{
    if (*waiter == NULL)
        return;
    close((*waiter)->event);
    close((*waiter)->epoll);
    free(*waiter);
    *waiter = NULL;
}

/* waiter_add_fd -- level-triggered: what a look did not take keeps the descriptor readable. */
int waiter_add_fd(struct waiter *waiter, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

    if (epoll_ctl(waiter->epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST)
        return 0;
    if (errno == EBADF || errno == EPERM)
        return error_set(STEPGATE_EINVAL, errno, NULL, "descriptor %d cannot be waited for", fd);
    return waiter_system_error(errno, "watch a descriptor");
}

/* waiter_remove_fd -- no longer watched. */
void waiter_remove_fd(struct waiter *waiter, int fd)
{
    struct epoll_event unused = {0};

    epoll_ctl(waiter->epoll, EPOLL_CTL_DEL, fd, &unused);
}

/* waiter_fd -- an epoll descriptor is itself readable when one of its own is. */
int waiter_fd(const struct waiter *waiter)
{
    return waiter->epoll;
}

/*
 * waiter_wake -- the flag and the event go through one cycle together: false, set by the first waker, written by it, read by the waiter,
 * cleared by the waiter. So the event is readable only while a wake waits to be taken, and a second waker has nothing to write.
 */
void waiter_wake(struct waiter *waiter)
{
    int saved = errno;
    uint64_t one = 1;

    /* Partner: the exchange in waiter_is_woken; what the waker wrote before is seen by whoever is woken. */
    if (!atomic_exchange_explicit(&waiter->woken, true, memory_order_acq_rel)) {
        ssize_t written = write(waiter->event, &one, sizeof(one)); /* the counter was 0: it cannot be full */
        (void)written;
    }
    errno = saved;
}

/* waiter_is_woken -- takes a wake. One whose event is not written yet does not count yet; its event ends the next sleep. */
bool waiter_is_woken(struct waiter *waiter)
{
    uint64_t count;

    /* A cheap look, made in every turn of a spin; the exchange below orders what follows. */
    if (!atomic_load_explicit(&waiter->woken, memory_order_relaxed))
        return false;
    if (read(waiter->event, &count, sizeof(count)) != (ssize_t)sizeof(count))
        return false;
    /* Partner: the exchange in waiter_wake. */
    atomic_exchange_explicit(&waiter->woken, false, memory_order_acq_rel);
    return true;
}

/* waiter_relax -- tells the processor that this is a spin. */
static void waiter_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* waiter_look -- one look; returns enum waiter_outcome, WAITER_TIMEOUT for nothing yet. */
static int waiter_look(struct waiter *waiter, const struct waiter_goal *goal)
{
    if (waiter_is_woken(waiter))
        return WAITER_WOKEN;
    return goal->ready(goal->context) ? WAITER_READY : WAITER_TIMEOUT;
}

/* waiter_spin -- looks some more. */
static int waiter_spin(struct waiter *waiter, const struct waiter_goal *goal)
{
    for (int i = 0; i < WAITER_LOOKS_PER_CLOCK; i++) {
        int outcome = waiter_look(waiter, goal);
        if (outcome != WAITER_TIMEOUT)
            return outcome;
        waiter_relax();
    }
    return WAITER_TIMEOUT;
}

/* waiter_milliseconds -- until the deadline, rounded up; -1: there is none. */
static int waiter_milliseconds(uint64_t deadline)
{
    uint64_t now = clock_now();

    if (deadline == CLOCK_NEVER)
        return -1;
    if (deadline <= now)
        return 0;
    uint64_t ms = (deadline - now - 1) / CLOCK_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* waiter_sleep -- arms, then sleeps until a descriptor is readable or the deadline; no look is made
 * here. */
static int waiter_sleep(struct waiter *waiter, uint64_t deadline, const struct waiter_goal *goal)
{
    struct epoll_event events[4]; /* which of them does not matter: the look polls all */

    if (goal->arm != NULL && goal->arm(goal->context))
        return 0;
    if (epoll_wait(waiter->epoll, events, 4, waiter_milliseconds(deadline)) >= 0 || errno == EINTR)
        return 0;
    return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot wait for descriptors");
}

/* waiter_wait -- see waiter.h. */
int waiter_wait(struct waiter *waiter, uint64_t deadline, const struct waiter_goal *goal)
{
    int outcome = waiter_look(waiter, goal), code;

    if (outcome != WAITER_TIMEOUT)
        return outcome;
    for (uint64_t since = clock_now(), now = since;;) {
        switch (patience_next(&waiter->patience, since, now)) {
        case PATIENCE_LOOKS: outcome = waiter_spin(waiter, goal); break;
        case PATIENCE_YIELDS:
            sched_yield();
            patience_gave(&waiter->patience, now, clock_now());
            outcome = waiter_look(waiter, goal);
            break;
        default:
            code = waiter_sleep(waiter, deadline, goal);
            if (code < 0)
                return code;
            outcome = waiter_look(waiter, goal);
            since = clock_now();
            break;
        }
        now = clock_now();
        if (outcome != WAITER_TIMEOUT || now >= deadline)
            return outcome;
    }
}
