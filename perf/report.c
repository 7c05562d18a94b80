/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "perf/condition.h"
#include "perf/plot.h"

struct report {
    json_t *object, *rows, *notes, *row;
    struct report_column columns[REPORT_COLUMNS_MAX];
    size_t column_count;
    const char *json, *csv, *plot;
    FILE *screen; /* stderr, if the result itself goes to standard output */
    bool headed;
};

const struct report_column report_latency_columns[] = {
    {"iterations", "iters", 1, 0},         {"lat_ns_min", "min us", 1e3, 2},
    {"lat_ns_p50", "p50 us", 1e3, 2},      {"lat_ns_p90", "p90 us", 1e3, 2},
    {"lat_ns_p99", "p99 us", 1e3, 2},      {"lat_ns_p999", "p99.9 us", 1e3, 2},
    {"lat_ns_p9999", "p99.99 us", 1e3, 2}, {"lat_ns_max", "max us", 1e3, 2},
    {"lat_ns_mean", "mean us", 1e3, 2},    {"lat_ns_stdev", "stdev us", 1e3, 2},
};
const size_t report_latency_column_count = sizeof(report_latency_columns) / sizeof(report_latency_columns[0]);

const struct report_column report_bandwidth_columns[] = {
    {"bw_bytes_per_s", "GB/s", 1e9, 3},         {"bw_bytes_per_s", "GiB/s", 1073741824.0, 3},
    {"bw_bytes_per_s_min", "min GB/s", 1e9, 3}, {"bw_bytes_per_s_max", "max GB/s", 1e9, 3},
    {"messages_per_s", "kmsg/s", 1e3, 2},
};
const size_t report_bandwidth_column_count =
    sizeof(report_bandwidth_columns) / sizeof(report_bandwidth_columns[0]);

/* report_new -- see report.h. */
struct report *report_new(const char *test, const struct settings *settings, uint64_t takes)
{
    struct report *report = calloc(1, sizeof(*report));
    char line[256];

    if (report == NULL)
        return NULL;
    report->json = settings->json;
    report->csv = settings->csv;
    report->plot = settings->plot;
    bool own = (report->json != NULL && strcmp(report->json, "-") == 0) ||
               (report->csv != NULL && strcmp(report->csv, "-") == 0);
    report->screen = own ? stderr : stdout;
    report->object = json_object();
    report->rows = json_array();
    report->notes = json_array();
    report->row = json_object();
    json_object_set_new(report->object, "schema", json_integer(REPORT_SCHEMA));
    json_object_set_new(report->object, "test", json_string(test));
    json_object_set_new(report->object, "settings", settings_object(settings, takes));
    json_object_set_new(report->object, "conditions", condition_new());
    json_object_set(report->object, "rows", report->rows);
    json_object_set(report->object, "notes", report->notes);
    condition_line(json_object_get(report->object, "conditions"), line, sizeof(line));
    fprintf(report->screen, "%s on %s\n", test, line);
    return report;
}

/* report_delete -- frees, sets NULL. */
void report_delete(struct report **out)
{
    struct report *report = *out;

    if (report == NULL)
        return;
    json_decref(report->object);
    json_decref(report->rows);
    json_decref(report->notes);
    json_decref(report->row);
    free(report);
    *out = NULL;
}

/* report_columns -- see report.h. */
void report_columns(struct report *report, const struct report_column *columns, size_t n)
{
    for (size_t i = 0; i < n && report->column_count < REPORT_COLUMNS_MAX; i++)
        report->columns[report->column_count++] = columns[i];
}

/* report_condition -- see report.h. */
void report_condition(struct report *report, const char *key, json_t *value)
{
    json_object_set_new(json_object_get(report->object, "conditions"), key, value);
}

/* report_number -- see report.h. */
void report_number(struct report *report, const char *key, double value)
{
    json_t *number = !isfinite(value) || value < 0           ? json_null()
                     : value == floor(value) && value < 9e15 ? json_integer((json_int_t)value)
                                                             : json_real(value);

    json_object_set_new(report->row, key, number);
}

/* report_text -- see report.h. */
void report_text(struct report *report, const char *key, const char *value)
{
    json_object_set_new(report->row, key, json_string(value));
}

/* report_width -- of a column on the screen. */
static int report_width(const struct report_column *column)
{
    int least = column->scale == 0 ? 26 : 10, title = (int)strlen(column->title);

    return title > least ? title : least;
}

/* report_cell -- one field on the screen. */
static void report_cell(const struct report *report, const struct report_column *column)
{
    const json_t *value = json_object_get(report->row, column->key);
    int width = report_width(column);

    if (column->scale == 0)
        fprintf(report->screen, "%-*s", width, json_is_string(value) ? json_string_value(value) : "");
    else if (json_is_number(value))
        fprintf(report->screen, "%*.*f", width, column->decimals, json_number_value(value) / column->scale);
    else
        fprintf(report->screen, "%*s", width, value == NULL ? "" : "n small");
}

/* report_print -- the row that is being filled, below a heading if it is the first. */
static void report_print(struct report *report)
{
    const char *between = "";

    for (size_t i = 0; !report->headed && i < report->column_count; i++) {
        const struct report_column *column = &report->columns[i];
        if (column->title == NULL)
            continue;
        fprintf(report->screen, column->scale == 0 ? "%s%-*s" : "%s%*s", between, report_width(column),
                column->title);
        between = "  ";
    }
    if (!report->headed)
        fputc('\n', report->screen);
    report->headed = true;
    between = "";
    for (size_t i = 0; i < report->column_count; i++) {
        if (report->columns[i].title == NULL)
            continue;
        fputs(between, report->screen);
        report_cell(report, &report->columns[i]);
        between = "  ";
    }
    fputc('\n', report->screen);
    fflush(report->screen);
}

/* report_row -- see report.h. */
void report_row(struct report *report)
{
    bool shown = false;

    for (size_t i = 0; i < report->column_count; i++)
        shown = shown || report->columns[i].title != NULL;
    if (shown)
        report_print(report);
    json_array_append_new(report->rows, report->row);
    report->row = json_object();
}

/* report_note -- see report.h. */
void report_note(struct report *report, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(report->screen, "%s\n", line);
    json_array_append_new(report->notes, json_string(line));
}

/* report_screen -- see report.h. */
FILE *report_screen(struct report *report)
{
    return report->screen;
}

/* report_object -- see report.h. */
json_t *report_object(struct report *report)
{
    return report->object;
}

/* report_is_new -- is this the first column with its key? Two may show one value in two units. */
static bool report_is_new(const struct report *report, size_t column)
{
    for (size_t i = 0; i < column; i++)
        if (strcmp(report->columns[i].key, report->columns[column].key) == 0)
            return false;
    return true;
}

/* report_csv_field -- a text is quoted, a null is empty. */
static void report_csv_field(FILE *file, const json_t *value)
{
    if (json_is_integer(value))
        fprintf(file, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(file, "%.17g", json_real_value(value));
    else if (json_is_string(value)) {
        fputc('"', file);
        for (const char *c = json_string_value(value); *c != '\0'; c++) {
            if (*c == '"')
                fputc('"', file);
            fputc(*c, file);
        }
        fputc('"', file);
    }
}

/* report_write_csv -- a heading of keys, then the rows. */
static void report_write_csv(const struct report *report, FILE *file)
{
    size_t index;
    const json_t *row;

    for (size_t i = 0, n = 0; i < report->column_count; i++)
        if (report_is_new(report, i))
            fprintf(file, "%s%s", n++ > 0 ? "," : "", report->columns[i].key);
    fputc('\n', file);
    json_array_foreach(report->rows, index, row)
    {
        for (size_t i = 0, n = 0; i < report->column_count; i++) {
            if (!report_is_new(report, i))
                continue;
            if (n++ > 0)
                fputc(',', file);
            report_csv_field(file, json_object_get(row, report->columns[i].key));
        }
        fputc('\n', file);
    }
}

/* report_write_json -- one object. */
static void report_write_json(const struct report *report, FILE *file)
{
    json_dumpf(report->object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    fputc('\n', file);
}

/* report_write -- to a file, or to standard output. */
static int report_write(const struct report *report, const char *path,
                        void (*write)(const struct report *, FILE *), char *text, size_t bytes)
{
    bool screen = strcmp(path, "-") == 0;
    FILE *file = screen ? stdout : fopen(path, "we");

    if (file != NULL)
        write(report, file);
    if (file == NULL || fflush(file) != 0 || ferror(file) || (!screen && fclose(file) != 0)) {
        snprintf(text, bytes, "cannot write %s: %m: name a file in a folder that can be written", path);
        return -1;
    }
    return 0;
}

/* report_finish -- see report.h. */
int report_finish(struct report *report, char *text, size_t bytes)
{
    if (report->json != NULL && report_write(report, report->json, report_write_json, text, bytes) != 0)
        return -1;
    if (report->csv != NULL && report_write(report, report->csv, report_write_csv, text, bytes) != 0)
        return -1;
    return report->plot != NULL ? plot_draw(report->object, report->plot, text, bytes) : 0;
}

/* report_latency -- fills the latency columns; share: 0.5 where a round trip was timed and one way is told. */
void report_latency(struct report *report, const struct histogram *h, double share)
{
    static const struct {
        const char *key;
        double share;
    } rows[] = {{"lat_ns_p50", 0.5},
                {"lat_ns_p90", 0.9},
                {"lat_ns_p99", 0.99},
                {"lat_ns_p999", 0.999},
                {"lat_ns_p9999", 0.9999}};

    report_number(report, "iterations", (double)h->count);
    report_number(report, "lat_ns_min", h->count > 0 ? (double)h->min * share : -1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        report_number(report, rows[i].key, histogram_percentile(h, rows[i].share) * share);
    report_number(report, "lat_ns_max", h->count > 0 ? (double)h->max * share : -1);
    report_number(report, "lat_ns_mean", h->count > 0 ? h->mean * share : -1);
    report_number(report, "lat_ns_stdev", h->count > 1 ? histogram_deviation(h) * share : -1);
}

/* report_bandwidth -- fills the bandwidth columns. */
void report_bandwidth(struct report *report, const struct window *w, uint64_t message_bytes)
{
    double mean = window_mean(w);

    report_number(report, "bw_bytes_per_s", mean);
    report_number(report, "bw_bytes_per_s_min", w->count > 0 ? w->slowest : -1);
    report_number(report, "bw_bytes_per_s_max", w->count > 0 ? w->fastest : -1);
    report_number(report, "messages_per_s", mean / (double)message_bytes);
}
