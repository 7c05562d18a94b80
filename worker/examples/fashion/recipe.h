/* SPDX-License-Identifier: BSD-3-Clause */
/* What a model is told: when a step is taken, and what is done with the mean gradient. */
#ifndef FASHION_RECIPE_H
#define FASHION_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/examples/fashion/dtype.h"
#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/schedule.h"

enum recipe_update { RECIPE_STRICT, RECIPE_TF, RECIPE_ASYNC, RECIPE_BOUNDED };
enum recipe_optimizer {
    RECIPE_NONE, /* the mean itself is what a pull gives; the trainer applies it as SGD would */
    RECIPE_SGD,
    RECIPE_MOMENTUM,
    RECIPE_NESTEROV,
    RECIPE_ADAGRAD,
    RECIPE_RMSPROP,
    RECIPE_ADAM,
    RECIPE_ADAMW
};
enum recipe_formula { RECIPE_FORMULA_TF, RECIPE_FORMULA_TORCH };
enum recipe_non_finite { RECIPE_PROPAGATE, RECIPE_DROP, RECIPE_FAIL, RECIPE_SKIP };

#define RECIPE_NO_TOKENS UINT64_MAX /* nothing was said of initial tokens */

/* Of the numbers of the optimizer NAN means: not given. */
struct recipe {
    enum recipe_update update;
    uint64_t bound;          /* bounded */
    uint64_t replicas;       /* contributions of a step; 0 = one of each worker */
    uint64_t initial_tokens; /* tf; RECIPE_NO_TOKENS */
    enum recipe_non_finite non_finite;
    enum dtype dtype; /* of parameters and gradients */
    enum recipe_optimizer optimizer;
    enum recipe_formula formula;
    struct schedule schedule;
    double momentum;
    double rho;
    double epsilon;
    double beta1;
    double beta2;
    double weight_decay;
    double l2_decay;         /* 0 = off, as all that follow */
    double average_decay;    /* of moving averages that the step drives */
    double clip_global_norm; /* of the mean */
    double clip_norm;        /* of each worker's gradient */
    double clip_value;       /* of each element of the mean */
    uint64_t seed;           /* of the initial values */
    uint64_t steps;          /* of the whole run; nothing that a model is told */
};

/* recipe_read_update -- from strict, tf, async or bounded:S; false: it is something else */
bool recipe_read_update(const char *text, struct recipe *recipe);

/* recipe_check -- refuse what makes no sense, then give each number that the optimizer uses and that was not
 * given its usual value, and others 0 */
int recipe_check(struct recipe *recipe, struct fault *fault);

/* recipe_check_workers -- whether it fits so many workers; single: one process with as many parts instead */
int recipe_check_workers(const struct recipe *recipe, unsigned workers, bool single, struct fault *fault);

/* recipe_replicas -- contributions of a step; 1 where each is applied alone */
unsigned recipe_replicas(const struct recipe *recipe, unsigned workers);

/* recipe_is_alone -- each contribution is applied alone */
bool recipe_is_alone(const struct recipe *recipe);

/* recipe_is_lockstep -- every contribution is part of the step it was computed in */
bool recipe_is_lockstep(const struct recipe *recipe, unsigned workers);

/* recipe_uses_... -- whether the optimizer has such a number */
bool recipe_uses_momentum(const struct recipe *recipe);
bool recipe_uses_epsilon(const struct recipe *recipe);
bool recipe_uses_betas(const struct recipe *recipe);

/* recipe_..._name -- as the command line, the keys of a model and the result call them */
const char *recipe_update_name(enum recipe_update update);
const char *recipe_optimizer_name(enum recipe_optimizer optimizer);
const char *recipe_formula_name(enum recipe_formula formula);
const char *recipe_non_finite_name(enum recipe_non_finite non_finite);

/* Their names in the order of the enums, for the command line. */
#define RECIPE_OPTIMIZERS "none|sgd|momentum|nesterov|adagrad|rmsprop|adam|adamw"
#define RECIPE_FORMULAS "tf|torch"
#define RECIPE_NON_FINITES "propagate|drop|fail|skip"

#endif
