/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/nesterov.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_nesterov_tf = {
    .name = "nesterov",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = nesterov_tf_f32,
    .block_f64 = nesterov_tf_f64,
};

const struct optimizer_rule rule_nesterov_torch = {
    .name = "nesterov",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = nesterov_torch_f32,
    .block_f64 = nesterov_torch_f64,
};
