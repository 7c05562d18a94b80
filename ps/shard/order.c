/* SPDX-License-Identifier: BSD-3-Clause */
/* order -- what the leader has decided is carried out here: in its order, one at a time with the lanes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

/* order_keep -- behind what waits already. */
static int order_keep(struct shard_model *model, const struct message *m)
{
    if (model->order_count == model->order_room) {
        size_t room = model->order_room > 0 ? 2 * model->order_room : 4;
        struct message *more = malloc(room * sizeof(*more));
        if (more == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the orders of model %s",
                             model->model->name);
        for (size_t i = 0; i < model->order_count; i++)
            more[i] = model->orders[(model->order_first + i) % model->order_room];
        free(model->orders);
        model->orders = more;
        model->order_first = 0;
        model->order_room = room;
    }
    model->orders[(model->order_first + model->order_count++) % model->order_room] = *m;
    return 0;
}

/* order_repeated -- has this commit been made before, or can it not be? */
static bool order_repeated(struct shard_model *model, const struct message *m)
{
    if (m->slot_kind == SLOT_INITIAL)
        return model->phase != PHASE_INITIAL || model->ordered || model->order_count > 0;
    return m->step != model->next_commit;
}

/*
 * order_member -- one contribution of the set. The leader orders only what this ps has reported, and its seal is kept until the order is done:
 * one that is missing is a defect, and going on without it would give each shard another mean.
 */
static int order_member(struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    struct board_order *order = &model->board.order;
    const struct shard_seal *seal = shard_seal_of(model, rank, sequence);
    double clip = model->model->clip_norm, scale = 1;

    if (seal == NULL)
        return error_set(
            STEPGATE_EPROTOCOL, 0, "this is a defect of stepgate: report it, with the logs of every ps",
            "internal error: ps %u is to apply contribution %llu of worker %u to model %s, and has no "
            "seal of it",
            model->shard->config.number, (unsigned long long)sequence, rank, model->model->name);
    if (clip > 0) {
        double norm = sqrt(seal->norm);
        scale = norm > clip ? clip / norm : 1;
    }
    struct board_contribution *member = &order->set[order->count++];
    *member = (struct board_contribution){.rank = rank,
                                          .slot = (uint32_t)(sequence % model->depth),
                                          .weight = seal->weight,
                                          .absent = seal->absent,
                                          .factor = seal->weight * scale};
    order->factored = order->factored || member->factor != 1;
    order->divisor += seal->weight;
    return 0;
}

/* order_rank -- a worker's contributions to the step: all of them, or those whose bits are set. */
static int order_rank(struct shard_model *model, uint32_t rank, const struct message *m)
{
    uint64_t end = model->shares[rank].sealed_next,
             first = end > 2u * model->depth ? end - 2u * model->depth : 0;
    int status = 0;

    for (uint64_t sequence = first; status == 0 && sequence < end; sequence++) {
        const struct shard_seal *seal = shard_seal_of(model, rank, sequence);
        size_t bit = (size_t)rank * model->depth + sequence % model->depth;
        if (seal == NULL || seal->step != m->step || !(seal->weight > 0))
            continue;
        if (m->set_kind == MESSAGE_SET_RANKS &&
            (bit / 8 >= m->length || !((unsigned)m->part[bit / 8] >> (bit % 8) & 1u)))
            continue;
        status = order_member(model, rank, sequence);
    }
    return status;
}

/* order_check_count -- of a set of many, what has no seal here is not found at all: the leader's count tells. */
static int order_check_count(const struct shard_model *model, const struct message *m)
{
    uint32_t here = model->board.order.count;
    bool many = (m->kind == MESSAGE_COMMIT || m->kind == MESSAGE_MEASURE) &&
                (m->set_kind == MESSAGE_SET_ALL || m->set_kind == MESSAGE_SET_RANKS);

    if (!many || here == m->count)
        return 0;
    return error_set(
        STEPGATE_EPROTOCOL, 0, "this is a defect of stepgate: report it, with the logs of every ps",
        "internal error: ps %u is to apply %u contributions to step %llu of model %s, and has "
        "seals of %u",
        model->shard->config.number, m->count, (unsigned long long)m->step, model->model->name, here);
}

/* order_set -- who contributes, with which factors. */
static int order_set(struct shard_model *model, const struct message *m)
{
    struct board_order *order = &model->board.order;
    int status = 0;

    order->count = 0;
    order->factored = order->accumulated = false;
    order->divisor = 0;
    switch (m->kind == MESSAGE_ACCUMULATE ? MESSAGE_SET_ONE : m->set_kind) { /* its set does not travel */
    case MESSAGE_SET_ONE: status = order_member(model, m->rank, m->sequence); break;
#ifdef STEPGATE_MUTANT_SET_PER_SHARD
    case MESSAGE_SET_RANKS: /* the first so many that this shard has, as it counts them */
        for (uint32_t i = 0; i < model->board.workers && order->count < m->count; i++) {
            uint32_t w = (i + model->shard->config.number) % model->board.workers;
            uint64_t newest = model->shares[w].reported_next;
            const struct shard_seal *seal = newest > 0 ? shard_seal_of(model, w, newest - 1) : NULL;
            if (seal != NULL && seal->step == m->step && seal->weight > 0)
                status = order_member(model, w, newest - 1);
        }
        break;
#endif
    case MESSAGE_SET_ALL:
#ifndef STEPGATE_MUTANT_SET_PER_SHARD
    case MESSAGE_SET_RANKS:
#endif
        for (uint32_t w = 0; status == 0 && w < model->board.workers; w++)
            status = order_rank(model, w, m);
        break;
    default: break;
    }
    if (model->model->update == MODEL_TF && m->kind != MESSAGE_ACCUMULATE) {
        order->accumulated = true;
        order->divisor = model->accumulated;
    }
    return status != 0 ? status : order_check_count(model, m);
}

/* order_kind -- what the lanes do with it. */
static int order_kind(const struct message *m)
{
    switch (m->kind) {
    case MESSAGE_ACCUMULATE: return BOARD_ACCUMULATE;
    case MESSAGE_MEASURE: return BOARD_MEASURE;
    case MESSAGE_SNAPSHOT_TAKE: return BOARD_SNAPSHOT;
    case MESSAGE_CHECKPOINT_TAKE: return BOARD_CHECKPOINT;
    default: break;
    }
    if (m->slot_kind == SLOT_INITIAL)
        return BOARD_INITIAL;
    return m->set_kind == MESSAGE_SET_NONE ? BOARD_CARRY : BOARD_APPLY;
}

/* order_give -- the lanes get it. */
static void order_give(struct shard_model *model, const struct message *m, uint64_t now)
{
    struct shard *shard = model->shard;
    struct board_order *order = &model->board.order;

    if (m->kind == MESSAGE_SNAPSHOT_TAKE && !shard_snapshot_begin(model, m, now))
        return;
    if (m->kind == MESSAGE_CHECKPOINT_TAKE && !shard_checkpoint_begin(model, m, now))
        return;
    if (m->kind == MESSAGE_COMMIT || m->kind == MESSAGE_MEASURE || m->kind == MESSAGE_ACCUMULATE)
        shard_tunes_take(&model->tunes, model->model, m->kind == MESSAGE_ACCUMULATE ? model->step : m->step,
                         NULL,
                         shard->config.number != 0 ? &shard->config.log : NULL); /* the leader has said it */
    if (order_set(model, m) != 0) {
        shard_abort(shard, now);
        return;
    }
    order->kind = order_kind(m);
    order->restored = model->checkpoint.restored;
    order->step = m->kind == MESSAGE_SNAPSHOT_TAKE ? model->step : m->step;
    memcpy(&order->hyper, m->hyper, sizeof(order->hyper));
    if (order->kind == BOARD_APPLY && !order->accumulated && order->count == 0)
        order->kind = BOARD_CARRY; /* everybody of the set weighs nothing */
    if (m->kind == MESSAGE_ACCUMULATE)
        model->accumulated += order->divisor;
    model->current = *m;
    model->ordered = true;
    /* release: lanes that see the number see the order, and, through this thread's acquire, every gradient */
    atomic_fetch_add_explicit(&model->board.order_number, 1, memory_order_release);
    for (uint32_t l = 0; shard->config.wake_lane != NULL && l < shard->config.lanes; l++)
        shard->config.wake_lane(shard->config.wake_context, l);
}

/* order_release -- a worker may rewrite the slot of this contribution, and of those before. */
static void order_release(struct shard_model *model, uint32_t rank, uint64_t sequence, uint64_t now)
{
    const struct message released = {.kind = MESSAGE_RELEASED, .model = model->number, .sequence = sequence};

    shard_send(model->shard, rank, &released, now);
}

/* order_tune -- a hyper-parameter changes, at a step that is behind the orders before this one. */
static void order_tune(struct shard_model *model, const struct message *m, uint64_t now)
{
    if (shard_tunes_keep(&model->tunes, m) != 0)
        shard_abort(model->shard, now);
}

/* order_next -- gives the lanes what is next, if they have nothing. */
static void order_next(struct shard_model *model, uint64_t now)
{
    while (!model->shard->failed && !model->ordered && model->order_count > 0) {
        struct message m = model->orders[model->order_first];
        model->order_first = (model->order_first + 1) % model->order_room;
        model->order_count--;
        if (m.kind == MESSAGE_RELEASE)
            order_release(model, m.rank, m.sequence, now);
        else if (m.kind == MESSAGE_TUNE)
            order_tune(model, &m, now);
        else if (m.kind == MESSAGE_FORGET)
            shard_absence_forget(model, &m, now);
        else
            order_give(model, &m, now);
    }
}

/* shard_order -- the leader has decided. Commits are idempotent by step. */
void shard_order(struct shard *shard, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];

    if (shard->ending)
        return;
    if (model == NULL || model->phase == PHASE_DECLARED ||
        ((m->kind == MESSAGE_ACCUMULATE || m->kind == MESSAGE_RELEASE || m->kind == MESSAGE_FORGET) &&
         m->rank >= shard->config.workers)) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "ps 0 sent a %s for model %u, which cannot be", message_name(m->kind), m->model);
        shard_abort(shard, now);
        return;
    }
    if (m->kind == MESSAGE_COMMIT) {
        if (order_repeated(model, m)) {
            shard->stats.duplicate_commits++;
#ifdef STEPGATE_MUTANT_COMMIT_NOT_IDEMPOTENT
            if (model->phase != PHASE_RUNNING || model->ordered)
#endif
                return;
        }
        shard->stats.commits++;
        model->next_commit = m->slot_kind == SLOT_INITIAL ? m->step : m->step + 1;
    }
#ifdef STEPGATE_MUTANT_RELEASED_EARLY
    if (m->kind == MESSAGE_ACCUMULATE)
        order_release(model, m->rank, m->sequence, now);
#endif
    if (order_keep(model, m) != 0) {
        shard_abort(shard, now);
        return;
    }
    order_next(model, now);
}

/* shard_tunes_keep -- until its step comes. */
int shard_tunes_keep(struct shard_tunes *tunes, const struct message *m)
{
    struct shard_tune *more = realloc(tunes->list, (tunes->count + 1) * sizeof(*more));

    if (more == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a change of %s", m->key);
    tunes->list = more;
    struct shard_tune *tune = &tunes->list[tunes->count++];
    tune->step = m->step;
    memcpy(tune->key, m->key, sizeof(tune->key));
    memcpy(tune->value, m->value, sizeof(tune->value));
    return 0;
}

/* shard_tunes_room -- see inside.h. */
int shard_tunes_room(struct shard_tunes *taken, size_t more)
{
    struct shard_tune *list = realloc(taken->list, (taken->count + more) * sizeof(*list));

    if (list == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a change of a hyper-parameter");
    taken->list = list;
    return 0;
}

/* tunes_taken -- of each key the newest one. */
static void tunes_taken(struct shard_tunes *taken, const struct shard_tune *tune)
{
    size_t i = 0;

    if (taken == NULL)
        return;
    while (i < taken->count && strcmp(taken->list[i].key, tune->key) != 0)
        i++;
    taken->list[i] = *tune;
    taken->count += i == taken->count;
}

/* shard_tunes_take -- what was given last wins among those that are due together. */
void shard_tunes_take(struct shard_tunes *tunes, struct model *model, uint64_t step,
                      struct shard_tunes *taken, const struct log_sink *log)
{
    size_t kept = 0;

    for (size_t i = 0; i < tunes->count; i++) {
        struct shard_tune *tune = &tunes->list[i];
        struct stepgate_error error;
        if (tune->step > step) {
            if (kept != i)
                tunes->list[kept] = *tune;
            kept++;
        } else if (model_tune(model, tune->key, tune->value) == 0) {
            tunes_taken(taken, tune);
        } else if (log != NULL) {
            error_save(&error);
            log_line(log, LOG_WARN, "model %s, step %llu: %s stays: %s", model->name,
                     (unsigned long long)step, tune->key, error.text);
        }
    }
    tunes->count = kept;
}

/* order_applied -- every lane has done the order. */
static bool order_applied(const struct shard_model *model)
{
    uint64_t number = atomic_load_explicit(&model->board.order_number,
                                           memory_order_relaxed); /* only this thread raises it */

    for (uint32_t l = 0; l < model->board.lanes; l++) /* pairs with the lanes' release stores */
        if (atomic_load_explicit(&model->board.applied[l], memory_order_acquire) != number)
            return false;
    return true;
}

/* order_norm -- tells the leader what the lanes have measured. */
static void order_norm(struct shard_model *model, uint64_t now)
{
    struct message norm = {.kind = MESSAGE_NORM, .model = model->number, .step = model->current.step};
    struct bytes_writer w = {norm.part, sizeof(norm.part), 0, false};
    struct exact_sum sum;

    exact_clear(&sum);
    for (uint32_t l = 0; l < model->board.lanes; l++)
        exact_merge(&sum, &model->board.measures[l]);
    exact_pack(&sum, &w);
    norm.length = (uint32_t)w.used;
    if (model->shard->config.number == 0)
        leader_norm(model->shard, 0, &norm, now);
    else
        shard_post(model->shard, &model->shard->leader, &norm, now);
}

/* order_step -- the step is applied: the next one is awaited. */
static void order_step(struct shard_model *model, uint64_t now)
{
    struct message applied = {.kind = MESSAGE_APPLIED,
                              .model = model->number,
                              .step = model->current.step,
                              .slot_kind = model->current.slot_kind};

    model->complete_sent = false;
    model->look = true;
    if (model->phase == PHASE_INITIAL) {
        model->phase = PHASE_RUNNING;
        model->first = model->step = model->current.step;
        for (uint32_t w = 0; model->checkpoint.restored && w < model->board.workers; w++)
            shard_checkpoint_aux(model, w, now);
    } else {
        model->step = model->current.step + 1;
        model->shard->stats.steps++;
    }
    model->accumulated = 0;
    shard_watch_again(model, now);
    if (model->model->update == MODEL_ASYNC || model->model->update == MODEL_BOUNDED)
        if (model->current.slot_kind != SLOT_INITIAL)
            order_release(model, model->current.rank, model->current.sequence, now);
    leader_send(model->shard, &applied, now);
}

/* shard_order_progress -- see inside.h. */
void shard_order_progress(struct shard_model *model, uint64_t now)
{
    if (model->ordered && order_applied(model)) {
        model->ordered = false;
        model->look = true; /* what came while the lanes were busy was not reported */
        switch (model->current.kind) {
        case MESSAGE_ACCUMULATE:
            order_release(model, model->current.rank, model->current.sequence, now);
            break;
        case MESSAGE_MEASURE: order_norm(model, now); break;
        case MESSAGE_CHECKPOINT_TAKE: shard_checkpoint_copied(model, now); break;
        case MESSAGE_SNAPSHOT_TAKE: shard_snapshot_made(model, &model->current, now); break;
        default: order_step(model, now); break;
        }
    }
    order_next(model, now);
}
