/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/adam.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_adam_tf = {
    .name = "adam",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adam_tf_f32,
    .block_f64 = adam_tf_f64,
};

const struct optimizer_rule rule_adam_torch = {
    .name = "adam",
    .decays = true,
    .slots = 2,
    .slot_names = {"first_moment", "second_moment"},
    .block_f32 = adam_torch_f32,
    .block_f64 = adam_torch_f64,
};
