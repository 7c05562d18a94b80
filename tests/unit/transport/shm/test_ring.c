/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/base/random.h"
#include "transport/shm/ring.h"

/* A ring with both its ends. */
struct both {
    struct shm_ring_control *control;
    uint8_t *data;
    uint64_t capacity;
    struct shm_sender sender;
    struct shm_receiver receiver;
};

/* both_open -- an empty ring of the smallest size. */
static int both_open(void **state)
{
    struct both *both = calloc(1, sizeof(*both));

    assert_non_null(both);
    both->capacity = shm_ring_bytes(16);
    both->control = aligned_alloc(SHM_LINE, sizeof(*both->control));
    both->data = calloc(1, both->capacity);
    assert_non_null(both->control);
    assert_non_null(both->data);
    memset(both->control, 0, sizeof(*both->control));
    shm_sender_init(&both->sender, both->control, both->data, both->capacity);
    shm_receiver_init(&both->receiver, both->control, both->data, both->capacity);
    *state = both;
    return 0;
}

/* both_close -- frees it. */
static int both_close(void **state)
{
    struct both *both = *state;

    free(both->control);
    free(both->data);
    free(both);
    return 0;
}

/* both_fill -- bytes that depend on a number. */
static void both_fill(uint8_t *bytes, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(number * 31 + i);
}

static void records_arrive_whole_and_in_order_around_the_end_of_the_ring(void **state)
{
    struct both *both = *state;
    struct random_source random;
    uint8_t bytes[SHM_MESSAGE_BYTES], expected[SHM_MESSAGE_BYTES], got[SHM_MESSAGE_BYTES];
    uint32_t lengths[512], put = 0, taken = 0;

    random_seed(&random, 7);
    while (both->receiver.head < 50 * both->capacity) {
        for (int i = (int)random_below(&random, 12); i > 0; i--) {
            uint32_t length =
                random_chance(&random, 300) ? 0 : 1 + (uint32_t)random_below(&random, SHM_MESSAGE_BYTES);
            both_fill(bytes, length, put);
            int status = shm_sender_put(&both->sender, length == 0 ? SHM_RECORD_NOTIFY : SHM_RECORD_MESSAGE,
                                        put, bytes, length);
            if (status == -STEPGATE_EAGAIN)
                break;
            assert_int_equal(status, 0);
            lengths[put++ % 512] = length;
        }
        for (int i = (int)random_below(&random, 12); i > 0 && taken < put; i--, taken++) {
            struct shm_record record;
            assert_int_equal(shm_receiver_take(&both->receiver, &record, got, sizeof(got)), 1);
            assert_int_equal(record.value, taken);
            assert_int_equal(record.length, lengths[taken % 512]);
            both_fill(expected, record.length, taken);
            assert_memory_equal(got, expected, record.length);
        }
        shm_receiver_release(&both->receiver);
    }
    assert_true(taken > 1000);
}

static void full_ring_answers_eagain_and_takes_again_what_was_released(void **state)
{
    struct both *both = *state;
    struct shm_record record;
    uint32_t put = 0, more = 0;

    while (shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, put, NULL, 0) == 0)
        put++;
    assert_int_equal(put, both->capacity / SHM_RECORD_HEADER);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 1);
        assert_int_equal(record.value, i);
    }
    assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 0, NULL, 0), -STEPGATE_EAGAIN);
    assert_true(shm_receiver_release(&both->receiver)); /* the producer had asked to be rung for */
    assert_false(shm_receiver_release(&both->receiver));
    while (shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, put + more, NULL, 0) == 0)
        more++;
    assert_int_equal(more, 3);
    for (uint32_t i = 3; i < put + more; i++) {
        assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 1);
        assert_int_equal(record.value, i);
    }
    assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 0);
}

static void room_that_came_unheard_is_told_once(void **state)
{
    struct both *both = *state;
    struct shm_record record;

    while (shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 0, NULL, 0) == 0)
        continue;
    assert_false(shm_sender_unblocked(&both->sender));
    assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 1);
    shm_receiver_release(&both->receiver);
    assert_true(shm_sender_unblocked(&both->sender));
    assert_false(shm_sender_unblocked(&both->sender));
}

static void message_stays_when_the_buffer_is_too_small(void **state)
{
    struct both *both = *state;
    struct shm_record record;
    char got[8];

    assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_MESSAGE, 0, "message", 8), 0);
    assert_int_equal(shm_receiver_take(&both->receiver, &record, got, 7), -STEPGATE_EAGAIN);
    assert_int_equal(shm_receiver_take(&both->receiver, &record, got, 8), 1);
    assert_string_equal(got, "message");
}

static void producer_rings_once_for_each_arming(void **state)
{
    struct both *both = *state;
    struct shm_record record;

    assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 1, NULL, 0), 0);
    assert_false(shm_sender_must_ring(&both->sender));
    assert_true(shm_receiver_arm(&both->receiver)); /* there is something already */
    assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 1);
    shm_receiver_disarm(&both->receiver);
    assert_false(shm_receiver_arm(&both->receiver));
    assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 2, NULL, 0), 0);
    assert_true(shm_sender_must_ring(&both->sender));
    assert_false(shm_sender_must_ring(&both->sender));
}

static void hostile_tail_is_a_broken_protocol(void **state)
{
    struct both *both = *state;
    struct shm_record record;
    const uint64_t tails[] = {both->capacity + 8, 4, 8 + 1, UINT64_MAX - 7, (uint64_t)1 << 63};
    const uint32_t header[2] = {(uint32_t)SHM_RECORD_NOTIFY << 24, 0};

    for (uint64_t at = 0; at < both->capacity; at += sizeof(header)) /* what lies there would be valid */
        memcpy(both->data + at, header, sizeof(header));
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        atomic_store(&both->control->tail, tails[i]);
        assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), -STEPGATE_EPROTOCOL);
        assert_int_equal(both->receiver.head, 0);
    }
}

static void tail_that_moves_back_is_a_broken_protocol(void **state)
{
    struct both *both = *state;
    struct shm_record record;

    for (int i = 0; i < 4; i++)
        assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 0, NULL, 0), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), 1);
    atomic_store(&both->control->tail, 8);
    assert_int_equal(shm_receiver_take(&both->receiver, &record, NULL, 0), -STEPGATE_EPROTOCOL);
}

static void hostile_head_is_a_broken_protocol(void **state)
{
    struct both *both = *state;

    while (shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 0, NULL, 0) == 0)
        continue;
    const uint64_t heads[] = {both->capacity + 8, 4, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        atomic_store(&both->control->head, heads[i]);
        assert_int_equal(shm_sender_put(&both->sender, SHM_RECORD_NOTIFY, 0, NULL, 0), -STEPGATE_EPROTOCOL);
    }
}

static void hostile_record_is_a_broken_protocol(void **state)
{
    struct both *both = *state;
    struct shm_record record;
    uint8_t buffer[2 * SHM_MESSAGE_BYTES];
    const uint32_t headers[] = {
        0,                                                            /* no kind */
        (uint32_t)SHM_RECORD_MESSAGE << 24,                           /* a message of nothing */
        (uint32_t)SHM_RECORD_MESSAGE << 24 | (SHM_MESSAGE_BYTES + 1), /* too long */
        (uint32_t)SHM_RECORD_MESSAGE << 24 | 0xffffff,                /* far too long */
        (uint32_t)SHM_RECORD_MESSAGE << 24 | 64,                      /* longer than what was published */
        (uint32_t)SHM_RECORD_NOTIFY << 24 | 8,                        /* a notify with data */
        3U << 24,                                                     /* a kind that is not known */
    };

    for (size_t i = 0; i < 2 * (sizeof(headers) / sizeof(headers[0])); i++) {
        /* beside tail, or in the ring where newer records may have taken its place there */
        uint64_t tail = i % 2 == 0 ? 48 : 64;
        both->receiver.tail = 0;
        atomic_store(&both->control->tail, tail);
        atomic_store(&both->control->header[0], i % 2 == 0 ? headers[i / 2] : 0);
        memcpy(both->data, &headers[i / 2], sizeof(headers[0]));
        assert_int_equal(shm_receiver_take(&both->receiver, &record, buffer, sizeof(buffer)),
                         -STEPGATE_EPROTOCOL);
        assert_int_equal(both->receiver.head, 0);
    }
}

#define MANY 100000

/* produce -- notifies, and among them messages, as fast as there is room. */
static void *produce(void *context)
{
    struct both *both = context;
    uint8_t data[64];

    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t length = i % 5 == 0 ? 1 + i % 64 : 0;
        both_fill(data, length, i);
        while (shm_sender_put(&both->sender, length > 0 ? SHM_RECORD_MESSAGE : SHM_RECORD_NOTIFY, i, data,
                              length) == -STEPGATE_EAGAIN)
            sched_yield();
        if (i % 1000 < 500) /* now close behind each other, now far */
            sched_yield();
    }
    return NULL;
}

static void a_header_is_that_of_its_record_however_far_the_producer_is_ahead(void **state)
{
    struct both *both = *state;
    struct shm_record record;
    uint8_t data[64], want[64];
    pthread_t producer;

    assert_int_equal(pthread_create(&producer, NULL, produce, both), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        int status;
        while ((status = shm_receiver_take(&both->receiver, &record, data, sizeof(data))) == 0)
            sched_yield();
        assert_int_equal(status, 1);
        assert_int_equal(record.value, i);
        assert_int_equal(record.length, i % 5 == 0 ? 1 + i % 64 : 0);
        both_fill(want, record.length, i);
        assert_memory_equal(data, want, record.length);
        shm_receiver_release(&both->receiver);
    }
    pthread_join(producer, NULL);
}

int main(void)
{
#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, both_open, both_close)
    const struct CMUnitTest tests[] = {
        RING_TEST(records_arrive_whole_and_in_order_around_the_end_of_the_ring),
        RING_TEST(full_ring_answers_eagain_and_takes_again_what_was_released),
        RING_TEST(room_that_came_unheard_is_told_once),
        RING_TEST(message_stays_when_the_buffer_is_too_small),
        RING_TEST(producer_rings_once_for_each_arming),
        RING_TEST(hostile_tail_is_a_broken_protocol),
        RING_TEST(tail_that_moves_back_is_a_broken_protocol),
        RING_TEST(hostile_head_is_a_broken_protocol),
        RING_TEST(hostile_record_is_a_broken_protocol),
        RING_TEST(a_header_is_that_of_its_record_however_far_the_producer_is_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
