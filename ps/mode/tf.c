/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tf -- the reference: whatever is not stale is accumulated, at least R contributions make a step, and one queue of tokens serves everybody.
 *
 * One gate stands for the accumulators of all variables. A take of R waits in it whenever no step is being applied. The queue of tokens is
 * never stored: token number n gives a step that follows from n alone.
 */
#include <stdlib.h>

#include "ps/mode/inside.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

struct tf {
    struct accumulator_gate gate;
    uint64_t issued, taken;  /* tokens */
    struct mode_line takers; /* of tokens */
    bool spoiled;            /* policy skip: this round holds something that is not finite */
    uint64_t *round;         /* [rank]: accepted in this round */
};

/* tf_start -- the first take waits. */
static int tf_start(struct mode *mode)
{
    const struct mode_settings *s = &mode->settings;
    uint64_t ticket;
    struct tf *tf;

    if (s->replicas > s->workers && s->initial_tokens < s->replicas - s->workers)
        return error_set(STEPGATE_EINVAL, 0, "leave initial_tokens out, or give as many",
                         "%u replicas of %u workers need at least %u initial tokens, not %llu", s->replicas,
                         s->workers, s->replicas - s->workers, (unsigned long long)s->initial_tokens);
    if (s->tokens_per_step == 0)
        return error_set(STEPGATE_EINVAL, 0, "give at least 1", "a step gives no tokens");
    tf = mode->tf = calloc(1, sizeof(*tf));
    if (tf != NULL)
        tf->round = calloc(s->workers, sizeof(*tf->round));
    if (tf == NULL || tf->round == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u workers", s->workers);
    tf->issued = s->initial_tokens;
    accumulator_gate_start(&tf->gate, s->step);
    int status = mode_line_start(&tf->takers, s->workers);
    return status != 0 ? status : accumulator_gate_take(&tf->gate, s->replicas, &ticket);
}

/* tf_clear -- frees. */
static void tf_clear(struct mode *mode)
{
    if (mode->tf == NULL)
        return;
    accumulator_gate_clear(&mode->tf->gate);
    free(mode->tf->takers.ranks);
    free(mode->tf->round);
    free(mode->tf);
}

/* tf_check -- a worker that waits for a token computes nothing. A step that is ahead is no mistake here. */
static int tf_check(struct mode *mode, const struct mode_contribution *c)
{
    return mode_check_waiting(mode, c);
}

/* tf_token_step -- the step that token number n gives. */
static uint64_t tf_token_step(const struct mode *mode, uint64_t n)
{
    const struct mode_settings *s = &mode->settings;

    return n < s->initial_tokens ? s->step : s->step + 1 + (n - s->initial_tokens) / s->tokens_per_step;
}

/* tf_spoil -- from here on nobody's part of this round counts. Whoever took an old token meanwhile was told otherwise. */
static void tf_spoil(struct mode *mode)
{
    struct tf *tf = mode->tf;

#ifndef STEPGATE_MUTANT_ROUND_NOT_SPOILED
    tf->spoiled = true;
#endif
    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        struct mode_rank *rank = &mode->ranks[r];
        rank->counts.accepted -= tf->round[r];
        tf->round[r] = 0;
        if (rank->waiting && rank->answer.verdict == STEPGATE_VERDICT_APPLIED &&
            rank->answer.verdict_step == mode->step)
            rank->answer.verdict = STEPGATE_VERDICT_SKIPPED;
    }
}

/* tf_accumulate -- part of this round. */
static int tf_accumulate(struct mode *mode, const struct mode_contribution *c)
{
    struct tf *tf = mode->tf;
    bool spoils = !c->finite && mode->settings.non_finite == MODEL_SKIP;

    (void)accumulator_gate_push(&tf->gate, c->step);
    mode_say(mode,
             &(struct mode_decision){.kind = MODE_ACCUMULATE, .rank = c->rank, .sequence = c->sequence});
    if (spoils) {
        mode->ranks[c->rank].counts.non_finite++;
        tf_spoil(mode);
    }
    if (tf->spoiled)
        return STEPGATE_VERDICT_SKIPPED;
    mode->ranks[c->rank].counts.accepted++;
    tf->round[c->rank]++;
    return STEPGATE_VERDICT_APPLIED;
}

/* tf_judge -- what becomes of a contribution: the verdict. Stale is looked at before anything else. */
static int tf_judge(struct mode *mode, const struct mode_contribution *c)
{
    int verdict = STEPGATE_VERDICT_STALE;

    if (accumulator_gate_accepts(&mode->tf->gate, c->step))
        verdict = mode_refuse(mode, c);
    else
        mode_waste(mode, c->rank, verdict);
    if (verdict == 0)
        return tf_accumulate(mode, c);
    mode_release(mode, c->rank, c->sequence);
    return verdict;
}

/* tf_take -- a step, if the take that waits is served, and its tokens. */
static void tf_take(struct mode *mode)
{
    struct tf *tf = mode->tf;
    uint64_t ticket, count;

    if (!accumulator_gate_serve(&tf->gate, &ticket, &count))
        return;
    mode_commit(mode, false, tf->spoiled ? 0 : (uint32_t)count);
    tf->spoiled = false;
    for (uint32_t r = 0; r < mode->settings.workers; r++)
        tf->round[r] = 0;
    tf->issued += mode->settings.tokens_per_step;
}

/* tf_is_stuck -- somebody is there, all who are there wait, and neither a token nor a take is left. */
static bool tf_is_stuck(const struct mode *mode)
{
    const struct tf *tf = mode->tf;
    bool there = false;

    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        if (!mode->ranks[r].gone && !mode->ranks[r].waiting)
            return false;
        there = there || !mode->ranks[r].gone;
    }
    return there && tf->taken == tf->issued && tf->gate.count < mode->settings.replicas;
}

/* tf_settle -- after every event. */
static void tf_settle(struct mode *mode)
{
    struct tf *tf = mode->tf;

    tf_take(mode);
    while (tf->takers.length > 0 && tf->taken < tf->issued) {
        uint32_t rank = tf->takers.ranks[0];
        mode_line_leave(&tf->takers, rank);
        mode->ranks[rank].answer.token_step = tf_token_step(mode, tf->taken++);
        mode_token(mode, rank, &mode->ranks[rank].answer);
    }
    if (tf_is_stuck(mode))
        mode_fail(mode, MODE_FAIL_STUCK, mode_lowest_gone(mode), mode->step);
}

/* tf_contribute -- whatever becomes of it, its worker wants a token. */
static void tf_contribute(struct mode *mode, const struct mode_contribution *c)
{
    struct mode_rank *rank = &mode->ranks[c->rank];

    if (c->weight > 0 && !c->finite && mode->settings.non_finite == MODEL_FAIL &&
        accumulator_gate_accepts(&mode->tf->gate, c->step)) {
        rank->counts.non_finite++;
        mode_fail(mode, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    int verdict = tf_judge(mode, c);
    bool part = verdict == STEPGATE_VERDICT_APPLIED || verdict == STEPGATE_VERDICT_SKIPPED;
    rank->answer = (struct mode_answer){
        .sequence = c->sequence, .verdict = verdict, .verdict_step = part ? mode->step : c->step};
    rank->waiting = true;
    mode_line_join(&mode->tf->takers, c->rank);
    tf_settle(mode);
}

/* tf_applied -- the next take waits. */
static int tf_applied(struct mode *mode)
{
    uint64_t ticket;
    int status = accumulator_gate_take(&mode->tf->gate, mode->settings.replicas, &ticket);

    if (status == 0)
        tf_settle(mode);
    return status;
}

/* tf_gone -- takes no token. */
static void tf_gone(struct mode *mode, uint32_t rank)
{
#ifdef STEPGATE_MUTANT_GONE_TAKES_TOKEN
    (void)rank;
#else
    mode_line_leave(&mode->tf->takers, rank);
#endif
    tf_settle(mode);
}

/* tf_missing -- anybody who computes may bring what lacks. */
static bool tf_missing(const struct mode *mode, uint32_t rank)
{
    return mode->tf->gate.count < mode->settings.replicas && !mode->ranks[rank].waiting;
}

const struct mode_kind mode_kind_tf = {.update = MODEL_TF,
                                       .start = tf_start,
                                       .check = tf_check,
                                       .contribute = tf_contribute,
                                       .applied = tf_applied,
                                       .gone = tf_gone,
                                       .missing = tf_missing,
                                       .clear = tf_clear};
