/* SPDX-License-Identifier: BSD-3-Clause */
/* How a mean gradient g changes a variable v: the optimizers of the reference, as plain loops in f32.
 * Each operation is rounded by itself, in the order written; roots and divisions are true ones. The
 * formulas are those of TensorFlow 1.x or, where they differ, of PyTorch.
 *
 *     sgd       v -= r*g
 *     momentum  a = m*a + g; v -= r*a
 *     nesterov  a = m*a + g; v -= r*g + (m*a)*r                        torch: v -= r*(g + m*a)
 *     adagrad   a += g*g; v -= (r*g)/sqrt(a)                           torch: v -= r*(g/(sqrt(a) + eps))
 *     rmsprop   s += (g*g - s)*(1-rho); a = m*a + (r*g)/sqrt(s + eps); v -= a
 *               torch: s = rho*s + (1-rho)*(g*g); q = g/(sqrt(s) + eps); without a momentum v -= r*q,
 *               with one a = m*a + q; v -= r*a
 *     adam      a += (g - a)*(1-beta1); s += (g*g - s)*(1-beta2); v -= (a*alpha)/(sqrt(s) + eps)
 *               torch: a += (1-beta1)*(g - a); s = beta2*s + (1-beta2)*(g*g);
 *               v -= alpha*(a/(sqrt(s)/root + eps))
 *     adamw     v -= decay*v, then adam */
#ifndef FASHION_OPTIMIZER_H
#define FASHION_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/recipe.h"

/* optimizer -- the numbers of a run, and what goes on from update to update */
struct optimizer {
    const struct recipe *recipe;
    float beta1_power; /* TensorFlow's visible slots: beta1^t and beta2^t of the update to come */
    float beta2_power;
    uint64_t updates; /* made so far */
};

/* optimizer_scalars -- the numbers of one update */
struct optimizer_scalars {
    float rate;
    float momentum;
    float rho;
    float one_minus_rho;
    float beta2;
    float one_minus_beta1;
    float one_minus_beta2;
    float epsilon;
    float alpha;
    float root;
    float decay;
};

/* optimizer_start -- before the first update; the recipe must outlive it */
struct optimizer optimizer_start(const struct recipe *recipe);

/* optimizer_at -- the numbers of the next update, in a step; those of Adam are computed in double and rounded
 * once */
struct optimizer_scalars optimizer_at(const struct optimizer *optimizer, uint64_t step);

/* optimizer_next -- an update was made */
void optimizer_next(struct optimizer *optimizer);

/* optimizer_initial -- what each element of slot 0 (a) or 1 (s) starts as */
float optimizer_initial(const struct recipe *recipe, unsigned slot);

/* optimizer_apply -- one update of n elements */
void optimizer_apply(const struct recipe *recipe, const struct optimizer_scalars *scalars, const float *g,
                     float *v, float *a, float *s, size_t n);

#endif
