/* SPDX-License-Identifier: BSD-3-Clause */
/* window -- a rate over time: windows of 100 ms, of which the slowest and the fastest are told beside the mean. Only whole windows count for them. */
#ifndef PERF_WINDOW_H
#define PERF_WINDOW_H

#include <stdint.h>

#define WINDOW_NS UINT64_C(100000000)

struct window {
    uint64_t begin, start, last; /* of all, of the window that is open, of the last event */
    uint64_t open, bytes;        /* bytes of the open window, and of all */
    uint64_t count;              /* whole windows */
    double slowest, fastest;     /* bytes per second */
};

/* window_begin -- nothing has been moved at `now`. */
void window_begin(struct window *window, uint64_t now);
/* window_add -- so many bytes have been moved by `now`. A window ends with the first event behind its 100 ms, and lasts until then. */
void window_add(struct window *window, uint64_t now, uint64_t bytes);
/* window_mean -- bytes per second from the begin to the last event; 0 if no time has passed. */
double window_mean(const struct window *window);

#endif
