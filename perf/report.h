/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report -- what a test found: rows of numbers, printed as they come, and at the end written as CSV and as one JSON object
 *
 *   {"schema": 1, "test": NAME, "settings": {...}, "conditions": {...}, "rows": [{KEY: NUMBER | TEXT | null, ...}, ...]}
 *
 * with the unit in each key (lat_ns_p99, bw_bytes_per_s). null: too few samples to say.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <jansson.h>
#include <stddef.h>

#include "perf/histogram.h"
#include "perf/settings.h"
#include "perf/window.h"

#define REPORT_SCHEMA 1
#define REPORT_COLUMNS_MAX 32

struct report_column {
    const char *key;   /* in JSON and CSV, ends with the unit */
    const char *title; /* on the screen, with the unit that is shown; NULL: not shown */
    double scale;      /* what is shown is the value divided by it; 0: a text */
    int decimals;
};

struct report;

/* report_new -- with the run conditions of this machine. NULL: no memory. */
struct report *report_new(const char *test, const struct settings *settings, uint64_t takes);
void report_delete(struct report **report);
/* report_columns -- adds columns; every test does so before its first row. */
void report_columns(struct report *report, const struct report_column *columns, size_t n);
/* report_condition -- one more condition, which the test knows; takes the value over. */
void report_condition(struct report *report, const char *key, json_t *value);
/* report_set, report_number, report_text -- fields of the row that is being filled. A number that is negative or none becomes null. */
void report_number(struct report *report, const char *key, double value);
void report_text(struct report *report, const char *key, const char *value);
/* report_row -- the row is complete: it is printed, below a heading if it is the first; where no column is shown, nothing is. */
void report_row(struct report *report);
/* report_note -- a line below the rows, and in the JSON's "notes". */
void report_note(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* report_screen -- where rows are printed to. */
FILE *report_screen(struct report *report);
/* report_object -- the whole as it stands; the report keeps it. */
json_t *report_object(struct report *report);
/* report_finish -- writes --json, --csv and --plot. 0, or -1 with one line in `text`. */
int report_finish(struct report *report, char *text, size_t bytes);

/* Columns that several tests have, and what fills them. */
extern const struct report_column report_latency_columns[];
extern const size_t report_latency_column_count;
void report_latency(struct report *report, const struct histogram *histogram, double share);
extern const struct report_column report_bandwidth_columns[];
extern const size_t report_bandwidth_column_count;
void report_bandwidth(struct report *report, const struct window *window, uint64_t message_bytes);

#endif
