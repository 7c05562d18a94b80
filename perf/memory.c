/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* memory_pages_of -- see memory.h. */
enum memory_pages memory_pages_of(const char *pages)
{
    return pages[0] == 'h' ? MEMORY_HUGE : MEMORY_SMALL;
}

/* memory_shared -- a memfd of some flags, mapped, with all of its pages. */
static void *memory_shared(size_t length, unsigned flags)
{
    int fd = memfd_create("stepgate-perf", MFD_CLOEXEC | flags);
    void *mapping = MAP_FAILED;

    if (fd < 0)
        return MAP_FAILED;
    if (fallocate(fd, 0, 0, (off_t)length) == 0)
        mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return mapping;
}

/* memory_map -- MAP_FAILED: it is not to be had. */
static void *memory_map(enum memory_pages pages, size_t length)
{
    if (pages != MEMORY_SHARED)
        return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *mapping = memory_shared(length, MFD_HUGETLB | MFD_HUGE_2MB);
    return mapping != MAP_FAILED ? mapping : memory_shared(length, 0);
}

/* memory_array -- see memory.h. */
float *memory_array(struct memory *memory, size_t n, char *text, size_t bytes)
{
    size_t k = memory->count, shift = (2 * k + 1) * MEMORY_LINE;
    size_t length = (n * sizeof(float) + shift + 2 * MEMORY_HUGE - 1) / MEMORY_HUGE * MEMORY_HUGE;
    unsigned long long there = memory_available();
    void *mapping = k < MEMORY_ARRAYS_MAX && (there == 0 || length < there)
                        ? memory_map(memory->pages, length)
                        : MAP_FAILED;

    if (mapping == MAP_FAILED) {
        snprintf(
            text, bytes,
            "array number %zu needs %zu MiB, and %llu MiB are left: ask for fewer --parameters or --slots",
            k + 1, length >> 20, there >> 20);
        return NULL;
    }
    (void)madvise(mapping, length, memory->pages == MEMORY_SMALL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
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
