/* SPDX-License-Identifier: BSD-3-Clause */
/* The mean gives the bits of a plain loop in the order given, whatever the type of the gradients and wherever it is cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/mean.h"
#include "ps/optimizer/number.h"
#include "transport/base/random.h"

#define SEED 20240605
#define RANKS 9
#define ROOM 2500
#define GUARD 777.0f

static const int dtypes[] = {NUMBER_F32, NUMBER_F64, NUMBER_F16, NUMBER_BF16};

/* Contributions in one type, and what they are widened. */
struct bench {
    double bytes[RANKS][ROOM]; /* of any type */
    double wide[RANKS][ROOM];
    const void *gradients[RANKS];
    double factors[RANKS];
    struct mean_sum sum;
};
static struct bench bench;

/* bench_fill -- random gradients of a type. */
static void bench_fill(int dtype, size_t count, int weighted, uint64_t seed)
{
    struct random_source random;
    static float plain[ROOM];

    random_seed(&random, seed);
    bench.sum = (struct mean_sum){bench.gradients, weighted ? bench.factors : NULL, count, 0, dtype};
    for (size_t w = 0; w < count; w++) {
        for (size_t i = 0; i < ROOM; i++)
            plain[i] = ldexpf((float)random_below(&random, 1u << 24) - 8388608.0f,
                              (int)random_below(&random, 30) - 40);
        number_narrow_f32(dtype, plain, bench.bytes[w], ROOM);
        number_widen_f64(dtype, bench.bytes[w], bench.wide[w], ROOM);
        bench.gradients[w] = bench.bytes[w];
        bench.factors[w] = (double)(1 + random_below(&random, 1000)) / 37;
        bench.sum.divisor += weighted ? bench.factors[w] : 1.0;
    }
}

/* plain_f32 -- the mean of one element; volatile, so that every operation is one of its own. */
static float plain_f32(size_t i)
{
    volatile float sum = 0, product;

    for (size_t w = 0; w < bench.sum.count; w++) {
        volatile float factor = (float)bench.factors[w], g = (float)bench.wide[w][i];
        product = bench.sum.factors == NULL ? g : factor * g;
        sum = w == 0 ? product : sum + product;
    }
    volatile float divisor = (float)bench.sum.divisor;
    return sum / divisor;
}

/* plain_f64 -- likewise. */
static double plain_f64(size_t i)
{
    volatile double sum = 0, product;

    for (size_t w = 0; w < bench.sum.count; w++) {
        product = bench.sum.factors == NULL ? bench.wide[w][i] : bench.factors[w] * bench.wide[w][i];
        sum = w == 0 ? product : sum + product;
    }
    return sum / bench.sum.divisor;
}

static void the_mean_has_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    static float out[ROOM + 1];
    static double out64[ROOM + 1];
    for (size_t d = 0; d < 4; d++)
        for (size_t count = 1; count <= RANKS; count += 2)
            for (int weighted = 0; weighted < 2; weighted++) {
                bench_fill(dtypes[d], count, weighted, SEED + count);
                out[ROOM] = GUARD;
                out64[ROOM] = (double)GUARD;
                mean_f64(&bench.sum, 0, ROOM, out64);
                for (size_t i = 0; i < ROOM; i++)
                    assert_true(out64[i] == plain_f64(i));
                if (dtypes[d] != NUMBER_F64) {
                    mean_f32(&bench.sum, 0, ROOM, out);
                    for (size_t i = 0; i < ROOM; i++)
                        assert_true(out[i] == plain_f32(i));
                }
                assert_true(out[ROOM] == GUARD && out64[ROOM] == (double)GUARD);
            }
}

static void a_cut_anywhere_gives_the_same_bits(void **state)
{
    (void)state;
    static float whole[ROOM], parts[ROOM];
    static double whole64[ROOM], parts64[ROOM];
    const size_t cuts[] = {0, 1, 3, 8, 1000, 1023, 1024, 1025, 2049, ROOM};
    for (size_t d = 0; d < 4; d++) {
        bench_fill(dtypes[d], 3, 1, SEED);
        mean_f64(&bench.sum, 0, ROOM, whole64);
        for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
            mean_f64(&bench.sum, 0, cuts[c], parts64);
            mean_f64(&bench.sum, cuts[c], ROOM - cuts[c], parts64 + cuts[c]);
            assert_memory_equal(whole64, parts64, sizeof(whole64));
        }
        if (dtypes[d] == NUMBER_F64)
            continue;
        mean_f32(&bench.sum, 0, ROOM, whole);
        for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
            mean_f32(&bench.sum, 0, cuts[c], parts);
            mean_f32(&bench.sum, cuts[c], ROOM - cuts[c], parts + cuts[c]);
            assert_memory_equal(whole, parts, sizeof(whole));
        }
    }
}

static void the_numbers_0_to_9_have_the_mean_4_5_in_every_type(void **state)
{
    (void)state;
    double room[10];
    const void *gradients[10];
    for (size_t d = 0; d < 4; d++) {
        for (int w = 0; w < 10; w++) {
            float value = (float)w;
            number_narrow_f32(dtypes[d], &value, &room[w], 1);
            gradients[w] = &room[w];
        }
        struct mean_sum sum = {gradients, NULL, 10, 10, dtypes[d]};
        double mean64;
        float mean = 4.5f;
        mean_f64(&sum, 0, 1, &mean64);
        if (dtypes[d] != NUMBER_F64)
            mean_f32(&sum, 0, 1, &mean);
        assert_true(mean == 4.5f && mean64 == 4.5);
    }
}

static void factors_of_one_give_the_bits_of_no_factors(void **state)
{
    (void)state;
    static float without[ROOM], with[ROOM];
    bench_fill(NUMBER_F32, 5, 0, SEED);
    mean_f32(&bench.sum, 0, ROOM, without);
    for (int w = 0; w < 5; w++)
        bench.factors[w] = 1;
    bench.sum.factors = bench.factors;
    mean_f32(&bench.sum, 0, ROOM, with);
    assert_memory_equal(without, with, sizeof(with));
}

static void weights_that_f32_has_not_weigh_a_mean_of_f64_as_they_are(void **state)
{
    (void)state;
    const double g[2] = {0.3, 0.3}, factors[2] = {0.1, 0.1};
    const void *gradients[2] = {&g[0], &g[1]};
    volatile double product = 0.1 * 0.3, sum = product + product;
    double out;
    mean_f64(&(struct mean_sum){gradients, factors, 2, 0.1 + 0.1, NUMBER_F64}, 0, 1, &out);
    assert_true(out == sum / (0.1 + 0.1));
    assert_true(fabs(out - 0.3) <= 0x1p-53); /* the product and the quotient are rounded, no weight is */
}

static void the_order_is_the_one_given_and_the_division_a_true_one(void **state)
{
    (void)state;
    const float g[3] = {1e8f, 1, -1e8f}, odd = 5;
    const void *gradients[3] = {&g[0], &g[1], &g[2]}, *swapped[3] = {&g[0], &g[2], &g[1]}, *one[1] = {&odd};
    float out;
    mean_f32(&(struct mean_sum){gradients, NULL, 3, 1, NUMBER_F32}, 0, 1, &out);
    assert_true(out == 0);
    mean_f32(&(struct mean_sum){swapped, NULL, 3, 1, NUMBER_F32}, 0, 1, &out);
    assert_true(out == 1);
    volatile float third = 1.0f / 3.0f, product = odd * third, quotient = odd / 3.0f;
    mean_f32(&(struct mean_sum){one, NULL, 1, 3, NUMBER_F32}, 0, 1, &out);
    assert_true(out == quotient && product != quotient);
}

static void denormals_infinities_and_nan_are_kept(void **state)
{
    (void)state;
    const float a[4] = {0x5p-149f, INFINITY, NAN, INFINITY}, b[4] = {0x7p-149f, 1, 1, -INFINITY};
    const void *gradients[2] = {a, b};
    float out[4];
    mean_f32(&(struct mean_sum){gradients, NULL, 2, 2, NUMBER_F32}, 0, 4, out);
    assert_true(out[0] == 0x6p-149f && out[1] == INFINITY && isnan(out[2]) && isnan(out[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_has_the_bits_of_a_plain_loop),
        cmocka_unit_test(a_cut_anywhere_gives_the_same_bits),
        cmocka_unit_test(the_numbers_0_to_9_have_the_mean_4_5_in_every_type),
        cmocka_unit_test(factors_of_one_give_the_bits_of_no_factors),
        cmocka_unit_test(weights_that_f32_has_not_weigh_a_mean_of_f64_as_they_are),
        cmocka_unit_test(the_order_is_the_one_given_and_the_division_a_true_one),
        cmocka_unit_test(denormals_infinities_and_nan_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
