/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/result.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "worker/examples/fashion/output.h"

/* result_number -- JSON has no infinity and no NaN: null stands for them */
static json_t *result_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* result_history -- an array of the measurements */
static json_t *result_history(const struct history *history)
{
    json_t *array = json_array();
    for (size_t i = 0; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        json_t *object = json_pack("{sIsfso}", "step", (json_int_t)point->step, "seconds", point->seconds,
                                   "loss", result_number(point->loss));
        if (point->accuracy >= 0.0)
            json_object_set_new(object, "accuracy", json_real(point->accuracy));
        json_array_append_new(array, object);
    }
    return array;
}

/* result_counts -- an array of one of the three counts, one number for each worker */
static json_t *result_counts(const struct result *result, size_t offset)
{
    json_t *array = json_array();
    for (unsigned w = 0; w < result->workers; w++) {
        uint64_t count = *(const uint64_t *)(const void *)((const char *)&result->counts[w] + offset);
        json_array_append_new(array, json_integer((json_int_t)count));
    }
    return array;
}

/* result_points -- what was judged beside the training */
static json_t *result_points(const struct result *result)
{
    json_t *array = json_array();
    for (size_t i = 0; i < result->points_count; i++) {
        const struct observer_point *point = &result->points[i];
        json_t *object =
            json_pack("{sIsf}", "step", (json_int_t)point->step, "test_accuracy", point->accuracy);
        if (point->average_accuracy >= 0.0)
            json_object_set_new(object, "test_accuracy_ema", json_real(point->average_accuracy));
        json_array_append_new(array, object);
    }
    return array;
}

/* result_real -- a number, if there is one */
static void result_real(json_t *json, bool there, const char *key, double number)
{
    if (there)
        json_object_set_new(json, key, result_number(number));
}

/* result_integer -- likewise */
static void result_integer(json_t *json, bool there, const char *key, uint64_t number)
{
    if (there)
        json_object_set_new(json, key, json_integer((json_int_t)number));
}

/* result_mode -- when a step was taken */
static void result_mode(json_t *json, const struct settings *settings, const struct recipe *recipe)
{
    json_object_set_new(json, "update", json_string(recipe_update_name(recipe->update)));
    result_integer(json, recipe->update == RECIPE_BOUNDED, "bound", recipe->bound);
    result_integer(json, recipe->initial_tokens != RECIPE_NO_TOKENS, "initial_tokens",
                   recipe->initial_tokens);
    json_object_set_new(json, "non_finite_policy", json_string(recipe_non_finite_name(recipe->non_finite)));
    json_object_set_new(json, "dtype", json_string(dtype_name(recipe->dtype)));
    result_real(json, settings->straggle.probability > 0.0, "straggle_probability",
                settings->straggle.probability);
    result_integer(json, settings->straggle.probability > 0.0, "straggle_ms", settings->straggle.ms);
    result_integer(json, settings->evaluate_every > 0, "evaluate_every", settings->evaluate_every);
}

/* result_recipe -- what was done with the mean gradient */
static void result_recipe(json_t *json, const struct recipe *recipe)
{
    const struct schedule *schedule = &recipe->schedule;
    bool exponential = schedule->shape == SCHEDULE_EXPONENTIAL, betas = recipe_uses_betas(recipe);
    json_object_set_new(json, "formula", json_string(recipe_formula_name(recipe->formula)));
    json_object_set_new(json, "lr_schedule", json_string(schedule_name(schedule->shape)));
    result_real(json, schedule->shape == SCHEDULE_COSINE, "lr_end", schedule->end);
    result_real(json, exponential, "lr_factor", schedule->factor);
    result_integer(json, exponential, "lr_steps", schedule->steps);
    if (exponential)
        json_object_set_new(json, "lr_staircase", json_boolean(schedule->staircase));
    result_integer(json, true, "warmup", schedule->warmup);
    result_real(json, recipe->optimizer == RECIPE_RMSPROP, "rho", recipe->rho);
    result_real(json, recipe_uses_epsilon(recipe), "epsilon", recipe->epsilon);
    result_real(json, betas, "beta1", recipe->beta1);
    result_real(json, betas, "beta2", recipe->beta2);
    result_real(json, recipe->optimizer == RECIPE_ADAMW, "weight_decay", recipe->weight_decay);
    result_real(json, true, "l2_decay", recipe->l2_decay);
    result_real(json, true, "ema", recipe->average_decay);
    result_real(json, true, "clip_norm", recipe->clip_global_norm);
    result_real(json, true, "clip_worker_norm", recipe->clip_norm);
    result_real(json, true, "clip_value", recipe->clip_value);
}

/* result_outcome -- what depends on the mode */
static void result_outcome(json_t *json, const struct result *result, const struct recipe *recipe)
{
    result_real(json, result->test_accuracy_average >= 0.0, "test_accuracy_ema",
                result->test_accuracy_average);
    result_integer(json, recipe_is_alone(recipe), "staleness_max", result->staleness_max);
    if (result->counts != NULL) {
        json_object_set_new(json, "accepted",
                            result_counts(result, offsetof(struct exchange_counts, accepted)));
        json_object_set_new(json, "stale", result_counts(result, offsetof(struct exchange_counts, stale)));
        json_object_set_new(json, "non_finite",
                            result_counts(result, offsetof(struct exchange_counts, non_finite)));
    }
    if (result->points_count > 0)
        json_object_set_new(json, "evaluations", result_points(result));
}

/* result_json -- all of it */
static json_t *result_json(const struct result *result, const struct settings *settings,
                           const struct recipe *recipe)
{
    json_t *json = json_pack(
        "{sssisisisisIsosfsosfsfsssisIsIsIsIsssfsfsb}", "transport", result->transport, "workers",
        (int)result->workers, "ps", (int)result->ps, "parts", (int)result->parts, "replicas_to_aggregate",
        (int)result->replicas, "global_step", (json_int_t)result->global_step, "final_loss",
        result_number(result->final_loss), "test_accuracy", result->test_accuracy, "test_loss",
        result_number(result->test_loss), "seconds", result->seconds, "images_per_second",
        result->images_per_second, "params_sha256", result->params_sha256, "blas_threads",
        result->blas_threads, "seed", (json_int_t)recipe->seed, "epochs", (json_int_t)settings->epochs,
        "images", (json_int_t)result->images, "batch", (json_int_t)settings->batch, "optimizer",
        recipe_optimizer_name(recipe->optimizer), "lr", recipe->schedule.rate, "momentum", recipe->momentum,
        "uneven", (int)settings->uneven);
    if (json == NULL)
        return NULL;
    result_mode(json, settings, recipe);
    result_recipe(json, recipe);
    result_outcome(json, result, recipe);
    json_object_set_new(json, "history", result_history(&result->history));
    return json;
}

/* result_check -- what is said when the system does not let the file be written */
static int result_check(const char *path, int code, struct fault *fault)
{
    if (code == 0)
        return 0;
    return fault_set(fault, FAULT_PERMANENT,
                     "can't write %s (%s): give a file that can be written with --json", path,
                     strerror(code));
}

/* result_try -- find out now, not after the training, that the file can't be written */
int result_try(const char *path, struct fault *fault)
{
    return result_check(path, output_try(path), fault);
}

/* result_write -- write the file whole, or leave what was there */
int result_write(const char *path, const struct result *result, const struct settings *settings,
                 const struct recipe *recipe, struct fault *fault)
{
    struct output output;
    json_t *json = result_json(result, settings, recipe);
    if (json == NULL)
        return fault_set(fault, FAULT_PERMANENT, "no memory for the result");
    int code = output_open(&output, path);
    if (code == 0) {
        errno = 0;
        int dumped = json_dumpf(json, output.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        int dump_code = dumped < 0 && errno == 0 ? EIO : errno;
        code = output_close(&output, dumped == 0);
        if (dumped < 0)
            code = dump_code;
    }
    json_decref(json);
    return result_check(path, code, fault);
}

/* result_clear -- free what the trainer has put there */
void result_clear(struct result *result)
{
    free(result->counts);
    history_clear(&result->history);
    *result = (struct result){0};
}
