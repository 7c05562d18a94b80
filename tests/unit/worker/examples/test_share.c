/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/share.h"
#include <cmocka.h>

static void every_part_has_one_worker(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 7; workers++)
        for (unsigned replicas = 1; replicas <= 20; replicas++) {
            unsigned next = 0, parts = replicas > workers ? replicas : workers;
            for (unsigned rank = 0; rank < workers; rank++) {
                struct share share = share_of(replicas, workers, rank);
                assert_int_equal(share.parts, parts);
                assert_int_equal(share.first, next);
                /* What strict mode asks of a rank. */
                assert_int_equal(share.count,
                                 replicas > workers ? replicas / workers + (rank < replicas % workers) : 1);
                for (unsigned n = 0; n < share.count; n++)
                    assert_int_equal(share_part(&share, n), next + n);
                next += share.count;
            }
            assert_int_equal(next, parts);
        }
}

static void who_is_asked_again_in_a_step_computes_the_same_part(void **state)
{
    (void)state;
    struct share share = share_of(2, 3, 1);
    assert_int_equal(share_part(&share, 0), 1);
    assert_int_equal(share_part(&share, 5), 1);
}

static void who_gives_more_than_its_share_goes_on_with_the_next(void **state)
{
    (void)state;
    struct share share = share_of(5, 3, 2);
    assert_int_equal(share_part(&share, 0), 4);
    assert_int_equal(share_part(&share, 1), 0);
    assert_int_equal(share_part(&share, 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_has_one_worker),
        cmocka_unit_test(who_is_asked_again_in_a_step_computes_the_same_part),
        cmocka_unit_test(who_gives_more_than_its_share_goes_on_with_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
