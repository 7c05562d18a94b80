/* SPDX-License-Identifier: BSD-3-Clause */
/* mode -- what all modes share: which there are, the contributions of each rank, and the decisions that wait to be fetched. */
#include "ps/mode/mode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ps/mode/inside.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

#define MODE_ROOM_SPARE 4 /* decisions of one event beside one token per rank */

static const struct mode_kind *const mode_kinds[] = {&mode_kind_strict, &mode_kind_tf, &mode_kind_async,
                                                     &mode_kind_bounded};

/* mode_kind_of -- NULL if there is no such mode. */
static const struct mode_kind *mode_kind_of(int update)
{
    for (size_t i = 0; i < sizeof(mode_kinds) / sizeof(mode_kinds[0]); i++)
        if (mode_kinds[i]->update == update)
            return mode_kinds[i];
    return NULL;
}

/* mode_check_settings -- what a checked model cannot hold. */
static int mode_check_settings(const struct mode_settings *s)
{
    if (mode_kind_of(s->update) == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "there is no mode %d", s->update);
    if (s->lost < MODE_LOST_FAIL || s->lost > MODE_LOST_SHRINK)
        return error_set(STEPGATE_EINVAL, 0, "", "there is no policy %d for lost workers", s->lost);
    if (s->non_finite < MODEL_PROPAGATE || s->non_finite > MODEL_SKIP)
        return error_set(STEPGATE_EINVAL, 0, "", "there is no policy %d for what is not finite",
                         s->non_finite);
    if (s->workers == 0 || s->replicas == 0)
        return error_set(STEPGATE_EINVAL, 0, "have at least 1 of each", "%u replicas of %u workers",
                         s->replicas, s->workers);
    return 0;
}

/* mode_reserve -- room for all that one event may decide, so that nothing fails half done. */
static int mode_reserve(struct mode *mode)
{
    size_t needed = mode->count + mode->settings.workers + MODE_ROOM_SPARE;

    if (needed <= mode->room)
        return 0;
    struct mode_decision *decisions = calloc(2 * needed, sizeof(*decisions));
    if (decisions == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu decisions", 2 * needed);
    for (size_t i = 0; i < mode->count; i++)
        decisions[i] = mode->decisions[(mode->first + i) % mode->room];
    free(mode->decisions);
    mode->decisions = decisions;
    mode->first = 0;
    mode->room = 2 * needed;
    return 0;
}

/* mode_new -- nothing is handed in yet. */
int mode_new(const struct mode_settings *settings, struct mode **out)
{
    int status = mode_check_settings(settings);
    struct mode *mode;

    if (status != 0)
        return status;
    mode = calloc(1, sizeof(*mode));
    if (mode == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a mode");
    mode->settings = *settings;
    mode->kind = mode_kind_of(settings->update);
    mode->step = settings->step;
    mode->ranks = calloc(settings->workers, sizeof(*mode->ranks));
    mode->set = calloc(settings->workers > settings->replicas ? settings->workers : settings->replicas,
                       sizeof(*mode->set));
    if (mode->ranks == NULL || mode->set == NULL)
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u workers", settings->workers);
    if (status == 0)
        status = mode->kind->start(mode);
    if (status != 0) {
        mode_delete(&mode);
        return status;
    }
    *out = mode;
    return 0;
}

/* mode_delete -- frees, sets NULL. */
void mode_delete(struct mode **mode)
{
    if (*mode == NULL)
        return;
    (*mode)->kind->clear(*mode);
    free((*mode)->ranks);
    free((*mode)->set);
    free((*mode)->decisions);
    free(*mode);
    *mode = NULL;
}

/* mode_check -- what no rank can hand in, whatever the mode. */
static int mode_check(const struct mode *mode, const struct mode_contribution *c)
{
    if (c->rank >= mode->settings.workers)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a contribution of worker %u: there are %u", c->rank,
                         mode->settings.workers);
    if (!isfinite(c->weight) || c->weight < 0)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "a contribution of worker %u with a weight of %g",
                         c->rank, c->weight);
    if (!mode->ranks[c->rank].gone && c->sequence != mode->ranks[c->rank].next)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "contribution %llu of worker %u comes where %llu is next",
                         (unsigned long long)c->sequence, c->rank,
                         (unsigned long long)mode->ranks[c->rank].next);
    return 0;
}

/* mode_contribute -- one more; of a rank that is gone nothing counts. */
int mode_contribute(struct mode *mode, const struct mode_contribution *contribution)
{
    int status = mode_check(mode, contribution);

    if (status != 0 || mode->failed || mode->ranks[contribution->rank].gone)
        return status;
    status = mode->kind->check(mode, contribution);
    if (status == 0)
        status = mode_reserve(mode);
    if (status != 0)
        return status;
    mode->ranks[contribution->rank].next++;
    mode->ranks[contribution->rank].resting = false;
    mode->kind->contribute(mode, contribution);
    return 0;
}

/* mode_applied -- the next step may be committed. */
int mode_applied(struct mode *mode, uint64_t step)
{
    if (!mode->applying || step + 1 != mode->step)
        return error_set(STEPGATE_EPROTOCOL, 0, "",
                         "step %llu is said to be applied, and was not committed last",
                         (unsigned long long)step);
    if (mode->failed)
        return 0;
    int status = mode_reserve(mode);
    if (status != 0)
        return status;
    mode->applying = false;
    return mode->kind->applied(mode);
}

/* mode_gone -- once, and once more when it is not waited for any longer. */
int mode_gone(struct mode *mode, uint32_t rank, bool returns)
{
    if (rank >= mode->settings.workers)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "worker %u is gone: there are %u", rank,
                         mode->settings.workers);
    struct mode_rank *who = &mode->ranks[rank];
    if (mode->failed || (who->gone && (!who->returns || returns)))
        return 0;
    int status = mode_reserve(mode);
    if (status != 0)
        return status;
    who->gone = true;
    who->returns = returns && mode->kind->holds != NULL;
    mode->kind->gone(mode, rank);
    return 0;
}

/* mode_holds -- only where ranks come back it matters. */
bool mode_holds(const struct mode *mode, uint32_t rank)
{
    return rank < mode->settings.workers && mode->kind->holds != NULL && mode->kind->holds(mode, rank);
}

/* mode_back -- see mode.h. */
int mode_back(struct mode *mode, uint32_t rank, uint64_t sequence)
{
    struct mode_rank *who = rank < mode->settings.workers ? &mode->ranks[rank] : NULL;

    if (who == NULL || mode->kind->holds == NULL || !who->gone || mode->kind->holds(mode, rank) ||
        sequence < who->next)
        return error_set(STEPGATE_EPROTOCOL, 0, "",
                         "worker %u comes back with contribution %llu to a mode in which it cannot", rank,
                         (unsigned long long)sequence);
    who->gone = who->returns = false;
    who->next = sequence;
    return 0;
}

/* mode_needed -- see mode.h. */
uint32_t mode_needed(const struct mode *mode)
{
    return mode->kind->needed != NULL ? mode->kind->needed(mode) : mode->settings.replicas;
}

/* mode_there -- see mode.h. */
uint32_t mode_there(const struct mode *mode)
{
    uint32_t there = 0;

    for (uint32_t r = 0; r < mode->settings.workers; r++)
        there += !mode->ranks[r].gone;
    return there;
}

/* mode_rest -- only bounded looks at it. */
int mode_rest(struct mode *mode, uint32_t rank)
{
    if (rank >= mode->settings.workers)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "worker %u is in a barrier: there are %u", rank,
                         mode->settings.workers);
    if (mode->failed || mode->kind->clocks == NULL)
        return 0;
    int status = mode_reserve(mode);
    if (status != 0)
        return status;
    mode->ranks[rank].resting = true;
    mode->kind->clocks(mode);
    return 0;
}

/* mode_meet -- clocks start again. */
int mode_meet(struct mode *mode)
{
    if (mode->failed || mode->kind->clocks == NULL)
        return 0;
    int status = mode_reserve(mode);
    if (status != 0)
        return status;
    for (uint32_t r = 0; r < mode->settings.workers; r++) {
        mode->ranks[r].resting = false;
        mode->ranks[r].base = mode->ranks[r].next;
    }
    mode->kind->clocks(mode);
    return 0;
}

/* mode_decide -- the oldest decision. */
int mode_decide(struct mode *mode, struct mode_decision *out)
{
    if (mode->count == 0)
        return 0;
    *out = mode->decisions[mode->first];
    mode->first = (mode->first + 1) % mode->room;
    mode->count--;
    return 1;
}

/* mode_step -- gs. */
uint64_t mode_step(const struct mode *mode)
{
    return mode->step;
}

/* mode_counts -- what became of a rank's contributions; zeros of a rank that there is not. */
void mode_counts(const struct mode *mode, uint32_t rank, struct mode_counts *out)
{
    *out = rank < mode->settings.workers ? mode->ranks[rank].counts : (struct mode_counts){0};
}

/* mode_recount -- of a rank that there is not: nothing. */
void mode_recount(struct mode *mode, uint32_t rank, const struct mode_counts *counts)
{
    if (rank < mode->settings.workers)
        mode->ranks[rank].counts = *counts;
}

/* mode_wasted -- zeros where the step that was noted is over. */
void mode_wasted(const struct mode *mode, uint32_t r, bool ever, struct mode_counts *out)
{
    const struct mode_rank *rank = r < mode->settings.workers ? &mode->ranks[r] : NULL;

    *out = (struct mode_counts){0};
    if (rank != NULL && ever)
        *out = rank->wasted_ever;
    else if (rank != NULL && rank->wasted_step == mode->step)
        *out = rank->wasted;
}

/* mode_wasted_count -- the sum that mode_wasted gives in parts. */
uint64_t mode_wasted_count(const struct mode *mode)
{
    return mode->wasted_step == mode->step ? mode->wasted : 0;
}

/* mode_missing -- is this rank waited for? */
bool mode_missing(const struct mode *mode, uint32_t rank)
{
    return rank < mode->settings.workers && !mode->failed && !mode->ranks[rank].gone &&
           mode->kind->missing(mode, rank);
}

/* mode_say -- at the end of the queue. */
void mode_say(struct mode *mode, const struct mode_decision *decision)
{
    mode->decisions[(mode->first + mode->count++) % mode->room] = *decision;
}

/* mode_token -- lets a rank go on. */
void mode_token(struct mode *mode, uint32_t rank, const struct mode_answer *answer)
{
    if (mode->ranks[rank].gone)
        return;
    mode->ranks[rank].waiting = false;
    mode_say(mode, &(struct mode_decision){.kind = MODE_TOKEN,
                                           .rank = rank,
                                           .sequence = answer->sequence,
                                           .step = answer->token_step,
                                           .verdict = answer->verdict,
                                           .verdict_step = answer->verdict_step,
                                           .staleness = answer->staleness});
}

/* mode_release -- nothing will read the slot. */
void mode_release(struct mode *mode, uint32_t rank, uint64_t sequence)
{
    mode_say(mode, &(struct mode_decision){.kind = MODE_RELEASE, .rank = rank, .sequence = sequence});
}

/* mode_commit -- gs moves. There is at most one unfetched commit, since the next waits until this one is applied: so one set is enough. */
void mode_commit(struct mode *mode, bool own, uint32_t count)
{
    mode_say(mode, &(struct mode_decision){.kind = MODE_COMMIT,
                                           .step = mode->step,
                                           .rank = own ? mode->set[0].rank : UINT32_MAX,
                                           .sequence = own ? mode->set[0].sequence : UINT64_MAX,
                                           .set = own && count > 0 ? mode->set : NULL,
                                           .count = count});
    mode->step++;
    mode->applying = true;
}

/* mode_fail -- the last decision. */
void mode_fail(struct mode *mode, int failure, uint32_t rank, uint64_t step)
{
    mode_say(mode,
             &(struct mode_decision){.kind = MODE_FAIL, .rank = rank, .step = step, .failure = failure});
    mode->failed = true;
}

/* mode_lowest_gone -- who left. */
uint32_t mode_lowest_gone(const struct mode *mode)
{
    for (uint32_t r = 0; r < mode->settings.workers; r++)
        if (mode->ranks[r].gone)
            return r;
    return MODE_NOBODY;
}

/* mode_count_waste -- one more of its kind. */
static void mode_count_waste(struct mode_counts *counts, int verdict)
{
    counts->stale += verdict == STEPGATE_VERDICT_STALE;
    counts->non_finite += verdict == STEPGATE_VERDICT_NON_FINITE;
    counts->empty += verdict == STEPGATE_VERDICT_EMPTY;
}

/* mode_waste -- what was noted of an earlier step is forgotten. */
void mode_waste(struct mode *mode, uint32_t r, int verdict)
{
    struct mode_rank *rank = &mode->ranks[r];

    if (rank->wasted_step != mode->step)
        rank->wasted = (struct mode_counts){0};
    if (mode->wasted_step != mode->step)
        mode->wasted = 0;
    rank->wasted_step = mode->wasted_step = mode->step;
    mode->wasted++;
    mode_count_waste(&rank->wasted, verdict);
    mode_count_waste(&rank->wasted_ever, verdict);
    mode_count_waste(&rank->counts, verdict);
}

/* mode_refuse -- empty, or not finite under the policy drop. */
int mode_refuse(struct mode *mode, const struct mode_contribution *c)
{
    int verdict = 0;

    if (!(c->weight > 0))
        verdict = STEPGATE_VERDICT_EMPTY;
    else if (!c->finite && mode->settings.non_finite == MODEL_DROP)
        verdict = STEPGATE_VERDICT_NON_FINITE;
    if (verdict != 0)
        mode_waste(mode, c->rank, verdict);
    return verdict;
}

/* mode_check_ahead -- tokens give no step beyond gs. */
int mode_check_ahead(const struct mode *mode, const struct mode_contribution *c)
{
    if (c->step <= mode->step)
        return 0;
    return error_set(STEPGATE_EPROTOCOL, 0, "",
                     "worker %u contributes to step %llu, and step %llu is not taken", c->rank,
                     (unsigned long long)c->step, (unsigned long long)mode->step);
}

/* mode_check_waiting -- between two contributions lies a token. */
int mode_check_waiting(const struct mode *mode, const struct mode_contribution *c)
{
    if (!mode->ranks[c->rank].waiting)
        return 0;
    return error_set(STEPGATE_EPROTOCOL, 0, "", "worker %u contributes again before it got a token", c->rank);
}

/* mode_line_start -- nobody in it; free(line->ranks) ends it. */
int mode_line_start(struct mode_line *line, uint32_t workers)
{
    line->length = 0;
    line->ranks = calloc(workers, sizeof(*line->ranks));
    if (line->ranks == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a line of %u workers", workers);
    return 0;
}

/* mode_line_join -- at the end. */
void mode_line_join(struct mode_line *line, uint32_t rank)
{
    line->ranks[line->length++] = rank;
}

/* mode_line_leave -- from wherever it stands, if it does. */
void mode_line_leave(struct mode_line *line, uint32_t rank)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < line->length; i++)
        if (line->ranks[i] != rank)
            line->ranks[kept++] = line->ranks[i];
    line->length = kept;
}
