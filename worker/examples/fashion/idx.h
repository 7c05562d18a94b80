/* SPDX-License-Identifier: BSD-3-Clause */
/* IDX: the file format of MNIST and its descendants, here always compressed with gzip. */
#ifndef FASHION_IDX_H
#define FASHION_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "worker/examples/fashion/fault.h"

enum { IDX_RANK_MAX = 3 };

struct idx {
    unsigned rank;
    size_t dims[IDX_RANK_MAX];
    uint8_t *bytes; /* the product of dims, row-major */
};

/* idx_read -- read a whole gzip IDX file of unsigned bytes that must have the given rank */
int idx_read(const char *path, unsigned rank, struct idx *out, struct fault *fault);

/* idx_clear -- free what idx_read took; safe on a zeroed struct */
void idx_clear(struct idx *idx);

#endif
