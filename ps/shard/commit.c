/* SPDX-License-Identifier: BSD-3-Clause */
/* commit -- a step that the mode has decided becomes an order to all shards: whose contributions, the numbers to apply them with, and, where it is clipped, the norm of its mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

/* leader_bitmap -- the contributors of a commit. */
static void leader_bitmap(const struct shard_model *model, const struct mode_decision *d,
                          struct message *commit)
{
    size_t bits = (size_t)model->shard->config.workers * model->depth;

    commit->length = (uint32_t)((bits + 7) / 8);
    memset(commit->part, 0, commit->length);
    for (uint32_t i = 0; i < d->count; i++) {
        size_t bit = (size_t)d->set[i].rank * model->depth + d->set[i].sequence % model->depth;
        commit->part[bit / 8] |= (uint8_t)(1u << (bit % 8));
    }
}

/* leader_record -- whose contributions made a step, for checkpoints and for a run that is to repeat it. */
static int leader_record(const struct shard_model *model, const struct mode_decision *d)
{
    const struct shard_config *config = &model->shard->config;
    struct leader_model *lead = model->shard->leads[model->number];
    int status = 0;

    if (model->model->update != MODEL_STRICT || (config->record == NULL && lead->sets.ring == NULL))
        return 0;
    if (d->count > lead->contributor_room) {
        uint32_t *more = realloc(lead->contributors, d->count * sizeof(*more));
        if (more == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory to record a set of %u contributors",
                             d->count);
        lead->contributors = more;
        lead->contributor_room = d->count;
    }
    for (uint32_t i = 0; i < d->count; i++)
        lead->contributors[i] = d->set[i].rank;
    leader_sets_keep(&lead->sets, d->step, lead->contributors, d->count);
    if (config->record != NULL)
        status =
            config->record(config->sets_context, model->model->name, d->step, lead->contributors, d->count);
    return status;
}

/* leader_describe -- a commit for all shards: whose contributions, and the numbers to apply them with. */
static void leader_describe(struct shard_model *model, const struct mode_decision *d, struct message *commit)
{
    struct leader_model *lead = model->shard->leads[model->number];
    struct optimizer_hyper hyper;

    message_begin(commit, MESSAGE_COMMIT);
    commit->model = model->number;
    commit->step = d->step;
    commit->slot_kind = SLOT_GRADIENT;
    commit->count = d->count;
    shard_tunes_take(&lead->tunes, &lead->numbers, d->step, &lead->tuned, &model->shard->config.log);
    optimizer_hyper_at(&lead->numbers, d->step, &lead->powers, &hyper);
    memcpy(commit->hyper, &hyper, sizeof(hyper));
    switch (model->model->update) {
    case MODEL_TF: commit->set_kind = MESSAGE_SET_ACCUMULATED; break;
    case MODEL_STRICT: commit->set_kind = model->together ? MESSAGE_SET_ALL : MESSAGE_SET_RANKS; break;
    default:
        commit->set_kind = MESSAGE_SET_ONE;
        commit->rank = d->rank;
        commit->sequence = d->sequence;
        break;
    }
    if (commit->set_kind == MESSAGE_SET_RANKS)
        leader_bitmap(model, d, commit);
    if (d->count == 0)
        commit->set_kind = MESSAGE_SET_NONE;
}

/* leader_commit -- the commit point of a step. */
static void leader_commit(struct shard_model *model, const struct message *commit, uint64_t now)
{
    struct leader_model *lead = model->shard->leads[model->number];
    uint64_t expected = commit->step;

    /* release: whoever reads the step with acquire sees everything that led to it. */
    if (!atomic_compare_exchange_strong_explicit(&lead->step, &expected, commit->step + 1,
                                                 memory_order_release, memory_order_relaxed))
        return;
    lead->commits++;
#ifdef STEPGATE_MUTANT_POWERS_OF_SKIPPED
    if (commit->set_kind == MESSAGE_SET_NONE)
        optimizer_powers_next(&lead->numbers, &lead->powers);
#endif
    if (commit->set_kind != MESSAGE_SET_NONE)
        optimizer_powers_next(&lead->numbers, &lead->powers);
    leader_spread(model->shard, commit, now);
    leader_checkpoint_due(model, now);
}

/* leader_step -- see inside.h. */
void leader_step(struct shard_model *model, const struct mode_decision *d, uint64_t now)
{
    struct leader_model *lead = model->shard->leads[model->number];

    if (leader_record(model, d) != 0) {
        shard_abort(model->shard, now);
        return;
    }
    leader_describe(model, d, &lead->held);
    if (!(lead->numbers.clip_global_norm > 0) || lead->held.set_kind == MESSAGE_SET_NONE) {
        leader_commit(model, &lead->held, now);
        return;
    }
    lead->measuring = true;
    lead->measured = 0;
    exact_clear(&lead->norm);
    struct message measure = lead->held;
    measure.kind = MESSAGE_MEASURE;
    leader_spread(model->shard, &measure, now);
}

/* leader_norm -- see inside.h. */
void leader_norm(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];
    struct leader_model *lead = shard->leads[m->model];
    struct bytes_reader r = {m->part, m->length, 0, false};
    struct exact_sum sum;

    (void)from;
    if (shard->ending || model == NULL || lead == NULL || !lead->measuring || m->step != lead->held.step)
        return;
    if (exact_unpack(&r, &sum) != 0) {
        shard_abort(shard, now);
        return;
    }
    exact_merge(&lead->norm, &sum);
#ifndef STEPGATE_MUTANT_NORM_OF_ONE_SHARD
    if (++lead->measured < shard->config.shards)
        return;
#endif
    double norm = sqrt(exact_round(&lead->norm)), clip = lead->numbers.clip_global_norm;
    double scale = isfinite(norm) ? (norm > clip ? clip / norm : 1) : (double)NAN;
    struct optimizer_hyper hyper;
    memcpy(&hyper, lead->held.hyper, sizeof(hyper));
    hyper.in_f64.scale = scale;
    hyper.in_f32.scale = (float)scale;
    memcpy(lead->held.hyper, &hyper, sizeof(hyper));
    lead->measuring = false;
    leader_commit(model, &lead->held, now);
    leader_carry_out(shard, model, now);
}
