/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/pages.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif
#define PAGES_HUGE (UINT64_C(2) << 20)
#define PAGES_STRIDE (UINT64_C(16) << 20) /* what a thread takes at a time */
#define PAGES_THREADS_MAX 16U

/* What some threads touch together. */
struct pages_work {
    char *address;
    uint64_t length;
    bool writable;
    cpu_set_t processors;
    /* Relaxed: next only deals out strides; failed is read when all threads are joined, and before that only makes them stop early. */
    _Atomic uint64_t next;
    atomic_int failed; /* errno */
};

/* pages_anonymous -- a mapping; NULL with errno set. */
static void *pages_anonymous(uint64_t length, int flags)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

/* pages_stride -- one piece. A kernel that does not know how is helped by writes that change nothing, also of what another process writes. */
static int pages_stride(char *address, uint64_t length, bool writable)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    while (madvise(address, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
        if (errno == EINTR || errno == EAGAIN)
            continue;
        if (errno != EINVAL)
            return errno;
        for (uint64_t at = 0; at < length; at += page) {
            if (writable)
                __atomic_fetch_or(address + at, 0, __ATOMIC_RELAXED);
            else
                (void)*(volatile const char *)(address + at);
        }
        return 0;
    }
    return 0;
}

/* pages_work_do -- strides until there are none left. */
static void pages_work_do(struct pages_work *work)
{
    while (atomic_load_explicit(&work->failed, memory_order_relaxed) == 0) {
        uint64_t at = atomic_fetch_add_explicit(&work->next, PAGES_STRIDE, memory_order_relaxed);
        if (at >= work->length)
            return;
        uint64_t left = work->length - at;
        int error =
            pages_stride(work->address + at, left < PAGES_STRIDE ? left : PAGES_STRIDE, work->writable);
        if (error != 0)
            atomic_store_explicit(&work->failed, error, memory_order_relaxed);
    }
}

/* pages_helper -- a thread: on any processor that the process uses, though the one that made it may be bound to one. */
static void *pages_helper(void *context)
{
    struct pages_work *work = context;

    (void)sched_setaffinity(0, sizeof(work->processors), &work->processors);
    pages_work_do(work);
    return NULL;
}

/* pages_processors -- those that some thread of this process may use. */
static void pages_processors(cpu_set_t *out)
{
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;

    CPU_ZERO(out);
    (void)sched_getaffinity(0, sizeof(*out), out);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        cpu_set_t one;
        if (isdigit((unsigned char)entry->d_name[0]) &&
            sched_getaffinity((pid_t)atoi(entry->d_name), sizeof(one), &one) == 0)
            CPU_OR(out, out, &one);
    }
    if (folder != NULL)
        closedir(folder);
}

/* pages_threads -- one for each processor, if it has a few strides to do. */
static unsigned pages_threads(const cpu_set_t *processors, uint64_t length)
{
    uint64_t most = length / (2 * PAGES_STRIDE), there = (uint64_t)CPU_COUNT(processors);

    most = most < there ? most : there;
    return most < 1 ? 1 : most > PAGES_THREADS_MAX ? PAGES_THREADS_MAX : (unsigned)most;
}

/* pages_touch_threads -- see pages.h. */
unsigned pages_touch_threads(uint64_t length)
{
    cpu_set_t processors;

    pages_processors(&processors);
    return pages_threads(&processors, length);
}

/* pages_touch_tells -- see pages.h. */
bool pages_touch_tells(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *memory = pages_anonymous(page, 0);
    bool tells = memory != NULL && madvise(memory, page, MADV_POPULATE_WRITE) == 0;

    if (memory != NULL)
        munmap(memory, page);
    return tells;
}

/* pages_touch -- see pages.h. */
int pages_touch(void *address, uint64_t length, bool writable)
{
    struct pages_work work = {.address = address, .length = length, .writable = writable};
    pthread_t helpers[PAGES_THREADS_MAX];
    sigset_t all, before;
    unsigned started = 0;

    pages_processors(&work.processors);
    unsigned threads = pages_threads(&work.processors, length);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not for helpers */
    while (started + 1 < threads && pthread_create(&helpers[started], NULL, pages_helper, &work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pages_work_do(&work);
    for (unsigned i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    return atomic_load_explicit(&work.failed, memory_order_relaxed);
}

/*
 * pages_reserved -- huge pages of the system's pool; NULL: it has not enough. Populating fails where a touch would be a
 * SIGBUS: what was reserved for this mapping may lie on nodes that the process may not use.
 */
static void *pages_reserved(uint64_t bytes, uint64_t *length)
{
    uint64_t rounded = (bytes + PAGES_HUGE - 1) / PAGES_HUGE * PAGES_HUGE;
    void *memory = bytes >= PAGES_HUGE ? pages_anonymous(rounded, MAP_HUGETLB | MAP_HUGE_2MB) : NULL;

    if (memory == NULL)
        return NULL;
    if (pages_touch(memory, rounded, true) != 0) {
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
    int error = pages_touch(memory, rounded, true);
    if (error != 0) {
        munmap(memory, rounded);
        errno = error;
        return NULL;
    }
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
