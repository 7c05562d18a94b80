/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/mode/accumulator_rows.h"

#include <stdlib.h>

#include "stepgate/model.h"
#include "transport/base/error.h"

#define ROWS_ROOM_FIRST 16

/* accumulator_rows_start -- no rows, no memory. */
void accumulator_rows_start(struct accumulator_rows *rows, int dtype, size_t width)
{
    *rows = (struct accumulator_rows){.wide = dtype == STEPGATE_F64, .width = width};
}

/* accumulator_rows_free -- gives the memory back. */
void accumulator_rows_free(struct accumulator_rows *rows)
{
    free(rows->entries);
    free(rows->merged);
    free(rows->weights);
    free(rows->sums);
    *rows = (struct accumulator_rows){.wide = rows->wide, .width = rows->width};
}

/* accumulator_rows_clear -- the next round. */
void accumulator_rows_clear(struct accumulator_rows *rows)
{
    rows->count = 0;
}

/* accumulator_rows_element -- bytes. */
static size_t accumulator_rows_element(const struct accumulator_rows *rows)
{
    return rows->wide ? sizeof(double) : sizeof(float);
}

/* accumulator_rows_resize -- one array; on failure it stays as it is. */
static bool accumulator_rows_resize(void **array, size_t room, size_t bytes)
{
    size_t size;
    void *more = __builtin_mul_overflow(room, bytes, &size) ? NULL : realloc(*array, size > 0 ? size : 1);

    if (more != NULL)
        *array = more;
    return more != NULL;
}

/* accumulator_rows_reserve -- room for `more` new rows. */
static int accumulator_rows_reserve(struct accumulator_rows *rows, size_t more)
{
    size_t room = rows->room > 0 ? rows->room : ROWS_ROOM_FIRST, row_bytes;

    while (room - rows->count < more && room <= SIZE_MAX / 2)
        room *= 2;
    if (room == rows->room)
        return 0;
    if (room - rows->count < more ||
        __builtin_mul_overflow(rows->width, accumulator_rows_element(rows), &row_bytes) ||
        !accumulator_rows_resize((void **)&rows->entries, room, sizeof(*rows->entries)) ||
        !accumulator_rows_resize((void **)&rows->merged, room, sizeof(*rows->merged)) ||
        !accumulator_rows_resize((void **)&rows->weights, room, sizeof(*rows->weights)) ||
        !accumulator_rows_resize(&rows->sums, room, row_bytes))
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows of %zu elements", room, rows->width);
    rows->room = room;
    return 0;
}

/* accumulator_rows_new -- how many of these indices are not there yet. */
static size_t accumulator_rows_new(const struct accumulator_rows *rows, const uint64_t *indices, size_t n)
{
    size_t fresh = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        while (at < rows->count && rows->entries[at].index < indices[i])
            at++;
        fresh += at == rows->count || rows->entries[at].index != indices[i];
    }
    return fresh;
}

/* accumulator_rows_f32 -- one row into its sum. */
static void accumulator_rows_f32(float *sum, const float *row, size_t width, float factor, bool fresh)
{
    for (size_t i = 0; i < width; i++) {
        float part = factor == 1 ? row[i] : factor * row[i];
        sum[i] = fresh ? part : sum[i] + part;
    }
}

/* accumulator_rows_f64 -- the same in f64. */
static void accumulator_rows_f64(double *sum, const double *row, size_t width, double factor, bool fresh)
{
    for (size_t i = 0; i < width; i++) {
        double part = factor == 1 ? row[i] : factor * row[i];
        sum[i] = fresh ? part : sum[i] + part;
    }
}

/* accumulator_rows_one -- row number i of `values` into the sum at a place. */
static void accumulator_rows_one(struct accumulator_rows *rows, size_t place, const void *values, size_t i,
                                 double factor, bool fresh)
{
    size_t w = rows->width;

    rows->weights[place] = fresh ? factor : rows->weights[place] + factor;
    if (rows->wide)
        accumulator_rows_f64((double *)rows->sums + place * w, (const double *)values + i * w, w, factor,
                             fresh);
    else
        accumulator_rows_f32((float *)rows->sums + place * w, (const float *)values + i * w, w, (float)factor,
                             fresh);
}

/* accumulator_rows_merge -- both lists are sorted; sums stay where they are, only entries move. */
static void accumulator_rows_merge(struct accumulator_rows *rows, const uint64_t *indices, const void *values,
                                   size_t n, double factor)
{
    size_t at = 0, out = 0, places = rows->count;
    struct accumulator_rows_entry *entries = rows->entries;

    for (size_t i = 0; i < n; i++) {
        while (at < rows->count && entries[at].index < indices[i])
            rows->merged[out++] = entries[at++];
        bool fresh = at == rows->count || entries[at].index != indices[i];
        rows->merged[out] = fresh ? (struct accumulator_rows_entry){indices[i], places++} : entries[at++];
        accumulator_rows_one(rows, rows->merged[out++].place, values, i, factor, fresh);
    }
    while (at < rows->count)
        rows->merged[out++] = entries[at++];
    rows->entries = rows->merged;
    rows->merged = entries;
    rows->count = out;
}

/* accumulator_rows_add -- all of one contribution, or nothing. */
int accumulator_rows_add(struct accumulator_rows *rows, const uint64_t *indices, const void *values, size_t n,
                         double factor)
{
    for (size_t i = 1; i < n; i++)
        if (indices[i] <= indices[i - 1])
            return error_set(STEPGATE_EINVAL, 0, "sort the rows and merge equal ones",
                             "row %llu follows row %llu", (unsigned long long)indices[i],
                             (unsigned long long)indices[i - 1]);
    int status = accumulator_rows_reserve(rows, accumulator_rows_new(rows, indices, n));
    if (status == 0 && n > 0)
        accumulator_rows_merge(rows, indices, values, n, factor);
    return status;
}

/* accumulator_rows_count -- different indices. */
size_t accumulator_rows_count(const struct accumulator_rows *rows)
{
    return rows->count;
}

/* accumulator_rows_index -- of row i. */
uint64_t accumulator_rows_index(const struct accumulator_rows *rows, size_t i)
{
    return rows->entries[i].index;
}

/* accumulator_rows_weight -- of row i. */
double accumulator_rows_weight(const struct accumulator_rows *rows, size_t i)
{
    return rows->weights[rows->entries[i].place];
}

/* accumulator_rows_mean -- a true division. */
void accumulator_rows_mean(const struct accumulator_rows *rows, size_t i, double divisor, void *out)
{
    size_t place = rows->entries[i].place, w = rows->width;
    double by = divisor != 0 ? divisor : rows->weights[place];
    const double *wide = (const double *)rows->sums + (rows->wide ? place * w : 0);
    const float *narrow = (const float *)rows->sums + (rows->wide ? 0 : place * w);

    for (size_t e = 0; e < w; e++)
        if (rows->wide)
            ((double *)out)[e] = wide[e] / by;
        else
            ((float *)out)[e] = narrow[e] / (float)by;
}
