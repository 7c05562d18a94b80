/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rule -- how a mean gradient changes a variable: one rule for each optimizer and formula. Knows types only.
 *
 * For each element, each line only if it is on, each operation rounded to the computing type in the order written:
 *   g = scale * g                                    scale != 1, by the global norm
 *   g = g > clip ? clip : g < -clip ? -clip : g      clip_value != 0; NaN stays NaN
 *   g = g + l2 * var                                 l2 != 0, the variable decays, every rule but none
 *   the rule                                         see the file that is named as it
 *   average = average - average_rate * (average - var)
 * with rate, alpha and decay multiplied (in the computing type) by the variable's scale of the rate where that is not 1. Scalars are those of the
 * computing type (hyper.h). No element's bits depend on which others are in the same call.
 */
#ifndef PS_OPTIMIZER_RULE_H
#define PS_OPTIMIZER_RULE_H

#include <stdbool.h>
#include <stddef.h>

#include "ps/optimizer/hyper.h"
#include "ps/optimizer/kind.h"
#include "ps/optimizer/mean.h"

#define OPTIMIZER_SLOTS_MAX 2
#define OPTIMIZER_BLOCK 1024 /* elements that are worked on at a time, on the stack */

/* What a variable has of its own. */
struct optimizer_variable {
    double rate_scale; /* 1: none */
    bool decays;       /* l2 and decay hold for it */
};

/* What one pass over memory reads and writes: arrays of the computing type, each at the element number 0. No array overlaps another. */
struct optimizer_pass {
    const struct mean_sum *sum;       /* of gradients of the computing type */
    const void *now;                  /* NULL: not read, for a rule that replaces */
    void *next;                       /* not now */
    void *slots[OPTIMIZER_SLOTS_MAX]; /* NULL: the rule has no such slot */
    void *average;                    /* NULL: none */
    bool stream; /* next is written past the caches: nobody reads it before they would have lost it */
};

struct optimizer_rule {
    const char *name; /* of the optimizer, as stepgate_model_set takes it */
    bool decays;      /* l2 is added to the gradient; not for none */
    bool replaces;    /* what the variable was does not matter: none */
    unsigned slots;   /* arrays of state beside the variable, of the computing type: 0, 1, 2 */
    const char *slot_names[OPTIMIZER_SLOTS_MAX];
    float slot_initial[OPTIMIZER_SLOTS_MAX];
    bool accumulator; /* the first slot starts at initial_accumulator instead */
    /* One block: changes var and the slots in place. No array overlaps another. */
    void (*block_f32)(const struct optimizer_scalars_f32 *h, const float *restrict gradient,
                      float *restrict var, float *restrict first, float *restrict second, size_t n);
    void (*block_f64)(const struct optimizer_scalars_f64 *h, const double *restrict gradient,
                      double *restrict var, double *restrict first, double *restrict second, size_t n);
    /* One pass with each kind of instructions: the elements first .. first + n. */
    void (*pass_f32[OPTIMIZER_KINDS])(const struct optimizer_scalars_f32 *h,
                                      const struct optimizer_pass *pass, size_t first, size_t n);
    void (*pass_f64[OPTIMIZER_KINDS])(const struct optimizer_scalars_f64 *h,
                                      const struct optimizer_pass *pass, size_t first, size_t n);
};

/* optimizer_rule -- of an optimizer (enum model_optimizer) and formula; NULL if there is no such optimizer. */
const struct optimizer_rule *optimizer_rule(int optimizer, bool torch);
/* optimizer_slot_initial -- what every element of a slot starts as, before it is rounded to the computing type. */
double optimizer_slot_initial(const struct optimizer_rule *rule, unsigned slot, double initial_accumulator);
/*
 * optimizer_apply_f32 -- one step of n elements, any n. gradient is the mean. next may be now (a master copy) or lie apart from it; slots
 * and average are changed in place; average may be NULL. slots has rule->slots arrays (NULL if there are none).
 */
void optimizer_apply_f32(const struct optimizer_rule *rule, const struct optimizer_variable *options,
                         const struct optimizer_hyper *hyper, const float *gradient, const float *now,
                         float *next, float *const slots[], float *average, size_t n);
/* optimizer_apply_f64 -- the same for a variable that is computed in f64. */
void optimizer_apply_f64(const struct optimizer_rule *rule, const struct optimizer_variable *options,
                         const struct optimizer_hyper *hyper, const double *gradient, const double *now,
                         double *next, double *const slots[], double *average, size_t n);
/*
 * optimizer_pass_f32 -- mean and step of the elements first .. first + n in one pass over memory: the bits are those of mean_f32 and optimizer_apply_f32. The processor must
 * have the kind.
 */
void optimizer_pass_f32(const struct optimizer_rule *rule, enum optimizer_kind kind,
                        const struct optimizer_variable *options, const struct optimizer_hyper *hyper,
                        const struct optimizer_pass *pass, size_t first, size_t n);
/* optimizer_pass_f64 -- the same for a variable that is computed in f64. */
void optimizer_pass_f64(const struct optimizer_rule *rule, enum optimizer_kind kind,
                        const struct optimizer_variable *options, const struct optimizer_hyper *hyper,
                        const struct optimizer_pass *pass, size_t first, size_t n);

#endif
