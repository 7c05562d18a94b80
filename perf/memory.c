/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#define MEMORY_LINE 64
#define MEMORY_HUGE ((size_t)2 << 20)

/* memory_available -- bytes that can be had without swapping; 0: unknown. */
static unsigned long long memory_available(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

/* memory_array -- see memory.h. */
float *memory_array(struct memory *memory, size_t n, char *text, size_t bytes)
{
    size_t k = memory->count, shift = (2 * k + 1) * MEMORY_LINE;
    size_t length = (n * sizeof(float) + shift + 2 * MEMORY_HUGE - 1) / MEMORY_HUGE * MEMORY_HUGE;
    unsigned long long there = memory_available();
    void *mapping = k < MEMORY_ARRAYS_MAX && (there == 0 || length < there)
                        ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                        : MAP_FAILED;

    if (mapping == MAP_FAILED) {
        snprintf(
            text, bytes,
            "array number %zu needs %zu MiB, and %llu MiB are left: ask for fewer --parameters or --slots",
            k + 1, length >> 20, there >> 20);
        return NULL;
    }
    (void)madvise(mapping, length, memory->huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    uintptr_t from = ((uintptr_t)mapping + MEMORY_HUGE - 1) / MEMORY_HUGE * MEMORY_HUGE;
    float *array = (float *)(void *)((char *)mapping + (from - (uintptr_t)mapping) + shift);
    for (size_t i = 0; i < n; i++)
        array[i] = ((float)(i % 251) - 125) / 64;
    memory->array[k].mapping = mapping;
    memory->array[k].length = length;
    memory->array[k].bytes = array;
    memory->count++;
    return array;
}

/* memory_free -- see memory.h. */
void memory_free(struct memory *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        munmap(memory->array[i].mapping, memory->array[i].length);
    memory->count = 0;
}
