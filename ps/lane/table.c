/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/table.h"

#include <stdlib.h>
#include <string.h>

#include "ps/mode/accumulator_rows.h"
#include "ps/optimizer/number.h"
#include "ps/protocol/model.h"
#include "transport/base/error.h"

struct table {
    const struct board *board;
    const struct plan_fragment *fragment;
    const struct model_variable *variable;
    uint64_t first_row, rows_max; /* of the piece */
    bool wide;                    /* computed in f64 */
    struct accumulator_rows sum;
    uint64_t *indices; /* [index_room] of one push */
    uint8_t *values;   /* the rows of one push, in the computing type */
    size_t index_room;
    uint8_t *mean; /* one row */
    uint64_t *touched;
    size_t touched_count, touched_room; /* rows that the step before has written */
};

/* table_new -- see table.h. */
int table_new(const struct board *board, const struct plan_fragment *fragment, struct table **out)
{
    struct table *table = calloc(1, sizeof(*table));
    const struct plan_piece *piece = &board->plan->by_shard[fragment->piece];

    if (table == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a sparse variable");
    table->board = board;
    table->fragment = fragment;
    table->variable = &board->declared->variables[fragment->variable];
    table->first_row = piece->first_element / table->variable->row_elements;
    table->rows_max = piece->rows_max;
    table->wide = table->variable->dtype == STEPGATE_F64;
    accumulator_rows_start(&table->sum, table->variable->dtype, (size_t)table->variable->row_elements);
    table->mean = malloc(table->variable->row_elements * plan_state_element(table->variable->dtype));
    if (table->mean == NULL) {
        table_delete(&table);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a row of %s",
                         board->declared->variables[fragment->variable].name);
    }
    *out = table;
    return 0;
}

/* table_delete -- frees, sets NULL. */
void table_delete(struct table **out)
{
    struct table *table = *out;

    if (table == NULL)
        return;
    accumulator_rows_free(&table->sum);
    free(table->indices);
    free(table->values);
    free(table->mean);
    free(table->touched);
    free(table);
    *out = NULL;
}

/* table_row_bytes -- of one row in the computing type. */
static size_t table_row_bytes(const struct table *table)
{
    return (size_t)table->variable->row_elements * (table->wide ? sizeof(double) : sizeof(float));
}

/* table_room -- for the indices and rows of one push. */
static int table_room(struct table *table, size_t n)
{
    if (n <= table->index_room)
        return 0;
    size_t room = n > 2 * table->index_room ? n : 2 * table->index_room;
    uint64_t *indices = realloc(table->indices, room * sizeof(*indices));
    if (indices != NULL)
        table->indices = indices;
    uint8_t *values = indices != NULL ? realloc(table->values, room * table_row_bytes(table)) : NULL;
    if (values == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows of %s", n, table->variable->name);
    table->values = values;
    table->index_room = room;
    return 0;
}

/* table_check -- the indices, already copied, rise and lie in this piece. */
static int table_check(const struct table *table, uint32_t rank, size_t n)
{
    const struct plan_piece *piece = &table->board->plan->by_shard[table->fragment->piece];
    uint64_t end = table->first_row + piece->elements / table->variable->row_elements;

    for (size_t i = 0; i < n; i++)
        if (table->indices[i] < table->first_row || table->indices[i] >= end ||
            (i > 0 && table->indices[i] <= table->indices[i - 1]))
            return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                             "worker %u pushed row %llu of %s, which is not next in %llu..%llu", rank,
                             (unsigned long long)table->indices[i], table->variable->name,
                             (unsigned long long)table->first_row, (unsigned long long)end - 1);
    return 0;
}

/* table_add -- see table.h. */
int table_add(struct table *table, const struct board_contribution *c)
{
    const struct board *board = table->board;
    const struct model_variable *v = table->variable;
    const uint8_t *slot =
        board->slots[c->rank].arena + c->slot * board->stride + table->fragment->slot_offset;
    uint64_t count;

    memcpy(&count, slot, sizeof(count));
    if (count > table->rows_max)
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "worker %u pushed %llu rows of %s, at most %llu fit", c->rank,
                         (unsigned long long)count, v->name, (unsigned long long)table->rows_max);
    size_t n = (size_t)count;
    int status = table_room(table, n);
    if (status != 0 || n == 0)
        return status;
    memcpy(table->indices, slot + PLAN_LINE, n * sizeof(uint64_t));
    status = table_check(table, c->rank, n);
    if (status != 0)
        return status;
    const uint8_t *rows = slot + plan_sparse_rows(table->rows_max);
    if (table->wide)
        number_widen_f64(v->gradient_dtype, rows, (double *)(void *)table->values, n * v->row_elements);
    else
        number_widen_f32(v->gradient_dtype, rows, (float *)(void *)table->values, n * v->row_elements);
    return accumulator_rows_add(&table->sum, table->indices, table->values, n, c->factor, c->weight);
}

/* table_gather -- merges the rows of the set; where they are accumulated as they come, they are there. */
static int table_gather(struct table *table)
{
    const struct board_order *order = &table->board->order;
    int status = 0;

    if (order->accumulated)
        return 0;
    accumulator_rows_clear(&table->sum);
    for (uint32_t i = 0; status == 0 && i < order->count; i++)
        status = table_add(table, &order->set[i]);
    return status;
}

/* table_mean -- the mean of merged row i: over those who brought it, or over everybody. */
static void *table_mean(struct table *table, size_t i)
{
    const struct board_order *order = &table->board->order;
    bool everybody =
        table->variable->row_mean == MODEL_ROW_MEAN_REPLICAS && table->board->declared->update != MODEL_TF;

#ifdef STEPGATE_MUTANT_ROW_MEAN_OVER_R
    everybody = true;
#endif
    accumulator_rows_mean(&table->sum, i, everybody ? order->divisor : 0, table->mean);
    return table->mean;
}

/* table_measure -- see table.h. */
int table_measure(struct table *table, struct exact_sum *measure)
{
    size_t width = (size_t)table->variable->row_elements;
    int dtype = table->wide ? NUMBER_F64 : NUMBER_F32;
    int status = table_gather(table);

    for (size_t i = 0; status == 0 && i < accumulator_rows_count(&table->sum); i++) {
        const uint8_t *mean = table_mean(table, i);
        for (size_t first = 0; first < width; first += NUMBER_NORM_MAX) {
            size_t n = width - first < NUMBER_NORM_MAX ? width - first : NUMBER_NORM_MAX;
            exact_add(measure, number_norm(dtype, mean + first * number_bytes(dtype), n));
        }
    }
    return status;
}

/* table_at -- a row in an arena; NULL stays NULL. */
static void *table_at(uint8_t *arena, uint64_t offset, uint64_t elements, size_t element)
{
    return arena != NULL ? arena + offset + elements * element : NULL;
}

/* table_row -- one step of merged row i. */
static void table_row(struct table *table, size_t i)
{
    const struct board *board = table->board;
    const struct model_variable *v = table->variable;
    const struct optimizer_variable options = {v->learning_rate_scale, v->decays};
    size_t width = (size_t)v->row_elements, element = number_bytes(v->dtype),
           wide = table->wide ? sizeof(double) : sizeof(float);
    uint64_t at = (accumulator_rows_index(&table->sum, i) - table->first_row) * width;
    uint64_t state = table->fragment->state_offset, offset = table->fragment->offset;
    unsigned parity = (unsigned)(board->order.step & 1);
    void *next = table_at(board->parameters[parity ^ 1u], offset, at, element);
    bool narrow = v->dtype != STEPGATE_F32 && v->dtype != STEPGATE_F64;
    void *from = narrow ? table_at(board->master, state, at, wide)
                        : table_at(board->parameters[parity], offset, at, element);
    void *to = narrow ? from : next, *average = v->average ? table_at(board->average, state, at, wide) : NULL;
    void *slots[OPTIMIZER_SLOTS_MAX] = {table_at(board->state[0], state, at, wide),
                                        table_at(board->state[1], state, at, wide)};

    if (table->wide) {
        double *wide_slots[OPTIMIZER_SLOTS_MAX] = {slots[0], slots[1]};
        optimizer_apply_f64(board->rule, &options, &board->order.hyper, table_mean(table, i), from, to,
                            wide_slots, average, width);
        return;
    }
    float *narrow_slots[OPTIMIZER_SLOTS_MAX] = {slots[0], slots[1]};
    optimizer_apply_f32(board->rule, &options, &board->order.hyper, table_mean(table, i), from, to,
                        narrow_slots, average, width);
    if (narrow)
        number_narrow_f32(v->dtype, to, next, width);
}

/* table_carry -- rows that the step before has written lie in one parity only: they go over, unless they are written anew. */
static void table_carry(struct table *table, bool all)
{
    const struct board *board = table->board;
    size_t row = (size_t)table->variable->row_elements * number_bytes(table->variable->dtype), i = 0;
    unsigned parity = (unsigned)(board->order.step & 1);
    size_t count = all ? 0 : accumulator_rows_count(&table->sum);
#ifdef STEPGATE_MUTANT_ROWS_NOT_CARRIED
    table->touched_count = 0;
#endif

    for (size_t t = 0; t < table->touched_count; t++) {
        uint64_t index = table->touched[t];
        while (i < count && accumulator_rows_index(&table->sum, i) < index)
            i++;
        if (i < count && accumulator_rows_index(&table->sum, i) == index)
            continue;
        uint64_t at = table->fragment->offset + (index - table->first_row) * row;
        memcpy(board->parameters[parity ^ 1u] + at, board->parameters[parity] + at, row);
    }
    table->touched_count = 0;
}

/* table_touch -- remembers the rows that are written now. */
static int table_touch(struct table *table)
{
    size_t count = accumulator_rows_count(&table->sum);

    if (count > table->touched_room) {
        uint64_t *more = realloc(table->touched, count * 2 * sizeof(*more));
        if (more == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu rows of %s", count,
                             table->variable->name);
        table->touched = more;
        table->touched_room = count * 2;
    }
    for (size_t i = 0; i < count; i++)
        table->touched[i] = accumulator_rows_index(&table->sum, i);
    table->touched_count = count;
    return 0;
}

/* table_step -- see table.h. */
int table_step(struct table *table)
{
    bool carry = table->board->order.kind == BOARD_CARRY;
    int status = carry ? 0 : table_gather(table);

    if (status != 0)
        return status;
    table_carry(table, carry);
    if (!carry) {
        for (size_t i = 0; i < accumulator_rows_count(&table->sum); i++)
            table_row(table, i);
        status = table_touch(table);
    }
#ifdef STEPGATE_MUTANT_ROWS_NOT_CLEARED
    if (table->board->order.accumulated)
        return status;
#endif
    accumulator_rows_clear(&table->sum);
    return status;
}
