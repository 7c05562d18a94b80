/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages -- private memory in huge pages where there are any: reserved ones (hugetlb) first, else transparent ones, else ordinary ones. All
 * of it is touched before it is handed out, by the calling thread, on whose NUMA node it comes to lie.
 */
#ifndef TRANSPORT_BASE_PAGES_H
#define TRANSPORT_BASE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* pages_map -- zeroed; *length: what was mapped, whole pages, to be given to munmap. NULL with errno set. */
void *pages_map(uint64_t bytes, uint64_t *length);
/* pages_describe -- for the log: which kinds of huge pages memory of this process can come in. */
void pages_describe(char *out, size_t bytes);

#endif
