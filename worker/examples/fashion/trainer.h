/* SPDX-License-Identifier: BSD-3-Clause */
/* The training loop: the same for a worker of a job and for a process alone. */
#ifndef FASHION_TRAINER_H
#define FASHION_TRAINER_H

#include "worker/examples/fashion/dataset.h"
#include "worker/examples/fashion/exchange.h"
#include "worker/examples/fashion/result.h"
#include "worker/examples/fashion/settings.h"

/* trainer_recipe -- what the settings ask for, with so many workers, or parts of --single; checks that it fits
 * them, and that there are images enough */
int trainer_recipe(const struct settings *settings, const struct dataset *data, unsigned workers,
                   struct recipe *recipe, struct fault *fault);

/* trainer_run -- train to the end. Rank 0 judges, reports and fills in the result; others leave it
 * as it is. */
int trainer_run(const struct settings *settings, const struct recipe *recipe, const struct dataset *data,
                struct exchange *exchange, struct result *result);

#endif
