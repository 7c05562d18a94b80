/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device hands out to its queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/verbs/device.h"

static void each_queue_takes_the_next_completion_vector_of_those_that_there_are(void **state)
{
    (void)state;
    static const int wanted[] = {2, 3, 0, 1, 2};
    struct ibv_context context = {.num_comp_vectors = 4};
    struct device device = {.context = &context};
    atomic_init(&device.vector, 6);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        assert_int_equal(device_vector(&device), wanted[i]);
}

static void a_device_that_tells_of_no_vector_has_the_first(void **state)
{
    (void)state;
    struct ibv_context context = {.num_comp_vectors = 0};
    struct device device = {.context = &context};
    atomic_init(&device.vector, UINT32_MAX);
    assert_int_equal(device_vector(&device), 0);
    assert_int_equal(device_vector(&device), 0);
}

static void retries_end_within_half_the_time_after_which_a_peer_is_lost(void **state)
{
    (void)state;
    for (int ms = 2000; ms <= 600000; ms *= 3) {
        uint8_t t = device_ack_timeout(ms);
        assert_in_range(t, 14, 21);
        assert_true(t == 14 || (DEVICE_RETRIES + 1) * (UINT64_C(4096) << t) <= (uint64_t)ms * 500000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_queue_takes_the_next_completion_vector_of_those_that_there_are),
        cmocka_unit_test(a_device_that_tells_of_no_vector_has_the_first),
        cmocka_unit_test(retries_end_within_half_the_time_after_which_a_peer_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
