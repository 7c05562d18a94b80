/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/verbs/ring.h"

/* ring_add -- pushes and commits one operation. */
static struct ring_op *ring_add(struct ring *ring, uint64_t context)
{
    struct ring_op *op = ring_push(ring);

    if (op == NULL)
        return NULL;
    op->context = context;
    ring_commit(ring);
    return op;
}

static void full_ring_takes_no_more_until_one_retires(void **state)
{
    struct ring ring;

    (void)state;
    assert_int_equal(ring_init(&ring, 4), 0);
    for (uint64_t i = 0; i < 4; i++)
        assert_non_null(ring_add(&ring, i));
    assert_null(ring_push(&ring));
    ring_advance(&ring, 0);
    assert_null(ring_push(&ring));
    assert_int_equal(ring_retire(&ring, 0)->context, 0);
    assert_non_null(ring_add(&ring, 4));
    assert_null(ring_push(&ring));
    ring_fini(&ring);
}

static void one_completion_retires_all_earlier_operations_in_order(void **state)
{
    struct ring ring;

    (void)state;
    assert_int_equal(ring_init(&ring, 8), 0);
    for (uint64_t i = 0; i < 5; i++) {
        ring_add(&ring, i);
        if (i < 4)
            ring_advance(&ring,
                         (uint32_t)(i * 2 + 1)); /* two requests each; the fifth is not on the device */
    }
    assert_null(ring_retire(&ring, 0));
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(ring_retire(&ring, 6)->context, i);
    assert_null(ring_retire(&ring, 6));
    assert_int_equal(ring_retire(&ring, 7)->context, 3);
    assert_null(ring_retire(&ring, 100));
    assert_int_equal(ring_waiting(&ring)->context, 4);
    ring_fini(&ring);
}

static void numbers_may_wrap(void **state)
{
    struct ring ring;

    (void)state;
    assert_int_equal(ring_init(&ring, 4), 0);
    ring.head = ring.next = ring.tail = UINT32_MAX - 1;
    ring_add(&ring, 1);
    ring_advance(&ring, UINT32_MAX);
    ring_add(&ring, 2);
    ring_advance(&ring, 0);
    ring_add(&ring, 3);
    ring_advance(&ring, 1);
    assert_int_equal(ring_retire(&ring, 0)->context, 1);
    assert_int_equal(ring_retire(&ring, 0)->context, 2);
    assert_null(ring_retire(&ring, 0));
    assert_int_equal(ring_retire(&ring, 1)->context, 3);
    ring_fini(&ring);
}

static void dropping_takes_every_operation_once_whatever_its_state(void **state)
{
    struct ring ring;

    (void)state;
    assert_int_equal(ring_init(&ring, 4), 0);
    for (uint64_t i = 0; i < 4; i++)
        ring_add(&ring, i);
    ring_advance(&ring, 0);
    ring_advance(&ring, 1);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(ring_drop(&ring)->context, i);
    assert_null(ring_drop(&ring));
    assert_null(ring_waiting(&ring));
    ring_fini(&ring);
}

static void pieces_cover_the_whole_length_and_no_more(void **state)
{
    const uint64_t lengths[] = {1, 4095, 4096, 4097, 8192, (UINT64_C(1) << 33) + 5};
    const uint64_t pieces[] = {4096, UINT64_C(1) << 20, UINT64_C(1) << 30};

    (void)state;
    for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
        for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
            struct ring_op op = {.length = lengths[l]};
            uint64_t count = 0;
            while (op.done < op.length) {
                uint32_t piece = ring_piece(&op, pieces[p]);
                assert_true(piece > 0 && piece <= pieces[p]);
                op.done += piece;
                count++;
            }
            assert_true(op.done == op.length);
            assert_true(count == (lengths[l] + pieces[p] - 1) / pieces[p]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_ring_takes_no_more_until_one_retires),
        cmocka_unit_test(one_completion_retires_all_earlier_operations_in_order),
        cmocka_unit_test(numbers_may_wrap),
        cmocka_unit_test(dropping_takes_every_operation_once_whatever_its_state),
        cmocka_unit_test(pieces_cover_the_whole_length_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
