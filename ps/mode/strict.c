/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strict -- lockstep, and backup workers.
 *
 * R <= T: a step takes the first R acceptable contributions, of distinct ranks. R > T: it takes all of the quota of every rank. Until a step is
 * full, contributions enter its set; once it is, the set stays as it is while the step before is still being applied.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/mode/inside.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

enum strict_state { STRICT_IN = 1, STRICT_LATE, STRICT_EMPTY, STRICT_DROPPED };

/* A contribution to the step that is awaited. */
struct strict_entry {
    uint64_t sequence;
    double weight;
    int state; /* enum strict_state */
    bool finite;
};

struct strict {
    bool many; /* R > T */
    bool full; /* the set is complete */
    uint32_t in;
    uint32_t *handed;             /* [rank]: contributions to this step */
    struct strict_entry *entries; /* by (rank, sequence); rank r has quota(r) from place(r) on */
    /* replay, asked once per step */
    bool asked, replayed;
    uint32_t recorded_count;
    bool *recorded; /* [rank] */
};

/* strict_quota -- contributions of a rank to each step. */
static uint32_t strict_quota(const struct mode *mode, uint32_t rank)
{
    const struct mode_settings *s = &mode->settings;

    return mode->strict->many ? s->replicas / s->workers + (rank < s->replicas % s->workers) : 1;
}

/* strict_place -- of a rank's first entry. */
static size_t strict_place(const struct mode *mode, uint32_t rank)
{
    const struct mode_settings *s = &mode->settings;
    uint32_t more = s->replicas % s->workers;

    return mode->strict->many ? (size_t)rank * (s->replicas / s->workers) + (rank < more ? rank : more)
                              : rank;
}

/* strict_start -- lockstep needs no initial tokens. */
static int strict_start(struct mode *mode)
{
    const struct mode_settings *s = &mode->settings;
    struct strict *strict = mode->strict = calloc(1, sizeof(*strict));

    if (strict != NULL) {
        strict->many = s->replicas > s->workers;
        strict->handed = calloc(s->workers, sizeof(*strict->handed));
        strict->entries = calloc(strict->many ? s->replicas : s->workers, sizeof(*strict->entries));
        strict->recorded = calloc(s->workers, sizeof(*strict->recorded));
    }
    if (strict == NULL || strict->handed == NULL || strict->entries == NULL || strict->recorded == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u contributions", s->replicas);
    return 0;
}

/* strict_clear -- frees. */
static void strict_clear(struct mode *mode)
{
    if (mode->strict == NULL)
        return;
    free(mode->strict->handed);
    free(mode->strict->entries);
    free(mode->strict->recorded);
    free(mode->strict);
}

/* strict_ask -- which ranks did this step take when it was recorded? */
static int strict_ask(struct mode *mode)
{
    struct strict *strict = mode->strict;
    const struct mode_settings *s = &mode->settings;
    const uint32_t *ranks = NULL;
    uint32_t count = 0;

    if (strict->asked || s->replay == NULL || s->replicas >= s->workers)
        return 0;
    bool replayed = s->replay(s->replay_context, mode->step, &ranks, &count);
    for (uint32_t i = 0; replayed && i < count; i++)
        if (ranks[i] >= s->workers || (i > 0 && ranks[i] <= ranks[i - 1]))
            return error_set(STEPGATE_EPROTOCOL, 0, "replay the sets of the same job",
                             "the recorded set of step %llu is not of %u workers",
                             (unsigned long long)mode->step, s->workers);
    memset(strict->recorded, 0, s->workers * sizeof(*strict->recorded));
    for (uint32_t i = 0; replayed && i < count; i++)
        strict->recorded[ranks[i]] = true;
    strict->asked = true;
    strict->replayed = replayed;
    strict->recorded_count = replayed ? count : 0;
    return 0;
}

/* strict_check -- a step that cannot be. */
static int strict_check(struct mode *mode, const struct mode_contribution *c)
{
    struct strict *strict = mode->strict;
    int status = mode_check_ahead(mode, c);

    if (status != 0)
        return status;
    if (c->step < mode->step && strict->many)
        return error_set(STEPGATE_EPROTOCOL, 0, "",
                         "worker %u contributes to step %llu, which had all of its contributions", c->rank,
                         (unsigned long long)c->step);
    if (c->step == mode->step && strict->handed[c->rank] == strict_quota(mode, c->rank))
        return error_set(STEPGATE_EPROTOCOL, 0, "", "worker %u contributes to step %llu more than %u times",
                         c->rank, (unsigned long long)c->step, strict->handed[c->rank]);
    return c->step == mode->step ? strict_ask(mode) : 0;
}

/* strict_state -- what a contribution to the awaited step is. A late one is not looked at: it is as stale as one that comes after the commit. */
static int strict_state(const struct mode *mode, const struct mode_contribution *c)
{
    const struct strict *strict = mode->strict;

    if (!(c->weight > 0))
        return STRICT_EMPTY;
    if (strict->full)
        return STRICT_LATE;
    if (!c->finite && mode->settings.non_finite == MODEL_DROP)
        return STRICT_DROPPED;
    return strict->replayed && !strict->recorded[c->rank] ? STRICT_LATE : STRICT_IN;
}

/* strict_is_recorded -- is the set given? An empty record says nothing of who must come: then all do. */
static bool strict_is_recorded(const struct strict *strict)
{
    return strict->replayed && strict->recorded_count > 0;
}

/* strict_lacks -- has the rank still to hand in something that the step may need? */
static bool strict_lacks(const struct mode *mode, uint32_t rank)
{
    const struct strict *strict = mode->strict;

    return strict->handed[rank] < strict_quota(mode, rank) &&
           (!strict_is_recorded(strict) || strict->recorded[rank]);
}

/* strict_may_be_in -- ranks of which the step has, or may still get, what it may need; `returning`: those that may come back are among them. */
static uint32_t strict_may_be_in(const struct mode *mode, bool returning)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < mode->settings.workers; r++)
        count += !mode->ranks[r].gone || (returning && mode->ranks[r].returns) || !strict_lacks(mode, r);
    return count;
}

/* strict_shrinks -- does a step do with those that are left? Not where its set is given. */
static bool strict_shrinks(const struct mode *mode)
{
    return mode->settings.lost == MODE_LOST_SHRINK && !mode->strict->replayed;
}

/* strict_needed -- R; where that shrinks, as much of it as those that are left can give. */
static uint32_t strict_needed(const struct mode *mode)
{
    uint32_t needed = 0;

    if (!strict_shrinks(mode))
        return mode->settings.replicas;
    for (uint32_t r = 0; r < mode->settings.workers; r++)
        if (!mode->ranks[r].gone || !strict_lacks(mode, r))
            needed += strict_quota(mode, r);
    return needed < mode->settings.replicas ? needed : mode->settings.replicas;
}

/* strict_has_all -- nothing that may still come changes the set. */
static bool strict_has_all(const struct mode *mode)
{
    const struct strict *strict = mode->strict;
    bool awaited = false;

    if (!strict->many && !strict->replayed && strict->in > 0 && strict->in == strict_needed(mode))
        return true;
    if (!strict->many && !strict_is_recorded(strict))
        return false;
    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        bool without = mode->ranks[r].gone && strict_shrinks(mode);
        if (strict_lacks(mode, r) && !without)
            return false;
        awaited = awaited || !strict_lacks(mode, r);
    }
    return awaited;
}

/* strict_lost -- the lowest rank that is gone for good and without which those who wait cannot complete the step, or MODE_NOBODY. */
static uint32_t strict_lost(const struct mode *mode)
{
    const struct strict *strict = mode->strict;
    bool waits = mode->settings.lost == MODE_LOST_WAIT, awaited = false;
    uint32_t lost = MODE_NOBODY;

    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        const struct mode_rank *rank = &mode->ranks[r];
        awaited = awaited || (!rank->gone && strict->handed[r] > 0);
        if (rank->gone && !(waits && rank->returns) && strict_lacks(mode, r) && lost == MODE_NOBODY)
            lost = r;
    }
    if (!awaited || strict_shrinks(mode) || (strict->replayed && strict->recorded_count == 0))
        return MODE_NOBODY;
    bool any_is_missed = strict->many || strict->replayed;
    return any_is_missed || strict_may_be_in(mode, waits) < mode->settings.replicas ? lost : MODE_NOBODY;
}

/* strict_nobody_else -- every rank that is there, or waited for, has handed in: abandoned contributions hang nobody. */
static bool strict_nobody_else(const struct mode *mode)
{
    bool waits = mode->settings.lost == MODE_LOST_WAIT &&
                 (mode->strict->many || strict_may_be_in(mode, false) < mode->settings.replicas);
    bool there = false;

    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        const struct mode_rank *rank = &mode->ranks[r];
        if ((!rank->gone || (waits && rank->returns)) && strict_lacks(mode, r))
            return false;
        there = there || !rank->gone;
    }
    return there;
}

/* strict_collect -- the set, by (rank, sequence); false: one of it makes everybody skip the step. */
static bool strict_collect(struct mode *mode, uint32_t *count)
{
    const struct strict *strict = mode->strict;
    bool applies = true;

    *count = 0;
    for (uint32_t r = 0; r < mode->settings.workers; r++)
        for (uint32_t i = 0; i < strict->handed[r]; i++) {
            const struct strict_entry *e = &strict->entries[strict_place(mode, r) + i];
            /* the record of a skipped step is empty: whoever spoils it again is late */
            bool spoils = e->state == STRICT_IN ||
                          (e->state == STRICT_LATE && strict->replayed && strict->recorded_count == 0);
            if (e->state == STRICT_IN)
                mode->set[(*count)++] = (struct mode_member){r, e->sequence, e->weight};
            applies = applies && (e->finite || !spoils || mode->settings.non_finite != MODEL_SKIP);
        }
    return applies;
}

/* strict_count -- what became of one contribution. */
static void strict_count(struct mode *mode, uint32_t rank, const struct strict_entry *e, bool applies)
{
    struct mode_counts *counts = &mode->ranks[rank].counts;

    counts->empty += e->state == STRICT_EMPTY;
    counts->non_finite += e->state == STRICT_DROPPED || (!applies && e->state == STRICT_IN && !e->finite);
    counts->accepted += applies && e->state == STRICT_IN;
    counts->stale += applies && e->state == STRICT_LATE;
}

/* strict_verdict -- in the words of the token. */
static int strict_verdict(const struct strict_entry *e, bool applies)
{
    static const int verdicts[] = {[STRICT_IN] = STEPGATE_VERDICT_APPLIED,
                                   [STRICT_LATE] = STEPGATE_VERDICT_STALE,
                                   [STRICT_EMPTY] = STEPGATE_VERDICT_EMPTY,
                                   [STRICT_DROPPED] = STEPGATE_VERDICT_NON_FINITE};

    return applies ? verdicts[e->state] : STEPGATE_VERDICT_SKIPPED;
}

/* strict_answer -- counts what a rank handed in; its token answers the last of it. */
static void strict_answer(struct mode *mode, uint32_t rank, uint64_t step, bool applies)
{
    const struct strict_entry *entries = &mode->strict->entries[strict_place(mode, rank)];
    uint32_t handed = mode->strict->handed[rank];

    for (uint32_t i = 0; i < handed; i++)
        strict_count(mode, rank, &entries[i], applies);
    if (handed == 0)
        return;
    const struct strict_entry *last = &entries[handed - 1];
    mode_token(mode, rank,
               &(struct mode_answer){.sequence = last->sequence,
                                     .token_step = step + 1,
                                     .verdict = strict_verdict(last, applies),
                                     .verdict_step = step});
}

/* strict_commit -- the step is decided, everybody who handed in is told, and the next one is awaited. */
static void strict_commit(struct mode *mode)
{
    struct strict *strict = mode->strict;
    uint64_t step = mode->step;
    uint32_t count;
    bool applies = strict_collect(mode, &count);

    mode_commit(mode, true, applies ? count : 0);
    for (uint32_t r = 0; r < mode->settings.workers; r++)
        strict_answer(mode, r, step, applies);
    memset(strict->handed, 0, mode->settings.workers * sizeof(*strict->handed));
    strict->in = 0;
    strict->full = strict->asked = strict->replayed = false;
}

/* strict_settle -- after every event. */
static void strict_settle(struct mode *mode)
{
    struct strict *strict = mode->strict;

    strict->full = strict->full || strict_has_all(mode);
    if (!strict->full) {
        uint32_t lost = strict_lost(mode);
        if (lost != MODE_NOBODY) {
            mode_fail(mode, MODE_FAIL_GONE, lost, mode->step);
            return;
        }
        strict->full = strict_nobody_else(mode);
    }
    if (strict->full && !mode->applying)
        strict_commit(mode);
}

/* strict_contribute -- to a step that is over: answered at once; else it takes its place. */
static void strict_contribute(struct mode *mode, const struct mode_contribution *c)
{
    struct strict *strict = mode->strict;

#ifndef STEPGATE_MUTANT_NO_STALE_CHECK
    if (c->step < mode->step) {
        mode->ranks[c->rank].counts.stale++;
        mode_token(mode, c->rank,
                   &(struct mode_answer){.sequence = c->sequence,
                                         .token_step = mode->step,
                                         .verdict = STEPGATE_VERDICT_STALE,
                                         .verdict_step = c->step});
        return;
    }
#endif
    int state = strict_state(mode, c);
    if (state == STRICT_IN && !c->finite && mode->settings.non_finite == MODEL_FAIL) {
        mode->ranks[c->rank].counts.non_finite++;
        mode_fail(mode, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    strict->entries[strict_place(mode, c->rank) + strict->handed[c->rank]++] =
        (struct strict_entry){c->sequence, c->weight, state, c->finite};
    strict->in += state == STRICT_IN;
    strict_settle(mode);
}

/* strict_applied -- a set that waits may be committed. */
static int strict_applied(struct mode *mode)
{
    strict_settle(mode);
    return 0;
}

/* strict_retract -- a part of what a rank gives to a step is of no use without the rest. */
static void strict_retract(struct mode *mode, uint32_t rank)
{
    struct strict *strict = mode->strict;

    for (uint32_t i = 0; i < strict->handed[rank]; i++)
        strict->in -= strict->entries[strict_place(mode, rank) + i].state == STRICT_IN;
    strict->handed[rank] = 0;
}

/* strict_gone -- what it has handed in counts; of what it would have to hand in again nothing does. */
static void strict_gone(struct mode *mode, uint32_t rank)
{
#ifndef STEPGATE_MUTANT_SHARE_KEPT
    if (mode->settings.lost != MODE_LOST_FAIL && !mode->strict->full &&
        mode->strict->handed[rank] < strict_quota(mode, rank))
        strict_retract(mode, rank);
#endif
    strict_settle(mode);
}

/* strict_holds -- it has handed in, and the step is not decided; one that is complete has no place for who comes now. */
static bool strict_holds(const struct mode *mode, uint32_t rank)
{
    return mode->strict->full || mode->strict->handed[rank] > 0;
}

/* strict_missing -- the step waits for this rank. */
static bool strict_missing(const struct mode *mode, uint32_t rank)
{
    return !mode->strict->full && strict_lacks(mode, rank);
}

const struct mode_kind mode_kind_strict = {.update = MODEL_STRICT,
                                           .start = strict_start,
                                           .check = strict_check,
                                           .contribute = strict_contribute,
                                           .applied = strict_applied,
                                           .gone = strict_gone,
                                           .holds = strict_holds,
                                           .needed = strict_needed,
                                           .missing = strict_missing,
                                           .clear = strict_clear};
