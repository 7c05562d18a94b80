/* SPDX-License-Identifier: BSD-3-Clause */
/* The scalars of a step are the model's, for f64 as they are and for f32 each rounded once; those that change with the step follow their formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/hyper.h"
#include "ps/protocol/model.h"

#define STEPS 3000

/* model_of -- with every number at something of its own. */
static struct model *model_of(int optimizer, bool torch)
{
    struct model *model;

    assert_int_equal(model_new("m", &model), 0);
    model->optimizer = optimizer;
    model->torch = torch;
    model->schedule = MODEL_CONSTANT;
    model->learning_rate = 0.003;
    model->momentum = 0.85;
    model->rho = 0.97;
    model->beta1 = 0.9;
    model->beta2 = 0.999;
    model->epsilon = 1e-7;
    model->weight_decay = 0.02;
    model->l2_decay = 0.0005;
    model->clip_value = 1.1;
    model->average_decay = 0.99;
    return model;
}

/* hyper_at -- the scalars of a step, with the powers that belong to it. */
static struct optimizer_hyper hyper_at(const struct model *model, uint64_t step)
{
    struct optimizer_powers powers;
    struct optimizer_hyper hyper;

    optimizer_powers_start(model, &powers);
    for (uint64_t i = 0; i < step; i++)
        optimizer_powers_next(model, &powers);
    optimizer_hyper_at(model, step, &powers, &hyper);
    return hyper;
}

static void what_does_not_change_is_rounded_once(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_RMSPROP, false);
    struct optimizer_scalars_f32 h = hyper_at(model, 7).in_f32;
    assert_true(h.rate == 0.003f && h.momentum == 0.85f && h.rho == 0.97f && h.epsilon == 1e-7f);
    assert_true(h.beta1 == 0.9f && h.beta2 == 0.999f);
    assert_true(h.l2 == 0.0005f && h.clip_value == 1.1f && h.scale == 1 && h.root2 == 1 && h.decay == 0);
    model_delete(&model);
}

static void what_is_left_of_one_is_what_the_formulas_own_subtract(void **state)
{
    (void)state;
    for (int torch = 0; torch < 2; torch++) {
        struct model *model = model_of(MODEL_RMSPROP, torch != 0);
        struct optimizer_scalars_f32 h = hyper_at(model, 7).in_f32;
        /* T(1) - beta() of TensorFlow's kernels; 1 - beta of PyTorch's Python, which becomes f32 then */
        assert_true(h.one_minus_rho == (torch ? (float)(1 - 0.97) : 1.0f - 0.97f));
        assert_true(h.one_minus_beta1 == (torch ? (float)(1 - 0.9) : 1.0f - 0.9f));
        assert_true(h.one_minus_beta2 == (torch ? (float)(1 - 0.999) : 1.0f - 0.999f));
        model_delete(&model);
    }
    assert_true(1.0f - 0.999f != (float)(1 - 0.999));
}

static void what_f64_gets_is_not_rounded(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAMW, false);
    struct optimizer_scalars_f64 h = hyper_at(model, 0).in_f64;
    assert_true(h.rate == 0.003 && h.momentum == 0.85 && h.rho == 0.97 && h.epsilon == 1e-7);
    assert_true(h.one_minus_rho == 1 - 0.97 && h.beta1 == 0.9 && h.beta2 == 0.999);
    assert_true(h.one_minus_beta1 == 1 - 0.9 && h.one_minus_beta2 == 1 - 0.999);
    assert_true(h.l2 == 0.0005 && h.clip_value == 1.1 && h.scale == 1 && h.root2 == 1);
    assert_true(h.average_rate == 1 - 0.99 && h.decay == 0.003 * 0.02);
    model->average_by_step = true;
    assert_true(hyper_at(model, 1).in_f64.average_rate == 1 - 3.0 / 12.0);
    model->schedule = MODEL_EXPONENTIAL;
    model->learning_rate_factor = 0.94;
    model->learning_rate_steps = 3;
    assert_true(hyper_at(model, 7).in_f64.rate == 0.003 * pow(0.94, 7.0 / 3.0));
    model_delete(&model);
}

static void the_bias_of_f64_is_corrected_in_f64(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAM, false);
    double first = 0.9, second = 0.999;
    for (uint64_t step = 0; step < 300; step++) {
        double alpha = 0.003 * sqrt(1 - second) / (1 - first), t = (double)step + 1;
        model->torch = false;
        assert_true(hyper_at(model, step).in_f64.alpha == alpha);
        model->torch = true;
        assert_true(hyper_at(model, step).in_f64.alpha == 0.003 / (1 - pow(0.9, t)));
        assert_true(hyper_at(model, step).in_f64.root2 == sqrt(1 - pow(0.999, t)));
        first *= 0.9;
        second *= 0.999;
    }
    model_delete(&model);
}

static void the_rate_is_the_one_of_the_step(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_SGD, false);
    model->schedule = MODEL_LINEAR;
    model->learning_rate_end = 0.001;
    model->learning_rate_steps = 10;
    for (uint64_t step = 0; step < 20; step++)
        assert_true(hyper_at(model, step).in_f32.rate == model_learning_rate(model, step));
    assert_true(hyper_at(model, 5).in_f32.rate == 0.002f);
    model_delete(&model);
}

static void powers_are_those_of_tensorflow_in_f32(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAM, false);
    struct optimizer_powers powers;
    volatile float first = 0.9f, second = 0.999f;
    optimizer_powers_start(model, &powers);
    for (int step = 0; step < STEPS; step++) {
        assert_true(powers.beta1_power == first && powers.beta2_power == second);
        first *= 0.9f;
        second *= 0.999f;
        optimizer_powers_next(model, &powers);
    }
    model_delete(&model);
}

static void alpha_is_what_tensorflow_documents(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAM, false);
    float first = 0.9f, second = 0.999f;
    for (uint64_t step = 0; step < 300; step++) {
        struct optimizer_scalars_f32 h = hyper_at(model, step).in_f32;
        double t = (double)step + 1;
        float root = sqrtf(1 - second), above = 0.003f * root;
        assert_true(h.alpha == above / (1 - first) && h.root2 == 1 && h.decay == 0);
        double documented = 0.003 * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
        assert_true(fabs((double)h.alpha / documented - 1) <
                    1e-4); /* the powers in f32 are no better in the first steps */
        first *= 0.9f;
        second *= 0.999f;
    }
    model_delete(&model);
}

static void step_size_and_root_are_what_pytorch_documents(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAMW, true);
    for (uint64_t step = 0; step < 300; step++) {
        struct optimizer_scalars_f32 h = hyper_at(model, step).in_f32;
        long double t = (long double)step + 1, step_size = 0.003L / (1 - powl(0.9L, t));
        assert_true(fabsl(h.alpha / step_size - 1) < 2e-7L);
        assert_true(fabsl(h.root2 / sqrtl(1 - powl(0.999L, t)) - 1) < 1e-7L);
        assert_true(h.decay == (float)((double)0.003f * 0.02));
    }
    model_delete(&model);
}

static void a_late_step_has_no_bias_left(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_ADAM, true);
    struct optimizer_powers powers = {0, 0, UINT64_C(1) << 50, 0, 0};
    struct optimizer_hyper h;
    optimizer_hyper_at(model, UINT64_C(1) << 50, &powers, &h);
    assert_true(h.in_f32.alpha == 0.003f && h.in_f32.root2 == 1);
    assert_true(h.in_f64.alpha == 0.003 && h.in_f64.root2 == 1);
    model->torch = false;
    optimizer_hyper_at(model, UINT64_C(1) << 50, &powers, &h);
    assert_true(h.in_f32.alpha == 0.003f && h.in_f32.root2 == 1);
    assert_true(h.in_f64.alpha == 0.003 && h.in_f64.root2 == 1);
    model_delete(&model);
}

static void averages_start_faster_by_the_step(void **state)
{
    (void)state;
    struct model *model = model_of(MODEL_SGD, false);
    assert_true(hyper_at(model, 0).in_f32.average_rate == (float)(1 - 0.99));
    model->average_by_step = true;
    assert_true(hyper_at(model, 0).in_f32.average_rate == (float)(1 - 2.0 / 11.0));
    assert_true(hyper_at(model, 1).in_f32.average_rate == (float)(1 - 3.0 / 12.0));
    assert_true(hyper_at(model, 2000).in_f32.average_rate == (float)(1 - 0.99));
    model->average_decay = 0;
    assert_true(hyper_at(model, 0).in_f32.average_rate == 0);
    model_delete(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_change_is_rounded_once),
        cmocka_unit_test(what_is_left_of_one_is_what_the_formulas_own_subtract),
        cmocka_unit_test(what_f64_gets_is_not_rounded),
        cmocka_unit_test(the_bias_of_f64_is_corrected_in_f64),
        cmocka_unit_test(the_rate_is_the_one_of_the_step),
        cmocka_unit_test(powers_are_those_of_tensorflow_in_f32),
        cmocka_unit_test(alpha_is_what_tensorflow_documents),
        cmocka_unit_test(step_size_and_root_are_what_pytorch_documents),
        cmocka_unit_test(a_late_step_has_no_bias_left),
        cmocka_unit_test(averages_start_faster_by_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
