/* SPDX-License-Identifier: BSD-3-Clause */
/* gate -- a step passes when every contribution is there, the leader has committed it, and the lanes have applied it. */
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

/* shard_seal -- a worker's contribution is out. */
void shard_seal(struct shard *shard, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];
    struct shard_share *share = model != NULL && model->shares != NULL ? &model->shares[rank] : NULL;

    if (share == NULL || !share->told || !slot_weight_fits(m->weight)) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "worker %u sealed step %llu of model %u with a weight of %g%s", rank,
                  (unsigned long long)m->step, m->model, m->weight,
                  share == NULL || !share->told ? ", but it is not placed" : "");
        shard_abort(shard, now);
        return;
    }
    model->look = true;
    if (model->phase == PHASE_INITIAL && rank == 0 && !share->sealed_initial && m->step == 0) {
        share->sealed_initial = true;
        return;
    }
    if (m->step < model->step || m->step > model->step + 1)
        return; /* a step that is over, or impossible: counts for nothing */
    share->seal[m->step & 1] = (struct shard_seal){m->step + 1, m->weight};
}

/* shard_arrived -- every span of a rank's gradients of the awaited step is here. */
static bool shard_arrived(const struct shard_model *model, uint32_t rank)
{
    const struct board *board = &model->board;
    uint32_t there = 0;

    for (uint32_t l = 0; l < board->lanes; l++) {
        /* pairs with the lane's release store: the gradient bytes are visible from here to the lanes */
        uint64_t next =
            atomic_load_explicit(&board->arrived[(size_t)l * board->workers + rank], memory_order_acquire);
        there += next == model->step + 1;
    }
    return there == board->active_lanes;
}

/* shard_is_complete -- every contribution of the awaited step is here. */
static bool shard_is_complete(const struct shard_model *model)
{
    if (model->phase == PHASE_INITIAL) {
        for (uint32_t w = 0; w < model->board.workers; w++)
            if (!model->shares[w].told)
                return false;
        return model->shares[0].sealed_initial &&
               atomic_load_explicit(&model->board.arrived_initial,
                                    memory_order_acquire) == /* pairs with the lanes */
                   model->board.active_lanes;
    }
    for (uint32_t w = 0; w < model->board.workers; w++) {
        const struct shard_seal *seal = &model->shares[w].seal[model->step & 1];
#ifdef STEPGATE_MUTANT_SEAL_NOT_AWAITED
        if (shard_arrived(model, w))
            continue;
#endif
        if (seal->next != model->step + 1 || (seal->weight > 0 && !shard_arrived(model, w)))
            return false;
    }
    return true;
}

/* shard_order -- who contributes, with which weights. */
static void shard_order(struct shard_model *model, const struct message *commit)
{
    struct board_order *order = &model->board.order;
    double total = 0;

    order->step = commit->step;
    memcpy(&order->rate, &commit->rate_bits, sizeof(order->rate));
    memcpy(&order->momentum, &commit->momentum_bits, sizeof(order->momentum));
    order->count = 0;
    order->weighted = false;
    if (commit->slot_kind == SLOT_INITIAL) {
        order->kind = BOARD_INITIAL;
        return;
    }
    for (uint32_t w = 0; w < model->board.workers; w++) {
        double weight = model->shares[w].seal[commit->step & 1].weight;
#ifdef STEPGATE_MUTANT_SEAL_NOT_AWAITED
        weight = 1;
#endif
        if (!(weight > 0))
            continue;
        order->ranks[order->count] = w;
        order->weights[order->count++] = (float)weight;
        order->weighted = order->weighted || weight != 1.0;
        total += weight;
    }
    order->kind = order->count > 0 ? BOARD_APPLY : BOARD_CARRY;
    order->divisor = (float)total;
}

/* shard_commit -- the leader has decided. Idempotent by step. */
void shard_commit(struct shard *shard, const struct message *commit, uint64_t now)
{
    struct shard_model *model = shard->models[commit->model];
    int phase = commit->slot_kind == SLOT_INITIAL ? PHASE_INITIAL : PHASE_RUNNING;

    (void)now;
    if (shard->ending)
        return;
    if (model == NULL || model->phase != phase || model->ordered ||
        (phase == PHASE_RUNNING && commit->step != model->step)) {
        shard->stats.duplicate_commits++;
#ifdef STEPGATE_MUTANT_COMMIT_NOT_IDEMPOTENT
        if (model == NULL || model->ordered || model->phase != PHASE_RUNNING)
#endif
            return;
    }
    shard->stats.commits++;
    shard_order(model, commit);
    model->ordered = true;
    /* release: lanes that see the number see the order, and, through this thread's acquire, every gradient */
    atomic_fetch_add_explicit(&model->board.order_number, 1, memory_order_release);
    for (uint32_t l = 0; shard->config.wake_lane != NULL && l < shard->config.lanes; l++)
        shard->config.wake_lane(shard->config.wake_context, l);
}

/* shard_applied -- every lane has done the order. */
static bool shard_applied(const struct shard_model *model)
{
    uint64_t number = atomic_load_explicit(&model->board.order_number,
                                           memory_order_relaxed); /* only this thread raises it */

    for (uint32_t l = 0; l < model->board.lanes; l++) /* pairs with the lanes' release stores */
        if (atomic_load_explicit(&model->board.applied[l], memory_order_acquire) != number)
            return false;
    return true;
}

/* shard_pass -- the step is applied: the next one is awaited. */
static void shard_pass(struct shard_model *model, uint64_t now)
{
    struct message applied = {.kind = MESSAGE_APPLIED,
                              .model = model->number,
                              .step = model->step,
                              .slot_kind = model->phase == PHASE_INITIAL ? SLOT_INITIAL : SLOT_GRADIENT};

    model->ordered = false;
    model->complete_sent = false;
    model->look = true;
    if (model->phase == PHASE_INITIAL) {
        model->phase = PHASE_RUNNING;
    } else {
        model->step++;
        model->shard->stats.steps++;
    }
    model->step_since = now;
    model->report_at = clock_after(
        now, model->shard->config.stall_report_ms > 0 ? model->shard->config.stall_report_ms : -1);
    model->late_at = CLOCK_NEVER;
    leader_send(model->shard, &applied, now);
}

/* shard_waited_for -- words the workers whose contribution to the step is missing, if others have contributed; *first is the lowest. */
static bool shard_waited_for(const struct shard_model *model, char *names, size_t size, uint32_t *first)
{
    bool some = false;
    size_t used = 0;

    names[0] = 0;
    for (uint32_t w = 0; w < model->board.workers; w++) {
        if (model->shares[w].seal[model->step & 1].next == model->step + 1) {
            some = true;
            continue;
        }
        if (used == 0)
            *first = w;
        int n = snprintf(names + used, size - used, "%s%u", used > 0 ? ", " : "", w);
        if (n > 0 && (size_t)n < size - used)
            used += (size_t)n;
    }
    return some && used > 0;
}

/* shard_report -- peers are alive but slow: one line says who is waited for. */
static void shard_report(struct shard_model *model, uint64_t now)
{
    char names[256];
    uint32_t first = 0;

    model->report_at = CLOCK_NEVER;
    if (model->phase == PHASE_RUNNING && shard_waited_for(model, names, sizeof(names), &first))
        log_line(&model->shard->config.log, LOG_WARN,
                 "model %s, step %llu: after %llu ms still waiting for worker %s", model->model->name,
                 (unsigned long long)model->step, (unsigned long long)((now - model->step_since) / CLOCK_MS),
                 names);
}

/* shard_late -- the step has lasted longer than anybody wants to wait: policy fail. */
static void shard_late(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    char names[256];
    uint32_t first = 0;

    model->late_at = CLOCK_NEVER;
    if (shard->config.number != 0 || model->phase != PHASE_RUNNING ||
        !shard_waited_for(model, names, sizeof(names), &first))
        return;
    error_set(STEPGATE_ESTEPTIME, 0, "look at what it does; step_timeout sets how long a step may take",
              "step %llu of model %s is not complete after %lld ms: waiting for worker %s",
              (unsigned long long)model->step, model->model->name, (long long)shard->config.step_timeout_ms,
              names);
    error_peer(STEPGATE_ROLE_WORKER, (int)first, "", "");
    error_step(model->step, shard->config.step_timeout_ms);
    shard_abort(shard, now);
}

/* shard_watch_late -- the time runs from the first contribution to a step: before it nobody waits for anybody. */
static void shard_watch_late(struct shard_model *model, uint64_t now)
{
    char names[256];
    uint32_t first = 0;

    if (model->late_at == CLOCK_NEVER && model->shard->config.step_timeout_ms > 0 &&
        model->shard->config.number == 0 && model->phase == PHASE_RUNNING &&
        shard_waited_for(model, names, sizeof(names), &first))
        model->late_at = clock_after(now, model->shard->config.step_timeout_ms);
}

/* shard_departed -- somebody pushed to a step to which a worker that left gave nothing: policy fail. */
static bool shard_departed(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    bool sealed = false;
    uint32_t gone = UINT32_MAX;

    if (shard->config.number != 0 || model->phase != PHASE_RUNNING)
        return false;
    for (uint32_t w = 0; w < model->board.workers; w++) {
        bool here = model->shares[w].seal[model->step & 1].next == model->step + 1;
        sealed = sealed || here;
        if (shard->members[w].left && !here && gone == UINT32_MAX)
            gone = w;
    }
    if (!sealed || gone == UINT32_MAX)
        return false;
    error_set(STEPGATE_ELOST, 0, "let every worker run the same number of steps",
              "worker %u left the job before step %llu, to which others contribute", gone,
              (unsigned long long)model->step);
    error_peer(STEPGATE_ROLE_WORKER, (int)gone, "", "");
    error_step(model->step, -1);
    shard_abort(shard, now);
    return true;
}

/* shard_gate_declared -- a model that is not placed waits for every worker: one that has left will not come. */
void shard_gate_declared(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    bool awaited = false;
    uint32_t gone = UINT32_MAX;

    if (shard->config.number != 0)
        return;
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        awaited = awaited || (model->shares[w].checked && !shard->members[w].left);
        if (shard->members[w].left && !model->shares[w].checked && gone == UINT32_MAX)
            gone = w;
    }
    if (!awaited || gone == UINT32_MAX)
        return;
    error_set(STEPGATE_ELOST, 0, "let every worker declare the same models",
              "worker %u left the job before model %u was committed, which others wait for", gone,
              model->number);
    error_peer(STEPGATE_ROLE_WORKER, (int)gone, "", "");
    shard_abort(shard, now);
}

/* shard_gate -- moves a placed model on. */
void shard_gate(struct shard_model *model, uint64_t now)
{
    if (model->ordered) {
        if (shard_applied(model))
            shard_pass(model, now);
        else
            return;
    }
    uint64_t arrivals =
        atomic_load_explicit(&model->board.arrivals, memory_order_acquire); /* pairs with the lanes */
    if (arrivals != model->seen_arrivals) {
        model->seen_arrivals = arrivals;
        model->look = true;
    }
    if (now >= model->report_at)
        shard_report(model, now);
    if (now >= model->late_at)
        shard_late(model, now);
    if (!model->look || model->complete_sent ||
        (model->shard->config.number != 0 && !model->shard->leader_up))
        return; /* workers may be faster than this shard's way to the leader */
    model->look = false;
    if (shard_departed(model, now))
        return;
    if (!shard_is_complete(model)) {
        shard_watch_late(model, now);
        return;
    }
    model->complete_sent = true;
    const struct message complete = {.kind = MESSAGE_COMPLETE,
                                     .model = model->number,
                                     .step = model->step,
                                     .slot_kind =
                                         model->phase == PHASE_INITIAL ? SLOT_INITIAL : SLOT_GRADIENT};
#ifdef STEPGATE_MUTANT_APPLY_BEFORE_COMMIT
    if (model->phase == PHASE_RUNNING) {
        struct message early = {
            .kind = MESSAGE_COMMIT, .model = model->number, .step = model->step, .slot_kind = SLOT_GRADIENT};
        float rate = model_learning_rate(model->model, model->step), momentum = (float)model->model->momentum;
        memcpy(&early.rate_bits, &rate, sizeof(rate));
        memcpy(&early.momentum_bits, &momentum, sizeof(momentum));
        shard_commit(model->shard, &early, now);
    }
#endif
    leader_send(model->shard, &complete, now);
}
