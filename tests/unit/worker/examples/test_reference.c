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

/* assert_bits -- equal as bits, not only as numbers */
static void assert_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    assert_int_equal(x, y);
}

static void the_mean_is_summed_in_rank_order(void **state)
{
    (void)state;
    /* 2^24 + 1 is no f32: added one by one the ones vanish, added first they don't. */
    const float big = 16777216.0F;
    const float g0[] = {big, 1.0F}, g1[] = {1.0F, 1.0F}, g2[] = {1.0F, big};
    const float *gradients[] = {g0, g1, g2};
    const uint32_t weights[] = {1, 1, 1};
    float mean[2];
    reference_mean(3, 2, gradients, weights, mean);
    assert_bits(mean[0], 16777216.0F / 3.0F);
    assert_bits(mean[1], 16777218.0F / 3.0F);
}

static void the_mean_is_a_true_division(void **state)
{
    (void)state;
    /* 7 / 49 by the reciprocal is one bit off. */
    const float g0[] = {7.0F};
    const float zero[] = {0.0F};
    const float *gradients[49] = {g0};
    uint32_t weights[49];
    float mean[1];
    for (size_t i = 0; i < 49; i++) {
        weights[i] = 1;
        if (i > 0)
            gradients[i] = zero;
    }
    reference_mean(49, 1, gradients, weights, mean);
    volatile float divisor = 49.0F;
    assert_bits(mean[0], 7.0F / divisor);
}

static void unequal_weights_weigh(void **state)
{
    (void)state;
    const float g0[] = {1.5F}, g1[] = {-2.0F};
    const float *gradients[] = {g0, g1};
    const uint32_t weights[] = {27, 26};
    float mean[1];
    reference_mean(2, 1, gradients, weights, mean);
    assert_bits(mean[0], (40.5F - 52.0F) / 53.0F);
}

static void products_are_rounded_before_they_are_added(void **state)
{
    (void)state;
    /* 3 * (1 + 2^-23) = 3 + 3 * 2^-23 is rounded to 3 + 2^-21; contracted into the sum with -3 it
     * would stay 3 * 2^-23. */
    const float g0[] = {-3.0F}, g1[] = {1.0F + 0x1p-23F};
    const float *gradients[] = {g0, g1};
    const uint32_t weights[] = {1, 3};
    float mean[1];
    reference_mean(2, 1, gradients, weights, mean);
    assert_bits(mean[0], 0x1p-21F / 4.0F);
}

static void sgd_takes_the_rate_times_the_gradient(void **state)
{
    (void)state;
    float value[] = {1.0F, -1.0F};
    const float gradient[] = {0.5F, 0.25F};
    reference_sgd(2, 2.0F, gradient, value);
    assert_bits(value[0], 0.0F);
    assert_bits(value[1], -1.5F);
}

static void momentum_accumulates_as_tensorflow_does(void **state)
{
    (void)state;
    float value[] = {1.0F};
    float accum[] = {0.0F};
    const float gradient[] = {1.0F};
    reference_momentum(1, 0.5F, 0.5F, gradient, accum, value);
    assert_bits(accum[0], 1.0F);
    assert_bits(value[0], 0.5F);
    reference_momentum(1, 0.25F, 0.5F, gradient, accum, value);
    /* The rate multiplies the whole accumulator, so a new rate also counts for old gradients. */
    assert_bits(accum[0], 1.5F);
    assert_bits(value[0], 0.125F);
}

/* parts_step -- one step of a reference with as many parts, all gradients 1 in part 0, 2 in part 1,
 * ... */
static float parts_step(unsigned parts, enum exchange_rule rule)
{
    struct fault fault = {0};
    struct exchange_recipe recipe = {
        .rule = rule, .momentum = 0.5, .schedule = {.rate = 0.5, .steps = 2}, .seed = 1};
    struct exchange *exchange = reference_new(&recipe, parts, &fault);
    const float *value;
    uint64_t step;
    assert_non_null(exchange);
    for (uint64_t k = 0; k < 2; k++) {
        assert_int_equal(exchange->operations->begin(exchange, &step), 0);
        assert_int_equal(step, k);
        for (unsigned r = 0; r < parts; r++) {
            for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
                float *gradient;
                assert_int_equal(exchange->operations->gradient(exchange, v, &gradient), 0);
                for (uint64_t i = 0; i < network_variables()[v].elements; i++)
                    gradient[i] = (float)(r + 1);
                assert_int_equal(exchange->operations->push(exchange, v), 0);
            }
            /* Nothing changes before the last part is there. */
            assert_int_equal(exchange->operations->begin(exchange, &step), 0);
            assert_int_equal(step, k);
            assert_int_equal(exchange->operations->finish(exchange, 1), 0);
        }
    }
    assert_int_equal(exchange->operations->begin(exchange, &step), 0);
    assert_int_equal(step, 2);
    /* A bias begins at zero. */
    assert_int_equal(exchange->operations->parameter(exchange, NETWORK_VARIABLES - 1, &value), 0);
    float got = value[0];
    exchange->operations->close(exchange);
    return got;
}

static void a_step_is_applied_once_and_only_when_all_parts_are_there(void **state)
{
    (void)state;
    /* Mean 2 of 1, 2, 3; the rates are 0.5, then 0.25. */
    assert_bits(parts_step(3, EXCHANGE_SGD), -1.0F - 0.5F);
    /* The accumulator is 2, then 3. */
    assert_bits(parts_step(3, EXCHANGE_MOMENTUM), -1.0F - 0.75F);
}

static void the_rate_falls_in_a_straight_line(void **state)
{
    (void)state;
    struct schedule falling = {.rate = 0.1, .steps = 10};
    struct schedule constant = {.rate = 0.1};
    assert_bits(schedule_rate(&falling, 0), 0.1F);
    assert_bits(schedule_rate(&falling, 5), 0.05F);
    assert_bits(schedule_rate(&falling, 10), 0.0F);
    assert_bits(schedule_rate(&falling, 11), 0.0F);
    assert_bits(schedule_rate(&constant, 1000), 0.1F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_summed_in_rank_order),
        cmocka_unit_test(the_mean_is_a_true_division),
        cmocka_unit_test(unequal_weights_weigh),
        cmocka_unit_test(products_are_rounded_before_they_are_added),
        cmocka_unit_test(sgd_takes_the_rate_times_the_gradient),
        cmocka_unit_test(momentum_accumulates_as_tensorflow_does),
        cmocka_unit_test(a_step_is_applied_once_and_only_when_all_parts_are_there),
        cmocka_unit_test(the_rate_falls_in_a_straight_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
