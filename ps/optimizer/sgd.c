/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/sgd.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_sgd = {
    .name = "sgd",
    .decays = true,
    .block_f32 = sgd_f32,
    .block_f64 = sgd_f64,
};
