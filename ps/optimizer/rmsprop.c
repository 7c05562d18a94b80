/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/rmsprop.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_rmsprop_tf = {
    .name = "rmsprop",
    .decays = true,
    .slots = 2,
    .slot_names = {"mean_square", "momentum"},
    .slot_initial = {1, 0},
    .block_f32 = rmsprop_tf_f32,
    .block_f64 = rmsprop_tf_f64,
};

const struct optimizer_rule rule_rmsprop_torch = {
    .name = "rmsprop",
    .decays = true,
    .slots = 2,
    .slot_names = {"mean_square", "momentum"},
    .block_f32 = rmsprop_torch_f32,
    .block_f64 = rmsprop_torch_f64,
};
