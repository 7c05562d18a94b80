/* SPDX-License-Identifier: BSD-3-Clause */
/* leader -- shard 0 decides: when a step is complete on all shards, it is committed, once, for all of them. */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

/* leader_model_new -- what the leader keeps of a model. */
int leader_model_new(struct shard *shard, uint32_t number)
{
    struct leader_model *lead = calloc(1, sizeof(*lead));

    if (lead != NULL) {
        lead->complete_next = calloc(shard->config.shards, sizeof(*lead->complete_next));
        lead->complete_initial = calloc(shard->config.shards, sizeof(*lead->complete_initial));
        lead->applied_initial = calloc(shard->config.shards, sizeof(*lead->applied_initial));
    }
    if (lead == NULL || lead->complete_next == NULL || lead->complete_initial == NULL ||
        lead->applied_initial == NULL) {
        if (lead != NULL)
            leader_model_delete(&lead);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the leader's part of model %u", number);
    }
    shard->leads[number] = lead;
    return 0;
}

/* leader_model_delete -- frees, sets NULL. */
void leader_model_delete(struct leader_model **lead)
{
    if (*lead == NULL)
        return;
    free((*lead)->complete_next);
    free((*lead)->complete_initial);
    free((*lead)->applied_initial);
    free(*lead);
    *lead = NULL;
}

/* leader_send -- from any shard to the leader. */
void leader_send(struct shard *shard, const struct message *m, uint64_t now)
{
    if (shard->config.number != 0)
        link_send(&shard->leader, m, now);
    else if (m->kind == MESSAGE_COMPLETE)
        leader_complete(shard, 0, m, now);
    else
        leader_applied(shard, 0, m, now);
}

/* leader_spread -- a commit to every shard, this one last: its own gate may complete the next step at once. */
static void leader_spread(struct shard *shard, const struct message *commit, uint64_t now)
{
    for (uint32_t s = 1; s < shard->config.shards; s++)
        link_send(&shard->peers[s].link, commit, now);
    shard_commit(shard, commit, now);
}

/* leader_tokens -- every worker is let into the next step, and told what became of its contribution. */
static void leader_tokens(struct shard *shard, struct shard_model *model, uint64_t step, bool after_step,
                          uint64_t now)
{
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        struct message token = {.kind = MESSAGE_TOKEN, .model = model->number, .step = step};
        if (after_step) {
            const struct shard_seal *seal = &model->shares[w].seal[(step - 1) & 1];
            token.verdict = seal->weight > 0 ? STEPGATE_VERDICT_APPLIED : STEPGATE_VERDICT_EMPTY;
            token.verdict_step = step - 1;
        }
#ifdef STEPGATE_MUTANT_TOKEN_LOST
        if (w == 1 && step % 11 == 7)
            continue;
#endif
        shard_send(shard, w, &token, now);
    }
}

/* leader_decide -- commits what is complete on all shards. */
static void leader_decide(struct shard *shard, struct shard_model *model, uint64_t now)
{
    struct leader_model *lead = shard->leads[model->number];
    uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */

    if (!lead->initial_done) {
        for (uint32_t s = 0; s < shard->config.shards; s++)
            if (!lead->complete_initial[s])
                return;
        lead->initial_done = true;
        const struct message commit = {
            .kind = MESSAGE_COMMIT, .model = model->number, .slot_kind = SLOT_INITIAL};
        leader_spread(shard, &commit, now);
        return;
    }
    for (uint32_t s = 0; s < shard->config.shards; s++)
        if (lead->complete_next[s] <= step)
            return;
    /* The commit point. release: whoever reads the step with acquire sees everything that led to it. */
    uint64_t expected = step;
    if (!atomic_compare_exchange_strong_explicit(&lead->step, &expected, step + 1, memory_order_release,
                                                 memory_order_relaxed))
        return;
    lead->commits++;
    float rate = model_learning_rate(model->model, step), momentum = (float)model->model->momentum;
    struct message commit = {
        .kind = MESSAGE_COMMIT, .model = model->number, .step = step, .slot_kind = SLOT_GRADIENT};
    memcpy(&commit.rate_bits, &rate, sizeof(rate));
    memcpy(&commit.momentum_bits, &momentum, sizeof(momentum));
    leader_spread(shard, &commit, now);
    leader_tokens(shard, model, step + 1, true, now);
}

/* leader_complete -- a shard has every contribution of a step. */
void leader_complete(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];

    if (shard->ending)
        return;
    if (shard->leads[m->model] == NULL &&
        leader_model_new(shard, m->model) != 0) { /* shards may be ahead of the leader */
        shard_abort(shard, now);
        return;
    }
    struct leader_model *lead = shard->leads[m->model];
    if (m->slot_kind == SLOT_INITIAL)
        lead->complete_initial[from] = true;
    else if (m->step + 1 > lead->complete_next[from])
        lead->complete_next[from] = m->step + 1;
    if (model != NULL && model->phase != PHASE_DECLARED)
        leader_decide(shard, model, now);
}

/* leader_applied -- a shard has done what was committed. */
void leader_applied(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct leader_model *lead = shard->leads[m->model];
    struct shard_model *model = shard->models[m->model];

    if (lead == NULL || model == NULL || shard->ending || m->slot_kind != SLOT_INITIAL ||
        lead->applied_initial[from])
        return;
    lead->applied_initial[from] = true;
    for (uint32_t s = 0; s < shard->config.shards; s++)
        if (!lead->applied_initial[s])
            return;
    leader_tokens(shard, model, 0, false, now);
}

/* leader_barrier -- lets go when every worker that has not left is in the same barrier. */
void leader_barrier(struct shard *shard, uint64_t now)
{
    uint64_t lowest = UINT64_MAX;

    for (uint32_t w = 0; w < shard->config.workers; w++) {
        const struct shard_member *member = &shard->members[w];
        if (!member->up && !member->left)
            return;
        if (!member->left && member->barrier < lowest)
            lowest = member->barrier;
    }
    const struct message over = {.kind = MESSAGE_BARRIER_OVER, .step = lowest};
    for (uint32_t w = 0; lowest != UINT64_MAX && lowest > 0 && w < shard->config.workers; w++)
        if (shard->members[w].barrier == lowest)
            shard_send(shard, w, &over, now);
}
