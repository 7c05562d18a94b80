/* SPDX-License-Identifier: BSD-3-Clause */
/* What stepgate is told of the network and of how it is trained. */
#ifndef FASHION_EXCHANGE_MODEL_H
#define FASHION_EXCHANGE_MODEL_H

#include <stdbool.h>

#include "worker/examples/fashion/recipe.h"

struct stepgate_model;

#define EXCHANGE_MODEL_NAME "fashion"

/* exchange_model_declare -- all keys of the recipe, which must be checked, and all variables; initial: also their
 * first values, which worker 0 gives. 0 or the library's negative code. */
int exchange_model_declare(struct stepgate_model *model, const struct recipe *recipe, bool initial);

#endif
