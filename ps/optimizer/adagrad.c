/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/adagrad.inc"
#define KINDS_RULES PASS(adagrad_tf) PASS(adagrad_torch)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_adagrad_tf = {
    .name = "adagrad",
    .decays = true,
    .slots = 1,
    .slot_names = {"accumulator"},
    .accumulator = true,
    .block_f32 = adagrad_tf_f32,
    .block_f64 = adagrad_tf_f64,
    .pass_f32 = KINDS(adagrad_tf, f32),
    .pass_f64 = KINDS(adagrad_tf, f64),
};

const struct optimizer_rule rule_adagrad_torch = {
    .name = "adagrad",
    .decays = true,
    .slots = 1,
    .slot_names = {"accumulator"},
    .accumulator = true,
    .block_f32 = adagrad_torch_f32,
    .block_f64 = adagrad_torch_f64,
    .pass_f32 = KINDS(adagrad_torch, f32),
    .pass_f64 = KINDS(adagrad_torch, f64),
};
