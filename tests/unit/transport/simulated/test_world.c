/* SPDX-License-Identifier: BSD-3-Clause */
/* A simulated world: the same seed goes the same way, another seed another, faults are seen, and everything is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/simulated/world.h"

#define BYTES 4096

/* Two nodes with a connection; "a" writes into "b". */
struct pair {
    const struct stepgate_transport_v1 *t;
    struct world *world;
    struct world_node *node[2];
    struct stepgate_fabric *fabric[2];
    struct stepgate_domain *domain[2];
    struct stepgate_queue *queue[2];
    struct stepgate_region *region[2];
    struct stepgate_endpoint *endpoint[2];
    struct stepgate_listener *listener;
    struct stepgate_remote *remote;
    uint32_t notified, connected, disconnected, completions;
    int status;
    uint32_t failed_completions, after_disconnect;
    int wrong;
};

/* pair_poll -- takes the events of one side. */
static void pair_poll(struct pair *p, int side)
{
    struct stepgate_event events[4];
    int n = p->t->queue_poll(p->queue[side], events, 4);

    for (int i = 0; i < n; i++) {
        p->after_disconnect += p->disconnected > 0 && side == 0;
        switch (events[i].kind) {
        case STEPGATE_EVENT_REQUEST:
            assert_int_equal(p->t->endpoint_accept(events[i].request, p->queue[1], p->domain[1], "yes", 3,
                                                   NULL, &p->endpoint[1]),
                             0);
            break;
        case STEPGATE_EVENT_CONNECTED: p->connected++; break;
        case STEPGATE_EVENT_DISCONNECTED:
            p->disconnected += side == 0;
            p->status = events[i].status;
            break;
        case STEPGATE_EVENT_COMPLETION:
            p->completions++;
            p->failed_completions += events[i].status < 0;
            break;
        case STEPGATE_EVENT_NOTIFY: {
            const uint8_t *bytes = p->region[1]->address;
            p->notified++;
            for (size_t k = 0; k < BYTES; k++)
                p->wrong += bytes[k] != (uint8_t)events[i].value;
            break;
        }
        default: break;
        }
    }
}

/* pair_run -- steps until nothing is pending. */
static void pair_run(struct pair *p)
{
    for (;;) {
        pair_poll(p, 0);
        pair_poll(p, 1);
        if (world_step(p->world) == 0)
            break;
    }
    for (int i = 0; i < 200; i++)
        pair_poll(p, i & 1);
}

/* pair_open -- two connected nodes. */
static void pair_open(struct pair *p, uint64_t seed, bool mapped)
{
    struct world_options options;

    memset(p, 0, sizeof(*p));
    p->t = simulated_transport();
    world_options_default(&options, seed);
    options.mapped = mapped;
    assert_int_equal(world_new(&options, &p->world), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_node_new(p->world, i == 0 ? "a" : "b", &p->node[i]), 0);
        struct stepgate_fabric_options fabric = {.size = sizeof(fabric), .world = p->node[i]};
        struct stepgate_region_options region = {
            .size = sizeof(region), .access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, .length = BYTES};
        assert_int_equal(p->t->fabric_open(&fabric, &p->fabric[i]), 0);
        assert_int_equal(p->t->domain_new(p->fabric[i], &p->domain[i]), 0);
        assert_int_equal(p->t->queue_new(p->fabric[i], 1, &p->queue[i]), 0);
        assert_int_equal(p->t->region_new(p->domain[i], &region, &p->region[i]), 0);
    }
    assert_int_equal(p->t->listener_new(p->queue[1], "b:7000", &p->listener), 0);
    assert_int_equal(
        p->t->endpoint_connect(p->queue[0], p->domain[0], "b:7000", "hi", 2, NULL, &p->endpoint[0]), 0);
    pair_run(p);
    assert_int_equal(p->connected, 2);
    struct stepgate_descriptor descriptor;
    int rc;
    do
        rc = p->t->endpoint_export(p->endpoint[1], p->region[1], STEPGATE_ACCESS_WRITE, &descriptor);
    while (rc == -STEPGATE_EAGAIN);
    assert_int_equal(rc, 0);
    pair_run(p);
    assert_int_equal(p->t->endpoint_import(p->endpoint[0], &descriptor, &p->remote), 0);
}

/* pair_wait -- lets one delivery happen, but no timer of seconds: a post met full queues, or bad luck. */
static void pair_wait(struct pair *p)
{
    if (world_next_time(p->world) < world_now_ns(p->world) + UINT64_C(1000000000))
        world_step(p->world);
}

/* pair_write -- fills the target with a value, and notifies it. */
static void pair_write(struct pair *p, uint8_t value)
{
    int rc;

    memset(p->region[0]->address, value, BYTES);
    while ((rc = p->t->endpoint_write(p->endpoint[0], p->region[0], 0, NULL, p->remote, 0, BYTES,
                                      STEPGATE_POST_COMPLETE, value)) == -STEPGATE_EAGAIN)
        pair_wait(p);
    assert_int_equal(rc, 0);
    while ((rc = p->t->endpoint_notify(p->endpoint[0], value)) == -STEPGATE_EAGAIN)
        pair_wait(p);
    assert_int_equal(rc, 0);
}

/* pair_close -- deletes everything and checks that nothing is left. */
static void pair_close(struct pair *p)
{
    p->t->remote_delete(&p->remote);
    for (int i = 0; i < 2; i++) {
        p->t->endpoint_delete(&p->endpoint[i]);
        p->t->region_delete(&p->region[i]);
    }
    p->t->listener_delete(&p->listener);
    for (int i = 0; i < 2; i++) {
        p->t->queue_delete(&p->queue[i]);
        p->t->domain_delete(&p->domain[i]);
        p->t->fabric_delete(&p->fabric[i]);
    }
    while (world_step(p->world) > 0)
        continue;
    assert_int_equal(world_objects(p->world), 0);
    world_delete(&p->world);
}

/* pair_hash -- a short run from a seed. */
static uint64_t pair_hash(uint64_t seed, bool mapped, struct world_counts *sum)
{
    struct pair p;
    struct world_counts counts;

    pair_open(&p, seed, mapped);
    for (uint8_t i = 1; i <= 40; i++) {
        pair_write(&p, i);
        pair_run(&p);
    }
    assert_int_equal(p.notified, 40);
    assert_int_equal(p.completions, 40);
    assert_int_equal(p.wrong, 0);
    uint64_t hash = world_trace_hash(p.world);
    world_counters(p.world, &counts);
    sum->delays += counts.delays;
    sum->split_writes += counts.split_writes;
    sum->early_completions += counts.early_completions;
    sum->eagains += counts.eagains;
    pair_close(&p);
    return hash;
}

static void the_same_seed_replays_exactly(void **state)
{
    struct world_counts sum = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (int mapped = 0; mapped < 2; mapped++)
            assert_true(pair_hash(seed, mapped != 0, &sum) == pair_hash(seed, mapped != 0, &sum));
}

static void different_seeds_go_different_ways(void **state)
{
    struct world_counts sum = {0};
    uint64_t first = pair_hash(1, false, &sum);

    (void)state;
    for (uint64_t seed = 2; seed <= 20; seed++)
        assert_true(pair_hash(seed, false, &sum) != first);
}

static void counters_show_what_happened(void **state)
{
    struct world_counts sum = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        pair_hash(seed, false, &sum);
    assert_true(sum.delays > 0);
    assert_true(sum.split_writes > 0);
    assert_true(sum.early_completions > 0);
    assert_true(sum.eagains > 0);
}

static void a_killed_peer_is_seen_once_and_in_flight_work_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct pair p;
        struct world_counts counts;
        pair_open(&p, seed, seed % 2 == 0);
        pair_write(&p, 1);
        world_kill(p.node[1]);
        pair_run(&p);
        assert_int_equal(p.disconnected, 1);
        assert_int_equal(p.completions, 1);
        assert_int_equal(p.after_disconnect, 0);
        assert_int_equal(p.status, -STEPGATE_EPEER);
        assert_int_equal(p.t->endpoint_notify(p.endpoint[0], 1), -STEPGATE_EPEER);
        world_counters(p.world, &counts);
        assert_int_equal(counts.kills, 1);
        pair_close(&p);
    }
}

static void what_a_killed_writer_had_in_flight_never_lands_behind_its_notify(void **state)
{
    uint32_t notified = 0, silent = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct pair p;
        pair_open(&p, seed, false);
        pair_write(&p, 7);
        for (uint64_t i = 0; i < seed % 4; i++)
            world_step(p.world);
        world_kill(p.node[0]);
        memset(p.region[0]->address, 0xee, BYTES); /* its memory is nobody's any more */
        pair_run(&p);
        assert_int_equal(p.wrong, 0);
        notified += p.notified;
        silent += p.notified == 0;
        pair_close(&p);
    }
    assert_true(notified > 0);
    assert_true(silent > 0);
}

static void a_partition_holds_back_and_heals_or_ends_in_a_timeout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair p;
        pair_open(&p, seed, false);
        world_partition(p.node[0], p.node[1]);
        pair_write(&p, 3);
        world_advance(p.world, UINT64_C(5000000000));
        pair_poll(&p, 1);
        assert_int_equal(p.notified, 0);
        if (seed % 2 == 0) {
            world_heal(p.node[0], p.node[1]);
            pair_run(&p);
            assert_int_equal(p.notified, 1);
            assert_int_equal(p.wrong, 0);
            assert_int_equal(p.disconnected, 0);
        } else {
            world_advance(p.world, UINT64_C(6000000000));
            pair_run(&p);
            assert_int_equal(p.disconnected, 1);
            assert_int_equal(p.notified, 0);
        }
        pair_close(&p);
    }
}

static void a_thawed_node_goes_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair p;
        pair_open(&p, seed, false);
        world_freeze(p.node[1]);
        assert_true(world_node_frozen(p.node[1]));
        pair_write(&p, 9);
        world_advance(p.world, UINT64_C(3000000000));
        pair_poll(&p, 1);
        assert_int_equal(p.notified, 0);
        world_thaw(p.node[1]);
        pair_run(&p);
        assert_int_equal(p.notified, 1);
        assert_int_equal(p.wrong, 0);
        assert_int_equal(p.disconnected, 0);
        pair_close(&p);
    }
}

static void deleting_everything_in_flight_touches_no_freed_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct pair p;
        pair_open(&p, seed, seed % 2 == 0);
        for (uint8_t i = 0; i < 5; i++)
            pair_write(&p, i);
        for (uint64_t i = 0; i < seed % 8; i++)
            world_step(p.world);
        p.t->region_delete(&p.region[seed % 2]);
        world_step(p.world);
        pair_close(&p);
    }
}

static void a_disconnect_is_seen_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    struct world_counts counts;

    pair_open(&p, 5, false);
    world_disconnect(p.endpoint[0]);
    pair_run(&p);
    assert_int_equal(p.disconnected, 1);
    assert_int_equal(p.t->endpoint_notify(p.endpoint[1], 1), -STEPGATE_EPEER);
    world_counters(p.world, &counts);
    assert_int_equal(counts.disconnects, 1);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_replays_exactly),
        cmocka_unit_test(different_seeds_go_different_ways),
        cmocka_unit_test(counters_show_what_happened),
        cmocka_unit_test(a_killed_peer_is_seen_once_and_in_flight_work_fails),
        cmocka_unit_test(what_a_killed_writer_had_in_flight_never_lands_behind_its_notify),
        cmocka_unit_test(a_partition_holds_back_and_heals_or_ends_in_a_timeout),
        cmocka_unit_test(a_thawed_node_goes_on),
        cmocka_unit_test(deleting_everything_in_flight_touches_no_freed_memory),
        cmocka_unit_test(a_disconnect_is_seen_on_both_sides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
