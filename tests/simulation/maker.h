/* SPDX-License-Identifier: BSD-3-Clause */
/* maker -- what a worker computes: a function of its rank, the number of the contribution, and what it pulled, so that a wrong read shows in every later step. */
#ifndef TESTS_SIMULATION_MAKER_H
#define TESTS_SIMULATION_MAKER_H

#include "tests/simulation/contribution.h"
#include "transport/base/random.h"

struct maker {
    const struct shape *shape;
    struct random_source *random; /* which rows, in which order, and what is not finite */
    struct contribution *contribution;
};

/* What is handed over of a sparse variable. */
struct maker_list {
    uint64_t count;
    uint64_t *indices;
    uint8_t *values;
    uint64_t split; /* rows in two parts */
};

/* maker_make -- what is handed in of a variable, for the value that was pulled (NULL: nothing was). *bad: something of it is not finite. Errors: ENOMEM. */
int maker_make(const struct maker *maker, uint32_t variable, const void *value, bool *bad);
/* maker_list -- the rows of a sparse variable in any order, some of them in two parts; of which the sum is what counts from here on. Errors: ENOMEM. */
int maker_list(const struct maker *maker, uint32_t variable, struct maker_list *out);
void maker_list_clear(struct maker_list *list);

#endif
