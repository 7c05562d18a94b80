/* SPDX-License-Identifier: BSD-3-Clause */
/* memory -- arrays to measure with: written once, each at its own odd multiple of a cache line, so that no two share their page offsets. */
#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stddef.h>

#define MEMORY_ARRAYS_MAX 80

/* What an array lies on. */
enum memory_pages {
    MEMORY_SMALL, /* small pages, of one process */
    MEMORY_HUGE,  /* huge ones, if there are any */
    MEMORY_SHARED /* what processes share, as the shm transport has it: of the system's reserve of huge pages, or else what it gives */
};

struct memory {
    struct {
        void *mapping, *bytes;
        size_t length;
    } array[MEMORY_ARRAYS_MAX];
    size_t count;
    enum memory_pages pages;
};

/* memory_pages_of -- of the option --pages: "huge" or "small". */
enum memory_pages memory_pages_of(const char *pages);
/* memory_array -- n floats, element i is (i mod 251 - 125) / 64. NULL with one line in `text`: not enough memory, with both numbers. */
float *memory_array(struct memory *memory, size_t n, char *text, size_t bytes);
/* memory_free -- all of them. */
void memory_free(struct memory *memory);

#endif
