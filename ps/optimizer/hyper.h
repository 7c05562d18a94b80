/* SPDX-License-Identifier: BSD-3-Clause */
/* hyper -- the scalars of one step: the leader computes them once and sends them, so that every lane uses the same bits. */
#ifndef PS_OPTIMIZER_HYPER_H
#define PS_OPTIMIZER_HYPER_H

#include <assert.h>
#include <stdint.h>

struct model;

/* The scalars in one computing type. Travel as OPTIMIZER_SCALARS numbers in this order. */
struct optimizer_scalars_f32 {
    float rate, momentum, rho, one_minus_rho, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon;
    float
        alpha; /* adam, adamw: the rate with the bias corrections of TensorFlow, or the step size of PyTorch */
    float root2;        /* adam, adamw of PyTorch: the root of 1 - beta2^t */
    float decay;        /* adamw: rate * weight_decay */
    float l2;           /* 0: none */
    float clip_value;   /* 0: none */
    float average_rate; /* 1 - decay of the averages; 0: no averages */
    float scale;        /* of the mean, by the global norm; 1: none */
};
struct optimizer_scalars_f64 {
    double rate, momentum, rho, one_minus_rho, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon, alpha,
        root2, decay, l2, clip_value, average_rate, scale;
};
#define OPTIMIZER_SCALARS 16

/* A variable uses those of the type it is computed in, as TensorFlow's kernels do. Travels as OPTIMIZER_HYPER_WORDS words of 32 bits. */
struct optimizer_hyper {
    struct optimizer_scalars_f64 in_f64;
    struct optimizer_scalars_f32 in_f32;
};
#define OPTIMIZER_HYPER_WORDS (3 * OPTIMIZER_SCALARS)
static_assert(sizeof(struct optimizer_hyper) == OPTIMIZER_HYPER_WORDS * sizeof(uint32_t), "no padding");

/*
 * What adam has of the model, not of a variable: the visible slots of TensorFlow's, what they are in f64, and the number of updates, by which PyTorch's
 * corrects. A step that is skipped is no update.
 */
struct optimizer_powers {
    float beta1_power, beta2_power;
    uint64_t updates;
    double wide_beta1_power, wide_beta2_power;
};

/* optimizer_powers_start -- as they are used at step 0: beta1 and beta2. */
void optimizer_powers_start(const struct model *model, struct optimizer_powers *powers);
/* optimizer_powers_next -- after a step was applied: each times its beta, in its type. */
void optimizer_powers_next(const struct model *model, struct optimizer_powers *powers);
/* optimizer_hyper_at -- the scalars of `step` (the first is 0); scale is 1. */
void optimizer_hyper_at(const struct model *model, uint64_t step, const struct optimizer_powers *powers,
                        struct optimizer_hyper *out);

#endif
