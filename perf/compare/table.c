/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/compare/table.h"

#include <stdio.h>
#include <stdlib.h>

static const struct perf_test *const compare_table[] = {
    &compare_ddp, &compare_memory, &compare_mpi, &compare_perftest, &compare_prefault, &compare_scaling};

/* compare_at -- see table.h. */
const struct perf_test *compare_at(size_t i)
{
    return i < sizeof(compare_table) / sizeof(compare_table[0]) ? compare_table[i] : NULL;
}

/* compare_order -- for qsort. */
static int compare_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* compare_median -- see table.h. */
double compare_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_order);
    return values[count / 2];
}

/* compare_columns -- see table.h. */
void compare_columns(struct report *report)
{
    static const struct report_column columns[] = {
        {"case", "case", 0, 0},   {"ours", "ours", 1, 3}, {"theirs", "theirs", 1, 3},  {"unit", "unit", 0, 0},
        {"ratio", "ratio", 1, 3}, {"goal", "goal", 1, 2}, {"verdict", "verdict", 0, 0}};

    report_columns(report, columns, sizeof(columns) / sizeof(columns[0]));
}

/* compare_row -- see table.h. */
bool compare_row(struct report *report, const char *what, double ours, double theirs, const char *unit,
                 double ratio, double goal)
{
    bool reached = ratio >= goal;

    report_text(report, "case", what);
    report_number(report, "ours", ours);
    report_number(report, "theirs", theirs);
    report_text(report, "unit", unit);
    report_number(report, "ratio", ratio);
    report_number(report, "goal", goal);
    report_text(report, "verdict", goal == 0 ? "for information" : reached ? "reached" : "missed");
    report_row(report);
    return reached;
}

/* compare_end -- see table.h. */
enum test_end compare_end(size_t missed, size_t rows, char *text, size_t bytes)
{
    if (missed == 0)
        return TEST_OK;
    snprintf(
        text, bytes,
        "%zu of %zu rows miss their goal: look whether other programs use this machine, and run it again",
        missed, rows);
    return TEST_FAILED;
}
