/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rule follows the formula that TensorFlow or PyTorch documents, to 4 units in the last place of the larger of what was there and
 * what was added; its bits do not depend on where arrays lie or are cut.
 *
 * The reference computes one element in long double. Each of its intermediate values keeps the range of the type that the rule computes
 * in, so that both over- and underflow in the same places; and each step starts from the rule's own state.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/rule.h"
#include "ps/protocol/model.h"
#include "transport/base/random.h"

#define SEED 20240605
#define STEPS 100
#define ROOM 3000
#define ULPS 4

enum {
    SGD = MODEL_SGD,
    MOMENTUM = MODEL_MOMENTUM,
    NONE = MODEL_NONE,
    NESTEROV = MODEL_NESTEROV,
    ADAGRAD = MODEL_ADAGRAD,
    RMSPROP = MODEL_RMSPROP,
    ADAM = MODEL_ADAM,
    ADAMW = MODEL_ADAMW,
    OPTIMIZERS
};

static const size_t sizes[] = {1, 7, 8, 1001};

/* The arrays of one variable in one of the two types. */
union array {
    float f[ROOM];
    double d[ROOM];
};
struct state {
    union array var, slots[2], average;
};
struct lab {
    int wide; /* computed in f64 */
    int optimizer, torch;
    const struct optimizer_rule *rule;
    struct optimizer_variable options;
    struct optimizer_hyper hyper;
    struct optimizer_scalars_f64 seen; /* the scalars as the type has them */
    size_t n;
    struct random_source random;
    union array gradient;
    struct state initial, old, new;
};
static struct lab lab;

/* get -- an element. */
static long double get(const union array *a, size_t i)
{
    return lab.wide ? (long double)a->d[i] : (long double)a->f[i];
}

/* put -- an element, rounded to the type. */
static void put(union array *a, size_t i, long double value)
{
    if (lab.wide)
        a->d[i] = (double)value;
    else
        a->f[i] = (float)value;
}

/* in_range -- a value as it is, but for what over- or underflows the type. */
static long double in_range(long double x)
{
    long double rounded = lab.wide ? (long double)(double)x : (long double)(float)x;
    long double normal = lab.wide ? DBL_MIN : FLT_MIN;

    return isinf(rounded) || fabsl(x) < normal ? rounded : x;
}

/* ulp -- the unit in the last place of a magnitude. */
static long double ulp(long double x)
{
    long double normal = lab.wide ? DBL_MIN : FLT_MIN;

    return ldexpl(1, ilogbl(x > normal ? x : normal) - (lab.wide ? DBL_MANT_DIG : FLT_MANT_DIG) + 1);
}

/* check_near -- what the rule made of old, against what was expected; term is the largest of several that were added, or 0. */
static void check_near(const char *what, size_t i, long double old, long double term, long double expected,
                       long double got)
{
    long double update = fmaxl(fabsl(expected - old), term), rounded = in_range(expected);
    long double bound = fmaxl(fabsl(old), update);

    if (isnan(rounded) || isnan(got) || isinf(rounded) || isinf(got)) {
        if ((isnan(rounded) && isnan(got)) || rounded == got)
            return;
    } else if (fabsl(got - expected) <= ULPS * ulp(bound)) {
        return;
    }
    fail_msg("%s %s f%d: %s[%zu] was %La, is %La instead of %La (%.2Lf ulp)", lab.rule->name,
             lab.torch ? "torch" : "tf", lab.wide ? 64 : 32, what, i, old, got, expected,
             fabsl(got - expected) / ulp(bound));
}

/* effective -- the gradient that the formula sees: rounded operations of the type, as they are promised. */
static long double effective(size_t i)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double g = get(&lab.gradient, i), clip = h->clip_value;
    union {
        volatile float f;
        volatile double d;
    } product, sum;

    if (lab.wide)
        product.d = h->scale * (double)g;
    else
        product.f = (float)h->scale * (float)g;
    if (h->scale != 1)
        g = lab.wide ? (long double)product.d : (long double)product.f;
    if (clip != 0)
        g = g > clip ? clip : g < -clip ? -clip : g;
    if (h->l2 == 0 || !lab.options.decays || lab.optimizer == NONE)
        return g;
    if (lab.wide) {
        product.d = h->l2 * lab.old.var.d[i];
        sum.d = (double)g + product.d;
        return sum.d;
    }
    product.f = (float)h->l2 * lab.old.var.f[i];
    sum.f = (float)g + product.f;
    return sum.f;
}

/* scaled -- a rate as it holds for the variable. */
static long double scaled(double rate)
{
    volatile float product = (float)rate * (float)lab.options.rate_scale;
    volatile double wide = rate * lab.options.rate_scale;

    return lab.options.rate_scale == 1 ? rate : lab.wide ? wide : (double)product;
}

/* sum_of_nesterov -- in f64 for both types, where no sum of f32 overflows. */
static long double sum_of_nesterov(long double g, long double a)
{
    long double sum = g + lab.seen.momentum * a;

    return lab.wide ? in_range(sum) : sum;
}

/* change_of_tf -- what TensorFlow documents that is taken from the variable, with the new slots a and b. */
static long double change_of_tf(long double g, long double a, long double b)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double rate = scaled(h->rate);

    switch (lab.optimizer) {
    case SGD: return in_range(rate * g);
    case MOMENTUM: return in_range(rate * a);
    case NESTEROV: return rate * sum_of_nesterov(g, a);
    case ADAGRAD: return in_range(rate * g) / sqrtl(a);
    case RMSPROP: return b;
    default: return in_range(a * scaled(h->alpha)) / (sqrtl(b) + h->epsilon);
    }
}

/* change_of_torch -- what PyTorch documents. */
static long double change_of_torch(long double g, long double a, long double b)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double rate = scaled(h->rate);

    switch (lab.optimizer) {
    case SGD: return in_range(rate * g);
    case MOMENTUM: return in_range(rate * a);
    case NESTEROV: return rate * sum_of_nesterov(g, a);
    case ADAGRAD: return rate * in_range(g / (sqrtl(a) + h->epsilon));
    case RMSPROP: return rate * (h->momentum != 0 ? b : in_range(g / (sqrtl(a) + h->epsilon)));
    default: return scaled(h->alpha) * in_range(a / (sqrtl(b) / h->root2 + h->epsilon));
    }
}

/* term_of_change -- the change of nesterov has two terms, which may cancel each other: the larger one, where there is no wider type to add them in. */
static long double term_of_change(long double g, long double a)
{
    long double rate = scaled(lab.seen.rate);

    return lab.optimizer == NESTEROV && lab.wide ? fmaxl(fabsl(rate * g), fabsl(rate * lab.seen.momentum * a))
                                                 : 0;
}

/* expected_first -- the first slot after the step. */
static long double expected_first(long double g, long double a)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double kept_rho = lab.torch ? (long double)h->rho : 1 - (long double)h->one_minus_rho;

    switch (lab.optimizer) {
    case MOMENTUM:
    case NESTEROV: return h->momentum * a + g;
    case ADAGRAD: return a + in_range(g * g);
    case RMSPROP: return kept_rho * a + h->one_minus_rho * in_range(g * g);
    default: return (1 - (long double)h->one_minus_beta1) * a + (long double)h->one_minus_beta1 * g;
    }
}

/* expected_second -- the second slot after the step; a is the new first slot. */
static long double expected_second(long double g, long double a, long double b)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double kept = lab.torch ? (long double)h->beta2 : 1 - (long double)h->one_minus_beta2;

    if (lab.optimizer != RMSPROP)
        return kept * b + h->one_minus_beta2 * in_range(g * g);
    if (!lab.torch)
        return h->momentum * b + in_range(scaled(h->rate) * g) / sqrtl(a + h->epsilon);
    return h->momentum == 0 ? b : h->momentum * b + in_range(g / (sqrtl(a) + h->epsilon));
}

/* check_element -- every new value of one element. */
static void check_element(size_t i)
{
    const struct optimizer_scalars_f64 *h = &lab.seen;
    long double g = effective(i), var = get(&lab.old.var, i), average = get(&lab.old.average, i);
    long double a = get(&lab.new.slots[0], i), b = get(&lab.new.slots[1], i), now = get(&lab.new.var, i);

    if (lab.rule->slots > 0) {
        long double old = get(&lab.old.slots[0], i);
        check_near(lab.rule->slot_names[0], i, old, 0, expected_first(g, old), a);
    }
    if (lab.rule->slots > 1) {
        long double old = get(&lab.old.slots[1], i);
        check_near(lab.rule->slot_names[1], i, old, 0, expected_second(g, a, old), b);
    }
    if (lab.optimizer == NONE) {
        assert_true(now == g);
    } else {
        long double change = lab.torch ? change_of_torch(g, a, b) : change_of_tf(g, a, b);
        if (lab.optimizer == ADAMW && lab.options.decays)
            change += in_range(scaled(h->decay) * var);
        check_near("var", i, var, term_of_change(g, a), var - change, now);
    }
    check_near("average", i, average, 0, average - in_range(h->average_rate * (average - now)),
               get(&lab.new.average, i));
}

/* any_number -- zeros, denormals, very large, very small, and mostly ordinary numbers. */
static long double any_number(void)
{
    long double x = (long double)random_below(&lab.random, 2000001) / 1000000 - 1;

    switch (random_below(&lab.random, 12)) {
    case 0: return 0;
    case 1: return -0.0L;
    case 2: return x * (lab.wide ? DBL_MIN : FLT_MIN);
    case 3: return x * 1e30L;
    case 4: return x * 1e-30L;
    case 5: return x * 1e-19L; /* the square is a denormal */
    case 6: return x * 1e19L;  /* the square is about the largest */
    default: return x;
    }
}

/* as_f32 -- rounded. */
static float as_f32(double value)
{
    volatile float rounded = (float)value;

    return rounded;
}

/* lab_narrow -- the scalars of f32: each rounded. */
static struct optimizer_scalars_f32 lab_narrow(const struct optimizer_scalars_f64 *h)
{
    return (struct optimizer_scalars_f32){.rate = as_f32(h->rate),
                                          .momentum = as_f32(h->momentum),
                                          .rho = as_f32(h->rho),
                                          .one_minus_rho = as_f32(h->one_minus_rho),
                                          .beta1 = as_f32(h->beta1),
                                          .beta2 = as_f32(h->beta2),
                                          .one_minus_beta1 = as_f32(h->one_minus_beta1),
                                          .one_minus_beta2 = as_f32(h->one_minus_beta2),
                                          .epsilon = as_f32(h->epsilon),
                                          .alpha = as_f32(h->alpha),
                                          .root2 = as_f32(h->root2),
                                          .decay = as_f32(h->decay),
                                          .l2 = as_f32(h->l2),
                                          .clip_value = as_f32(h->clip_value),
                                          .average_rate = as_f32(h->average_rate),
                                          .scale = as_f32(h->scale)};
}

/* lab_seen -- the scalars of f32, widened. */
static struct optimizer_scalars_f64 lab_seen(const struct optimizer_scalars_f32 *h)
{
    return (struct optimizer_scalars_f64){.rate = (double)h->rate,
                                          .momentum = (double)h->momentum,
                                          .rho = (double)h->rho,
                                          .one_minus_rho = (double)h->one_minus_rho,
                                          .beta1 = (double)h->beta1,
                                          .beta2 = (double)h->beta2,
                                          .one_minus_beta1 = (double)h->one_minus_beta1,
                                          .one_minus_beta2 = (double)h->one_minus_beta2,
                                          .epsilon = (double)h->epsilon,
                                          .alpha = (double)h->alpha,
                                          .root2 = (double)h->root2,
                                          .decay = (double)h->decay,
                                          .l2 = (double)h->l2,
                                          .clip_value = (double)h->clip_value,
                                          .average_rate = (double)h->average_rate,
                                          .scale = (double)h->scale};
}

/* lab_hyper -- the scalars of a step, as a leader could send them. */
static void lab_hyper(unsigned step, int everything)
{
    struct optimizer_scalars_f64 *h = &lab.hyper.in_f64;
    double rate = 0.05 / (1 + step), t = 1 + step, root = sqrt(1 - pow(0.999, t));

    memset(h, 0, sizeof(*h));
    h->rate = rate;
    h->momentum = lab.optimizer == RMSPROP && !everything ? 0 : 0.9;
    h->rho = 0.9;
    h->one_minus_rho = 1 - 0.9;
    h->beta1 = 0.9;
    h->beta2 = 0.999;
    h->one_minus_beta1 = 1 - 0.9;
    h->one_minus_beta2 = 1 - 0.999;
    h->epsilon = lab.optimizer == RMSPROP && !lab.torch ? 1e-10 : 1e-8;
    h->alpha = lab.torch ? rate / (1 - pow(0.9, t)) : rate * root / (1 - pow(0.9, t));
    h->root2 = root;
    h->average_rate = 1 - 0.99;
    h->scale = 1;
    if (everything) {
        h->decay = rate * 0.01;
        h->l2 = 1e-3;
        h->clip_value = step % 2 ? 0.5 : 0;
        h->scale = step % 3 ? 0.37 : 1;
    }
    lab.hyper.in_f32 = lab_narrow(h);
    lab.seen = lab.wide ? *h : lab_seen(&lab.hyper.in_f32);
}

/* lab_start -- a rule and its first state. */
static void lab_start(int optimizer, int torch, int wide, size_t n)
{
    lab.optimizer = optimizer;
    lab.torch = torch;
    lab.wide = wide;
    lab.n = n;
    lab.rule = optimizer_rule(optimizer, torch);
    lab.options = (struct optimizer_variable){1, true};
    random_seed(&lab.random, SEED + (uint64_t)optimizer);
    for (size_t i = 0; i < n; i++) {
        put(&lab.initial.var, i, any_number());
        put(&lab.initial.average, i, get(&lab.initial.var, i));
        for (unsigned s = 0; s < lab.rule->slots; s++)
            put(&lab.initial.slots[s], i, (long double)optimizer_slot_initial(lab.rule, s, torch ? 0 : 0.1));
    }
    lab.old = lab.initial;
}

/* lab_apply -- the rule, from `from` on, over m elements; in place if next is now. */
static void lab_apply(const struct state *old, struct state *new, size_t from, size_t m)
{
    if (lab.wide) {
        double *slots[2] = {new->slots[0].d + from, new->slots[1].d + from};
        optimizer_apply_f64(lab.rule, &lab.options, &lab.hyper, lab.gradient.d + from, old->var.d + from,
                            new->var.d + from, lab.rule->slots > 0 ? slots : NULL, new->average.d + from, m);
    } else {
        float *slots[2] = {new->slots[0].f + from, new->slots[1].f + from};
        optimizer_apply_f32(lab.rule, &lab.options, &lab.hyper, lab.gradient.f + from, old->var.f + from,
                            new->var.f + from, lab.rule->slots > 0 ? slots : NULL, new->average.f + from, m);
    }
}

/* lab_step -- one step of everything from old to new. */
static void lab_step(unsigned step, int everything)
{
    lab_hyper(step, everything);
    for (size_t i = 0; i < lab.n; i++)
        put(&lab.gradient, i, any_number());
    lab.new = lab.old;
    lab_apply(&lab.old, &lab.new, 0, lab.n);
}

/* lab_next -- new becomes old; what is no longer finite starts anew. */
static void lab_next(void)
{
    lab.old = lab.new;
    for (size_t i = 0; i < lab.n; i++) {
        if (isfinite(get(&lab.old.var, i)) && isfinite(get(&lab.old.average, i)) &&
            (lab.rule->slots < 1 || isfinite(get(&lab.old.slots[0], i))) &&
            (lab.rule->slots < 2 || isfinite(get(&lab.old.slots[1], i))))
            continue;
        put(&lab.old.var, i, get(&lab.initial.var, i));
        put(&lab.old.average, i, get(&lab.initial.average, i));
        for (unsigned s = 0; s < lab.rule->slots; s++)
            put(&lab.old.slots[s], i, get(&lab.initial.slots[s], i));
    }
}

/* check_formula -- one optimizer, both types, plain and with everything that goes around the rule. */
static void check_formula(int optimizer, int torch)
{
    for (int wide = 0; wide < 2; wide++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
            for (int everything = 0; everything < 3; everything++) {
                lab_start(optimizer, torch, wide, sizes[k]);
                if (everything == 1)
                    lab.options.rate_scale = 0.3;
                if (everything == 2)
                    lab.options.decays = false;
                for (unsigned step = 0; step < STEPS; step++) {
                    lab_step(step, everything);
                    for (size_t i = 0; i < lab.n; i++)
                        check_element(i);
                    lab_next();
                }
            }
}

static void none_publishes_the_mean(void **state)
{
    (void)state;
    check_formula(NONE, 0);
    check_formula(NONE, 1);
}

static void sgd_follows_its_formula(void **state)
{
    (void)state;
    check_formula(SGD, 0);
    check_formula(SGD, 1);
}

static void momentum_follows_its_formula(void **state)
{
    (void)state;
    check_formula(MOMENTUM, 0);
    check_formula(MOMENTUM, 1);
}

static void nesterov_follows_the_formula_of_tensorflow(void **state)
{
    (void)state;
    check_formula(NESTEROV, 0);
}

static void nesterov_follows_the_formula_of_pytorch(void **state)
{
    (void)state;
    check_formula(NESTEROV, 1);
}

static void adagrad_follows_the_formula_of_tensorflow(void **state)
{
    (void)state;
    check_formula(ADAGRAD, 0);
}

static void adagrad_follows_the_formula_of_pytorch(void **state)
{
    (void)state;
    check_formula(ADAGRAD, 1);
}

static void rmsprop_follows_the_formula_of_tensorflow(void **state)
{
    (void)state;
    check_formula(RMSPROP, 0);
}

static void rmsprop_follows_the_formula_of_pytorch(void **state)
{
    (void)state;
    check_formula(RMSPROP, 1);
}

static void adam_follows_the_formula_of_tensorflow(void **state)
{
    (void)state;
    check_formula(ADAM, 0);
}

static void adam_follows_the_formula_of_pytorch(void **state)
{
    (void)state;
    check_formula(ADAM, 1);
}

static void adamw_follows_the_formula_of_tensorflow(void **state)
{
    (void)state;
    check_formula(ADAMW, 0);
}

static void adamw_follows_the_formula_of_pytorch(void **state)
{
    (void)state;
    check_formula(ADAMW, 1);
}

/* each_rule -- calls with a fresh lab for every rule and type. */
static void each_rule(void (*check)(void))
{
    for (int optimizer = SGD; optimizer < OPTIMIZERS; optimizer++)
        for (int torch = 0; torch < 2; torch++)
            for (int wide = 0; wide < 2; wide++) {
                lab_start(optimizer, torch, wide, ROOM);
                check();
            }
}

/* check_aliasing -- next is now. */
static void check_aliasing(void)
{
    static struct state in_place;

    for (unsigned step = 0; step < 5; step++) {
        lab_step(step, step % 2);
        in_place = lab.old;
        lab_apply(&in_place, &in_place, 0, lab.n);
        assert_memory_equal(&in_place, &lab.new, sizeof(in_place));
        lab_next();
    }
}

static void next_may_be_now(void **state)
{
    (void)state;
    each_rule(check_aliasing);
}

/* check_cuts -- pieces instead of the whole. */
static void check_cuts(void)
{
    static struct state pieces;

    for (unsigned step = 0; step < 20; step++) {
        lab_step(step, 1);
        pieces = lab.old;
        for (size_t from = 0; from < lab.n;) {
            size_t m = 1 + (size_t)random_below(&lab.random, step < 10 ? 20 : 1500);
            m = m < lab.n - from ? m : lab.n - from;
            lab_apply(&lab.old, &pieces, from, m);
            from += m;
        }
        assert_memory_equal(&pieces, &lab.new, sizeof(pieces));
        lab_next();
    }
}

static void a_cut_anywhere_gives_the_same_bits(void **state)
{
    (void)state;
    each_rule(check_cuts);
}

/* check_no_average -- without averages nothing else changes. */
static void check_no_average(void)
{
    static struct state other;

    lab_step(0, 1);
    other = lab.old;
    lab.hyper.in_f64.average_rate = 0;
    lab.hyper.in_f32.average_rate = 0;
    lab_apply(&lab.old, &other, 0, lab.n);
    assert_memory_equal(&other.var, &lab.new.var, sizeof(other.var));
    assert_memory_equal(&other.slots, &lab.new.slots, sizeof(other.slots));
    assert_memory_equal(&other.average, &lab.old.average, sizeof(other.average));
}

static void an_average_rate_of_zero_leaves_the_averages(void **state)
{
    (void)state;
    each_rule(check_no_average);
}

static void no_average_is_fine(void **state)
{
    (void)state;
    const float gradient = 1, now = 5;
    const struct optimizer_variable options = {1, true};
    const struct optimizer_hyper hyper = {.in_f32 = {.rate = 2, .scale = 1, .average_rate = 0.5f}};
    float next = 0;
    optimizer_apply_f32(optimizer_rule(SGD, 0), &options, &hyper, &gradient, &now, &next, NULL, NULL, 1);
    assert_true(next == 3 && now == 5);
}

static void a_clip_keeps_nan(void **state)
{
    (void)state;
    const float gradient[5] = {NAN, INFINITY, -INFINITY, 2, -2}, now[5] = {0};
    const struct optimizer_variable options = {1, true};
    const struct optimizer_hyper hyper = {.in_f32 = {.scale = 1, .clip_value = 1.5f}};
    float next[5];
    optimizer_apply_f32(optimizer_rule(NONE, 0), &options, &hyper, gradient, now, next, NULL, NULL, 5);
    assert_true(isnan(next[0]) && next[1] == 1.5f && next[2] == -1.5f && next[3] == 1.5f && next[4] == -1.5f);
}

static void a_nan_spoils_its_own_element_only(void **state)
{
    (void)state;
    for (int optimizer = SGD; optimizer < OPTIMIZERS; optimizer++) {
        lab_start(optimizer, 0, 0, 100);
        lab_step(0, 0);
        struct state clean = lab.new;
        lab.gradient.f[50] = NAN;
        lab.new = lab.old;
        lab_apply(&lab.old, &lab.new, 0, 100);
        for (size_t i = 0; i < 100; i++)
            assert_true(i == 50 ? isnan(lab.new.var.f[i]) : lab.new.var.f[i] == clean.var.f[i]);
    }
}

static void a_round_of_numbers_known_by_hand(void **state)
{
    (void)state;
    const struct optimizer_variable options = {1, true};
    struct optimizer_hyper h = {.in_f32 = {.rate = 0.5f, .momentum = 0.5f, .scale = 1}};
    float g = 4, var = 1, a = 2, *slots[1] = {&a};
    optimizer_apply_f32(optimizer_rule(MOMENTUM, 0), &options, &h, &g, &var, &var, slots, NULL, 1);
    assert_true(a == 5 && var == -1.5f);
    optimizer_apply_f32(optimizer_rule(NESTEROV, 0), &options, &h, &g, &var, &var, slots, NULL, 1);
    assert_true(a == 6.5f && var == -1.5f - (2 + 1.625f));
    a = 9;
    var = 1;
    optimizer_apply_f32(optimizer_rule(ADAGRAD, 0), &options, &h, &g, &var, &var, slots, NULL, 1);
    assert_true(a == 25 && var == 1 - 2.0f / 5.0f);
}

/* run_adam -- TensorFlow's formulas in a plain loop of doubles, from the numbers as they were given. */
static double run_adam(double rate, double beta1, double beta2, double epsilon, unsigned steps)
{
    double var = 1, m = 0, v = 0, power1 = beta1, power2 = beta2;

    for (unsigned k = 0; k < steps; k++) {
        double g = 0.1 + 0.2 * k, alpha = rate * sqrt(1 - power2) / (1 - power1);
        m += (g - m) * (1 - beta1);
        v += (g * g - v) * (1 - beta2);
        var -= m * alpha / (sqrt(v) + epsilon);
        power1 *= beta1;
        power2 *= beta2;
    }
    return var;
}

static void a_training_in_f64_is_that_of_a_loop_of_doubles(void **state)
{
    (void)state;
    const struct optimizer_variable options = {1, true};
    struct optimizer_powers powers;
    struct model *model;
    double var = 1, m = 0, v = 0, *slots[2] = {&m, &v};
    static const char *const keys[][2] = {{"optimizer", "adam"},
                                          {"learning_rate", "0.003"},
                                          {"beta1", "0.87"},
                                          {"beta2", "0.9973"},
                                          {"epsilon", "1e-7"}};
    assert_int_equal(model_new("m", &model), 0);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
        assert_int_equal(model_set(model, keys[k][0], keys[k][1]), 0);
    model->schedule = MODEL_CONSTANT;
    optimizer_powers_start(model, &powers);
    for (unsigned k = 0; k < STEPS; k++) {
        struct optimizer_hyper hyper;
        double g = 0.1 + 0.2 * k;
        optimizer_hyper_at(model, k, &powers, &hyper);
        optimizer_apply_f64(optimizer_rule(ADAM, 0), &options, &hyper, &g, &var, &var, slots, NULL, 1);
        optimizer_powers_next(model, &powers);
        double expected = run_adam(0.003, 0.87, 0.9973, 1e-7, k + 1);
        if (fabs(var - expected) > 4 * DBL_EPSILON * fmax(fabs(expected), 1))
            fail_msg("step %u: %.17g instead of %.17g", k, var, expected);
    }
    model_delete(&model);
}

static void the_scale_of_a_rate_is_of_the_type(void **state)
{
    (void)state;
    const struct optimizer_variable options = {0.3, true};
    const struct optimizer_hyper hyper = {.in_f64 = {.rate = 0.7, .scale = 1},
                                          .in_f32 = {.rate = 0.7f, .scale = 1}};
    const float narrow = 1;
    const double wide = 1;
    float var = 0;
    double wide_var = 0;
    optimizer_apply_f32(optimizer_rule(SGD, 0), &options, &hyper, &narrow, &var, &var, NULL, NULL, 1);
    optimizer_apply_f64(optimizer_rule(SGD, 0), &options, &hyper, &wide, &wide_var, &wide_var, NULL, NULL, 1);
    assert_true(var == -as_f32((double)(0.7f * 0.3f)) && wide_var == -(0.7 * 0.3));
}

static void slots_have_the_names_and_first_values_of_the_reference(void **state)
{
    (void)state;
    const struct {
        int optimizer;
        unsigned slots;
        const char *name, *names[2];
        float tf[2], torch[2];
    } all[] = {{NONE, 0, "none", {NULL, NULL}, {0, 0}, {0, 0}},
               {SGD, 0, "sgd", {NULL, NULL}, {0, 0}, {0, 0}},
               {MOMENTUM, 1, "momentum", {"momentum", NULL}, {0, 0}, {0, 0}},
               {NESTEROV, 1, "nesterov", {"momentum", NULL}, {0, 0}, {0, 0}},
               {ADAGRAD, 1, "adagrad", {"accumulator", NULL}, {0.25f, 0}, {0.25f, 0}},
               {RMSPROP, 2, "rmsprop", {"mean_square", "momentum"}, {1, 0}, {0, 0}},
               {ADAM, 2, "adam", {"first_moment", "second_moment"}, {0, 0}, {0, 0}},
               {ADAMW, 2, "adamw", {"first_moment", "second_moment"}, {0, 0}, {0, 0}}};
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
        for (int torch = 0; torch < 2; torch++) {
            const struct optimizer_rule *rule = optimizer_rule(all[k].optimizer, torch);
            assert_string_equal(rule->name, all[k].name);
            assert_int_equal(rule->slots, all[k].slots);
            for (unsigned s = 0; s < rule->slots; s++) {
                assert_string_equal(rule->slot_names[s], all[k].names[s]);
                assert_true(optimizer_slot_initial(rule, s, 0.25) ==
                            (double)(torch ? all[k].torch[s] : all[k].tf[s]));
            }
        }
}

static void a_model_knows_each_rule_by_its_name_and_slots(void **state)
{
    (void)state;
    struct model *model;
    assert_int_equal(model_new("m", &model), 0);
    for (int optimizer = SGD; optimizer < OPTIMIZERS; optimizer++)
        for (int torch = 0; torch < 2; torch++) {
            model->optimizer = optimizer;
            model->torch = torch;
            assert_string_equal(optimizer_rule(optimizer, torch)->name, model_optimizer_name(model));
            assert_int_equal(optimizer_rule(optimizer, torch)->slots, model_optimizer_slots(model));
        }
    model_delete(&model);
}

static void there_is_no_rule_of_another_number(void **state)
{
    (void)state;
    assert_null(optimizer_rule(0, 0));
    assert_null(optimizer_rule(-1, 1));
    assert_null(optimizer_rule(OPTIMIZERS, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_publishes_the_mean),
        cmocka_unit_test(sgd_follows_its_formula),
        cmocka_unit_test(momentum_follows_its_formula),
        cmocka_unit_test(nesterov_follows_the_formula_of_tensorflow),
        cmocka_unit_test(nesterov_follows_the_formula_of_pytorch),
        cmocka_unit_test(adagrad_follows_the_formula_of_tensorflow),
        cmocka_unit_test(adagrad_follows_the_formula_of_pytorch),
        cmocka_unit_test(rmsprop_follows_the_formula_of_tensorflow),
        cmocka_unit_test(rmsprop_follows_the_formula_of_pytorch),
        cmocka_unit_test(adam_follows_the_formula_of_tensorflow),
        cmocka_unit_test(adam_follows_the_formula_of_pytorch),
        cmocka_unit_test(adamw_follows_the_formula_of_tensorflow),
        cmocka_unit_test(adamw_follows_the_formula_of_pytorch),
        cmocka_unit_test(next_may_be_now),
        cmocka_unit_test(a_cut_anywhere_gives_the_same_bits),
        cmocka_unit_test(an_average_rate_of_zero_leaves_the_averages),
        cmocka_unit_test(no_average_is_fine),
        cmocka_unit_test(a_clip_keeps_nan),
        cmocka_unit_test(a_nan_spoils_its_own_element_only),
        cmocka_unit_test(a_round_of_numbers_known_by_hand),
        cmocka_unit_test(a_training_in_f64_is_that_of_a_loop_of_doubles),
        cmocka_unit_test(the_scale_of_a_rate_is_of_the_type),
        cmocka_unit_test(slots_have_the_names_and_first_values_of_the_reference),
        cmocka_unit_test(a_model_knows_each_rule_by_its_name_and_slots),
        cmocka_unit_test(there_is_no_rule_of_another_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
