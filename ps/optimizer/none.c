/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/none.inc"
#define KINDS_RULES PASS(none)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_none = {
    .name = "none",
    .decays = false,
    .replaces = true,
    .block_f32 = none_f32,
    .block_f64 = none_f64,
    .pass_f32 = KINDS(none, f32),
    .pass_f64 = KINDS(none, f64),
};
