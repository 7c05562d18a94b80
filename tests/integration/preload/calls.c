/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls -- put before the C library by LD_PRELOAD: counts a process's allocations, and the locks that it takes, from its start to its
 * end, where "allocations N locks N" goes into the file named by STEPGATE_TEST_CALLS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library's own, under the names that it keeps for this. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

/* Relaxed: they are only sums, read when all threads are gone or no longer count. */
static atomic_ullong calls_allocations, calls_locks;

typedef int (*calls_lock)(void *lock);

/* calls_allocation -- one more. */
static void calls_allocation(void)
{
    atomic_fetch_add_explicit(&calls_allocations, 1, memory_order_relaxed);
}

/* calls_next -- counts a lock, and takes it by the C library's function, found once. */
static int calls_next(_Atomic(calls_lock) *known, const char *name, void *lock)
{
    calls_lock next = atomic_load_explicit(known, memory_order_relaxed);

    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(known, next, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&calls_locks, 1, memory_order_relaxed);
    return next(lock);
}

/* malloc and the others -- as the C library's. */
void *malloc(size_t bytes)
{
    calls_allocation();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    calls_allocation();
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    calls_allocation();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    calls_allocation();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *memory = aligned_alloc(alignment, bytes);

    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}

int pthread_mutex_lock(pthread_mutex_t *lock)
{
    static _Atomic(calls_lock) known;

    return calls_next(&known, "pthread_mutex_lock", lock);
}

int pthread_mutex_trylock(pthread_mutex_t *lock)
{
    static _Atomic(calls_lock) known;

    return calls_next(&known, "pthread_mutex_trylock", lock);
}

int pthread_spin_lock(pthread_spinlock_t *lock)
{
    static _Atomic(calls_lock) known;

    return calls_next(&known, "pthread_spin_lock", (void *)lock);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    static _Atomic(calls_lock) known;

    return calls_next(&known, "pthread_rwlock_rdlock", lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    static _Atomic(calls_lock) known;

    return calls_next(&known, "pthread_rwlock_wrlock", lock);
}

/* calls_write -- at the end of the process. */
static __attribute__((destructor)) void calls_write(void)
{
    unsigned long long allocations = atomic_load(&calls_allocations), locks = atomic_load(&calls_locks);
    const char *name = getenv("STEPGATE_TEST_CALLS");
    FILE *file = name != NULL ? fopen(name, "w") : NULL;

    if (file != NULL) {
        fprintf(file, "allocations %llu locks %llu\n", allocations, locks);
        fclose(file);
    }
}
