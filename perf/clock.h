/* SPDX-License-Identifier: BSD-3-Clause */
/* clock -- time for measuring, and what looking at it costs. */
#ifndef PERF_CLOCK_H
#define PERF_CLOCK_H

#include <stdint.h>

/* perf_clock_now -- nanoseconds of CLOCK_MONOTONIC_RAW, which no time daemon bends. */
uint64_t perf_clock_now(void);
/* perf_clock_cpu -- nanoseconds of processor time of this process, all threads, user and system. */
uint64_t perf_clock_cpu(void);
/* perf_clock_overhead -- nanoseconds that one look costs: the median of many. */
double perf_clock_overhead(void);

#endif
