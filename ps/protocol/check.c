/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/check.h"

#include <stdio.h>

#include "ps/protocol/key.h"
#include "transport/base/error.h"

#define CHECK_WORDS_BYTES 128
#define CHECK_ROUNDS_MAX 32 /* contributions of one worker to one step */

/* check_set -- was the key set? */
static bool check_set(const struct model *model, const char *name)
{
    return (model->set >> key_find(name) & 1) != 0;
}

/* check_keys -- resolves what was not set, and refuses what was set for nothing: it was meant otherwise. */
static int check_keys(struct model *model)
{
    char why[CHECK_WORDS_BYTES], remedy[CHECK_WORDS_BYTES];

    for (size_t k = 0; k < key_count(); k++)
        if ((model->set >> k & 1) == 0)
            value_put(&key_at(k)->value, model, key_default(key_at(k), model));
    for (size_t k = 0; k < key_count(); k++) {
        const struct key *key = key_at(k);
        if ((model->set >> k & 1) == 0 || !key_unused(key, model, why, remedy, sizeof(why)))
            continue;
        char help[2 * CHECK_WORDS_BYTES];
        snprintf(help, sizeof(help), "%s, or leave %s out", remedy, key->value.name);
        return error_set(STEPGATE_EINVAL, 0, help, "model %s: %s is set, but %s", model->name,
                         key->value.name, why);
    }
    return 0;
}

/* check_options -- the same for a variable. */
static int check_options(const struct model *model, struct model_variable *v)
{
    for (size_t i = 0; i < option_count(); i++) {
        const struct option *option = option_at(i);
        bool set = (v->set >> i & 1) != 0;
        if (!set)
            value_put(&option->value, v, option_default(option, model, v));
        if (set && !option_used(option, model, v))
            return error_set(STEPGATE_EINVAL, 0, "leave it out",
                             "variable %s: %s is set, but the optimizer is %s", v->name, option->value.name,
                             model_optimizer_name(model));
    }
    return 0;
}

/* check_variable -- what no single option can see. */
static int check_variable(const struct model *model, const struct model_variable *v)
{
    if (v->average && model->average_decay == 0)
        return error_set(STEPGATE_EINVAL, 0, "set average_decay, or leave average out",
                         "variable %s: average is set, but the model has no average_decay", v->name);
    if (v->kind == STEPGATE_SPARSE && v->rows_max == 0)
        return error_set(STEPGATE_EINVAL, 0, "set its rows_max to the most rows of one push",
                         "variable %s is sparse and has no rows_max", v->name);
    return 0;
}

/* check_rest -- what no single key can see. */
int check_rest(struct model *model)
{
    bool alone = model->update == MODEL_ASYNC || model->update == MODEL_BOUNDED;

    if (model->update == MODEL_BOUNDED && !check_set(model, "bound"))
        return error_set(STEPGATE_EINVAL, 0,
                         "set bound to how far a worker may be ahead of the slowest; 0 keeps them together",
                         "model %s: update is bounded, but there is no bound", model->name);
    if (model->optimizer == MODEL_NONE && alone)
        return error_set(STEPGATE_EINVAL, 0, "set update to strict or tf",
                         "model %s: without an optimizer there is nothing to apply in update %s", model->name,
                         model_update_name(model->update));
    if (model->schedule != MODEL_CONSTANT && model->learning_rate_steps == 0)
        return error_set(STEPGATE_EINVAL, 0, "set learning_rate_steps",
                         "model %s: the schedule %s needs learning_rate_steps", model->name,
                         model_schedule_name(model->schedule));
    if (model->optimizer == MODEL_ADAGRAD && !model->torch && !((float)model->initial_accumulator > 0))
        return error_set(STEPGATE_EINVAL, 0, "leave initial_accumulator out, or set formula to torch",
                         "model %s: TensorFlow's adagrad has no epsilon: initial_accumulator must be above 0",
                         model->name);
    model->started = 0;
    for (size_t k = 0; k < key_count(); k++)
        if (key_at(k)->started && value_get(&key_at(k)->value, model) != 0)
            model->started |= UINT64_C(1) << k;
    for (size_t i = 0; i < model->count; i++) {
        int status = check_variable(model, &model->variables[i]);
        if (status != 0)
            return status;
    }
    return 0;
}

/* model_check_keys -- resolves defaults, and refuses what does not fit. */
int model_check_keys(struct model *model)
{
    int status = check_keys(model);

    for (size_t i = 0; status == 0 && i < model->count; i++)
        status = check_options(model, &model->variables[i]);
    return status != 0 ? status : check_rest(model);
}

/* check_tokens -- tokens of tf: with too few of them everybody ends up waiting. */
static int check_tokens(const struct model *model, uint32_t replicas, uint32_t workers)
{
    uint32_t least = replicas > workers ? replicas - workers : 0;

    if (model_initial_tokens(model, workers) < least)
        return error_set(STEPGATE_EINVAL, 0, "set more initial_tokens, or leave them out",
                         "model %s: at least %u initial tokens are needed, R - T: with fewer no step could "
                         "ever be complete",
                         model->name, least);
    if (model_tokens_per_step(model, workers) < replicas)
        return error_set(STEPGATE_EINVAL, 0, "set more tokens_per_step, or leave them out",
                         "model %s: at least %u tokens per step are needed", model->name, replicas);
    return 0;
}

/* model_check_workers -- does it fit a job of so many workers? */
int model_check_workers(const struct model *model, uint32_t workers)
{
    uint32_t replicas = model_replicas(model, workers);

    if (model->total_num_replicas != 0 && model->total_num_replicas != workers)
        return error_set(STEPGATE_EINVAL, 0, "leave total_num_replicas out, or start as many workers",
                         "model %s: total_num_replicas is %u, but the job has %u workers", model->name,
                         model->total_num_replicas, workers);
    if (model->update == MODEL_STRICT && replicas > (uint64_t)CHECK_ROUNDS_MAX * workers)
        return error_set(STEPGATE_EINVAL, 0, "set replicas_to_aggregate to less, or start more workers",
                         "model %s: replicas_to_aggregate %u is more than %d of each of %u workers",
                         model->name, replicas, CHECK_ROUNDS_MAX, workers);
    return model->update == MODEL_TF ? check_tokens(model, replicas, workers) : 0;
}
