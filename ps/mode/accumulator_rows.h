/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accumulator_rows -- the sum of sparse gradients, row by row. Rows are merged by index; memory grows with the rows that are pushed, not with
 * the table they come from, and is kept from round to round. Numbers only: what is stale is decided elsewhere. No threads.
 *
 * Everything is in the computing type, f32 or f64. A row starts as the first gradient that holds it, in the order of the adds:
 *   s = g; s += g; ...        with a factor f other than 1: p = f*g, s = p or s += p; each product and sum rounded
 */
#ifndef PS_MODE_ACCUMULATOR_ROWS_H
#define PS_MODE_ACCUMULATOR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct accumulator_rows {
    bool wide;    /* f64, not f32 */
    size_t width; /* elements of a row */
    size_t count, room;
    /* by rising index: the index, and where its sum lies */
    struct accumulator_rows_entry {
        uint64_t index;
        size_t place;
    } * entries, *merged;
    /* by place, in the order in which the rows first came */
    double *
        weights; /* of the contributions that held the row: their factors added up; their number, where all factors are 1 */
    void *sums;
};

/* accumulator_rows_start -- no rows; dtype is STEPGATE_F32 or STEPGATE_F64. accumulator_rows_free frees what came after. */
void accumulator_rows_start(struct accumulator_rows *rows, int dtype, size_t width);
void accumulator_rows_free(struct accumulator_rows *rows);
/* accumulator_rows_clear -- no rows; the memory is kept. */
void accumulator_rows_clear(struct accumulator_rows *rows);
/*
 * accumulator_rows_add -- n rows of one contribution: values are n x width of the computing type. Indices rise strictly. Errors: EINVAL (they do not; nothing
 * is added), ENOMEM (the same).
 */
int accumulator_rows_add(struct accumulator_rows *rows, const uint64_t *indices, const void *values, size_t n,
                         double factor);
/* accumulator_rows_count -- rows there are; accumulator_rows_index -- of row i < count, rising. */
size_t accumulator_rows_count(const struct accumulator_rows *rows);
uint64_t accumulator_rows_index(const struct accumulator_rows *rows, size_t i);
/* accumulator_rows_weight -- what row i is divided by if each row has its own divisor. */
double accumulator_rows_weight(const struct accumulator_rows *rows, size_t i);
/* accumulator_rows_mean -- row i divided (truly, in the computing type) by divisor, or, where that is 0, by the row's own weight. */
void accumulator_rows_mean(const struct accumulator_rows *rows, size_t i, double divisor, void *out);

#endif
