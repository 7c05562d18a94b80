/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "worker/examples/fashion/norm.h"
#include "worker/examples/fashion/random.h"

static double sum_of(const double *values, size_t n)
{
    struct fsum sum = {0};
    for (size_t i = 0; i < n; i++)
        fsum_add(&sum, values[i]);
    return fsum_round(&sum);
}

static void nothing_is_lost_before_the_end(void **state)
{
    (void)state;
    const double cancelled[] = {1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50};
    const double below[] = {0x1p53, -0.5, -0x1p-54};
    const double small[] = {0x1p53, 1.0, 0x1p-100};
    const double even[] = {0x1p53, 1.0};
    const double tenths[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
    assert_true(sum_of(cancelled, 7) == 1e-100);
    assert_true(sum_of(below, 3) == 0x1p53 - 1.0);
    assert_true(sum_of(small, 3) == 0x1p53 + 2.0);
    assert_true(sum_of(even, 2) == 0x1p53);
    assert_true(sum_of(tenths, 10) == 1.0);
    assert_true(sum_of(NULL, 0) == 0.0);
}

static void the_order_does_not_show(void **state)
{
    (void)state;
    enum { N = 200 };
    struct random_stream stream = random_stream_of(1, 1, 1);
    for (int round = 0; round < 200; round++) {
        double values[N];
        for (size_t i = 0; i < N; i++)
            values[i] = ldexp(random_normal(&stream), (int)random_below(&stream, 400) - 200);
        double first = sum_of(values, N);
        for (size_t i = N; i > 1; i--) {
            size_t j = (size_t)random_below(&stream, i);
            double held = values[i - 1];
            values[i - 1] = values[j];
            values[j] = held;
        }
        assert_true(sum_of(values, N) == first);
    }
}

static void whole_numbers_are_summed_as_integers_are(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_of(2, 1, 1);
    for (int round = 0; round < 200; round++) {
        __int128 exact = 0;
        struct fsum sum = {0};
        for (int i = 0; i < 300; i++) {
            uint64_t value = (random_next(&stream) >> 11) << random_below(&stream, 12);
            bool minus = random_below(&stream, 2) == 1;
            exact += minus ? -(__int128)value : (__int128)value;
            fsum_add(&sum, minus ? -(double)value : (double)value);
        }
        assert_true(fsum_round(&sum) == (double)exact);
    }
}

static void what_is_not_finite_shows(void **state)
{
    (void)state;
    const double infinite[] = {1.0, INFINITY, 2.0}, both[] = {INFINITY, -INFINITY}, nan[] = {1.0, NAN};
    assert_true(sum_of(infinite, 3) == INFINITY);
    assert_true(isnan(sum_of(both, 2)));
    assert_true(isnan(sum_of(nan, 2)));
}

static void squares_are_summed_in_eight_rows(void **state)
{
    (void)state;
    /* 2^-27 squared is lost beside 1, but not beside other small ones: 8 of them meet in the second row. */
    float values[72] = {0};
    values[0] = 1.0F;
    for (size_t i = 1; i < 72; i += 8)
        values[i] = 0x1p-27F;
    assert_true(norm_block(values, 72) == 1.0 + 9 * 0x1p-54);
    values[1] = 0.0F;
    for (size_t i = 0; i < 72; i += 8)
        values[i] = i == 0 ? 1.0F : 0x1p-27F;
    assert_true(norm_block(values, 72) == 1.0 + 8 * 0x1p-54);
}

static void blocks_are_added_exactly(void **state)
{
    (void)state;
    static float values[3 * NORM_BLOCK + 5];
    memset(values, 0, sizeof values);
    values[0] = 0x1p27F;
    values[NORM_BLOCK] = 1.0F;
    values[2 * NORM_BLOCK] = 1.0F;
    values[3 * NORM_BLOCK + 4] = 1.0F;
    struct fsum sum = {0};
    norm_exact(&sum, values, 3 * NORM_BLOCK + 5);
    assert_true(fsum_round(&sum) == 0x1p54 + 4.0);                 /* 3 is rounded up to what there is */
    assert_true(norm_plain(values, 3 * NORM_BLOCK + 5) == 0x1p54); /* each 1 is lost */
}

static void only_a_norm_that_is_too_great_is_scaled(void **state)
{
    (void)state;
    assert_true(norm_scale(16.0, 4.0) == 1.0);
    assert_true(norm_scale(16.0, 1.0) == 0.25);
    assert_true(norm_scale(0.0, 1.0) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_before_the_end),
        cmocka_unit_test(the_order_does_not_show),
        cmocka_unit_test(whole_numbers_are_summed_as_integers_are),
        cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(squares_are_summed_in_eight_rows),
        cmocka_unit_test(blocks_are_added_exactly),
        cmocka_unit_test(only_a_norm_that_is_too_great_is_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
