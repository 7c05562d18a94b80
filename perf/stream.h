/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream -- what memory gives: the plain kernels that everything else is a share of. Each with ordinary and, where the processor has them, with
 * non-temporal stores, with the widest vectors that were allowed.
 *
 *   read    sum over a             4 bytes an element
 *   copy    b = a                  8
 *   triad   c = a + 3*b           12
 *   add     a = a + b             12
 *
 * Bytes are those that the kernel names, as in STREAM: what a store reads before it writes is not counted.
 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct stream_arrays {
    float *a, *b, *c;
    size_t n; /* a multiple of STREAM_UNIT */
};
#define STREAM_UNIT 256

struct stream_kernel {
    const char *name; /* "read", "copy", "copy nt", ... */
    double bytes;     /* of an element */
    bool temporal;
    /* Elements first to last, both multiples of STREAM_UNIT. The result of a read keeps it from being left out. */
    float (*run)(const struct stream_arrays *arrays, size_t first, size_t last);
};

/* stream_kernels -- of a kind of instructions, "plain", "avx2" or "avx512"; ends with a NULL name. NULL: this processor has it not. */
const struct stream_kernel *stream_kernels(const char *kind);
/* stream_part -- where part `index` of `count` of n elements begins: whole units. */
size_t stream_part(size_t n, unsigned index, unsigned count);

#endif
