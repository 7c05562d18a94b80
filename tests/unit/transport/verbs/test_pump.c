/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/clock.h"
#include "transport/verbs/completion.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/post.h"
#include "transport/verbs/pump.h"
#include "transport/verbs/region.h"

#define PIECE 4096U
#define DEPTH 40U
#define MOST 4096U

/* An endpoint on a device that only notes what it is given. */
struct bench {
    struct device device;
    struct domain domain;
    struct queue queue;
    struct endpoint endpoint;
    struct endpoint *slot;
    struct rdma_cm_id id;
    struct ibv_mr mr;
    struct region region;
    struct remote remote;
};

static struct ibv_send_wr noted[MOST];
static uint8_t noted_data[MOST][8];
static uint32_t noted_length[MOST];
static uint32_t noted_count;
static int noted_answer;
static char source[1 << 20];

static int bench_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    if (noted_answer != 0) {
        *bad = wr;
        return noted_answer;
    }
    for (; wr != NULL; wr = wr->next) {
        assert_true(noted_count < MOST);
        noted_length[noted_count] = wr->num_sge == 1 ? wr->sg_list->length : 0;
        if (wr->num_sge == 1 && wr->opcode == IBV_WR_SEND)
            memcpy(noted_data[noted_count], (const void *)(uintptr_t)wr->sg_list->addr, 8);
        noted[noted_count++] = *wr;
    }
    return 0;
}

static const struct seam_hook bench_hook = {.post_send = bench_post_send};

static int bench_open(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    bench->device.piece_bytes = PIECE;
    bench->device.operations = 64;
    bench->domain.device = &bench->device;
    bench->queue.device = &bench->device;
    bench->queue.capacity = 1;
    bench->queue.count = 1;
    bench->slot = &bench->endpoint;
    bench->queue.slots = &bench->slot;
    bench->region.domain = &bench->domain;
    bench->region.local = &bench->mr;
    bench->region.base.address = source;
    bench->region.base.length = sizeof(source);
    bench->remote.base.length = sizeof(source);
    bench->remote.base.access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE;
    bench->remote.address = 0x10000;
    struct endpoint *endpoint = &bench->endpoint;
    endpoint->queue = &bench->queue;
    endpoint->domain = &bench->domain;
    endpoint->id = &bench->id;
    endpoint->active = true;
    endpoint->depth = DEPTH;
    endpoint->signal_every = 10;
    endpoint->reads_limit = 4;
    endpoint->inline_bytes = 80;
    endpoint->frames_mr = &bench->mr;
    endpoint->state = ENDPOINT_UP;
    credit_init(&endpoint->credit);
    endpoint->store = calloc(64, FRAME_STRIDE);
    endpoint->frames = calloc(CREDIT_RECEIVES + ENDPOINT_STAGES, FRAME_STRIDE);
    assert_int_equal(ring_init(&endpoint->ring, 64), 0);
    noted_count = 0;
    noted_answer = 0;
    seam_hook_set(&bench_hook);
    *state = bench;
    return 0;
}

static int bench_close(void **state)
{
    struct bench *bench = *state;

    seam_hook_set(NULL);
    ring_fini(&bench->endpoint.ring);
    free(bench->endpoint.store);
    free(bench->endpoint.frames);
    free(bench);
    return 0;
}

/* bench_complete -- completes the noted request, if it was signalled; returns the number of events. */
static uint32_t bench_complete(struct bench *bench, uint32_t index)
{
    struct ibv_wc wc = {.wr_id = noted[index].wr_id, .status = IBV_WC_SUCCESS};
    struct stepgate_event event;
    uint32_t events = 0;
    bool used = false;

    if ((noted[index].send_flags & IBV_SEND_SIGNALED) == 0)
        return 0;
    wc.opcode = noted[index].opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
    while (!used)
        events += (uint32_t)completion_handle(&bench->queue, &wc, &event, &used);
    return events;
}

static int bench_write(struct bench *bench, uint64_t length, unsigned flags, uint64_t context)
{
    return post_write(&bench->endpoint.base, &bench->region.base, 0, NULL, &bench->remote.base, 0, length,
                      flags, context);
}

static void long_write_goes_out_in_pieces_with_one_completion(void **state)
{
    struct bench *bench = *state;
    uint64_t at = 0;
    uint32_t events = 0;

    assert_int_equal(bench_write(bench, 5 * PIECE + 1, STEPGATE_POST_COMPLETE, 9), 0);
    assert_int_equal(noted_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(noted[i].opcode, IBV_WR_RDMA_WRITE);
        assert_true(noted[i].wr.rdma.remote_addr == 0x10000 + at);
        at += noted_length[i];
    }
    assert_true(at == 5 * PIECE + 1);
    assert_true(noted[5].send_flags & IBV_SEND_SIGNALED);
    for (uint32_t i = 0; i < 6; i++)
        events += bench_complete(bench, i);
    assert_int_equal(events, 1);
}

static void send_queue_is_never_overfilled_and_always_recovers(void **state)
{
    struct bench *bench = *state;
    uint32_t taken = 0, completed = 0;

    while (taken < 1000) {
        int rc = bench_write(bench, 100, 0, 0);
        assert_true(noted_count - bench->endpoint.done <= DEPTH);
        if (rc == 0) {
            taken++;
            continue;
        }
        assert_int_equal(rc, -STEPGATE_EAGAIN);
        uint32_t before = noted_count;
        for (; completed < before; completed++)
            bench_complete(bench, completed);
        assert_true(noted_count > before); /* room for more, or the connection would stand still */
    }
}

static void reads_in_flight_are_limited(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(post_read(&bench->endpoint.base, &bench->region.base, 0, &bench->remote.base, 0,
                               20 * PIECE, STEPGATE_POST_COMPLETE, 5),
                     0);
    assert_int_equal(noted_count, 4);
    uint32_t events = 0;
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(i < noted_count && noted_count <= i + 4);
        events += bench_complete(bench, i);
    }
    assert_int_equal(noted_count, 20);
    assert_int_equal(events, 1);
    assert_int_equal(bench->endpoint.reads, 0);
}

static void short_read_over_iwarp_does_not_cross_a_page_of_the_peer(void **state)
{
    struct bench *bench = *state;
    uint32_t events = 0;

    for (int iwarp = 0; iwarp < 2; iwarp++) {
        bench->device.iwarp = iwarp;
        assert_int_equal(post_read(&bench->endpoint.base, &bench->region.base, 7, &bench->remote.base,
                                   4096 - 6, 18, STEPGATE_POST_COMPLETE, 5),
                         0);
    }
    assert_int_equal(noted_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(noted_length[i], i == 0 ? 18 : i == 1 ? 6 : 12);
        assert_int_equal(noted[i].wr.rdma.remote_addr, 0x10000 + (i < 2 ? 4096 - 6 : 4096));
        events += bench_complete(bench, i);
    }
    assert_int_equal(events, 2);
    assert_int_equal(bench->endpoint.reads, 0);
    static const struct {
        uint64_t offset;
        uint32_t length;
    } whole[] = {{4096, 18},
                 {4096 - 18, 18},
                 {4096 - 6, 65},
                 {4096 - 6, PIECE}}; /* what fits, or is long, goes as it is */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(post_read(&bench->endpoint.base, &bench->region.base, 0, &bench->remote.base,
                                   whole[i].offset, whole[i].length, 0, 0),
                         0);
        assert_int_equal(noted_count, 4 + i);
        assert_int_equal(noted_length[3 + i], whole[i].length);
    }
}

static void notify_stays_behind_the_writes_before_it(void **state)
{
    struct bench *bench = *state;

    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(bench_write(bench, 100, 0, 0), 0);
    assert_int_equal(post_notify(&bench->endpoint.base, 0x01020304), 0);
    assert_int_equal(noted_count, DEPTH);
    for (uint32_t i = 0; i < noted_count; i++)
        bench_complete(bench, i);
    assert_int_equal(noted_count, 51);
    assert_int_equal(noted[50].opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(ntohl(noted[50].imm_data), 0x01020304);
}

static void notify_without_immediate_data_is_a_frame(void **state)
{
    struct bench *bench = *state;
    struct frame frame;

    bench->device.iwarp = true;
    assert_int_equal(post_notify(&bench->endpoint.base, 77), 0);
    assert_int_equal(noted[0].opcode, IBV_WR_SEND);
    assert_true(frame_unpack(noted_data[0], noted_length[0], &frame));
    assert_int_equal(frame.kind, FRAME_NOTIFY);
    assert_int_equal(frame.value, 77);
}

static void notifies_wait_for_credits_and_credit_frames_do_not(void **state)
{
    struct bench *bench = *state;
    struct frame frame;

    bench->endpoint.credit.available = CREDIT_RESERVE + 1;
    assert_int_equal(post_notify(&bench->endpoint.base, 1), 0);
    assert_int_equal(post_notify(&bench->endpoint.base, 2), 0);
    assert_int_equal(noted_count, 1);
    credit_owe(&bench->endpoint.credit, CREDIT_THRESHOLD);
    pump(&bench->endpoint);
    assert_int_equal(noted_count, 2);
    assert_true(frame_unpack(noted_data[1], noted_length[1], &frame));
    assert_int_equal(frame.kind, FRAME_CREDIT);
    assert_int_equal(frame.credits, CREDIT_THRESHOLD);
    assert_true(credit_gain(&bench->endpoint.credit, 16));
    pump(&bench->endpoint);
    assert_int_equal(noted_count, 3);
    assert_int_equal(ntohl(noted[2].imm_data), 2);
}

static void passive_side_is_silent_until_it_has_heard(void **state)
{
    struct bench *bench = *state;

    bench->endpoint.active = false;
    assert_int_equal(post_notify(&bench->endpoint.base, 1), 0);
    assert_int_equal(noted_count, 0);
    bench->endpoint.heard = true;
    pump(&bench->endpoint);
    assert_int_equal(noted_count, 1);
}

static void messages_beyond_the_stages_wait(void **state)
{
    struct bench *bench = *state;
    char message[1000] = {1};

    for (uint32_t i = 0; i < 2 * ENDPOINT_STAGES; i++)
        assert_int_equal(post_send(&bench->endpoint.base, message, sizeof(message)), 0);
    assert_int_equal(noted_count, ENDPOINT_STAGES);
    for (uint32_t i = 0; i < ENDPOINT_STAGES; i++)
        bench_complete(bench, i);
    assert_true(noted_count > ENDPOINT_STAGES);
    for (uint32_t i = ENDPOINT_STAGES; i < noted_count; i++)
        bench_complete(bench, i);
    assert_int_equal(noted_count, 2 * ENDPOINT_STAGES);
}

static void nothing_to_write_completes_all_the_same(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(bench_write(bench, 0, 0, 1), 0);
    assert_int_equal(noted_count, 0);
    assert_int_equal(bench_write(bench, 0, STEPGATE_POST_COMPLETE, 2), 0);
    assert_int_equal(noted_count, 1);
    assert_int_equal(bench_complete(bench, 0), 1);
}

static void device_that_refuses_breaks_the_connection_and_each_flagged_operation_is_reported(void **state)
{
    struct bench *bench = *state;
    struct stepgate_event event;

    assert_int_equal(bench_write(bench, 100, STEPGATE_POST_COMPLETE, 1), 0);
    assert_int_equal(bench_write(bench, 100, 0, 2), 0);
    noted_answer = -EINVAL;
    assert_int_equal(bench_write(bench, 100, STEPGATE_POST_COMPLETE, 3), 0);
    assert_int_equal(bench->endpoint.state, ENDPOINT_CLOSING);
    assert_int_equal(bench_write(bench, 100, 0, 4), -STEPGATE_EPEER);
    endpoint_set_state(&bench->endpoint, ENDPOINT_FAILING);
    endpoint_report(&bench->endpoint, &event);
    assert_int_equal(event.kind, STEPGATE_EVENT_COMPLETION);
    assert_true(event.context == 1 && event.status == -STEPGATE_EPEER);
    endpoint_report(&bench->endpoint, &event);
    assert_int_equal(event.kind, STEPGATE_EVENT_COMPLETION);
    assert_true(event.context == 3 && event.status == -STEPGATE_EPEER);
    endpoint_report(&bench->endpoint, &event);
    assert_int_equal(event.kind, STEPGATE_EVENT_DISCONNECTED);
    assert_int_equal(bench->endpoint.state, ENDPOINT_DOWN);
}

static void access_outside_the_grant_is_refused_here(void **state)
{
    struct bench *bench = *state;
    struct stepgate_remote *remote = &bench->remote.base;

    remote->access = STEPGATE_ACCESS_READ;
    assert_int_equal(bench_write(bench, 1, 0, 0), -STEPGATE_EACCESS);
    remote->access = STEPGATE_ACCESS_WRITE;
    remote->length = 100;
    assert_int_equal(bench_write(bench, 100, 0, 0), 0);
    assert_int_equal(bench_write(bench, 101, 0, 0), -STEPGATE_EACCESS);
    assert_int_equal(
        post_write(&bench->endpoint.base, &bench->region.base, 0, NULL, remote, UINT64_MAX, 1, 0, 0),
        -STEPGATE_EACCESS);
    assert_int_equal(
        post_write(&bench->endpoint.base, &bench->region.base, sizeof(source), NULL, remote, 0, 1, 0, 0),
        -STEPGATE_EINVAL);
    assert_int_equal(bench->endpoint.state, ENDPOINT_UP);
}

static void completion_of_an_endpoint_that_is_gone_is_ignored(void **state)
{
    struct bench *bench = *state;
    struct stepgate_event event;
    bool used = false;

    assert_int_equal(bench_write(bench, 100, STEPGATE_POST_COMPLETE, 1), 0);
    struct ibv_wc wc = {.wr_id = noted[0].wr_id, .status = IBV_WC_SUCCESS};
    bench->endpoint.generation++; /* the slot has a new tenant */
    assert_int_equal(completion_handle(&bench->queue, &wc, &event, &used), 0);
    assert_true(used);
}

/* bench_iwarp -- the connection stands, and the opening frame went out. */
static void bench_iwarp(struct bench *bench)
{
    bench->device.iwarp = true;
    bench->endpoint.state = ENDPOINT_NEW;
    endpoint_up(&bench->endpoint);
    assert_int_equal(noted_count, 1);
}

/* bench_nudged -- whether the next deadline, and no earlier one, brings a frame that says nothing. */
static void bench_nudged(struct bench *bench)
{
    uint64_t at = connection_deadline(&bench->queue);
    uint32_t before = noted_count;
    struct frame frame;

    assert_true(at != CLOCK_NEVER);
    connection_expire(&bench->queue, at - 1);
    assert_int_equal(noted_count, before);
    connection_expire(&bench->queue, at);
    assert_int_equal(noted_count, before + 1);
    assert_true(frame_unpack(noted_data[before], FRAME_HEADER_BYTES, &frame));
    assert_int_equal(frame.kind, FRAME_CREDIT);
    assert_int_equal(frame.credits, 0);
}

static void active_side_of_iwarp_says_something_again_until_it_has_heard(void **state)
{
    struct bench *bench = *state;
    const struct frame answer = {.kind = FRAME_CREDIT};
    struct stepgate_event event;
    bool used;

    bench_iwarp(bench);
    for (int i = 0; i < 3; i++)
        bench_nudged(bench);
    frame_pack(&answer, endpoint_receive(&bench->endpoint, 0));
    const struct ibv_wc wc = {.wr_id = queue_request_id(&bench->endpoint, true, 0),
                              .status = IBV_WC_SUCCESS,
                              .opcode = IBV_WC_RECV,
                              .byte_len = FRAME_HEADER_BYTES};
    assert_int_equal(completion_handle(&bench->queue, &wc, &event, &used), 0);
    assert_true(connection_deadline(&bench->queue) == CLOCK_NEVER);
    connection_expire(&bench->queue, UINT64_MAX);
    assert_int_equal(noted_count, 4);
    assert_int_equal(bench->queue.unheard, 0);
}

static void active_side_of_iwarp_does_not_say_nothing_for_ever(void **state)
{
    struct bench *bench = *state;

    bench_iwarp(bench);
    for (unsigned i = 0; i < ENDPOINT_NUDGES; i++)
        bench_nudged(bench);
    assert_true(connection_deadline(&bench->queue) == CLOCK_NEVER);
    assert_int_equal(bench->queue.unheard, 0);
    assert_int_equal(bench->endpoint.state, ENDPOINT_UP);
}

static void broken_connection_is_not_nudged(void **state)
{
    struct bench *bench = *state;

    bench_iwarp(bench);
    endpoint_close(&bench->endpoint, STEPGATE_EPEER, NULL, "a cable is out");
    assert_true(connection_deadline(&bench->queue) == CLOCK_NEVER);
    assert_int_equal(bench->queue.unheard, 0);
    connection_expire(&bench->queue, UINT64_MAX);
    assert_int_equal(noted_count, 1);
}

int main(void)
{
#define BENCH(name) cmocka_unit_test_setup_teardown(name, bench_open, bench_close)
    const struct CMUnitTest tests[] = {
        BENCH(long_write_goes_out_in_pieces_with_one_completion),
        BENCH(send_queue_is_never_overfilled_and_always_recovers),
        BENCH(reads_in_flight_are_limited),
        BENCH(short_read_over_iwarp_does_not_cross_a_page_of_the_peer),
        BENCH(notify_stays_behind_the_writes_before_it),
        BENCH(notify_without_immediate_data_is_a_frame),
        BENCH(notifies_wait_for_credits_and_credit_frames_do_not),
        BENCH(passive_side_is_silent_until_it_has_heard),
        BENCH(messages_beyond_the_stages_wait),
        BENCH(nothing_to_write_completes_all_the_same),
        BENCH(device_that_refuses_breaks_the_connection_and_each_flagged_operation_is_reported),
        BENCH(access_outside_the_grant_is_refused_here),
        BENCH(completion_of_an_endpoint_that_is_gone_is_ignored),
        BENCH(active_side_of_iwarp_says_something_again_until_it_has_heard),
        BENCH(active_side_of_iwarp_does_not_say_nothing_for_ever),
        BENCH(broken_connection_is_not_nudged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
