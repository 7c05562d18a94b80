/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "worker/examples/fashion/dtype.h"
#include "worker/examples/fashion/random.h"

static uint16_t narrow(enum dtype dtype, float value)
{
    uint16_t half;
    dtype_narrow(dtype, &value, &half, 1);
    return half;
}

static float widen(enum dtype dtype, uint16_t half)
{
    float value;
    dtype_widen(dtype, &half, &value, 1);
    return value;
}

static void every_number_of_16_bits_comes_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        float f16 = widen(DTYPE_F16, (uint16_t)half), bf16 = widen(DTYPE_BF16, (uint16_t)half);
        if (!isnan(f16))
            assert_int_equal(narrow(DTYPE_F16, f16), half);
        if (!isnan(bf16))
            assert_int_equal(narrow(DTYPE_BF16, bf16), half);
        assert_true(!isnan(f16) || isnan(widen(DTYPE_F16, narrow(DTYPE_F16, f16))));
        assert_true(!isnan(bf16) || isnan(widen(DTYPE_BF16, narrow(DTYPE_BF16, bf16))));
    }
}

/* rounded -- to nearest even with so many bits of fraction, by the mathematics of doubles; least: the exponent of the
 * smallest normal number */
static double rounded(double value, int fraction, int least, double largest)
{
    int exponent;
    if (value == 0.0)
        return value;
    frexp(value, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    double unit = ldexp(1.0, exponent - fraction);
    double result = nearbyint(value / unit) * unit;
    return fabs(result) > largest ? copysign(INFINITY, value) : result;
}

static void numbers_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_of(1, 2, 3);
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)random_next(&stream);
        float value;
        if (i % 2 == 0) /* in f16's range, and often just half-way */
            bits = (bits & 0x80000000U) | ((bits >> 8 & 0x1fU) + 98) << 23 |
                   (bits & 0x7fffffU & (i % 4 == 0 ? 0x7ff000U : ~0U));
        memcpy(&value, &bits, sizeof value);
        if (isnan(value))
            continue;
        assert_true((double)widen(DTYPE_F16, narrow(DTYPE_F16, value)) ==
                    rounded((double)value, 10, -14, 65504.0));
        if (!isinf(value))
            assert_true((double)widen(DTYPE_BF16, narrow(DTYPE_BF16, value)) ==
                        rounded((double)value, 7, -126, 0x1.fep127));
    }
}

static void the_edges_of_f16_are_where_they_should_be(void **state)
{
    (void)state;
    assert_int_equal(narrow(DTYPE_F16, 65504.0F), 0x7bff);
    assert_int_equal(narrow(DTYPE_F16, 65519.99F), 0x7bff);
    assert_int_equal(narrow(DTYPE_F16, 65520.0F), 0x7c00);
    assert_int_equal(narrow(DTYPE_F16, -1e30F), 0xfc00);
    assert_int_equal(narrow(DTYPE_F16, 0x1p-25F), 0); /* half of the smallest: to even */
    assert_int_equal(narrow(DTYPE_F16, 0x1.000002p-25F), 1);
    assert_int_equal(narrow(DTYPE_F16, -0.0F), 0x8000);
    assert_int_equal(narrow(DTYPE_F16, 1.0F + 0x1p-11F), 0x3c00);
    assert_int_equal(narrow(DTYPE_F16, 1.0F + 0x3p-11F), 0x3c02);
    assert_int_equal(narrow(DTYPE_F16, 0x1.ffcp-15F), 0x0400); /* the carry makes it normal */
}

static void nan_and_infinity_stay_what_they_are(void **state)
{
    (void)state;
    for (int d = DTYPE_F16; d <= DTYPE_BF16; d++) {
        enum dtype dtype = (enum dtype)d;
        assert_true(isnan(widen(dtype, narrow(dtype, NAN))));
        assert_true(widen(dtype, narrow(dtype, INFINITY)) == INFINITY);
        assert_true(widen(dtype, narrow(dtype, -INFINITY)) == -INFINITY);
    }
    /* A NaN whose upper bits are those of an infinity. */
    uint32_t bits = 0x7f800001U;
    float value;
    memcpy(&value, &bits, sizeof value);
    assert_true(isnan(widen(DTYPE_F16, narrow(DTYPE_F16, value))));
    assert_true(isnan(widen(DTYPE_BF16, narrow(DTYPE_BF16, value))));
}

static void rounding_in_place_is_narrowing_and_widening(void **state)
{
    (void)state;
    const float numbers[] = {0.1F, -3.14159F, 1e-6F, 7e4F};
    for (int d = DTYPE_F32; d <= DTYPE_BF16; d++) {
        float values[4];
        memcpy(values, numbers, sizeof values);
        dtype_round((enum dtype)d, values, 4);
        for (int i = 0; i < 4; i++) {
            float expected =
                d == DTYPE_F32 ? numbers[i] : widen((enum dtype)d, narrow((enum dtype)d, numbers[i]));
            assert_true(values[i] == expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_16_bits_comes_back),
        cmocka_unit_test(numbers_are_rounded_to_nearest_even),
        cmocka_unit_test(the_edges_of_f16_are_where_they_should_be),
        cmocka_unit_test(nan_and_infinity_stay_what_they_are),
        cmocka_unit_test(rounding_in_place_is_narrowing_and_widening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
