/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "stepgate/stepgate.h"

/* exchange_snapshot_widen -- what came narrow is where f32 are wanted */
static int exchange_snapshot_widen(enum dtype dtype, float *values, size_t n)
{
    size_t bytes = n * dtype_bytes(dtype);
    void *narrow = malloc(bytes);
    if (narrow == NULL)
        return -STEPGATE_ENOMEM;
    memcpy(narrow, values, bytes);
    dtype_widen(dtype, narrow, values, n);
    free(narrow);
    return 0;
}

/* exchange_snapshot -- averages are f32 already */
int exchange_snapshot(struct stepgate_model *model, enum exchange_what what, enum dtype dtype,
                      struct values *out, uint64_t *step)
{
    bool averages = what == EXCHANGE_AVERAGES;
    int ids[NETWORK_VARIABLES];
    void *to[NETWORK_VARIABLES];
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        ids[v] = (int)v;
        to[v] = out->of[v];
    }
    int code =
        stepgate_model_snapshot(model, averages ? STEPGATE_SNAPSHOT_AVERAGES : STEPGATE_SNAPSHOT_PARAMETERS,
                                ids, NETWORK_VARIABLES, to, -1, step);
    for (unsigned v = 0; code >= 0 && !averages && dtype != DTYPE_F32 && v < NETWORK_VARIABLES; v++)
        code = exchange_snapshot_widen(dtype, out->of[v], network_variables()[v].elements);
    return code;
}
