/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/shape.h"

#include <stdio.h>
#include <string.h>

#include "tests/simulation/plain.h"
#include "transport/base/error.h"

static const char *const shape_modes[SHAPE_MODES] = {"equal", "fewer", "more", "tf", "async", "bounded"};
static const char *const shape_dtypes[] = {"", "f32", "f64", "f16", "bf16"};

/* shape_mode_name -- see the header. */
const char *shape_mode_name(int mode)
{
    return shape_modes[mode];
}

/* shape_quota -- R / T each, the rest to the first ones. */
uint32_t shape_quota(const struct shape *shape, uint32_t rank)
{
    if (shape->mode != SHAPE_MORE)
        return 1;
    return shape->replicas / shape->workers + (rank < shape->replicas % shape->workers);
}

/* shape_mix -- see the header. */
uint64_t shape_mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t z = seed + a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xbf58476d1ce4e5b9) +
                 c * UINT64_C(0x94d049bb133111eb) + d * UINT64_C(0xd6e8feb86659fd93);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* shape_unit -- 24 bits. */
double shape_unit(uint64_t bits)
{
    return (double)((int32_t)(bits >> 32) >> 8) / 8388608.0;
}

/* shape_initial -- see the header. */
void shape_initial(const struct shape *shape, uint32_t variable, void *out)
{
    const struct shape_variable *v = &shape->variable[variable];

    for (uint64_t i = 0; i < v->elements; i++)
        plain_put(v->dtype, out, i, shape_unit(shape_mix(shape->seed, 1, variable, i, 0)));
}

/* shape_pick -- one of a list. */
static uint64_t shape_pick(struct random_source *random, const uint64_t *list, size_t count)
{
    return list[random_below(random, count)];
}
#define SHAPE_PICK(random, ...)                                                                              \
    shape_pick(random, (const uint64_t[]){__VA_ARGS__},                                                      \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* shape_draw_mode -- who is there, and how a step comes about. */
static void shape_draw_mode(struct shape *s, struct random_source *random, int mode)
{
    static const int often[] = {SHAPE_EQUAL, SHAPE_EQUAL, SHAPE_EQUAL, SHAPE_FEWER, SHAPE_FEWER,
                                SHAPE_MORE,  SHAPE_TF,    SHAPE_TF,    SHAPE_ASYNC, SHAPE_BOUNDED};

    s->mode = mode >= 0 ? mode : often[random_below(random, sizeof(often) / sizeof(often[0]))];
    s->workers = 1 + (uint32_t)random_below(random, s->small ? 6 : 4);
    s->steps = 3 + (uint32_t)random_below(random, 7);
    s->replicas = s->workers;
    switch (s->mode) {
    case SHAPE_FEWER:
        s->workers = 2 + (uint32_t)random_below(random, 3);
        s->replicas = 1 + (uint32_t)random_below(random, s->workers - 1);
        break;
    case SHAPE_MORE: s->replicas += 1 + (uint32_t)random_below(random, 2 * s->workers); break;
    case SHAPE_TF: {
        s->replicas = 1 + (uint32_t)random_below(random, 6);
        uint32_t least = s->replicas > s->workers ? s->replicas - s->workers : 0;
        s->tokens = random_chance(random, 300)
                        ? s->replicas
                        : least + (uint32_t)random_below(random, s->replicas - least + 3);
        break;
    }
    case SHAPE_ASYNC:
    case SHAPE_BOUNDED:
        s->replicas = 1;
        s->steps = 4 + (uint32_t)random_below(random, 16);
        s->bound = (uint32_t)random_below(random, 4);
        break;
    default: break;
    }
}

/* shape_draw_rule -- the optimizer and its numbers. */
static void shape_draw_rule(struct shape *s, struct random_source *random)
{
    static const int rules[] = {MODEL_SGD,     MODEL_SGD,     MODEL_MOMENTUM, MODEL_NESTEROV,
                                MODEL_ADAGRAD, MODEL_RMSPROP, MODEL_RMSPROP,  MODEL_ADAM,
                                MODEL_ADAM,    MODEL_ADAMW,   MODEL_NONE};

    s->optimizer = s->small ? MODEL_SGD : rules[random_below(random, sizeof(rules) / sizeof(rules[0]))];
    if (s->optimizer == MODEL_NONE && shape_alone(s))
        s->optimizer = MODEL_SGD;
    bool rated = s->optimizer != MODEL_NONE && !s->small,
         adam = s->optimizer == MODEL_ADAM || s->optimizer == MODEL_ADAMW;
    s->torch = rated && random_chance(random, 400);
    s->rate = 0.25;
    s->momentum = s->optimizer == MODEL_RMSPROP && random_chance(random, 500) ? 0 : 0.5;
    s->rho = 0.75;
    s->beta1 = adam ? 0.8 : 0.9;
    s->beta2 = adam ? 0.95 : 0.999;
    s->epsilon = 0.125;
    s->accumulator = s->torch ? 0 : 0.5;
    s->weight_decay = 0.03;
    s->l2 = rated && random_chance(random, 300) ? 0.02 : 0;
    s->schedule = MODEL_CONSTANT;
    if (rated && random_chance(random, 500))
        s->schedule = MODEL_LINEAR + (int)random_below(random, 3);
    s->rate_steps = s->schedule == MODEL_CONSTANT ? 0 : 2 + random_below(random, 6);
    s->rate_end = 0.0625;
    s->rate_factor = 0.9;
    s->staircase = random_chance(random, 500);
    s->warmup = rated && random_chance(random, 200) ? 1 + random_below(random, 4) : 0;
    s->average_decay = rated && random_chance(random, 350) ? 0.875 : 0;
    s->average_by_step = s->average_decay > 0 && random_chance(random, 500);
}

/* shape_draw_rest -- clipping, weights, what is missing, what is not finite. */
static void shape_draw_rest(struct shape *s, struct random_source *random)
{
    s->non_finite =
        random_chance(random, 450) ? MODEL_PROPAGATE : MODEL_PROPAGATE + 1 + (int)random_below(random, 3);
    s->abandon_per_mille = random_chance(random, 300) ? (random_chance(random, 200) ? 700 : 70) : 0;
    if (s->small) {
        s->non_finite = MODEL_PROPAGATE;
        return;
    }
    s->clip_value = random_chance(random, 150) ? 0.75 : 0;
    s->clip_norm = random_chance(random, 200) ? 8 : 0;
    s->clip_global_norm =
        !shape_alone(s) && random_chance(random, 250) ? (random_chance(random, 700) ? 4 : 1e6) : 0;
    s->weighted = random_chance(random, 300);
    s->absent_per_mille = random_chance(random, 300) ? 90 : 0;
    if (s->non_finite != MODEL_PROPAGATE)
        s->bad_per_mille = s->non_finite == MODEL_FAIL ? 15 : 80;
    else
        s->bad_per_mille = random_chance(random, 80) ? 20 : 0;
}

/* shape_draw_kind -- of one variable. */
static int shape_draw_kind(struct random_source *random)
{
    uint64_t kind = random_below(random, 100);

    if (kind < 60)
        return STEPGATE_TRAINED;
    return kind < 80 ? STEPGATE_SPARSE : kind < 90 ? STEPGATE_ASSIGNED : STEPGATE_AUX;
}

/* shape_draw_dtype -- f32 more often than the others. */
static int shape_draw_dtype(struct random_source *random)
{
    return (int)SHAPE_PICK(random, STEPGATE_F32, STEPGATE_F32, STEPGATE_F32, STEPGATE_F32, STEPGATE_F64,
                           STEPGATE_F16, STEPGATE_BF16);
}

/* shape_draw_variable -- one of them. The first one learns, so that no contribution is empty of gradients for want of variables. */
static void shape_draw_variable(const struct shape *s, struct random_source *random, struct shape_variable *v,
                                bool first)
{
    v->kind = first ? STEPGATE_TRAINED : shape_draw_kind(random);
    v->dtype = shape_draw_dtype(random);
    v->rank = v->kind == STEPGATE_SPARSE || random_chance(random, 200) ? 2 : 1;
    v->width = v->rank == 2 ? SHAPE_PICK(random, 1, 3, 16, 64) : 1;
    if (v->kind == STEPGATE_SPARSE)
        v->rows = SHAPE_PICK(random, 1, 5, 40, 300);
    else
        v->rows = SHAPE_PICK(random, 1, 7, 64, 1000, 4096, 9000, 20000) / v->width;
    v->rows = v->rows == 0 ? 1 : v->rows;
    v->rows_max = v->kind == STEPGATE_SPARSE ? 1 + random_below(random, v->rows < 40 ? v->rows : 40) : 0;
    v->gradient_dtype = v->dtype;
    bool learns = v->kind == STEPGATE_TRAINED || v->kind == STEPGATE_SPARSE;
    if (learns && random_chance(random, 250))
        v->gradient_dtype = (int)SHAPE_PICK(random, STEPGATE_F32, STEPGATE_F16, STEPGATE_BF16);
    v->frozen = learns && !first && random_chance(random, 120);
    v->rate_scale = learns && s->optimizer != MODEL_NONE && random_chance(random, 150) ? 0.3f : 1;
    v->decays = learns && !(s->optimizer != MODEL_NONE && random_chance(random, 250));
    v->average = learns && s->average_decay > 0 && !random_chance(random, 150);
    v->by_replicas = v->kind == STEPGATE_SPARSE && random_chance(random, 300);
    v->rank0 = v->kind == STEPGATE_ASSIGNED && random_chance(random, 400);
}

/* shape_draw_small -- the two variables of tf_model. */
static void shape_draw_small(struct shape *s)
{
    s->variables = 2;
    for (uint32_t i = 0; i < 2; i++)
        s->variable[i] = (struct shape_variable){.kind = i == 0 ? STEPGATE_TRAINED : STEPGATE_SPARSE,
                                                 .dtype = STEPGATE_F64,
                                                 .gradient_dtype = STEPGATE_F64,
                                                 .rank = i == 0 ? 1 : 2,
                                                 .rows = i == 0 ? 3 : 5,
                                                 .width = i == 0 ? 1 : 2,
                                                 .rows_max = i == 0 ? 0 : 5,
                                                 .rate_scale = 1,
                                                 .decays = true};
}

/* shape_draw -- see the header. */
void shape_draw(struct shape *s, struct random_source *random, int mode, bool small)
{
    memset(s, 0, sizeof(*s));
    s->seed = random_next(random);
    s->small = small;
    shape_draw_mode(s, random, mode);
    shape_draw_rule(s, random);
    shape_draw_rest(s, random);
    s->variables = 1 + (uint32_t)random_below(random, 5);
    for (uint32_t i = 0; !small && i < s->variables; i++)
        shape_draw_variable(s, random, &s->variable[i], i == 0);
    if (small)
        shape_draw_small(s);
    for (uint32_t i = 0; i < s->variables; i++)
        s->variable[i].elements = s->variable[i].rows * s->variable[i].width;
}

/* What is being declared; the first error stays. */
struct shape_keys {
    struct model *model;
    int id; /* of the variable, -1: the model's keys */
    int status;
};

/* shape_word -- a key with a word. */
static void shape_word(struct shape_keys *keys, const char *key, const char *word)
{
    if (keys->status < 0)
        return;
    keys->status = keys->id < 0 ? model_set(keys->model, key, word)
                                : model_variable_set(keys->model, (uint32_t)keys->id, key, word);
}

/* shape_number -- a key with a number. */
static void shape_number(struct shape_keys *keys, const char *key, double number)
{
    char text[64];

    snprintf(text, sizeof(text), "%.17g", number);
    shape_word(keys, key, text);
}

/* shape_declare_mode -- how a step comes about. */
static void shape_declare_mode(const struct shape *s, struct shape_keys *keys)
{
    static const char *const policies[] = {"", "propagate", "drop", "fail", "skip"};

    shape_word(keys, "update", s->mode < SHAPE_TF ? "strict" : shape_modes[s->mode]);
    shape_word(keys, "non_finite", policies[s->non_finite]);
    if (!shape_alone(s) && s->mode != SHAPE_EQUAL)
        shape_number(keys, "replicas_to_aggregate", s->replicas);
    if (s->mode == SHAPE_TF)
        shape_number(keys, "initial_tokens", s->tokens);
    if (s->mode == SHAPE_BOUNDED)
        shape_number(keys, "bound", s->bound);
    if (s->clip_value > 0)
        shape_number(keys, "clip_value", s->clip_value);
    if (s->clip_norm > 0)
        shape_number(keys, "clip_norm", s->clip_norm);
    if (s->clip_global_norm > 0)
        shape_number(keys, "clip_global_norm", s->clip_global_norm);
}

/* shape_declare_rule -- the optimizer; only what it uses may be set. */
static void shape_declare_rule(const struct shape *s, struct shape_keys *keys)
{
    static const char *const rules[] = {"",        "sgd",     "momentum", "none", "nesterov",
                                        "adagrad", "rmsprop", "adam",     "adamw"};
    bool adam = s->optimizer == MODEL_ADAM || s->optimizer == MODEL_ADAMW;

    shape_word(keys, "optimizer", rules[s->optimizer]);
    if (s->optimizer == MODEL_NONE)
        return;
    shape_word(keys, "formula", s->torch ? "torch" : "tf");
    shape_number(keys, "learning_rate", s->rate);
    if (s->optimizer == MODEL_MOMENTUM || s->optimizer == MODEL_NESTEROV || s->optimizer == MODEL_RMSPROP)
        shape_number(keys, "momentum", s->momentum);
    if (s->optimizer == MODEL_RMSPROP)
        shape_number(keys, "rho", s->rho);
    if (adam) {
        shape_number(keys, "beta1", s->beta1);
        shape_number(keys, "beta2", s->beta2);
    }
    if (adam || s->optimizer == MODEL_RMSPROP || (s->optimizer == MODEL_ADAGRAD && s->torch))
        shape_number(keys, "epsilon", s->epsilon);
    if (s->optimizer == MODEL_ADAGRAD)
        shape_number(keys, "initial_accumulator", s->accumulator);
    if (s->optimizer == MODEL_ADAMW)
        shape_number(keys, "weight_decay", s->weight_decay);
    if (s->l2 > 0)
        shape_number(keys, "l2_decay", s->l2);
    if (s->average_decay > 0) {
        shape_number(keys, "average_decay", s->average_decay);
        shape_word(keys, "average_by_step", s->average_by_step ? "yes" : "no");
    }
}

/* shape_declare_rate -- how the rate changes. */
static void shape_declare_rate(const struct shape *s, struct shape_keys *keys)
{
    static const char *const schedules[] = {"", "constant", "linear", "exponential", "cosine"};

    if (s->warmup > 0)
        shape_number(keys, "warmup_steps", (double)s->warmup);
    if (s->schedule == MODEL_CONSTANT)
        return;
    shape_word(keys, "schedule", schedules[s->schedule]);
    shape_number(keys, "learning_rate_steps", (double)s->rate_steps);
    if (s->schedule == MODEL_EXPONENTIAL) {
        shape_number(keys, "learning_rate_factor", s->rate_factor);
        shape_word(keys, "staircase", s->staircase ? "yes" : "no");
    } else {
        shape_number(keys, "learning_rate_end", s->rate_end);
    }
}

/* shape_declare_variable -- one, with what is not the default. */
static void shape_declare_variable(const struct shape *s, uint32_t i, struct shape_keys *keys)
{
    const struct shape_variable *v = &s->variable[i];
    const uint64_t dims[2] = {v->rows, v->width};
    char name[16];

    snprintf(name, sizeof(name), "v%u", i);
    if (keys->status < 0)
        return;
    keys->status = keys->id = model_add(keys->model, name, v->kind, v->dtype, v->rank, dims);
    if (v->gradient_dtype != v->dtype)
        shape_word(keys, "gradient_dtype", shape_dtypes[v->gradient_dtype]);
    if (v->rows_max > 0)
        shape_number(keys, "rows_max", (double)v->rows_max);
    if (v->by_replicas)
        shape_word(keys, "row_mean", "replicas");
    if (v->kind == STEPGATE_ASSIGNED)
        shape_word(keys, "assign", v->rank0 ? "rank0" : "mean");
    if (v->rate_scale != 1)
        shape_number(keys, "learning_rate_scale", (double)v->rate_scale);
    if (v->kind != STEPGATE_TRAINED && v->kind != STEPGATE_SPARSE)
        return;
    if (s->optimizer != MODEL_NONE && !v->decays)
        shape_word(keys, "decays", "no");
    if (v->frozen)
        shape_word(keys, "frozen", "yes");
    if (s->average_decay > 0 && !v->average)
        shape_word(keys, "average", "no");
}

/* shape_declare -- see the header. */
int shape_declare(const struct shape *s, struct model *model)
{
    struct shape_keys keys = {.model = model, .id = -1};

    shape_declare_mode(s, &keys);
    shape_declare_rule(s, &keys);
    shape_declare_rate(s, &keys);
    for (uint32_t i = 0; i < s->variables; i++)
        shape_declare_variable(s, i, &keys);
    return keys.status < 0 ? keys.status : 0;
}
