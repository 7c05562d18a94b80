/* SPDX-License-Identifier: BSD-3-Clause */
/* plot -- a picture of a result that goes through several sizes. */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

#include <jansson.h>
#include <stddef.h>

/* plot_draw -- bytes across, bandwidth or latency up; gnuplot draws. 0, or -1 with one line in `text`: what is missing, and the remedy. */
int plot_draw(const json_t *result, const char *path, char *text, size_t bytes);

#endif
