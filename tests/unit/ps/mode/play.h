/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * play -- events go into a mode, its decisions come out as a line of words.
 *
 *   C4(0.7 2.7)   step 4 is committed with contribution 7 of worker 0 and 7 of worker 2; C4() with none; C4#3 with 3 that are accumulated
 *   T1=5+4        worker 1 gets the token of step 5, its contribution is part of step 4. Instead of +:  e empty  s stale  n non-finite
 *                 k skipped  ? none. T1=5+4~2: and the staleness was 2
 *   A1.7 R1.7     contribution 7 of worker 1 is accumulated, released
 *   Fgone1@4      failure: Fnonfinite, Fgone, Fstuck; Fstuck-: nobody is gone
 */
#ifndef TESTS_UNIT_PS_MODE_PLAY_H
#define TESTS_UNIT_PS_MODE_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/mode/mode.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

#define PLAY_WORKERS 8

struct play {
    struct mode *mode;
    uint64_t sequence[PLAY_WORKERS];
    char words[2048];
    size_t used;
};

/* play_word -- appends. */
__attribute__((format(printf, 2, 3))) static inline void play_word(struct play *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(p->words + p->used, sizeof(p->words) - p->used, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof(p->words) - p->used);
    p->used += (size_t)n;
}

/* play_commit -- the words of a commit. */
static inline void play_commit(struct play *p, const struct mode_decision *d)
{
    play_word(p, "C%d", (int)d->step);
    if (d->count > 0 && d->set == NULL) {
        play_word(p, "#%u", d->count);
        return;
    }
    play_word(p, "(");
    for (uint32_t i = 0; i < d->count; i++) {
        play_word(p, "%s%u.%d", i > 0 ? " " : "", d->set[i].rank, (int)d->set[i].sequence);
        if (d->set[i].weight != 1)
            play_word(p, "*%g", d->set[i].weight);
    }
    play_word(p, ")");
}

/* play_decision -- the words of any. */
static inline void play_decision(struct play *p, const struct mode_decision *d)
{
    static const char *const failures[] = {"", "nonfinite", "gone", "stuck"};

    if (p->used > 0)
        play_word(p, " ");
    switch (d->kind) {
    case MODE_ACCUMULATE: play_word(p, "A%u.%d", d->rank, (int)d->sequence); break;
    case MODE_RELEASE: play_word(p, "R%u.%d", d->rank, (int)d->sequence); break;
    case MODE_COMMIT: play_commit(p, d); break;
    case MODE_TOKEN:
        assert_int_equal(d->sequence + 1, p->sequence[d->rank]);
        play_word(p, "T%u=%d%c%d", d->rank, (int)d->step, "?+esnk"[d->verdict], (int)d -> verdict_step);
        if (d->staleness > 0)
            play_word(p, "~%d", (int)d->staleness);
        break;
    case MODE_FAIL:
        play_word(p, "F%s", failures[d->failure]);
        if (d->rank == UINT32_MAX)
            play_word(p, "-");
        else
            play_word(p, "%u", d->rank);
        play_word(p, "@%d", (int)d->step);
        break;
    default: fail();
    }
}

/* play_decisions -- all that were decided since the last time. */
static inline const char *play_decisions(struct play *p)
{
    struct mode_decision d;

    p->used = 0;
    p->words[0] = 0;
    while (mode_decide(p->mode, &d) == 1)
        play_decision(p, &d);
    return p->words;
}

/* play_settings -- of a mode with R of T. */
static inline struct mode_settings play_settings(int update, uint32_t replicas, uint32_t workers)
{
    return (struct mode_settings){.update = update,
                                  .non_finite = MODEL_PROPAGATE,
                                  .workers = workers,
                                  .replicas = replicas,
                                  .tokens_per_step = workers > replicas ? workers : replicas,
                                  .initial_tokens = replicas};
}

/* play_start -- a mode of these settings. */
static inline struct play play_start(struct mode_settings settings)
{
    struct play p = {0};

    assert_int_equal(mode_new(&settings, &p.mode), 0);
    return p;
}

/* play_stop -- nothing was left unsaid. */
static inline void play_stop(struct play *p)
{
    assert_string_equal(play_decisions(p), "");
    mode_delete(&p->mode);
    assert_null(p->mode);
}

/* play_hand_in -- any contribution; returns what was decided. */
static inline const char *play_hand_in(struct play *p, uint32_t rank, uint64_t step, double weight,
                                       bool finite)
{
    struct mode_contribution c = {
        .rank = rank, .sequence = p->sequence[rank]++, .step = step, .weight = weight, .finite = finite};

    assert_int_equal(mode_contribute(p->mode, &c), 0);
    return play_decisions(p);
}

/* push -- a contribution. */
static inline const char *push(struct play *p, uint32_t rank, uint64_t step)
{
    return play_hand_in(p, rank, step, 1, true);
}

/* push_nan -- one that is not finite. */
static inline const char *push_nan(struct play *p, uint32_t rank, uint64_t step)
{
    return play_hand_in(p, rank, step, 1, false);
}

/* abandon -- one that counts for nothing. */
static inline const char *abandon(struct play *p, uint32_t rank, uint64_t step)
{
    return play_hand_in(p, rank, step, 0, true);
}

/* applied -- the commit of this step is carried out. */
static inline const char *applied(struct play *p, uint64_t step)
{
    assert_int_equal(mode_applied(p->mode, step), 0);
    return play_decisions(p);
}

/* gone -- a worker is no more. */
static inline const char *gone(struct play *p, uint32_t rank)
{
    assert_int_equal(mode_gone(p->mode, rank, false), 0);
    return play_decisions(p);
}

/* rests -- a worker waits in a barrier. */
static inline const char *rests(struct play *p, uint32_t rank)
{
    assert_int_equal(mode_rest(p->mode, rank), 0);
    return play_decisions(p);
}

/* meet -- everybody was in the barrier. */
static inline const char *meet(struct play *p)
{
    assert_int_equal(mode_meet(p->mode), 0);
    return play_decisions(p);
}

/* refused -- a contribution that breaks the protocol changes nothing. */
static inline void refused(struct play *p, uint32_t rank, uint64_t sequence, uint64_t step)
{
    struct mode_contribution c = {
        .rank = rank, .sequence = sequence, .step = step, .weight = 1, .finite = true};

    assert_int_equal(mode_contribute(p->mode, &c), -STEPGATE_EPROTOCOL);
    assert_string_equal(play_decisions(p), "");
}

/* counted -- a rank's counters. */
static inline void counted(const struct play *p, uint32_t rank, uint64_t accepted, uint64_t stale,
                           uint64_t non_finite, uint64_t empty)
{
    struct mode_counts counts;

    mode_counts(p->mode, rank, &counts);
    assert_int_equal(counts.accepted, accepted);
    assert_int_equal(counts.stale, stale);
    assert_int_equal(counts.non_finite, non_finite);
    assert_int_equal(counts.empty, empty);
}

/* wasted -- what a rank has handed in for nothing, ever or since the last step. */
static inline void wasted(const struct play *p, uint32_t rank, bool ever, uint64_t stale, uint64_t non_finite,
                          uint64_t empty)
{
    struct mode_counts counts;

    mode_wasted(p->mode, rank, ever, &counts);
    assert_int_equal(counts.accepted, 0);
    assert_int_equal(counts.stale, stale);
    assert_int_equal(counts.non_finite, non_finite);
    assert_int_equal(counts.empty, empty);
}

/* says -- the decisions of an event. */
#define says(event, words) assert_string_equal(event, words)

#endif
