/* SPDX-License-Identifier: BSD-3-Clause */
/* An exchange is where a trainer gets parameters and puts gradients. There are two: stepgate, with
 * ps and other workers, and the reference, which does in one process what all of them do together,
 * by the book. The trainer can't tell them apart, and in strict mode neither can the bits.
 *
 * A contribution is: begin; parameter (any variable, any number of times); gradient and push of every
 * variable; finish. A process that computes several parts of a step gets the same step several times. */
#ifndef FASHION_EXCHANGE_H
#define FASHION_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/examples/fashion/fault.h"
#include "worker/examples/fashion/network.h"
#include "worker/examples/fashion/recipe.h"
#include "worker/examples/fashion/share.h"
#include "worker/examples/fashion/values.h"

struct exchange;

/* exchange_step -- what begin tells */
struct exchange_step {
    uint64_t step;
    bool rewound; /* the job went back to a checkpoint, of this step */
    uint64_t
        staleness; /* steps that were taken between the contribution before and its update; async, bounded */
};

/* exchange_counts -- what became of a worker's contributions */
struct exchange_counts {
    uint64_t accepted;
    uint64_t stale;
    uint64_t non_finite;
};

enum exchange_what { EXCHANGE_PARAMETERS, EXCHANGE_AVERAGES };

/* exchange_operations -- each returns 0, or -1 with the fault set; -1 without a fault where a signal
 * asked for the end, or where the job goes back to a checkpoint (`back`): then begin is next */
struct exchange_operations {
    int (*begin)(struct exchange *exchange, struct exchange_step *step);
    /* Valid until the next begin. All that is got after one begin is of one step, but in async and bounded. */
    int (*parameter)(struct exchange *exchange, unsigned variable, const float **value);
    /* Where to put the gradient: another place after each begin. */
    int (*gradient)(struct exchange *exchange, unsigned variable, float **value);
    int (*push)(struct exchange *exchange, unsigned variable);
    int (*finish)(struct exchange *exchange, uint32_t weight);
    /* No more contributions: waits until no worker has any. What was got since the last begin stays valid. */
    int (*settle)(struct exchange *exchange);
    /* Copies of one exact step, at any time. */
    int (*copy)(struct exchange *exchange, enum exchange_what what, struct values *out, uint64_t *step);
    /* Of worker 0 ... workers - 1; all of them after settle only. */
    int (*counts)(struct exchange *exchange, unsigned worker, struct exchange_counts *out);
    /* Waits until all workers are here; then nothing but close is left, but what was got stays valid. */
    int (*leave)(struct exchange *exchange);
    void (*close)(struct exchange *exchange);
};

struct exchange {
    const struct exchange_operations *operations;
    const char *transport;
    unsigned workers; /* processes that compute */
    unsigned ps;
    unsigned rank;
    struct share share; /* of this process */
    uint64_t step; /* with which training goes on, from a checkpoint or beside the others; 0: it begins */
    bool joins;    /* the others are at it: this worker came back */
    bool back;     /* what was done since a checkpoint is void: begin tells since which */
    struct fault *fault;
};

/* exchange_traffic -- the way the network's passes use an exchange */
struct network_traffic exchange_traffic(struct exchange *exchange);

#endif
