/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines -- two cache lines that two processes write in turn, each spinning on the other's: the least that a word each way can cost on this
 * machine, and what a transport in shared memory is compared with.
 */
#ifndef PERF_LINES_H
#define PERF_LINES_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "perf/histogram.h"

/* Pairs of lines are fetched together. */
struct lines {
    alignas(128) _Atomic uint64_t
        there; /* stored by the measuring process, release; loaded by its peer, acquire */
    alignas(128) _Atomic uint64_t back; /* the other way round */
};

/* lines_new -- in memory that a process made later shares. NULL: no memory. */
struct lines *lines_new(void);
/* lines_delete -- sets NULL, safe on NULL. */
void lines_delete(struct lines **lines);
/* lines_ping -- so many round trips; NULL: nothing is measured. */
void lines_ping(struct lines *lines, uint64_t iterations, struct histogram *histogram);
/* lines_stop -- the peer's lines_answer returns. */
void lines_stop(struct lines *lines);
/* lines_answer -- the peer's part. */
void lines_answer(struct lines *lines);

#endif
