/* SPDX-License-Identifier: BSD-3-Clause */
/* leader -- shard 0 decides: contributions that are complete on all shards go to the mode, and what it decides goes to everybody, once. */
#include <math.h>
#include <stdio.h>
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
    return status;
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
    if (shard->config.declare != NULL) {
        int status = shard->config.declare(shard->config.sets_context, m, model->fingerprint);
        if (status != 0)
            return status;
    }
    optimizer_powers_start(m, &lead->powers);
    lead->numbers = *m;
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

/* leader_first_tokens -- the initial values, or those of a checkpoint, are everywhere: every worker may begin the first step. */
static void leader_first_tokens(struct shard *shard, struct shard_model *model, uint64_t now)
{
    struct mode_decision first = {
        .step = model->first, .sequence = UINT64_MAX, .verdict = STEPGATE_VERDICT_NONE};

    shard->leads[model->number]->checkpoint.taken_at = now;
    leader_checkpoint_first(model, now);
    for (first.rank = 0; first.rank < shard->config.workers; first.rank++)
        leader_token(shard, model, &first, 0, now);
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

/* leader_record -- whose contributions made a step, for a run that is to repeat it. */
static int leader_record(const struct shard_model *model, const struct mode_decision *d)
{
    const struct shard_config *config = &model->shard->config;

    if (config->record == NULL || model->model->update != MODEL_STRICT)
        return 0;
    uint32_t *ranks = calloc(d->count + 1u, sizeof(*ranks));
    if (ranks == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to record a set of %u contributors", d->count);
    for (uint32_t i = 0; i < d->count; i++)
        ranks[i] = d->set[i].rank;
    int status = config->record(config->sets_context, model->model->name, d->step, ranks, d->count);
    free(ranks);
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

/* leader_step -- a step is decided; with a global norm to clip by, its mean is measured first. */
static void leader_step(struct shard_model *model, const struct mode_decision *d, uint64_t now)
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

/*
 * leader_stuck -- tf: nobody brings what the step lacks. A contribution that counts for nothing has taken a token all the same: what was for
 * nothing while this step was awaited is named, or, if that is not it, what ever was.
 */
static void leader_stuck(const struct shard *shard, const struct shard_model *model,
                         const struct mode_decision *d)
{
    char who[64] = "every worker", wasted[224], cause[340] = "";
    const char *when = " while this step was awaited",
               *help = "give more initial_tokens or a smaller replicas_to_aggregate";
    uint64_t count = shard_waste_words(model, false, wasted, sizeof(wasted));

    if (count == 0) {
        when = "";
        count = shard_waste_words(model, true, wasted, sizeof(wasted));
    }
    if (count > 0) {
        snprintf(cause, sizeof(cause),
                 "; %llu contribution%s counted for nothing%s, and used up a token each: %s",
                 (unsigned long long)count, count == 1 ? "" : "s", when, wasted);
        help = "in tf mode a contribution that is dropped or abandoned has used up its token: give more "
               "initial_tokens, avoid what is not finite, or use update=strict";
    }
    if (d->rank != UINT32_MAX) {
        bool left = shard->members[d->rank].left;
        snprintf(who, sizeof(who), "worker %u %s, every other one", d->rank, left ? "has left" : "is lost");
        if (count == 0)
            help =
                left ? "end the loop by the step that begin gives, not by counting contributions; a smaller "
                       "replicas_to_aggregate can do without"
                     : "start the job again; a smaller replicas_to_aggregate can do without";
    }
    error_set(STEPGATE_ELOST, 0, help, "%s waits for a token of step %llu of model %s, and none can come%s",
              who, (unsigned long long)d->step, model->model->name, cause);
}

/* leader_missed -- strict: a step cannot be completed without workers that are gone. */
static void leader_missed(const struct shard *shard, const struct shard_model *model,
                          const struct mode_decision *d)
{
    const struct shard_member *member = &shard->members[d->rank];
    unsigned long long step = d->step;

    if (member->left)
        error_set(STEPGATE_ELOST, 0,
                  "end the loop by the step that begin gives, not by counting contributions",
                  "worker %u left the job before step %llu of model %s, to which others contribute", d->rank,
                  step, model->model->name);
    else
        error_set(
            STEPGATE_ELOST, 0,
            shard->config.lost == MODE_LOST_WAIT
                ? "look at that worker's output and host, then start the job again; return_timeout sets how "
                  "long to wait"
                : "look at that worker's output and host, then start the job again; lost_worker=wait or "
                  "shrink "
                  "goes on",
            "step %llu of model %s takes %u contributions, and there are %u of %u workers: worker %u is "
            "lost%s: "
            "%.300s",
            step, model->model->name, mode_needed(shard->leads[model->number]->mode),
            mode_there(shard->leads[model->number]->mode), shard->config.workers, d->rank,
            shard->config.lost == MODE_LOST_WAIT ? ", and did not come back" : "", member->cause.text);
}

/* leader_fail -- the mode cannot go on. */
static void leader_fail(struct shard *shard, const struct shard_model *model, const struct mode_decision *d,
                        uint64_t now)
{
    unsigned long long step = d->step;

    switch (d->failure) {
    case MODE_FAIL_NON_FINITE:
        error_set(STEPGATE_ENONFINITE, 0,
                  "look at that worker's data and learning rate; non_finite=drop or skip goes on without it",
                  "worker %u contributed an infinity or a NaN to step %llu of model %s", d->rank, step,
                  model->model->name);
        break;
    case MODE_FAIL_GONE: leader_missed(shard, model, d); break;
    default: leader_stuck(shard, model, d); break;
    }
    if (d->rank != UINT32_MAX)
        error_peer(STEPGATE_ROLE_WORKER, (int)d->rank, "", "");
    error_step(step, -1);
    shard_abort(shard, now);
}

/* leader_carry_out -- what the mode has decided, until a commit must wait for its norm. */
static void leader_carry_out(struct shard *shard, struct shard_model *model, uint64_t now)
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

/* leader_norm -- a shard has measured its part of the mean. */
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
