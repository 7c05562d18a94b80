/* SPDX-License-Identifier: BSD-3-Clause */
/* A world whose ports have a rate: a delivery takes the latency and the time of its bytes, and waits for what shares a port with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transport/simulated/world.h"

#define LATENCY_NS 1000
#define BYTES 65536 /* 65,536 ns of a port */
#define NODES 3     /* the last one is written to and read from */

struct star {
    const struct stepgate_transport_v1 *t;
    struct world *world;
    struct world_node *node[NODES];
    struct stepgate_fabric *fabric[NODES];
    struct stepgate_domain *domain[NODES];
    struct stepgate_queue *queue[NODES];
    struct stepgate_region *region[NODES];
    struct stepgate_listener *listener;
    struct stepgate_endpoint *out[NODES - 1], *in[NODES - 1];
    struct stepgate_remote *remote[NODES - 1];
    uint64_t notified[NODES - 1], completed[NODES - 1]; /* when */
};

/* star_poll -- takes what has come to a node. */
static void star_poll(struct star *s, unsigned n)
{
    struct stepgate_event event;

    while (s->t->queue_poll(s->queue[n], &event, 1) == 1)
        for (unsigned i = 0; i < NODES - 1; i++) {
            if (event.kind == STEPGATE_EVENT_REQUEST && s->in[i] == NULL) {
                assert_int_equal(
                    s->t->endpoint_accept(event.request, s->queue[n], s->domain[n], NULL, 0, NULL, &s->in[i]),
                    0);
                break;
            }
            if (event.kind == STEPGATE_EVENT_NOTIFY && event.endpoint == s->in[i])
                s->notified[i] = world_now_ns(s->world);
            if (event.kind == STEPGATE_EVENT_COMPLETION && event.endpoint == s->out[i])
                s->completed[i] = world_now_ns(s->world);
        }
}

/* star_run -- until nothing is under way. */
static void star_run(struct star *s)
{
    do
        for (unsigned n = 0; n < NODES; n++)
            star_poll(s, n);
    while (world_step(s->world) > 0);
}

/* star_open -- everybody is connected to the last. */
static void star_open(struct star *s)
{
    struct world_options options;

    memset(s, 0, sizeof(*s));
    s->t = simulated_transport();
    world_options_default(&options, 1);
    options.latency_min_ns = options.latency_max_ns = LATENCY_NS;
    options.delay_per_mille = options.reorder_per_mille = options.split_per_mille = 0;
    options.tear_per_mille = options.early_per_mille = options.eagain_per_mille = 0;
    options.link_bytes_per_s = 1000000000;
    assert_int_equal(world_new(&options, &s->world), 0);
    for (unsigned n = 0; n < NODES; n++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", n);
        assert_int_equal(world_node_new(s->world, name, &s->node[n]), 0);
        struct stepgate_fabric_options fabric = {.size = sizeof(fabric), .world = s->node[n]};
        struct stepgate_region_options region = {
            .size = sizeof(region), .access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, .length = BYTES};
        assert_int_equal(s->t->fabric_open(&fabric, &s->fabric[n]), 0);
        assert_int_equal(s->t->domain_new(s->fabric[n], &s->domain[n]), 0);
        assert_int_equal(s->t->queue_new(s->fabric[n], NODES, &s->queue[n]), 0);
        assert_int_equal(s->t->region_new(s->domain[n], &region, &s->region[n]), 0);
    }
    assert_int_equal(s->t->listener_new(s->queue[NODES - 1], "n2:7000", &s->listener), 0);
    for (unsigned i = 0; i < NODES - 1; i++) {
        struct stepgate_descriptor descriptor;
        assert_int_equal(
            s->t->endpoint_connect(s->queue[i], s->domain[i], "n2:7000", NULL, 0, NULL, &s->out[i]), 0);
        star_run(s);
        assert_int_equal(s->t->endpoint_export(s->in[i], s->region[NODES - 1],
                                               STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, &descriptor),
                         0);
        assert_int_equal(s->t->endpoint_import(s->out[i], &descriptor, &s->remote[i]), 0);
    }
}

/* star_write -- all bytes to the last node, and a notify behind them. */
static void star_write(struct star *s, unsigned i)
{
    assert_int_equal(s->t->endpoint_write(s->out[i], s->region[i], 0, NULL, s->remote[i], 0, BYTES, 0, 0), 0);
    assert_int_equal(s->t->endpoint_notify(s->out[i], 1), 0);
}

/* star_read -- all bytes of the last node. */
static void star_read(struct star *s, unsigned i)
{
    assert_int_equal(
        s->t->endpoint_read(s->out[i], s->region[i], 0, s->remote[i], 0, BYTES, STEPGATE_POST_COMPLETE, 0),
        0);
}

/* star_close -- deletes everything; nothing is left. */
static void star_close(struct star *s)
{
    for (unsigned i = 0; i < NODES - 1; i++) {
        s->t->remote_delete(&s->remote[i]);
        s->t->endpoint_delete(&s->out[i]);
        s->t->endpoint_delete(&s->in[i]);
    }
    s->t->listener_delete(&s->listener);
    for (unsigned n = 0; n < NODES; n++) {
        s->t->region_delete(&s->region[n]);
        s->t->queue_delete(&s->queue[n]);
        s->t->domain_delete(&s->domain[n]);
        s->t->fabric_delete(&s->fabric[n]);
    }
    while (world_step(s->world) > 0)
        continue;
    assert_int_equal(world_objects(s->world), 0);
    world_delete(&s->world);
}

/* about -- a duration to a tenth of the latency. */
static void about(uint64_t got, uint64_t since, uint64_t expected)
{
    assert_in_range(got - since, expected, expected + LATENCY_NS / 10);
}

static void a_write_takes_the_latency_and_the_time_of_its_bytes(void **state)
{
    struct star s;

    (void)state;
    star_open(&s);
    uint64_t begin = world_now_ns(s.world);
    memset(s.region[0]->address, 7, BYTES);
    star_write(&s, 0);
    star_run(&s);
    about(s.notified[0], begin, LATENCY_NS + BYTES);
    assert_memory_equal(s.region[0]->address, s.region[NODES - 1]->address, BYTES);
    star_close(&s);
}

static void writes_of_two_nodes_share_the_port_that_they_go_to(void **state)
{
    struct star s;

    (void)state;
    star_open(&s);
    uint64_t begin = world_now_ns(s.world);
    star_write(&s, 0);
    star_write(&s, 1);
    star_run(&s);
    about(s.notified[1], begin, LATENCY_NS + 2 * BYTES);
    assert_true(s.notified[0] >= begin + LATENCY_NS + 2 * BYTES - 8192); /* fairly: both end together */
    star_close(&s);
}

static void reads_take_a_round_trip_and_share_the_port_that_they_come_from(void **state)
{
    struct star s;

    (void)state;
    star_open(&s);
    uint64_t begin = world_now_ns(s.world);
    star_read(&s, 0);
    star_run(&s);
    about(s.completed[0], begin, 2 * LATENCY_NS + BYTES);
    begin = world_now_ns(s.world);
    star_read(&s, 0);
    star_read(&s, 1);
    star_run(&s);
    about(s.completed[1], begin, 2 * LATENCY_NS + 2 * BYTES);
    star_close(&s);
}

static void a_port_sends_and_takes_in_at_once(void **state)
{
    struct star s;

    (void)state;
    star_open(&s);
    uint64_t begin = world_now_ns(s.world);
    star_write(&s, 0);
    star_read(&s, 1);
    star_run(&s);
    about(s.notified[0], begin, LATENCY_NS + BYTES);
    about(s.completed[1], begin, 2 * LATENCY_NS + BYTES);
    star_close(&s);
}

static void what_waits_at_a_port_is_lost_with_its_sender(void **state)
{
    struct star s;

    (void)state;
    star_open(&s);
    star_write(&s, 0);
    star_read(&s, 0);
    star_write(&s, 1);
    world_step(s.world);
    world_kill(s.node[0]);
    star_run(&s);
    assert_int_equal(s.notified[0], 0);
    assert_true(s.notified[1] > 0);
    star_write(&s, 1);
    star_read(&s, 1);
    star_close(&s); /* with work under way */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_takes_the_latency_and_the_time_of_its_bytes),
        cmocka_unit_test(writes_of_two_nodes_share_the_port_that_they_go_to),
        cmocka_unit_test(reads_take_a_round_trip_and_share_the_port_that_they_come_from),
        cmocka_unit_test(a_port_sends_and_takes_in_at_once),
        cmocka_unit_test(what_waits_at_a_port_is_lost_with_its_sender),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
