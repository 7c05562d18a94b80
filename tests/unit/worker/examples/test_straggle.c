/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/straggle.h"
#include <cmocka.h>

static void lateness_is_a_function_of_seed_rank_and_step(void **state)
{
    (void)state;
    struct straggle straggle = {.probability = 0.3, .ms = 1};
    unsigned late = 0, alike = 0, again = 0;
    for (uint64_t step = 0; step < 10000; step++) {
        bool is = straggle_is_late(&straggle, 1, 0, step);
        late += is;
        alike += is == straggle_is_late(&straggle, 1, 1, step);
        again += is == straggle_is_late(&straggle, 1, 0, step);
    }
    assert_in_range(late, 2800, 3200);
    assert_in_range(alike, 5500, 6100); /* 0.3^2 + 0.7^2 */
    assert_int_equal(again, 10000);
}

static void nobody_is_late_with_0_and_everybody_with_1(void **state)
{
    (void)state;
    struct straggle never = {0}, always = {.probability = 1.0};
    for (uint64_t step = 0; step < 1000; step++) {
        assert_false(straggle_is_late(&never, 1, 2, step));
        assert_true(straggle_is_late(&always, 1, 2, step));
    }
}

static void only_a_probability_and_milliseconds_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",        "0.1",    "0.1:",    ":5",          "1.1:5", "-0.1:5",
                                        "0.1:5:6", "0.1:-5", "0.1:1.5", "0.1:3600001", "x:5",   "nan:5"};
    struct straggle straggle = {.ms = 77};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (straggle_read(wrong[i], &straggle))
            fail_msg("%s was taken", wrong[i]);
        assert_int_equal(straggle.ms, 77);
    }
    assert_true(straggle_read("0.25:40", &straggle));
    assert_true(straggle.probability == 0.25 && straggle.ms == 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lateness_is_a_function_of_seed_rank_and_step),
        cmocka_unit_test(nobody_is_late_with_0_and_everybody_with_1),
        cmocka_unit_test(only_a_probability_and_milliseconds_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
