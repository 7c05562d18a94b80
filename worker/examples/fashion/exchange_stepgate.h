/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange over stepgate: parameters on ps, gradients from every worker of the job. */
#ifndef FASHION_EXCHANGE_STEPGATE_H
#define FASHION_EXCHANGE_STEPGATE_H

#include "worker/examples/fashion/exchange.h"

/* A link is this worker's place in the job: options first, then the membership. */
struct exchange_link;

/* exchange_link_new -- options from the environment, then from argv, out of which those of stepgate
 * are taken; NULL with the fault set */
struct exchange_link *exchange_link_new(int *argc, char **argv, struct fault *fault);

/* exchange_link_join -- connect to all ps. A signal ends the wait: -1 without a fault, as in all
 * waits. */
int exchange_link_join(struct exchange_link *link, struct fault *fault);

/* exchange_link_workers -- workers in the job, after the join */
unsigned exchange_link_workers(const struct exchange_link *link);

/* exchange_link_delete -- leave nothing behind; set NULL; safe on NULL */
void exchange_link_delete(struct exchange_link **link);

/* exchange_stepgate_new -- declare and commit the network's variables; NULL with the fault set, or
 * after a signal. The link must outlive it. */
struct exchange *exchange_stepgate_new(struct exchange_link *link, const struct exchange_recipe *recipe,
                                       struct fault *fault);

/* exchange_link_help -- write the flags of stepgate to stdout, from its own table */
void exchange_link_help(void);

#endif
