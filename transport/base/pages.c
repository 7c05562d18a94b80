/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif
#define PAGES_HUGE (UINT64_C(2) << 20)

/* pages_anonymous -- a mapping; NULL with errno set. */
static void *pages_anonymous(uint64_t length, int flags)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

/*
 * pages_reserved -- huge pages of the system's pool; NULL: it has not enough. Populated in one call, which fails where a touch would be a
 * SIGBUS: what was reserved for this mapping may lie on nodes that the process may not use.
 */
static void *pages_reserved(uint64_t bytes, uint64_t *length)
{
    uint64_t rounded = (bytes + PAGES_HUGE - 1) / PAGES_HUGE * PAGES_HUGE;
    void *memory = bytes >= PAGES_HUGE ? pages_anonymous(rounded, MAP_HUGETLB | MAP_HUGE_2MB) : NULL;

    if (memory == NULL)
        return NULL;
    if (madvise(memory, rounded, MADV_POPULATE_WRITE) != 0) {
        munmap(memory, rounded);
        return NULL;
    }
    *length = rounded;
    return memory;
}

/* pages_map -- see pages.h. */
void *pages_map(uint64_t bytes, uint64_t *length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = pages_reserved(bytes, length);
    if (memory != NULL)
        return memory;
    uint64_t rounded = (bytes + page - 1) / page * page;
    memory = pages_anonymous(rounded, 0);
    if (memory == NULL)
        return NULL;
    if (rounded >= PAGES_HUGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); /* only advice: small pages do as well */
    for (uint64_t at = 0; at < rounded; at += page)
        ((volatile char *)memory)[at] = 0;
    *length = rounded;
    return memory;
}

/* pages_choice -- the word in brackets of a file such as "always [madvise] never"; "never" if it cannot be read. */
static void pages_choice(const char *path, char *out, size_t bytes)
{
    char line[128] = "";
    FILE *file = fopen(path, "re");

    if (file != NULL && fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    char *from = strchr(line, '['), *to = from != NULL ? strchr(from, ']') : NULL;
    if (to != NULL)
        *to = '\0';
    snprintf(out, bytes, "%s", to != NULL ? from + 1 : "never");
}

/* pages_free -- huge pages of 2 MiB that are left in the pool. */
static unsigned long long pages_free(void)
{
    unsigned long long count = 0;
    FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu", &count) != 1)
        count = 0;
    fclose(file);
    return count;
}

/* pages_describe -- see pages.h. */
void pages_describe(char *out, size_t bytes)
{
    unsigned long long reserved = pages_free();
    char private[32], shared[32];

    pages_choice("/sys/kernel/mm/transparent_hugepage/enabled", private, sizeof(private));
    pages_choice("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shared, sizeof(shared));
    bool lend = strcmp(private, "never") != 0;
    bool lend_shared = strcmp(shared, "never") != 0 && strcmp(shared, "deny") != 0;
    snprintf(out, bytes, "huge pages: %llu reserved ones of 2 MiB, transparent ones %s", reserved,
             lend && lend_shared ? "for all memory"
             : lend              ? "for all but shared memory"
             : lend_shared       ? "for shared memory only"
                                 : "for none");
}
