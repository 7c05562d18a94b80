/* SPDX-License-Identifier: BSD-3-Clause */
/* A wait ends when what it waits for is there, when it is woken, or at its deadline; sleeping costs no processor time. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/poll.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/base/clock.h"
#include "transport/base/knob.h"
#include "transport/wait/waiter.h"

static const enum patience_mode modes[] = {PATIENCE_SPIN, PATIENCE_ADAPTIVE, PATIENCE_SLEEP};

/* What a test waits for. */
struct goal {
    atomic_int looks, arms;
    int ready_after; /* looks; 0: never */
    int pending;     /* how many times arm says that something is pending */
    int fd;          /* readable means ready; -1: not looked at */
};

/* goal_ready -- the look. */
static bool goal_ready(void *context)
{
    struct goal *goal = context;
    struct pollfd readable = {.fd = goal->fd, .events = POLLIN};
    int looks = atomic_fetch_add(&goal->looks, 1) + 1;

    if (goal->fd >= 0 && poll(&readable, 1, 0) == 1)
        return true;
    return goal->ready_after > 0 && looks >= goal->ready_after;
}

/* goal_arm -- asks for an event. */
static bool goal_arm(void *context)
{
    struct goal *goal = context;

    atomic_fetch_add(&goal->arms, 1);
    return goal->pending-- > 0;
}

/* goal_of -- as the waiter wants it. */
static struct waiter_goal goal_of(struct goal *goal)
{
    return (struct waiter_goal){.ready = goal_ready, .arm = goal_arm, .context = goal};
}

/* waiter_of -- a waiter of a mode; many pollers, so that adaptive does not count on a processor of its own. */
static struct waiter *waiter_of(enum patience_mode mode)
{
    struct waiter *waiter = NULL;

    assert_int_equal(waiter_new(mode, 0, &waiter), 0);
    return waiter;
}

/* processor_time -- milliseconds of this thread. */
static uint64_t processor_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void what_is_ready_at_once_ends_the_wait_without_sleeping(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.ready_after = 1, .fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        assert_int_equal(waiter_wait(waiter, 0, &for_waiter), WAITER_READY);
        assert_int_equal(goal.looks, 1);
        assert_int_equal(goal.arms, 0);
        waiter_delete(&waiter);
        assert_null(waiter);
    }
}

static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        uint64_t begin = clock_now();
        assert_int_equal(waiter_wait(waiter, begin + 50 * CLOCK_MS, &for_waiter), WAITER_TIMEOUT);
        uint64_t took = clock_now() - begin;
        assert_in_range(took / CLOCK_MS, 50, 1000);
        waiter_delete(&waiter);
    }
}

static void a_deadline_that_has_passed_allows_one_look(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        uint64_t begin = clock_now();
        assert_int_equal(waiter_wait(waiter, 0, &for_waiter), WAITER_TIMEOUT);
        assert_true(goal.looks >= 1);
        assert_true(clock_now() - begin < 500 * CLOCK_MS);
        waiter_delete(&waiter);
    }
}

static void sleeping_costs_no_processor_time(void **state)
{
    (void)state;
    for (size_t i = 1; i < 3; i++) {
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        uint64_t begin = processor_time();
        assert_int_equal(waiter_wait(waiter, clock_now() + 300 * CLOCK_MS, &for_waiter), WAITER_TIMEOUT);
        assert_true(processor_time() - begin < 30);
        assert_true(goal.arms > 0);
        waiter_delete(&waiter);
    }
}

/* write_later -- a byte into a pipe after 30 ms. */
static void *write_later(void *fd)
{
    usleep(30000);
    if (write(*(int *)fd, "x", 1) != 1)
        return fd;
    return NULL;
}

static void a_readable_descriptor_ends_the_sleep(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int ends[2];
        pthread_t thread;
        struct waiter *waiter = waiter_of(modes[i]);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(waiter_add_fd(waiter, ends[0]), 0);
        assert_int_equal(waiter_add_fd(waiter, ends[0]), 0); /* twice is once */
        struct goal goal = {.fd = ends[0]};
        struct waiter_goal for_waiter = goal_of(&goal);
        uint64_t begin = clock_now();
        assert_int_equal(pthread_create(&thread, NULL, write_later, &ends[1]), 0);
        assert_int_equal(waiter_wait(waiter, begin + 10000 * CLOCK_MS, &for_waiter), WAITER_READY);
        assert_true(clock_now() - begin < 5000 * CLOCK_MS);
        pthread_join(thread, NULL);
        waiter_remove_fd(waiter, ends[0]);
        waiter_remove_fd(waiter, ends[0]);
        waiter_delete(&waiter);
        close(ends[0]);
        close(ends[1]);
    }
}

static void what_is_pending_when_arming_is_looked_at_before_sleeping(void **state)
{
    (void)state;
    struct waiter *waiter = waiter_of(PATIENCE_SLEEP);
    struct goal goal = {.fd = -1, .pending = 2, .ready_after = 3};
    struct waiter_goal for_waiter = goal_of(&goal);
    uint64_t begin = clock_now();
    assert_int_equal(waiter_wait(waiter, begin + 5000 * CLOCK_MS, &for_waiter), WAITER_READY);
    assert_int_equal(goal.arms, 2);
    assert_true(clock_now() - begin < 1000 * CLOCK_MS);
    waiter_delete(&waiter);
}

static void a_wake_before_the_wait_is_not_lost_and_counts_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        struct pollfd readable = {.fd = waiter_fd(waiter), .events = POLLIN};
        assert_int_equal(poll(&readable, 1, 0), 0);
        waiter_wake(waiter);
        waiter_wake(waiter);
        assert_int_equal(poll(&readable, 1, 0), 1);
        assert_int_equal(waiter_wait(waiter, clock_now() + 5000 * CLOCK_MS, &for_waiter), WAITER_WOKEN);
        assert_int_equal(poll(&readable, 1, 0), 0); /* an event loop that watches it may sleep again */
        assert_int_equal(waiter_wait(waiter, clock_now() + 5 * CLOCK_MS, &for_waiter), WAITER_TIMEOUT);
        waiter_wake(waiter);
        assert_true(waiter_is_woken(waiter));
        assert_false(waiter_is_woken(waiter));
        waiter_delete(&waiter);
    }
}

static struct waiter *waiter_of_signal;

/* wake_on_signal -- a handler as a program would have. */
static void wake_on_signal(int number)
{
    (void)number;
    waiter_wake(waiter_of_signal);
}

static void a_signal_handler_may_wake(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct sigaction action = {.sa_handler = wake_on_signal}, before;
        struct itimerspec soon = {.it_value = {.tv_nsec = 30000000}};
        timer_t timer;
        struct waiter *waiter = waiter_of(modes[i]);
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
        waiter_of_signal = waiter;
        sigaction(SIGALRM, &action, &before);
        assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
        assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
        uint64_t begin = clock_now();
        assert_int_equal(waiter_wait(waiter, begin + 10000 * CLOCK_MS, &for_waiter), WAITER_WOKEN);
        assert_true(clock_now() - begin < 5000 * CLOCK_MS);
        timer_delete(timer);
        sigaction(SIGALRM, &before, NULL);
        waiter_delete(&waiter);
    }
}

#define WAKES 20000

/* A waker and its waiter take turns: a lost wake shows as a time-out. */
struct turns {
    struct waiter *there, *back;
};

/* turns_answer -- the other side. */
static void *turns_answer(void *context)
{
    struct turns *turns = context;
    struct goal goal = {.fd = -1};
    struct waiter_goal for_waiter = goal_of(&goal);

    for (int i = 0; i < WAKES; i++) {
        if (waiter_wait(turns->there, clock_now() + 5000 * CLOCK_MS, &for_waiter) != WAITER_WOKEN)
            return turns;
        waiter_wake(turns->back);
    }
    return NULL;
}

static void no_wake_between_threads_is_ever_lost(void **state)
{
    (void)state;
    for (size_t i = 1; i < 3; i++) {
        struct turns turns = {waiter_of(modes[i]), waiter_of(modes[i])};
        struct goal goal = {.fd = -1};
        struct waiter_goal for_waiter = goal_of(&goal);
        pthread_t thread;
        void *failed = NULL;
        int lost = 0;
        assert_int_equal(pthread_create(&thread, NULL, turns_answer, &turns), 0);
        for (int k = 0; k < WAKES && lost == 0; k++) {
            waiter_wake(turns.there);
            lost += waiter_wait(turns.back, clock_now() + 5000 * CLOCK_MS, &for_waiter) != WAITER_WOKEN;
        }
        pthread_join(thread, &failed);
        assert_int_equal(lost, 0);
        assert_null(failed);
        waiter_delete(&turns.there);
        waiter_delete(&turns.back);
    }
}

static void waking_keeps_errno(void **state)
{
    (void)state;
    struct waiter *waiter = waiter_of(PATIENCE_SLEEP);
    errno = 77;
    waiter_wake(waiter);
    assert_int_equal(errno, 77);
    waiter_delete(&waiter);
}

static void a_descriptor_that_cannot_be_waited_for_is_refused(void **state)
{
    (void)state;
    struct waiter *waiter = waiter_of(PATIENCE_SLEEP);
    assert_int_equal(waiter_add_fd(waiter, -1), -STEPGATE_EINVAL);
    waiter_delete(&waiter);
    waiter_delete(&waiter);
}

static void the_modes_are_those_of_the_knob(void **state)
{
    (void)state;
    assert_int_equal(PATIENCE_SPIN, KNOB_WAIT_SPIN);
    assert_int_equal(PATIENCE_ADAPTIVE, KNOB_WAIT_ADAPTIVE);
    assert_int_equal(PATIENCE_SLEEP, KNOB_WAIT_SLEEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ready_at_once_ends_the_wait_without_sleeping),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_deadline_that_has_passed_allows_one_look),
        cmocka_unit_test(sleeping_costs_no_processor_time),
        cmocka_unit_test(a_readable_descriptor_ends_the_sleep),
        cmocka_unit_test(what_is_pending_when_arming_is_looked_at_before_sleeping),
        cmocka_unit_test(a_wake_before_the_wait_is_not_lost_and_counts_once),
        cmocka_unit_test(a_signal_handler_may_wake),
        cmocka_unit_test(no_wake_between_threads_is_ever_lost),
        cmocka_unit_test(waking_keeps_errno),
        cmocka_unit_test(a_descriptor_that_cannot_be_waited_for_is_refused),
        cmocka_unit_test(the_modes_are_those_of_the_knob),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
