/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "stepgate/stepgate.h"
#include "worker/examples/fashion/network.h"

/* exchange_model_key -- a key with a text, if it is wanted; code is what went wrong before */
static int exchange_model_key(struct stepgate_model *model, int code, bool wanted, const char *key,
                              const char *text)
{
    return code < 0 || !wanted ? code : stepgate_model_set(model, key, text);
}

/* exchange_model_number -- the same with a number, with all its digits */
static int exchange_model_number(struct stepgate_model *model, int code, bool wanted, const char *key,
                                 double number)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", number);
    return exchange_model_key(model, code, wanted, key, text);
}

/* exchange_model_update -- when a step is taken */
static int exchange_model_update(struct stepgate_model *model, const struct recipe *recipe)
{
    int code = exchange_model_key(model, 0, true, "update", recipe_update_name(recipe->update));
    code =
        exchange_model_number(model, code, recipe->update == RECIPE_BOUNDED, "bound", (double)recipe->bound);
    code = exchange_model_number(model, code, recipe->replicas > 0, "replicas_to_aggregate",
                                 (double)recipe->replicas);
    code = exchange_model_number(model, code, recipe->initial_tokens != RECIPE_NO_TOKENS, "initial_tokens",
                                 (double)recipe->initial_tokens);
    return exchange_model_key(model, code, true, "non_finite", recipe_non_finite_name(recipe->non_finite));
}

/* exchange_model_optimizer -- its numbers, as far as it has them */
static int exchange_model_optimizer(struct stepgate_model *model, const struct recipe *recipe)
{
    bool some = recipe->optimizer != RECIPE_NONE, betas = recipe_uses_betas(recipe);
    int code = exchange_model_key(model, 0, true, "optimizer", recipe_optimizer_name(recipe->optimizer));
    code = exchange_model_key(model, code, some, "formula", recipe_formula_name(recipe->formula));
    code = exchange_model_number(model, code, recipe_uses_momentum(recipe), "momentum", recipe->momentum);
    code = exchange_model_number(model, code, recipe->optimizer == RECIPE_RMSPROP, "rho", recipe->rho);
    code = exchange_model_number(model, code, betas, "beta1", recipe->beta1);
    code = exchange_model_number(model, code, betas, "beta2", recipe->beta2);
    code = exchange_model_number(model, code, recipe_uses_epsilon(recipe), "epsilon", recipe->epsilon);
    code = exchange_model_number(model, code, recipe->optimizer == RECIPE_ADAMW, "weight_decay",
                                 recipe->weight_decay);
    code = exchange_model_number(model, code, recipe->l2_decay > 0.0, "l2_decay", recipe->l2_decay);
    code = exchange_model_number(model, code, recipe->clip_norm > 0.0, "clip_norm", recipe->clip_norm);
    code = exchange_model_number(model, code, recipe->clip_global_norm > 0.0, "clip_global_norm",
                                 recipe->clip_global_norm);
    code = exchange_model_number(model, code, recipe->clip_value > 0.0, "clip_value", recipe->clip_value);
    code = exchange_model_number(model, code, recipe->average_decay > 0.0, "average_decay",
                                 recipe->average_decay);
    return exchange_model_key(model, code, recipe->average_decay > 0.0, "average_by_step", "yes");
}

/* exchange_model_schedule -- the rate of each step */
static int exchange_model_schedule(struct stepgate_model *model, const struct schedule *schedule)
{
    bool exponential = schedule->shape == SCHEDULE_EXPONENTIAL;
    bool ends = schedule->shape == SCHEDULE_LINEAR || schedule->shape == SCHEDULE_COSINE;
    int code = exchange_model_number(model, 0, true, "learning_rate", schedule->rate);
    code = exchange_model_key(model, code, true, "schedule", schedule_name(schedule->shape));
    code = exchange_model_number(model, code, ends, "learning_rate_end", schedule->end);
    code = exchange_model_number(model, code, ends || exponential, "learning_rate_steps",
                                 (double)schedule->steps);
    code = exchange_model_number(model, code, exponential, "learning_rate_factor", schedule->factor);
    code = exchange_model_key(model, code, exponential && schedule->staircase, "staircase", "yes");
    return exchange_model_number(model, code, schedule->warmup > 0, "warmup_steps", (double)schedule->warmup);
}

/* exchange_model_dtype -- as stepgate numbers it */
static int exchange_model_dtype(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_F16: return STEPGATE_F16;
    case DTYPE_BF16: return STEPGATE_BF16;
    default: return STEPGATE_F32;
    }
}

/* exchange_model_initialize -- worker 0 gives a variable's first value, rounded to its type */
static int exchange_model_initialize(struct stepgate_model *model, unsigned variable, int id,
                                     const struct recipe *recipe)
{
    uint64_t elements = network_variables()[variable].elements;
    float *value = malloc(elements * sizeof *value);
    void *narrow = malloc(elements * sizeof *value);
    int code = -STEPGATE_ENOMEM;
    if (value != NULL && narrow != NULL) {
        network_initial(variable, recipe->seed, value);
        dtype_narrow(recipe->dtype, value, narrow, elements);
        code = stepgate_model_initialize(model, id, narrow, elements * dtype_bytes(recipe->dtype));
    }
    free(narrow);
    free(value);
    return code;
}

/* exchange_model_variable -- one variable */
static int exchange_model_variable(struct stepgate_model *model, unsigned variable,
                                   const struct recipe *recipe, bool initial)
{
    const struct network_variable *v = &network_variables()[variable];
    int id;
    int code = stepgate_model_variable(model, v->name, STEPGATE_TRAINED, exchange_model_dtype(recipe->dtype),
                                       (int)v->rank, v->dims, &id);
    return code < 0 || !initial ? code : exchange_model_initialize(model, variable, id, recipe);
}

/* exchange_model_declare -- all keys and all variables */
int exchange_model_declare(struct stepgate_model *model, const struct recipe *recipe, bool initial)
{
    int code = exchange_model_update(model, recipe);
    if (code >= 0)
        code = exchange_model_optimizer(model, recipe);
    if (code >= 0 && recipe->optimizer != RECIPE_NONE)
        code = exchange_model_schedule(model, &recipe->schedule);
    for (unsigned v = 0; code >= 0 && v < NETWORK_VARIABLES; v++)
        code = exchange_model_variable(model, v, recipe, initial);
    return code;
}
