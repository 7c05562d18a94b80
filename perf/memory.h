/* SPDX-License-Identifier: BSD-3-Clause */
/* memory -- arrays to measure with: written once, on huge or small pages, each at its own odd multiple of a cache line, so that no two share their page offsets. */
#ifndef PERF_MEMORY_H
#define PERF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define MEMORY_ARRAYS_MAX 80

struct memory {
    struct {
        void *mapping, *bytes;
        size_t length;
    } array[MEMORY_ARRAYS_MAX];
    size_t count;
    bool huge;
};

/* memory_array -- n floats, element i is (i mod 251 - 125) / 64. NULL with one line in `text`: not enough memory, with both numbers. */
float *memory_array(struct memory *memory, size_t n, char *text, size_t bytes);
/* memory_free -- all of them. */
void memory_free(struct memory *memory);

#endif
