/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/key.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define BIT(number) (1u << (number))
#define TOGETHER (BIT(MODEL_STRICT) | BIT(MODEL_TF))
#define RATED                                                                                                \
    (BIT(MODEL_SGD) | BIT(MODEL_MOMENTUM) | BIT(MODEL_NESTEROV) | BIT(MODEL_ADAGRAD) | BIT(MODEL_RMSPROP) |  \
     BIT(MODEL_ADAM) | BIT(MODEL_ADAMW))
#define ADAMS (BIT(MODEL_ADAM) | BIT(MODEL_ADAMW))
#define WITH_STEPS (BIT(MODEL_LINEAR) | BIT(MODEL_EXPONENTIAL) | BIT(MODEL_COSINE))
#define WITH_END (BIT(MODEL_LINEAR) | BIT(MODEL_COSINE))
#define OPTIMIZED (BIT(STEPGATE_TRAINED) | BIT(STEPGATE_SPARSE))
#define KEY_TOKENS_MAX 1048576.0 /* contributions of one step: 32 of each of 32,768 workers */
#define KEY_BOUND_MAX 1e9

/* Words in the order of their enum, ended by NULL. */
const char *const key_updates[] = {"strict", "tf", "async", "bounded", NULL};
const char *const key_non_finite[] = {"propagate", "drop", "fail", "skip", NULL};
const char *const key_optimizers[] = {"sgd",     "momentum", "none",  "nesterov", "adagrad",
                                      "rmsprop", "adam",     "adamw", NULL};
const char *const key_schedules[] = {"constant", "linear", "exponential", "cosine", NULL};
const char *const key_dtypes[] = {"f32", "f64", "f16", "bf16", NULL};
const char *const key_kinds[] = {"trained", "sparse", "assigned", "aux", NULL};
static const char *const key_formulas[] = {"tf", "torch", NULL};
static const char *const key_answers[] = {"no", "yes", NULL};
static const char *const key_row_means[] = {"rows", "replicas", NULL};
static const char *const key_assigns[] = {"mean", "rank0", NULL};

/* key_momentum -- without the key. */
static double key_momentum(const struct model *model)
{
    return model->optimizer == MODEL_RMSPROP ? 0 : 0.9;
}

/* key_rho -- without the key. */
static double key_rho(const struct model *model)
{
    return model->torch ? 0.99 : 0.9;
}

/* key_epsilon -- without the key; TensorFlow's Adagrad has none. */
static double key_epsilon(const struct model *model)
{
    if (model->optimizer == MODEL_ADAGRAD)
        return model->torch ? 1e-10 : 0;
    return model->optimizer == MODEL_RMSPROP && !model->torch ? 1e-10 : 1e-8;
}

/* key_epsilon_used -- by every formula but one. */
static bool key_epsilon_used(const struct model *model)
{
    return model->optimizer != MODEL_ADAGRAD || model->torch;
}

/* key_accumulator -- without the key. */
static double key_accumulator(const struct model *model)
{
    return model->torch ? 0 : 0.1;
}

/* key_average_used -- are there averages? */
static bool key_average_used(const struct model *model)
{
    return model->average_decay > 0;
}

/* key_schedule -- without the key: steps alone mean the linear one. */
static double key_schedule(const struct model *model)
{
    return model->learning_rate_steps > 0 ? MODEL_LINEAR : MODEL_CONSTANT;
}

#define FIELD(text, type, field) .name = (text), .kind = (type), .offset = offsetof(struct model, field)
#define CHOICE(text, field, list)                                                                            \
    {                                                                                                        \
        FIELD(text, VALUE_CHOICE, field), .words = (list)                                                    \
    }
#define FLAG(text, field)                                                                                    \
    {                                                                                                        \
        FIELD(text, VALUE_FLAG, field), .words = key_answers, .off = true                                    \
    }
#define COUNT(text, type, field, from, to)                                                                   \
    {                                                                                                        \
        FIELD(text, type, field), .low = (from), .high = (to)                                                \
    }
#define COUNT_OFF(text, type, field, to)                                                                     \
    {                                                                                                        \
        FIELD(text, type, field), .high = (to), .off = true                                                  \
    }
#define NUMBER(text, field, from, to)                                                                        \
    {                                                                                                        \
        FIELD(text, VALUE_F64, field), .low = (from), .high = (to)                                           \
    }
#define NUMBER_OFF(text, field)                                                                              \
    {                                                                                                        \
        FIELD(text, VALUE_F64, field), .high = VALUE_NUMBER_MAX, .off = true                                 \
    }
#define NUMBER_BELOW(text, field, to)                                                                        \
    {                                                                                                        \
        FIELD(text, VALUE_F64, field), .high = (to), .below = true                                           \
    }

/* The keys in the order in which they are packed, compared and checked. */
static const struct key keys[] = {
    {.value = CHOICE("update", update, key_updates), .standard = MODEL_STRICT},
    {.value = COUNT("bound", VALUE_U32, bound, 0, KEY_BOUND_MAX), .updates = BIT(MODEL_BOUNDED)},
    {.value = COUNT_OFF("replicas_to_aggregate", VALUE_U32, replicas_to_aggregate, KEY_TOKENS_MAX),
     .updates = TOGETHER},
    {.value = COUNT_OFF("total_num_replicas", VALUE_U32, total_num_replicas, KEY_TOKENS_MAX)},
    {.value = COUNT_OFF("tokens_per_step", VALUE_U32, tokens_per_step, KEY_TOKENS_MAX),
     .updates = BIT(MODEL_TF)},
    {.value = COUNT("initial_tokens", VALUE_I64, initial_tokens, 0, KEY_TOKENS_MAX),
     .standard = -1,
     .updates = BIT(MODEL_TF)},
    {.value = CHOICE("non_finite", non_finite, key_non_finite), .standard = MODEL_PROPAGATE},
    {.value = CHOICE("optimizer", optimizer, key_optimizers), .standard = MODEL_SGD},
    {.value = {FIELD("formula", VALUE_FLAG, torch), .words = key_formulas}, .optimizers = RATED},
    {.value = NUMBER("learning_rate", learning_rate, -VALUE_NUMBER_MAX, VALUE_NUMBER_MAX),
     .standard = 0.01,
     .optimizers = RATED,
     .tuned = true},
    {.value = COUNT_OFF("learning_rate_steps", VALUE_U64, learning_rate_steps, VALUE_WHOLE_MAX),
     .optimizers = RATED,
     .schedules = WITH_STEPS},
    {.value = CHOICE("schedule", schedule, key_schedules), .depends = key_schedule, .optimizers = RATED},
    {.value = NUMBER("learning_rate_end", learning_rate_end, -VALUE_NUMBER_MAX, VALUE_NUMBER_MAX),
     .optimizers = RATED,
     .schedules = WITH_END,
     .tuned = true},
    {.value = NUMBER("learning_rate_factor", learning_rate_factor, 0, VALUE_NUMBER_MAX),
     .standard = 0.94,
     .optimizers = RATED,
     .schedules = BIT(MODEL_EXPONENTIAL)},
    {.value = FLAG("staircase", staircase), .optimizers = RATED, .schedules = BIT(MODEL_EXPONENTIAL)},
    {.value = COUNT_OFF("warmup_steps", VALUE_U64, warmup_steps, VALUE_WHOLE_MAX), .optimizers = RATED},
    {.value = NUMBER("momentum", momentum, 0, 1),
     .depends = key_momentum,
     .optimizers = BIT(MODEL_MOMENTUM) | BIT(MODEL_NESTEROV) | BIT(MODEL_RMSPROP),
     .tuned = true},
    {.value = NUMBER("rho", rho, 0, 1), .depends = key_rho, .optimizers = BIT(MODEL_RMSPROP), .tuned = true},
    {.value = NUMBER_BELOW("beta1", beta1, 1), .standard = 0.9, .optimizers = ADAMS, .tuned = true},
    {.value = NUMBER_BELOW("beta2", beta2, 1), .standard = 0.999, .optimizers = ADAMS, .tuned = true},
    {.value = NUMBER("epsilon", epsilon, 0, VALUE_NUMBER_MAX),
     .depends = key_epsilon,
     .optimizers = BIT(MODEL_ADAGRAD) | BIT(MODEL_RMSPROP) | ADAMS,
     .used = key_epsilon_used,
     .needs = "formula to torch",
     .tuned = true},
    {.value = NUMBER("initial_accumulator", initial_accumulator, 0, VALUE_NUMBER_MAX),
     .depends = key_accumulator,
     .optimizers = BIT(MODEL_ADAGRAD)},
    {.value = NUMBER("weight_decay", weight_decay, 0, VALUE_NUMBER_MAX),
     .standard = 0.01,
     .optimizers = BIT(MODEL_ADAMW),
     .tuned = true},
    {.value = NUMBER_OFF("l2_decay", l2_decay), .optimizers = RATED, .tuned = true},
    {.value = NUMBER_OFF("clip_norm", clip_norm), .tuned = true, .started = true},
    {.value = NUMBER_OFF("clip_global_norm", clip_global_norm),
     .updates = TOGETHER,
     .tuned = true,
     .started = true},
    {.value = NUMBER_OFF("clip_value", clip_value), .tuned = true, .started = true},
    {.value = {FIELD("average_decay", VALUE_F64, average_decay), .high = 1, .below = true, .off = true},
     .optimizers = RATED,
     .tuned = true,
     .started = true},
    {.value = FLAG("average_by_step", average_by_step),
     .optimizers = RATED,
     .used = key_average_used,
     .needs = "average_decay"},
};

#undef FIELD
#define FIELD(text, type, field)                                                                             \
    .name = (text), .kind = (type), .offset = offsetof(struct model_variable, field)

static const struct option options[] = {
    {.value = CHOICE("gradient_dtype", gradient_dtype, key_dtypes), .kinds = OPTIMIZED},
    {.value = COUNT("rows_max", VALUE_U64, rows_max, 1, VALUE_WHOLE_MAX), .kinds = BIT(STEPGATE_SPARSE)},
    {.value = CHOICE("row_mean", row_mean, key_row_means), .kinds = BIT(STEPGATE_SPARSE)},
    {.value = CHOICE("assign", assign, key_assigns), .kinds = BIT(STEPGATE_ASSIGNED)},
    {.value = {FIELD("learning_rate_scale", VALUE_F64, learning_rate_scale), .high = VALUE_NUMBER_MAX},
     .kinds = OPTIMIZED,
     .optimizers = RATED},
    {.value = {FIELD("decays", VALUE_FLAG, decays), .words = key_answers},
     .kinds = OPTIMIZED,
     .optimizers = RATED},
    {.value = {FIELD("frozen", VALUE_FLAG, frozen), .words = key_answers}, .kinds = OPTIMIZED},
    {.value = {FIELD("average", VALUE_FLAG, average), .words = key_answers},
     .kinds = OPTIMIZED,
     .optimizers = RATED},
};

static_assert(sizeof(keys) / sizeof(keys[0]) <= KEY_MAX, "a set of keys is one number");
static_assert(sizeof(options) / sizeof(options[0]) <= 32, "a set of options is one number");

/* key_count -- of all models. */
size_t key_count(void)
{
    return sizeof(keys) / sizeof(keys[0]);
}

/* key_at -- by number. */
const struct key *key_at(size_t number)
{
    return number < key_count() ? &keys[number] : NULL;
}

/* key_find -- by name. */
int key_find(const char *name)
{
    for (size_t i = 0; i < key_count(); i++)
        if (strcmp(keys[i].value.name, name) == 0)
            return (int)i;
    return -1;
}

/* key_default -- what holds without the key. */
double key_default(const struct key *key, const struct model *model)
{
    return key->depends != NULL ? key->depends(model) : key->standard;
}

/* key_list -- the words of a set. */
static void key_list(const char *const *words, unsigned bits, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (unsigned i = 1; words[i - 1] != NULL; i++) {
        if ((bits & BIT(i)) == 0)
            continue;
        bool last = bits >> (i + 1) == 0;
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 used == 0 ? ""
                                 : last    ? " or "
                                           : ", ",
                                 words[i - 1]);
        if (used >= size)
            return;
    }
}

/* key_excluded -- the number of `what` is not one that uses the key. */
static bool key_excluded(unsigned users, int number, const char *what, const char *const *words, char *why,
                         char *remedy, size_t size)
{
    char list[128];

    if (users == 0 || (users & BIT(number)) != 0)
        return false;
    key_list(words, users, list, sizeof(list));
    snprintf(why, size, "the %s is %s", what, value_word(words, number));
    snprintf(remedy, size, "set %s to %s", what, list);
    return true;
}

/* key_unused -- why the model does not use the key. */
bool key_unused(const struct key *key, const struct model *model, char *why, char *remedy, size_t size)
{
    if (key_excluded(key->updates, model->update, "update", key_updates, why, remedy, size) ||
        key_excluded(key->optimizers, model->optimizer, "optimizer", key_optimizers, why, remedy, size) ||
        key_excluded(key->schedules, model->schedule, "schedule", key_schedules, why, remedy, size))
        return true;
    if (key->used == NULL || key->used(model))
        return false;
    snprintf(why, size, "without %s nothing uses it", key->needs);
    snprintf(remedy, size, "set %s", key->needs);
    return true;
}

/* option_count -- of all variables. */
size_t option_count(void)
{
    return sizeof(options) / sizeof(options[0]);
}

/* option_at -- by number. */
const struct option *option_at(size_t number)
{
    return number < option_count() ? &options[number] : NULL;
}

/* option_find -- by name. */
int option_find(const char *name)
{
    for (size_t i = 0; i < option_count(); i++)
        if (strcmp(options[i].value.name, name) == 0)
            return (int)i;
    return -1;
}

/* option_default -- what holds of this variable without the option. */
double option_default(const struct option *option, const struct model *model, const struct model_variable *v)
{
    bool optimized = (OPTIMIZED & BIT(v->kind)) != 0;

    switch (option->value.offset) {
    case offsetof(struct model_variable, gradient_dtype): return v->dtype;
    case offsetof(struct model_variable, row_mean):
        return v->kind == STEPGATE_SPARSE ? MODEL_ROW_MEAN_ROWS : 0;
    case offsetof(struct model_variable, assign): return v->kind == STEPGATE_ASSIGNED ? MODEL_ASSIGN_MEAN : 0;
    case offsetof(struct model_variable, learning_rate_scale): return 1;
    case offsetof(struct model_variable, decays): return optimized;
    case offsetof(struct model_variable, average): return optimized && model->average_decay > 0;
    default: /* rows_max, frozen */ return 0;
    }
}

/* option_used -- does the variable have the option? */
bool option_used(const struct option *option, const struct model *model, const struct model_variable *v)
{
    return (option->kinds & BIT(v->kind)) != 0 &&
           (option->optimizers == 0 || (option->optimizers & BIT(model->optimizer)) != 0);
}
