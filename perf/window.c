/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/window.h"

/* window_begin -- see window.h. */
void window_begin(struct window *w, uint64_t now)
{
    *w = (struct window){.begin = now, .start = now, .last = now};
}

/* window_add -- see window.h. */
void window_add(struct window *w, uint64_t now, uint64_t bytes)
{
    w->last = now;
    w->open += bytes;
    w->bytes += bytes;
    if (now - w->start < WINDOW_NS)
        return;
    double rate = (double)w->open * 1e9 / (double)(now - w->start);
    w->slowest = w->count == 0 || rate < w->slowest ? rate : w->slowest;
    w->fastest = rate > w->fastest ? rate : w->fastest;
    w->count++;
    w->open = 0;
    w->start = now;
}

/* window_mean -- see window.h. */
double window_mean(const struct window *w)
{
    return w->last > w->begin ? (double)w->bytes * 1e9 / (double)(w->last - w->begin) : 0;
}
