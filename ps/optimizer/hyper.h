/* SPDX-License-Identifier: BSD-3-Clause */
/* hyper -- the scalars of one step: the leader computes them once and sends them, so that every lane uses the same bits. */
#ifndef PS_OPTIMIZER_HYPER_H
#define PS_OPTIMIZER_HYPER_H

#include <assert.h>
#include <stdint.h>

struct model;

/* Travels as OPTIMIZER_HYPER_FLOATS floats in this order. */
struct optimizer_hyper {
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
#define OPTIMIZER_HYPER_FLOATS 16
static_assert(sizeof(struct optimizer_hyper) == OPTIMIZER_HYPER_FLOATS * sizeof(float), "no padding");

/* What adam has of the model, not of a variable: the visible slots of TensorFlow's, and the number of updates, by which PyTorch's corrects. A step that is skipped is no update. */
struct optimizer_powers {
    float beta1_power, beta2_power;
    uint64_t updates;
};

/* optimizer_powers_start -- as they are used at step 0: beta1 and beta2. */
void optimizer_powers_start(const struct model *model, struct optimizer_powers *powers);
/* optimizer_powers_next -- after a step was applied: each times its beta, in f32. */
void optimizer_powers_next(const struct model *model, struct optimizer_powers *powers);
/* optimizer_hyper_at -- the scalars of `step` (the first is 0); scale is 1. */
void optimizer_hyper_at(const struct model *model, uint64_t step, const struct optimizer_powers *powers,
                        struct optimizer_hyper *out);

#endif
