/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/recipe.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "worker/examples/fashion/text.h"

/* recipe_update_name -- as the command line, the keys of a model and the result call it */
const char *recipe_update_name(enum recipe_update update)
{
    static const char *const names[] = {"strict", "tf", "async", "bounded"};
    return names[update];
}

/* recipe_optimizer_name -- likewise */
const char *recipe_optimizer_name(enum recipe_optimizer optimizer)
{
    static const char *const names[] = {"none",    "sgd",     "momentum", "nesterov",
                                        "adagrad", "rmsprop", "adam",     "adamw"};
    return names[optimizer];
}

/* recipe_formula_name -- likewise */
const char *recipe_formula_name(enum recipe_formula formula)
{
    return formula == RECIPE_FORMULA_TORCH ? "torch" : "tf";
}

/* recipe_non_finite_name -- likewise */
const char *recipe_non_finite_name(enum recipe_non_finite non_finite)
{
    static const char *const names[] = {"propagate", "drop", "fail", "skip"};
    return names[non_finite];
}

/* recipe_read_update -- from a text */
bool recipe_read_update(const char *text, struct recipe *recipe)
{
    char name[TEXT_FIELD_BYTES], bound[TEXT_FIELD_BYTES];
    uint64_t most = 0;
    if (!text_field(&text, name))
        return false;
    bool bounded = strcmp(name, recipe_update_name(RECIPE_BOUNDED)) == 0;
    if (bounded && (!text_field(&text, bound) || !text_count(bound, &most) || most > UINT32_MAX))
        return false;
    for (int update = RECIPE_STRICT; text == NULL && update <= RECIPE_BOUNDED; update++)
        if (strcmp(name, recipe_update_name((enum recipe_update)update)) == 0) {
            recipe->update = (enum recipe_update)update;
            recipe->bound = most;
            return true;
        }
    return false;
}

/* recipe_is_alone -- each contribution is applied alone */
bool recipe_is_alone(const struct recipe *recipe)
{
    return recipe->update == RECIPE_ASYNC || recipe->update == RECIPE_BOUNDED;
}

/* recipe_replicas -- contributions of a step */
unsigned recipe_replicas(const struct recipe *recipe, unsigned workers)
{
    if (recipe_is_alone(recipe))
        return 1;
    return recipe->replicas != 0 ? (unsigned)recipe->replicas : workers;
}

/* recipe_is_lockstep -- every contribution is part of the step it was computed in */
bool recipe_is_lockstep(const struct recipe *recipe, unsigned workers)
{
    return recipe->update == RECIPE_STRICT && recipe_replicas(recipe, workers) >= workers;
}

/* recipe_uses_momentum -- whether the optimizer has such a number */
bool recipe_uses_momentum(const struct recipe *recipe)
{
    return recipe->optimizer == RECIPE_MOMENTUM || recipe->optimizer == RECIPE_NESTEROV ||
           recipe->optimizer == RECIPE_RMSPROP;
}

/* recipe_uses_betas -- likewise */
bool recipe_uses_betas(const struct recipe *recipe)
{
    return recipe->optimizer == RECIPE_ADAM || recipe->optimizer == RECIPE_ADAMW;
}

/* recipe_uses_epsilon -- TensorFlow's Adagrad has none */
bool recipe_uses_epsilon(const struct recipe *recipe)
{
    return recipe->optimizer == RECIPE_RMSPROP || recipe_uses_betas(recipe) ||
           (recipe->optimizer == RECIPE_ADAGRAD && recipe->formula == RECIPE_FORMULA_TORCH);
}

/* recipe_rate -- the usual first rate of an optimizer */
static double recipe_rate(enum recipe_optimizer optimizer)
{
    switch (optimizer) {
    case RECIPE_ADAGRAD: return 0.01;
    case RECIPE_RMSPROP:
    case RECIPE_ADAM:
    case RECIPE_ADAMW: return 0.001;
    default: return 0.05;
    }
}

/* recipe_epsilon -- what it is unless told */
static double recipe_epsilon(const struct recipe *recipe)
{
    bool torch = recipe->formula == RECIPE_FORMULA_TORCH;
    if (recipe->optimizer == RECIPE_ADAGRAD || (recipe->optimizer == RECIPE_RMSPROP && !torch))
        return 1e-10;
    return 1e-8;
}

/* recipe_number -- a number of the optimizer: refused if it was given and is not used, else what it is unless
 * told */
static int recipe_number(const struct recipe *recipe, const char *flag, bool used, const char *users,
                         double usual, double *number, struct fault *fault)
{
    if (!isnan(*number) && !used)
        return fault_set(fault, FAULT_USAGE, "--%s is for %s, not for %s%s: leave it out", flag, users,
                         recipe_optimizer_name(recipe->optimizer),
                         recipe->optimizer == RECIPE_ADAGRAD ? " of tf" : "");
    if (isnan(*number))
        *number = used ? usual : 0.0;
    return 0;
}

/* recipe_check_optimizer -- its numbers */
static int recipe_check_optimizer(struct recipe *recipe, struct fault *fault)
{
    bool torch = recipe->formula == RECIPE_FORMULA_TORCH, rmsprop = recipe->optimizer == RECIPE_RMSPROP;
    bool betas = recipe_uses_betas(recipe);
    if (recipe_number(recipe, "momentum", recipe_uses_momentum(recipe),
                      "the optimizers momentum, nesterov and rmsprop", rmsprop ? 0.0 : 0.9, &recipe->momentum,
                      fault) < 0 ||
        recipe_number(recipe, "rho", rmsprop, "the optimizer rmsprop", torch ? 0.99 : 0.9, &recipe->rho,
                      fault) < 0 ||
        recipe_number(recipe, "beta1", betas, "the optimizers adam and adamw", 0.9, &recipe->beta1, fault) <
            0 ||
        recipe_number(recipe, "beta2", betas, "the optimizers adam and adamw", 0.999, &recipe->beta2, fault) <
            0 ||
        recipe_number(recipe, "epsilon", recipe_uses_epsilon(recipe),
                      "the optimizers rmsprop, adam, adamw and adagrad of torch", recipe_epsilon(recipe),
                      &recipe->epsilon, fault) < 0 ||
        recipe_number(recipe, "weight-decay", recipe->optimizer == RECIPE_ADAMW, "the optimizer adamw", 0.01,
                      &recipe->weight_decay, fault) < 0)
        return -1;
    if (isnan(recipe->schedule.rate))
        recipe->schedule.rate = recipe_rate(recipe->optimizer);
    return 0;
}

/* recipe_check_none -- what the trainer, which is the optimizer then, can't do */
static int recipe_check_none(const struct recipe *recipe, struct fault *fault)
{
    if (recipe->update != RECIPE_STRICT)
        return fault_set(
            fault, FAULT_USAGE,
            "--optimizer none needs the mean of every step, which --update %s does not give: use "
            "--update strict",
            recipe_update_name(recipe->update));
    if (recipe->formula != RECIPE_FORMULA_TF || recipe->l2_decay > 0.0 || recipe->average_decay > 0.0)
        return fault_set(fault, FAULT_USAGE,
                         "--optimizer none has no formula, no decay and no averages: leave out --%s",
                         recipe->formula != RECIPE_FORMULA_TF ? "formula"
                         : recipe->l2_decay > 0.0             ? "l2-decay"
                                                              : "ema");
    if (recipe->dtype != DTYPE_F32)
        return fault_set(
            fault, FAULT_USAGE,
            "--optimizer none keeps parameters of its own, in f32: leave out --dtype %s, or choose "
            "an optimizer",
            dtype_name(recipe->dtype));
    if (recipe->non_finite == RECIPE_DROP || recipe->non_finite == RECIPE_SKIP)
        return fault_set(fault, FAULT_USAGE,
                         "--optimizer none can't tell a mean that was left out from one before: use "
                         "--non-finite fail, or leave --non-finite out");
    return 0;
}

/* recipe_check -- refuse what makes no sense, then fill in */
int recipe_check(struct recipe *recipe, struct fault *fault)
{
    const char *update = recipe_update_name(recipe->update);
    if (recipe_is_alone(recipe) && recipe->replicas != 0)
        return fault_set(fault, FAULT_USAGE,
                         "--update %s applies each contribution alone: leave out --replicas-to-aggregate",
                         update);
    if (recipe_is_alone(recipe) && recipe->clip_global_norm > 0.0)
        return fault_set(
            fault, FAULT_USAGE,
            "--clip-norm is for the mean of a step, and --update %s has none: use --clip-worker-norm",
            update);
    if (recipe->update != RECIPE_TF && recipe->initial_tokens != RECIPE_NO_TOKENS)
        return fault_set(fault, FAULT_USAGE,
                         "--initial-tokens is for --update tf: leave it out, or add --update tf");
    if (recipe->optimizer == RECIPE_NONE && recipe_check_none(recipe, fault) < 0)
        return -1;
    return recipe_check_optimizer(recipe, fault);
}

/* recipe_check_single -- one process has everybody's gradients at once */
static int recipe_check_single(const struct recipe *recipe, unsigned parts, struct fault *fault)
{
    if (recipe->update != RECIPE_STRICT)
        return fault_set(fault, FAULT_USAGE,
                         "--single computes what --update strict does; with %s it depends on who comes "
                         "first: leave out --update, or --single",
                         recipe_update_name(recipe->update));
    if (recipe_replicas(recipe, parts) < parts)
        return fault_set(fault, FAULT_USAGE,
                         "--single can't know which %" PRIu64 " of %u workers come first: give "
                         "--replicas-to-aggregate %u or more, or leave it out",
                         recipe->replicas, parts, parts);
    return 0;
}

/* recipe_check_workers -- whether it fits so many workers */
int recipe_check_workers(const struct recipe *recipe, unsigned workers, bool single, struct fault *fault)
{
    if (single)
        return recipe_check_single(recipe, workers, fault);
    if (recipe->optimizer == RECIPE_NONE && recipe_replicas(recipe, workers) < workers)
        return fault_set(fault, FAULT_USAGE,
                         "--optimizer none: a worker that comes too late misses a mean: give "
                         "--replicas-to-aggregate %u or more, or choose an optimizer",
                         workers);
    return 0;
}
