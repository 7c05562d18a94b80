/* SPDX-License-Identifier: BSD-3-Clause */
/* A trainer with an optimizer of its own (--optimizer none): the exchange within gives the mean gradient of the
 * step before in place of parameters, and each worker applies it to parameters of its own, all of them alike.
 * The optimizer is plain SGD. */
#ifndef FASHION_EXCHANGE_OWN_H
#define FASHION_EXCHANGE_OWN_H

#include "worker/examples/fashion/exchange.h"

/* exchange_own_new -- closing it closes the exchange within, which a failure leaves open: NULL with the fault
 * set */
struct exchange *exchange_own_new(struct exchange *within, const struct schedule *schedule);

#endif
