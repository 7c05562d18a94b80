/* SPDX-License-Identifier: BSD-3-Clause */
/* The exact sum is exact, rounds once, and does not depend on order or on how it was shared out. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/exact.h"
#include "stepgate/error.h"
#include "transport/base/random.h"

#define SEED 20240605
#define COUNT 500

/* sum_of -- rounded. */
static double sum_of(const double *values, size_t n)
{
    struct exact_sum sum;

    exact_clear(&sum);
    for (size_t i = 0; i < n; i++)
        exact_add(&sum, values[i]);
    return exact_round(&sum);
}
#define SUM(...) sum_of((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* packed -- of a sum. */
static void packed(const struct exact_sum *sum, uint8_t out[EXACT_BYTES])
{
    struct bytes_writer w = {out, EXACT_BYTES, 0, false};

    exact_pack(sum, &w);
    assert_true(w.used == EXACT_BYTES && !w.overflow);
}

/* any_double -- any finite one, of any size. */
static double any_double(struct random_source *random)
{
    double value;

    do {
        uint64_t bits =
            random_below(random, UINT64_C(1) << 32) << 32 | random_below(random, UINT64_C(1) << 32);
        memcpy(&value, &bits, sizeof(value));
    } while (!isfinite(value));
    return value;
}

static void one_double_comes_back(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    for (int i = 0; i < 20000; i++) {
        double x = any_double(&random);
        assert_true(SUM(x) == x);
        assert_true(SUM(x, -x) == 0);
    }
    const double ends[] = {
        0, DBL_MAX, -DBL_MAX, DBL_TRUE_MIN, -DBL_TRUE_MIN, DBL_MIN, 0x0.fffffffffffffp-1022};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        assert_true(SUM(ends[i]) == ends[i]);
}

static void two_doubles_are_rounded_as_the_processor_rounds_them(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    for (int i = 0; i < 20000; i++) {
        double x = any_double(&random), y = ldexp(any_double(&random), 0);
        if (i % 2) { /* near each other, so that both matter */
            int e;
            y = frexp(y, &e);
            y = ldexp(y, ilogb(x) + (int)random_below(&random, 120) - 60);
        }
        volatile double plain = x + y;
        if (isfinite(y))
            assert_true(SUM(x, y) == plain);
    }
}

static void many_doubles_are_rounded_once(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    for (int round = 0; round < 2000; round++) {
        struct exact_sum sum;
        __int128 whole = 0;
        int place = (int)random_below(&random, 1900) - 1074; /* of the unit */
        exact_clear(&sum);
        for (int i = 0; i < 50; i++) {
            int64_t m = (int64_t)random_below(&random, UINT64_C(1) << 40) - (INT64_C(1) << 39);
            int shift = (int)random_below(&random, 70);
            whole += (__int128)m * ((__int128)1 << shift);
            exact_add(&sum, ldexp((double)m, place + shift));
        }
        /* the conversion rounds to nearest even; 2^-1074 times a whole number below 2^53 is exact, a larger one is normal */
        assert_true(exact_round(&sum) == ldexp((double)whole, place));
    }
}

static void ties_go_to_even_and_a_last_bit_breaks_them(void **state)
{
    (void)state;
    assert_true(SUM(1, 0x1p-53) == 1);
    assert_true(SUM(1, 0x1p-53, DBL_TRUE_MIN) == 1 + DBL_EPSILON);
    assert_true(SUM(1, 0x1p-53, -DBL_TRUE_MIN) == 1);
    assert_true(SUM(1 + DBL_EPSILON, 0x1p-53) == 1 + 2 * DBL_EPSILON);
    assert_true(SUM(1 + DBL_EPSILON, 0x1p-53, -DBL_TRUE_MIN) == 1 + DBL_EPSILON);
    assert_true(SUM(-1, -0x1p-53) == -1);
    assert_true(SUM(-1, -0x1p-53, -DBL_TRUE_MIN) == -1 - DBL_EPSILON);
}

static void what_is_too_large_is_infinite_only_if_the_sum_is(void **state)
{
    (void)state;
    assert_true(SUM(DBL_MAX, DBL_MAX) == (double)INFINITY);
    assert_true(SUM(-DBL_MAX, -DBL_MAX) == -(double)INFINITY);
    assert_true(SUM(DBL_MAX, DBL_MAX, -DBL_MAX) == DBL_MAX);
    assert_true(SUM(DBL_MAX, 0x1p969) == DBL_MAX);
    assert_true(SUM(DBL_MAX, 0x1p970) == (double)INFINITY);
    assert_true(SUM(DBL_MAX, 0x1p970, -DBL_TRUE_MIN) == DBL_MAX);
}

static void infinities_and_nan_stay(void **state)
{
    (void)state;
    assert_true(SUM(INFINITY, -1e308) == (double)INFINITY);
    assert_true(SUM(1, -INFINITY, 5) == -(double)INFINITY);
    assert_true(isnan(SUM(INFINITY, -INFINITY)));
    assert_true(isnan(SUM(NAN, 1)));
    assert_true(isnan(SUM(1, NAN, INFINITY)));
}

static void neither_order_nor_shares_show(void **state)
{
    (void)state;
    static double values[COUNT];
    struct random_source random;
    uint8_t first[EXACT_BYTES], other[EXACT_BYTES];
    random_seed(&random, SEED);
    for (int i = 0; i < COUNT; i++)
        values[i] = any_double(&random);
    struct exact_sum sum;
    exact_clear(&sum);
    for (int i = 0; i < COUNT; i++)
        exact_add(&sum, values[i]);
    packed(&sum, first);
    for (int round = 0; round < 200; round++) {
        struct exact_sum shares[5];
        for (int s = 0; s < 5; s++)
            exact_clear(&shares[s]);
        for (size_t i = COUNT - 1; i > 0; i--) {
            size_t j = (size_t)random_below(&random, i + 1);
            double kept = values[i];
            values[i] = values[j];
            values[j] = kept;
        }
        for (int i = 0; i < COUNT; i++)
            exact_add(&shares[random_below(&random, 5)], values[i]);
        for (int s = 1; s < 5; s++)
            exact_merge(&shares[0], &shares[s]);
        packed(&shares[0], other);
        assert_memory_equal(first, other, EXACT_BYTES);
        assert_true(exact_round(&shares[0]) == exact_round(&sum));
    }
}

static void a_merge_keeps_what_is_not_finite(void **state)
{
    (void)state;
    struct exact_sum a, b;
    exact_clear(&a);
    exact_clear(&b);
    exact_add(&a, 1);
    exact_add(&b, INFINITY);
    exact_merge(&a, &b);
    assert_true(exact_round(&a) == (double)INFINITY);
    exact_clear(&b);
    exact_add(&b, -INFINITY);
    exact_merge(&a, &b);
    assert_true(isnan(exact_round(&a)));
}

static void a_sum_doubled_many_times_stays_exact(void **state)
{
    (void)state;
    struct exact_sum sum, copy;
    exact_clear(&sum);
    exact_add(&sum, -0x1.fffffffffffffp-1000);
    for (int i = 0; i < 1500; i++) {
        copy = sum;
        exact_merge(&sum, &copy);
    }
    assert_true(exact_round(&sum) == -0x1.fffffffffffffp500);
    exact_add(&sum, 0x1.fffffffffffffp500);
    assert_true(exact_round(&sum) == 0);
}

static void so_many_additions_that_carries_must_be_handed_up(void **state)
{
    (void)state;
    struct exact_sum sum;
    exact_clear(&sum);
    exact_add(&sum, 0x1.fffffffffffffp100);
    sum.pending = (UINT32_C(1) << 29) - 3; /* as if it had been so many */
    for (int i = 0; i < 6; i++)
        exact_add(&sum, 0x1.fffffffffffffp100);
    assert_true(sum.pending < 10);
    assert_true(exact_round(&sum) == 7 * 0x1.fffffffffffffp100);
}

static void the_packed_form_comes_back(void **state)
{
    (void)state;
    struct random_source random;
    uint8_t bytes[EXACT_BYTES], again[EXACT_BYTES];
    random_seed(&random, SEED);
    assert_true(EXACT_BYTES <= 400);
    for (int round = 0; round < 500; round++) {
        struct exact_sum sum, back;
        exact_clear(&sum);
        for (int i = 0; i < round % 7; i++)
            exact_add(&sum, any_double(&random));
        packed(&sum, bytes);
        struct bytes_reader r = {bytes, sizeof(bytes), 0, false};
        assert_int_equal(exact_unpack(&r, &back), 0);
        assert_true(r.used == EXACT_BYTES && exact_round(&back) == exact_round(&sum));
        packed(&back, again);
        assert_memory_equal(bytes, again, EXACT_BYTES);
    }
}

static void damage_is_refused_or_is_another_sum(void **state)
{
    (void)state;
    struct exact_sum sum, back;
    uint8_t bytes[EXACT_BYTES];
    exact_clear(&sum);
    exact_add(&sum, -1.5);
    for (size_t size = 0; size < EXACT_BYTES; size++) {
        packed(&sum, bytes);
        struct bytes_reader r = {bytes, size, 0, false};
        assert_int_equal(exact_unpack(&r, &back), -STEPGATE_EPROTOCOL);
    }
    for (size_t i = 0; i < EXACT_BYTES; i++)
        for (unsigned change = 1; change < 256; change++) {
            packed(&sum, bytes);
            bytes[i] = (uint8_t)(bytes[i] ^ change);
            struct bytes_reader r = {bytes, sizeof(bytes), 0, false};
            int status = exact_unpack(&r, &back);
            if (i == 0 || i >= EXACT_BYTES - 2)
                assert_int_equal(status, i == 0 && change < 8 ? 0 : -STEPGATE_EPROTOCOL);
            if (status != 0)
                continue;
            exact_merge(&back, &back);
            (void)exact_round(&back);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_double_comes_back),
        cmocka_unit_test(two_doubles_are_rounded_as_the_processor_rounds_them),
        cmocka_unit_test(many_doubles_are_rounded_once),
        cmocka_unit_test(ties_go_to_even_and_a_last_bit_breaks_them),
        cmocka_unit_test(what_is_too_large_is_infinite_only_if_the_sum_is),
        cmocka_unit_test(infinities_and_nan_stay),
        cmocka_unit_test(neither_order_nor_shares_show),
        cmocka_unit_test(a_merge_keeps_what_is_not_finite),
        cmocka_unit_test(a_sum_doubled_many_times_stays_exact),
        cmocka_unit_test(so_many_additions_that_carries_must_be_handed_up),
        cmocka_unit_test(the_packed_form_comes_back),
        cmocka_unit_test(damage_is_refused_or_is_another_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
