/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/rmsprop.inc"
#define KINDS_RULES PASS(rmsprop_tf) PASS(rmsprop_torch)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_rmsprop_tf = {
    .name = "rmsprop",
    .decays = true,
    .slots = 2,
    .slot_names = {"mean_square", "momentum"},
    .slot_initial = {1, 0},
    .block_f32 = rmsprop_tf_f32,
    .block_f64 = rmsprop_tf_f64,
    .pass_f32 = KINDS(rmsprop_tf, f32),
    .pass_f64 = KINDS(rmsprop_tf, f64),
};

const struct optimizer_rule rule_rmsprop_torch = {
    .name = "rmsprop",
    .decays = true,
    .slots = 2,
    .slot_names = {"mean_square", "momentum"},
    .block_f32 = rmsprop_torch_f32,
    .block_f64 = rmsprop_torch_f64,
    .pass_f32 = KINDS(rmsprop_torch, f32),
    .pass_f64 = KINDS(rmsprop_torch, f64),
};
