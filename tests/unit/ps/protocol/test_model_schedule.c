/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of every step is what the header's formulas say, here computed another way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/protocol/model.h"
#include "ps/protocol/schedule.h"

/* rate_model -- a checked model that was told keys and values in turn, up to NULL. */
static struct model *rate_model(const char *const *told)
{
    struct model *model;

    assert_int_equal(model_new("m", &model), 0);
    for (; told[0] != NULL; told += 2)
        assert_int_equal(model_set(model, told[0], told[1]), 0);
    assert_int_equal(model_check_keys(model), 0);
    return model;
}

#define RATE(...) rate_model((const char *const[]){__VA_ARGS__, NULL})

/* rate_near -- the rate of a step, to a few units in the last place of a double, and its rounding. */
static void rate_near(const struct model *model, uint64_t step, double expected)
{
    double got = schedule_rate(model, step);

    if (fabs(got - expected) > 1e-14 * fabs(expected) + 1e-18)
        fail_msg("step %llu: %.17g, not %.17g", (unsigned long long)step, got, expected);
    assert_true(model_learning_rate(model, step) == (float)got);
}

static void the_rate_is_constant_without_a_schedule(void **state)
{
    (void)state;
    struct model *model = RATE("learning_rate", "0.1");
    assert_true(model_learning_rate(model, 0) == 0.1f);
    assert_true(model_learning_rate(model, UINT64_MAX) == 0.1f);
    model_delete(&model);
}

static void the_rate_falls_linearly_to_its_end_and_stays(void **state)
{
    (void)state;
    struct model *model =
        RATE("learning_rate", "0.1", "learning_rate_end", "0.01", "learning_rate_steps", "100");
    for (uint64_t step = 0; step <= 100; step++) {
        rate_near(model, step, (0.1 * (double)(100 - step) + 0.01 * (double)step) / 100);
        if (step > 0)
            assert_true(model_learning_rate(model, step) < model_learning_rate(model, step - 1));
    }
    assert_true(model_learning_rate(model, 0) == 0.1f);
    assert_true(model_learning_rate(model, 100) == 0.01f);
    assert_true(model_learning_rate(model, 101) == 0.01f);
    assert_true(model_learning_rate(model, UINT64_MAX) == 0.01f);
    model_delete(&model);
}

static void the_linear_rate_has_the_bits_it_always_had(void **state)
{
    (void)state;
    struct model *model = RATE("learning_rate", "0.05", "learning_rate_steps", "937");
    for (uint64_t step = 0; step < 937; step++) {
        double rate = 0.0 + (0.05 - 0.0) * (1.0 - (double)step / 937.0);
        assert_true(model_learning_rate(model, step) == (float)rate);
    }
    model_delete(&model);
}

static void the_exponential_rate_decays_by_its_factor_little_by_little(void **state)
{
    (void)state;
    struct model *model =
        RATE("schedule", "exponential", "learning_rate", "0.5", "learning_rate_steps", "10");
    for (uint64_t step = 0; step <= 1000; step++)
        rate_near(model, step, 0.5 * exp(log(0.94) * (double)step / 10));
    model_delete(&model);
}

static void the_staircase_decays_at_once_as_in_the_reference_recipe(void **state)
{
    (void)state;
    struct model *model = RATE("schedule", "exponential", "learning_rate", "0.045", "learning_rate_steps",
                               "7", "learning_rate_factor", "0.94", "staircase", "yes");
    double expected = 0.045;
    for (uint64_t step = 0; step <= 350; step++) {
        if (step > 0 && step % 7 == 0)
            expected *= 0.94;
        rate_near(model, step, expected);
    }
    model_delete(&model);
}

static void the_cosine_rate_falls_along_half_a_wave_to_its_end_and_stays(void **state)
{
    (void)state;
    struct model *model = RATE("schedule", "cosine", "learning_rate", "0.8", "learning_rate_end", "0.2",
                               "learning_rate_steps", "90");
    for (uint64_t step = 0; step <= 90; step++) { /* half of 1 + cos(x) is the square of cos(x / 2) */
        double half = cos((double)step * 3.14159265358979323846 / 180);
        rate_near(model, step, 0.2 + 0.6 * half * half);
    }
    assert_true(model_learning_rate(model, 91) == 0.2f);
    assert_true(model_learning_rate(model, UINT64_MAX) == 0.2f);
    model_delete(&model);
}

static void a_warm_up_rises_to_the_rate_and_does_not_shift_the_schedule(void **state)
{
    (void)state;
    static const char *const schedules[] = {"linear", "exponential", "cosine"};
    for (size_t i = 0; i < 3; i++) {
        struct model *warm = RATE("schedule", schedules[i], "learning_rate", "0.5", "learning_rate_steps",
                                  "50", "warmup_steps", "8");
        struct model *cold =
            RATE("schedule", schedules[i], "learning_rate", "0.5", "learning_rate_steps", "50");
        for (uint64_t step = 0; step < 8; step++)
            rate_near(warm, step, (double)(step + 1) / 16);
        for (uint64_t step = 8; step < 60; step++)
            assert_true(schedule_rate(warm, step) == schedule_rate(cold, step));
        model_delete(&warm);
        model_delete(&cold);
    }
    struct model *model = RATE("learning_rate", "0.5", "warmup_steps", "2");
    assert_true(model_learning_rate(model, 0) == 0.25f);
    assert_true(model_learning_rate(model, 1) == 0.5f);
    assert_true(model_learning_rate(model, 2) == 0.5f);
    model_delete(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_is_constant_without_a_schedule),
        cmocka_unit_test(the_rate_falls_linearly_to_its_end_and_stays),
        cmocka_unit_test(the_linear_rate_has_the_bits_it_always_had),
        cmocka_unit_test(the_exponential_rate_decays_by_its_factor_little_by_little),
        cmocka_unit_test(the_staircase_decays_at_once_as_in_the_reference_recipe),
        cmocka_unit_test(the_cosine_rate_falls_along_half_a_wave_to_its_end_and_stays),
        cmocka_unit_test(a_warm_up_rises_to_the_rate_and_does_not_shift_the_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
