/* SPDX-License-Identifier: BSD-3-Clause */
/* judge -- what must hold of a job when it is over, and what there was of it. */
#include <string.h>

#include "ps/mode/mode.h"
#include "tests/simulation/compare.h"
#include "tests/simulation/inside.h"
#include "tests/simulation/plain.h"
#include "worker/session/inside.h"

/* judge_shard -- a shard's parameters are exactly those of its step; what is changed in place too, if no order is half done. */
static void judge_shard(struct play *play, uint32_t s)
{
    const struct shard *shard = play->ps[s].shard;
    const struct shard_model *model = shard->models[0];
    const struct reference *r = &play->reference;
    uint64_t bytes, step;
    const uint8_t *arena = shard_parameters(shard, 0, &bytes, &step);

    if (arena == NULL || (model->ordered && world_node_killed(play->ps[s].node)))
        return;
    if (step > r->step) {
        play_wrong(play, "ps %u is at step %llu, decided are %llu", s, (unsigned long long)step,
                   (unsigned long long)r->step);
        return;
    }
    const struct plan_shard *planned = &model->plan->shard[s];
    bool still = !model->ordered && step + 1 >= r->step;
    bool settled =
        still && step == r->step &&
        (play->shape.mode != SHAPE_TF || play->ps[s].seen[0].accumulated == play->accumulate_count);
    for (size_t p = 0; p < planned->pieces; p++) {
        const struct plan_piece *piece = &model->plan->by_shard[planned->first_piece + p];
        const struct shape_variable *v = &play->shape.variable[piece->variable];
        const uint8_t *expected = r->frames[step].values[piece->variable];
        if (v->kind == STEPGATE_AUX) {
            if (settled && !compare_aux(r, model, piece))
                play_wrong(play, "ps %u holds something else of variable %u for a worker", s,
                           piece->variable);
            continue;
        }
        if (!plain_equal(v->dtype, arena + piece->offset, expected + piece->first, piece->elements))
            play_wrong(play, "ps %u holds other bits of variable %u at step %llu", s, piece->variable,
                       (unsigned long long)step);
        const char *other = NULL;
        if (still)
            other = compare_state(r, model, piece, step == r->step ? &r->now : &r->before,
                                  &play->counts->compared_states);
        if (other != NULL)
            play_wrong(play, "ps %u holds another %s of variable %u at step %llu", s, other, piece->variable,
                       (unsigned long long)step);
    }
}

/* judge_code -- with which error a worker ends when the mode says that the job must. */
static int judge_code(int failure)
{
    return failure == MODE_FAIL_NON_FINITE ? STEPGATE_ENONFINITE : STEPGATE_ELOST;
}

/* judge_failed -- a worker failed: may it, and does it say who is to blame? */
static void judge_failed(struct play *play, uint32_t w, bool left)
{
    const struct stepgate_error *error = &play->worker[w].trainee.error;
    const struct referee *f = &play->referee;
    int code = error->code < 0 ? -error->code : error->code;

    if (f->failure != 0) {
        bool named = f->failure_rank == UINT32_MAX ||
                     (error->role == STEPGATE_ROLE_WORKER && error->rank == (int)f->failure_rank);
        if (code == judge_code(f->failure) && named)
            return;
        if (!play->may_fail)
            play_wrong(play, "worker %u failed with %d, worker %d: %s; the mode says %d, worker %d", w, code,
                       error->rank, error->text, f->failure, (int)f->failure_rank);
    }
    if (f->failure == 0 && !play->may_fail && !left)
        play_wrong(play, "worker %u failed without a fault: %d %s", w, code, error->text);
    if ((play->must_name || (left && !play->may_fail)) &&
        (code != STEPGATE_ELOST || error->role != STEPGATE_ROLE_WORKER ||
         error->rank != (int)play->fault_worker))
        play_wrong(play, "worker %u failed with %d, worker %d: %s; worker %u is gone", w, code, error->rank,
                   error->text, play->fault_worker);
}

/* judge_woken -- a worker that was given up while it stood still has ended since: it can say no more than that it has lost them, or why they have ended. */
static void judge_woken(struct play *play, uint32_t w)
{
    const struct stepgate_error *error = &play->worker[w].trainee.error;
    int code = error->code < 0 ? -error->code : error->code;

    if (code != STEPGATE_ELOST && code != STEPGATE_EJOIN &&
        (play->referee.failure == 0 || code != judge_code(play->referee.failure)))
        play_wrong(play, "worker %u, which was given up, failed with %d: %s", w, code, error->text);
}

/* judge_workers -- how each ended. */
static void judge_workers(struct play *play)
{
    bool left = false;

    for (uint32_t w = 0; w < play->shape.workers; w++)
        left = left || (play->worker[w].trainee.left_early && shape_lockstep(&play->shape));
    for (uint32_t w = 0; w < play->shape.workers; w++) {
        const struct trainee *trainee = &play->worker[w].trainee;
        if (trainee->state == TRAINEE_FAILED && play_given_up(play, w))
            judge_woken(play, w);
        else if (trainee->state == TRAINEE_FAILED)
            judge_failed(play, w, left);
        else if (trainee->state == TRAINEE_DONE && play->referee.failure != 0 && !trainee->left_early &&
                 !trainee->done)
            play_wrong(play, "worker %u is done with a job that failed", w);
    }
    for (uint32_t s = 0; s < play->shards; s++)
        if (!play->may_fail && !left && play->referee.failure == 0 && play->ps[s].status != 0)
            play_wrong(play, "ps %u ended with %d without a fault", s, play->ps[s].status);
}

/* judge_answers -- each contribution that must be answered was, once; in a job that came to its end nobody's is missing. */
static void judge_answers(struct play *play)
{
    for (uint32_t w = 0; w < play->shape.workers; w++) {
        const struct trainee *trainee = &play->worker[w].trainee;
        uint32_t quota = shape_quota(&play->shape, w);
        for (uint64_t i = 0; i < play->logs[w].count; i++) {
            const struct contribution *c = contribution_at(&play->logs[w], i);
            bool due = (i + 1) % quota == 0, over = trainee->state == TRAINEE_DONE && trainee->done;
            if (c->answer.times > due || (over && due && c->answer.times != 1))
                play_wrong(play, "contribution %llu of worker %u was answered %u times",
                           (unsigned long long)i, w, c->answer.times);
        }
    }
}

/* judge_leader -- its counts, powers and steps. */
static void judge_leader(struct play *play)
{
    const struct leader_model *lead = play->ps[0].shard->leads[0];
    const struct reference *r = &play->reference;
    uint64_t accepted = 0, counted = 0;

    if (lead == NULL || lead->mode == NULL)
        return;
    for (uint32_t w = 0; w < play->shape.workers; w++) {
        struct mode_counts is;
        const struct mode_counts *right = &play->referee.worker[w].counts;
        mode_counts(lead->mode, w, &is);
        if (is.accepted != right->accepted || is.stale != right->stale ||
            is.non_finite != right->non_finite || is.empty != right->empty)
            play_wrong(play,
                       "worker %u: counted are %llu accepted, %llu stale, %llu not finite, %llu empty; right "
                       "is %llu, %llu, %llu, %llu",
                       w, (unsigned long long)is.accepted, (unsigned long long)is.stale,
                       (unsigned long long)is.non_finite, (unsigned long long)is.empty,
                       (unsigned long long)right->accepted, (unsigned long long)right->stale,
                       (unsigned long long)right->non_finite, (unsigned long long)right->empty);
        accepted += is.accepted;
    }
    for (uint64_t k = 0; k < r->step; k++)
        counted += r->frames[k].count;
    if (play->shape.mode == SHAPE_TF)
        counted += r->summed;
    if (!play->referee.spoiled && play->referee.failure == 0 && !lead->measuring && accepted != counted)
        play_wrong(play, "%llu contributions were accepted, %llu are in steps", (unsigned long long)accepted,
                   (unsigned long long)counted);
    if (mode_step(lead->mode) != r->step || (!lead->measuring && atomic_load(&lead->step) != r->step))
        play_wrong(play, "the leader is at step %llu, decided are %llu",
                   (unsigned long long)mode_step(lead->mode), (unsigned long long)r->step);
    if (!lead->measuring &&
        (lead->powers.beta1_power != r->beta1_power || lead->powers.beta2_power != r->beta2_power ||
         lead->powers.updates != r->updates))
        play_wrong(play, "the powers of adam are %a, %a after %llu updates; right is %a, %a, %llu",
                   (double)lead->powers.beta1_power, (double)lead->powers.beta2_power,
                   (unsigned long long)lead->powers.updates, (double)r->beta1_power, (double)r->beta2_power,
                   (unsigned long long)r->updates);
}

/* play_judge -- see inside.h. */
void play_judge(struct play *play)
{
    bool complete = !play->may_fail, stayed = false;

    judge_workers(play);
    judge_answers(play);
    judge_leader(play);
    for (uint32_t s = 0; s < play->shards; s++)
        judge_shard(play, s);
    for (uint32_t w = 0; w < play->shape.workers; w++)
        complete = complete && (play->worker[w].trainee.state == TRAINEE_DONE || play_given_up(play, w));
    for (uint32_t w = 0; w < play->shape.workers; w++) /* when nobody waits for it, nothing need be decided */
        stayed =
            stayed || (play->worker[w].trainee.state == TRAINEE_DONE && !play->worker[w].trainee.left_early);
    if ((complete && stayed) || (play->referee.failure != 0 && !play->may_fail))
        referee_over(&play->referee);
    if (play->referee.wrong[0] != 0)
        play_wrong(play, "%s", play->referee.wrong);
}

/* count_shape -- which kinds of jobs there were. */
static void count_shape(struct play_counts *counts, const struct shape *shape)
{
    counts->modes[shape->mode]++;
    counts->policies[shape->non_finite]++;
    counts->optimizers[shape->optimizer]++;
    counts->torch += shape->torch;
    counts->averages += shape->average_decay > 0;
    counts->clipped_values += shape->clip_value > 0;
    counts->clipped_contributions += shape->clip_norm > 0;
    counts->weighted += shape->weighted;
    for (uint32_t i = 0; i < shape->variables; i++) {
        const struct shape_variable *v = &shape->variable[i];
        counts->wide += v->dtype == STEPGATE_F64;
        counts->narrow += plain_bytes(v->dtype) == 2;
        counts->other_gradients += v->gradient_dtype != v->dtype;
        counts->frozen_variables += v->frozen;
        counts->sparse += v->kind == STEPGATE_SPARSE;
        counts->assigned += v->kind == STEPGATE_ASSIGNED;
        counts->aux += v->kind == STEPGATE_AUX;
    }
}

/* count_worker -- what a worker did. */
static void count_worker(struct play_counts *counts, const struct trainee *trainee)
{
    const struct trainee_counts *c = &trainee->counts;

    counts->left += trainee->left_early;
    counts->rows += c->rows;
    counts->split_rows += c->duplicates;
    counts->pulls_of_rows += c->pulls_of_rows;
    counts->pulls_of_all += c->pulls_of_all;
    counts->mixed_pulls += c->mixed_pulls;
    counts->newer_pulls += c->newer_pulls;
    counts->sleeps += c->sleeps;
    counts->bad += c->bad;
    counts->absent += c->absent;
    counts->waits += c->waits;
    if (trainee->session != NULL)
        counts->pull_retries += trainee->session->stats.pull_retries;
}

/* count_end -- how it ended. */
static void count_end(struct play *play)
{
    struct play_counts *counts = play->counts;
    const struct referee *f = &play->referee;
    bool complete = true;

    for (uint32_t w = 0; w < play->shape.workers; w++)
        complete = complete && (play->worker[w].trainee.state == TRAINEE_DONE ||
                                (play_given_up(play, w) && !play->may_fail));
    counts->finished += complete;
    counts->failed_jobs += !complete;
    counts->failed_non_finite += f->failure == MODE_FAIL_NON_FINITE;
    counts->failed_gone += f->failure == MODE_FAIL_GONE;
    counts->failed_stuck += f->failure == MODE_FAIL_STUCK;
    counts->steps += play->reference.step;
    counts->clipped_norms += play->reference.clipped;
    counts->applied += f->applied;
    counts->stale += f->stale;
    counts->empty += f->empty;
    counts->dropped += f->dropped;
    counts->skipped += f->skipped;
    counts->carried += f->carried;
    counts->larger += f->larger;
    counts->held += f->held;
}

/* play_count -- see inside.h. */
void play_count(struct play *play)
{
    struct play_counts *counts = play->counts;

    counts->jobs++;
    counts->several_shards += play->shards > 1;
    counts->several_lanes += play->lanes > 1;
    count_shape(counts, &play->shape);
    for (uint32_t w = 0; w < play->shape.workers; w++)
        count_worker(counts, &play->worker[w].trainee);
    count_end(play);
    for (uint32_t s = 0; s < play->shards; s++)
        for (uint32_t l = 0; l < play->lanes; l++) {
            struct lane_stats stats;
            lane_stats(play->ps[s].lanes[l], &stats);
            counts->stale_notifies += stats.stale;
            counts->duplicates += stats.duplicates;
        }
    uint64_t rebuilt = 0;
    for (uint32_t s = 0; s < play->shards; s++)
        rebuilt += play->ps[s].shard->stats.reconnects;
    counts->rebuilt += rebuilt;
    counts->rebuilt_jobs += rebuilt > 0;
    const struct shard_model *model = play->ps[0].shard->models[0];
    if (model != NULL && model->plan != NULL)
        counts->cut_variables += model->plan->pieces - play->shape.variables;
}
