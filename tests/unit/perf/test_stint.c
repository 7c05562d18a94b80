/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf/clock.h"
#include "perf/stint.h"

/* rounds -- iterations that a stint has, up to a million. */
static uint64_t rounds(const struct stint *stint, uint64_t each)
{
    uint64_t done = 0;

    while (done < 1000000 && stint_goes_on(stint, done, each))
        done++;
    return done;
}

static void iterations_are_counted_in_whole_groups(void **state)
{
    const struct settings s = {.iterations = 10, .warmup = 3};
    const struct stint measured = stint_measured(&s), warmup = stint_warmup(&s);
    (void)state;

    assert_int_equal(rounds(&measured, 1), 10);
    assert_int_equal(rounds(&measured, 4), 12);
    assert_int_equal(rounds(&warmup, 1), 3);
    assert_int_equal(rounds(&warmup, 16), 16);
}

static void without_warmup_nothing_is_done(void **state)
{
    const struct settings s = {.iterations = 10};
    const struct stint warmup = stint_warmup(&s);
    (void)state;

    assert_int_equal(rounds(&warmup, 1), 0);
}

static void a_time_goes_before_iterations(void **state)
{
    const struct settings s = {.iterations = 1, .duration = 0.02};
    uint64_t begin = perf_clock_now();
    const struct stint stint = stint_measured(&s);
    (void)state;

    for (uint64_t done = 1; stint_goes_on(&stint, done, 1); done++)
        ;
    assert_true(perf_clock_now() - begin >= 20000000);
}

static void a_time_that_is_over_has_one_group(void **state)
{
    const struct stint stint = {.iterations = 100, .end = 1};
    (void)state;

    assert_int_equal(rounds(&stint, 4), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations_are_counted_in_whole_groups),
        cmocka_unit_test(without_warmup_nothing_is_done),
        cmocka_unit_test(a_time_goes_before_iterations),
        cmocka_unit_test(a_time_that_is_over_has_one_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
