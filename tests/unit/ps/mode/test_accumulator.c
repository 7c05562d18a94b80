/* SPDX-License-Identifier: BSD-3-Clause */
/* The conditional accumulator does what the reference's does: its examples, its rules, its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/mode/accumulator.h"
#include "ps/optimizer/number.h"
#include "transport/base/error.h"

#define SCALAR ((struct accumulator_shape){.rank = 0})
#define VECTOR(n) ((struct accumulator_shape){.rank = 1, .dims = {n}})
#define MATRIX(n, m) ((struct accumulator_shape){.rank = 2, .dims = {n, m}})
#define NO_SHAPE ((struct accumulator_shape){.rank = ACCUMULATOR_NO_SHAPE})

/* make -- an accumulator at step 0. */
static struct accumulator *make(int dtype, bool sparse, struct accumulator_shape shape)
{
    const struct accumulator_settings settings = {.dtype = dtype, .sparse = sparse, .shape = shape};
    struct accumulator *a = NULL;

    assert_int_equal(accumulator_new(&settings, &a), 0);
    return a;
}

/* push -- a scalar f32. */
static int push(struct accumulator *a, uint64_t step, float value)
{
    return accumulator_push(a, step, &SCALAR, &value);
}

/* take -- asks; returns the ticket. */
static uint64_t take(struct accumulator *a, int64_t n)
{
    uint64_t ticket;

    assert_int_equal(accumulator_take(a, n, &ticket), 0);
    return ticket;
}

/* gives -- the next fetch gives this scalar over so many contributions. */
static void gives(struct accumulator *a, uint64_t ticket, uint64_t count, float value)
{
    struct accumulator_taken taken;

    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.ticket, ticket);
    assert_int_equal(taken.count, count);
    assert_true(*(float *)taken.values == value);
    accumulator_taken_free(&taken);
}

/* gives_nothing -- no take was served. */
static void gives_nothing(struct accumulator *a)
{
    struct accumulator_taken taken;

    assert_int_equal(accumulator_fetch(a, &taken), 0);
}

/* says -- the last error holds these words. */
static void says(int status, const char *words)
{
    struct stepgate_error error = {.size = sizeof(error)};

    assert_int_equal(status, -STEPGATE_EINVAL);
    stepgate_error_last(&error);
    if (strstr(error.text, words) == NULL)
        fail_msg("%s: does not say %s", error.text, words);
}

static void example_ten_and_twenty_then_take_1_gives_15(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    assert_int_equal(push(a, 0, 10), 1);
    assert_int_equal(push(a, 0, 20), 1);
    gives(a, take(a, 1), 2, 15);
    accumulator_delete(&a);
    assert_null(a);
}

static void example_four_pushes_then_take_2_leaves_0(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(push(a, 0, 1), 1);
    assert_int_equal(accumulator_count(a), 4);
    gives(a, take(a, 2), 4, 1);
    assert_int_equal(accumulator_count(a), 0);
    assert_int_equal(accumulator_step(a), 1);
    accumulator_delete(&a);
}

static void example_ten_to_hundred_then_take_1_gives_55(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    for (int i = 10; i <= 100; i += 10)
        assert_int_equal(push(a, 0, (float)i), 1);
    gives(a, take(a, 1), 10, 55);
    accumulator_delete(&a);
}

static void example_take_3_waits_until_the_third_push(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);
    uint64_t ticket = take(a, 3);

    (void)state;
    push(a, 0, 1);
    push(a, 0, 2);
    gives_nothing(a);
    push(a, 0, 6);
    gives(a, ticket, 3, 3);
    accumulator_delete(&a);
}

static void example_every_dtype_gives_4_5_for_0_to_9(void **state)
{
    const int dtypes[] = {STEPGATE_F16, STEPGATE_F32, STEPGATE_F64};

    (void)state;
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        struct accumulator *a = make(dtypes[d], false, SCALAR);
        struct accumulator_taken taken;
        double mean = 0;
        for (int i = 0; i < 10; i++) {
            double f64 = i;
            float f32 = (float)i;
            uint16_t f16;
            number_narrow_f32(NUMBER_F16, &f32, &f16, 1);
            const void *value = dtypes[d] == STEPGATE_F64   ? (void *)&f64
                                : dtypes[d] == STEPGATE_F32 ? (void *)&f32
                                                            : (void *)&f16;
            assert_int_equal(accumulator_push(a, 0, &SCALAR, value), 1);
        }
        take(a, 10);
        assert_int_equal(accumulator_fetch(a, &taken), 1);
        number_widen_f64(dtypes[d], taken.values, &mean, 1);
        assert_true(mean == 4.5);
        accumulator_taken_free(&taken);
        accumulator_delete(&a);
    }
}

static void a_stale_push_is_success_and_not_even_shape_checked(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);
    float values[2] = {1, 2};

    (void)state;
    push(a, 0, 1);
    gives(a, take(a, 1), 1, 1);
    assert_int_equal(push(a, 0, 1), 0);
    assert_int_equal(accumulator_push(a, 0, &VECTOR(2), values), 0);
    assert_int_equal(accumulator_count(a), 0);
    assert_int_equal(push(a, 1, 1), 1);
    accumulator_delete(&a);
}

static void a_push_that_is_ahead_is_accepted(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    assert_int_equal(push(a, 9, 3), 1);
    gives(a, take(a, 1), 1, 3);
    assert_int_equal(accumulator_step(a), 1);
    accumulator_delete(&a);
}

static void takes_are_served_strictly_first_come_first_served(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);
    uint64_t two = take(a, 2), one = take(a, 1);

    (void)state;
    push(a, 0, 1);
    gives_nothing(a);
    push(a, 0, 3);
    gives(a, two, 2, 2);
    gives_nothing(a);
    assert_int_equal(push(a, 0, 8), 0);
    push(a, 1, 8);
    gives(a, one, 1, 8);
    for (int i = 0; i < 20; i++)
        take(a, i + 1);
    for (uint64_t i = 0; i < 20; i++)
        for (uint64_t k = 0; k <= i; k++)
            assert_int_equal(push(a, 2 + i, (float)i), 1);
    for (uint64_t i = 0; i < 20; i++)
        gives(a, 2 + i, i + 1, (float)i);
    accumulator_delete(&a);
}

static void a_take_of_none_is_an_error(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);
    uint64_t ticket = 77;

    (void)state;
    says(accumulator_take(a, 0, &ticket), "take of 0");
    says(accumulator_take(a, -3, &ticket), "take of -3");
    assert_int_equal(ticket, 77);
    accumulator_delete(&a);
}

static void setting_the_step_is_unconditional_warns_of_a_lower_one_and_clears_nothing(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    push(a, 0, 2);
    assert_false(accumulator_set_step(a, 5));
    assert_int_equal(push(a, 4, 2), 0);
    assert_int_equal(push(a, 5, 4), 1);
    assert_true(accumulator_set_step(a, 1));
    assert_int_equal(accumulator_count(a), 2);
    assert_int_equal(push(a, 1, 6), 1);
    gives(a, take(a, 1), 3, 4);
    assert_int_equal(accumulator_step(a), 2);
    accumulator_delete(&a);
}

static void sum_instead_of_mean_is_an_option(void **state)
{
    const struct accumulator_settings settings = {.dtype = STEPGATE_F32, .sum = true, .shape = SCALAR};
    struct accumulator *a;

    (void)state;
    assert_int_equal(accumulator_new(&settings, &a), 0);
    push(a, 0, 10);
    push(a, 0, 20);
    gives(a, take(a, 1), 2, 30);
    accumulator_delete(&a);
}

static void a_declared_shape_is_checked(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, MATRIX(2, ACCUMULATOR_ANY));
    float values[6] = {0};

    (void)state;
    says(accumulator_push(a, 0, &MATRIX(3, 2), values), "than was declared");
    says(accumulator_push(a, 0, &VECTOR(2), values), "than was declared");
    assert_int_equal(accumulator_push(a, 0, &MATRIX(2, 3), values), 1);
    says(accumulator_push(a, 0, &MATRIX(2, 2), values), "the first one since the last take");
    assert_int_equal(accumulator_count(a), 1);
    accumulator_delete(&a);
}

static void without_a_declared_shape_the_first_gradient_fixes_it_until_the_take(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, NO_SHAPE);
    float values[3] = {1, 2, 3};
    struct accumulator_taken taken;

    (void)state;
    assert_int_equal(accumulator_push(a, 0, &VECTOR(2), values), 1);
    says(accumulator_push(a, 0, &VECTOR(3), values), "the first one since the last take");
    assert_int_equal(accumulator_push(a, 0, &VECTOR(2), values + 1), 1);
    take(a, 2);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.shape.rank, 1);
    assert_int_equal(taken.shape.dims[0], 2);
    assert_true(((float *)taken.values)[0] == 1.5F && ((float *)taken.values)[1] == 2.5F);
    accumulator_taken_free(&taken);
    assert_int_equal(accumulator_push(a, 1, &VECTOR(3), values), 1);
    accumulator_delete(&a);
}

static void other_dtypes_and_shapes_that_cannot_be_are_refused(void **state)
{
    struct accumulator_settings settings = {.dtype = STEPGATE_BF16, .shape = SCALAR};
    struct accumulator *a = NULL;
    float value = 0;

    (void)state;
    says(accumulator_new(&settings, &a), "dtype");
    settings.dtype = STEPGATE_F32;
    settings.shape.rank = STEPGATE_RANK_MAX + 1;
    says(accumulator_new(&settings, &a), "rank");
    settings.shape.rank = 0;
    settings.sparse = true;
    says(accumulator_new(&settings, &a), "rank");
    assert_null(a);
    a = make(STEPGATE_F32, false, NO_SHAPE);
    says(accumulator_push(a, 0, &((struct accumulator_shape){.rank = -2}), &value), "rank -2");
    says(accumulator_push_sparse(a, 0, NULL), "rows for a dense");
    accumulator_delete(&a);
    a = make(STEPGATE_F32, true, NO_SHAPE);
    says(accumulator_push(a, 0, &SCALAR, &value), "dense gradient to a sparse");
    accumulator_delete(&a);
}

/* rows -- a sparse gradient of n rows of width 2. */
static struct accumulator_sparse rows(size_t n, const int64_t *indices, const float *values)
{
    return (struct accumulator_sparse){.index_bits = 64,
                                       .indices = indices,
                                       .index_shape = VECTOR(n),
                                       .values = values,
                                       .value_shape = MATRIX(n, 2)};
}

/* row_is -- row i of what was taken. */
static void row_is(const struct accumulator_taken *taken, size_t i, uint64_t index, float first, float second)
{
    const float *values = taken->values;

    assert_int_equal(taken->indices[i], index);
    assert_true(values[2 * i] == first && values[2 * i + 1] == second);
}

static void example_each_row_is_divided_by_those_who_gave_it(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, true, MATRIX(ACCUMULATOR_ANY, 2));
    struct accumulator_sparse one = rows(2, (int64_t[]){0, 1}, (float[]){1, 0, 0, 2});
    struct accumulator_sparse two = rows(2, (int64_t[]){0, 2}, (float[]){0, 1, 3, 0});
    struct accumulator_taken taken;

    (void)state;
    assert_int_equal(accumulator_push_sparse(a, 0, &one), 1);
    assert_int_equal(accumulator_push_sparse(a, 0, &two), 1);
    take(a, 2);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.count, 2);
    assert_int_equal(taken.shape.rank, 2);
    assert_int_equal(taken.shape.dims[0], 3);
    row_is(&taken, 0, 0, 0.5F, 0.5F);
    row_is(&taken, 1, 1, 0, 2);
    row_is(&taken, 2, 2, 3, 0);
    accumulator_taken_free(&taken);
    accumulator_delete(&a);
}

static void rows_come_in_any_order_and_equal_ones_of_one_gradient_are_one_contribution(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, true, NO_SHAPE);
    const int32_t narrow[] = {7, 2};
    struct accumulator_sparse one = rows(3, (int64_t[]){7, 2, 7}, (float[]){1, 2, 5, 6, 3, 4});
    struct accumulator_sparse two = rows(2, NULL, (float[]){4, 6, 1, 0});
    struct accumulator_taken taken;

    (void)state;
    two.index_bits = 32;
    two.indices = narrow;
    assert_int_equal(accumulator_push_sparse(a, 0, &one), 1);
    assert_int_equal(accumulator_push_sparse(a, 0, &two), 1);
    take(a, 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    row_is(&taken, 0, 2, 3, 3);
    row_is(&taken, 1, 7, 4, 6);
    accumulator_taken_free(&taken);
    accumulator_delete(&a);
}

static void the_trigger_counts_contributions_even_without_a_row(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, true, NO_SHAPE);
    struct accumulator_sparse none = rows(0, NULL, NULL);
    struct accumulator_sparse one = rows(1, (int64_t[]){4}, (float[]){1, 2});
    struct accumulator_taken taken;

    (void)state;
    take(a, 2);
    assert_int_equal(accumulator_push_sparse(a, 0, &none), 1);
    assert_int_equal(accumulator_push_sparse(a, 0, &one), 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.shape.dims[0], 1);
    row_is(&taken, 0, 4, 1, 2);
    accumulator_taken_free(&taken);
    assert_int_equal(accumulator_push_sparse(a, 0, &one), 0);
    take(a, 1);
    assert_int_equal(accumulator_push_sparse(a, 1, &none), 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.shape.dims[0], 0);
    accumulator_taken_free(&taken);
    accumulator_delete(&a);
}

static void a_sparse_sum_is_not_divided(void **state)
{
    const struct accumulator_settings settings = {
        .dtype = STEPGATE_F32, .sparse = true, .sum = true, .shape = NO_SHAPE};
    struct accumulator_sparse one = rows(1, (int64_t[]){4}, (float[]){1, 2});
    struct accumulator_taken taken;
    struct accumulator *a;

    (void)state;
    assert_int_equal(accumulator_new(&settings, &a), 0);
    accumulator_push_sparse(a, 0, &one);
    accumulator_push_sparse(a, 0, &one);
    take(a, 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    row_is(&taken, 0, 4, 2, 4);
    accumulator_taken_free(&taken);
    accumulator_delete(&a);
}

static void sparse_gradients_of_f16_and_f64_are_averaged_too(void **state)
{
    const double wide[2] = {1, 4};
    const float single[2] = {1, 4};
    uint16_t half[2];
    double mean[2];

    (void)state;
    number_narrow_f32(NUMBER_F16, single, half, 2);
    for (int dtype = STEPGATE_F64; dtype <= STEPGATE_F16; dtype++) {
        struct accumulator *a = make(dtype, true, NO_SHAPE);
        struct accumulator_sparse one = rows(1, (int64_t[]){3}, NULL);
        struct accumulator_taken taken;
        one.values = dtype == STEPGATE_F64 ? (const void *)wide : half;
        accumulator_push_sparse(a, 0, &one);
        accumulator_push_sparse(a, 0, &one);
        accumulator_push_sparse(a, 0, &one);
        take(a, 3);
        assert_int_equal(accumulator_fetch(a, &taken), 1);
        number_widen_f64(dtype, taken.values, mean, 2);
        assert_true(mean[0] == 1 && mean[1] == 4);
        accumulator_taken_free(&taken);
        accumulator_delete(&a);
    }
}

static void a_sparse_gradient_of_the_wrong_shape_is_refused_and_not_counted(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, true, MATRIX(5, 2));
    const int64_t indices[2] = {1, 4}, high[2] = {1, 5}, low[2] = {-1, 4};
    const int32_t narrow[2] = {1, 5};
    const float values[4] = {0};
    struct accumulator_sparse g;

    (void)state;
    g = rows(2, indices, values);
    g.index_shape = MATRIX(2, 1);
    says(accumulator_push_sparse(a, 0, &g), "must be a vector");
    g = rows(2, indices, values);
    g.value_shape = SCALAR;
    says(accumulator_push_sparse(a, 0, &g), "at least 1");
    g = rows(2, indices, values);
    g.index_shape = VECTOR(1);
    says(accumulator_push_sparse(a, 0, &g), "1 indices for 2 rows");
    g = rows(2, indices, values);
    g.value_shape = MATRIX(2, 3);
    says(accumulator_push_sparse(a, 0, &g), "than was declared");
    g.value_shape = VECTOR(2);
    says(accumulator_push_sparse(a, 0, &g), "than was declared");
    g = rows(2, high, values);
    says(accumulator_push_sparse(a, 0, &g), "no row 5");
    g = rows(2, low, values);
    says(accumulator_push_sparse(a, 0, &g), "no row -1");
    g = rows(2, NULL, values);
    g.index_bits = 32;
    g.indices = narrow;
    says(accumulator_push_sparse(a, 0, &g), "no row 5");
    g.index_bits = 16;
    says(accumulator_push_sparse(a, 0, &g), "16 bits");
    assert_int_equal(accumulator_count(a), 0);
    g = rows(2, indices, values);
    assert_int_equal(accumulator_push_sparse(a, 0, &g), 1);
    accumulator_delete(&a);
}

static void without_a_declared_shape_the_first_rows_fix_theirs_until_the_take(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, true, NO_SHAPE);
    const float values[4] = {1, 2, 3, 4};
    struct accumulator_sparse g = rows(1, (int64_t[]){1000000}, values);
    struct accumulator_taken taken;

    (void)state;
    assert_int_equal(accumulator_push_sparse(a, 0, &g), 1);
    g.value_shape = VECTOR(1);
    says(accumulator_push_sparse(a, 0, &g), "the first ones since the last take");
    take(a, 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    accumulator_taken_free(&taken);
    assert_int_equal(accumulator_push_sparse(a, 1, &g), 1);
    take(a, 1);
    assert_int_equal(accumulator_fetch(a, &taken), 1);
    assert_int_equal(taken.shape.rank, 1);
    assert_true(((float *)taken.values)[0] == 1);
    accumulator_taken_free(&taken);
    accumulator_delete(&a);
}

static void a_mean_that_nobody_fetched_is_freed_with_the_accumulator(void **state)
{
    struct accumulator *a = make(STEPGATE_F32, false, SCALAR);

    (void)state;
    push(a, 0, 1);
    take(a, 1);
    push(a, 1, 1);
    take(a, 1);
    take(a, 1);
    accumulator_delete(&a);
    accumulator_delete(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_ten_and_twenty_then_take_1_gives_15),
        cmocka_unit_test(example_four_pushes_then_take_2_leaves_0),
        cmocka_unit_test(example_ten_to_hundred_then_take_1_gives_55),
        cmocka_unit_test(example_take_3_waits_until_the_third_push),
        cmocka_unit_test(example_every_dtype_gives_4_5_for_0_to_9),
        cmocka_unit_test(a_stale_push_is_success_and_not_even_shape_checked),
        cmocka_unit_test(a_push_that_is_ahead_is_accepted),
        cmocka_unit_test(takes_are_served_strictly_first_come_first_served),
        cmocka_unit_test(a_take_of_none_is_an_error),
        cmocka_unit_test(setting_the_step_is_unconditional_warns_of_a_lower_one_and_clears_nothing),
        cmocka_unit_test(sum_instead_of_mean_is_an_option),
        cmocka_unit_test(a_declared_shape_is_checked),
        cmocka_unit_test(without_a_declared_shape_the_first_gradient_fixes_it_until_the_take),
        cmocka_unit_test(other_dtypes_and_shapes_that_cannot_be_are_refused),
        cmocka_unit_test(example_each_row_is_divided_by_those_who_gave_it),
        cmocka_unit_test(rows_come_in_any_order_and_equal_ones_of_one_gradient_are_one_contribution),
        cmocka_unit_test(the_trigger_counts_contributions_even_without_a_row),
        cmocka_unit_test(a_sparse_sum_is_not_divided),
        cmocka_unit_test(sparse_gradients_of_f16_and_f64_are_averaged_too),
        cmocka_unit_test(a_sparse_gradient_of_the_wrong_shape_is_refused_and_not_counted),
        cmocka_unit_test(without_a_declared_shape_the_first_rows_fix_theirs_until_the_take),
        cmocka_unit_test(a_mean_that_nobody_fetched_is_freed_with_the_accumulator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
