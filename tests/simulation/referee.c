/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/referee.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/step.h"

/* referee_wrong -- see the header. */
void referee_wrong(struct referee *f, const char *format, ...)
{
    va_list arguments;

    if (f->wrong[0] != 0)
        return;
    va_start(arguments, format);
    vsnprintf(f->wrong, sizeof(f->wrong), format, arguments);
    va_end(arguments);
}

/* referee_start -- see the header. */
void referee_start(struct referee *f, const struct shape *shape, struct reference *reference)
{
    memset(f, 0, sizeof(*f));
    f->shape = shape;
    f->reference = reference;
    if (shape->mode != SHAPE_TF)
        return;
    tf_model_start(&f->tf, (int)shape->replicas, (int)shape->workers, (int)shape->tokens, 0, shape->rate);
    for (int i = 0; shape->small && i < TF_MODEL_DENSE; i++)
        f->tf.dense[i] = reference->now.arrays[0][REFERENCE_VALUE][i];
    for (int i = 0; shape->small && i < TF_MODEL_ROWS * TF_MODEL_WIDTH; i++)
        f->tf.table[i / TF_MODEL_WIDTH][i % TF_MODEL_WIDTH] = reference->now.arrays[1][REFERENCE_VALUE][i];
}

/* referee_change -- a decision about a slot must come. */
static void referee_change(struct referee *f, int kind, uint32_t rank, uint64_t sequence)
{
    if (f->change_count == REFEREE_CHANGES_MAX) {
        referee_wrong(f, "decisions about slots do not come");
        return;
    }
    uint32_t at = (f->change_first + f->change_count++) % REFEREE_CHANGES_MAX;
    f->changes_all++;
    f->changes[at].kind = kind;
    f->changes[at].rank = rank;
    f->changes[at].sequence = sequence;
}

/* referee_token -- a worker must be told. */
static void referee_token(struct referee *f, uint32_t rank, const struct referee_token *token)
{
    struct referee_worker *w = &f->worker[rank];

    if (w->gone)
        return;
    w->waits = false;
    w->token = *token;
    w->token.due = true;
}

/* referee_fail -- the job must end. */
static void referee_fail(struct referee *f, int failure, uint32_t rank, uint64_t step)
{
    if (f->failure != 0)
        return;
    f->failure = failure;
    f->failure_rank = rank;
    f->failure_step = step;
}

/* referee_lowest_gone -- UINT32_MAX: everybody is there. */
static uint32_t referee_lowest_gone(const struct referee *f)
{
    for (uint32_t r = 0; r < f->shape->workers; r++)
        if (f->worker[r].gone)
            return r;
    return UINT32_MAX;
}

/* referee_commit -- the step must be taken, with the set as it is, or (applies false) without anything. */
static void referee_commit(struct referee *f, bool applies)
{
    f->commit_due = true;
    f->commit_after = f->changes_all;
    f->set_count = applies ? f->set_count : 0;
    f->carried += f->set_count == 0;
    f->step++;
    f->applying = true;
}

/* strict: lockstep, or the first R of the workers */

/* referee_strict_needed -- contributions that the step takes of distinct workers: R, or those that are there or have come. */
static uint32_t referee_strict_needed(const struct referee *f)
{
    uint32_t possible = 0;

    for (uint32_t r = 0; r < f->shape->workers; r++)
        possible += !f->worker[r].gone || f->worker[r].handed > 0;
    return f->shape->shrinks && possible < f->shape->replicas ? possible : f->shape->replicas;
}

/* referee_strict_full -- is the set complete, whatever may still come? */
static bool referee_strict_full(const struct referee *f)
{
    uint32_t in = 0;
    bool all = true, some = false;

    for (uint32_t r = 0; r < f->shape->workers; r++) {
        bool without = f->shape->shrinks && f->worker[r].gone,
             whole = f->worker[r].handed == shape_quota(f->shape, r);
        all = all && (whole || without);
        some = some || whole;
        for (uint32_t i = 0; i < f->worker[r].handed; i++)
            in += f->worker[r].entries[i].state == REFEREE_IN;
    }
    return f->shape->mode == SHAPE_MORE ? all && some : in > 0 && in == referee_strict_needed(f);
}

/* referee_strict_hopeless -- can the step not be completed, and does somebody who is there wait for it? */
static bool referee_strict_hopeless(const struct referee *f, uint32_t *lost)
{
    uint32_t possible = 0;
    bool waits = false;

    *lost = UINT32_MAX;
    for (uint32_t r = 0; r < f->shape->workers; r++) {
        const struct referee_worker *w = &f->worker[r];
        bool lacks = w->handed < shape_quota(f->shape, r);
        waits = waits || (!w->gone && w->handed > 0);
        possible += !w->gone || !lacks;
        if (w->gone && lacks && *lost == UINT32_MAX)
            *lost = r;
    }
    uint32_t needed = f->shape->mode == SHAPE_MORE ? f->shape->workers : f->shape->replicas;
    return waits && possible < needed && !f->shape->shrinks;
}

/* referee_strict_everybody -- has everybody who is there handed in? */
static bool referee_strict_everybody(const struct referee *f)
{
    bool there = false;

    for (uint32_t r = 0; r < f->shape->workers; r++) {
        if (f->worker[r].gone)
            continue;
        there = true;
        if (f->worker[r].handed < shape_quota(f->shape, r))
            return false;
    }
    return there;
}

/* referee_strict_answer -- the verdict of a worker's last contribution to the step; all of them are counted. */
static void referee_strict_answer(struct referee *f, uint32_t rank, uint64_t step, bool applies)
{
    struct referee_worker *w = &f->worker[rank];
    struct referee_token token = {.step = step + 1, .verdict_step = step};

    for (uint32_t i = 0; i < w->handed; i++) {
        const struct referee_entry *e = &w->entries[i];
        token.sequence = e->sequence;
        switch (e->state) {
        case REFEREE_IN:
            token.verdict = STEPGATE_VERDICT_APPLIED;
            w->counts.accepted += applies;
            w->counts.non_finite += !applies && !e->finite;
            break;
        case REFEREE_LATE:
            token.verdict = STEPGATE_VERDICT_STALE;
            w->counts.stale += applies;
            break;
        case REFEREE_EMPTY:
            token.verdict = STEPGATE_VERDICT_EMPTY;
            w->counts.empty++;
            break;
        default: token.verdict = STEPGATE_VERDICT_NON_FINITE; w->counts.non_finite++;
        }
    }
    if (!applies)
        token.verdict = STEPGATE_VERDICT_SKIPPED;
    if (w->handed > 0)
        referee_token(f, rank, &token);
    w->handed = 0;
}

/* referee_strict_settle -- after everything that comes. */
static void referee_strict_settle(struct referee *f)
{
    uint32_t lost;
    bool applies = true;

    f->full = f->full || referee_strict_full(f);
    if (!f->full && referee_strict_hopeless(f, &lost)) {
        referee_fail(f, MODE_FAIL_GONE, lost, f->step);
        return;
    }
    f->full = f->full || referee_strict_everybody(f);
    if (!f->full || f->applying)
        return;
    f->set_count = 0;
    for (uint32_t r = 0; r < f->shape->workers; r++)
        for (uint32_t i = 0; i < f->worker[r].handed; i++)
            if (f->worker[r].entries[i].state == REFEREE_IN) {
                f->set[f->set_count++] = (struct reference_member){r, f->worker[r].entries[i].sequence};
                applies = applies && (f->worker[r].entries[i].finite || f->shape->non_finite != MODEL_SKIP);
            }
    referee_commit(f, applies);
    for (uint32_t r = 0; r < f->shape->workers; r++)
        referee_strict_answer(f, r, f->step - 1, applies);
    f->full = false;
}

/* referee_strict -- one contribution. */
static void referee_strict(struct referee *f, const struct mode_contribution *c)
{
    struct referee_worker *w = &f->worker[c->rank];
    int state = REFEREE_IN;

    if (c->step < f->step) {
        const struct referee_token token = {.sequence = c->sequence,
                                            .step = f->step,
                                            .verdict = STEPGATE_VERDICT_STALE,
                                            .verdict_step = c->step};
        w->counts.stale++;
        referee_token(f, c->rank, &token);
        return;
    }
    if (c->weight == 0)
        state = REFEREE_EMPTY;
    else if (f->full)
        state = REFEREE_LATE;
    else if (!c->finite && f->shape->non_finite == MODEL_DROP)
        state = REFEREE_DROPPED;
    if (state == REFEREE_IN && !c->finite && f->shape->non_finite == MODEL_FAIL) {
        w->counts.non_finite++;
        referee_fail(f, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    if (w->handed == shape_quota(f->shape, c->rank)) {
        referee_wrong(f, "worker %u contributes to step %llu more often than it may", c->rank,
                      (unsigned long long)c->step);
        return;
    }
    w->entries[w->handed++] = (struct referee_entry){c->sequence, state, c->finite};
    referee_strict_settle(f);
}

/* async, bounded: one after the other */

/* referee_clock -- contributions of a worker since everybody met. */
static uint64_t referee_clock(const struct referee *f, uint32_t rank)
{
    return f->worker[rank].next - f->worker[rank].base;
}

/* referee_ahead -- is a worker further ahead than it may be of anybody who is there and at work? */
static bool referee_ahead(const struct referee *f, uint32_t rank)
{
    for (uint32_t r = 0; f->shape->mode == SHAPE_BOUNDED && r < f->shape->workers; r++)
        if (!f->worker[r].gone && !f->worker[r].rests &&
            referee_clock(f, rank) > referee_clock(f, r) + f->shape->bound)
            return true;
    return false;
}

/* referee_alone_settle -- the oldest one that waits is a step; whoever is answered and not too far ahead goes on from what there is now. */
static void referee_alone_settle(struct referee *f)
{
    if (!f->applying && f->line_length > 0) {
        uint32_t rank = f->line[0];
        struct referee_token *answer = &f->worker[rank].answer;
        bool finite = answer->verdict != STEPGATE_VERDICT_NON_FINITE; /* noted there by referee_alone */
        memmove(f->line, f->line + 1, --f->line_length * sizeof(f->line[0]));
        f->set[0] = (struct reference_member){rank, answer->sequence};
        f->set_count = 1;
        *answer =
            (struct referee_token){.due = true,
                                   .sequence = answer->sequence,
                                   .verdict = finite ? STEPGATE_VERDICT_APPLIED : STEPGATE_VERDICT_SKIPPED,
                                   .verdict_step = f->step,
                                   .staleness = finite ? f->step - answer->verdict_step : 0};
        f->worker[rank].counts.accepted += finite;
        f->worker[rank].counts.non_finite += !finite;
        referee_commit(f, finite);
    }
    for (uint32_t r = 0; r < f->shape->workers; r++) {
        struct referee_worker *w = &f->worker[r];
        if (!w->waits || !w->answer.due || w->gone)
            continue;
        if (referee_ahead(f, r)) {
            f->held++;
            continue;
        }
        w->answer.step = f->step;
        referee_token(f, r, &w->answer);
    }
}

/* referee_alone -- one contribution. */
static void referee_alone(struct referee *f, const struct mode_contribution *c)
{
    struct referee_worker *w = &f->worker[c->rank];
    bool bad = !c->finite && c->weight > 0;

    if (bad && f->shape->non_finite == MODEL_FAIL) {
        w->counts.non_finite++;
        referee_fail(f, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    w->waits = true;
    w->answer = (struct referee_token){.sequence = c->sequence, .verdict_step = c->step};
    if (c->weight == 0 || (bad && f->shape->non_finite == MODEL_DROP)) {
        w->answer.due = true;
        w->answer.verdict = c->weight == 0 ? STEPGATE_VERDICT_EMPTY : STEPGATE_VERDICT_NON_FINITE;
        w->counts.empty += c->weight == 0;
        w->counts.non_finite += c->weight != 0;
        referee_change(f, MODE_RELEASE, c->rank, c->sequence);
    } else {
        w->answer.verdict = bad && f->shape->non_finite == MODEL_SKIP ? STEPGATE_VERDICT_NON_FINITE : 0;
        f->line[f->line_length++] = c->rank;
    }
    referee_alone_settle(f);
}

/* tf: as tf_model says; what is not finite is not its business */

/* referee_tf_settle -- whoever the model has let go is answered; a step that it has taken must be taken. */
static void referee_tf_settle(struct referee *f)
{
    if (f->tf.step > f->step) {
        f->set_count = (uint32_t)f->accumulated;
        f->larger += f->accumulated > f->shape->replicas;
        referee_commit(f, !f->spoiled);
        f->spoiled = false;
        f->accumulated = 0;
        for (uint32_t r = 0; r < f->shape->workers; r++)
            f->worker[r].round = 0;
    }
    for (uint32_t r = 0; r < f->shape->workers; r++) {
        struct referee_worker *w = &f->worker[r];
        if (!w->waits || w->gone || f->tf.worker[r].waits)
            continue;
        w->answer.step = f->tf.worker[r].local_step;
        referee_token(f, r, &w->answer);
    }
    if (tf_model_is_stuck(&f->tf))
        referee_fail(f, MODE_FAIL_STUCK, referee_lowest_gone(f), f->step);
}

/* referee_tf_gradient -- what the model sums, where it can. */
static void referee_tf_gradient(const struct referee *f, const struct mode_contribution *c,
                                struct tf_model_gradient *g)
{
    const struct contribution *made = contribution_at(&f->reference->logs[c->rank], c->sequence);

    memset(g, 0, sizeof(*g));
    if (!f->shape->small || made == NULL || c->weight == 0)
        return;
    memcpy(g->dense, made->parts[0].values, sizeof(g->dense));
    g->rows = (int)made->parts[1].rows;
    memcpy(g->row, made->parts[1].values, (size_t)g->rows * sizeof(g->row[0]));
    for (int i = 0; i < g->rows; i++)
        g->index[i] = (int)made->parts[1].indices[i];
}

/* referee_tf_spoil -- nobody's part of this round counts. */
static void referee_tf_spoil(struct referee *f)
{
    f->spoiled = true;
    for (uint32_t r = 0; r < f->shape->workers; r++) {
        struct referee_worker *w = &f->worker[r];
        w->counts.accepted -= w->round;
        w->round = 0;
        if (w->waits && w->answer.verdict == STEPGATE_VERDICT_APPLIED && w->answer.verdict_step == f->step)
            w->answer.verdict = STEPGATE_VERDICT_SKIPPED;
    }
}

/* referee_tf_counted -- a contribution to the accumulators. */
static void referee_tf_counted(struct referee *f, const struct mode_contribution *c, bool bad)
{
    struct referee_worker *w = &f->worker[c->rank];

    f->accumulated++;
    referee_change(f, MODE_ACCUMULATE, c->rank, c->sequence);
    if (bad && f->shape->non_finite == MODEL_SKIP) {
        w->counts.non_finite++;
        referee_tf_spoil(f);
    }
    w->answer.verdict_step = f->step;
    w->answer.verdict = f->spoiled ? STEPGATE_VERDICT_SKIPPED : STEPGATE_VERDICT_APPLIED;
    w->counts.accepted += !f->spoiled;
    w->round += !f->spoiled;
}

/* referee_tf -- one contribution. */
static void referee_tf(struct referee *f, const struct mode_contribution *c)
{
    struct referee_worker *w = &f->worker[c->rank];
    bool bad = !c->finite && c->weight > 0, stale = c->step < f->step;
    struct tf_model_gradient gradient;

    if (c->step != f->tf.worker[c->rank].local_step)
        referee_wrong(f, "worker %u contributes to step %llu, its token was for %llu", c->rank,
                      (unsigned long long)c->step, (unsigned long long)f->tf.worker[c->rank].local_step);
    if (bad && !stale && f->shape->non_finite == MODEL_FAIL) {
        w->counts.non_finite++;
        referee_fail(f, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    referee_tf_gradient(f, c, &gradient);
    gradient.abandoned = c->weight == 0 || (bad && f->shape->non_finite == MODEL_DROP);
    w->answer = (struct referee_token){
        .sequence = c->sequence, .verdict = STEPGATE_VERDICT_STALE, .verdict_step = c->step};
    if (!stale && !gradient.abandoned) {
        referee_tf_counted(f, c, bad);
    } else {
        if (!stale)
            w->answer.verdict = c->weight == 0 ? STEPGATE_VERDICT_EMPTY : STEPGATE_VERDICT_NON_FINITE;
        w->counts.stale += stale;
        w->counts.empty += !stale && c->weight == 0;
        w->counts.non_finite += !stale && c->weight != 0;
        referee_change(f, MODE_RELEASE, c->rank, c->sequence);
    }
    w->waits = true;
    tf_model_push(&f->tf, (int)c->rank, &gradient);
    referee_tf_settle(f);
}

/* referee_contribute -- see the header. */
void referee_contribute(struct referee *f, const struct mode_contribution *c)
{
    struct referee_worker *w = &f->worker[c->rank];

    if (f->failure != 0 || w->gone)
        return;
    if (c->sequence != w->next || w->waits || w->token.due)
        referee_wrong(f, "contribution %llu of worker %u comes out of turn", (unsigned long long)c->sequence,
                      c->rank);
    if (c->step > f->step && f->shape->mode != SHAPE_TF)
        referee_wrong(f, "worker %u contributes to step %llu ahead of step %llu", c->rank,
                      (unsigned long long)c->step, (unsigned long long)f->step);
    w->next++;
    w->rests = false;
    if (f->shape->mode == SHAPE_TF)
        referee_tf(f, c);
    else if (shape_alone(f->shape))
        referee_alone(f, c);
    else
        referee_strict(f, c);
}

/* referee_settle -- something else has happened. */
static void referee_settle(struct referee *f)
{
    if (f->shape->mode == SHAPE_TF)
        referee_tf_settle(f);
    else if (shape_alone(f->shape))
        referee_alone_settle(f);
    else
        referee_strict_settle(f);
}

/* referee_applied -- see the header. */
void referee_applied(struct referee *f, uint64_t step)
{
    if (!f->applying || step + 1 != f->step)
        referee_wrong(f, "step %llu is applied, and was not decided last", (unsigned long long)step);
    if (f->failure != 0)
        return;
    f->applying = false;
    if (f->shape->mode == SHAPE_TF)
        tf_model_applied(&f->tf);
    referee_settle(f);
}

/* referee_gone -- see the header. */
void referee_gone(struct referee *f, uint32_t rank)
{
    if (f->failure != 0 || f->worker[rank].gone)
        return;
    f->worker[rank].gone = true;
    if (f->shape->shrinks && !f->full && f->worker[rank].handed < shape_quota(f->shape, rank))
        f->worker[rank].handed = 0; /* a part of what it gives to a step is of no use without the rest */
    if (f->shape->mode == SHAPE_TF)
        tf_model_gone(&f->tf, (int)rank);
    referee_settle(f);
}

/* referee_rest -- see the header. */
void referee_rest(struct referee *f, uint32_t rank)
{
    if (f->failure != 0 || f->shape->mode != SHAPE_BOUNDED)
        return;
    f->worker[rank].rests = true;
    referee_settle(f);
}

/* referee_meet -- see the header. */
void referee_meet(struct referee *f)
{
    if (f->failure != 0 || f->shape->mode != SHAPE_BOUNDED)
        return;
    for (uint32_t r = 0; r < f->shape->workers; r++) {
        f->worker[r].rests = false;
        f->worker[r].base = f->worker[r].next;
    }
    referee_settle(f);
}

/* referee_see_token -- the right one, after the commit that it lets into, and not ahead of what is allowed. */
static void referee_see_token(struct referee *f, const struct mode_decision *d)
{
    struct referee_token *t = &f->worker[d->rank].token;

    if (!t->due || t->sequence != d->sequence || t->step != d->step || t->verdict != d->verdict ||
        t->verdict_step != d->verdict_step || t->staleness != d->staleness)
        referee_wrong(f,
                      "worker %u is told verdict %d of step %llu for contribution %llu, and step %llu, "
                      "staleness %llu; right%s is verdict "
                      "%d of step %llu for %llu, step %llu, staleness %llu",
                      d->rank, d->verdict, (unsigned long long)d->verdict_step,
                      (unsigned long long)d->sequence, (unsigned long long)d->step,
                      (unsigned long long)d->staleness, t->due ? "" : " (later)", t->verdict,
                      (unsigned long long)t->verdict_step, (unsigned long long)t->sequence,
                      (unsigned long long)t->step, (unsigned long long)t->staleness);
    if (d->step > f->told)
        referee_wrong(f, "worker %u is let into step %llu before it is taken", d->rank,
                      (unsigned long long)d->step);
    t->due = false;
    f->stale += d->verdict == STEPGATE_VERDICT_STALE;
    f->empty += d->verdict == STEPGATE_VERDICT_EMPTY;
    f->dropped += d->verdict == STEPGATE_VERDICT_NON_FINITE;
    f->skipped += d->verdict == STEPGATE_VERDICT_SKIPPED;
    f->applied += d->verdict == STEPGATE_VERDICT_APPLIED;
}

/* referee_see_commit -- the right set. */
static void referee_see_commit(struct referee *f, const struct mode_decision *d)
{
    bool right = f->commit_due && d->step + 1 == f->step && d->count == f->set_count && f->told == d->step &&
                 f->changes_all - f->change_count == f->commit_after;

    for (uint32_t i = 0; right && f->shape->mode != SHAPE_TF && i < d->count; i++)
        right = d->set[i].rank == f->set[i].rank && d->set[i].sequence == f->set[i].sequence;
    if (!right)
        referee_wrong(f, "step %llu is taken with %u contributions; right is %s%llu with %u of others",
                      (unsigned long long)d->step, d->count, f->commit_due ? "" : "none, not ",
                      (unsigned long long)f->step - 1, f->set_count);
    f->commit_due = false;
    f->told = d->step + 1;
}

/* referee_see_change -- about the right slot, in the right order. */
static void referee_see_change(struct referee *f, const struct mode_decision *d)
{
    uint32_t at = f->change_first;

    if (f->change_count == 0 || f->changes[at].kind != d->kind || f->changes[at].rank != d->rank ||
        f->changes[at].sequence != d->sequence) {
        referee_wrong(f, "contribution %llu of worker %u is %s, which is not its turn or not right",
                      (unsigned long long)d->sequence, d->rank,
                      d->kind == MODE_ACCUMULATE ? "accumulated" : "released");
        return;
    }
    f->change_first = (at + 1) % REFEREE_CHANGES_MAX;
    f->change_count--;
}

/* referee_decision -- see the header. */
void referee_decision(struct referee *f, const struct mode_decision *d)
{
    switch (d->kind) {
    case MODE_TOKEN: referee_see_token(f, d); break;
    case MODE_COMMIT: referee_see_commit(f, d); break;
    case MODE_ACCUMULATE:
    case MODE_RELEASE: referee_see_change(f, d); break;
    default:
        if (f->failure != d->failure || f->failure_rank != d->rank || f->failure_step != d->step)
            referee_wrong(f, "the job fails (%d) for worker %d in step %llu; right is %d, %d, %llu",
                          d->failure, (int)d->rank, (unsigned long long)d->step, f->failure,
                          (int)f->failure_rank, (unsigned long long)f->failure_step);
        f->failure_seen = true;
    }
}

/* referee_over -- see the header. */
void referee_over(struct referee *f)
{
    if (f->failure != 0 && !f->failure_seen)
        referee_wrong(f, "the job goes on where it must fail (%d)", f->failure);
    for (uint32_t r = 0; f->failure == 0 && r < f->shape->workers; r++)
        if (f->worker[r].token.due && !f->worker[r].gone)
            referee_wrong(f, "worker %u gets no token for contribution %llu", r,
                          (unsigned long long)f->worker[r].token.sequence);
    if (f->failure == 0 && (f->commit_due || f->change_count > 0))
        referee_wrong(f, "step %llu is not taken, or slots are not given back", (unsigned long long)f->step);
}
