/* SPDX-License-Identifier: BSD-3-Clause */
/* A model takes every key that it should and no other, and what it was told must fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/key.h"
#include "ps/protocol/model.h"
#include "transport/base/error.h"

static const uint64_t dims_5_3[] = {5, 3};

/* keys_model -- a model that was told keys and values in turn, up to NULL. */
static struct model *keys_model(const char *const *told)
{
    struct model *model;

    assert_int_equal(model_new("m", &model), 0);
    for (; told[0] != NULL; told += 2)
        assert_int_equal(model_set(model, told[0], told[1]), 0);
    return model;
}

#define KEYS(...) keys_model((const char *const[]){__VA_ARGS__, NULL})

/* keys_said -- the last error's line holds the words. */
static void keys_said(const char *words)
{
    struct stepgate_error error;

    error_save(&error);
    if (strstr(error.text, words) == NULL)
        fail_msg("`%s` does not hold `%s`", error.text, words);
}

/* keys_fit -- passes the check, and is deleted. */
static void keys_fit(struct model *model)
{
    assert_int_equal(model_check_keys(model), 0);
    model_delete(&model);
}

/* keys_misfit -- is refused with these words, and deleted. */
static void keys_misfit(struct model *model, const char *words)
{
    assert_int_equal(model_check_keys(model), -STEPGATE_EINVAL);
    keys_said(words);
    model_delete(&model);
}

static void every_key_takes_what_it_should_and_refuses_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *good[9], *bad[9];
    } cases[] = {
        {"update", {"strict", "tf", "async", "bounded"}, {"", "Strict", "sync"}},
        {"bound", {"0", "7", "1e9"}, {"-1", "1.5", "2e9", "x"}},
        {"replicas_to_aggregate", {"0", "1", "1048576"}, {"-1", "0.5", "1048577", "nan"}},
        {"total_num_replicas", {"0", "1", "1048576"}, {"-1", "0.5", "1048577", ""}},
        {"tokens_per_step", {"0", "1", "1048576"}, {"-1", "0.5", "1048577", "1x"}},
        {"initial_tokens", {"0", "1", "1048576"}, {"-1", "0.5", "1048577", "inf"}},
        {"non_finite", {"propagate", "drop", "fail", "skip"}, {"", "ignore"}},
        {"optimizer",
         {"none", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"},
         {"", "Adam", "lamb", "adam "}},
        {"formula", {"tf", "torch"}, {"", "pytorch"}},
        {"learning_rate",
         {"0.1", "-1e30", "1e30", "0", "0x1p-3"},
         {"", "x", "0.1x", "nan", "inf", "1e31", "1e999", "1e-999"}},
        {"learning_rate_end", {"0", "-1", "1e30"}, {"-inf", ".", "1e31"}},
        {"learning_rate_steps", {"0", "1", "9e15"}, {"-1", "1.5", "1e16"}},
        {"learning_rate_factor", {"0", "0.94", "2"}, {"-0.1", "nan", "1e31"}},
        {"schedule", {"constant", "linear", "exponential", "cosine"}, {"", "step"}},
        {"staircase", {"yes", "no"}, {"1", "true", ""}},
        {"warmup_steps", {"0", "100"}, {"-1", "0.5", "1e16"}},
        {"momentum", {"0", "0.9", "1"}, {"-0.1", "1.1", "nan"}},
        {"rho", {"0", "0.9", "1"}, {"-0.1", "1.1", "nan"}},
        {"beta1", {"0", "0.9", "0.9999999"}, {"1", "0.99999999", "-0.1", "nan"}},
        {"beta2", {"0", "0.999", "0.9999999"}, {"1", "0.99999999", "-0.1", "nan"}},
        {"epsilon", {"0", "1e-8", "1", "1e30"}, {"-1e-8", "nan", "1e31"}},
        {"initial_accumulator", {"0", "0.1", "1e30"}, {"-0.1", "nan", "1e31"}},
        {"weight_decay", {"0", "0.01", "1e30"}, {"-0.1", "nan", "1e31"}},
        {"l2_decay", {"0", "1e-4", "1e30"}, {"-0.1", "nan", "1e31", "1e-50"}},
        {"clip_value", {"0", "0.5", "1e30"}, {"-0.1", "nan", "1e31", "1e-50"}},
        {"clip_norm", {"0", "0.5", "1e30"}, {"-0.1", "nan", "1e31", "1e-50"}},
        {"clip_global_norm", {"0", "0.5", "1e30"}, {"-0.1", "nan", "1e31", "1e-50"}},
        {"average_decay", {"0", "0.5", "0.9999"}, {"1", "-0.1", "nan", "0.99999999", "1e-50"}},
        {"average_by_step", {"yes", "no"}, {"1", "gs", ""}},
    };
    struct model *model = KEYS("optimizer", "adam");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t j = 0; j < 9 && cases[i].good[j] != NULL; j++)
            assert_int_equal(model_set(model, cases[i].key, cases[i].good[j]), 0);
        for (size_t j = 0; j < 9 && cases[i].bad[j] != NULL; j++) {
            struct model before = *model;
            assert_int_equal(model_set(model, cases[i].key, cases[i].bad[j]), -STEPGATE_EINVAL);
            keys_said(cases[i].key);
            assert_memory_equal(&before, model, sizeof(before));
        }
    }
    assert_int_equal(sizeof(cases) / sizeof(cases[0]), key_count());
    model_delete(&model);
}

static void limits_are_told_in_plain_digits(void **state)
{
    (void)state;
    struct model *model = KEYS("optimizer", "sgd");
    assert_int_equal(model_set(model, "replicas_to_aggregate", "1048577"), -STEPGATE_EINVAL);
    keys_said("replicas_to_aggregate: `1048577` is not a number from 0 to 1048576");
    assert_int_equal(model_set(model, "bound", "x"), -STEPGATE_EINVAL);
    keys_said("from 0 to 1000000000");
    assert_int_equal(model_set(model, "beta1", "1"), -STEPGATE_EINVAL);
    keys_said("from 0 to below 1");
    assert_int_equal(model_set(model, "epsilon", "1e31"), -STEPGATE_EINVAL);
    keys_said("from 0 to 1e+30");
    model_delete(&model);
}

static void an_unknown_key_is_told_all_that_there_are(void **state)
{
    (void)state;
    struct model *model = KEYS("optimizer", "sgd");
    const struct model before = *model;
    assert_int_equal(model_set(model, "momentun", "0.5"), -STEPGATE_ENOENT);
    keys_said("momentun");
    for (size_t i = 0; i < key_count(); i++)
        keys_said(key_at(i)->value.name);
    assert_int_equal(model_add(model, "v", STEPGATE_TRAINED, STEPGATE_F32, 0, NULL), 0);
    assert_int_equal(model_variable_set(model, 0, "scale", "1"), -STEPGATE_ENOENT);
    for (size_t i = 0; i < option_count(); i++)
        keys_said(option_at(i)->value.name);
    assert_int_equal(model_set(model, NULL, "0.5"), -STEPGATE_EINVAL);
    assert_int_equal(model_set(model, "momentum", NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_variable_set(model, 0, NULL, "1"), -STEPGATE_EINVAL);
    assert_int_equal(model_variable_set(model, 0, "frozen", NULL), -STEPGATE_EINVAL);
    assert_int_equal(model_variable_set(model, 1, "frozen", "yes"), -STEPGATE_EINVAL);
    assert_memory_equal(&before, model, offsetof(struct model, count));
    model_delete(&model);
}

static void the_public_header_tells_of_every_key_and_option(void **state)
{
    (void)state;
    static char text[65536];
    char path[4096], quoted[64];
    const char *end = strstr(__FILE__, "tests/unit/");
    assert_non_null(end);
    snprintf(path, sizeof(path), "%.*sinclude/stepgate/model.h", (int)(end - __FILE__), __FILE__);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        skip(); /* the sources are elsewhere */
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = 0;
    for (size_t i = 0; i < key_count() + option_count(); i++) {
        const struct value *value = i < key_count() ? &key_at(i)->value : &option_at(i - key_count())->value;
        snprintf(quoted, sizeof(quoted), "\"%s\"", value->name);
        if (strstr(text, quoted) == NULL)
            fail_msg("%s is not in the header", quoted);
        for (size_t w = 0; value->words != NULL && value->words[w] != NULL; w++)
            if (strstr(text, value->words[w]) == NULL)
                fail_msg("%s of %s is not in the header", value->words[w], quoted);
    }
}

static void a_new_model_is_a_constant_sgd_in_strict_mode(void **state)
{
    (void)state;
    struct model *model;
    assert_int_equal(model_new("m", &model), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model->update, MODEL_STRICT);
    assert_int_equal(model->non_finite, MODEL_PROPAGATE);
    assert_int_equal(model->optimizer, MODEL_SGD);
    assert_int_equal(model->schedule, MODEL_CONSTANT);
    assert_false(model->torch);
    assert_true(model->learning_rate == 0.01);
    assert_int_equal(model->initial_tokens, -1);
    assert_int_equal(model->replicas_to_aggregate, 0);
    assert_true(model->clip_norm == 0 && model->clip_value == 0 && model->clip_global_norm == 0);
    assert_true(model->average_decay == 0 && model->l2_decay == 0);
    model_delete(&model);
}

static void defaults_are_those_of_the_optimizer_and_its_formula(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *formula, *key;
        size_t offset;
        double value;
    } cases[] = {
        {"momentum", "tf", "momentum", offsetof(struct model, momentum), 0.9},
        {"nesterov", "torch", "momentum", offsetof(struct model, momentum), 0.9},
        {"rmsprop", "tf", "momentum", offsetof(struct model, momentum), 0},
        {"rmsprop", "torch", "momentum", offsetof(struct model, momentum), 0},
        {"rmsprop", "tf", "rho", offsetof(struct model, rho), 0.9},
        {"rmsprop", "torch", "rho", offsetof(struct model, rho), 0.99},
        {"rmsprop", "tf", "epsilon", offsetof(struct model, epsilon), 1e-10},
        {"rmsprop", "torch", "epsilon", offsetof(struct model, epsilon), 1e-8},
        {"adam", "tf", "epsilon", offsetof(struct model, epsilon), 1e-8},
        {"adamw", "torch", "epsilon", offsetof(struct model, epsilon), 1e-8},
        {"adagrad", "tf", "epsilon", offsetof(struct model, epsilon), 0},
        {"adagrad", "torch", "epsilon", offsetof(struct model, epsilon), 1e-10},
        {"adagrad", "tf", "initial_accumulator", offsetof(struct model, initial_accumulator), 0.1},
        {"adagrad", "torch", "initial_accumulator", offsetof(struct model, initial_accumulator), 0},
        {"adam", "tf", "beta1", offsetof(struct model, beta1), 0.9},
        {"adam", "torch", "beta2", offsetof(struct model, beta2), 0.999},
        {"adamw", "tf", "weight_decay", offsetof(struct model, weight_decay), 0.01},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = KEYS("formula", cases[i].formula, "optimizer", cases[i].optimizer);
        double value;
        assert_int_equal(model_check_keys(model), 0);
        memcpy(&value, (const uint8_t *)model + cases[i].offset, sizeof(value));
        assert_true(value == cases[i].value);
        /* What was set stays, in whatever order, and a default follows what is set later. */
        assert_int_equal(model_set(model, "optimizer", "adam"), 0);
        assert_int_equal(model_check_keys(model), 0);
        assert_true(model->epsilon == 1e-8 && model->momentum == 0.9);
        model_delete(&model);
    }
}

static void a_key_that_nothing_uses_is_refused_with_the_reason(void **state)
{
    (void)state;
    keys_misfit(KEYS("momentum", "0.5"), "momentum is set, but the optimizer is sgd");
    keys_misfit(KEYS("optimizer", "adam", "rho", "0.5"), "the optimizer is adam");
    keys_misfit(KEYS("optimizer", "rmsprop", "beta1", "0.5"), "the optimizer is rmsprop");
    keys_misfit(KEYS("optimizer", "adam", "weight_decay", "0.5"), "weight_decay is set");
    keys_misfit(KEYS("optimizer", "momentum", "epsilon", "0.5"), "epsilon is set");
    keys_misfit(KEYS("optimizer", "adagrad", "epsilon", "0.5"), "without formula to torch");
    keys_misfit(KEYS("optimizer", "rmsprop", "initial_accumulator", "0.5"), "initial_accumulator is set");
    keys_misfit(KEYS("optimizer", "none", "learning_rate", "1"), "the optimizer is none");
    keys_misfit(KEYS("optimizer", "none", "formula", "tf"), "the optimizer is none");
    keys_misfit(KEYS("optimizer", "none", "l2_decay", "1"), "the optimizer is none");
    keys_misfit(KEYS("optimizer", "none", "average_decay", "0.5"), "the optimizer is none");
    keys_misfit(KEYS("optimizer", "none", "warmup_steps", "5"), "the optimizer is none");
    keys_misfit(KEYS("bound", "3"), "the update is strict");
    keys_misfit(KEYS("tokens_per_step", "3"), "the update is strict");
    keys_misfit(KEYS("initial_tokens", "0"), "the update is strict");
    keys_misfit(KEYS("update", "async", "replicas_to_aggregate", "2"), "the update is async");
    keys_misfit(KEYS("update", "bounded", "bound", "2", "replicas_to_aggregate", "2"),
                "the update is bounded");
    keys_misfit(KEYS("update", "async", "clip_global_norm", "2"), "clip_global_norm is set");
    keys_misfit(KEYS("average_by_step", "yes"), "average_decay");
    keys_misfit(KEYS("learning_rate_end", "0"), "the schedule is constant");
    keys_misfit(KEYS("learning_rate_steps", "5", "schedule", "constant"), "the schedule is constant");
    keys_misfit(KEYS("learning_rate_steps", "5", "schedule", "exponential", "learning_rate_end", "0"),
                "the schedule is exponential");
    keys_misfit(KEYS("learning_rate_steps", "5", "learning_rate_factor", "0.5"), "the schedule is linear");
    keys_misfit(KEYS("learning_rate_steps", "5", "schedule", "cosine", "staircase", "yes"),
                "the schedule is cosine");
}

static void keys_that_need_each_other_are_asked_for(void **state)
{
    (void)state;
    keys_misfit(KEYS("update", "bounded"), "no bound");
    keys_fit(KEYS("update", "bounded", "bound", "0"));
    keys_misfit(KEYS("schedule", "linear"), "needs learning_rate_steps");
    keys_misfit(KEYS("schedule", "cosine", "learning_rate_steps", "0"), "needs learning_rate_steps");
    keys_misfit(KEYS("schedule", "exponential", "learning_rate_factor", "0.5"), "needs learning_rate_steps");
    keys_misfit(KEYS("optimizer", "none", "update", "async"), "nothing to apply in update async");
    keys_misfit(KEYS("optimizer", "none", "update", "bounded", "bound", "1"), "nothing to apply");
    keys_fit(KEYS("optimizer", "none", "update", "tf"));
    keys_misfit(KEYS("optimizer", "adagrad", "initial_accumulator", "0"), "must be above 0");
    keys_misfit(KEYS("optimizer", "adagrad", "initial_accumulator", "1e-60"), "must be above 0");
    keys_fit(KEYS("optimizer", "adagrad", "initial_accumulator", "0", "formula", "torch"));
}

static void keys_that_are_used_pass(void **state)
{
    (void)state;
    keys_fit(KEYS("optimizer", "nesterov", "momentum", "0.5", "formula", "torch"));
    keys_fit(KEYS("optimizer", "rmsprop", "rho", "0.5", "momentum", "0.5", "epsilon", "1", "l2_decay", "1"));
    keys_fit(KEYS("optimizer", "adamw", "beta1", "0.5", "beta2", "0.5", "epsilon", "1", "weight_decay", "0"));
    keys_fit(KEYS("optimizer", "adagrad", "formula", "torch", "epsilon", "1", "initial_accumulator", "1"));
    keys_fit(KEYS("optimizer", "none", "clip_norm", "1", "clip_global_norm", "1", "clip_value", "1"));
    keys_fit(KEYS("update", "async", "clip_norm", "1", "clip_value", "1", "average_decay", "0.5",
                  "average_by_step", "yes", "total_num_replicas", "4"));
    keys_fit(KEYS("learning_rate_steps", "5", "learning_rate_end", "1", "warmup_steps", "2"));
    keys_fit(KEYS("schedule", "exponential", "learning_rate_steps", "5", "learning_rate_factor", "0.5",
                  "staircase", "yes"));
    keys_fit(
        KEYS("update", "tf", "replicas_to_aggregate", "3", "tokens_per_step", "4", "initial_tokens", "0"));
}

static void what_is_set_to_off_is_as_good_as_absent(void **state)
{
    (void)state;
    keys_fit(KEYS("update", "async", "replicas_to_aggregate", "0", "clip_global_norm", "0", "tokens_per_step",
                  "0", "total_num_replicas", "0"));
    keys_fit(
        KEYS("learning_rate_steps", "0", "staircase", "no", "average_by_step", "no", "warmup_steps", "0"));
    keys_fit(KEYS("optimizer", "none", "l2_decay", "0", "average_decay", "0"));
    keys_fit(KEYS("replicas_to_aggregate", "3", "update", "async", "replicas_to_aggregate", "0"));
}

static void steps_alone_mean_a_linear_schedule(void **state)
{
    (void)state;
    struct model *model = KEYS("learning_rate_steps", "5");
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model->schedule, MODEL_LINEAR);
    assert_int_equal(model_set(model, "learning_rate_steps", "0"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model->schedule, MODEL_CONSTANT);
    model_delete(&model);
}

static void a_refused_model_may_be_put_right(void **state)
{
    (void)state;
    struct model *model = KEYS("momentum", "0.5");
    assert_int_equal(model_check_keys(model), -STEPGATE_EINVAL);
    assert_int_equal(model_set(model, "optimizer", "momentum"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_true(model->momentum == 0.5);
    model_delete(&model);
}

/* options_model -- one variable of each kind, all of f32 with 5 rows of 3. */
static struct model *options_model(void)
{
    struct model *model = KEYS("optimizer", "sgd");

    for (int kind = STEPGATE_TRAINED; kind <= STEPGATE_AUX; kind++)
        assert_int_equal(model_add(model, model_kind_name(kind), kind, STEPGATE_F32, 2, dims_5_3), kind - 1);
    assert_int_equal(model_variable_set(model, STEPGATE_SPARSE - 1, "rows_max", "4"), 0);
    return model;
}

static void every_option_is_for_its_kinds_and_refuses_what_it_should(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        unsigned kinds;
        const char *good[5], *bad[5];
    } cases[] = {
        {"learning_rate_scale", 3, {"0", "1", "0.1", "1e30"}, {"-1", "nan", "1e31", ""}},
        {"decays", 3, {"yes", "no"}, {"", "1"}},
        {"frozen", 3, {"yes", "no"}, {"", "1"}},
        {"average", 3, {"yes", "no"}, {"", "1"}},
        {"gradient_dtype", 3, {"f32", "f16", "bf16"}, {"f64", "f8", "1", ""}},
        {"rows_max", 2, {"1", "5", "100"}, {"0", "-1", "1.5", "1e16"}},
        {"row_mean", 2, {"rows", "replicas"}, {"", "row"}},
        {"assign", 4, {"mean", "rank0"}, {"", "rank1"}},
    };
    assert_int_equal(sizeof(cases) / sizeof(cases[0]), option_count());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t id = 0; id < 4; id++) {
            struct model *model = options_model();
            bool takes = (cases[i].kinds >> id & 1) != 0;
            for (size_t j = 0; j < 5 && cases[i].good[j] != NULL; j++)
                assert_int_equal(model_variable_set(model, id, cases[i].key, cases[i].good[j]),
                                 takes ? 0 : -STEPGATE_EINVAL);
            for (size_t j = 0; j < 5 && cases[i].bad[j] != NULL; j++) {
                struct model_variable before = model->variables[id];
                assert_int_equal(model_variable_set(model, id, cases[i].key, cases[i].bad[j]),
                                 -STEPGATE_EINVAL);
                assert_memory_equal(&before, &model->variables[id], sizeof(before));
            }
            model_delete(&model);
        }
}

static void a_gradient_is_never_wider_than_what_its_variable_is_computed_in(void **state)
{
    (void)state;
    struct model *model = KEYS("optimizer", "sgd");
    for (int dtype = STEPGATE_F32; dtype <= STEPGATE_BF16; dtype++) {
        uint32_t id = (uint32_t)(dtype - 1);
        assert_int_equal(model_add(model, model_dtype_name(dtype), STEPGATE_TRAINED, dtype, 2, dims_5_3), id);
        assert_true(model->variables[id].bytes == 15 * model_dtype_bytes(dtype));
        assert_int_equal(model->variables[id].gradient_dtype, dtype);
        for (int gradient = STEPGATE_F32; gradient <= STEPGATE_BF16; gradient++) {
            bool fits = gradient != STEPGATE_F64 || dtype == STEPGATE_F64;
            assert_int_equal(model_variable_set(model, id, "gradient_dtype", model_dtype_name(gradient)),
                             fits ? 0 : -STEPGATE_EINVAL);
            if (fits)
                assert_true(model->variables[id].gradient_bytes == 15 * model_dtype_bytes(gradient));
        }
        assert_int_equal(model->variables[id].dtype, dtype);
    }
    model_delete(&model);
}

static void a_sparse_variable_has_rows_and_says_how_many_are_pushed(void **state)
{
    (void)state;
    struct model *model = KEYS("optimizer", "sgd");
    assert_int_equal(model_add(model, "emb", STEPGATE_SPARSE, STEPGATE_F32, 2, dims_5_3), 0);
    assert_true(model->variables[0].rows == 5 && model->variables[0].row_elements == 3);
    assert_int_equal(model_check_keys(model), -STEPGATE_EINVAL);
    keys_said("emb is sparse and has no rows_max");
    assert_int_equal(model_variable_set(model, 0, "rows_max", "6"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model->variables[0].rows_max, 5);
    assert_int_equal(model->variables[0].row_mean, MODEL_ROW_MEAN_ROWS);
    assert_int_equal(model_add(model, "vector", STEPGATE_SPARSE, STEPGATE_F32, 1, dims_5_3), 1);
    assert_true(model->variables[1].rows == 5 && model->variables[1].row_elements == 1);
    model_delete(&model);
}

static void averages_are_of_all_that_is_optimized_unless_it_says_no(void **state)
{
    (void)state;
    struct model *model = options_model();
    assert_int_equal(model_variable_set(model, 0, "average", "yes"), 0);
    assert_int_equal(model_check_keys(model), -STEPGATE_EINVAL);
    keys_said("average_decay");
    assert_int_equal(model_set(model, "average_decay", "0.9"), 0);
    assert_int_equal(model_check_keys(model), 0);
    for (int id = 0; id < 4; id++)
        assert_int_equal(model->variables[id].average, id < 2);
    assert_int_equal(model_variable_set(model, 1, "average", "no"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_false(model->variables[1].average);
    model_delete(&model);
}

static void options_of_an_optimizer_are_refused_without_one(void **state)
{
    (void)state;
    static const char *const told[][2] = {{"learning_rate_scale", "2"}, {"decays", "no"}, {"average", "no"}};
    for (size_t i = 0; i < 3; i++) {
        struct model *model = options_model();
        assert_int_equal(model_set(model, "optimizer", "none"), 0);
        assert_int_equal(model_check_keys(model), 0);
        assert_int_equal(model_variable_set(model, 0, told[i][0], told[i][1]), 0);
        keys_misfit(model, "the optimizer is none");
    }
}

static void hyper_parameters_are_tuned_within_their_ranges(void **state)
{
    (void)state;
    static const char *const tuned[] = {"learning_rate", "beta1",        "beta2",
                                        "epsilon",       "weight_decay", "l2_decay"};
    struct model *model = KEYS("optimizer", "adamw", "clip_norm", "1", "average_decay", "0.5");
    assert_int_equal(model_check_keys(model), 0);
    for (size_t i = 0; i < sizeof(tuned) / sizeof(tuned[0]); i++) {
        assert_int_equal(model_tune(model, tuned[i], "0.25"), 0);
        assert_int_equal(model_tune(model, tuned[i], "nan"), -STEPGATE_EINVAL);
        assert_int_equal(model_tune(model, tuned[i], "-1e31"), -STEPGATE_EINVAL);
    }
    assert_true(model->learning_rate == 0.25 && model->beta1 == 0.25 && model->beta2 == 0.25);
    assert_true(model->epsilon == 0.25 && model->weight_decay == 0.25 && model->l2_decay == 0.25);
    assert_int_equal(model_tune(model, "average_decay", "0.75"), 0);
    assert_int_equal(model_tune(model, "average_decay", "0"), -STEPGATE_EINVAL);
    assert_true(model->average_decay == 0.75);
    assert_int_equal(model_tune(model, "rho", "0.5"), -STEPGATE_EINVAL);
    keys_said("the optimizer is adamw");
    assert_int_equal(model_tune(model, "learning_rate_end", "0.5"), -STEPGATE_EINVAL);
    assert_int_equal(model_tune(model, "optimizer", "sgd"), -STEPGATE_EINVAL);
    keys_said("cannot change in training");
    assert_int_equal(model_tune(model, "warmup_steps", "5"), -STEPGATE_EINVAL);
    assert_int_equal(model_tune(model, "lr", "0.5"), -STEPGATE_ENOENT);
    assert_int_equal(model_tune(model, NULL, "0.5"), -STEPGATE_EINVAL);
    model_delete(&model);
}

static void a_clip_that_was_off_at_commit_stays_off_wherever_the_model_went(void **state)
{
    (void)state;
    struct model *model = KEYS("clip_norm", "1"), *there;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model_pack(model, &bytes, &size), 0);
    assert_int_equal(model_unpack(bytes, size, &there), 0);
    free(bytes);
    for (int i = 0; i < 2; i++) {
        struct model *m = i == 0 ? model : there;
        assert_int_equal(model_tune(m, "clip_value", "1"), -STEPGATE_EINVAL);
        keys_said("was off at commit");
        assert_int_equal(model_tune(m, "clip_global_norm", "1"), -STEPGATE_EINVAL);
        assert_int_equal(model_tune(m, "average_decay", "0.5"), -STEPGATE_EINVAL);
        assert_int_equal(model_tune(m, "clip_norm", "0"), 0);
        assert_int_equal(model_tune(m, "clip_norm", "2"), 0); /* off for a while only */
        assert_true(m->clip_norm == 2);
    }
    model_delete(&model);
    model_delete(&there);
}

static void slots_are_those_of_the_optimizer(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer;
        unsigned slots;
    } cases[] = {{"none", 0},    {"sgd", 0},     {"momentum", 1}, {"nesterov", 1},
                 {"adagrad", 1}, {"rmsprop", 2}, {"adam", 2},     {"adamw", 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model *model = KEYS("optimizer", cases[i].optimizer);
        assert_int_equal(model_optimizer_slots(model), cases[i].slots);
        assert_string_equal(model_optimizer_name(model), cases[i].optimizer);
        model_delete(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_takes_what_it_should_and_refuses_the_rest),
        cmocka_unit_test(limits_are_told_in_plain_digits),
        cmocka_unit_test(an_unknown_key_is_told_all_that_there_are),
        cmocka_unit_test(the_public_header_tells_of_every_key_and_option),
        cmocka_unit_test(a_new_model_is_a_constant_sgd_in_strict_mode),
        cmocka_unit_test(defaults_are_those_of_the_optimizer_and_its_formula),
        cmocka_unit_test(a_key_that_nothing_uses_is_refused_with_the_reason),
        cmocka_unit_test(keys_that_need_each_other_are_asked_for),
        cmocka_unit_test(keys_that_are_used_pass),
        cmocka_unit_test(what_is_set_to_off_is_as_good_as_absent),
        cmocka_unit_test(steps_alone_mean_a_linear_schedule),
        cmocka_unit_test(a_refused_model_may_be_put_right),
        cmocka_unit_test(every_option_is_for_its_kinds_and_refuses_what_it_should),
        cmocka_unit_test(a_gradient_is_never_wider_than_what_its_variable_is_computed_in),
        cmocka_unit_test(a_sparse_variable_has_rows_and_says_how_many_are_pushed),
        cmocka_unit_test(averages_are_of_all_that_is_optimized_unless_it_says_no),
        cmocka_unit_test(options_of_an_optimizer_are_refused_without_one),
        cmocka_unit_test(hyper_parameters_are_tuned_within_their_ranges),
        cmocka_unit_test(a_clip_that_was_off_at_commit_stays_off_wherever_the_model_went),
        cmocka_unit_test(slots_are_those_of_the_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
