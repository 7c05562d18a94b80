/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/session/rows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ps/optimizer/number.h"
#include "transport/base/error.h"

#define ROWS_FEW 48        /* up to here insertion is faster than counting */
#define ROWS_DIGIT_BITS 11 /* of an index: what one pass sorts by; its counters fit the innermost cache */
#define ROWS_DIGITS (1u << ROWS_DIGIT_BITS)
#define ROWS_BLOCK 256 /* elements that are widened at a time, on the stack */

/* rows_clear -- frees, and is as good as new. */
void rows_clear(struct rows *rows)
{
    free(rows->entries);
    free(rows->spare);
    *rows = (struct rows){0};
}

/* rows_bad -- see the header. */
size_t rows_bad(const uint64_t *indices, size_t count, uint64_t bound)
{
    size_t i = 0;

    while (i < count && indices[i] < bound)
        i++;
    return i;
}

/* rows_reserve -- room for so many entries, twice: counting moves them from one array to the other. */
static int rows_reserve(struct rows *rows, size_t count)
{
    if (count <= rows->room)
        return 0;
    size_t room = count > 2 * rows->room ? count : 2 * rows->room;
    rows_clear(rows);
    rows->entries = malloc(room * sizeof(*rows->entries));
    rows->spare = malloc(room * sizeof(*rows->spare));
    if (rows->entries == NULL || rows->spare == NULL) {
        rows_clear(rows);
        return error_set(STEPGATE_ENOMEM, 0, "free memory, or push fewer rows", "no memory to sort %zu rows",
                         count);
    }
    rows->room = room;
    return 0;
}

/* rows_insert -- for a few. Entries of one index keep their order. */
static void rows_insert(struct rows_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct rows_entry one = entries[i];
        size_t at = i;
        for (; at > 0 && entries[at - 1].index > one.index; at--)
            entries[at] = entries[at - 1];
        entries[at] = one;
    }
}

/* rows_pass -- sorts by one digit into the spare array, and takes that for the entries. Entries of one digit keep their order. */
static void rows_pass(struct rows *rows, unsigned shift)
{
    size_t place[ROWS_DIGITS] = {0}, next = 0;

    for (size_t i = 0; i < rows->count; i++)
        place[rows->entries[i].index >> shift & (ROWS_DIGITS - 1)]++;
    for (size_t d = 0; d < ROWS_DIGITS; d++) {
        size_t here = place[d];
        place[d] = next;
        next += here;
    }
    for (size_t i = 0; i < rows->count; i++)
        rows->spare[place[rows->entries[i].index >> shift & (ROWS_DIGITS - 1)]++] = rows->entries[i];
    struct rows_entry *keep = rows->entries;
    rows->entries = rows->spare;
    rows->spare = keep;
}

/* rows_sort -- see the header. */
int rows_sort(struct rows *rows, const uint64_t *indices, size_t count)
{
    int status = rows_reserve(rows, count);
    bool sorted = true;
    uint64_t bits = 0;

    if (status != 0)
        return status;
    rows->count = count;
    for (size_t i = 0; i < count; i++) {
        rows->entries[i] = (struct rows_entry){indices[i], i};
        bits |= indices[i];
        sorted = sorted && (i == 0 || indices[i - 1] <= indices[i]);
    }
    if (sorted)
        return 0;
    if (count <= ROWS_FEW) {
        rows_insert(rows->entries, count);
        return 0;
    }
    for (unsigned shift = 0; shift < 64 && bits >> shift != 0; shift += ROWS_DIGIT_BITS)
        rows_pass(rows, shift);
    return 0;
}

/* rows_from -- the first entry whose index is not below `index`. */
static size_t rows_from(const struct rows *rows, uint64_t index)
{
    size_t low = 0, high = rows->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->entries[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* rows_add_wide -- adds the rows of entries[first..end) in f64. */
static void rows_add_wide(const struct rows_entry *entries, size_t count, size_t width, const double *values,
                          double *out)
{
    memcpy(out, values + entries[0].position * width, width * sizeof(*out));
    for (size_t e = 1; e < count; e++) {
        const double *row = values + entries[e].position * width;
        for (size_t i = 0; i < width; i++)
            out[i] += row[i];
    }
}

/* rows_add -- the same for what is added in f32, block by block. */
static void rows_add(const struct rows_entry *entries, size_t count, const struct rows_format *format,
                     const uint8_t *values, uint8_t *out)
{
    size_t element = number_bytes(format->dtype), width = format->width;
    float sum[ROWS_BLOCK], row[ROWS_BLOCK];

    for (size_t first = 0; first < width; first += ROWS_BLOCK) {
        size_t n = width - first < ROWS_BLOCK ? width - first : ROWS_BLOCK;
        number_widen_f32(format->dtype, values + (entries[0].position * width + first) * element, sum, n);
        for (size_t e = 1; e < count; e++) {
            number_widen_f32(format->dtype, values + (entries[e].position * width + first) * element, row, n);
            for (size_t i = 0; i < n; i++)
                sum[i] += row[i];
        }
        number_narrow_f32(format->dtype, sum, out + first * element, n);
    }
}

/* rows_put -- see the header. */
size_t rows_put(const struct rows *rows, uint64_t first, uint64_t end, const struct rows_format *format,
                const void *values, uint64_t *indices, void *out)
{
    size_t bytes = format->width * number_bytes(format->dtype), written = 0;

    for (size_t i = rows_from(rows, first); i < rows->count && rows->entries[i].index < end;) {
        const struct rows_entry *entry = &rows->entries[i];
        uint8_t *row = (uint8_t *)out + written * bytes;
        size_t same = 1;
#ifndef STEPGATE_MUTANT_ROWS_NOT_MERGED
        while (i + same < rows->count && entry[same].index == entry->index)
            same++;
#endif
        if (same == 1)
            memcpy(row, (const uint8_t *)values + entry->position * bytes, bytes);
        else if (format->dtype == NUMBER_F64)
            rows_add_wide(entry, same, format->width, values, (double *)(void *)row);
        else
            rows_add(entry, same, format, values, row);
        indices[written++] = entry->index;
        i += same;
    }
    return written;
}
