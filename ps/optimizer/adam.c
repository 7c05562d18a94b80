/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/adam.inc"
#define KINDS_RULES PASS(adam_tf) PASS(adam_torch)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_adam_tf = {
    .name = "adam",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adam_tf_f32,
    .block_f64 = adam_tf_f64,
    .pass_f32 = KINDS(adam_tf, f32),
    .pass_f64 = KINDS(adam_tf, f64),
};

const struct optimizer_rule rule_adam_torch = {
    .name = "adam",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adam_torch_f32,
    .block_f64 = adam_torch_f64,
    .pass_f32 = KINDS(adam_torch, f32),
    .pass_f64 = KINDS(adam_torch, f64),
};
