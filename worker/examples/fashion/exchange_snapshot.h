/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of all parameters, or of their averages, as of one exact step. */
#ifndef FASHION_EXCHANGE_SNAPSHOT_H
#define FASHION_EXCHANGE_SNAPSHOT_H

#include "worker/examples/fashion/exchange.h"

struct stepgate_model;

/* exchange_snapshot -- as f32; 0 or the library's negative code. Workers and observers, any thread's model. */
int exchange_snapshot(struct stepgate_model *model, enum exchange_what what, enum dtype dtype,
                      struct values *out, uint64_t *step);

#endif
