/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/adamw.inc"
#define KINDS_RULES PASS(adamw_tf) PASS(adamw_torch)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_adamw_tf = {
    .name = "adamw",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adamw_tf_f32,
    .block_f64 = adamw_tf_f64,
    .pass_f32 = KINDS(adamw_tf, f32),
    .pass_f64 = KINDS(adamw_tf, f64),
};

const struct optimizer_rule rule_adamw_torch = {
    .name = "adamw",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adamw_torch_f32,
    .block_f64 = adamw_torch_f64,
    .pass_f32 = KINDS(adamw_torch, f32),
    .pass_f64 = KINDS(adamw_torch, f64),
};
