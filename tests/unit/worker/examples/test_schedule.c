/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "worker/examples/fashion/schedule.h"

static struct schedule read(const char *text)
{
    struct schedule schedule = {.rate = 0.1, .steps = 10};
    assert_true(schedule_read(text, &schedule));
    return schedule;
}

static void the_rate_falls_in_a_straight_line(void **state)
{
    (void)state;
    struct schedule falling = read("linear");
    assert_true(schedule_rate(&falling, 0) == 0.1F);
    assert_true(schedule_rate(&falling, 5) == 0.05F);
    assert_true(schedule_rate(&falling, 10) == 0.0F);
    assert_true(schedule_rate(&falling, 11) == 0.0F);
}

static void a_constant_rate_stays(void **state)
{
    (void)state;
    struct schedule constant = read("constant");
    assert_true(schedule_rate(&constant, 1000) == 0.1F);
}

static void exponential_falls_by_its_factor(void **state)
{
    (void)state;
    struct schedule smooth = read("exponential:0.25:4"), stairs = read("exponential:0.25:4:staircase");
    assert_true(schedule_rate(&smooth, 4) == (float)(0.1 * 0.25));
    assert_true(schedule_rate(&smooth, 2) == (float)(0.1 * 0.5));
    assert_true(schedule_rate(&stairs, 3) == 0.1F);
    assert_true(schedule_rate(&stairs, 4) == (float)(0.1 * 0.25));
    assert_true(schedule_rate(&stairs, 8) == (float)(0.1 * 0.0625));
}

static void cosine_falls_in_half_a_wave(void **state)
{
    (void)state;
    struct schedule whole = read("cosine"), end = read("cosine:0.02");
    assert_true(schedule_rate(&whole, 0) == 0.1F);
    assert_true(fabs((double)schedule_rate(&whole, 5) - 0.05) < 1e-8);
    assert_true(schedule_rate(&whole, 10) == 0.0F);
    assert_true(fabs((double)schedule_rate(&end, 5) - 0.06) < 1e-8);
    assert_true(schedule_rate(&end, 10) == 0.02F);
    assert_true(schedule_rate(&end, 1000) == 0.02F);
}

static void a_warmup_rises_to_the_schedule(void **state)
{
    (void)state;
    struct schedule schedule = read("linear");
    schedule.warmup = 4;
    assert_true(schedule_rate(&schedule, 0) == 0.025F);
    assert_true(schedule_rate(&schedule, 3) == 0.1F);
    assert_true(schedule_rate(&schedule, 4) == 0.06F); /* the schedule's own: it is not shifted */
}

static void reading_keeps_the_rate_and_refuses_the_rest(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "step",
                                        "linear:1",
                                        "constant:",
                                        "exponential",
                                        "exponential:0.9",
                                        "exponential:0.9:0",
                                        "exponential:0.9:1.5",
                                        "exponential:-1:10",
                                        "exponential:x:10",
                                        "exponential:0.9:10:stairs",
                                        "exponential:0.9:10:staircase:1",
                                        "cosine:x",
                                        "cosine:0.1:2",
                                        "cosine:"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct schedule schedule = {.rate = 0.5, .warmup = 3};
        if (schedule_read(wrong[i], &schedule))
            fail_msg("%s was taken", wrong[i]);
        assert_true(schedule.rate == 0.5 && schedule.warmup == 3 && schedule.shape == SCHEDULE_LINEAR);
    }
    struct schedule schedule = {.rate = 0.5, .warmup = 3};
    assert_true(schedule_read("exponential:0.94:1e3:staircase", &schedule));
    assert_true(schedule.rate == 0.5 && schedule.warmup == 3 && schedule.factor == 0.94);
    assert_true(schedule.steps == 1000 && schedule.staircase);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_falls_in_a_straight_line),
        cmocka_unit_test(a_constant_rate_stays),
        cmocka_unit_test(exponential_falls_by_its_factor),
        cmocka_unit_test(cosine_falls_in_half_a_wave),
        cmocka_unit_test(a_warmup_rises_to_the_schedule),
        cmocka_unit_test(reading_keeps_the_rate_and_refuses_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
