/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/model.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* model_span -- this lane's part of a group. */
static const struct plan_span *model_span(const struct lane_model *model, uint32_t group)
{
    return &model->board->shard->spans[group][model->lane];
}

/* lane_model_new -- see the header. */
int lane_model_new(struct board *board, uint32_t lane, struct lane_model **out)
{
    struct lane_model *model = calloc(1, sizeof(*model));

    if (model == NULL)
        goto no_memory;
    model->board = board;
    model->lane = lane;
    model->initial = true;
    model->arrivals = calloc((size_t)board->workers * board->depth, sizeof(*model->arrivals));
    model->announce = calloc(board->workers, 1);
    model->out = calloc(board->workers, sizeof(*model->out));
    if (model->arrivals == NULL || model->announce == NULL || model->out == NULL ||
        apply_new(board, lane, &model->apply) != 0 || apply_watch(model->apply, model->arrivals) != 0)
        goto free_model;
    for (uint32_t w = 0; w < board->workers; w++)
        model->out[w] = board->slots[w].arena == NULL; /* who comes late gets its slots then */
    for (uint32_t g = 0; g < board->shard->groups; g++)
        if (model_span(model, g)->fragments > 0)
            model->all |= (uint8_t)(1u << g);
    *out = model;
    return 0;

free_model:
    lane_model_delete(&model);
no_memory:
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for model %u in a lane", board->model);
}

/* lane_model_delete -- NULL: nothing. */
void lane_model_delete(struct lane_model **out)
{
    struct lane_model *model = *out;

    if (model == NULL)
        return;
    apply_delete(&model->apply);
    free(model->arrivals);
    free(model->announce);
    free(model->out);
    free(model);
    *out = NULL;
}

/* lane_model_fits -- see the header. */
bool lane_model_fits(const struct lane_model *model, uint32_t rank, uint32_t value)
{
    return !model->out[rank] && (model->all & (1u << slot_notify_group(value))) &&
           slot_notify_slot(value) < model->board->depth;
}

/* lane_model_header -- see the header. */
bool lane_model_header(const struct lane_model *model, const struct slot_header *header, uint32_t rank,
                       uint32_t slot, uint32_t group)
{
    const struct board *board = model->board;
    uint32_t kind = model->initial ? SLOT_INITIAL : SLOT_GRADIENT;
    uint64_t bytes = model->initial ? 0 : model_span(model, group)->slot_bytes;

    return header->magic == SLOT_MAGIC && header->model == board->model && header->lane == model->lane &&
           header->group == group && header->rank == rank && header->slot == slot && header->bytes == bytes &&
           header->kind == kind && header->incarnation == board->slots[rank].incarnation &&
           header->sequence % board->depth == slot;
}

/* model_complete -- every span of this lane has arrived of one contribution, or of the initial values: counts it for the shard. */
static void model_complete(struct lane_model *model, uint32_t rank, uint32_t slot)
{
    struct board *board = model->board;

    if (model->initial)
        atomic_fetch_add_explicit(&board->arrived_initial, 1,
                                  memory_order_release); /* pairs with the shard's load */
    else                                                 /* pairs with the shard's acquire load */
        atomic_store_explicit(&board->arrived[board_arrived(board, model->lane, rank, slot)],
                              model->arrivals[(size_t)rank * board->depth + slot].next, memory_order_release);
    atomic_fetch_add_explicit(&board->arrivals, 1,
                              memory_order_release); /* pairs with the shard's acquire load */
}

/* lane_model_arrive -- see the header. */
enum arrival_verdict lane_model_arrive(struct lane_model *model, uint32_t rank, uint32_t slot, uint32_t group,
                                       uint64_t sequence)
{
    struct arrival *arrival = &model->arrivals[(size_t)rank * model->board->depth + slot];
    enum arrival_verdict verdict = arrival_add(arrival, model->all, group, sequence);

    if (verdict == ARRIVAL_WHOLE)
        model_complete(model, rank, slot);
    return verdict;
}

/* model_announce -- tells every worker that a group may be read and its slot be written. */
static void model_announce(struct lane_model *model, uint32_t group)
{
    for (uint32_t w = 0; w < model->board->workers; w++)
        if (!model->out[w] && !(model->announce[w] & (1u << group))) {
            model->announce[w] |= (uint8_t)(1u << group);
            model->announcing++;
        }
}

/* model_moves -- does the order make a new step? */
static bool model_moves(const struct board *board)
{
    return board->order.kind == BOARD_APPLY || board->order.kind == BOARD_CARRY;
}

/*
 * model_open -- an order begins. A reader that has copied bytes of the parity that is written from here on must see that they are gone: the
 * fence keeps the word before the first of them.
 */
static void model_open(struct lane_model *model)
{
    struct board *board = model->board;
    struct slot_words *words = &board->words[model->lane];

    model->applying = true;
    model->next_group = 0;
    apply_begin(model->apply);
    if (board->order.kind == BOARD_INITIAL) {
        uint64_t first = board->order.step;
        /* published by applied[] */
        atomic_store_explicit(&words->writing[first & 1], first, memory_order_relaxed);
        atomic_store_explicit(&words->writing[(first & 1) ^ 1u], UINT64_MAX, memory_order_relaxed);
    }
    if (!model_moves(board))
        return;
    uint64_t step = board->order.step + 1;
#ifndef STEPGATE_MUTANT_WRITING_NOT_TOLD
    atomic_store_explicit(&words->writing[step & 1], step, memory_order_relaxed);
#endif
    atomic_thread_fence(
        memory_order_release); /* pairs with the acquire fence of readers, before they look again */
}

/* model_ready -- a group of the step may be read: for readers that look, and for workers that are told. */
static void model_ready(struct lane_model *model, uint32_t group)
{
    struct board *board = model->board;
    uint64_t step = board->order.kind == BOARD_INITIAL ? board->order.step : board->order.step + 1;

    /* release: whoever sees the step sees its bytes */
    atomic_store_explicit(&board->words[model->lane].applied[group], step, memory_order_release);
    model->ready[group] = step;
    model->told |= (uint8_t)(1u << group);
    model_announce(model, group);
}

/* model_close -- an order is done. */
static void model_close(struct lane_model *model, uint64_t number)
{
    struct board *board = model->board;

    if (board->order.kind == BOARD_INITIAL) { /* nobody pushes before this is done on every shard */
        model->initial = false;
        model->arrivals[0] = (struct arrival){0};
    }
    apply_over(model->apply);
    model->applying = false;
    model->done = number;
    atomic_store_explicit(&board->applied[model->lane], number,
                          memory_order_release); /* pairs with the shard */
}

/* lane_model_round -- see the header. */
enum lane_model_round lane_model_round(struct lane_model *model)
{
    struct board *board = model->board;
    /* pairs with the shard's release: the order's fields are visible */
    uint64_t number = atomic_load_explicit(&board->order_number, memory_order_acquire);

    if (number == model->done)
        return LANE_MODEL_IDLE;
    bool tells = model_moves(board) || board->order.kind == BOARD_INITIAL;
    if (!model->applying) {
        model_open(model);
#ifdef STEPGATE_MUTANT_SLOT_FREED_EARLY
        for (uint32_t g = 0; g < board->shard->groups; g++)
            if (model->all >> g & 1u && model_moves(board))
                model_ready(model, g);
        return LANE_MODEL_SPAN;
#endif
    }
    while (model->next_group < board->shard->groups && !(model->all & (1u << model->next_group)))
        model->next_group++;
    if (model->next_group == board->shard->groups) {
        model_close(model, number);
        return LANE_MODEL_CLOSED;
    }
    uint32_t group = model->next_group++;
    if (apply_span(model->apply, group) != 0)
        return LANE_MODEL_FAILED;
#ifdef STEPGATE_MUTANT_SLOT_FREED_EARLY
    tells = tells && !model_moves(board);
#endif
    if (tells)
        model_ready(model, group);
    return LANE_MODEL_SPAN;
}

/* lane_model_announce_again -- see the header. */
void lane_model_announce_again(struct lane_model *model, uint32_t rank)
{
    uint8_t missed = model->out[rank] ? 0 : model->told & (uint8_t)~model->announce[rank];

    model->announce[rank] |= missed;
    model->announcing += (uint64_t)__builtin_popcount(missed);
}

/* lane_model_announced -- see the header. */
void lane_model_announced(struct lane_model *model, uint32_t rank, uint32_t group)
{
    model->announce[rank] &= (uint8_t) ~(1u << group);
    model->announcing--;
}

/* lane_model_forget -- see the header. */
void lane_model_forget(struct lane_model *model, uint32_t rank)
{
    uint32_t depth = model->board->depth;

    memset(&model->arrivals[(size_t)rank * depth], 0, depth * sizeof(*model->arrivals));
    model->announcing -= (uint64_t)__builtin_popcount(model->announce[rank]);
    model->announce[rank] = 0;
    model->out[rank] = true;
}

/* lane_model_back -- see the header. */
void lane_model_back(struct lane_model *model, uint32_t rank)
{
    model->out[rank] = false;
    lane_model_announce_again(model, rank);
}
