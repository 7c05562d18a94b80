/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages -- private memory in huge pages where there are any: reserved ones (hugetlb) first, else transparent ones, else ordinary ones. All
 * of it is there before it is handed out, on the NUMA node that the calling thread's policy names, or runs on.
 */
#ifndef TRANSPORT_BASE_PAGES_H
#define TRANSPORT_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pages_map -- zeroed; *length: what was mapped, whole pages, to be given to munmap. NULL with errno set. */
void *pages_map(uint64_t bytes, uint64_t *length);
/*
 * pages_touch -- has the system give a mapping all of its pages now, zeroed where they are new, with as many threads as are of use: those are on processors that threads of
 * this process may use, with the memory policy of the calling one. writable: for writing. 0, or a positive errno: the pages are not to be had (ENOMEM, and EFAULT
 * where a touch would have been a SIGBUS).
 */
int pages_touch(void *address, uint64_t length, bool writable);
/* pages_touch_tells -- false: an old kernel, where pages that are not to be had are a SIGBUS. */
bool pages_touch_tells(void);
/* pages_touch_threads -- how many. */
unsigned pages_touch_threads(uint64_t length);
/* pages_describe -- for the log: which kinds of huge pages memory of this process can come in. */
void pages_describe(char *out, size_t bytes);

#endif
