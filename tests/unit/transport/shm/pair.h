/* SPDX-License-Identifier: BSD-3-Clause */
/* pair -- two sides of a connection in one process, for the tests of this folder. */
#ifndef TESTS_UNIT_TRANSPORT_SHM_PAIR_H
#define TESTS_UNIT_TRANSPORT_SHM_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/clock.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/shm.h"

#define PAIR_ALL (STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)
#define PAIR_PATIENCE_MS 5000

struct side {
    struct stepgate_fabric *fabric;
    struct stepgate_domain *domain;
    struct stepgate_queue *queue;
    struct stepgate_endpoint *endpoint;
};

struct pair {
    struct side active, passive;
    struct stepgate_listener *listener;
    char address[STEPGATE_ADDRESS_BYTES];
};

/* side_open -- a fabric, a domain and a queue. */
static inline void side_open(struct side *side, uint32_t operations)
{
    const struct stepgate_transport_v1 *t = shm_transport();
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .operations = operations, .connect_timeout_ms = 1000};

    memset(side, 0, sizeof(*side));
    assert_int_equal(t->fabric_open(&options, &side->fabric), 0);
    assert_int_equal(t->domain_new(side->fabric, &side->domain), 0);
    assert_int_equal(t->queue_new(side->fabric, 1, &side->queue), 0);
}

/* side_close -- everything but regions and remotes. */
static inline void side_close(struct side *side)
{
    const struct stepgate_transport_v1 *t = shm_transport();

    t->endpoint_delete(&side->endpoint);
    t->queue_delete(&side->queue);
    t->domain_delete(&side->domain);
    t->fabric_delete(&side->fabric);
}

/* side_next -- polls until an event comes, or ms have passed; 1 or 0. */
static inline int side_next(struct side *side, struct stepgate_event *event, int ms)
{
    uint64_t deadline = clock_after(clock_now(), ms);
    int n;

    do
        n = shm_transport()->queue_poll(side->queue, event, 1);
    while (n == 0 && clock_now() < deadline);
    return n;
}

/* side_expect -- the next event is of this kind. */
static inline void side_expect(struct side *side, struct stepgate_event *event, int kind)
{
    assert_int_equal(side_next(side, event, PAIR_PATIENCE_MS), 1);
    assert_int_equal(event->kind, kind);
}

/* side_shm -- the inside of its endpoint. */
static inline struct shm_endpoint *side_shm(struct side *side)
{
    return (struct shm_endpoint *)side->endpoint;
}

/* pair_listen -- the passive side listens. */
static inline void pair_listen(struct pair *pair, uint32_t operations)
{
    const struct stepgate_transport_v1 *t = shm_transport();

    memset(pair, 0, sizeof(*pair));
    side_open(&pair->passive, operations);
    assert_int_equal(t->listener_new(pair->passive.queue, "localhost:0", &pair->listener), 0);
    assert_int_equal(t->listener_address(pair->listener, pair->address, sizeof(pair->address)), 0);
}

/* pair_accept -- the passive side takes the request that comes. */
static inline void pair_accept(struct pair *pair)
{
    struct stepgate_event event;

    side_expect(&pair->passive, &event, STEPGATE_EVENT_REQUEST);
    assert_int_equal(shm_transport()->endpoint_accept(event.request, pair->passive.queue,
                                                      pair->passive.domain, NULL, 0, NULL,
                                                      &pair->passive.endpoint),
                     0);
    side_expect(&pair->passive, &event, STEPGATE_EVENT_CONNECTED);
}

/* pair_open -- both sides, connected. */
static inline void pair_open(struct pair *pair, uint32_t operations)
{
    struct stepgate_event event;

    pair_listen(pair, operations);
    side_open(&pair->active, operations);
    assert_int_equal(shm_transport()->endpoint_connect(pair->active.queue, pair->active.domain, pair->address,
                                                       NULL, 0, NULL, &pair->active.endpoint),
                     0);
    pair_accept(pair);
    side_expect(&pair->active, &event, STEPGATE_EVENT_CONNECTED);
}

/* pair_close -- both sides. */
static inline void pair_close(struct pair *pair)
{
    shm_transport()->listener_delete(&pair->listener);
    side_close(&pair->active);
    side_close(&pair->passive);
}

/* pair_region -- a region of the passive side. */
static inline struct stepgate_region *pair_region(struct pair *pair, unsigned access, uint64_t length)
{
    struct stepgate_region_options options = {.size = sizeof(options), .access = access, .length = length};
    struct stepgate_region *region = NULL;

    assert_int_equal(shm_transport()->region_new(pair->passive.domain, &options, &region), 0);
    return region;
}

#endif
