/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/nesterov.inc"
#define KINDS_RULES PASS(nesterov)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_nesterov = {
    .name = "nesterov",
    .decays = true,
    .slots = 1,
    .slot_names = {"momentum"},
    .block_f32 = nesterov_f32,
    .block_f64 = nesterov_f64,
    .pass_f32 = KINDS(nesterov, f32),
    .pass_f64 = KINDS(nesterov, f64),
};
