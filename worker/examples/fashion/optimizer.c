/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/optimizer.h"

#include <math.h>

/* optimizer_start -- before the first update */
struct optimizer optimizer_start(const struct recipe *recipe)
{
    return (struct optimizer){
        .recipe = recipe,
        .beta1_power = (float)recipe->beta1,
        .beta2_power = (float)recipe->beta2,
    };
}

/* optimizer_next -- an update was made */
void optimizer_next(struct optimizer *optimizer)
{
    optimizer->beta1_power *= (float)optimizer->recipe->beta1;
    optimizer->beta2_power *= (float)optimizer->recipe->beta2;
    optimizer->updates++;
}

/* optimizer_is_adam -- with or without a decay of its own */
static bool optimizer_is_adam(const struct recipe *recipe)
{
    return recipe->optimizer == RECIPE_ADAM || recipe->optimizer == RECIPE_ADAMW;
}

/* optimizer_correct -- Adam's correction of the averages, which start at zero */
static void optimizer_correct(const struct optimizer *optimizer, struct optimizer_scalars *out)
{
    const struct recipe *recipe = optimizer->recipe;
    if (recipe->formula == RECIPE_FORMULA_TORCH) {
        double rate = (double)out->rate, t = (double)optimizer->updates + 1.0;
        out->alpha = (float)(rate / (1.0 - pow(recipe->beta1, t)));
        out->root = (float)sqrt(1.0 - pow(recipe->beta2, t));
    } else {
        out->alpha = out->rate * sqrtf(1.0F - optimizer->beta2_power) / (1.0F - optimizer->beta1_power);
    }
}

/* optimizer_rest -- 1 - x: TensorFlow subtracts what is f32 already */
static float optimizer_rest(const struct recipe *recipe, double x)
{
    return recipe->formula == RECIPE_FORMULA_TORCH ? (float)(1.0 - x) : 1.0F - (float)x;
}

/* optimizer_at -- the numbers of the next update */
struct optimizer_scalars optimizer_at(const struct optimizer *optimizer, uint64_t step)
{
    const struct recipe *recipe = optimizer->recipe;
    struct optimizer_scalars scalars = {
        .rate = schedule_rate(&recipe->schedule, step),
        .momentum = (float)recipe->momentum,
        .rho = (float)recipe->rho,
        .one_minus_rho = optimizer_rest(recipe, recipe->rho),
        .beta2 = (float)recipe->beta2,
        .one_minus_beta1 = optimizer_rest(recipe, recipe->beta1),
        .one_minus_beta2 = optimizer_rest(recipe, recipe->beta2),
        .epsilon = (float)recipe->epsilon,
    };
    if (optimizer_is_adam(recipe))
        optimizer_correct(optimizer, &scalars);
    if (recipe->optimizer == RECIPE_ADAMW)
        scalars.decay = recipe->formula == RECIPE_FORMULA_TORCH
                            ? (float)((double)scalars.rate * recipe->weight_decay)
                            : scalars.rate * (float)recipe->weight_decay;
    return scalars;
}

/* optimizer_initial -- only TensorFlow's Adagrad and RMSProp don't start at zero */
float optimizer_initial(const struct recipe *recipe, unsigned slot)
{
    if (recipe->formula == RECIPE_FORMULA_TF && recipe->optimizer == RECIPE_ADAGRAD && slot == 0)
        return 0.1F;
    if (recipe->formula == RECIPE_FORMULA_TF && recipe->optimizer == RECIPE_RMSPROP && slot == 1)
        return 1.0F;
    return 0.0F;
}

/* optimizer_sgd -- see the header, as for all that follow */
static void optimizer_sgd(const struct optimizer_scalars *o, const float *g, float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float change = o->rate * g[i];
        v[i] = v[i] - change;
    }
}

/* optimizer_momentum */
static void optimizer_momentum(const struct optimizer_scalars *o, const float *g, float *v, float *a,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float kept = o->momentum * a[i];
        a[i] = kept + g[i];
        float change = o->rate * a[i];
        v[i] = v[i] - change;
    }
}

/* optimizer_nesterov -- the change is computed in f64. */
static void optimizer_nesterov(const struct optimizer_scalars *o, const float *g, float *v, float *a,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float kept = o->momentum * a[i];
        a[i] = kept + g[i];
        double ahead = (double)g[i] + (double)o->momentum * (double)a[i];
        v[i] = (float)((double)v[i] - (double)o->rate * ahead);
    }
}

/* optimizer_adagrad */
static void optimizer_adagrad(const struct optimizer_scalars *o, bool torch, const float *g, float *v,
                              float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float square = g[i] * g[i];
        a[i] = a[i] + square;
        float root = sqrtf(a[i]);
        float change;
        if (torch) {
            float below = root + o->epsilon;
            float quotient = g[i] / below;
            change = o->rate * quotient;
        } else {
            float above = o->rate * g[i];
            change = above / root;
        }
        v[i] = v[i] - change;
    }
}

/* optimizer_rmsprop_tf */
static void optimizer_rmsprop_tf(const struct optimizer_scalars *o, const float *g, float *v, float *a,
                                 float *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float square = g[i] * g[i];
        float apart = square - s[i];
        float nearer = apart * o->one_minus_rho;
        s[i] = s[i] + nearer;
        float inside = s[i] + o->epsilon;
        float above = o->rate * g[i];
        float quotient = above / sqrtf(inside);
        float kept = o->momentum * a[i];
        a[i] = kept + quotient;
        v[i] = v[i] - a[i];
    }
}

/* optimizer_rmsprop_torch */
static void optimizer_rmsprop_torch(const struct optimizer_scalars *o, const float *g, float *v, float *a,
                                    float *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float square = g[i] * g[i];
        float old = o->rho * s[i];
        float fresh = o->one_minus_rho * square;
        s[i] = old + fresh;
        float below = sqrtf(s[i]) + o->epsilon;
        float quotient = g[i] / below;
        if (o->momentum != 0.0F) {
            float kept = o->momentum * a[i];
            quotient = a[i] = kept + quotient;
        }
        float change = o->rate * quotient;
        v[i] = v[i] - change;
    }
}

/* optimizer_adam_tf */
static void optimizer_adam_tf(const struct optimizer_scalars *o, const float *g, float *v, float *a, float *s,
                              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float apart = g[i] - a[i];
        float nearer = apart * o->one_minus_beta1;
        a[i] = a[i] + nearer;
        float square = g[i] * g[i];
        float square_apart = square - s[i];
        float square_nearer = square_apart * o->one_minus_beta2;
        s[i] = s[i] + square_nearer;
        float above = a[i] * o->alpha;
        float below = sqrtf(s[i]) + o->epsilon;
        float change = above / below;
        v[i] = v[i] - change;
    }
}

/* optimizer_adam_torch */
static void optimizer_adam_torch(const struct optimizer_scalars *o, const float *g, float *v, float *a,
                                 float *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float apart = g[i] - a[i];
        float nearer = o->one_minus_beta1 * apart;
        a[i] = a[i] + nearer;
        float square = g[i] * g[i];
        float old = o->beta2 * s[i];
        float fresh = o->one_minus_beta2 * square;
        s[i] = old + fresh;
        float root = sqrtf(s[i]) / o->root;
        float below = root + o->epsilon;
        float quotient = a[i] / below;
        float change = o->alpha * quotient;
        v[i] = v[i] - change;
    }
}

/* optimizer_decay -- v -= decay*v */
static void optimizer_decay(const struct optimizer_scalars *o, float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float change = o->decay * v[i];
        v[i] = v[i] - change;
    }
}

/* optimizer_apply -- one update of n elements */
void optimizer_apply(const struct recipe *recipe, const struct optimizer_scalars *scalars, const float *g,
                     float *v, float *a, float *s, size_t n)
{
    bool torch = recipe->formula == RECIPE_FORMULA_TORCH;
    if (recipe->optimizer == RECIPE_ADAMW && scalars->decay != 0.0F)
        optimizer_decay(scalars, v, n);
    switch (recipe->optimizer) {
    case RECIPE_NONE: /* the mean is what counts; whoever trains applies it as SGD does */
    case RECIPE_SGD: optimizer_sgd(scalars, g, v, n); break;
    case RECIPE_MOMENTUM: optimizer_momentum(scalars, g, v, a, n); break;
    case RECIPE_NESTEROV: optimizer_nesterov(scalars, g, v, a, n); break;
    case RECIPE_ADAGRAD: optimizer_adagrad(scalars, torch, g, v, a, n); break;
    case RECIPE_RMSPROP:
        if (torch)
            optimizer_rmsprop_torch(scalars, g, v, a, s, n);
        else
            optimizer_rmsprop_tf(scalars, g, v, a, s, n);
        break;
    case RECIPE_ADAM:
    case RECIPE_ADAMW:
        if (torch)
            optimizer_adam_torch(scalars, g, v, a, s, n);
        else
            optimizer_adam_tf(scalars, g, v, a, s, n);
        break;
    }
}
