/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a push: sorted, those of one index added in the order given, shared out to pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ps/optimizer/number.h"
#include "transport/base/random.h"
#include "worker/session/rows.h"

static const struct rows_format f32_pairs = {NUMBER_F32, 2};

static void rows_come_out_in_rising_order(void **state)
{
    const uint64_t indices[] = {7, 0, UINT64_C(1) << 39, 3};
    const float values[] = {7, 70, 0, 5, 39, 390, 3, 30};
    const uint64_t expected[] = {0, 3, 7, UINT64_C(1) << 39};
    const float expected_rows[] = {0, 5, 3, 30, 7, 70, 39, 390};
    uint64_t out[4];
    float rows_out[8];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, indices, 4), 0);
    assert_int_equal(rows_put(&rows, 0, UINT64_MAX, &f32_pairs, values, out, rows_out), 4);
    assert_memory_equal(out, expected, sizeof(out));
    assert_memory_equal(rows_out, expected_rows, sizeof(rows_out));
    rows_clear(&rows);
}

static void rows_of_one_index_are_added_in_the_order_given(void **state)
{
    /* in f32 the sum of these depends on the order: (1e8 + 3) - 1e8 is 0, 1e8 - 1e8 + 3 is 3 */
    const uint64_t indices[] = {5, 2, 5, 5};
    const float values[] = {1e8f, 1e8f, 1, 1, 3, -1e8f, -1e8f, 3};
    uint64_t out[2];
    float rows_out[4];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, indices, 4), 0);
    assert_int_equal(rows_put(&rows, 0, 6, &f32_pairs, values, out, rows_out), 2);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 5);
    const volatile float first = 1e8f + 3.0f;
    assert_float_equal(rows_out[2], first - 1e8f, 0);
    assert_float_equal(rows_out[3], 3, 0);
    rows_clear(&rows);
}

static void a_row_that_is_given_once_keeps_its_bits(void **state)
{
    const uint64_t indices[] = {1, 0};
    const uint32_t values[] = {0x7f800001u, 0x80000000u, 0xffc00123u, 0x00000001u}; /* a signalling NaN, -0 */
    uint64_t out[2];
    uint32_t rows_out[4];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, indices, 2), 0);
    assert_int_equal(rows_put(&rows, 0, 2, &f32_pairs, values, out, rows_out), 2);
    assert_memory_equal(rows_out, values + 2, 8);
    assert_memory_equal(rows_out + 2, values, 8);
    rows_clear(&rows);
}

static void narrow_rows_are_added_in_f32_and_rounded_once(void **state)
{
    /* In f16 2048 + 1 is 2048 and stays so; in f32 it is 2049, 2050, which f16 has. */
    const uint64_t indices[] = {0, 0, 0};
    const float wide[] = {2048, 1, 1};
    const struct rows_format format = {NUMBER_F16, 1};
    uint16_t values[3], out_row[1];
    uint64_t out[1];
    float sum;
    struct rows rows = {0};

    (void)state;
    number_narrow_f32(NUMBER_F16, wide, values, 3);
    assert_int_equal(rows_sort(&rows, indices, 3), 0);
    assert_int_equal(rows_put(&rows, 0, 1, &format, values, out, out_row), 1);
    number_widen_f32(NUMBER_F16, out_row, &sum, 1);
    assert_float_equal(sum, 2050, 0);
    rows_clear(&rows);
}

static void rows_of_f64_are_added_in_f64(void **state)
{
    const uint64_t indices[] = {9, 9};
    const double values[] = {1, 0x1p-40};
    const struct rows_format format = {NUMBER_F64, 1};
    uint64_t out[1];
    double sum[1];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, indices, 2), 0);
    assert_int_equal(rows_put(&rows, 0, 10, &format, values, out, sum), 1);
    assert_true(sum[0] == 1 + 0x1p-40);
    rows_clear(&rows);
}

static void a_piece_gets_its_rows_and_no_other(void **state)
{
    const uint64_t indices[] = {4, 9, 5, 4, 0, 10};
    const float values[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
    uint64_t out[6];
    float rows_out[12];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, indices, 6), 0);
    assert_int_equal(rows_put(&rows, 0, 4, &f32_pairs, values, out, rows_out), 1);
    assert_int_equal(out[0], 0);
    assert_int_equal(rows_put(&rows, 4, 10, &f32_pairs, values, out, rows_out), 3);
    assert_int_equal(out[0], 4);
    assert_int_equal(out[1], 5);
    assert_int_equal(out[2], 9);
    assert_float_equal(rows_out[0], 5, 0);
    assert_int_equal(rows_put(&rows, 10, 11, &f32_pairs, values, out, rows_out), 1);
    assert_int_equal(out[0], 10);
    assert_int_equal(rows_put(&rows, 11, 99, &f32_pairs, values, out, rows_out), 0);
    rows_clear(&rows);
}

static void no_rows_are_no_rows(void **state)
{
    uint64_t out;
    float row[2];
    struct rows rows = {0};

    (void)state;
    assert_int_equal(rows_sort(&rows, NULL, 0), 0);
    assert_int_equal(rows_put(&rows, 0, UINT64_MAX, &f32_pairs, NULL, &out, row), 0);
    assert_int_equal(rows_bad(NULL, 0, 0), 0);
    rows_clear(&rows);
}

static void an_index_that_is_too_large_is_found(void **state)
{
    const uint64_t indices[] = {3, 0, 4, 9};

    (void)state;
    assert_int_equal(rows_bad(indices, 4, 10), 4);
    assert_int_equal(rows_bad(indices, 4, 9), 3);
    assert_int_equal(rows_bad(indices, 4, 4), 2);
    assert_int_equal(rows_bad(indices, 4, 0), 0);
}

/* rows_by_hand -- the row of one index as plain loops have it; false: it is not there. */
static bool rows_by_hand(const uint64_t *indices, size_t count, const float *values, uint64_t index,
                         float sum[2])
{
    bool there = false;

    for (size_t i = 0; i < count; i++)
        if (indices[i] == index) {
            for (int j = 0; j < 2; j++)
                sum[j] = there ? sum[j] + values[2 * i + (size_t)j] : values[2 * i + (size_t)j];
            there = true;
        }
    return there;
}

static void any_push_is_what_plain_loops_make_of_it(void **state)
{
    enum { MOST = 300 };
    struct random_source random;
    struct rows rows = {0};

    (void)state;
    random_seed(&random, 1);
    for (int round = 0; round < 300; round++) {
        uint64_t indices[MOST], out[MOST], bound = UINT64_C(1) << random_below(&random, 40);
        float values[2 * MOST], rows_out[2 * MOST], sum[2];
        size_t count = random_below(&random, MOST + 1), next = 0;
        for (size_t i = 0; i < count; i++) {
            indices[i] = random_below(&random, bound);
            values[2 * i] = (float)random_below(&random, 1000) * 0.1f;
            values[2 * i + 1] = 1;
        }
        assert_int_equal(rows_sort(&rows, indices, count), 0);
        size_t written = rows_put(&rows, 0, bound, &f32_pairs, values, out, rows_out);
        for (size_t i = 0; i < written; i++) {
            assert_true(i == 0 || out[i - 1] < out[i]);
            assert_true(rows_by_hand(indices, count, values, out[i], sum));
            assert_memory_equal(sum, rows_out + 2 * i, sizeof(sum));
            next += (size_t)sum[1];
        }
        assert_int_equal(next, count);
    }
    rows_clear(&rows);
}

/* rows_ms -- how long it takes to make so many rows ready, in milliseconds: the best of three. */
static double rows_ms(size_t count, uint64_t bound)
{
    uint64_t *indices = malloc(count * sizeof(*indices)), *out = malloc(count * sizeof(*out));
    float *values = calloc(count, 2 * sizeof(*values)), *rows_out = calloc(count, 2 * sizeof(*rows_out));
    struct random_source random;
    struct rows rows = {0};
    double best = 1e9;

    assert_true(indices != NULL && out != NULL && values != NULL && rows_out != NULL);
    random_seed(&random, 2);
    for (size_t i = 0; i < count; i++)
        indices[i] = random_below(&random, bound);
    for (int round = 0; round < 3; round++) {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        assert_int_equal(rows_sort(&rows, indices, count), 0);
        assert_true(rows_put(&rows, 0, bound, &f32_pairs, values, out, rows_out) > 0);
        clock_gettime(CLOCK_MONOTONIC, &to);
        double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
        best = ms < best ? ms : best;
    }
    rows_clear(&rows);
    free(indices);
    free(out);
    free(values);
    free(rows_out);
    return best;
}

static void a_hundred_thousand_rows_take_no_longer_in_a_larger_table(void **state)
{
    double small = rows_ms(100000, 100000), large = rows_ms(100000, UINT64_C(1) << 40);

    (void)state;
    print_message("100,000 rows: %.1f ms of 100,000, %.1f ms of 2^40\n", small, large);
    assert_true(small < 1000 && large < 1000); /* some 5 ms; sanitizers and loaded machines take their time */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_out_in_rising_order),
        cmocka_unit_test(rows_of_one_index_are_added_in_the_order_given),
        cmocka_unit_test(a_row_that_is_given_once_keeps_its_bits),
        cmocka_unit_test(narrow_rows_are_added_in_f32_and_rounded_once),
        cmocka_unit_test(rows_of_f64_are_added_in_f64),
        cmocka_unit_test(a_piece_gets_its_rows_and_no_other),
        cmocka_unit_test(no_rows_are_no_rows),
        cmocka_unit_test(an_index_that_is_too_large_is_found),
        cmocka_unit_test(any_push_is_what_plain_loops_make_of_it),
        cmocka_unit_test(a_hundred_thousand_rows_take_no_longer_in_a_larger_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
