/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/lines.h"

#include <stddef.h>
#include <sys/mman.h>

#include "perf/clock.h"

#define LINES_OVER UINT64_MAX

/* lines_new -- see lines.h. */
struct lines *lines_new(void)
{
    void *memory =
        mmap(NULL, sizeof(struct lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* lines_delete -- see lines.h. */
void lines_delete(struct lines **lines)
{
    if (*lines != NULL)
        munmap(*lines, sizeof(**lines));
    *lines = NULL;
}

/* lines_ping -- see lines.h. */
void lines_ping(struct lines *lines, uint64_t iterations, struct histogram *histogram)
{
    for (uint64_t i = 0; i < iterations; i++) {
        uint64_t begin = perf_clock_now(),
                 next = atomic_load_explicit(&lines->back, memory_order_relaxed) + 1;
        atomic_store_explicit(&lines->there, next, memory_order_release);
        while (atomic_load_explicit(&lines->back, memory_order_acquire) != next)
            ;
        if (histogram != NULL)
            histogram_add(histogram, perf_clock_now() - begin);
    }
}

/* lines_stop -- see lines.h. */
void lines_stop(struct lines *lines)
{
    atomic_store_explicit(&lines->there, LINES_OVER, memory_order_release);
}

/* lines_answer -- see lines.h. What it saw last is what it answered last, so that it may be called again. */
void lines_answer(struct lines *lines)
{
    uint64_t seen = atomic_load_explicit(&lines->back, memory_order_relaxed), there;

    for (;;) {
        while ((there = atomic_load_explicit(&lines->there, memory_order_acquire)) == seen)
            ;
        if (there == LINES_OVER)
            break;
        atomic_store_explicit(&lines->back, there, memory_order_release);
        seen = there;
    }
    atomic_store_explicit(&lines->there, seen, memory_order_release);
}
