/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference: strict mode's arithmetic, written down as plainly as it can be. Whatever stepgate
 * does with any number of ps, over any transport, must end with these bits.
 *
 * A step, once the gradients of all its parts are there, each rounded to the type of gradients:
 *
 *     clip_norm         a part's factor is its weight, scaled if the norm of its gradient is too great
 *     mean              of all parts, in their order (mean.h)
 *     clip_global_norm  scales the mean
 *     clip_value        each element
 *     l2_decay          g += l2_decay * v
 *     optimizer         (optimizer.h), on values in f32
 *     average           (average.h)
 *
 * and what is shown of the values is rounded to the type of parameters. */
#ifndef FASHION_REFERENCE_H
#define FASHION_REFERENCE_H

#include "worker/examples/fashion/exchange.h"

/* reference_new -- an exchange of one process that computes all parts of each step; NULL with the fault set. The
 * recipe must be checked, and is copied. */
struct exchange *reference_new(const struct recipe *recipe, unsigned parts, struct fault *fault);

#endif
