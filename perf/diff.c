/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/diff.h"

#include <math.h>
#include <string.h>

/* What a row is judged by, in this order; `up`: more is better. */
static const struct diff_merit {
    const char *key, *unit;
    bool up;
    double scale;
} diff_merits[] = {
    {"ratio", "ratio", true, 1},
    {"bw_bytes_per_s", "GB/s", true, 1e9},
    {"write_bw_bytes_per_s", "GB/s", true, 1e9},
    {"step_ns_p50", "us", false, 1e3},
    {"lat_ns_p50", "us", false, 1e3},
    {"rate_per_s", "/s", true, 1},
};

/* diff_number -- of a row; NaN: it has none. */
static double diff_number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* diff_merit -- the first figure that both rows have; NULL: none. */
static const struct diff_merit *diff_merit(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < sizeof(diff_merits) / sizeof(diff_merits[0]); i++)
        if (isfinite(diff_number(a, diff_merits[i].key)) && isfinite(diff_number(b, diff_merits[i].key)))
            return &diff_merits[i];
    return NULL;
}

/* diff_name -- what a row is a row of: its texts and its counts, "size_bytes=64 workers_count=2". */
static void diff_name(const json_t *row, char *out, size_t bytes)
{
    const char *key;
    json_t *value;
    size_t length = 0;

    out[0] = '\0';
    json_object_foreach((json_t *)row, key, value)
    {
        size_t n = strlen(key);
        bool count = n > 6 && strcmp(key + n - 6, "_count") == 0;
        if (length >= bytes)
            return;
        if (json_is_string(value) && strcmp(key, "verdict") != 0)
            length += (size_t)snprintf(out + length, bytes - length, "%s%s", length > 0 ? ", " : "",
                                       json_string_value(value));
        else if (json_is_integer(value) && (count || strcmp(key, "size_bytes") == 0))
            length += (size_t)snprintf(out + length, bytes - length, "%s%s %lld", length > 0 ? ", " : "", key,
                                       (long long)json_integer_value(value));
    }
}

/* diff_find -- the row of this name; NULL: there is none. */
static const json_t *diff_find(const json_t *rows, const char *name)
{
    char other[256];
    const json_t *row;
    size_t index;

    json_array_foreach(rows, index, row)
    {
        diff_name(row, other, sizeof(other));
        if (strcmp(name, other) == 0)
            return row;
    }
    return NULL;
}

/* diff_noise -- of one row, as a share of its figure. */
static double diff_noise(const json_t *row, const struct diff_merit *merit)
{
    double value = diff_number(row, merit->key), deviation = diff_number(row, "lat_ns_stdev"),
           n = diff_number(row, "iterations");
    double slowest = diff_number(row, "bw_bytes_per_s_min"), fastest = diff_number(row, "bw_bytes_per_s_max");

    if (strcmp(merit->key, "lat_ns_p50") == 0 && isfinite(deviation) && n > 0 && value > 0)
        return 3 * 1.2533 * deviation / sqrt(n) / value; /* of the median of a normal sample */
    if (strcmp(merit->key, "bw_bytes_per_s") == 0 && isfinite(slowest) && isfinite(fastest) && value > 0)
        return (fastest - slowest) / 2 / value;
    return 0;
}

/* diff_load -- a result; NULL with one line in `text`. */
static json_t *diff_load(const char *path, char *text, size_t bytes)
{
    json_error_t error;
    json_t *result = json_load_file(path, 0, &error);

    if (result == NULL)
        snprintf(text, bytes, "cannot read %s (%s): give a file that --json wrote", path, error.text);
    else if (json_integer_value(json_object_get(result, "schema")) != REPORT_SCHEMA ||
             !json_is_array(json_object_get(result, "rows")) ||
             !json_is_string(json_object_get(result, "test"))) {
        snprintf(text, bytes,
                 "%s is no result of this version of stepgate-perf: give a file that --json wrote", path);
        json_decref(result);
        return NULL;
    }
    return result;
}

/* diff_row -- one line; true: it is no worse. */
static bool diff_row(const json_t *a, const json_t *b, const char *name, double least, FILE *screen)
{
    const struct diff_merit *merit = b != NULL ? diff_merit(a, b) : NULL;

    if (merit == NULL) {
        fprintf(screen, "%-48s  %s\n", name,
                b == NULL ? "is missing in the second" : "has no figure to compare");
        return b != NULL;
    }
    double before = diff_number(a, merit->key), after = diff_number(b, merit->key);
    double noise = hypot(diff_noise(a, merit), diff_noise(b, merit)),
           change = before != 0 ? after / before - 1 : 0;
    noise = noise > least ? noise : least;
    double gain = merit->up ? change : -change;
    fprintf(screen, "%-48s  %12.3f  %12.3f  %-6s  %+7.1f %%  +- %5.1f %%  %s\n", name, before / merit->scale,
            after / merit->scale, merit->unit, 100 * change, 100 * noise,
            gain > noise    ? "faster"
            : gain < -noise ? "slower"
                            : "the same");
    return gain >= -noise;
}

/* diff_rows -- all rows of the first. */
static enum test_end diff_rows(const json_t *a, const json_t *b, double least, FILE *screen)
{
    const json_t *rows = json_object_get(a, "rows"), *others = json_object_get(b, "rows"), *row;
    enum test_end end = TEST_OK;
    char name[256];
    size_t index;

    fprintf(screen, "%-48s  %12s  %12s  %-6s  %9s  %10s  verdict\n", "row", "before", "after", "unit",
            "change", "noise");
    json_array_foreach(rows, index, row)
    {
        diff_name(row, name, sizeof(name));
        if (!diff_row(row, diff_find(others, name), name, least, screen))
            end = TEST_FAILED;
    }
    return end;
}

/* diff_files -- see diff.h. */
enum test_end diff_files(const char *before, const char *after, double least, FILE *screen, char *text,
                         size_t bytes)
{
    json_t *a = diff_load(before, text, bytes), *b = a != NULL ? diff_load(after, text, bytes) : NULL;
    enum test_end end = TEST_REFUSED;

    text[0] = a != NULL && b != NULL ? '\0' : text[0];
    if (a != NULL && b != NULL) {
        const char *one = json_string_value(json_object_get(a, "test")),
                   *other = json_string_value(json_object_get(b, "test"));
        if (strcmp(one, other) != 0)
            snprintf(text, bytes, "%s is of the test %s and %s of %s: compare results of one test", before,
                     one, after, other);
        else if (json_array_size(json_object_get(a, "rows")) == 0)
            snprintf(text, bytes, "%s has no rows", before);
        else
            end = diff_rows(a, b, least, screen);
    }
    json_decref(a);
    json_decref(b);
    if (end == TEST_FAILED)
        snprintf(text, bytes, "some rows are slower by more than the noise");
    return end;
}
