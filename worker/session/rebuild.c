/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rebuild -- connections to a ps that broke while both ends live. All those to this ps go, and are made anew under the same rank and incarnation:
 * control first, which the ps recognizes, then those of the lanes. What was imported stays, for a key or a mapping is of use on every connection
 * in its domain; messages are the links' business; what was not answered is sent again, what was being read is read again.
 */
#include <stdio.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

#define REBUILD_MS 10000 /* without liveness */
#define REBUILD_BACK_OFF_MS                                                                                  \
    100 /* at most, between two attempts: a ps does not wait long for one whose connection was closed */
#define REBUILD_REFUSALS 2 /* nobody listens there: it is gone */

/* rebuild_ms -- as long as a silent ps is given. */
static int64_t rebuild_ms(const struct session *session)
{
    return session->liveness_ms > 0 ? session->liveness_ms : REBUILD_MS;
}

/* rebuild_counts -- one more break; one that comes long after the one before begins a new row. */
static unsigned rebuild_counts(const struct session *session, struct session_shard *shard, uint64_t now)
{
    if (now >= clock_after(shard->stands_since, rebuild_ms(session)))
        shard->breaks = 0;
    return ++shard->breaks;
}

/* rebuild_hold -- a connection goes, what was said over it stays. */
static void rebuild_hold(struct session *session, struct session_connection *connection)
{
    link_forget(&connection->link, &session->batch);
    link_hold(&connection->link);
}

/* rebuild_hold_all -- none of them carries anything any more. */
static void rebuild_hold_all(struct session *session, struct session_shard *shard)
{
    rebuild_hold(session, &shard->control);
    for (uint32_t l = 0; l < session->push_lanes; l++)
        rebuild_hold(session, &shard->push[l]);
    for (uint32_t l = 0; l < session->pull_lanes; l++)
        rebuild_hold(session, &shard->pull[l]);
}

/* rebuild_model -- what of a model was under way. */
static void rebuild_model(struct session_model *model, uint32_t s, uint64_t now)
{
    struct session_place *place = model->places != NULL ? &model->places[s] : NULL;

    if (place == NULL)
        return;
    if (place->slots == NULL) /* told, and not taken: it is told anew, for the new connection */
        place->slots_told = false;
    if (place->parameters == NULL)
        place->parameters_told = false;
    session_snapshot_break(model, s, now);
    session_fetch_break(model, s);
    session_pulls_break(model, s);
    session_transfer_again(model, s);
}

/* rebuild_models -- the same of all of them. */
static void rebuild_models(struct session *session, const struct session_shard *shard, uint64_t now)
{
    for (size_t m = 0; m < session->model_count; m++)
        rebuild_model(session->models[m], shard->number, now);
}

/* session_rebuild_begin -- see inside.h. */
bool session_rebuild_begin(struct session *session, struct session_shard *shard, const struct link *link,
                           uint64_t now)
{
    if (session->reconnect == 0 || session->observer || !shard->welcome || link->end == LINK_END_REASON ||
        rebuild_counts(session, shard, now) > session->reconnect)
        return false;
    const struct link *first = shard->suspected ? session_link_down(session, shard) : NULL;

    shard->suspected = false;
    shard->broken = true;
    shard->attempts = shard->refusals = 0;
    shard->broken_at = now;
    shard->rebuild_by = clock_after(now, rebuild_ms(session));
    /* A ps that hears of the end of one closes them all: the one that broke before knows why. */
    shard->cause = first != NULL ? first->error : link->error;
    rebuild_hold_all(session, shard);
    shard->control.retry_at = session_back_off(session, 0, REBUILD_BACK_OFF_MS, now);
    rebuild_models(session, shard, now);
    log_line(&session->log, LOG_DEBUG, "the connections to ps %u (%s) broke, they are made anew: %s",
             shard->number, shard->address, shard->cause.text);
    return true;
}

/* rebuild_give_up -- the ps is lost, for the reason for which the connections broke. */
static void rebuild_give_up(struct session *session, struct session_shard *shard)
{
    struct stepgate_error cause = shard->cause;

    snprintf(cause.text, sizeof(cause.text), "%.*s; %u attempt%s to reconnect%s%s", 300, shard->cause.text,
             shard->attempts, shard->attempts == 1 ? "" : "s", shard->why[0] != 0 ? ": " : "", shard->why);
    shard->broken = false;
    session_lost(shard, &cause);
    session_fail(session);
}

/* rebuild_refused -- the ps says more than that it does not want to: the job has failed there, or the worker may not come back. */
static void rebuild_refused(struct session *session, struct session_shard *shard,
                            const struct stepgate_error *why)
{
    if (why->code == STEPGATE_EENDED && shard->leave_sent) { /* the answer to the good-bye was lost */
        shard->broken = false;
        shard->left = true;
        return;
    }
    if (why->code != STEPGATE_ELOST) {
        rebuild_give_up(session, shard);
        return;
    }
    error_set(why->code, why->os_errno, why->remedy, "ps %u (%s): %.*s; the connections broke before: %s",
              shard->number, shard->address, 200, why->text, shard->cause.text);
    error_peer(why->role, why->rank, shard->address, "");
    session_fail(session);
}

/* session_rebuild_again -- see inside.h. Without control, or when one of them stood already, all of them are made anew. */
void session_rebuild_again(struct session *session, struct session_shard *shard,
                           struct session_connection *connection, uint64_t now)
{
    const struct stepgate_error why = connection->link.error;
    bool again = connection->link.end != LINK_END_REASON || why.code == STEPGATE_EBUSY ||
                 why.code == STEPGATE_EREFUSED || why.code == STEPGATE_EUNREACHABLE ||
                 why.code == STEPGATE_EPEER;
    bool stood = connection->link.came_up && !connection->link.held; /* so that others may have, too */
    bool all = connection == &shard->control || stood;

    snprintf(shard->why, sizeof(shard->why), "%.*s", (int)sizeof(shard->why) - 1, why.text);
    if (all)
        rebuild_hold_all(session, shard);
    else
        rebuild_hold(session, connection);
    if (stood)
        rebuild_models(session, shard, now);
    if (!again) {
        rebuild_refused(session, shard, &why);
        return;
    }
    shard->refusals += why.code == STEPGATE_EREFUSED;
    if (shard->refusals >= REBUILD_REFUSALS) {
        rebuild_give_up(session, shard);
        return;
    }
    if (all)
        connection = &shard->control;
    connection->retry_at = session_back_off(session, connection->attempts++, REBUILD_BACK_OFF_MS, now);
}

/* session_rebuild_watch -- see inside.h. */
void session_rebuild_watch(struct session *session, struct session_shard *shard, uint64_t now)
{
    if (!shard->broken)
        return;
    if (session_is_up(session, shard)) {
        shard->broken = false;
        shard->stands_since = now;
        shard->why[0] = 0;
        session->stats.reconnects++;
        session->changes++;
        log_line(&session->log, LOG_INFO,
                 "the connections to ps %u (%s) stand again after %llu ms, %u attempt%s: %s", shard->number,
                 shard->address, (unsigned long long)((now - shard->broken_at) / CLOCK_MS), shard->attempts,
                 shard->attempts == 1 ? "" : "s", shard->cause.text);
        return;
    }
    if (now >= shard->rebuild_by)
        rebuild_give_up(session, shard);
}

/* session_rebuilds -- see session.h. */
bool session_rebuilds(const struct session *session)
{
    for (uint32_t s = 0; s < session->shard_count && !session->failed; s++)
        if (session->shards[s].broken || (session->shards[s].suspected && !session->shards[s].left))
            return true;
    return false;
}
