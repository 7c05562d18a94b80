/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rows -- the rows of one push of a sparse variable, made ready to be sent: in rising order of their index, one row per index. Memory and time follow
 * the rows that are pushed, never the variable. Knows types only.
 */
#ifndef WORKER_SESSION_ROWS_H
#define WORKER_SESSION_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct rows_entry {
    uint64_t index;    /* of the variable */
    uint64_t position; /* among the rows as they were given */
};

/* Zero it before the first use. */
struct rows {
    size_t count; /* entries of the last rows_sort */
    size_t room;
    struct rows_entry *entries, *spare;
};

struct rows_format {
    int dtype;    /* of the elements */
    size_t width; /* elements of a row */
};

void rows_clear(struct rows *rows);
/* rows_bad -- the position of the first index that is not below `bound`, or count. */
size_t rows_bad(const uint64_t *indices, size_t count, uint64_t bound);
/* rows_sort -- orders by index, and by position where indices are equal. On an error what was sorted before is lost. Errors: ENOMEM. */
int rows_sort(struct rows *rows, const uint64_t *indices, size_t count);
/*
 * rows_put -- writes the indices of [first, end) that there are, each once, and their rows. Rows of one index are added in the order in which they were
 * given, in f64 where the elements are f64, else in f32, and rounded once. A row whose index is given once keeps its bits. Returns how many rows were written.
 */
size_t rows_put(const struct rows *rows, uint64_t first, uint64_t end, const struct rows_format *format,
                const void *values, uint64_t *indices, void *out);

#endif
