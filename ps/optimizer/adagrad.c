/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "ps/optimizer/rules.h"

#define BOTH_TEMPLATE "ps/optimizer/adagrad.inc"
#include "ps/optimizer/both.inc"

const struct optimizer_rule rule_adagrad_tf = {
    .name = "adagrad",
    .decays = true,
    .slots = 1,
    .slot_names = {"accumulator"},
    .accumulator = true,
    .block_f32 = adagrad_tf_f32,
    .block_f64 = adagrad_tf_f64,
};

const struct optimizer_rule rule_adagrad_torch = {
    .name = "adagrad",
    .decays = true,
    .slots = 1,
    .slot_names = {"accumulator"},
    .accumulator = true,
    .block_f32 = adagrad_torch_f32,
    .block_f64 = adagrad_torch_f64,
};
