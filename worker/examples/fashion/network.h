/* SPDX-License-Identifier: BSD-3-Clause */
/* The network, as a list of variables and two passes over them:
 *
 *     28 x 28 (+ 2 border) -> conv 16 of 5 x 5 -> 28 x 28 -> maximum 2 x 2, ReLU -> 14 x 14 x 16
 *                          -> conv 32 of 5 x 5 -> 10 x 10 -> maximum 2 x 2, ReLU ->  5 x  5 x 32
 *                          -> dense 128, ReLU -> dense 10 -> softmax
 *
 * The passes ask for each variable just before they need it, and hand out each gradient the moment
 * it is complete, last layer first, so that whoever moves them can do so while the rest is still
 * being computed. */
#ifndef FASHION_NETWORK_H
#define FASHION_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/softmax.h"

enum { NETWORK_VARIABLES = 8, NETWORK_RANK_MAX = 4 };

/* network_variable -- a variable's name and shape; their order is that of declaration, and of
 * forward */
struct network_variable {
    const char *name;
    unsigned rank;
    uint64_t dims[NETWORK_RANK_MAX];
    uint64_t elements; /* the product of dims */
    uint64_t fan_in;   /* inputs of one output; 0 = the variable starts at zero */
};

/* network_traffic -- how the passes get variables and give gradients. Each call returns 0, or a
 * negative number which the pass returns at once. */
struct network_traffic {
    void *context;
    /* The address of a variable's value; it stays valid until the step is finished. */
    int (*parameter)(void *context, unsigned variable, const float **value);
    /* Where the variable's gradient is to be written. */
    int (*gradient)(void *context, unsigned variable, float **value);
    /* The gradient is complete. */
    int (*ready)(void *context, unsigned variable);
};

struct network;

/* network_variables -- the table of NETWORK_VARIABLES variables */
const struct network_variable *network_variables(void);

/* network_initial -- the first value of a variable, from the seed alone */
void network_initial(unsigned variable, uint64_t seed, float *value);

/* network_new -- memory for batches of up to so many images; NULL without memory */
struct network *network_new(size_t capacity);

/* network_delete -- free it and set NULL; safe on NULL */
void network_delete(struct network **network);

/* network_load -- put an image with its label into place n of the batch */
void network_load(struct network *network, size_t n, const uint8_t *pixels, unsigned label);

/* network_forward -- scores of the first so many images loaded */
int network_forward(struct network *network, size_t images, const struct network_traffic *traffic,
                    struct softmax_score *score);

/* network_backward -- the gradients of the mean loss, after a forward of as many images */
int network_backward(struct network *network, size_t images, const struct network_traffic *traffic);

#endif
