/* SPDX-License-Identifier: BSD-3-Clause */
/* kind -- kinds of processor instructions that there are kernels for. All give the same bits. */
#ifndef PS_OPTIMIZER_KIND_H
#define PS_OPTIMIZER_KIND_H

enum optimizer_kind {
    OPTIMIZER_PLAIN = 0, /* what the compiler makes of it for any processor of the architecture */
    OPTIMIZER_AVX2 = 1,
    OPTIMIZER_AVX512 = 2
};
#define OPTIMIZER_KINDS 3

/* optimizer_kind_of -- of a name: auto (the best that there is), plain, avx2, avx512. Negative: unknown, or this processor has it not. */
int optimizer_kind_of(const char *name);
/* optimizer_kind_name -- "plain", "avx2", "avx512". */
const char *optimizer_kind_name(enum optimizer_kind kind);

#endif
