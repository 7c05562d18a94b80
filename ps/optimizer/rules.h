/* SPDX-License-Identifier: BSD-3-Clause */
/* rules -- every rule, each in the file of its optimizer; none, sgd, momentum and nesterov are the same in both formulas. */
#ifndef PS_OPTIMIZER_RULES_H
#define PS_OPTIMIZER_RULES_H

#include "ps/optimizer/rule.h"

extern const struct optimizer_rule rule_none, rule_sgd, rule_momentum, rule_nesterov;
extern const struct optimizer_rule rule_adagrad_tf, rule_adagrad_torch;
extern const struct optimizer_rule rule_rmsprop_tf, rule_rmsprop_torch;
extern const struct optimizer_rule rule_adam_tf, rule_adam_torch;
extern const struct optimizer_rule rule_adamw_tf, rule_adamw_torch;

#endif
