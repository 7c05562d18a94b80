/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perf/histogram.h"
#include "transport/base/random.h"

static struct histogram h, other;

/* compare -- for qsort. */
static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void percentiles_are_within_one_percent_of_the_sorted_samples(void **state)
{
    enum { N = 200000 };
    static uint64_t sample[N];
    static const double shares[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999};
    struct random_source random;
    (void)state;

    random_seed(&random, 7);
    histogram_clear(&h);
    for (int i = 0; i < N; i++) {
        sample[i] = random_below(&random, UINT64_C(1) << random_below(&random, 50));
        histogram_add(&h, sample[i]);
    }
    qsort(sample, N, sizeof(sample[0]), compare);
    for (size_t s = 0; s < sizeof(shares) / sizeof(shares[0]); s++) {
        double exact = (double)sample[(size_t)ceil(shares[s] * N) - 1],
               got = histogram_percentile(&h, shares[s]);
        assert_true(fabs(got - exact) <= 0.01 * exact + 0.5);
    }
    assert_int_equal(h.min, sample[0]);
    assert_int_equal(h.max, sample[N - 1]);
}

static void mean_and_deviation_are_those_of_two_passes(void **state)
{
    double sum = 0, squares = 0;
    (void)state;

    histogram_clear(&h);
    for (uint64_t i = 1; i <= 1000; i++) {
        histogram_add(&h, i * i);
        sum += (double)(i * i);
    }
    for (uint64_t i = 1; i <= 1000; i++)
        squares += ((double)(i * i) - sum / 1000) * ((double)(i * i) - sum / 1000);
    assert_true(fabs(h.mean - sum / 1000) < 1e-6);
    assert_true(fabs(histogram_deviation(&h) - sqrt(squares / 999)) < 1e-6);
}

static void a_percentile_with_too_few_samples_beyond_it_is_not_told(void **state)
{
    (void)state;

    histogram_clear(&h);
    assert_true(histogram_percentile(&h, 0.5) < 0);
    for (uint64_t i = 0; i < 999; i++)
        histogram_add(&h, i);
    assert_true(histogram_percentile(&h, 0.99) < 0);
    histogram_add(&h, 999);
    assert_true(histogram_percentile(&h, 0.99) > 0);
    assert_true(histogram_percentile(&h, 0.999) < 0);
    assert_true(histogram_percentile(&h, 0.5) > 0);
}

static void the_worst_sample_is_kept(void **state)
{
    (void)state;

    histogram_clear(&h);
    for (int i = 0; i < 100; i++)
        histogram_add(&h, 5);
    histogram_add(&h, UINT64_MAX);
    assert_true(h.max == UINT64_MAX);
    assert_true(histogram_percentile(&h, 0.5) == 5);
}

static void merged_parts_are_the_whole(void **state)
{
    static struct histogram whole;
    (void)state;

    histogram_clear(&h);
    histogram_clear(&other);
    histogram_clear(&whole);
    for (uint64_t i = 0; i < 3000; i++) {
        histogram_add(i % 3 == 0 ? &h : &other, i * 17);
        histogram_add(&whole, i * 17);
    }
    histogram_merge(&h, &other);
    assert_int_equal(h.count, whole.count);
    assert_int_equal(h.max, whole.max);
    assert_true(fabs(h.mean - whole.mean) < 1e-6);
    assert_true(fabs(histogram_deviation(&h) / histogram_deviation(&whole) - 1) < 1e-9);
    assert_true(histogram_percentile(&h, 0.9) == histogram_percentile(&whole, 0.9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_within_one_percent_of_the_sorted_samples),
        cmocka_unit_test(mean_and_deviation_are_those_of_two_passes),
        cmocka_unit_test(a_percentile_with_too_few_samples_beyond_it_is_not_told),
        cmocka_unit_test(the_worst_sample_is_kept),
        cmocka_unit_test(merged_parts_are_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
