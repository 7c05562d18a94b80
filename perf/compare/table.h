/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table -- all comparisons by name, and the row that each prints: what, ours, theirs, in which unit, the ratio (more than 1: ours is better), and the
 * goal that the ratio is to reach.
 */
#ifndef PERF_COMPARE_TABLE_H
#define PERF_COMPARE_TABLE_H

#include "perf/test.h"

extern const struct perf_test compare_ddp, compare_memory, compare_mpi, compare_perftest, compare_prefault,
    compare_scaling;

/* compare_at -- comparison number i; NULL: no more. */
const struct perf_test *compare_at(size_t i);

/* compare_columns -- the columns of every comparison. */
void compare_columns(struct report *report);
/* compare_row -- one case; ratio is computed by the caller, goal 0: for information. Returns whether the goal is reached. */
bool compare_row(struct report *report, const char *what, double ours, double theirs, const char *unit,
                 double ratio, double goal);
/* compare_median -- of at least one value, which it sorts; the upper one of the two in the middle. */
double compare_median(double *values, size_t count);
/* compare_end -- TEST_OK, or TEST_FAILED with a line that says how many rows miss their goal. */
enum test_end compare_end(size_t missed, size_t rows, char *text, size_t bytes);

#endif
