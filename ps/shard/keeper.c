/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keeper -- the leader's part of checkpoints: when one is made, what is in it beside the pieces of the shards, when it is complete; and from which one a
 * model goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define KEEPER_PARTING_MS                                                                                    \
    20000 /* how long a ps that is stopped waits for its last checkpoint: batch systems kill after 30 s */
#define KEEPER_PARTING_MORE_MS 3000 /* and the others, for the leader's word */

/* leader_checkpoint_new -- see inside.h. */
int leader_checkpoint_new(struct shard *shard, struct leader_model *lead)
{
    struct leader_checkpoint *checkpoint = &lead->checkpoint;

    if (shard->config.archive == NULL)
        return 0;
    lead->restore.on = true;
    lead->restore.below = UINT64_MAX;
    checkpoint->receipts = calloc(shard->config.shards, sizeof(*checkpoint->receipts));
    checkpoint->answered = calloc(shard->config.shards, sizeof(*checkpoint->answered));
    checkpoint->asked = calloc(shard->config.workers, sizeof(*checkpoint->asked));
    checkpoint->served = calloc(shard->config.workers, sizeof(*checkpoint->served));
    return checkpoint->receipts != NULL && checkpoint->answered != NULL && checkpoint->asked != NULL &&
                   checkpoint->served != NULL
               ? 0
               : -STEPGATE_ENOMEM;
}

/* leader_checkpoint_delete -- frees. */
void leader_checkpoint_delete(struct leader_model *lead)
{
    free(lead->checkpoint.receipts);
    free(lead->checkpoint.answered);
    free(lead->checkpoint.asked);
    free(lead->checkpoint.served);
    archive_state_clear(&lead->checkpoint.state);
    archive_state_clear(&lead->restore.state);
    free(lead->tuned.list);
}

/* keeper_model -- for the archive. */
static struct archive_model keeper_model(const struct shard_model *model)
{
    return (struct archive_model){.name = model->model->name,
                                  .description = model->description,
                                  .bytes = model->description_bytes,
                                  .fingerprint = model->fingerprint};
}

/* keeper_aside -- begins it; `over` is still false. */
static int keeper_aside(struct shard_model *model, void (*work)(void *))
{
    const struct shard_config *config = &model->shard->config;

    if (config->aside != NULL)
        return config->aside(config->aside_context, work, model);
    work(model);
    return 0;
}

/* -- Making one -- */

/* keeper_change -- one more. */
static void keeper_change(struct archive_state *state, const struct shard_tune *tune, uint64_t step)
{
    struct archive_change *change = &state->changes[state->count++];

    change->step = step;
    memcpy(change->key, tune->key, sizeof(change->key));
    memcpy(change->value, tune->value, sizeof(change->value));
}

/* keeper_state -- what the leader knows, of this very step. */
static int keeper_state(struct shard_model *model, uint64_t step)
{
    const struct leader_model *lead = model->shard->leads[model->number];
    struct archive_state *state = &model->shard->leads[model->number]->checkpoint.state;
    size_t room = lead->tuned.count + lead->tunes.count + 1;
    uint32_t workers = model->shard->config.workers;

    archive_state_clear(state);
    *state = (struct archive_state){.step = step,
                                    .shards = model->shard->config.shards,
                                    .workers = model->shard->config.workers,
                                    .powers = lead->powers,
                                    .counts = calloc(workers, sizeof(*state->counts)),
                                    .changes = calloc(room, sizeof(*state->changes))};
    if (state->changes == NULL || state->counts == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu changes of model %s", room,
                         model->model->name);
    for (size_t i = 0; i < lead->tuned.count; i++)
        keeper_change(state, &lead->tuned.list[i], step);
    for (size_t i = 0; i < lead->tunes.count; i++)
        keeper_change(state, &lead->tunes.list[i],
                      lead->tunes.list[i].step > step ? lead->tunes.list[i].step : step);
    for (uint32_t w = 0; w < workers; w++) {
        struct mode_counts counts;
        mode_counts(lead->mode, w, &counts);
        state->counts[w] =
            (struct archive_counts){counts.accepted, counts.stale, counts.non_finite, counts.empty};
    }
    return leader_sets_give(&lead->sets, state);
}

/* keeper_done -- a worker learns how it went. */
static void keeper_done(struct shard_model *model, uint32_t rank, uint64_t id, uint64_t step,
                        const struct stepgate_error *why, uint64_t now)
{
    struct message done;

    message_begin(&done, MESSAGE_CHECKPOINT_DONE);
    done.model = model->number;
    done.offset = id;
    done.step = step;
    done.finite = why == NULL;
    if (why != NULL)
        done.error = *why;
    shard_send(model->shard, rank, &done, now);
}

/* keeper_issue -- the leader gives a checkpoint its place among the commits. */
static void keeper_issue(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    struct leader_checkpoint *checkpoint = &lead->checkpoint;
    uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    const struct message take = {.kind = MESSAGE_CHECKPOINT_TAKE, .model = model->number, .step = step};

    if (keeper_state(model, step) != 0) {
        shard_abort(shard, now);
        return;
    }
    checkpoint->making = true;
    checkpoint->step = step;
    checkpoint->started = checkpoint->taken_at = now;
    checkpoint->missing = shard->config.shards;
    checkpoint->failed = checkpoint->wanted = false;
    memset(checkpoint->answered, 0, shard->config.shards * sizeof(*checkpoint->answered));
    for (uint32_t w = 0; w < shard->config.workers; w++)
        checkpoint->served[w] = checkpoint->asked[w] != 0;
    if (checkpoint->final == FINAL_WANTED)
        checkpoint->final = FINAL_MAKING;
    leader_spread(shard, &take, now);
}

/* keeper_over -- the checkpoint is complete, or will never be. */
static void keeper_over(struct shard_model *model, int status, const struct stepgate_error *why, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_checkpoint *checkpoint = &shard->leads[model->number]->checkpoint;
    uint64_t bytes = 0;

    checkpoint->making = false;
    if (status == 0) {
        checkpoint->have_next = checkpoint->step + 1;
        checkpoint->left_out = false;
        for (uint32_t s = 0; s < shard->config.shards; s++)
            bytes += checkpoint->receipts[s].bytes;
        log_line(&shard->config.log, LOG_INFO, "model %s: checkpoint of step %llu, %.1f MiB, took %.1f s",
                 model->model->name, (unsigned long long)checkpoint->step, (double)bytes / 1048576.0,
                 (double)(now - checkpoint->started) / (1000.0 * CLOCK_MS));
    } else {
        log_line(&shard->config.log, LOG_WARN, "model %s: no checkpoint of step %llu: %s%s%s",
                 model->model->name, (unsigned long long)checkpoint->step, why->text,
                 why->remedy[0] != 0 ? ": " : "", why->remedy);
    }
    if (checkpoint->final == FINAL_MAKING)
        checkpoint->final = FINAL_DONE;
    for (uint32_t w = 0; w < shard->config.workers && !shard->failed; w++)
        if (checkpoint->served[w]) {
            keeper_done(model, w, checkpoint->asked[w] - 1, checkpoint->step, status == 0 ? NULL : why, now);
            checkpoint->asked[w] = 0;
            checkpoint->served[w] = false;
        }
    leader_first_look(model, now);
    if (checkpoint->wanted && !shard->ending)
        keeper_issue(model, now);
}

/* keeper_complete -- aside: the last word on it. */
static void keeper_complete(void *what)
{
    struct shard_model *model = what;
    const struct archive *archive = model->shard->config.archive;
    struct leader_checkpoint *checkpoint = &model->shard->leads[model->number]->checkpoint;
    const struct archive_model declared = keeper_model(model);

    checkpoint->status =
        archive->complete(archive->context, &declared, &checkpoint->state, checkpoint->receipts);
    if (checkpoint->status != 0)
        error_save(&checkpoint->error);
    atomic_store_explicit(&checkpoint->over, true,
                          memory_order_release); /* pairs with leader_checkpoint_progress */
}

/* keeper_answered -- a shard has written its part, or cannot; NULL: it has. */
static void keeper_answered(struct shard_model *model, uint32_t from, const struct stepgate_error *why,
                            uint64_t now)
{
    struct leader_checkpoint *checkpoint = &model->shard->leads[model->number]->checkpoint;

    if (checkpoint->answered[from])
        return;
    checkpoint->answered[from] = true;
    checkpoint->missing--;
    if (why != NULL && !checkpoint->failed) {
        checkpoint->failed = true;
        checkpoint->error = *why;
    }
    if (checkpoint->missing > 0)
        return;
    if (checkpoint->failed) {
        const struct stepgate_error first = checkpoint->error;
        keeper_over(model, -first.code, &first, now);
        return;
    }
    atomic_store_explicit(&checkpoint->over, false, memory_order_relaxed); /* nobody is aside */
    checkpoint->completing = true;
    int status = keeper_aside(model, keeper_complete);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        checkpoint->completing = false;
        keeper_over(model, status, &error, now);
    }
}

/* leader_checkpoint_gone -- see inside.h. */
void leader_checkpoint_gone(struct shard *shard, uint32_t from, uint64_t now)
{
    struct stepgate_error why;

    error_set(STEPGATE_EENDED, 0, "", "ps %u has ended meanwhile", from);
    error_save(&why);
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++)
        if (shard->models[m] != NULL && shard->leads[m] != NULL && shard->leads[m]->checkpoint.making &&
            !shard->leads[m]->checkpoint.completing)
            keeper_answered(shard->models[m], from, &why, now);
}

/* keeper_newest -- is the newest step's complete, or on its way? */
static bool keeper_newest(const struct leader_model *lead)
{
    uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */

    return lead->checkpoint.have_next == step + 1 ||
           (lead->checkpoint.making && lead->checkpoint.step == step);
}

/* leader_checkpoint_due -- see inside.h. One that is to come by its step is left out while another one is written; one by time comes later. */
void leader_checkpoint_due(struct shard_model *model, uint64_t now)
{
    const struct archive *archive = model->shard->config.archive;
    struct leader_model *lead = model->shard->leads[model->number];
    struct leader_checkpoint *checkpoint = &lead->checkpoint;

    if (archive == NULL || model->shard->ending || model->phase != PHASE_RUNNING)
        return;
    uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    bool steps = archive->every_steps > 0 && step % archive->every_steps == 0;
    bool time = archive->every_ms > 0 && now >= clock_after(checkpoint->taken_at, archive->every_ms);
    if ((!steps && !time) || keeper_newest(lead))
        return;
    if (!checkpoint->making) {
        keeper_issue(model, now);
        return;
    }
    if (!steps || checkpoint->left_out)
        return;
    checkpoint->left_out = true;
    log_line(
        &model->shard->config.log, LOG_WARN,
        "model %s: checkpoints are written more slowly than they follow each other: that of step %llu is "
        "left out, that of step %llu is not on its disk yet",
        model->model->name, (unsigned long long)step, (unsigned long long)checkpoint->step);
}

/* leader_checkpoint_first -- see inside.h. */
void leader_checkpoint_first(struct shard_model *model, uint64_t now)
{
    const struct shard_config *config = &model->shard->config;

    if (config->rewinds && config->archive != NULL && !model->shard->ending &&
        !keeper_newest(model->shard->leads[model->number]))
        keeper_issue(model, now);
}

/* leader_checkpoint_ask -- see inside.h. */
void leader_checkpoint_ask(struct shard *shard, uint32_t rank, const struct message *ask, uint64_t now)
{
    struct shard_model *model = shard->models[ask->model];
    struct leader_model *lead = shard->leads[ask->model];
    struct stepgate_error why;

    if (model == NULL || lead == NULL || model->phase != PHASE_RUNNING ||
        (shard->config.archive != NULL && lead->checkpoint.asked[rank] != 0)) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "worker %u asks for a checkpoint of model %u, which cannot be", rank, ask->model);
        shard_abort(shard, now);
        return;
    }
    if (shard->config.archive == NULL) {
        error_set(STEPGATE_ESTATE, 0, "give the ps a folder: --checkpoint DIR",
                  "the ps have no folder for checkpoints of model %s", model->model->name);
        error_save(&why);
        keeper_done(model, rank, ask->offset, 0, &why, now);
        return;
    }
    struct leader_checkpoint *checkpoint = &lead->checkpoint;
    uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    if (checkpoint->have_next == step + 1) {
        keeper_done(model, rank, ask->offset, step, NULL, now);
        return;
    }
    checkpoint->asked[rank] = ask->offset + 1;
    if (!checkpoint->making)
        keeper_issue(model, now);
    else if (checkpoint->step == step)
        checkpoint->served[rank] = true;
    else
        checkpoint->wanted = true;
}

/* -- Going on from one -- */

/* keeper_find -- aside: which one? */
static void keeper_find(void *what)
{
    struct shard_model *model = what;
    const struct archive *archive = model->shard->config.archive;
    struct leader_restore *restore = &model->shard->leads[model->number]->restore;
    const struct archive_model declared = keeper_model(model);

    restore->status = archive->find(archive->context, &declared, restore->below, &restore->state);
    if (restore->status != 0)
        error_save(&restore->error);
    atomic_store_explicit(&restore->over, true,
                          memory_order_release); /* pairs with leader_checkpoint_progress */
}

/* keeper_alone -- no other model of this name: their checkpoints could not be told apart. */
static int keeper_alone(const struct shard_model *model)
{
    for (uint32_t m = 0; m < model->shard->model_end; m++) {
        const struct shard_model *other = model->shard->models[m];
        if (other != NULL && other != model && other->model != NULL &&
            strcmp(other->model->name, model->model->name) == 0)
            return error_set(
                STEPGATE_EINVAL, 0, "give each model of a job that writes checkpoints a name of its own",
                "models %u and %u have the same name, %s", other->number, model->number, model->model->name);
    }
    return 0;
}

/* keeper_seek -- looks for one. */
static void keeper_seek(struct shard_model *model, uint64_t now)
{
    struct leader_restore *restore = &model->shard->leads[model->number]->restore;
    int status = keeper_alone(model);

    archive_state_clear(&restore->state);
    restore->finding = true;
    atomic_store_explicit(&restore->over, false, memory_order_relaxed); /* nobody is aside */
    if (status == 0)
        status = keeper_aside(model, keeper_find);
    if (status != 0)
        shard_abort(model->shard, now);
}

/* keeper_found -- every shard is to read it; or there is none, and the model begins with its initial values. */
static void keeper_found(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_restore *restore = &shard->leads[model->number]->restore;
    const struct message read = {
        .kind = MESSAGE_RESTORE, .model = model->number, .step = restore->state.step};

    restore->finding = false;
    if (restore->status == -STEPGATE_ENOENT && shard->config.again) {
        error_set(STEPGATE_ELOST, 0, "start the job again",
                  "a ps was lost before there was a checkpoint of model %s to go back to",
                  model->model->name);
        shard_abort(shard, now);
        return;
    }
    if (restore->status == -STEPGATE_ENOENT) {
        restore->on = false;
        leader_initial_look(model, now);
        return;
    }
    if (restore->status != 0) {
        error_restore(&restore->error);
        shard_abort(shard, now);
        return;
    }
    restore->reading = true;
    restore->failed = false;
    restore->missing = shard->config.shards;
    for (uint32_t s = 1; s < shard->config.shards; s++)
        shard_post(shard, &shard->peers[s].link, &read, now);
    shard_checkpoint_restore(model, &read, now);
}

/* keeper_go_on -- every shard has read it. */
static void keeper_go_on(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    const struct archive_state *state = &lead->restore.state;

    lead->restore.on = false;
    lead->restore.there = true;
#ifndef STEPGATE_MUTANT_POWERS_FORGOTTEN
    lead->powers = state->powers;
#endif
    lead->checkpoint.have_next = state->step + 1;
    atomic_store_explicit(&lead->step, state->step, memory_order_relaxed); /* only this thread moves it */
    if (leader_mode(model, state->step) != 0) {
        shard_abort(shard, now);
        return;
    }
    for (uint32_t w = 0; state->counts != NULL && w < state->workers; w++) {
        const struct archive_counts *then = &state->counts[w];
        const struct mode_counts counts = {then->accepted, then->stale, then->non_finite, then->empty};
        mode_recount(lead->mode, w, &counts);
    }
    leader_sets_take(&lead->sets, state);
    log_line(&shard->config.log, LOG_INFO, "model %s goes on at step %llu, from a checkpoint of %u ps%s",
             model->model->name, (unsigned long long)state->step, state->shards,
             state->workers != shard->config.workers ? " and another number of workers" : "");
    leader_initial_look(model, now);
}

/* keeper_restored -- one shard has read it, or cannot. */
static void keeper_restored(struct shard_model *model, const struct message *m, uint64_t now)
{
    struct leader_restore *restore = &model->shard->leads[model->number]->restore;

    if (!restore->reading || m->step != restore->state.step)
        return;
    restore->missing--;
    if (m->kind == MESSAGE_CHECKPOINT_FAILED && !restore->failed) {
        restore->failed = true;
        restore->error = m->error;
    }
    if (restore->missing > 0)
        return;
    restore->reading = false;
    if (!restore->failed) {
        keeper_go_on(model, now);
        return;
    }
    log_line(&model->shard->config.log, LOG_WARN, "model %s: the checkpoint of step %llu is not taken: %s",
             model->model->name, (unsigned long long)restore->state.step, restore->error.text);
    restore->below = restore->state.step;
    keeper_seek(model, now);
}

/* leader_checkpoint_answer -- see inside.h. */
void leader_checkpoint_answer(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct shard_model *model = shard->models[m->model];
    struct leader_model *lead = shard->leads[m->model];

    if (shard->ending || model == NULL || lead == NULL)
        return;
    if (lead->restore.on) {
        keeper_restored(model, m, now);
        return;
    }
    if (!lead->checkpoint.making || lead->checkpoint.step != m->step || lead->checkpoint.completing)
        return;
    if (m->kind == MESSAGE_CHECKPOINT_WRITTEN) {
        lead->checkpoint.receipts[from].bytes = m->total;
        memcpy(lead->checkpoint.receipts[from].digest, m->fingerprint, ARCHIVE_DIGEST_BYTES);
    }
    keeper_answered(model, from, m->kind == MESSAGE_CHECKPOINT_FAILED ? &m->error : NULL, now);
}

/* leader_checkpoint_progress -- see inside.h. */
int leader_checkpoint_progress(struct shard_model *model, uint64_t now)
{
    struct leader_model *lead = model->shard->leads[model->number];
    struct leader_checkpoint *checkpoint = &lead->checkpoint;
    struct leader_restore *restore = &lead->restore;

    /* Workers may be here before another ps is, which would not hear which one it is to read. */
    if (restore->on && model->shard->gathered && model->phase == PHASE_INITIAL && !restore->finding &&
        !restore->reading) {
        keeper_seek(model, now);
        return 1;
    }
    /* both pair with the release store of what was aside */
    if (restore->finding && atomic_load_explicit(&restore->over, memory_order_acquire)) {
        keeper_found(model, now);
        return 1;
    }
    if (checkpoint->completing && atomic_load_explicit(&checkpoint->over, memory_order_acquire)) {
        const struct stepgate_error error = checkpoint->error;
        checkpoint->completing = false;
        keeper_over(model, checkpoint->status, &error, now);
        return 1;
    }
    return 0;
}

/* -- Where it is, and the end -- */

/* leader_checkpoint_probe -- see inside.h. */
void leader_checkpoint_probe(struct shard *shard, uint32_t to, uint64_t now)
{
    const struct archive *archive = shard->config.archive;
    struct message probe;

    if (archive == NULL)
        return;
    message_begin(&probe, MESSAGE_CHECKPOINT_PROBE);
    memset(probe.key, 0, sizeof(probe.key));
    strncpy(probe.key, archive->token(archive->context), sizeof(probe.key) - 1);
    shard_post(shard, &shard->peers[to].link, &probe, now);
}

/* leader_part -- see inside.h. */
void leader_part(struct shard *shard, uint32_t stopped, uint64_t now)
{
    if (shard->parting || shard->ending)
        return;
    shard->parting = true;
    shard->parting_ps = stopped;
    shard->parting_until = clock_after(now, KEEPER_PARTING_MS);
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        struct shard_model *model = shard->models[m];
        struct leader_model *lead = shard->leads[m];
        if (model == NULL || lead == NULL || model->phase != PHASE_RUNNING || shard->config.archive == NULL)
            continue;
        uint64_t step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* as above */
        if (lead->checkpoint.have_next == step + 1) {
            lead->checkpoint.final = FINAL_DONE;
        } else if (lead->checkpoint.making && lead->checkpoint.step == step) {
            lead->checkpoint.final = FINAL_MAKING;
        } else {
            lead->checkpoint.final = FINAL_WANTED;
            if (lead->checkpoint.making)
                lead->checkpoint.wanted = true;
            else
                keeper_issue(model, now);
        }
    }
}

/* shard_stop -- see shard.h. */
bool shard_stop(struct shard *shard, uint64_t now)
{
    const struct message stop = {.kind = MESSAGE_CHECKPOINT_STOP};
    bool leader = shard->config.number == 0;

    if (shard->ending || shard->parting)
        return !shard->failed;
    if (leader) {
        leader_part(shard, 0, now);
    } else {
        shard->parting = true;
        shard->parting_ps = shard->config.number;
        bool wait = shard->config.archive != NULL && shard->leader_up;
        shard->parting_until = wait ? clock_after(now, KEEPER_PARTING_MS + KEEPER_PARTING_MORE_MS) : now;
        if (wait)
            shard_post(shard, &shard->leader, &stop, now);
    }
    shard_parting(shard, now);
    return true;
}
