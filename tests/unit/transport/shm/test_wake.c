/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads, one mapping of the rings: also what ThreadSanitizer is run with. */
#include "tests/unit/transport/shm/pair.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "transport/base/random.h"

#define WAKE_ROUNDS 20000U
#define WAKE_FLOOD 100000U
#define WAKE_BYTES 4096U

/* The sending thread. */
struct wake_sender {
    struct pair *pair;
    struct stepgate_remote *remote;
    _Atomic uint32_t *seen; /* of the receiving thread; the sender's acquire pairs with its release */
    int failed;
};

/* wake_sleep -- sleeps on the queue of a side until it is readable; false: nothing woke it. */
static bool wake_sleep(struct side *side)
{
    struct pollfd fd = {.fd = shm_transport()->queue_fd(side->queue), .events = POLLIN};

    return shm_transport()->queue_arm(side->queue) == 1 || poll(&fd, 1, PAIR_PATIENCE_MS) == 1;
}

/* wake_one_by_one -- a notify, then nothing before it was seen: each has to wake the other thread. */
static void *wake_one_by_one(void *context)
{
    struct wake_sender *sender = context;
    struct random_source random;
    uint64_t deadline = clock_after(clock_now(), 60000);

    random_seed(&random, 3);
    for (uint32_t i = 0; i < WAKE_ROUNDS && sender->failed == 0; i++) {
        for (uint64_t spin = random_below(&random, 2000); spin > 0; spin--)
            __asm__ volatile("" ::: "memory");
        sender->failed = shm_transport()->endpoint_notify(sender->pair->active.endpoint, i);
        while (atomic_load_explicit(sender->seen, memory_order_acquire) <= i && sender->failed == 0) {
            if (clock_now() > deadline)
                sender->failed = -STEPGATE_ETIMEOUT;
            sched_yield();
        }
    }
    return NULL;
}

static void armed_queue_never_loses_a_wakeup(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    _Atomic uint32_t seen = 0;
    struct wake_sender sender = {.pair = &pair, .seen = &seen};
    pthread_t thread;
    uint32_t sleeps = 0;
    bool woken = true;

    (void)state;
    pair_open(&pair, 0);
    assert_int_equal(pthread_create(&thread, NULL, wake_one_by_one, &sender), 0);
    for (uint32_t i = 0; i < WAKE_ROUNDS && woken;) {
        if (shm_transport()->queue_poll(pair.passive.queue, &event, 1) == 1) {
            assert_int_equal(event.kind, STEPGATE_EVENT_NOTIFY);
            assert_int_equal(event.value, i);
            atomic_store_explicit(&seen, ++i,
                                  memory_order_release); /* pairs with the load in wake_one_by_one */
        } else {
            woken = wake_sleep(&pair.passive);
            sleeps++;
        }
    }
    if (!woken)
        atomic_store(&seen, UINT32_MAX);
    pthread_join(thread, NULL);
    assert_true(woken);
    assert_int_equal(sender.failed, 0);
    assert_true(sleeps > WAKE_ROUNDS / 100);
    pair_close(&pair);
}

/* wake_flood -- bytes and notifies as fast as they are taken; sleeps when there is no room. */
static void *wake_flood(void *context)
{
    struct wake_sender *sender = context;
    struct pair *pair = sender->pair;
    struct stepgate_event event;

    for (uint32_t i = 0; i < WAKE_FLOOD && sender->failed == 0; i++) {
        uint32_t bytes[2] = {i, ~i};
        uint64_t at = i % (WAKE_BYTES / sizeof(bytes)) * sizeof(bytes);
        if (i % (WAKE_BYTES / sizeof(bytes)) == 0) /* the place is used again: it must have been looked at */
            while (atomic_load_explicit(sender->seen, memory_order_acquire) < i)
                sched_yield();
        int status = shm_transport()->endpoint_write(pair->active.endpoint, NULL, 0, bytes, sender->remote,
                                                     at, sizeof(bytes), STEPGATE_WRITE_INLINE, 0);
        while (status == 0 &&
               (status = shm_transport()->endpoint_notify(pair->active.endpoint, i)) == -STEPGATE_EAGAIN)
            status =
                shm_transport()->queue_poll(pair->active.queue, &event, 1) == 0 && wake_sleep(&pair->active)
                    ? 0
                    : -STEPGATE_ETIMEOUT;
        sender->failed = status;
    }
    return NULL;
}

static void bytes_written_before_a_notify_are_there_when_it_arrives(void **state)
{
    struct pair pair;
    struct stepgate_event events[16];
    struct stepgate_descriptor descriptor;
    _Atomic uint32_t seen = 0;
    struct wake_sender sender = {.pair = &pair, .seen = &seen};
    pthread_t thread;
    uint32_t taken = 0, wrong = 0;
    bool woken = true;

    (void)state;
    pair_open(&pair, 0);
    struct stepgate_region *region = pair_region(&pair, STEPGATE_ACCESS_WRITE, WAKE_BYTES);
    assert_int_equal(
        shm_transport()->endpoint_export(pair.passive.endpoint, region, STEPGATE_ACCESS_WRITE, &descriptor),
        0);
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &sender.remote), 0);
    assert_int_equal(pthread_create(&thread, NULL, wake_flood, &sender), 0);
    while (taken < WAKE_FLOOD && woken) {
        int n = shm_transport()->queue_poll(pair.passive.queue, events, 16);
        for (int i = 0; i < n; i++) {
            uint32_t bytes[2];
            wrong += events[i].kind != STEPGATE_EVENT_NOTIFY || events[i].value != taken;
            memcpy(bytes, (uint8_t *)region->address + taken % (WAKE_BYTES / sizeof(bytes)) * sizeof(bytes),
                   sizeof(bytes));
            wrong += bytes[0] != taken || bytes[1] != ~taken;
            taken++;
        }
        atomic_store_explicit(&seen, taken, memory_order_release); /* pairs with the load in wake_flood */
        if (n == 0)
            woken = wake_sleep(&pair.passive);
    }
    if (!woken)
        atomic_store(&seen, UINT32_MAX);
    pthread_join(thread, NULL);
    assert_int_equal(sender.failed, 0);
    assert_true(woken);
    assert_int_equal(wrong, 0);
    shm_transport()->remote_delete(&sender.remote);
    shm_transport()->region_delete(&region);
    pair_close(&pair);
}

/* wake_stuff -- fills the ring again and again, and sleeps for room. */
static void *wake_stuff(void *context)
{
    struct wake_sender *sender = context;
    struct pair *pair = sender->pair;
    static const char bytes[4000];
    struct stepgate_event event;

    for (uint32_t i = 0; i < WAKE_ROUNDS && sender->failed == 0; i++) {
        int status;
        while ((status = shm_transport()->endpoint_send(pair->active.endpoint, bytes, sizeof(bytes))) ==
               -STEPGATE_EAGAIN) {
            if (shm_transport()->queue_poll(pair->active.queue, &event, 1) != 0 ||
                !wake_sleep(&pair->active)) {
                status = -STEPGATE_ETIMEOUT;
                break;
            }
        }
        sender->failed = status;
    }
    return NULL;
}

static void sender_that_sleeps_for_room_is_woken(void **state)
{
    struct pair pair;
    struct stepgate_event event;
    struct wake_sender sender = {.pair = &pair};
    pthread_t thread;
    uint32_t taken = 0;
    bool woken = true;

    (void)state;
    pair_open(&pair, 16);
    assert_int_equal(pthread_create(&thread, NULL, wake_stuff, &sender), 0);
    while (taken < WAKE_ROUNDS && woken) {
        int n = shm_transport()->queue_poll(pair.passive.queue, &event, 1);
        taken += n == 1 && event.kind == STEPGATE_EVENT_MESSAGE && event.length == 4000;
        if (n == 0)
            woken = wake_sleep(&pair.passive);
    }
    pthread_join(thread, NULL);
    assert_int_equal(sender.failed, 0);
    assert_int_equal(taken, WAKE_ROUNDS);
    pair_close(&pair);
}

static void completion_wakes_a_queue_that_was_armed_before_the_post(void **state)
{
    struct pair pair;
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL;
    struct stepgate_event event;

    (void)state;
    pair_open(&pair, 0);
    struct stepgate_region *region = pair_region(&pair, STEPGATE_ACCESS_WRITE, 4096);
    assert_int_equal(
        shm_transport()->endpoint_export(pair.passive.endpoint, region, STEPGATE_ACCESS_WRITE, &descriptor),
        0);
    assert_int_equal(shm_transport()->endpoint_import(pair.active.endpoint, &descriptor, &remote), 0);
    while (shm_transport()->queue_arm(pair.active.queue) == 1)
        assert_int_equal(shm_transport()->queue_poll(pair.active.queue, &event, 1), 0);
    struct pollfd fd = {.fd = shm_transport()->queue_fd(pair.active.queue), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 20), 0);
    assert_int_equal(shm_transport()->endpoint_write(pair.active.endpoint, NULL, 0, "x", remote, 0, 1,
                                                     STEPGATE_WRITE_INLINE | STEPGATE_POST_COMPLETE, 5),
                     0);
    assert_int_equal(poll(&fd, 1, PAIR_PATIENCE_MS), 1);
    side_expect(&pair.active, &event, STEPGATE_EVENT_COMPLETION);
    assert_int_equal(event.context, 5);
    shm_transport()->remote_delete(&remote);
    shm_transport()->region_delete(&region);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(armed_queue_never_loses_a_wakeup),
        cmocka_unit_test(bytes_written_before_a_notify_are_there_when_it_arrives),
        cmocka_unit_test(sender_that_sleeps_for_room_is_woken),
        cmocka_unit_test(completion_wakes_a_queue_that_was_armed_before_the_post),
    };

    shm_share_mappings(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
