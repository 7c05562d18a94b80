/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule -- the learning rate of a step. */
#ifndef PS_PROTOCOL_SCHEDULE_H
#define PS_PROTOCOL_SCHEDULE_H

#include "ps/protocol/model.h"

/* schedule_rate -- of step k, in double; model_learning_rate is this, rounded. */
double schedule_rate(const struct model *model, uint64_t step);

#endif
