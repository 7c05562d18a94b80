/* SPDX-License-Identifier: BSD-3-Clause */
/* leader -- shard 0 decides: contributions that are complete on all shards go to the mode, and what it decides goes to everybody, once. */
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
        lead->applied_next = calloc(shard->config.shards, sizeof(*lead->applied_next));
        lead->complete_initial = calloc(shard->config.shards, sizeof(*lead->complete_initial));
        lead->applied_initial = calloc(shard->config.shards, sizeof(*lead->applied_initial));
    }
    if (lead == NULL || leader_checkpoint_new(shard, lead) != 0 || lead->complete_next == NULL ||
        lead->applied_next == NULL || lead->complete_initial == NULL || lead->applied_initial == NULL) {
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
    mode_delete(&(*lead)->mode);
    leader_checkpoint_delete(*lead);
    leader_sets_delete(&(*lead)->sets);
    free((*lead)->contributors);
    free((*lead)->tallies);
    free((*lead)->contributed);
    free((*lead)->leaving);
    free((*lead)->absences);
    free((*lead)->heard);
    free((*lead)->tunes.list);
    free((*lead)->complete_next);
    free((*lead)->applied_next);
    free((*lead)->complete_initial);
    free((*lead)->applied_initial);
    free(*lead);
    *lead = NULL;
}

/* leader_replay -- the recorded set of a step, for the mode. */
static bool leader_replay(void *context, uint64_t step, const uint32_t **ranks, uint32_t *count)
{
    const struct shard_model *model = context;
    const struct shard_config *config = &model->shard->config;

    return config->replay(config->sets_context, model->model->name, step, ranks, count);
}

/* leader_mode -- see inside.h. One that there is already has seen nothing but departures. */
int leader_mode(struct shard_model *model, uint64_t step)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    const struct model *m = model->model;
    uint32_t workers = shard->config.workers;
    const struct mode_settings settings = {.step = step,
                                           .update = m->update,
                                           .non_finite = m->non_finite,
                                           .lost = shard->config.lost,
                                           .workers = workers,
                                           .replicas = model_replicas(m, workers),
                                           .tokens_per_step = model_tokens_per_step(m, workers),
                                           .initial_tokens = model_initial_tokens(m, workers),
                                           .bound = m->bound,
                                           .replay = shard->config.replay != NULL ? leader_replay : NULL,
                                           .replay_context = model};

    mode_delete(&lead->mode);
    int status = mode_new(&settings, &lead->mode);
    for (uint32_t w = 0; status == 0 && !model->together && w < workers; w++)
        if (shard->members[w].left)
            status = mode_gone(lead->mode, w, false);
    return status == 0 ? leader_late_mode(model) : status;
}

/* leader_place -- see inside.h. */
int leader_place(struct shard_model *model)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    const struct model *m = model->model;
    uint32_t workers = shard->config.workers;

    lead->tallies = calloc((size_t)workers * 2u * model->depth, sizeof(*lead->tallies));
    lead->contributed = calloc(workers, sizeof(*lead->contributed));
    lead->leaving = calloc(workers, sizeof(*lead->leaving));
    lead->absences = calloc(workers, sizeof(*lead->absences));
    lead->heard = calloc((size_t)workers * shard->config.shards, 1);
    if (lead->tallies == NULL || lead->contributed == NULL || lead->leaving == NULL ||
        lead->absences == NULL || lead->heard == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the contributions of %u workers", workers);
    if (!model->together && (uint64_t)workers * model->depth > MESSAGE_WORKERS_MAX)
        return error_set(STEPGATE_EINVAL, 0, "use fewer workers, or R = T",
                         "%u workers with %u slots each: a step names at most %u contributions", workers,
                         model->depth, MESSAGE_WORKERS_MAX);
    int kept = leader_sets_new(model, &lead->sets);
    if (kept != 0)
        return kept;
    if (shard->config.declare != NULL) {
        int status = shard->config.declare(shard->config.sets_context, m, model->fingerprint);
        if (status != 0)
            return status;
    }
    optimizer_powers_start(m, &lead->powers);
    lead->numbers = *m;
    leader_late_place(model);
    return leader_mode(model, 0);
}

/* leader_send -- from any shard to the leader. */
void leader_send(struct shard *shard, const struct message *m, uint64_t now)
{
    if (shard->config.number != 0)
        shard_post(shard, &shard->leader, m, now);
    else if (m->kind == MESSAGE_COMPLETE)
        leader_complete(shard, 0, m, now);
    else if (m->kind == MESSAGE_FORGOT || m->kind == MESSAGE_BACK)
        leader_absence_answer(shard, 0, m, now);
    else
        leader_applied(shard, 0, m, now);
}

/* leader_spread -- to every shard, this one last: its own gate may complete the next step at once. */
void leader_spread(struct shard *shard, const struct message *m, uint64_t now)
{
    for (uint32_t s = 1; s < shard->config.shards; s++)
        shard_post(shard, &shard->peers[s].link, m, now);
    shard_order(shard, m, now);
}

/* leader_token -- lets a worker into a step, and tells it what became of its contribution. `begins`: what the contributions of one that came back are counted from. */
static void leader_token(struct shard *shard, struct shard_model *model, const struct mode_decision *d,
                         uint64_t begins, uint64_t now)
{
    struct message token;

    message_begin(&token, MESSAGE_TOKEN);
    token.model = model->number;
    token.step = d->step;
    token.sequence = d->sequence;
    token.verdict = (uint32_t)d->verdict;
    token.verdict_step = d->verdict_step;
    token.staleness = d->staleness;
    if (shard->config.archive != NULL)
        token.kept = MESSAGE_KEPT_FOLDER;
    if (shard->config.record != NULL || shard->config.replay != NULL)
        token.kept |= MESSAGE_KEPT_SETS;
    const struct leader_model *lead = shard->leads[model->number];
    token.count = mode_needed(lead->mode);
    token.workers = mode_there(lead->mode);
    if (d->verdict == STEPGATE_VERDICT_NONE && lead->restore.there)
        token.kept |= MESSAGE_KEPT_RESTORED;
    if (begins > 0) {
        token.offset = begins;
        token.kept |= MESSAGE_KEPT_RESTORED; /* as far as the newcomer is concerned */
    }
#ifdef STEPGATE_MUTANT_TOKEN_LOST
    if (d->rank == 1 && d->step % 11 == 7)
        return;
#endif
    shard_send(shard, d->rank, &token, now);
}

/* leader_first_look -- see inside.h. Who came back meanwhile has one, or gets it when that is done. */
void leader_first_look(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    struct mode_decision first = {
        .step = model->first, .sequence = UINT64_MAX, .verdict = STEPGATE_VERDICT_NONE};

    if (!lead->checkpoint.first || lead->checkpoint.making)
        return;
    lead->checkpoint.first = false;
    for (first.rank = 0; first.rank < shard->config.workers; first.rank++)
        if (lead->absences[first.rank].state == ABSENCE_NONE && !lead->absences[first.rank].over)
            leader_token(shard, model, &first, 0, now);
}

/* leader_first_tokens -- the initial values, or those of a checkpoint, are everywhere: every worker may begin the first step. */
static void leader_first_tokens(struct shard *shard, struct shard_model *model, uint64_t now)
{
    struct leader_checkpoint *checkpoint = &shard->leads[model->number]->checkpoint;

    checkpoint->taken_at = now;
    checkpoint->first = true;
    leader_checkpoint_first(model, now);
    leader_first_look(model, now);
}

/* leader_token_back -- see inside.h. */
void leader_token_back(struct shard *shard, struct shard_model *model, uint32_t rank, uint64_t begins,
                       uint64_t now)
{
    const struct mode_decision back = {.rank = rank,
                                       .step = mode_step(shard->leads[model->number]->mode),
                                       .sequence = UINT64_MAX,
                                       .verdict = STEPGATE_VERDICT_NONE};

    leader_token(shard, model, &back, begins, now);
}

/* leader_carry_out -- see inside.h. */
void leader_carry_out(struct shard *shard, struct shard_model *model, uint64_t now)
{
    struct leader_model *lead = shard->leads[model->number];
    struct mode_decision d;

    while (!shard->failed && !lead->measuring && mode_decide(lead->mode, &d) != 0) {
        struct message m = {.model = model->number, .rank = d.rank, .sequence = d.sequence, .step = d.step};
        switch (d.kind) {
        case MODE_ACCUMULATE:
        case MODE_RELEASE:
            m.kind = d.kind == MODE_ACCUMULATE ? MESSAGE_ACCUMULATE : MESSAGE_RELEASE;
            m.set_kind = MESSAGE_SET_ONE;
            leader_spread(shard, &m, now);
            break;
        case MODE_COMMIT: leader_step(model, &d, now); break;
        case MODE_TOKEN: leader_token(shard, model, &d, 0, now); break;
        default: leader_fail(shard, model, &d, now); break;
        }
    }
    leader_absence_look(model, now);
}

/* leader_contribute -- one contribution is complete on every shard. */
static int leader_contribute(struct shard_model *model, uint32_t rank, uint64_t sequence)
{
    struct leader_model *lead = model->shard->leads[model->number];
    const struct shard_seal *seal = shard_seal_of(model, rank, sequence);

    if (seal == NULL)
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "contribution %llu of worker %u is complete, but ps 0 has not got it",
                         (unsigned long long)sequence, rank);
    const struct mode_contribution contribution = {.rank = rank,
                                                   .sequence = sequence,
                                                   .step = seal->step,
                                                   .weight = seal->weight,
                                                   .finite = seal->finite};
    lead->contributed[rank] = sequence + 1;
    int status = mode_contribute(lead->mode, &contribution);
    if (status == 0 && lead->leaving[rank] && lead->contributed[rank] == model->shares[rank].sealed_next) {
        lead->leaving[rank] = false;
        status = mode_gone(lead->mode, rank, false);
    }
    return status;
}

/* leader_whole_step -- a step that is complete on every shard: everybody's contributions come at once. */
static int leader_whole_step(struct shard_model *model)
{
    struct leader_model *lead = model->shard->leads[model->number];
    uint64_t step = mode_step(lead->mode);
    int status = 0;

    for (uint32_t s = 0; s < model->shard->config.shards; s++)
        if (lead->complete_next[s] <= step)
            return 0;
    for (uint32_t w = 0; status == 0 && w < model->shard->config.workers; w++) {
        uint32_t quota = model_quota(model->model, model->shard->config.workers, w);
        uint64_t end = shard_sequence(model, step + 1, quota);
        for (uint64_t sequence = end - quota; status == 0 && sequence < end; sequence++)
            status = leader_contribute(model, w, sequence);
    }
    return status;
}

/* leader_count -- one contribution is complete on one more shard. */
static int leader_count(struct shard_model *model, const struct message *m)
{
    struct leader_model *lead = model->shard->leads[model->number];
    uint32_t workers = model->shard->config.workers, ring = 2u * model->depth;

    if (m->rank >= workers)
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "a contribution of worker %u of %u", m->rank, workers);
    if (m->sequence < lead->absences[m->rank].begins)
        return 0; /* of an incarnation that is forgotten */
    struct leader_tally *tally = &lead->tallies[(size_t)m->rank * ring + m->sequence % ring];
    if (m->sequence + 1 < tally->next)
        return 0;
    if (m->sequence + 1 > tally->next)
        *tally = (struct leader_tally){.next = m->sequence + 1};
    tally->shards++;
    return tally->shards == model->shard->config.shards ? leader_contribute(model, m->rank, m->sequence) : 0;
}

/* leader_tuned -- hyper-parameters that were changed before the checkpoint was made, or are to change later. */
static void leader_tuned(struct shard_model *model, uint64_t now)
{
    const struct archive_state *state = &model->shard->leads[model->number]->restore.state;

    for (size_t i = 0; i < state->count && !model->shard->failed; i++) {
        struct message tune = {.kind = MESSAGE_TUNE, .model = model->number, .step = state->changes[i].step};
        memcpy(tune.key, state->changes[i].key, sizeof(tune.key));
        memcpy(tune.value, state->changes[i].value, sizeof(tune.value));
        leader_tune(model->shard, &tune, now);
    }
}

/* leader_initial_look -- see inside.h. */
void leader_initial_look(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    struct message commit = {.kind = MESSAGE_COMMIT,
                             .model = model->number,
                             .slot_kind = SLOT_INITIAL,
                             .set_kind = MESSAGE_SET_NONE};

    if (lead->initial_done || lead->mode == NULL || lead->restore.on)
        return;
    for (uint32_t s = 0; s < shard->config.shards; s++)
        if (!lead->complete_initial[s])
            return;
    lead->initial_done = true;
    commit.step = mode_step(lead->mode);
    leader_spread(shard, &commit, now);
    leader_tuned(model, now);
}

/* leader_initial -- the initial values are complete on a shard; where there is a checkpoint they only tell that everybody is there. */
static void leader_initial(struct shard *shard, struct shard_model *model, uint32_t from, uint64_t now)
{
    shard->leads[model->number]->complete_initial[from] = true;
    leader_initial_look(model, now);
}

/* leader_complete -- a shard has a contribution, or every contribution of a step. */
void leader_complete(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];
    int status = 0;

    if (shard->ending)
        return;
    if (shard->leads[m->model] == NULL)
        status = leader_model_new(shard, m->model); /* shards may be ahead of the leader */
    struct leader_model *lead = shard->leads[m->model];
    if (status == 0 && m->slot_kind == SLOT_INITIAL) {
        if (model != NULL)
            leader_initial(shard, model, from, now);
        else
            lead->complete_initial[from] = true;
        return;
    }
    if (status == 0 && lead->mode == NULL)
        status = error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                           "ps %u has contributions to model %u, which is not placed", from, m->model);
    if (status == 0 && m->rank == MESSAGE_EVERYBODY) {
        if (m->step + 1 > lead->complete_next[from])
            lead->complete_next[from] = m->step + 1;
        status = leader_whole_step(model);
    } else if (status == 0) {
        status = leader_count(model, m);
    }
    if (status != 0) {
        shard_abort(shard, now);
        return;
    }
    leader_carry_out(shard, model, now);
    shard_waste_watch(model, now);
}

/* leader_applied -- a shard has done what was committed. */
void leader_applied(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct leader_model *lead = shard->leads[m->model];
    struct shard_model *model = shard->models[m->model];

    if (lead == NULL || model == NULL || shard->ending)
        return;
    if (m->slot_kind == SLOT_INITIAL) {
        bool all = !lead->applied_initial[from];
        lead->applied_initial[from] = true;
        for (uint32_t s = 0; s < shard->config.shards; s++)
            all = all && lead->applied_initial[s];
        if (all)
            leader_first_tokens(shard, model, now);
        return;
    }
    if (m->step + 1 <= lead->applied_next[from])
        return;
    lead->applied_next[from] = m->step + 1;
    for (uint32_t s = 0; s < shard->config.shards; s++)
        if (lead->applied_next[s] < m->step + 1)
            return;
    if (mode_applied(lead->mode, m->step) != 0)
        shard_abort(shard, now);
    else
        leader_carry_out(shard, model, now);
}

/* leader_awaits -- is a worker that is gone still expected? Another one under its rank may be here already. */
static bool leader_awaits(const struct shard *shard, uint32_t rank)
{
    const struct shard_member *member = &shard->members[rank];

    return shard->config.lost == MODE_LOST_WAIT && !member->left &&
           (!member->lost || shard_absence_expected(shard, rank));
}

/*
 * leader_gone -- see inside.h. Where whole steps are reported, a step that is complete has all that its workers gave before they left: the mode need not know of
 * them, and whoever did not give is found by shard_departed. Whoever left has sealed all it gave: that counts first.
 */
void leader_gone(struct shard *shard, uint32_t rank, uint64_t now)
{
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        struct leader_model *lead = shard->leads[m];
        if (lead == NULL || lead->mode == NULL || shard->models[m]->together)
            continue;
        if (shard->members[rank].left && lead->contributed[rank] < shard->models[m]->shares[rank].sealed_next)
            lead->leaving[rank] = true;
        else if (mode_gone(lead->mode, rank, leader_awaits(shard, rank)) != 0)
            shard_abort(shard, now);
        else
            leader_carry_out(shard, shard->models[m], now);
    }
}

/*
 * leader_tune -- worker 0 changes a hyper-parameter. It takes its place among the orders, so that it holds from the same step on every shard: no
 * step that is decided already.
 */
void leader_tune(struct shard *shard, const struct message *m, uint64_t now)
{
    struct leader_model *lead = shard->leads[m->model];
    struct message tune = *m;

    if (lead == NULL || lead->mode == NULL) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "worker 0 changes %s of model %u, which is not placed", m->key, m->model);
        shard_abort(shard, now);
        return;
    }
    /* relaxed: only this thread moves it */
    uint64_t next = atomic_load_explicit(&lead->step, memory_order_relaxed) + lead->measuring;
    if (tune.step < next)
        tune.step = next;
    if (shard_tunes_keep(&lead->tunes, &tune) != 0 || shard_tunes_room(&lead->tuned, lead->tunes.count) != 0)
        shard_abort(shard, now);
    else
        leader_spread(shard, &tune, now);
}

/* leader_counts -- see inside.h. */
void leader_counts(const struct shard *shard, const struct message *ask, struct message *answer)
{
    const struct leader_model *lead = shard->leads[ask->model];
    struct mode_counts counts = {0};

    if (lead != NULL && lead->mode != NULL && ask->rank < shard->config.workers)
        mode_counts(lead->mode, ask->rank, &counts);
    *answer = (struct message){.kind = MESSAGE_COUNTS,
                               .model = ask->model,
                               .rank = ask->rank,
                               .counters = {counts.accepted, counts.stale, counts.non_finite, counts.empty}};
    if (lead == NULL || lead->mode == NULL)
        return;
    answer->step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    memcpy(&answer->powers[0], &lead->powers.beta1_power, sizeof(float));
    memcpy(&answer->powers[1], &lead->powers.beta2_power, sizeof(float));
}

/* leader_rest -- see inside.h. */
void leader_rest(struct shard *shard, uint32_t rank, uint64_t now)
{
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        struct leader_model *lead = shard->leads[m];
        if (lead == NULL || lead->mode == NULL)
            continue;
        if (mode_rest(lead->mode, rank) != 0)
            shard_abort(shard, now);
        else
            leader_carry_out(shard, shard->models[m], now);
    }
}

/* leader_meet -- a barrier is over: nobody is ahead of anybody. */
static void leader_meet(struct shard *shard, uint64_t barrier, uint64_t now)
{
    shard->met = barrier;
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        struct leader_model *lead = shard->leads[m];
        if (lead == NULL || lead->mode == NULL)
            continue;
        if (mode_meet(lead->mode) != 0)
            shard_abort(shard, now);
        else
            leader_carry_out(shard, shard->models[m], now);
    }
}

/* leader_barrier -- lets go when every worker that is still there is in the same barrier, once: each that leaves afterwards would have all others told again. */
void leader_barrier(struct shard *shard, uint64_t now)
{
    uint64_t lowest = UINT64_MAX;

    for (uint32_t w = 0; w < shard->config.workers; w++) {
        const struct shard_member *member = &shard->members[w];
        if (member->left || member->lost)
            continue;
        if (!member->up)
            return;
        if (member->barrier < lowest)
            lowest = member->barrier;
    }
    if (lowest == UINT64_MAX || lowest <= shard->met)
        return;
    leader_meet(shard, lowest, now);
    struct message over = {.kind = MESSAGE_BARRIER_OVER};
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        over.step = lowest - shard->members[w].met;
        if (shard->members[w].barrier == lowest && !shard->members[w].lost)
            shard_send(shard, w, &over, now);
    }
}
