/* SPDX-License-Identifier: BSD-3-Clause */
/* One pass over memory gives the bits of the mean and the rule one after the other, with every kind of instructions that this processor has. Of NaN, that it is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/number.h"
#include "ps/optimizer/rule.h"
#include "transport/base/random.h"

#define SEED 20261202
#define SLOTS_MAX 9
#define ROOM 1200 /* elements of an array */
#define CASES 400

/* Arrays of one computation, as bytes of either type. */
struct arrays {
    _Alignas(64) unsigned char now[ROOM * 8], next[ROOM * 8], state[2][ROOM * 8], average[ROOM * 8];
};

static unsigned char gradient[SLOTS_MAX][ROOM * 8];
static struct arrays expected, got;
static struct random_source source;

/* value -- any magnitude, zeros of both signs, seldom what is not finite. */
static double value(void)
{
    uint64_t pick = random_below(&source, 1000);
    double unit = (double)random_below(&source, UINT64_C(1) << 53) / (double)(UINT64_C(1) << 53) - 0.5;

    if (pick < 5)
        return (double[]){__builtin_inf(), -__builtin_inf(), __builtin_nan(""), 3e38, -3e38}[pick];
    if (pick < 30)
        return pick & 1 ? -0.0 : 0.0;
    return unit * (pick < 200 ? 1e-30 : pick < 400 ? 1e6 : 1);
}

/* put -- element i of an array. */
static void put(unsigned char *array, bool wide, size_t i, double x)
{
    float narrow = (float)x;

    if (wide)
        memcpy(array + 8 * i, &x, 8);
    else
        memcpy(array + 4 * i, &narrow, 4);
}

/* fill -- every array with random numbers; states are not negative. */
static void fill(bool wide)
{
    memset(&expected, 0, sizeof(expected));
    for (size_t i = 0; i < ROOM; i++) {
        for (size_t w = 0; w < SLOTS_MAX; w++)
            put(gradient[w], wide, i, value());
        put(expected.now, wide, i, value());
        put(expected.next, wide, i, 77);
        put(expected.average, wide, i, value());
        for (int s = 0; s < 2; s++)
            put(expected.state[s], wide, i, __builtin_fabs(value()));
    }
    got = expected;
}

/* scalars -- of one step; what is optional is there or not. */
static struct optimizer_hyper scalars(void)
{
    struct optimizer_hyper h;
    double x[OPTIMIZER_SCALARS] = {0.01, 0.9, 0.9, 0.1, 0.9, 0.999, 0.1, 0.001, 1e-8, 0.01, 0.03, 0.001};

    x[12] = random_below(&source, 2) ? 0.004 : 0; /* l2 */
    x[13] = random_below(&source, 2) ? 0.25 : 0;  /* clip_value */
    x[14] = random_below(&source, 2) ? 0.125 : 0; /* average_rate */
    x[15] = random_below(&source, 2) ? 0.375 : 1; /* scale */
    if (random_below(&source, 3) == 0)
        x[1] = 0; /* momentum */
    for (size_t i = 0; i < OPTIMIZER_SCALARS; i++) {
        ((double *)&h.in_f64)[i] = x[i];
        ((float *)&h.in_f32)[i] = (float)x[i];
    }
    return h;
}

struct one {
    const struct optimizer_rule *rule;
    enum optimizer_kind kind;
    bool wide, stream, average;
    size_t first, n, shift;
    struct mean_sum sum;
    struct optimizer_variable options;
    struct optimizer_hyper hyper;
};

/* apart -- the mean, then the rule. */
static void apart(const struct one *c)
{
    static union {
        float f32[ROOM];
        double f64[ROOM];
    } mean;
    size_t at = c->shift + c->first;

    if (c->wide) {
        double *state[2] = {(double *)(void *)expected.state[0] + at,
                            (double *)(void *)expected.state[1] + at};
        mean_f64(&c->sum, c->first, c->n, mean.f64);
        optimizer_apply_f64(c->rule, &c->options, &c->hyper, mean.f64, (double *)(void *)expected.now + at,
                            (double *)(void *)expected.next + at, state,
                            c->average ? (double *)(void *)expected.average + at : NULL, c->n);
    } else {
        float *state[2] = {(float *)(void *)expected.state[0] + at, (float *)(void *)expected.state[1] + at};
        mean_f32(&c->sum, c->first, c->n, mean.f32);
        optimizer_apply_f32(c->rule, &c->options, &c->hyper, mean.f32, (float *)(void *)expected.now + at,
                            (float *)(void *)expected.next + at, state,
                            c->average ? (float *)(void *)expected.average + at : NULL, c->n);
    }
}

/* together -- the pass. */
static void together(const struct one *c)
{
    size_t offset = c->shift * (c->wide ? 8 : 4);
    const struct optimizer_pass pass = {.sum = &c->sum,
                                        .now = c->rule->replaces ? NULL : got.now + offset,
                                        .next = got.next + offset,
                                        .slots = {c->rule->slots > 0 ? got.state[0] + offset : NULL,
                                                  c->rule->slots > 1 ? got.state[1] + offset : NULL},
                                        .average = c->average ? got.average + offset : NULL,
                                        .stream = c->stream};

    if (c->wide)
        optimizer_pass_f64(c->rule, c->kind, &c->options, &c->hyper, &pass, c->first, c->n);
    else
        optimizer_pass_f32(c->rule, c->kind, &c->options, &c->hyper, &pass, c->first, c->n);
}

/* Sums of weights: powers of two, whose inverse may stand for a division or not (it would be infinite, or rounded), and others. */
static const double divisors[] = {0.25, 1, 3.5, 0x1p29, 0x1p31, 0x1p127, 0x1p-140, 0x1p-60};

/* one_nan -- every NaN becomes the same one: which of two that meet goes on is the compiler's choice. */
static void one_nan(struct arrays *arrays, bool wide)
{
    unsigned char *bytes = (unsigned char *)arrays;

    for (size_t i = 0; i < sizeof(*arrays); i += wide ? 8 : 4) {
        float narrow;
        double x = 0;
        memcpy(&narrow, bytes + i, sizeof(narrow));
        memcpy(&x, bytes + i, wide ? sizeof(x) : 0);
        if (wide ? x != x : narrow != narrow)
            memset(bytes + i, 0xff, wide ? 8 : 4);
    }
}

/* check -- one rule and kind over random shapes. */
static void check(const struct optimizer_rule *rule, enum optimizer_kind kind, bool wide)
{
    for (int i = 0; i < CASES / 20; i++) {
        double factors[SLOTS_MAX];
        const void *gradients[SLOTS_MAX];
        struct one c = {.rule = rule,
                        .kind = kind,
                        .wide = wide,
                        .stream = random_below(&source, 2) != 0,
                        .average = random_below(&source, 2) != 0};
        c.shift = random_below(&source, 2) ? 0 : random_below(&source, 40);
        c.first = random_below(&source, 2) ? 0 : random_below(&source, 300);
        c.n = random_below(&source, ROOM - 340);
        c.options =
            (struct optimizer_variable){random_below(&source, 2) ? 1 : 0.5, random_below(&source, 2) != 0};
        c.hyper = scalars();
        c.sum = (struct mean_sum){gradients, random_below(&source, 2) ? factors : NULL,
                                  1 + random_below(&source, SLOTS_MAX), 3, wide ? NUMBER_F64 : NUMBER_F32};
        c.sum.divisor = random_below(&source, 3)
                            ? (double)c.sum.count
                            : divisors[random_below(&source, sizeof(divisors) / sizeof(divisors[0]))];
        for (size_t w = 0; w < SLOTS_MAX; w++) {
            factors[w] = (double)(random_below(&source, 9) + 1) / 7;
            gradients[w] = gradient[w] + (wide ? 8 : 4) * c.shift;
        }
        fill(wide);
        apart(&c);
        together(&c);
        one_nan(&expected, wide);
        one_nan(&got, wide);
        if (memcmp(&expected, &got, sizeof(got)) != 0)
            fail_msg("%s with %s, f%d, %zu elements from %zu, %zu slots, case %d of seed %d", rule->name,
                     optimizer_kind_name(kind), wide ? 64 : 32, c.n, c.first, c.sum.count, i, SEED);
    }
}

/* check_kind -- every rule and formula, in both types; whether the processor has the kind. */
static void check_kind(const char *name)
{
    int kind = optimizer_kind_of(name);

    if (kind < 0) {
        print_message("this processor has no %s\n", name);
        skip();
    }
    random_seed(&source, SEED);
    for (int optimizer = 1; optimizer_rule(optimizer, false) != NULL; optimizer++)
        for (int torch = 0; torch < 2; torch++)
            for (int wide = 0; wide < 2; wide++)
                check(optimizer_rule(optimizer, torch != 0), (enum optimizer_kind)kind, wide != 0);
}

static void plain_gives_the_bits_of_mean_and_rule(void **state)
{
    (void)state;
    check_kind("plain");
}

static void avx2_gives_the_bits_of_mean_and_rule(void **state)
{
    (void)state;
    check_kind("avx2");
}

static void avx512_gives_the_bits_of_mean_and_rule(void **state)
{
    (void)state;
    check_kind("avx512");
}

static void auto_is_a_kind_that_is_there_and_unknown_names_are_none(void **state)
{
    (void)state;
    assert_true(optimizer_kind_of("auto") >= 0);
    assert_int_equal(optimizer_kind_of("plain"), OPTIMIZER_PLAIN);
    assert_true(optimizer_kind_of("sse9") < 0);
    assert_true(optimizer_kind_of("") < 0);
    assert_string_equal(optimizer_kind_name((enum optimizer_kind)optimizer_kind_of("plain")), "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_gives_the_bits_of_mean_and_rule),
        cmocka_unit_test(avx2_gives_the_bits_of_mean_and_rule),
        cmocka_unit_test(avx512_gives_the_bits_of_mean_and_rule),
        cmocka_unit_test(auto_is_a_kind_that_is_there_and_unknown_names_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
