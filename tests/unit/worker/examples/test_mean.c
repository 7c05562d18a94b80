/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/examples/fashion/mean.h"

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
    float mean[2];
    mean_of(3, 2, gradients, NULL, 3.0, mean);
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
    float mean[1];
    for (size_t i = 1; i < 49; i++)
        gradients[i] = zero;
    mean_of(49, 1, gradients, NULL, 49.0, mean);
    volatile float divisor = 49.0F;
    assert_bits(mean[0], 7.0F / divisor);
}

static void unequal_weights_weigh(void **state)
{
    (void)state;
    const float g0[] = {1.5F}, g1[] = {-2.0F};
    const float *gradients[] = {g0, g1};
    const float factors[] = {27.0F, 26.0F};
    float mean[1];
    mean_of(2, 1, gradients, factors, 53.0, mean);
    assert_bits(mean[0], (40.5F - 52.0F) / 53.0F);
}

static void products_are_rounded_before_they_are_added(void **state)
{
    (void)state;
    /* 3 * (1 + 2^-23) = 3 + 3 * 2^-23 is rounded to 3 + 2^-21; contracted into the sum with -3 it
     * would stay 3 * 2^-23. */
    const float g0[] = {-3.0F}, g1[] = {1.0F + 0x1p-23F};
    const float *gradients[] = {g0, g1};
    const float factors[] = {1.0F, 3.0F};
    float mean[1];
    mean_of(2, 1, gradients, factors, 4.0, mean);
    assert_bits(mean[0], 0x1p-21F / 4.0F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_summed_in_rank_order),
        cmocka_unit_test(the_mean_is_a_true_division),
        cmocka_unit_test(unequal_weights_weigh),
        cmocka_unit_test(products_are_rounded_before_they_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
