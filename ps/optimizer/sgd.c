/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define KINDS_TEMPLATE "ps/optimizer/sgd.inc"
#define KINDS_RULES PASS(sgd)
#include "ps/optimizer/kinds.inc"

const struct optimizer_rule rule_sgd = {
    .name = "sgd",
    .decays = true,
    .block_f32 = sgd_f32,
    .block_f64 = sgd_f64,
    .pass_f32 = KINDS(sgd, f32),
    .pass_f64 = KINDS(sgd, f64),
};
