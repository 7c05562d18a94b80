/* SPDX-License-Identifier: BSD-3-Clause */
/* gate -- which contributions are complete here: sealed, and every byte arrived. The leader is told, one by one or a whole step at a time. */
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

/* shard_seal_place -- where the seal of that contribution lies. */
static struct shard_seal *shard_seal_place(const struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    return &model->shares[rank].seals[sequence % (2u * model->depth)];
}

/* shard_seal_of -- see inside.h. A worker that is forgotten has none. */
const struct shard_seal *shard_seal_of(const struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    if (model->shares[rank].seals == NULL)
        return NULL;
    const struct shard_seal *seal = shard_seal_place(model, rank, sequence);

    return seal->next == sequence + 1 ? seal : NULL;
}

/* shard_seal_violation -- a seal that cannot be. */
static void shard_seal_violation(struct shard *shard, uint32_t rank, const struct message *m,
                                 const char *what, uint64_t now)
{
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
              "worker %u sealed contribution %llu to step %llu of model %u with a weight of %g%s", rank,
              (unsigned long long)m->sequence, (unsigned long long)m->step, m->model, m->weight, what);
    shard_abort(shard, now);
}

/* shard_seal -- a worker's contribution is out. */
void shard_seal(struct shard *shard, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];
    struct shard_share *share = model != NULL && model->shares != NULL ? &model->shares[rank] : NULL;

    if (share == NULL || !share->told || !slot_weight_fits(m->weight)) {
        shard_seal_violation(shard, rank, m, share == NULL || !share->told ? ", but it is not placed" : "",
                             now);
        return;
    }
    model->look = true;
    if (model->phase == PHASE_INITIAL && rank == 0 && !share->sealed_initial && m->step == 0) {
        share->sealed_initial = true;
        return;
    }
    if (m->sequence < share->sealed_next)
        return; /* again */
    if (m->sequence > share->sealed_next) {
        shard_seal_violation(shard, rank, m, ", before the one before it", now);
        return;
    }
    share->sealed_next = m->sequence + 1;
    shard->members[rank].newcomer = false;
    struct shard_seal *seal = shard_seal_place(model, rank, m->sequence);
    uint8_t *absent = seal->absent;
    if (absent != NULL) {
        size_t bytes = (model->model->count + 7) / 8;
        memset(absent, 0, bytes);
        memcpy(absent, m->part, m->length < bytes ? m->length : bytes);
    }
    *seal = (struct shard_seal){.next = m->sequence + 1,
                                .step = m->step,
                                .weight = m->weight,
                                .norm = m->norm,
                                .finite = m->finite,
                                .absent = absent};
}

/* shard_arrived -- every span of a contribution is here. */
static bool shard_arrived(const struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    const struct board *board = &model->board;
    uint32_t there = 0, slot = (uint32_t)(sequence % model->depth);

    for (uint32_t l = 0; l < board->lanes; l++)
        /* pairs with the lane's release store: the gradient bytes are visible from here to the lanes */
        there += atomic_load_explicit(&board->arrived[board_arrived(board, l, rank, slot)],
                                      memory_order_acquire) == sequence + 1;
    return there == board->active_lanes;
}

/* shard_whole -- sealed, and here; one that counts for nothing need not be here. */
static bool shard_whole(const struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    const struct shard_seal *seal = shard_seal_of(model, rank, sequence);

#ifdef STEPGATE_MUTANT_SEAL_NOT_AWAITED
    if (model->board.active_lanes > 0 && shard_arrived(model, rank, sequence)) {
        struct shard_seal *place = shard_seal_place(model, rank, sequence);
        if (seal == NULL)
            *place =
                (struct shard_seal){.next = sequence + 1, .step = model->step, .weight = 1, .finite = true};
        return true;
    }
#endif
    return seal != NULL && (seal->weight == 0 || shard_arrived(model, rank, sequence));
}

/* shard_gate_has_all -- see inside.h. Before a slot was written again, what had been in it was here. */
bool shard_gate_has_all(const struct shard_model *model, uint32_t rank)
{
    if (model->phase != PHASE_RUNNING)
        return true;
    const struct shard_share *share = &model->shares[rank];
    uint64_t end = share->sealed_next, first = end > model->depth ? end - model->depth : 0;
    if (first < share->begins)
        first = share->begins;
    for (uint64_t sequence = first; sequence < end; sequence++)
        if (!shard_whole(model, rank, sequence))
            return false;
    return true;
}

/* shard_initial_complete -- worker 0's initial values are here, and every worker that is there knows where its slots are. */
static bool shard_initial_complete(const struct shard_model *model)
{
    for (uint32_t w = 0; w < model->board.workers; w++)
        if (!model->shares[w].told && !model->shares[w].late)
            return false;
    return model->shares[0].sealed_initial &&
           atomic_load_explicit(&model->board.arrived_initial,
                                memory_order_acquire) == /* pairs with the lanes */
               model->board.active_lanes;
}

/* shard_step_complete -- every worker's share of the awaited step is here. */
static bool shard_step_complete(const struct shard_model *model)
{
    for (uint32_t w = 0; w < model->board.workers; w++) {
        uint32_t quota = model_quota(model->model, model->board.workers, w);
        uint64_t end = shard_sequence(model, model->step + 1, quota);
        for (uint64_t s = end - quota; s < end; s++)
            if (!shard_whole(model, w, s))
                return false;
    }
    return true;
}

/* shard_report_step -- one message when everything is here. */
static void shard_report_step(struct shard_model *model, uint64_t now)
{
    bool initial = model->phase == PHASE_INITIAL;

    if (model->complete_sent || model->ordered)
        return;
    if (!(initial ? shard_initial_complete(model) : shard_step_complete(model))) {
        shard_watch_late(model, now);
        return;
    }
    model->complete_sent = true;
    struct message complete;
    message_begin(&complete, MESSAGE_COMPLETE);
    complete.model = model->number;
    complete.step = model->step;
    complete.rank = MESSAGE_EVERYBODY;
    complete.slot_kind = initial ? SLOT_INITIAL : SLOT_GRADIENT;
#ifdef STEPGATE_MUTANT_APPLY_BEFORE_COMMIT
    if (!initial) {
        struct message early = {.kind = MESSAGE_COMMIT,
                                .model = model->number,
                                .step = model->step,
                                .slot_kind = SLOT_GRADIENT,
                                .set_kind = MESSAGE_SET_ALL};
        for (uint32_t w = 0; w < model->board.workers; w++) {
            uint32_t quota = model_quota(model->model, model->board.workers, w);
            uint64_t end = shard_sequence(model, model->step + 1, quota);
            for (uint64_t s = end - quota; s < end; s++)
                early.count += shard_seal_of(model, w, s)->weight > 0;
        }
        struct optimizer_powers powers;
        struct optimizer_hyper hyper;
        optimizer_powers_start(model->model, &powers);
        optimizer_hyper_at(model->model, model->step, &powers, &hyper);
        memcpy(early.hyper, &hyper, sizeof(hyper));
        shard_order(model->shard, &early, now);
    }
#endif
    leader_send(model->shard, &complete, now);
}

/* shard_report_each -- one message for each contribution, in the order in which a worker made them. */
static void shard_report_each(struct shard_model *model, uint64_t now)
{
    struct message complete = {.kind = MESSAGE_COMPLETE, .model = model->number, .slot_kind = SLOT_GRADIENT};

    for (uint32_t w = 0; w < model->board.workers; w++) {
        struct shard_share *share = &model->shares[w];
        while (!model->shard->failed && !model->shard->members[w].lost &&
               shard_whole(model, w, share->reported_next)) {
            complete.rank = w;
            complete.sequence = share->reported_next++;
            complete.step = shard_seal_of(model, w, complete.sequence)->step;
            leader_send(model->shard, &complete, now);
        }
    }
    shard_watch_late(model, now);
}

/* shard_gate -- moves a placed model on. */
void shard_gate(struct shard_model *model, uint64_t now)
{
    shard_order_progress(model, now);
    uint64_t arrivals =
        atomic_load_explicit(&model->board.arrivals, memory_order_acquire); /* pairs with the lanes */
    if (arrivals != model->seen_arrivals) {
        model->seen_arrivals = arrivals;
        model->look = true;
    }
    shard_watch(model, now);
    if (!model->look || (model->shard->config.number != 0 && !model->shard->leader_up))
        return; /* workers may be faster than this shard's way to the leader */
    model->look = false;
    if (shard_departed(model, now))
        return;
    if (model->phase == PHASE_INITIAL || model->together)
        shard_report_step(model, now);
    else
        shard_report_each(model, now);
}
