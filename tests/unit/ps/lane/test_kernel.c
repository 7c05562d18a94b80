/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels give the bits of a plain loop in rank order, are right to within rounding, and touch nothing but their span. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/lane/kernel.h"
#include "transport/base/random.h"

#define SEED 20240605
#define RANKS 8
#define SIZE_MAX_HERE 4097
#define GUARD 24 /* floats before and behind each span */
#define ROOM (SIZE_MAX_HERE + 2 * GUARD)

static const size_t sizes[] = {0, 1, 15, 16, 17, 1023, 1024, 1025, SIZE_MAX_HERE};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Spans of everything that a step has, each with a guard on both sides. */
struct bench {
    float gradients[RANKS][ROOM], now[ROOM], next[ROOM], accum[ROOM];
    const float *span[RANKS]; /* of the gradients, from their first element */
    float weights[RANKS];
    struct kernel_sum sum;
    float rate, momentum;
    size_t offset, n; /* of the span's first element, and how many */
};

/* bench_float -- a number of any size that a gradient may have. */
static float bench_float(struct random_source *random)
{
    float fraction = (float)random_below(random, 1u << 24) / (float)(1u << 24) - 0.5f;

    return ldexpf(fraction, (int)random_below(random, 24) - 16);
}

/* bench_fill -- everything random, guards too. */
static void bench_fill(struct bench *b, struct random_source *random)
{
    for (size_t i = 0; i < ROOM; i++) {
        for (size_t w = 0; w < RANKS; w++)
            b->gradients[w][i] = bench_float(random);
        b->now[i] = bench_float(random);
        b->next[i] = bench_float(random);
        b->accum[i] = bench_float(random);
    }
    for (size_t w = 0; w < RANKS; w++)
        b->weights[w] = (float)(1 + random_below(random, 1000)) / 37.0f;
    b->rate = (float)random_below(random, 1000) / 777.0f;
    b->momentum = (float)random_below(random, 1000) / 1000.0f;
}

/* bench_set -- a span of n elements and count gradients, weighted or not. */
static void bench_set(struct bench *b, size_t offset, size_t n, size_t count, int weighted)
{
    float divisor = 0;

    b->offset = GUARD - 4 + offset;
    b->n = n;
    for (size_t w = 0; w < count; w++) {
        b->span[w] = b->gradients[w] + b->offset;
        divisor += weighted ? b->weights[w] : 1.0f;
    }
    b->sum = (struct kernel_sum){b->span, weighted ? b->weights : NULL, count, divisor};
}

/* plain_mean -- the mean of one element; volatile, so that every operation is one of its own and is rounded to f32. */
static float plain_mean(const struct bench *b, size_t i)
{
    volatile float s = 0, product;

    for (size_t w = 0; w < b->sum.count; w++) {
        product = b->gradients[w][i];
        if (b->sum.weights != NULL)
            product = b->weights[w] * product;
        if (w == 0)
            s = product;
        else
            s = s + product;
    }
    s = s / b->sum.divisor;
    return s;
}

/* plain_sgd -- what kernel_sgd must do. */
static void plain_sgd(struct bench *b)
{
    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        volatile float product = b->rate * plain_mean(b, i);
        b->next[i] = b->now[i] - product;
    }
}

/* plain_momentum -- what kernel_momentum must do. */
static void plain_momentum(struct bench *b)
{
    for (size_t i = b->offset; i < b->offset + b->n; i++) {
        volatile float kept = b->momentum * b->accum[i];
        volatile float fresh = kept + plain_mean(b, i);
        volatile float product = b->rate * fresh;
        b->accum[i] = fresh;
        b->next[i] = b->now[i] - product;
    }
}

/* bench_sgd, bench_momentum -- the kernels on the span. */
static void bench_sgd(struct bench *b)
{
    kernel_sgd(&b->sum, b->now + b->offset, b->next + b->offset, b->rate, b->n);
}

static void bench_momentum(struct bench *b)
{
    kernel_momentum(&b->sum, b->now + b->offset, b->next + b->offset, b->accum + b->offset, b->rate,
                    b->momentum, b->n);
}

/* bench_same -- the same bits everywhere, guards and inputs included. */
static void bench_same(const struct bench *a, const struct bench *b)
{
    assert_memory_equal(a->next, b->next, sizeof(a->next));
    assert_memory_equal(a->accum, b->accum, sizeof(a->accum));
    assert_memory_equal(a->now, b->now, sizeof(a->now));
    assert_memory_equal(a->gradients, b->gradients, sizeof(a->gradients));
    assert_memory_equal(a->weights, b->weights, sizeof(a->weights));
}

/* bench_copy -- the same numbers at other addresses. */
static void bench_copy(struct bench *to, const struct bench *from)
{
    *to = *from;
    for (size_t w = 0; w < RANKS; w++)
        to->span[w] = to->gradients[w] + to->offset;
    to->sum.gradients = to->span;
    to->sum.weights = from->sum.weights != NULL ? to->weights : NULL;
}

static struct bench kernel_side, plain_side;

/* bench_each -- compares kernel and plain loop for every size, number of gradients and offset. */
static void bench_each(void (*kernel)(struct bench *), void (*plain)(struct bench *), int weighted)
{
    struct random_source random;

    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    bench_fill(&kernel_side, &random);
    for (size_t s = 0; s < SIZES; s++)
        for (size_t count = 1; count <= RANKS; count++) {
            bench_set(&kernel_side, count % 4, sizes[s], count, weighted);
            bench_copy(&plain_side, &kernel_side);
            kernel(&kernel_side);
            plain(&plain_side);
            bench_same(&kernel_side, &plain_side);
        }
}

static void sgd_gives_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    bench_each(bench_sgd, plain_sgd, 0);
}

static void sgd_with_weights_gives_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    bench_each(bench_sgd, plain_sgd, 1);
}

static void momentum_gives_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    bench_each(bench_momentum, plain_momentum, 0);
}

static void momentum_with_weights_gives_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    bench_each(bench_momentum, plain_momentum, 1);
}

static void weights_of_one_give_the_bits_of_no_weights(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    bench_fill(&kernel_side, &random);
    for (size_t w = 0; w < RANKS; w++)
        kernel_side.weights[w] = 1;
    bench_set(&kernel_side, 1, SIZE_MAX_HERE, RANKS, 1);
    bench_copy(&plain_side, &kernel_side);
    plain_side.sum.weights = NULL;
    bench_momentum(&kernel_side);
    bench_momentum(&plain_side);
    bench_same(&kernel_side, &plain_side);
}

/* plain_close -- element i of next is what doubles give, to within the roundings that f32 makes. */
static void plain_close(const struct bench *b, size_t i, double accum)
{
    double sum = 0, size = 0, weights = 0;

    for (size_t w = 0; w < b->sum.count; w++) {
        double weight = b->sum.weights != NULL ? (double)b->weights[w] : 1;
        sum += weight * (double)b->gradients[w][i];
        size += fabs(weight * (double)b->gradients[w][i]);
        weights += weight;
    }
    double fresh = accum + sum / weights, right = (double)b->now[i] - (double)b->rate * fresh;
    double roundings = (double)b->sum.count * 3 + 6;
    double bound = ldexp(1, -24) * (roundings * (double)b->rate * (fabs(accum) + size / weights) +
                                    fabs((double)b->now[i]) + fabs(right));
    assert_true(fabs((double)b->next[i] - right) <= bound);
}

static void sgd_is_right_to_within_rounding(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int weighted = 0; weighted < 2; weighted++)
        for (size_t count = 1; count <= RANKS; count++) {
            bench_fill(&kernel_side, &random);
            bench_set(&kernel_side, 0, SIZE_MAX_HERE, count, weighted);
            bench_sgd(&kernel_side);
            for (size_t i = kernel_side.offset; i < kernel_side.offset + kernel_side.n; i++)
                plain_close(&kernel_side, i, 0);
        }
}

static void momentum_is_right_to_within_rounding(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int weighted = 0; weighted < 2; weighted++)
        for (size_t count = 1; count <= RANKS; count++) {
            bench_fill(&kernel_side, &random);
            bench_set(&kernel_side, 0, SIZE_MAX_HERE, count, weighted);
            bench_copy(&plain_side, &kernel_side);
            bench_momentum(&kernel_side);
            for (size_t i = kernel_side.offset; i < kernel_side.offset + kernel_side.n; i++)
                plain_close(&kernel_side, i, (double)plain_side.momentum * (double)plain_side.accum[i]);
        }
}

static void parity_buffers_take_turns_over_steps(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    bench_fill(&kernel_side, &random);
    bench_set(&kernel_side, 3, 1000, 3, 0);
    bench_copy(&plain_side, &kernel_side);
    for (int step = 0; step < 6; step++) {
        float *kernel_now = step % 2 == 0 ? kernel_side.now : kernel_side.next;
        float *kernel_next = step % 2 == 0 ? kernel_side.next : kernel_side.now;
        kernel_momentum(&kernel_side.sum, kernel_now + kernel_side.offset, kernel_next + kernel_side.offset,
                        kernel_side.accum + kernel_side.offset, kernel_side.rate, kernel_side.momentum,
                        kernel_side.n);
        plain_momentum(&plain_side);
        for (size_t i = plain_side.offset; i < plain_side.offset + plain_side.n; i++) {
            float earlier = plain_side.now[i];
            plain_side.now[i] = plain_side.next[i];
            plain_side.next[i] = earlier;
        }
    }
    bench_same(&kernel_side, &plain_side);
}

static void spans_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int trial = 0; trial < 20; trial++) {
        bench_fill(&kernel_side, &random);
        bench_set(&kernel_side, 0, SIZE_MAX_HERE, 5, trial % 2);
        bench_copy(&plain_side, &kernel_side);
        bench_momentum(&kernel_side);
        size_t end = plain_side.offset + plain_side.n;
        while (plain_side.offset < end) { /* the same, in spans */
            size_t n = 1 + random_below(&random, 1500);
            plain_side.n = n < end - plain_side.offset ? n : end - plain_side.offset;
            bench_momentum(&plain_side);
            plain_side.offset += plain_side.n;
            for (size_t w = 0; w < RANKS; w++)
                plain_side.span[w] = plain_side.gradients[w] + plain_side.offset;
        }
        bench_same(&kernel_side, &plain_side);
    }
}

/* one_sgd -- next of one element, among seventeen equal ones so that vectors and tail are both tried. */
static float one_sgd(const float *g, size_t count, const float *weights, float divisor, float now, float rate)
{
    float gradients[RANKS][17], before[17], after[17];
    const float *spans[RANKS];

    for (size_t i = 0; i < 17; i++) {
        for (size_t w = 0; w < count; w++)
            gradients[w][i] = g[w];
        before[i] = now;
    }
    for (size_t w = 0; w < count; w++)
        spans[w] = gradients[w];
    const struct kernel_sum sum = {spans, weights, count, divisor};
    kernel_sgd(&sum, before, after, rate, 17);
    for (size_t i = 1; i < 17; i++)
        assert_true((isnan(after[i]) && isnan(after[0])) || memcmp(&after[i], &after[0], sizeof(float)) == 0);
    return after[0];
}

static void the_sum_is_formed_in_rank_order(void **state)
{
    (void)state;
    const float lost[3] = {1e8f, 1, -1e8f}, kept[3] = {1e8f, -1e8f, 1};
    assert_true(one_sgd(lost, 3, NULL, 1, 0, -1) == 0);
    assert_true(one_sgd(kept, 3, NULL, 1, 0, -1) == 1);
}

static void the_mean_is_a_true_division(void **state)
{
    (void)state;
    int told_apart = 0;
    for (int i = 1; i <= 1000; i++) {
        const float g[1] = {(float)i};
        volatile float third = 1.0f / 3.0f, product = g[0] * third, quotient = g[0] / 3.0f;
        assert_true(one_sgd(g, 1, NULL, 3, 0, -1) == quotient);
        told_apart += product != quotient;
    }
    assert_true(told_apart > 0);
}

static void products_are_rounded_before_they_are_added(void **state)
{
    (void)state;
    const float g[2] = {-1, 1 + 0x1p-12f}, weights[2] = {1 + 0x1p-11f, 1 + 0x1p-12f};
    /* (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, whose last bit f32 does not hold: added unrounded it would stay */
    assert_true(one_sgd(g, 2, weights, 1, 0, -1) == 0);
}

static void denormals_are_kept(void **state)
{
    (void)state;
    const float g[2] = {0x5p-149f, 0x7p-149f};
    assert_true(one_sgd(g, 2, NULL, 2, 0, -1) == 0x6p-149f);
    assert_true(one_sgd(g, 2, NULL, 2, 0x1p-149f, -1) == 0x7p-149f);
}

static void infinities_are_kept(void **state)
{
    (void)state;
    const float g[2] = {1, INFINITY}, both[2] = {INFINITY, -INFINITY}, large[2] = {3e38f, 3e38f};
    assert_true(one_sgd(g, 2, NULL, 2, 5, 1) == -INFINITY);
    assert_true(one_sgd(large, 2, NULL, 2, 5, -1) == INFINITY);
    assert_true(isnan(one_sgd(both, 2, NULL, 2, 5, 1)));
}

static void nans_are_kept(void **state)
{
    (void)state;
    const float g[3] = {1, NAN, 2}, fine[1] = {1};
    assert_true(isnan(one_sgd(g, 3, NULL, 3, 5, 1)));
    assert_true(isnan(one_sgd(fine, 1, NULL, 1, NAN, 1)));
}

static void one_bad_element_spoils_no_other(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    bench_fill(&kernel_side, &random);
    bench_set(&kernel_side, 0, 100, 4, 0);
    bench_copy(&plain_side, &kernel_side);
    kernel_side.gradients[2][kernel_side.offset + 50] = NAN;
    bench_momentum(&kernel_side);
    bench_momentum(&plain_side);
    for (size_t i = 0; i < ROOM; i++) {
        int bad = i == kernel_side.offset + 50;
        assert_int_equal(isnan(kernel_side.next[i]) != 0, bad);
        assert_int_equal(isnan(kernel_side.accum[i]) != 0, bad);
        assert_true(bad || kernel_side.next[i] == plain_side.next[i]);
    }
}

static void a_rate_of_zero_changes_nothing_but_the_accumulator(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    bench_fill(&kernel_side, &random);
    kernel_side.rate = 0;
    bench_set(&kernel_side, 0, 1025, 2, 0);
    bench_copy(&plain_side, &kernel_side);
    bench_momentum(&kernel_side);
    assert_memory_equal(kernel_side.next + kernel_side.offset, kernel_side.now + kernel_side.offset,
                        1025 * sizeof(float));
    assert_memory_not_equal(kernel_side.accum + kernel_side.offset, plain_side.accum + kernel_side.offset,
                            1025 * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_gives_the_bits_of_a_plain_loop),
        cmocka_unit_test(sgd_with_weights_gives_the_bits_of_a_plain_loop),
        cmocka_unit_test(momentum_gives_the_bits_of_a_plain_loop),
        cmocka_unit_test(momentum_with_weights_gives_the_bits_of_a_plain_loop),
        cmocka_unit_test(weights_of_one_give_the_bits_of_no_weights),
        cmocka_unit_test(sgd_is_right_to_within_rounding),
        cmocka_unit_test(momentum_is_right_to_within_rounding),
        cmocka_unit_test(parity_buffers_take_turns_over_steps),
        cmocka_unit_test(spans_of_any_size_give_the_same_bits),
        cmocka_unit_test(the_sum_is_formed_in_rank_order),
        cmocka_unit_test(the_mean_is_a_true_division),
        cmocka_unit_test(products_are_rounded_before_they_are_added),
        cmocka_unit_test(denormals_are_kept),
        cmocka_unit_test(infinities_are_kept),
        cmocka_unit_test(nans_are_kept),
        cmocka_unit_test(one_bad_element_spoils_no_other),
        cmocka_unit_test(a_rate_of_zero_changes_nothing_but_the_accumulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
