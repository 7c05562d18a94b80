/* SPDX-License-Identifier: BSD-3-Clause */
/* One f32 for each element of each variable: the network's parameters, or something that goes with them. */
#ifndef FASHION_VALUES_H
#define FASHION_VALUES_H

#include <stdbool.h>

#include "worker/examples/fashion/dtype.h"
#include "worker/examples/fashion/network.h"

struct values {
    float *of[NETWORK_VARIABLES];
};

/* values_take -- memory, all zero; false: there is none. values_clear frees it, also after a failure. */
bool values_take(struct values *values);

/* values_clear -- free it; safe on a zeroed struct */
void values_clear(struct values *values);

/* values_copy -- all of them */
void values_copy(struct values *to, const struct values *from);

/* values_fill -- all of them with the same number */
void values_fill(struct values *values, float number);

/* values_initial -- what parameters of a type start as, from the seed alone */
void values_initial(struct values *values, uint64_t seed, enum dtype dtype);

/* values_traffic -- lets the network compute with them; there is no way back */
struct network_traffic values_traffic(struct values *values);

#endif
