/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/momentum.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_momentum = {
    .name = "momentum",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = momentum_f32,
    .block_f64 = momentum_f64,
};
