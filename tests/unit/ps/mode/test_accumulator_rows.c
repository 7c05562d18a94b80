/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of sparse rows: merged by index, each with its own divisor, in the order of the adds, in memory that follows what is pushed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/mode/accumulator_rows.h"
#include "stepgate/model.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define TABLE 200
#define WIDTH 3

/* mean_is -- row i has this index and, divided, this first element. */
static void mean_is(const struct accumulator_rows *rows, size_t i, uint64_t index, double divisor, float mean)
{
    float out[WIDTH];

    assert_int_equal(accumulator_rows_index(rows, i), index);
    accumulator_rows_mean(rows, i, divisor, out);
    assert_true(out[0] == mean);
}

static void rows_are_merged_by_index_and_divided_by_their_own_count_or_by_another(void **state)
{
    struct accumulator_rows rows;

    (void)state;
    accumulator_rows_start(&rows, STEPGATE_F32, 1);
    assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){5, 9}, (float[]){1, 2}, 2, 1, 1), 0);
    assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){1, 9, 12}, (float[]){3, 6, 7}, 3, 1, 1), 0);
    assert_int_equal(accumulator_rows_add(&rows, NULL, NULL, 0, 1, 1), 0);
    assert_int_equal(accumulator_rows_count(&rows), 4);
    assert_true(accumulator_rows_weight(&rows, 0) == 1 && accumulator_rows_weight(&rows, 2) == 2);
    mean_is(&rows, 0, 1, 0, 3);
    mean_is(&rows, 1, 5, 0, 1);
    mean_is(&rows, 2, 9, 0, 4);
    mean_is(&rows, 2, 9, 8, 1);
    mean_is(&rows, 3, 12, 0, 7);
    accumulator_rows_clear(&rows);
    assert_int_equal(accumulator_rows_count(&rows), 0);
    assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){9}, (float[]){5}, 1, 1, 1), 0);
    mean_is(&rows, 0, 9, 0, 5);
    accumulator_rows_free(&rows);
}

static void a_factor_weighs_the_row_and_its_divisor(void **state)
{
    struct accumulator_rows rows;

    (void)state;
    accumulator_rows_start(&rows, STEPGATE_F32, 1);
    accumulator_rows_add(&rows, (uint64_t[]){5}, (float[]){1}, 1, 0.5, 0.5);
    accumulator_rows_add(&rows, (uint64_t[]){5, 6}, (float[]){5, 7}, 2, 1.5, 1.5);
    mean_is(&rows, 0, 5, 0, 4);
    mean_is(&rows, 1, 6, 0, 7);
    accumulator_rows_free(&rows);
}

static void indices_that_do_not_rise_are_refused_and_nothing_is_added(void **state)
{
    struct accumulator_rows rows;

    (void)state;
    accumulator_rows_start(&rows, STEPGATE_F32, 1);
    assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){5, 5}, (float[]){1, 2}, 2, 1, 1),
                     -STEPGATE_EINVAL);
    assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){1, 6, 5}, (float[]){1, 2, 3}, 3, 1, 1),
                     -STEPGATE_EINVAL);
    assert_int_equal(accumulator_rows_count(&rows), 0);
    accumulator_rows_free(&rows);
}

static void a_row_of_minus_zeros_stays_one(void **state)
{
    struct accumulator_rows rows;
    float out;

    (void)state;
    accumulator_rows_start(&rows, STEPGATE_F32, 1);
    accumulator_rows_add(&rows, (uint64_t[]){5}, (float[]){-0.0F}, 1, 1, 1);
    accumulator_rows_mean(&rows, 0, 0, &out);
    assert_true(__builtin_signbit(out) != 0);
    accumulator_rows_free(&rows);
}

static void memory_follows_the_rows_not_the_table(void **state)
{
    struct accumulator_rows rows;

    (void)state;
    accumulator_rows_start(&rows, STEPGATE_F64, 1);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(accumulator_rows_add(&rows, (uint64_t[]){UINT64_MAX - 1}, (double[]){2}, 1, 1, 1),
                         0);
    assert_int_equal(accumulator_rows_count(&rows), 1);
    assert_true(rows.room < 100);
    accumulator_rows_free(&rows);
}

static void random_adds_are_as_a_table_would_have_them(void **state)
{
    static double table[TABLE][WIDTH];
    double weights[TABLE] = {0}, values[TABLE][WIDTH], out[WIDTH];
    uint64_t indices[TABLE];
    struct accumulator_rows rows;
    struct random_source random;

    (void)state;
    random_seed(&random, 7);
    accumulator_rows_start(&rows, STEPGATE_F64, WIDTH);
    for (int add = 0; add < 100; add++) {
        size_t n = 0;
        for (uint64_t r = random_below(&random, 9); r < TABLE; r += 1 + random_below(&random, 60)) {
            indices[n] = r;
            weights[r]++;
            for (int i = 0; i < WIDTH; i++) {
                values[n][i] = (double)random_below(&random, 1000) / 7;
                table[r][i] = weights[r] == 1 ? values[n][i] : table[r][i] + values[n][i];
            }
            n++;
        }
        assert_int_equal(accumulator_rows_add(&rows, indices, values, n, 1, 1), 0);
    }
    size_t at = 0;
    for (uint64_t r = 0; r < TABLE; r++) {
        if (weights[r] == 0)
            continue;
        assert_int_equal(accumulator_rows_index(&rows, at), r);
        accumulator_rows_mean(&rows, at++, 0, out);
        for (int i = 0; i < WIDTH; i++)
            assert_true(out[i] == table[r][i] / weights[r]);
    }
    assert_int_equal(at, accumulator_rows_count(&rows));
    accumulator_rows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_merged_by_index_and_divided_by_their_own_count_or_by_another),
        cmocka_unit_test(a_factor_weighs_the_row_and_its_divisor),
        cmocka_unit_test(indices_that_do_not_rise_are_refused_and_nothing_is_added),
        cmocka_unit_test(a_row_of_minus_zeros_stays_one),
        cmocka_unit_test(memory_follows_the_rows_not_the_table),
        cmocka_unit_test(random_adds_are_as_a_table_would_have_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
