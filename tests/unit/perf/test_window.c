/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf/window.h"

static void slowest_and_fastest_are_of_whole_windows(void **state)
{
    struct window w;
    (void)state;

    window_begin(&w, 1000);
    for (uint64_t ms = 1; ms <= 100; ms++)
        window_add(&w, 1000 + ms * 1000000, 1000); /* 1 MB/s */
    for (uint64_t ms = 101; ms <= 200; ms++)
        window_add(&w, 1000 + ms * 1000000, 3000);
    window_add(&w, 1000 + 201 * UINT64_C(1000000), 1000000000); /* a window that is not over */
    assert_int_equal(w.count, 2);
    assert_true(fabs(w.slowest - 1e6) < 1);
    assert_true(fabs(w.fastest - 3e6) < 1);
    assert_true(fabs(window_mean(&w) - 1000400000.0 / 0.201) < 1);
}

static void without_time_there_is_no_rate(void **state)
{
    struct window w;
    (void)state;

    window_begin(&w, 5);
    assert_true(window_mean(&w) == 0);
    window_add(&w, 5, 100);
    assert_true(window_mean(&w) == 0);
    assert_int_equal(w.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slowest_and_fastest_are_of_whole_windows),
        cmocka_unit_test(without_time_there_is_no_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
