/* SPDX-License-Identifier: BSD-3-Clause */
/* check -- how wrong the formulas of cost.h are: against whole jobs in virtual time, which is the same on every machine, and against jobs on this machine. */
#ifndef PERF_MODEL_CHECK_H
#define PERF_MODEL_CHECK_H

#include "perf/test.h"

/* check_run -- a row for each job. TEST_FAILED where a job in virtual time is farther from its prediction than the bound that stands in its row. */
enum test_end check_run(const struct settings *settings, struct report *report, char *text, size_t bytes);

#endif
