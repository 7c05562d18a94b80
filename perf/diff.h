/* SPDX-License-Identifier: BSD-3-Clause */
/* diff -- two results of the same test, row by row, with a verdict that knows the noise. */
#ifndef PERF_DIFF_H
#define PERF_DIFF_H

#include <stdio.h>

#include "perf/test.h"

/*
 * diff_files -- prints a line for each row of both, its figure of merit before and after, the change and a verdict: faster, slower, or the same
 * within the noise of the two runs. TEST_OK; TEST_FAILED if a row is slower, or missing in the second; TEST_REFUSED with one line in `text`: the
 * files cannot be compared.
 *
 * Noise of a row: for latencies three standard errors of the median as the deviation and the number of samples give them, for rates the span of the
 * 100 ms windows, of both files together; at least 2 %, or what `least` says.
 */
enum test_end diff_files(const char *before, const char *after, double least, FILE *screen, char *text,
                         size_t bytes);

#endif
