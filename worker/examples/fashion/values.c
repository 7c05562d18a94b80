/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/values.h"

#include <stdlib.h>
#include <string.h>

/* values_take -- memory, all zero */
bool values_take(struct values *values)
{
    bool all = true;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        all = (values->of[v] = calloc(network_variables()[v].elements, sizeof(float))) != NULL && all;
    return all;
}

/* values_clear -- free it */
void values_clear(struct values *values)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        free(values->of[v]);
    *values = (struct values){0};
}

/* values_copy -- all of them */
void values_copy(struct values *to, const struct values *from)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        memcpy(to->of[v], from->of[v], network_variables()[v].elements * sizeof(float));
}

/* values_fill -- all of them with the same number */
void values_fill(struct values *values, float number)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        for (uint64_t i = 0; i < network_variables()[v].elements; i++)
            values->of[v][i] = number;
}

/* values_initial -- what parameters of a type start as */
void values_initial(struct values *values, uint64_t seed, enum dtype dtype)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        network_initial(v, seed, values->of[v]);
        dtype_round(dtype, values->of[v], network_variables()[v].elements);
    }
}

/* values_parameter -- network_traffic's view of them */
static int values_parameter(void *context, unsigned variable, const float **value)
{
    *value = ((struct values *)context)->of[variable];
    return 0;
}

/* values_traffic -- lets the network compute with them */
struct network_traffic values_traffic(struct values *values)
{
    return (struct network_traffic){.context = values, .parameter = values_parameter};
}
