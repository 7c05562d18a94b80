/* SPDX-License-Identifier: BSD-3-Clause */
/* pages -- memory on a kind of pages: small ones, transparent huge ones, or huge ones of the pool. */
#ifndef PERF_PAGES_H
#define PERF_PAGES_H

#include <stddef.h>

enum pages_kind { PAGES_SMALL = 0, PAGES_TRANSPARENT = 1, PAGES_HUGE = 2, PAGES_KINDS = 3 };

struct pages {
    void *mapping, *address; /* address: a multiple of a huge page */
    size_t length;           /* of the mapping */
};

/* pages_name -- "4 KiB" and so on. */
const char *pages_name(enum pages_kind kind);
/*
 * pages_new -- so many bytes, written once. 0, or -1: this machine has none of that kind, or not enough memory; `why` says so.
 */
int pages_new(struct pages *pages, enum pages_kind kind, size_t bytes, char *why, size_t why_bytes);
/* pages_free -- gives them back. */
void pages_free(struct pages *pages);

#endif
