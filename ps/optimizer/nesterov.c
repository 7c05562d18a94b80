/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/nesterov.inc"
#define KINDS_RULES PASS(nesterov_tf) PASS(nesterov_torch)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_nesterov_tf = {
    .name = "nesterov",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = nesterov_tf_f32,
    .block_f64 = nesterov_tf_f64,
    .pass_f32 = KINDS(nesterov_tf, f32),
    .pass_f64 = KINDS(nesterov_tf, f64),
};

const struct optimizer_rule rule_nesterov_torch = {
    .name = "nesterov",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = nesterov_torch_f32,
    .block_f64 = nesterov_torch_f64,
    .pass_f32 = KINDS(nesterov_torch, f32),
    .pass_f64 = KINDS(nesterov_torch, f64),
};
