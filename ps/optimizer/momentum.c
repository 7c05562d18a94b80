/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/momentum.inc"
#define KINDS_RULES PASS(momentum)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_momentum = {
    .name = "momentum",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = momentum_f32,
    .block_f64 = momentum_f64,
    .pass_f32 = KINDS(momentum, f32),
    .pass_f64 = KINDS(momentum, f64),
};
