/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "worker/examples/fashion/average.h"
#include "worker/examples/fashion/optimizer.h"
#include "worker/examples/fashion/random.h"

enum { N = 64, STEPS = 20 };

static const double rate = 0.01;

/* recipe_of -- an optimizer with numbers that are no defaults */
static struct recipe recipe_of(enum recipe_optimizer optimizer, enum recipe_formula formula)
{
    return (struct recipe){
        .optimizer = optimizer,
        .formula = formula,
        .schedule = {.shape = SCHEDULE_CONSTANT, .rate = rate},
        .momentum = 0.8,
        .rho = 0.95,
        .epsilon = 1e-3,
        .beta1 = 0.7,
        .beta2 = 0.98,
        .weight_decay = 0.1,
    };
}

/* plain -- one element in double, as the formulas stand in books; a and s are its state */
struct plain {
    double v, a, s;
};

static void plain_start(struct plain *p, const struct recipe *r, double v)
{
    bool tf = r->formula == RECIPE_FORMULA_TF;
    *p = (struct plain){.v = v};
    if (tf && r->optimizer == RECIPE_ADAGRAD)
        p->a = (double)0.1F;
    if (tf && r->optimizer == RECIPE_RMSPROP)
        p->s = 1.0;
}

static void plain_adam(struct plain *p, const struct recipe *r, double g, int t)
{
    double c1 = 1.0 - pow(r->beta1, t), c2 = 1.0 - pow(r->beta2, t);
    p->a = r->beta1 * p->a + (1.0 - r->beta1) * g;
    p->s = r->beta2 * p->s + (1.0 - r->beta2) * g * g;
    if (r->formula == RECIPE_FORMULA_TF) /* "epsilon hat" */
        p->v -= rate * sqrt(c2) / c1 * p->a / (sqrt(p->s) + r->epsilon);
    else
        p->v -= rate * (p->a / c1) / (sqrt(p->s / c2) + r->epsilon);
}

static void plain_step(struct plain *p, const struct recipe *r, double g, int t)
{
    bool tf = r->formula == RECIPE_FORMULA_TF;
    switch (r->optimizer) {
    case RECIPE_NONE:
    case RECIPE_SGD: p->v -= rate * g; break;
    case RECIPE_MOMENTUM: p->v -= rate * (p->a = r->momentum * p->a + g); break;
    case RECIPE_NESTEROV:
        p->a = r->momentum * p->a + g;
        p->v -= rate * (g + r->momentum * p->a);
        break;
    case RECIPE_ADAGRAD:
        p->a += g * g;
        p->v -= rate * g / (sqrt(p->a) + (tf ? 0.0 : r->epsilon));
        break;
    case RECIPE_RMSPROP:
        p->s = r->rho * p->s + (1.0 - r->rho) * g * g;
        if (tf) {
            p->a = r->momentum * p->a + rate * g / sqrt(p->s + r->epsilon);
            p->v -= p->a;
        } else {
            p->a = r->momentum * p->a + g / (sqrt(p->s) + r->epsilon);
            p->v -= rate * p->a;
        }
        break;
    case RECIPE_ADAMW: p->v -= rate * r->weight_decay * p->v; /* fall through */
    case RECIPE_ADAM: plain_adam(p, r, g, t); break;
    }
}

/* compare -- some steps of an optimizer against the plain ones */
static void compare(const struct recipe *recipe)
{
    struct random_stream stream = random_stream_of(5, (uint64_t)recipe->optimizer, (uint64_t)recipe->formula);
    struct optimizer optimizer = optimizer_start(recipe);
    float v[N], a[N], s[N], g[N];
    struct plain plain[N];
    for (int i = 0; i < N; i++) {
        v[i] = (float)random_normal(&stream);
        a[i] = optimizer_initial(recipe, 0);
        s[i] = optimizer_initial(recipe, 1);
        plain_start(&plain[i], recipe, (double)v[i]);
    }
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < N; i++) {
            g[i] = (float)(random_normal(&stream) * (i % 4 == 0 ? 1e-3 : 1.0));
            plain_step(&plain[i], recipe, (double)g[i], k + 1);
        }
        struct optimizer_scalars scalars = optimizer_at(&optimizer, (uint64_t)k);
        optimizer_apply(recipe, &scalars, g, v, a, s, N);
        optimizer_next(&optimizer);
        for (int i = 0; i < N; i++)
            if (fabs((double)v[i] - plain[i].v) > 2e-6 * (1.0 + fabs(plain[i].v)))
                fail_msg("%s of %s, step %d, element %d: %.9g, should be %.9g",
                         recipe_optimizer_name(recipe->optimizer), recipe_formula_name(recipe->formula), k, i,
                         (double)v[i], plain[i].v);
    }
}

static void every_optimizer_does_what_its_formula_says(void **state)
{
    (void)state;
    for (int o = RECIPE_NONE; o <= RECIPE_ADAMW; o++)
        for (int f = RECIPE_FORMULA_TF; f <= RECIPE_FORMULA_TORCH; f++) {
            struct recipe recipe = recipe_of((enum recipe_optimizer)o, (enum recipe_formula)f);
            compare(&recipe);
            recipe.momentum = 0.0;
            compare(&recipe);
            recipe.weight_decay = 0.0;
            compare(&recipe);
        }
}

/* one -- a single update of a single element from v = 1, g = 0.5 */
static float one(const struct recipe *recipe)
{
    struct optimizer optimizer = optimizer_start(recipe);
    struct optimizer_scalars scalars = optimizer_at(&optimizer, 0);
    float v = 1.0F, a = optimizer_initial(recipe, 0), s = optimizer_initial(recipe, 1);
    const float g = 0.5F;
    optimizer_apply(recipe, &scalars, &g, &v, &a, &s, 1);
    return v;
}

static void first_steps_are_those_worked_out_by_hand(void **state)
{
    (void)state;
    struct recipe recipe = recipe_of(RECIPE_RMSPROP, RECIPE_FORMULA_TF);
    recipe.epsilon = 0.0;
    /* The square average starts at one: 1 + (0.25 - 1) / 20. */
    assert_true(fabs((double)one(&recipe) - (1.0 - 0.005 / sqrt(0.9625))) < 1e-7);
    recipe.formula = RECIPE_FORMULA_TORCH;
    /* It starts at zero: 0.25 / 20. */
    assert_true(fabs((double)one(&recipe) - (1.0 - 0.005 / sqrt(0.0125))) < 1e-7);
    recipe = recipe_of(RECIPE_ADAGRAD, RECIPE_FORMULA_TF);
    assert_true(fabs((double)one(&recipe) - (1.0 - 0.005 / sqrt(0.35))) < 1e-7);
    recipe = recipe_of(RECIPE_ADAM, RECIPE_FORMULA_TF);
    recipe.epsilon = 1e-8;
    /* Whatever the gradient, the first step of Adam is as long as the rate. */
    assert_true(fabs((double)one(&recipe) - 0.99) < 1e-7);
    recipe.formula = RECIPE_FORMULA_TORCH;
    assert_true(fabs((double)one(&recipe) - 0.99) < 1e-7);
    recipe = recipe_of(RECIPE_ADAMW, RECIPE_FORMULA_TORCH);
    recipe.epsilon = 1e-8;
    assert_true(fabs((double)one(&recipe) - (0.999 - 0.01)) < 1e-7);
}

static void momentum_takes_a_new_rate_for_old_gradients_too(void **state)
{
    (void)state;
    struct recipe recipe = recipe_of(RECIPE_MOMENTUM, RECIPE_FORMULA_TF);
    struct optimizer_scalars scalars = {.rate = 0.5F, .momentum = 0.5F};
    float v = 1.0F, a = 0.0F;
    const float g = 1.0F;
    optimizer_apply(&recipe, &scalars, &g, &v, &a, NULL, 1);
    assert_true(a == 1.0F && v == 0.5F);
    scalars.rate = 0.25F;
    optimizer_apply(&recipe, &scalars, &g, &v, &a, NULL, 1);
    assert_true(a == 1.5F && v == 0.125F);
}

static void averages_follow_slowly(void **state)
{
    (void)state;
    /* n = 1: d = 2/11. */
    assert_true(average_rate(0.9999, 0) == (float)(1.0 - 2.0 / 11.0));
    assert_true(average_rate(0.9999, 89) == (float)(1.0 - 91.0 / 100.0));
    assert_true(average_rate(0.5, 89) == 0.5F);
    float average = 1.0F;
    const float v = 3.0F;
    average_apply(0.25F, &v, &average, 1);
    assert_true(average == 1.5F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_does_what_its_formula_says),
        cmocka_unit_test(first_steps_are_those_worked_out_by_hand),
        cmocka_unit_test(momentum_takes_a_new_rate_for_old_gradients_too),
        cmocka_unit_test(averages_follow_slowly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
