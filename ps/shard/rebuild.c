/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rebuild -- a worker whose connections to this ps broke while both ends live. All of them go, since the worker cannot tell which of them still
 * carries what; everything else stays: the member, its domain, its slots, what has arrived in them, and what is to be said to it. The worker
 * connects anew, under its rank and incarnation, and sends again what was not answered. No region is granted anew, for a key or a mapping is of
 * use on every connection in its domain.
 *
 * Nobody can tell a worker that died from one whose connections broke by the end of a connection. Whose were closed comes back at once if it
 * lives: it is lost when it has not within REBUILD_CLOSED_MS. Where the network failed it is given as long as a silent peer.
 */
#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define REBUILD_CLOSED_MS 500 /* a worker that computes looks at its connections four times per second */
#define REBUILD_MS 10000      /* without liveness */

/* rebuild_ms -- as long as a silent peer is given. */
static int64_t rebuild_ms(const struct shard *shard)
{
    return shard->config.liveness_ms > 0 ? shard->config.liveness_ms : REBUILD_MS;
}

/* rebuild_expects -- will the worker come back? One that has left only for an answer that it may have missed. */
static bool rebuild_expects(struct shard_member *member, enum link_end end)
{
    if (end == LINK_END_REASON || member->fails || member->holding > 0)
        return false;
    return !member->left || link_kept(&member->control);
}

/* rebuild_counts -- one more break; one that comes long after the one before begins a new row. */
static uint32_t rebuild_counts(const struct shard *shard, struct shard_member *member, uint64_t now)
{
    if (now >= clock_after(member->up_since, rebuild_ms(shard)))
        member->breaks = 0;
    return ++member->breaks;
}

/* rebuild_hold -- lanes let go of the connections, and say so. */
static void rebuild_hold(struct shard *shard, uint32_t rank, uint64_t now)
{
    const struct letter hold = {.kind = LETTER_HOLD, .rank = rank};

    for (uint32_t l = 0; l < shard->config.lanes; l++) {
        if (mailbox_put(lane_mailbox(shard->config.lane_list[l]), &hold) != 0) {
            shard_abort(shard, now);
            return;
        }
        shard->members[rank].holding++;
        if (shard->config.wake_lane != NULL)
            shard->config.wake_lane(shard->config.wake_context, l);
    }
}

/* shard_rebuild_begin -- see inside.h. */
bool shard_rebuild_begin(struct shard *shard, uint32_t rank, const struct stepgate_error *why,
                         enum link_end end, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    int64_t ms = rebuild_ms(shard);

    if (shard->config.reconnect == 0 || member->broken || !rebuild_expects(member, end) ||
        rebuild_counts(shard, member, now) > shard->config.reconnect)
        return false;
    if (end == LINK_END_CLOSED && ms > REBUILD_CLOSED_MS)
        ms = REBUILD_CLOSED_MS;
    member->broken = true;
    shard->broken++;
    member->cause = *why;
    member->broken_at = now;
    member->return_by = clock_after(now, ms);
    shard_rebuild_again(shard, rank);
    if (!member->left)
        rebuild_hold(shard, rank, now);
    if (!member->left && !shard->ending)
        log_line(&shard->config.log, LOG_DEBUG, "the connections of worker %u broke, it is expected back: %s",
                 rank, member->cause.text);
    return true;
}

/* shard_rebuild_again -- see inside.h. */
void shard_rebuild_again(struct shard *shard, uint32_t rank)
{
    struct link *control = &shard->members[rank].control;

    link_forget(control, &shard->batch);
    link_hold(control);
}

/* shard_rebuild_held -- see inside.h. */
void shard_rebuild_held(struct shard *shard, uint32_t rank)
{
    shard->members[rank].holding--;
}

/* shard_rebuild_end -- see inside.h. */
void shard_rebuild_end(struct shard *shard, uint32_t rank)
{
    shard->broken -= shard->members[rank].broken;
    shard->members[rank].broken = false;
}

/* shard_rebuild_is_back -- see inside.h. */
bool shard_rebuild_is_back(const struct shard *shard, const struct hello *theirs)
{
    if (shard->config.reconnect == 0 || theirs->role != STEPGATE_ROLE_WORKER ||
        theirs->purpose != HELLO_CONTROL || theirs->rank >= shard->config.workers)
        return false;
    const struct shard_member *member = &shard->members[theirs->rank];
    return member->up && !member->lost && member->control.peer == theirs->incarnation;
}

/*
 * shard_rebuild_accept -- see inside.h. A hello proves nothing: it never ends a connection that stands. Until its end has been noticed here, and
 * every lane has let go of its own, the worker is told to come again.
 */
int shard_rebuild_accept(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                         const struct stepgate_event *event, const struct hello *theirs, uint64_t now)
{
    struct shard_member *member = &shard->members[theirs->rank];
    struct hello hello = shard->hello;

    if (member->left) { /* it missed the answer to its good-bye: this is one, too */
        shard_rebuild_end(shard, theirs->rank);
        return STEPGATE_EENDED;
    }
    if (!member->broken || member->holding > 0 || member->fabric != fabric ||
        shard_unproven(&member->control, now))
        return STEPGATE_EBUSY;
    shard_rebuild_again(shard, theirs->rank);
    hello.purpose = HELLO_CONTROL;
    if (link_accept(&member->control, request, shard->config.fabrics[fabric].queue, member->domain, &hello,
                    event->data, event->length, now) != 0)
        link_hold(&member->control);
    return 0;
}

/* rebuild_grant -- what it may have missed: where its slots and the parameters are. Who has contributed knows. */
static void rebuild_grant(struct shard *shard, uint32_t rank, uint64_t now)
{
    for (uint32_t m = 0; m < shard->model_end; m++) {
        struct shard_model *model = shard->models[m];
        if (model == NULL || model->phase == PHASE_DECLARED)
            continue;
        struct shard_share *share = &model->shares[rank];
        if (share->sealed_next > 0 || (rank == 0 && share->sealed_initial))
            continue;
        model->again += !share->again;
        share->again = true;
        if (shard_place_tell(model, rank) != 0)
            shard_abort(shard, now);
    }
}

/* shard_rebuild_over -- see inside.h. */
void shard_rebuild_over(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];

    shard_rebuild_end(shard, rank);
    member->up_since = now;
    shard->stats.reconnects++;
    rebuild_grant(shard, rank, now);
    shard->attend_at = now;
    log_line(&shard->config.log, LOG_INFO, "worker %u is back, %llu ms after its connections broke: %s", rank,
             (unsigned long long)((now - member->broken_at) / CLOCK_MS), member->cause.text);
}

/* shard_rebuild_watch -- see inside.h. */
void shard_rebuild_watch(struct shard *shard, uint64_t now)
{
    for (uint32_t w = 0; shard->broken > 0 && w < shard->config.workers; w++) {
        struct shard_member *member = &shard->members[w];
        if (!member->broken || now < member->return_by)
            continue;
        shard_rebuild_end(shard, w);
        link_close(&member->control);
        shard_member_down(shard, w, &member->cause, LINK_END_REASON, now);
    }
}

/* shard_rebuild_deadline -- see inside.h. */
uint64_t shard_rebuild_deadline(const struct shard *shard)
{
    uint64_t deadline = CLOCK_NEVER;

    for (uint32_t w = 0; shard->broken > 0 && w < shard->config.workers; w++)
        if (shard->members[w].broken && shard->members[w].return_by < deadline)
            deadline = shard->members[w].return_by;
    return deadline;
}
