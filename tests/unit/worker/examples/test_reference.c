/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "worker/examples/fashion/reference.h"

/* A part's gradient is the same number everywhere; what is looked at is the last bias, which starts at zero. */
enum { LAST = NETWORK_VARIABLES - 1, PARTS_MAX = 8 };

static uint64_t elements(void)
{
    uint64_t all = 0;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        all += network_variables()[v].elements;
    return all;
}

static struct recipe sgd(void)
{
    return (struct recipe){.optimizer = RECIPE_SGD,
                           .schedule = {.shape = SCHEDULE_CONSTANT, .rate = 1.0},
                           .initial_tokens = RECIPE_NO_TOKENS,
                           .seed = 1};
}

static struct exchange *open(const struct recipe *recipe, unsigned parts, struct fault *fault)
{
    *fault = (struct fault){0};
    struct exchange *exchange = reference_new(recipe, parts, fault);
    assert_non_null(exchange);
    return exchange;
}

/* hand_in -- one part of a step; what finish says */
static int hand_in(struct exchange *exchange, float number, uint32_t weight)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        float *gradient;
        assert_int_equal(exchange->operations->gradient(exchange, v, &gradient), 0);
        for (uint64_t i = 0; i < network_variables()[v].elements; i++)
            gradient[i] = number;
        assert_int_equal(exchange->operations->push(exchange, v), 0);
    }
    return exchange->operations->finish(exchange, weight);
}

static uint64_t step_of(struct exchange *exchange)
{
    struct exchange_step step;
    assert_int_equal(exchange->operations->begin(exchange, &step), 0);
    return step.step;
}

static float value_of(struct exchange *exchange)
{
    const float *value;
    assert_int_equal(exchange->operations->parameter(exchange, LAST, &value), 0);
    return value[0];
}

/* one_step -- the last bias after a step of these parts, all of weight 1 */
static float one_step(const struct recipe *recipe, const float *numbers, unsigned parts)
{
    struct fault fault;
    struct exchange *exchange = open(recipe, parts, &fault);
    for (unsigned r = 0; r < parts; r++)
        assert_int_equal(hand_in(exchange, numbers[r], 1), 0);
    assert_int_equal(step_of(exchange), 1);
    float value = value_of(exchange);
    exchange->operations->close(exchange);
    return value;
}

static void a_step_is_applied_once_and_only_when_all_parts_are_there(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    recipe.schedule = (struct schedule){.shape = SCHEDULE_LINEAR, .rate = 0.5, .steps = 2};
    recipe.optimizer = RECIPE_MOMENTUM;
    recipe.momentum = 0.5;
    struct exchange *exchange = open(&recipe, 3, &fault);
    for (uint64_t k = 0; k < 2; k++) {
        float before = value_of(exchange);
        for (unsigned r = 0; r < 3; r++) {
            /* Nothing changes before the last part is there. */
            assert_int_equal(step_of(exchange), k);
            assert_true(value_of(exchange) == before);
            assert_int_equal(hand_in(exchange, (float)(r + 1), 1), 0);
        }
    }
    assert_int_equal(step_of(exchange), 2);
    /* Mean 2 of 1, 2, 3; the accumulator is 2, then 3; the rates are 0.5, then 0.25. */
    assert_true(value_of(exchange) == -1.0F - 0.75F);
    exchange->operations->close(exchange);
}

static void weights_weigh(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    struct exchange *exchange = open(&recipe, 2, &fault);
    assert_int_equal(hand_in(exchange, 1.0F, 3), 0);
    assert_int_equal(hand_in(exchange, 5.0F, 1), 0);
    assert_true(value_of(exchange) == -2.0F);
    exchange->operations->close(exchange);
}

static void a_mean_too_long_is_scaled(void **state)
{
    (void)state;
    const float numbers[] = {1.0F, 3.0F};
    struct recipe recipe = sgd();
    double norm = 2.0 * sqrt((double)elements());
    recipe.clip_global_norm = norm / 4.0;
    assert_true(fabs((double)one_step(&recipe, numbers, 2) + 0.5) < 1e-6);
    recipe.clip_global_norm = norm * 1.01;
    assert_true(one_step(&recipe, numbers, 2) == -2.0F);
}

static void a_part_too_long_is_scaled_before_the_mean(void **state)
{
    (void)state;
    const float numbers[] = {1.0F, 3.0F};
    struct recipe recipe = sgd();
    recipe.clip_norm = sqrt((double)elements());
    assert_true(fabs((double)one_step(&recipe, numbers, 2) + 1.0) < 1e-6);
}

static void elements_are_clipped_after_the_mean(void **state)
{
    (void)state;
    const float up[] = {-2.0F, 3.0F}, down[] = {2.0F, -3.0F};
    struct recipe recipe = sgd();
    recipe.clip_value = 0.25;
    assert_true(one_step(&recipe, up, 2) == -0.25F);
    assert_true(one_step(&recipe, down, 2) == 0.25F);
}

static void l2_decay_pulls_towards_zero(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    recipe.l2_decay = 0.5;
    struct exchange *exchange = open(&recipe, 1, &fault);
    assert_int_equal(hand_in(exchange, 1.0F, 1), 0);
    assert_true(value_of(exchange) == -1.0F);
    assert_int_equal(hand_in(exchange, 1.0F, 1), 0);
    assert_true(value_of(exchange) == -1.5F);
    exchange->operations->close(exchange);
}

static void small_types_are_updated_in_f32(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    recipe.dtype = DTYPE_BF16;
    recipe.schedule.rate = 0x1p-10;
    struct exchange *exchange = open(&recipe, 1, &fault);
    assert_int_equal(hand_in(exchange, -1024.0F, 1), 0);
    assert_true(value_of(exchange) == 1.0F);
    /* Each of these is less than half of bf16's last place at 1, which is 2^-7; together they are more. */
    assert_int_equal(hand_in(exchange, -2.0F, 1), 0);
    assert_true(value_of(exchange) == 1.0F);
    assert_int_equal(hand_in(exchange, -2.0F, 1), 0);
    assert_true(value_of(exchange) == 1.0F);
    assert_int_equal(hand_in(exchange, -2.0F, 1), 0);
    assert_true(value_of(exchange) == 1.0F + 0x1p-7F);
    exchange->operations->close(exchange);
}

static void gradients_are_rounded_as_if_they_were_sent(void **state)
{
    (void)state;
    const float numbers[] = {1.0F + 0x1p-11F, 1.0F + 0x1p-11F}; /* to even: 1 */
    struct recipe recipe = sgd();
    recipe.dtype = DTYPE_F16;
    assert_true(one_step(&recipe, numbers, 2) == -1.0F);
}

static void averages_start_at_the_initial_values_and_follow(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    struct values average = {0};
    uint64_t step;
    recipe.average_decay = 0.9999;
    assert_true(values_take(&average));
    struct exchange *exchange = open(&recipe, 1, &fault);
    assert_int_equal(exchange->operations->copy(exchange, EXCHANGE_AVERAGES, &average, &step), 0);
    assert_true(average.of[LAST][0] == 0.0F && average.of[0][0] != 0.0F);
    assert_int_equal(hand_in(exchange, -1.0F, 1), 0);
    assert_int_equal(exchange->operations->copy(exchange, EXCHANGE_AVERAGES, &average, &step), 0);
    assert_int_equal(step, 1);
    assert_true(fabs((double)average.of[LAST][0] - 9.0 / 11.0) < 1e-6);
    exchange->operations->close(exchange);
    values_clear(&average);
}

/* policy -- the last bias after a step of 1, NaN and 3 */
static float policy(enum recipe_non_finite what, struct exchange_counts *counts, int *said)
{
    struct recipe recipe = sgd();
    struct fault fault;
    recipe.non_finite = what;
    struct exchange *exchange = open(&recipe, 3, &fault);
    assert_int_equal(hand_in(exchange, 1.0F, 1), 0);
    assert_int_equal(hand_in(exchange, NAN, 1), 0);
    *said = hand_in(exchange, 3.0F, 1);
    assert_int_equal(*said < 0, fault.status != 0);
    assert_int_equal(exchange->operations->counts(exchange, 0, counts), 0);
    float value = value_of(exchange);
    exchange->operations->close(exchange);
    return value;
}

static void each_policy_does_what_it_says_of_a_nan(void **state)
{
    (void)state;
    struct exchange_counts counts;
    int said;
    assert_true(isnan(policy(RECIPE_PROPAGATE, &counts, &said)));
    assert_true(said == 0 && counts.accepted == 3 && counts.non_finite == 0);
    assert_true(policy(RECIPE_DROP, &counts, &said) == -2.0F);
    assert_true(said == 0 && counts.accepted == 2 && counts.non_finite == 1);
    assert_true(policy(RECIPE_SKIP, &counts, &said) == 0.0F);
    assert_true(said == 0 && counts.accepted == 0 && counts.non_finite == 1);
    policy(RECIPE_FAIL, &counts, &said);
    assert_int_equal(said, -1);
}

static void a_skipped_step_is_no_update_of_adam(void **state)
{
    (void)state;
    struct recipe recipe = sgd();
    struct fault fault;
    recipe.optimizer = RECIPE_ADAM;
    recipe.non_finite = RECIPE_SKIP;
    recipe.schedule.rate = 0.5;
    recipe.beta1 = 0.9;
    recipe.beta2 = 0.999;
    recipe.epsilon = 1e-8;
    struct exchange *exchange = open(&recipe, 1, &fault);
    assert_int_equal(hand_in(exchange, INFINITY, 1), 0);
    assert_int_equal(step_of(exchange), 1);
    assert_true(value_of(exchange) == 0.0F);
    assert_int_equal(hand_in(exchange, 7.0F, 1), 0);
    /* The first step of Adam is as long as the rate. */
    assert_true(fabs((double)value_of(exchange) + 0.5) < 1e-4);
    exchange->operations->close(exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_applied_once_and_only_when_all_parts_are_there),
        cmocka_unit_test(weights_weigh),
        cmocka_unit_test(a_mean_too_long_is_scaled),
        cmocka_unit_test(a_part_too_long_is_scaled_before_the_mean),
        cmocka_unit_test(elements_are_clipped_after_the_mean),
        cmocka_unit_test(l2_decay_pulls_towards_zero),
        cmocka_unit_test(small_types_are_updated_in_f32),
        cmocka_unit_test(gradients_are_rounded_as_if_they_were_sent),
        cmocka_unit_test(averages_start_at_the_initial_values_and_follow),
        cmocka_unit_test(each_policy_does_what_it_says_of_a_nan),
        cmocka_unit_test(a_skipped_step_is_no_update_of_adam),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
