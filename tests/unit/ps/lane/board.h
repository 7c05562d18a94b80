/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board -- for tests of the lane's work: the boards of a whole model in plain memory, one per shard, without links and threads. Every arena begins
 * behind a page and ends before one that nobody may touch; what lies between its end and that page, and between its pieces, keeps a pattern.
 */
#ifndef TESTS_UNIT_PS_LANE_BOARD_H
#define TESTS_UNIT_PS_LANE_BOARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ps/lane/apply.h"
#include "ps/lane/board.h"
#include "ps/optimizer/number.h"
#include "ps/protocol/model.h"

#define BOARD_SHARDS_MAX 4
#define BOARD_LANES_MAX 4
#define BOARD_ARENAS_MAX 128
#define BOARD_PATTERN 0xa5
#define BOARD_PAGE ((size_t)4096)

/* Memory between two pages that are out of bounds. */
struct board_arena {
    uint8_t *memory;
    size_t bytes, length; /* asked for; with the rest of its last page and both forbidden ones */
};

struct board_shard {
    struct board board;
    struct apply *apply[BOARD_LANES_MAX];
};

/* A model that lies on shards. */
struct board_case {
    const struct model *model;
    struct plan *plan;
    uint32_t workers, depth, shards, lanes;
    struct board_shard shard[BOARD_SHARDS_MAX];
    struct board_arena arenas[BOARD_ARENAS_MAX];
    size_t arena_count;
};

/* board_arena -- memory that is filled with a byte. */
static inline uint8_t *board_arena(struct board_case *c, size_t bytes, int fill)
{
    size_t length = (bytes + BOARD_PAGE - 1) / BOARD_PAGE * BOARD_PAGE + 2 * BOARD_PAGE;
    uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    assert_true(c->arena_count < BOARD_ARENAS_MAX);
    memset(memory, BOARD_PATTERN, length);
    memset(memory + BOARD_PAGE, fill, bytes);
    assert_int_equal(mprotect(memory, BOARD_PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(memory + length - BOARD_PAGE, BOARD_PAGE, PROT_NONE), 0);
    c->arenas[c->arena_count++] = (struct board_arena){memory, bytes, length};
    return memory + BOARD_PAGE;
}

/* board_states -- the private arenas, as a shard makes them. */
static inline void board_states(struct board_case *c, struct board *board)
{
    const struct model *m = c->model;
    size_t bytes = (size_t)board->shard->state_bytes;

    for (unsigned s = 0; s < board->rule->slots; s++)
        board->state[s] = board_arena(c, bytes, BOARD_PATTERN);
    for (size_t v = 0; v < m->count && board->master == NULL; v++)
        if (model_dtype_bytes(m->variables[v].dtype) < sizeof(float))
            board->master = board_arena(c, bytes, BOARD_PATTERN);
    if (m->average_decay > 0)
        board->average = board_arena(c, bytes, BOARD_PATTERN);
    if (m->update == MODEL_TF)
        board->sums = board_arena(c, bytes, BOARD_PATTERN);
    if (board->shard->aux_bytes > 0)
        board->aux = board_arena(c, (size_t)board->shard->aux_bytes * c->workers, 0);
}

/* board_slots -- what workers write into. */
static inline void board_slots(struct board_case *c, struct board *board)
{
    board->stride = slot_stride(board->shard->slot_bytes);
    board->slots = calloc(c->workers, sizeof(*board->slots));
    assert_non_null(board->slots);
    for (uint32_t w = 0; w < c->workers; w++) {
        size_t bytes = (size_t)(c->depth * board->stride);
        if (w == 0 && bytes < board->shard->arena_bytes)
            bytes = (size_t)board->shard->arena_bytes;
        board->slots[w].arena = board_arena(c, bytes, 0x5a);
    }
}

/* board_open -- places a checked model. */
static inline void board_open(struct board_case *c, const struct model *model, uint32_t workers,
                              uint32_t depth, const struct plan_options *options)
{
    *c = (struct board_case){.model = model,
                             .workers = workers,
                             .depth = depth,
                             .shards = options->shards,
                             .lanes = options->lanes};
    assert_int_equal(plan_new(model, options, &c->plan), 0);
    for (uint32_t s = 0; s < c->shards; s++) {
        struct board *board = &c->shard[s].board;
        board->workers = workers;
        board->lanes = c->lanes;
        board->depth = depth;
        board->declared = model;
        board->plan = c->plan;
        board->shard = &c->plan->shard[s];
        board->rule = optimizer_rule(model->optimizer, model->torch);
        for (int p = 0; p < 2; p++)
            board->parameters[p] = board_arena(c, (size_t)board->shard->arena_bytes, BOARD_PATTERN);
        board_states(c, board);
        board_slots(c, board);
        board->order.set = calloc((size_t)workers * depth, sizeof(*board->order.set));
        board->measures = calloc(c->lanes, sizeof(*board->measures));
        assert_true(board->order.set != NULL && board->measures != NULL);
        for (uint32_t l = 0; l < c->lanes; l++)
            assert_int_equal(apply_new(board, l, &c->shard[s].apply[l]), 0);
    }
}

/* board_close -- frees; what lies behind an arena must be as it was. */
static inline void board_close(struct board_case *c)
{
    for (uint32_t s = 0; s < c->shards; s++) {
        struct board *board = &c->shard[s].board;
        for (uint32_t l = 0; l < c->lanes; l++) {
            apply_delete(&c->shard[s].apply[l]);
            assert_null(c->shard[s].apply[l]);
        }
        free(board->slots);
        free(board->order.set);
        free(board->measures);
    }
    for (size_t a = 0; a < c->arena_count; a++) {
        const struct board_arena *arena = &c->arenas[a];
        for (size_t i = BOARD_PAGE + arena->bytes; i < arena->length - BOARD_PAGE; i++)
            assert_int_equal(arena->memory[i], BOARD_PATTERN);
        munmap(arena->memory, arena->length);
    }
    plan_delete(&c->plan);
}

/* board_run -- carries an order out on every shard, lane by lane; the first error, or 0. */
static inline int board_run(struct board_case *c, const struct board_order *order)
{
    int first = 0;

    for (uint32_t s = 0; s < c->shards; s++) {
        struct board *board = &c->shard[s].board;
        struct board_contribution *set = board->order.set;
        uint8_t *target = board->order.target;
        if (order->count > 0)
            memcpy(set, order->set, order->count * sizeof(*set));
        board->order = *order;
        board->order.set = set;
        board->order.target = target;
        for (uint32_t l = c->lanes; l-- > 0;) {
            apply_begin(c->shard[s].apply[l]);
            for (uint32_t g = 0; g < board->shard->groups; g++) {
                int status = apply_span(c->shard[s].apply[l], g);
                first = first != 0 ? first : status;
            }
        }
    }
    return first;
}

/* board_measured -- the sum of squares over all lanes and shards. */
static inline double board_measured(const struct board_case *c)
{
    struct exact_sum sum;

    exact_clear(&sum);
    for (uint32_t s = 0; s < c->shards; s++)
        for (uint32_t l = 0; l < c->lanes; l++)
            exact_merge(&sum, &c->shard[s].board.measures[l]);
    return exact_round(&sum);
}

/* board_slot -- where a worker puts what it pushes of a piece. */
static inline uint8_t *board_slot(struct board_case *c, uint32_t rank, uint32_t slot,
                                  const struct plan_piece *piece)
{
    const struct board *board = &c->shard[piece->shard].board;

    return board->slots[rank].arena + slot * board->stride + piece->slot_offset;
}

/* board_put -- pushes a trained, assigned or aux variable; values is NULL where it is absent (assigned, aux). */
static inline void board_put(struct board_case *c, uint32_t rank, uint32_t slot, uint32_t v,
                             const void *values)
{
    const struct model_variable *variable = &c->model->variables[v];
    size_t element = model_dtype_bytes(variable->gradient_dtype);
    uint64_t there = values != NULL;

    for (size_t p = c->plan->variable_first[v]; p < c->plan->variable_first[v + 1]; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        uint8_t *at = board_slot(c, rank, slot, piece);
        if (variable->kind != STEPGATE_TRAINED)
            memcpy(at, &there, sizeof(there));
        if (values != NULL)
            memcpy(at + plan_values(variable->kind), (const uint8_t *)values + piece->first_element * element,
                   (size_t)(piece->elements * element));
    }
}

/* board_put_rows -- pushes rows of a sparse variable, each to the piece that has it. */
static inline void board_put_rows(struct board_case *c, uint32_t rank, uint32_t slot, uint32_t v,
                                  const uint64_t *indices, size_t n, const void *rows)
{
    const struct model_variable *variable = &c->model->variables[v];
    size_t row = (size_t)variable->row_elements * model_dtype_bytes(variable->gradient_dtype);

    for (size_t p = c->plan->variable_first[v]; p < c->plan->variable_first[v + 1]; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        uint64_t first = piece->first_element / variable->row_elements, count = 0,
                 end = first + piece->elements / variable->row_elements;
        uint8_t *at = board_slot(c, rank, slot, piece);
        for (size_t i = 0; i < n; i++) {
            if (indices[i] < first || indices[i] >= end)
                continue;
            assert_true(count < piece->rows_max);
            memcpy(at + PLAN_LINE + count * sizeof(uint64_t), &indices[i], sizeof(uint64_t));
            memcpy(at + plan_sparse_rows(piece->rows_max) + count * row, (const uint8_t *)rows + i * row,
                   row);
            count++;
        }
        memcpy(at, &count, sizeof(count));
    }
}

/* board_put_initial -- worker 0's initial value of a variable, which lies as in the parameter arena. */
static inline void board_put_initial(struct board_case *c, uint32_t v, const void *values)
{
    for (size_t p = c->plan->variable_first[v]; p < c->plan->variable_first[v + 1]; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        memcpy(c->shard[piece->shard].board.slots[0].arena + piece->offset,
               (const uint8_t *)values + piece->first, (size_t)piece->bytes);
    }
}

enum board_place {
    BOARD_EVEN,
    BOARD_ODD,
    BOARD_FIRST,
    BOARD_SECOND,
    BOARD_MASTER,
    BOARD_AVERAGE,
    BOARD_TARGET
};

/* board_at -- an arena of a shard. */
static inline uint8_t *board_at(const struct board *board, enum board_place place)
{
    switch (place) {
    case BOARD_EVEN: return board->parameters[0];
    case BOARD_ODD: return board->parameters[1];
    case BOARD_FIRST: return board->state[0];
    case BOARD_SECOND: return board->state[1];
    case BOARD_MASTER: return board->master;
    case BOARD_AVERAGE: return board->average;
    default: return board->order.target;
    }
}

/* board_get -- gathers a variable from its pieces, from an arena laid out as parameters or as state. */
static inline void board_get(const struct board_case *c, enum board_place place, bool state, uint32_t v,
                             void *out)
{
    const struct model_variable *variable = &c->model->variables[v];
    size_t element = state ? (size_t)plan_state_element(variable->dtype) : model_dtype_bytes(variable->dtype);

    for (size_t p = c->plan->variable_first[v]; p < c->plan->variable_first[v + 1]; p++) {
        const struct plan_piece *piece = &c->plan->by_variable[p];
        memcpy((uint8_t *)out + piece->first_element * element,
               board_at(&c->shard[piece->shard].board, place) + (state ? piece->state_offset : piece->offset),
               (size_t)piece->elements * element);
    }
}

/* board_gaps -- what lies between the pieces of both parameter arenas is as it was. */
static inline void board_gaps(const struct board_case *c)
{
    for (uint32_t s = 0; s < c->shards; s++) {
        const struct board *board = &c->shard[s].board;
        uint64_t end = 0;
        for (size_t p = board->shard->first_piece; p <= board->shard->first_piece + board->shard->pieces;
             p++) {
            bool last = p == board->shard->first_piece + board->shard->pieces;
            const struct plan_piece *piece = &c->plan->by_shard[p];
            if (!last && c->model->variables[piece->variable].kind == STEPGATE_AUX)
                continue;
            for (; end < (last ? board->shard->arena_bytes : piece->offset); end++)
                assert_true(board->parameters[0][end] == BOARD_PATTERN &&
                            board->parameters[1][end] == BOARD_PATTERN);
            if (!last)
                end = piece->offset + piece->bytes;
        }
    }
}

#endif
