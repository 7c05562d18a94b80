/* SPDX-License-Identifier: BSD-3-Clause */
/* async -- every contribution is a step of its own; bounded: and whoever is too far ahead of the slowest waits for its token. */
#include <stdlib.h>

#include "ps/mode/inside.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "transport/base/error.h"

struct async {
    uint64_t bound;           /* UINT64_MAX: none */
    struct mode_line commits; /* whose contribution waits to be committed */
    struct mode_line held;    /* whose token is held back */
};

/* async_start -- nobody is ahead. */
static int async_start(struct mode *mode)
{
    const struct mode_settings *s = &mode->settings;
    struct async *async = mode->async = calloc(1, sizeof(*async));

    if (async == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u workers", s->workers);
    async->bound = s->update == MODEL_BOUNDED ? s->bound : UINT64_MAX;
    int status = mode_line_start(&async->commits, s->workers);
    return status != 0 ? status : mode_line_start(&async->held, s->workers);
}

/* async_clear -- frees. */
static void async_clear(struct mode *mode)
{
    if (mode->async == NULL)
        return;
    free(mode->async->commits.ranks);
    free(mode->async->held.ranks);
    free(mode->async);
}

/* async_check -- a step that cannot be, or no token between. */
static int async_check(struct mode *mode, const struct mode_contribution *c)
{
    int status = mode_check_ahead(mode, c);

    return status != 0 ? status : mode_check_waiting(mode, c);
}

/* async_clock -- contributions of a rank since everybody last met. */
static uint64_t async_clock(const struct mode *mode, uint32_t rank)
{
    return mode->ranks[rank].next - mode->ranks[rank].base;
}

/* async_slowest -- the clock of whoever is there, rests in no barrier and has handed in the fewest; UINT64_MAX: there is nobody. */
static uint64_t async_slowest(const struct mode *mode)
{
    uint64_t slowest = UINT64_MAX;

    for (uint32_t r = 0; r < mode->settings.workers; r++)
        if (!mode->ranks[r].gone && !mode->ranks[r].resting && async_clock(mode, r) < slowest)
            slowest = async_clock(mode, r);
    return slowest;
}

/* async_release -- the tokens that are held for nothing any more, in the order in which they came. */
static void async_release(struct mode *mode)
{
    struct async *async = mode->async;
    uint64_t slowest = async_slowest(mode);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < async->held.length; i++) {
        uint32_t rank = async->held.ranks[i];
        uint64_t clock = async_clock(mode, rank);
#ifdef STEPGATE_MUTANT_BOUND_TOO_WIDE
        clock -= clock > 0;
#endif
        if (clock > slowest && clock - slowest > async->bound) {
            async->held.ranks[kept++] = rank;
            continue;
        }
        mode->ranks[rank].answer.token_step = mode->step; /* it goes on from what is there now */
        mode_token(mode, rank, &mode->ranks[rank].answer);
    }
    async->held.length = kept;
}

/* async_answer -- a token that goes out as soon as it may. */
static void async_answer(struct mode *mode, uint32_t rank)
{
    if (!mode->ranks[rank].gone)
        mode_line_join(&mode->async->held, rank);
}

/* async_commit -- the oldest contribution becomes a step. */
static void async_commit(struct mode *mode)
{
    struct async *async = mode->async;

    if (mode->applying || async->commits.length == 0)
        return;
    uint32_t r = async->commits.ranks[0];
    struct mode_rank *rank = &mode->ranks[r];
    struct mode_answer *answer = &rank->answer;
    bool applies = answer->finite || mode->settings.non_finite != MODEL_SKIP;

    mode_line_leave(&async->commits, r);
    mode->set[0] = (struct mode_member){r, answer->sequence, answer->weight};
    answer->verdict = applies ? STEPGATE_VERDICT_APPLIED : STEPGATE_VERDICT_SKIPPED;
    answer->verdict_step = mode->step;
    answer->staleness = applies ? mode->step - answer->step : 0;
    answer->token_step = mode->step + 1;
    rank->counts.accepted += applies;
    rank->counts.non_finite += !applies;
    mode_commit(mode, true, applies);
    async_answer(mode, r);
}

/* async_settle -- after every event. */
static void async_settle(struct mode *mode)
{
    async_commit(mode);
    async_release(mode);
}

/* async_contribute -- counts for nothing, or waits to be committed. */
static void async_contribute(struct mode *mode, const struct mode_contribution *c)
{
    struct mode_rank *rank = &mode->ranks[c->rank];

    if (c->weight > 0 && !c->finite && mode->settings.non_finite == MODEL_FAIL) {
        rank->counts.non_finite++;
        mode_fail(mode, MODE_FAIL_NON_FINITE, c->rank, c->step);
        return;
    }
    rank->waiting = true;
    rank->answer = (struct mode_answer){.sequence = c->sequence,
                                        .step = c->step,
                                        .weight = c->weight,
                                        .finite = c->finite,
                                        .verdict = mode_refuse(mode, c),
                                        .verdict_step = c->step,
                                        .token_step = mode->step};
    if (rank->answer.verdict != 0) {
        mode_release(mode, c->rank, c->sequence);
        async_answer(mode, c->rank);
    } else {
        mode_line_join(&mode->async->commits, c->rank);
    }
    async_settle(mode);
}

/* async_applied -- the next contribution may be committed. */
static int async_applied(struct mode *mode)
{
    async_settle(mode);
    return 0;
}

/* async_gone -- nobody waits for it; what it has handed in still becomes a step. */
static void async_gone(struct mode *mode, uint32_t rank)
{
    mode_line_leave(&mode->async->held, rank);
    async_settle(mode);
}

/* async_missing -- tokens are held until this rank hands in. */
static bool async_missing(const struct mode *mode, uint32_t rank)
{
    return mode->async->held.length > 0 && async_clock(mode, rank) == async_slowest(mode);
}

const struct mode_kind mode_kind_async = {.update = MODEL_ASYNC,
                                          .start = async_start,
                                          .check = async_check,
                                          .contribute = async_contribute,
                                          .applied = async_applied,
                                          .gone = async_gone,
                                          .missing = async_missing,
                                          .clear = async_clear};
const struct mode_kind mode_kind_bounded = {.update = MODEL_BOUNDED,
                                            .start = async_start,
                                            .check = async_check,
                                            .contribute = async_contribute,
                                            .applied = async_applied,
                                            .gone = async_gone,
                                            .clocks = async_settle,
                                            .missing = async_missing,
                                            .clear = async_clear};
