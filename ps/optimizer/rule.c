/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/optimizer/rule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "ps/optimizer/rules.h"
#include "ps/protocol/model.h"

#define RULE_COUNT (MODEL_ADAMW + 1)

static const struct optimizer_rule *const rule_table[RULE_COUNT][2] = {
    /*               formula = tf          torch */
    [MODEL_SGD] = {&rule_sgd, &rule_sgd},
    [MODEL_MOMENTUM] = {&rule_momentum, &rule_momentum},
    [MODEL_NONE] = {&rule_none, &rule_none},
    [MODEL_NESTEROV] = {&rule_nesterov, &rule_nesterov},
    [MODEL_ADAGRAD] = {&rule_adagrad_tf, &rule_adagrad_torch},
    [MODEL_RMSPROP] = {&rule_rmsprop_tf, &rule_rmsprop_torch},
    [MODEL_ADAM] = {&rule_adam_tf, &rule_adam_torch},
    [MODEL_ADAMW] = {&rule_adamw_tf, &rule_adamw_torch},
};

/* optimizer_rule -- see the header. */
const struct optimizer_rule *optimizer_rule(int optimizer, bool torch)
{
    return optimizer > 0 && optimizer < RULE_COUNT ? rule_table[optimizer][torch ? 1 : 0] : NULL;
}

/* optimizer_slot_initial -- see the header. */
double optimizer_slot_initial(const struct optimizer_rule *rule, unsigned slot, double initial_accumulator)
{
    assert(slot < rule->slots);
    return slot == 0 && rule->accumulator ? initial_accumulator : (double)rule->slot_initial[slot];
}

#define BOTH_TEMPLATE "ps/optimizer/apply.inc"
#include "ps/optimizer/both.inc"
