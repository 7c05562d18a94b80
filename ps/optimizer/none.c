/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/none.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_none = {
    .name = "none",
    .decays = false,
    .block_f32 = none_f32,
    .block_f64 = none_f64,
};
