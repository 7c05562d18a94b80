/* SPDX-License-Identifier: BSD-3-Clause */
/* An exchange is where a trainer gets parameters and puts gradients. There are two: stepgate, with
 * ps and other workers, and the reference, which does in one process what all of them do together,
 * by the book. The trainer can't tell them apart, and neither can the bits.
 *
 * A process computes parts first ... first + count - 1 of the step's `parts`. A step is: begin; for
 * each of those parts: parameter (any variable, any number of times), gradient and push of every
 * variable, finish. */
#ifndef FASHION_EXCHANGE_H
#define FASHION_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/network.h"
#include "worker/examples/fashion/schedule.h"

enum exchange_rule { EXCHANGE_SGD, EXCHANGE_MOMENTUM };

/* exchange_recipe -- what is done with the mean gradient */
struct exchange_recipe {
    enum exchange_rule rule;
    double momentum;
    struct schedule schedule;
    uint64_t seed; /* of the initial values */
};

struct exchange;

/* exchange_operations -- each returns 0, or -1 with the fault set; -1 without a fault where a signal
 * asked for the end */
struct exchange_operations {
    int (*begin)(struct exchange *exchange, uint64_t *step);
    int (*parameter)(struct exchange *exchange, unsigned variable, const float **value);
    int (*gradient)(struct exchange *exchange, unsigned variable, float **value);
    int (*push)(struct exchange *exchange, unsigned variable);
    int (*finish)(struct exchange *exchange, uint32_t weight);
    /* No more steps: the parameters got since the last begin may still be read until close. */
    int (*leave)(struct exchange *exchange);
    void (*close)(struct exchange *exchange);
};

struct exchange {
    const struct exchange_operations *operations;
    const char *transport;
    unsigned workers; /* processes that compute */
    unsigned ps;
    unsigned rank;
    unsigned parts;
    unsigned first;
    unsigned count;
    struct fault *fault;
};

/* exchange_traffic -- the way the network's passes use an exchange */
struct network_traffic exchange_traffic(struct exchange *exchange);

#endif
