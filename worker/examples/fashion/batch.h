/* SPDX-License-Identifier: BSD-3-Clause */
/* Which images a worker computes in a step: a function of seed, step and rank alone. Whoever asks,
 * on whatever machine, after whatever restart, gets the same answer; nothing is handed from step to
 * step. */
#ifndef FASHION_BATCH_H
#define FASHION_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* batch_shape -- how an epoch is cut into global batches, and each of those into parts */
struct batch_shape {
    uint64_t seed;
    size_t images; /* in an epoch */
    size_t batch;  /* mean number of images of a part */
    size_t parts;  /* one per worker */
    bool uneven;   /* part r is proportional to parts + r, instead of all alike */
};

/* batch_part -- one part of one global batch */
struct batch_part {
    uint64_t epoch;
    size_t first;    /* place in the epoch's order of images */
    size_t count;    /* at least 1 */
    uint32_t weight; /* 1 where all parts of this step are equal, else count */
};

struct batch_order; /* the order of images in one epoch */

/* batch_steps -- steps in an epoch. The last batch may be short; if it could not give every part an
 * image, its few images sit out this epoch. 0 = too few images for even one step. */
uint64_t batch_steps(const struct batch_shape *shape);

/* batch_capacity -- the largest count that batch_part_of gives */
size_t batch_capacity(const struct batch_shape *shape);

/* batch_part_of -- what part r of a step consists of */
struct batch_part batch_part_of(const struct batch_shape *shape, uint64_t step, size_t r);

/* batch_order_new -- room for an epoch's order; NULL without memory */
struct batch_order *batch_order_new(const struct batch_shape *shape);

/* batch_order_at -- which image stands at a place of an epoch's order */
size_t batch_order_at(struct batch_order *order, uint64_t epoch, size_t place);

/* batch_order_delete -- free it and set NULL; safe on NULL */
void batch_order_delete(struct batch_order **order);

#endif
