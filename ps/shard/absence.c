/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * absence -- a worker that is lost while the job goes on, and how it comes back under its rank.
 *
 * What the mode has of it stays until its step is decided. Then the leader has every shard forget it, at one place among the orders: its connections end, lanes let go of what
 * has arrived, its slots are freed, so that whatever it still writes lands nowhere. A shard that has forgotten it answers FORGOT, and lets in whoever comes under that rank, as
 * a new incarnation: a domain and slots of its own, and contributions that are counted from beyond all that the one before can have used. When the newcomer has been
 * told of its slots on every shard, the leader gives it a token for the step that is awaited.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define ABSENCE_HEARD_MS 1000 /* what was under way when another one came says nothing */

/* shard_absence_returns -- see inside.h. */
bool shard_absence_returns(const struct shard *shard)
{
    bool some = false;

    for (uint32_t m = 0; m < shard->model_end; m++) {
        const struct shard_model *model = shard->models[m];
        if (model == NULL || model->phase == PHASE_DECLARED)
            continue;
        if (model->model->update != MODEL_STRICT || model->together)
            return false;
        some = true;
    }
    return some;
}

/* shard_absence_expected -- see inside.h. */
bool shard_absence_expected(const struct shard *shard, uint32_t rank)
{
    return shard->members[rank].lost && shard->members[rank].expected;
}

/* absence_there -- workers that are neither lost nor have left. */
static uint32_t absence_there(const struct shard *shard)
{
    uint32_t there = 0;

    for (uint32_t w = 0; w < shard->config.workers; w++)
        there += !shard->members[w].lost && !shard->members[w].left;
    return there;
}

/* absence_spares -- does this model go on without the rank, which is counted as lost already? */
static bool absence_spares(const struct shard_model *model, uint32_t rank)
{
    const struct shard *shard = model->shard;
    uint32_t workers = shard->config.workers;

    if (shard->config.lost == MODE_LOST_WAIT && model->phase == PHASE_DECLARED)
        return !model->shares[rank].checked;
    if (model->phase != PHASE_RUNNING)
        return false;
    if (model->model->update != MODEL_STRICT || shard->config.lost != MODE_LOST_FAIL)
        return true;
    return !model_lockstep(model->model, workers); /* whether a step lacks it the mode finds out */
}

/* shard_absence_spares -- see inside.h. */
bool shard_absence_spares(const struct shard *shard, uint32_t rank)
{
    bool some = false, waits = shard->config.lost == MODE_LOST_WAIT;

    for (uint32_t m = 0; m < shard->model_end; m++) {
        const struct shard_model *model = shard->models[m];
        if (model == NULL)
            continue;
        if (!absence_spares(model, rank))
            return false;
        some = some || model->phase == PHASE_RUNNING;
    }
    if (some && waits && shard_absence_returns(shard))
        return true;
    for (uint32_t w = 0; some && w < shard->config.workers; w++)
        if (!shard->members[w].lost)
            return true;
    return false;
}

/* shard_absence_begin -- see inside.h. */
void shard_absence_begin(struct shard *shard, uint32_t rank, const struct stepgate_error *why, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];

    member->lost = true;
    member->open = false;
    member->cause = *why;
    member->newcomer = false;
    member->expected = shard->config.lost == MODE_LOST_WAIT && shard_absence_returns(shard);
    if (!member->expected)
        return;
    /* the leader speaks first */
    member->expected_until = clock_after(now, shard->config.return_timeout_ms);
    if (member->expected_until != CLOCK_NEVER && shard->config.number != 0)
        member->expected_until += 300 * CLOCK_MS;
}

/* shard_absence_words -- see inside.h. */
void shard_absence_words(const struct shard *shard, uint32_t rank, char *text, size_t size)
{
    if (shard_absence_expected(shard, rank) && shard->members[rank].expected_until == CLOCK_NEVER)
        snprintf(text, size, "the job waits for it to come back");
    else if (shard_absence_expected(shard, rank))
        snprintf(text, size, "the job waits for it to come back, for up to %lld ms",
                 (long long)shard->config.return_timeout_ms);
    else
        snprintf(text, size, "the job goes on without it");
}

/* absence_cut -- its connection to the shard ends, if that has not happened yet. */
static void absence_cut(struct shard *shard, uint32_t rank)
{
    struct shard_member *member = &shard->members[rank];

    shard_rebuild_end(shard, rank);
    member->past = member->incarnation;
    member->up = member->open = member->leaving = false;
    link_forget(&member->control, &shard->batch);
    link_close(&member->control);
    link_init(&member->control, shard->config.secret, shard->config.liveness_ms);
}

/* absence_lost -- another ps has lost it first. */
static void absence_lost(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct stepgate_error why;

    if (shard->members[rank].lost)
        return;
    error_set(STEPGATE_ELOST, 0, "look at the network between it and every ps",
              "another ps has lost worker %u", rank);
    error_save(&why);
    shard_absence_begin(shard, rank, &why, now);
    shard_snapshots_drop(shard, shard->members[rank].control.theirs.incarnation);
}

/* absence_all -- is the rank to be forgotten of every model that it has a part in? */
static bool absence_all(const struct shard *shard, uint32_t rank)
{
    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL && shard->models[m]->phase != PHASE_DECLARED &&
            !shard->models[m]->shares[rank].forget)
            return false;
    return true;
}

/* absence_over_already -- that incarnation is forgotten here, or never came: who is there now is another one, of whom the leader has not heard yet. */
static bool absence_over_already(struct shard_model *model, const struct message *m, uint64_t now)
{
    struct shard *shard = model->shard;
    const struct shard_member *member = &shard->members[m->rank];
    const struct shard_share *share = &model->shares[m->rank];
    struct message answer = {.kind = MESSAGE_FORGOT, .model = model->number, .rank = m->rank};

    if (!member->open && (!member->up || member->lost || member->incarnation == m->total))
        return false;
    leader_send(shard, &answer, now);
    answer.kind = MESSAGE_BACK;
    if (!member->open && share->checked && share->matched)
        leader_send(shard, &answer, now);
    return true;
}

/* absence_lanes -- they let go of it. */
static void absence_lanes(struct shard *shard, uint32_t rank, uint64_t now)
{
    const struct letter forget = {.kind = LETTER_FORGET, .rank = rank};

    for (uint32_t l = 0; l < shard->config.lanes; l++) {
        if (mailbox_put(lane_mailbox(shard->config.lane_list[l]), &forget) != 0) {
            shard_abort(shard, now);
            return;
        }
        shard->members[rank].forgetting++;
        if (shard->config.wake_lane != NULL)
            shard->config.wake_lane(shard->config.wake_context, l);
    }
}

/* shard_absence_forget -- see inside.h. */
void shard_absence_forget(struct shard_model *model, const struct message *m, uint64_t now)
{
    struct shard *shard = model->shard;
    struct shard_share *share = &model->shares[m->rank];

    if (absence_over_already(model, m, now))
        return;
    share->forget = true;
    share->begins = m->sequence;
    absence_lost(shard, m->rank, now);
    absence_cut(shard, m->rank);
    if (absence_all(shard, m->rank))
        absence_lanes(shard, m->rank, now);
}

/* shard_absence_let_go -- see inside.h. */
void shard_absence_let_go(struct shard *shard, uint32_t rank, uint64_t now)
{
    bool up = shard->members[rank].up;

    absence_cut(shard, rank);
    if (up)
        absence_lanes(shard, rank, now);
    else
        shard->members[rank].open = true;
}

/* absence_clear -- nothing of the rank is left of this model. */
static void absence_clear(struct shard_model *model, uint32_t rank)
{
    struct shard_share *share = &model->shares[rank];
    uint64_t begins = share->begins;

    model->again -= share->again;
    if (share->region != NULL)
        share->region->transport->region_delete(&share->region);
    free(share->parts);
    free(share->absent);
    free(share->seals);
    *share = (struct shard_share){.begins = begins, .sealed_next = begins, .reported_next = begins};
}

/* shard_absence_forgot -- see inside.h. */
void shard_absence_forgot(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    struct message forgot = {.kind = MESSAGE_FORGOT, .rank = rank};

    if (--member->forgetting > 0)
        return;
    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL && shard->models[m]->shares[rank].forget)
            absence_clear(shard->models[m], rank);
    if (member->domain != NULL)
        member->domain->transport->domain_delete(&member->domain);
    member->open = true;
    for (uint32_t m = 0; m < shard->model_end && !shard->ending; m++) {
        forgot.model = m;
        if (shard->models[m] != NULL && shard->models[m]->phase != PHASE_DECLARED)
            leader_send(shard, &forgot, now);
    }
}

/*
 * absence_taken -- whoever comes under a rank that is taken may be faster than the news that the one before it is gone. It is told to come again, until that one is heard of
 * for long enough after it came.
 */
static bool absence_taken(struct shard_member *member, uint64_t incarnation, uint64_t now)
{
    if (member->rival != incarnation) {
        member->rival = incarnation;
        member->rival_since = now;
    }
    return !member->broken && member->control.last_heard > member->rival_since + ABSENCE_HEARD_MS * CLOCK_MS;
}

/* shard_absence_admits -- see inside.h. */
int shard_absence_admits(struct shard *shard, const struct hello *theirs, uint64_t now)
{
    struct shard_member *member = &shard->members[theirs->rank];
    bool returns = shard_absence_returns(shard);

    if (member->past != 0 && member->past == theirs->incarnation)
        return STEPGATE_ELOST; /* it was given up, and perhaps replaced */
    if (member->left || (member->lost && !member->open && !returns))
        return STEPGATE_ERANK;
    if (member->lost)
        return member->open && (!member->late || shard_late_admits(shard)) ? 0 : STEPGATE_EBUSY;
    if (!member->up)
        return 0;
    return !returns || absence_taken(member, theirs->incarnation, now) ? STEPGATE_ERANK : STEPGATE_EBUSY;
}

/* shard_absence_up -- see inside.h. */
void shard_absence_up(struct shard *shard, uint32_t rank)
{
    struct shard_member *member = &shard->members[rank];

    member->open = member->lost = member->late = member->fails = false;
    member->breaks = 0;
    member->barrier = member->met = shard->met;
    member->expected = false;
    member->newcomer = true;
}

/* absence_differs -- the newcomer has another model: it alone must go. */
static void absence_differs(struct shard_model *model, uint32_t rank, uint64_t now)
{
    struct message abort = {.kind = MESSAGE_ABORT};

    error_set(STEPGATE_EMISMATCH, 0, "declare the same model as before",
              "worker %u comes back with another model than %s, which is in training: it is not let in", rank,
              model->model->name);
    error_peer(STEPGATE_ROLE_WORKER, (int)rank, "", "");
    error_save(&abort.error);
    log_line(&model->shard->config.log, LOG_WARN, "%s", abort.error.text);
    shard_send(model->shard, rank, &abort, now);
}

/* shard_absence_check -- see inside.h. */
void shard_absence_check(struct shard_model *model, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard *shard = model->shard;
    struct shard_share *share = &model->shares[rank];
    const struct letter back = {.kind = LETTER_BACK, .rank = rank, .model = model->number};
    const struct message here = {.kind = MESSAGE_BACK, .model = model->number, .rank = rank};

    free(share->parts);
    share->parts = NULL;
    share->checked = true;
    share->matched = memcmp(m->fingerprint, model->fingerprint, sizeof(model->fingerprint)) == 0;
    if (!share->matched) {
        absence_differs(model, rank, now);
        return;
    }
    int status = shard_place_slot(model, rank);
    for (uint32_t l = 0; status == 0 && l < shard->config.lanes; l++) {
        status = mailbox_put(lane_mailbox(shard->config.lane_list[l]), &back);
        if (shard->config.wake_lane != NULL)
            shard->config.wake_lane(shard->config.wake_context, l);
    }
    if (status == 0) {
        model->again++;
        share->again = true;
        status = shard_place_tell(model, rank);
    }
    if (status != 0) {
        shard_abort(shard, now);
        return;
    }
    shard_checkpoint_aux(model, rank, now);
    leader_send(shard, &here, now);
}

/* leader_absence_begin -- see inside.h. Several shards may tell of the same loss. */
void leader_absence_begin(struct shard *shard, uint32_t rank, uint64_t incarnation, uint64_t now)
{
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        struct leader_model *lead = shard->leads[m];
        if (lead == NULL || lead->mode == NULL || !shard_absence_returns(shard))
            continue;
        struct leader_absence *absence = &lead->absences[rank];
        if (absence->state != ABSENCE_NONE && absence->incarnation == incarnation)
            continue;
        if (absence->state == ABSENCE_FORGETTING || absence->state == ABSENCE_HELD) {
            absence->next = incarnation;
            continue;
        }
        lead->absent += absence->state == ABSENCE_NONE;
        absence->state = ABSENCE_HELD;
        absence->incarnation = incarnation;
        leader_absence_look(shard->models[m], now);
    }
}

/* absence_heard -- of each shard. */
static uint8_t *absence_heard(const struct shard_model *model, uint32_t rank)
{
    const struct shard *shard = model->shard;

    return shard->leads[model->number]->heard + (size_t)rank * shard->config.shards;
}

/* shard_absence_first -- it may have been so far ahead of what is known here, and its slots take turns. */
uint64_t shard_absence_first(uint64_t contributed, uint32_t depth)
{
    return (contributed / depth + 4) * depth;
}

/* absence_forget -- nothing that is to be decided needs it: every shard may forget it, behind what was ordered by now. */
static void absence_forget(struct shard_model *model, uint32_t rank, uint64_t now)
{
    struct leader_model *lead = model->shard->leads[model->number];
    struct leader_absence *absence = &lead->absences[rank];
    struct message forget = {.kind = MESSAGE_FORGET, .model = model->number, .rank = rank};

    absence->begins = shard_absence_first(lead->contributed[rank], model->depth);
#ifdef STEPGATE_MUTANT_NUMBERS_REUSED
    absence->begins = lead->contributed[rank];
#endif
    absence->state = ABSENCE_FORGETTING;
    absence->forgot = absence->back = 0;
    memset(absence_heard(model, rank), 0, model->shard->config.shards);
    forget.sequence = absence->begins;
    forget.total = absence->incarnation;
    leader_spread(model->shard, &forget, now);
}

/* absence_end -- the rank is there again, everywhere: it begins with the step that is awaited. */
static void absence_end(struct shard_model *model, uint32_t rank, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];
    struct leader_absence *absence = &lead->absences[rank];

    if (mode_back(lead->mode, rank, absence->begins) != 0) {
        shard_abort(shard, now);
        return;
    }
    lead->contributed[rank] = absence->begins;
    absence->state = ABSENCE_NONE;
    absence->over = true;
    lead->absent--;
    leader_token_back(shard, model, rank, absence->begins, now);
    log_line(&shard->config.log, LOG_INFO, "worker %u %s, and begins with step %llu of model %s", rank,
             absence->incarnation == 0 ? "has come late" : "is back",
             (unsigned long long)mode_step(lead->mode), model->model->name);
}

/* leader_absence_look -- see inside.h. */
void leader_absence_look(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];

    for (uint32_t w = 0; lead->absent > 0 && !lead->measuring && !shard->failed && w < shard->config.workers;
         w++) {
        const struct leader_absence *absence = &lead->absences[w];
#ifdef STEPGATE_MUTANT_HELD_IS_FORGOTTEN
        if (absence->state == ABSENCE_HELD)
            absence_forget(model, w, now);
#endif
        if (absence->state == ABSENCE_NONE || mode_holds(lead->mode, w))
            continue;
        if (absence->state == ABSENCE_HELD)
            absence_forget(model, w, now);
        else if (absence->state == ABSENCE_AWAY && absence->back == shard->config.shards)
            absence_end(model, w, now);
    }
}

/* leader_absence_answer -- see inside.h. What a shard says of a newcomer before it has forgotten who was lost is of the latter. */
void leader_absence_answer(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    struct leader_model *lead = shard->leads[m->model];
    struct shard_model *model = shard->models[m->model];

    if (lead == NULL || model == NULL || lead->mode == NULL || m->rank >= shard->config.workers ||
        shard->ending)
        return;
    struct leader_absence *absence = &lead->absences[m->rank];
    uint8_t *heard = &absence_heard(model, m->rank)[from];
    if (absence->state != ABSENCE_FORGETTING && absence->state != ABSENCE_AWAY)
        return;
    if (m->kind == MESSAGE_FORGOT && !(*heard & HEARD_FORGOT)) {
        *heard = HEARD_FORGOT;
        absence->forgot++;
    } else if (m->kind == MESSAGE_BACK && *heard == HEARD_FORGOT) {
        *heard |= HEARD_BACK;
        absence->back++;
    }
    if (absence->state == ABSENCE_FORGETTING && absence->forgot == shard->config.shards) {
        absence->state = absence->next != 0 ? ABSENCE_HELD : ABSENCE_AWAY;
        if (absence->next != 0)
            absence->incarnation = absence->next;
        absence->next = 0;
    }
    leader_absence_look(model, now);
}

/* absence_over -- who was expected did not come in time. */
static void absence_over(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    struct stepgate_error why = member->cause;

    member->expected = false;
    if (shard->config.number != 0)
        return;
    log_line(&shard->config.log, LOG_WARN, "worker %u did not come back within %lld ms", rank,
             (long long)shard->config.return_timeout_ms);
    leader_gone(shard, rank, now);
    if (shard->failed || absence_there(shard) > 0)
        return;
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].left || shard_absence_expected(shard, w))
            return;
    error_set(STEPGATE_ELOST, 0, why.remedy, "no worker is left, and none came back within %lld ms: %.300s",
              (long long)shard->config.return_timeout_ms, why.text);
    error_peer(STEPGATE_ROLE_WORKER, (int)rank, "", "");
    error_step(why.step, shard->config.return_timeout_ms);
    shard_abort(shard, now);
}

/* shard_absence_watch -- see inside.h. */
void shard_absence_watch(struct shard *shard, uint64_t now)
{
    for (uint32_t w = 0; !shard->ending && w < shard->config.workers; w++)
        if (now >= shard->members[w].expected_until && shard_absence_expected(shard, w))
            absence_over(shard, w, now);
}

/* shard_absence_deadline -- see inside.h. */
uint64_t shard_absence_deadline(const struct shard *shard)
{
    uint64_t deadline = CLOCK_NEVER;

    for (uint32_t w = 0; !shard->ending && w < shard->config.workers; w++)
        if (shard_absence_expected(shard, w) && shard->members[w].expected_until < deadline)
            deadline = shard->members[w].expected_until;
    return deadline;
}
