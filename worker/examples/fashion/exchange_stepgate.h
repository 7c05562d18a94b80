/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange over stepgate: parameters on ps, gradients from every worker of the job. */
#ifndef FASHION_EXCHANGE_STEPGATE_H
#define FASHION_EXCHANGE_STEPGATE_H

#include "worker/examples/fashion/exchange.h"
#include "worker/examples/fashion/exchange_link.h"

struct observer;

/* exchange_stepgate_new -- declare and commit the network's variables; NULL with the fault set, or
 * after a signal. The link must outlive it; the recipe must be checked, and is copied. */
struct exchange *exchange_stepgate_new(struct exchange_link *link, const struct recipe *recipe,
                                       struct fault *fault);

/* exchange_stepgate_watch -- tell an observer of each step that begins, and have it finish before this
 * worker leaves */
void exchange_stepgate_watch(struct exchange *exchange, struct observer *observer);

#endif
