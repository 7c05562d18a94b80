/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES_HUGE_BYTES ((size_t)2 << 20)

/* pages_name -- see pages.h. */
const char *pages_name(enum pages_kind kind)
{
    static const char *const names[PAGES_KINDS] = {"4 KiB", "transparent huge", "huge"};

    return names[kind];
}

/* pages_collapsed -- bytes of a mapping under which the system has put huge pages. */
static size_t pages_collapsed(const struct pages *pages)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    uintptr_t want = (uintptr_t)pages->address, from, to;
    unsigned long long kib = 0;
    bool ours = false;
    char line[512];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2)
            ours = want >= from && want < to;
        else if (ours && sscanf(line, "AnonHugePages: %llu", &kib) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    return (size_t)kib * 1024;
}

/* pages_map -- from a multiple of a huge page on; one more than is needed, to find it. */
static int pages_map(struct pages *pages, enum pages_kind kind, size_t bytes)
{
    size_t whole = (bytes + PAGES_HUGE_BYTES - 1) / PAGES_HUGE_BYTES * PAGES_HUGE_BYTES;

    pages->length = kind == PAGES_HUGE ? whole : whole + PAGES_HUGE_BYTES;
    pages->mapping = mmap(NULL, pages->length, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (kind == PAGES_HUGE ? MAP_HUGETLB : 0), -1, 0);
    if (pages->mapping == MAP_FAILED)
        return -1;
    pages->address =
        (char *)pages->mapping + (-(uintptr_t)pages->mapping & (uintptr_t)(PAGES_HUGE_BYTES - 1));
    if (kind != PAGES_HUGE)
        (void)madvise(pages->mapping, pages->length,
                      kind == PAGES_TRANSPARENT ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return 0;
}

/* pages_new -- see pages.h. */
int pages_new(struct pages *pages, enum pages_kind kind, size_t bytes, char *why, size_t why_bytes)
{
    if (pages_map(pages, kind, bytes) != 0) {
        snprintf(why, why_bytes, "%s", kind == PAGES_HUGE ? "none free (vm.nr_hugepages)" : "no memory");
        return -1;
    }
    memset(pages->address, 1, bytes);
    size_t whole = bytes / PAGES_HUGE_BYTES * PAGES_HUGE_BYTES, got;
    if (kind != PAGES_TRANSPARENT || (got = pages_collapsed(pages)) >= whole)
        return 0;
    pages_free(pages);
    snprintf(why, why_bytes, "%zu of %zu MiB to be had", got >> 20, whole >> 20);
    return -1;
}

/* pages_free -- see pages.h. */
void pages_free(struct pages *pages)
{
    munmap(pages->mapping, pages->length);
    *pages = (struct pages){NULL, NULL, 0};
}
