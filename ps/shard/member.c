/* SPDX-License-Identifier: BSD-3-Clause */
/* member -- who is in the job: connections, checks, messages of workers, departures, losses. */
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define MEMBER_REPORT_MS 5000
#define MEMBER_UNPROVEN_MS 1000
#define MEMBER_LINGER_MS 2000     /* longer than anybody waits between two attempts to connect */
#define MEMBER_LAST_WORDS_MS 1000 /* how long a failed job's last messages may take */

/* shard_post -- what the endpoint does not take now is tried again in the next round. */
int shard_post(struct shard *shard, struct link *link, const struct message *message, uint64_t now)
{
    int status = link_send(link, message, now);

    if (!link_idle(link))
        shard->attend_at = now;
    return status;
}

/* shard_send -- to a worker. */
void shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];

    if (!member->up || member->left)
        return;
    if (shard_post(shard, &member->control, message, now) == -STEPGATE_ENOMEM)
        shard_abort(shard, now);
}

/* shard_abort -- everyone is told, then this shard ends. */
void shard_abort(struct shard *shard, uint64_t now)
{
    struct message abort = {.kind = MESSAGE_ABORT};

    if (shard->failed)
        return;
    error_save(&shard->failure);
    shard->failed = true;
    shard->ending = true;
    shard->end_deadline = now + MEMBER_LAST_WORDS_MS * CLOCK_MS;
    /* Whoever comes to a job that failed while it gathered would wait for a ps that is gone. Not worth it when nobody came in time. */
    shard->lingers = !shard->gathered && shard->failure.code == STEPGATE_ELOST;
    if (shard->lingers)
        shard->end_deadline = now + MEMBER_LINGER_MS * CLOCK_MS;
    shard->attend_at = now;
    abort.error = shard->failure;
    shard_observers_tell(shard, &shard->failure, now);
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].up && !shard->members[w].left && !shard->members[w].lost)
            shard_post(shard, &shard->members[w].control, &abort, now);
    for (uint32_t s = 1; shard->config.number == 0 && s < shard->config.shards; s++)
        if (shard->peers[s].up)
            shard_post(shard, &shard->peers[s].link, &abort, now);
    if (shard->config.number != 0 && shard->leader_up)
        shard_post(shard, &shard->leader, &abort, now);
}

/* shard_refuse -- answers a request of that rank with a reason. */
static void shard_refuse(struct shard *shard, struct stepgate_request *request, uint32_t rank, int reason)
{
    uint8_t refusal[STEPGATE_HELLO_BYTES];

    if (reason == STEPGATE_ELOST && shard->failed)
        hello_refusal_lost(shard->hello.job, shard->failure.role, shard->failure.rank, refusal);
    else if (reason == STEPGATE_ELOST) /* the job goes on: who asks was given up */
        hello_refusal_lost(shard->hello.job, STEPGATE_ROLE_WORKER, (int)rank, refusal);
    else
        hello_refusal(shard->hello.job, reason, refusal);
    request->transport->request_refuse(request, refusal, sizeof(refusal));
}

/*
 * shard_unproven -- a connection that has yet to prove itself keeps others of its rank waiting, who come again, but not for long: it need
 * not be who it says.
 */
bool shard_unproven(const struct link *link, uint64_t now)
{
    return (link->state == LINK_CONNECTING || link->state == LINK_PROVING) &&
           now < link->last_heard + MEMBER_UNPROVEN_MS * CLOCK_MS;
}

/* shard_accept_worker -- a control connection. */
static int shard_accept_worker(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                               const struct stepgate_event *event, const struct hello *theirs, uint64_t now)
{
    if (theirs->rank >= shard->config.workers)
        return STEPGATE_ERANK;
    struct shard_member *member = &shard->members[theirs->rank];
    int reason = shard_absence_admits(shard, theirs, now);
    if (reason != 0)
        return reason;
    if (shard_unproven(&member->control, now))
        return STEPGATE_EBUSY;
    struct stepgate_fabric *in = shard->config.fabrics[fabric].fabric;
    link_close(&member->control);
    if (member->domain != NULL)
        member->domain->transport->domain_delete(&member->domain);
    int status = in->transport->domain_new(in, &member->domain);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        log_line(&shard->config.log, LOG_WARN, "worker %u could not be accepted: %s", theirs->rank,
                 error.text);
        return -status;
    }
    member->fabric = fabric;
    link_init(&member->control, shard->config.secret, shard->config.liveness_ms);
    struct hello hello = shard->hello;
    hello.purpose = HELLO_CONTROL;
    if (link_accept(&member->control, request, shard->config.fabrics[fabric].queue, member->domain, &hello,
                    event->data, event->length, now) != 0) {
        char text[512];
        struct stepgate_error error;
        error_save(&error);
        snprintf(text, sizeof(text), "%s", error.text);
        log_line(&shard->config.log, LOG_WARN, "worker %u could not be accepted: %s", theirs->rank, text);
        link_close(&member->control);
    }
    return 0;
}

/* shard_accept_lane -- a push or pull connection of a worker whose control connection is up: the lane's thread takes it. */
static int shard_accept_lane(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                             const struct stepgate_event *event, const struct hello *theirs)
{
    if (theirs->rank >= shard->config.workers || theirs->lane >= shard->config.lanes)
        return STEPGATE_ERANK;
    const struct shard_member *member = &shard->members[theirs->rank];
    if (!member->up || member->left || member->broken ||
        member->control.theirs.incarnation != theirs->incarnation || member->fabric != fabric)
        return STEPGATE_EBUSY;
    struct letter letter = {.kind = LETTER_ACCEPT,
                            .rank = theirs->rank,
                            .lane = theirs->lane,
                            .fabric = fabric,
                            .purpose = theirs->purpose,
                            .request = request,
                            .domain = theirs->purpose == HELLO_PUSH ? member->domain : shard->shared[fabric]};
    memcpy(letter.hello, event->data, sizeof(letter.hello));
    if (mailbox_put(lane_mailbox(shard->config.lane_list[theirs->lane]), &letter) != 0)
        return STEPGATE_ENOMEM;
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, theirs->lane);
    return 0;
}

/* shard_accept_peer -- another shard, on the leader. */
static int shard_accept_peer(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                             const struct stepgate_event *event, const struct hello *theirs, uint64_t now)
{
    if (shard->config.number != 0 || theirs->rank == 0 || theirs->rank >= shard->config.shards)
        return STEPGATE_ERANK;
    struct shard_peer *peer = &shard->peers[theirs->rank];
    if (peer->up)
        return STEPGATE_ERANK;
    if (shard_unproven(&peer->link, now))
        return STEPGATE_EBUSY;
    link_close(&peer->link);
    link_init(&peer->link, shard->config.secret, shard->config.liveness_ms);
    struct hello hello = shard->hello;
    hello.purpose = HELLO_SHARD;
    hello.lane = (uint16_t)shard->config.lost;
    if (link_accept(&peer->link, request, shard->config.fabrics[fabric].queue, shard->shared[fabric], &hello,
                    event->data, event->length, now) != 0)
        link_close(&peer->link);
    return 0;
}

/* shard_request -- somebody wants to connect: who is it, and may it? */
void shard_request(struct shard *shard, unsigned fabric, const struct stepgate_event *event, uint64_t now)
{
    struct hello theirs = {0};
    int status = hello_unpack(event->data, event->length, &theirs);
    int reason = STEPGATE_EPROTOCOL;

    if (status == 0)
        status = hello_check(&shard->hello, &theirs);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        log_line(&shard->config.log, LOG_WARN, "a connection was refused: %s", error.text);
        shard_refuse(shard, event->request, theirs.rank, status);
        return;
    }
    bool lane = theirs.role == STEPGATE_ROLE_WORKER && theirs.purpose != HELLO_CONTROL;
    if (shard_rebuild_is_back(shard, &theirs)) /* even to a job that has failed: it is told why */
        reason = shard_rebuild_accept(shard, fabric, event->request, event, &theirs, now);
    else if (shard->failed && lane && theirs.rank < shard->config.workers && shard->members[theirs.rank].up)
        reason = STEPGATE_EBUSY; /* its control connection says why */
    else if (shard->ending)      /* a job that lost somebody is worth another try, one that is over is not */
        reason = shard->failed && shard->failure.code == STEPGATE_ELOST ? STEPGATE_ELOST : STEPGATE_EENDED;
    else if (theirs.role == STEPGATE_ROLE_WORKER && theirs.purpose == HELLO_CONTROL)
        reason = shard_accept_worker(shard, fabric, event->request, event, &theirs, now);
    else if (theirs.role == STEPGATE_ROLE_WORKER &&
             (theirs.purpose == HELLO_PUSH || theirs.purpose == HELLO_PULL))
        reason = shard_accept_lane(shard, fabric, event->request, event, &theirs);
    else if (theirs.role == STEPGATE_ROLE_OBSERVER && theirs.purpose == HELLO_CONTROL)
        reason = shard_accept_observer(shard, fabric, event->request, event, &theirs, now);
    else if (theirs.role == STEPGATE_ROLE_OBSERVER && theirs.purpose == HELLO_PULL)
        reason = shard_accept_view(shard, fabric, event->request, event, &theirs);
    else if (theirs.role == STEPGATE_ROLE_PS && theirs.purpose == HELLO_SHARD)
        reason = shard_accept_peer(shard, fabric, event->request, event, &theirs, now);
    if (reason == 0)
        return;
    if (reason == STEPGATE_ERANK)
        log_line(&shard->config.log, LOG_WARN, "%s %u was refused: its rank is taken or out of range",
                 theirs.role == STEPGATE_ROLE_PS ? "ps" : "worker", theirs.rank);
    shard_refuse(shard, event->request, theirs.rank, reason);
}

/*
 * member_leave -- a worker that said good-bye is let go once all that it sealed is here: its connections end then, and what was still under way on
 * them would be lost.
 */
static void member_leave(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    const struct message left = {.kind = MESSAGE_LEFT};

    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL && !shard_gate_has_all(shard->models[m], rank))
            return;
    member->leaving = false;
    member->left = true;
    shard_post(shard, &member->control, &left, now);
    link_progress(&member->control, now);
    shard_snapshots_drop(shard, member->control.theirs.incarnation);
    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL)
            shard->models[m]->look = true;
    if (shard->config.number == 0) {
        leader_gone(shard, rank, now);
        leader_barrier(shard, now);
    }
}

/* shard_member_message -- what a worker says on its control connection. */
void shard_member_message(struct shard *shard, uint32_t rank, const struct message *m, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    struct message answer;

    member->fails = member->fails || m->kind == MESSAGE_ABORT;
    if (shard->failed || member->left)
        return;
    switch (m->kind) {
    case MESSAGE_MODEL_PART: shard_model_part(shard, rank, m, now); return;
    case MESSAGE_MODEL_CHECK: shard_model_check(shard, rank, m, now); return;
    case MESSAGE_SEAL: shard_seal(shard, rank, m, now); return;
    case MESSAGE_BARRIER:
        if (shard->config.number != 0)
            break;
        if (m->step + member->met > member->barrier)
            member->barrier = m->step + member->met;
        leader_rest(shard, rank, now);
        leader_barrier(shard, now);
        return;
    case MESSAGE_LEAVE:
        member->leaving = true;
        member_leave(shard, rank, now);
        return;
    case MESSAGE_TUNE:
        if (shard->config.number != 0 || rank != 0)
            break;
        leader_tune(shard, m, now);
        return;
    case MESSAGE_SNAPSHOT:
        if (shard_snapshot_ask(shard, member->control.theirs.incarnation, m, now) != 0)
            shard_abort(shard, now);
        return;
    case MESSAGE_SNAPSHOT_DONE: shard_snapshot_done(shard, member->control.theirs.incarnation, m); return;
    case MESSAGE_CHECKPOINT:
        if (shard->config.number != 0)
            break;
        leader_checkpoint_ask(shard, rank, m, now);
        return;
    case MESSAGE_COUNTS_ASK:
        if (shard->config.number != 0)
            break;
        leader_counts(shard, m, &answer);
        shard_send(shard, rank, &answer, now);
        return;
    case MESSAGE_ABORT:
        if (member->newcomer) {
            shard_member_down(shard, rank, &m->error, LINK_END_REASON, now);
            return;
        }
        error_restore(&m->error);
        shard_abort(shard, now);
        return;
    default: break;
    }
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
              "worker %u sent a %s to ps %u", rank, message_name(m->kind), shard->config.number);
    shard_abort(shard, now);
}

/* member_step -- words where the job is; of several models each is named. */
static void member_step(const struct shard *shard, char *text, size_t size)
{
    uint32_t models = 0;
    size_t used = 0;

    text[0] = 0;
    for (uint32_t m = 0; m < shard->model_end; m++)
        models += shard->models[m] != NULL && shard->models[m]->model != NULL;
    for (uint32_t m = 0; m < shard->model_end && used < size; m++) {
        const struct shard_model *model = shard->models[m];
        if (model == NULL || model->model == NULL)
            continue;
        int n = snprintf(text + used, size - used, "%s step %llu%s%s", used > 0 ? "," : " in",
                         (unsigned long long)model->step, models > 1 ? " of model " : "",
                         models > 1 ? model->model->name : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

/* shard_member_lost -- words the loss of a worker as this thread's error. */
static void shard_member_lost(struct shard *shard, uint32_t rank, const struct stepgate_error *why)
{
    const struct shard_member *member = &shard->members[rank];
    uint64_t step = shard->models[0] != NULL ? shard->models[0]->step : UINT64_MAX;
    char at[160];

    member_step(shard, at, sizeof(at));
    error_set(
        why->code == STEPGATE_EPROTOCOL ? STEPGATE_EPROTOCOL : STEPGATE_ELOST, 0,
        why->code == STEPGATE_EPEER
            ? "look at that worker's output and host, then start the job again; a worker that is done says "
              "so with stepgate_job_leave"
            : "look at that worker's output and host, then start the job again",
        "worker %u is lost%s: %s", rank, at, why->text);
    error_peer(STEPGATE_ROLE_WORKER, (int)rank, "",
               shard->config.fabrics[member->fabric].fabric->transport->name);
    error_step(step, why->waited_ms);
}

/* member_say_lost -- and what becomes of the job. */
static void member_say_lost(const struct shard *shard, uint32_t rank, const struct stepgate_error *why)
{
    char next[96];

    shard_absence_words(shard, rank, next, sizeof(next));
    log_line(&shard->config.log, LOG_WARN, "%s; %s", why->text, next);
}

/* shard_member_gone -- a worker is lost, and the others go on. */
void shard_member_gone(struct shard *shard, uint32_t rank, uint64_t incarnation,
                       const struct stepgate_error *why, uint64_t now)
{
    const struct message gone = {.kind = MESSAGE_GONE, .rank = rank, .total = incarnation, .error = *why};

    if (rank >= shard->config.workers || shard->ending)
        return;
    struct shard_member *member = &shard->members[rank];
    if (shard->config.number != 0) {
        shard_post(shard, &shard->leader, &gone, now);
        return;
    }
    if (!member->lost && !member->left &&
        member->incarnation ==
            incarnation) { /* lost on another shard: it must not go on with a part of them */
        const struct message abort = {.kind = MESSAGE_ABORT, .error = *why};
        shard_post(shard, &member->control, &abort, now);
        shard_absence_begin(shard, rank, &abort.error, now);
        member_say_lost(shard, rank, &abort.error);
    }
    leader_gone(shard, rank, now);
    leader_absence_begin(shard, rank, incarnation, now);
    leader_barrier(shard, now);
}

/*
 * member_goes_back -- whoever has given this ps up, since it had been stopped, is waiting for it to go back: where lost workers are not waited for they would be
 * taken for the cause. Only where the job can go back.
 */
static bool member_goes_back(struct shard *shard, uint32_t rank, const struct stepgate_error *why,
                             uint64_t now)
{
    const struct shard_config *config = &shard->config;

    if (!config->rewinds || config->lost == MODE_LOST_WAIT || !shard->gathered || now >= shard->stood_until ||
        !shard_can_rewind(shard))
        return false;
    error_set(STEPGATE_ELOST, 0,
              "do not stop a process for longer than liveness, or set that higher (off: for debuggers)",
              "ps %u had been stopped for %llu ms, and worker %u did not wait: %s", config->number,
              (unsigned long long)shard->stood_ms, rank, why->text);
    error_peer(STEPGATE_ROLE_PS, (int)config->number, shard->address, "");
    error_step(shard->models[0] != NULL ? shard->models[0]->step : UINT64_MAX, (int64_t)shard->stood_ms);
    shard_abort(shard, now);
    return true;
}

/* shard_member_down -- a worker is gone: in order, before it was one of us, for a moment, or lost. */
void shard_member_down(struct shard *shard, uint32_t rank, const struct stepgate_error *why,
                       enum link_end end, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];
    struct stepgate_error error;

    if (!member->up && why->code == STEPGATE_EAUTH)
        log_line(&shard->config.log, LOG_WARN, "worker %u was refused: %s", rank, why->text);
    if (!member->up || member->lost || shard_rebuild_begin(shard, rank, why, end, now) || member->left)
        return;
    member->lost = true;
    shard_snapshots_drop(shard, member->control.theirs.incarnation);
    if (shard->ending)
        return;
#ifndef STEPGATE_MUTANT_STOPPED_BLAMES_WORKERS
    if (member_goes_back(shard, rank, why, now))
        return;
#endif
    bool spared = why->code != STEPGATE_EPROTOCOL && shard_absence_spares(shard, rank);
    shard_member_lost(shard, rank, why);
    if (!spared) {
        shard_abort(shard, now);
        return;
    }
    error_save(&error);
    shard_absence_begin(shard, rank, &error, now);
    member_say_lost(shard, rank, &error);
    shard_member_gone(shard, rank, member->incarnation, &error, now);
}

/* shard_missing -- words the workers and shards that have not come; returns how many workers have. */
static uint32_t shard_missing(const struct shard *shard, char *text, size_t size)
{
    uint32_t there = 0;
    size_t used = 0;

    text[0] = 0;
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        if (shard->members[w].up)
            there++;
        if (shard->members[w].up || shard->members[w].late)
            continue;
        int n = snprintf(text + used, size - used, "%sworker %u", used > 0 ? ", " : "", w);
        if (n > 0 && (size_t)n < size - used)
            used += (size_t)n;
    }
    for (uint32_t s = 1; shard->config.number == 0 && s < shard->config.shards; s++)
        if (!shard->peers[s].up) {
            int n = snprintf(text + used, size - used, "%sps %u", used > 0 ? ", " : "", s);
            if (n > 0 && (size_t)n < size - used)
                used += (size_t)n;
        }
    if (shard->config.number != 0 && !shard->leader_up)
        snprintf(text + used, size - used, "%sps 0 (%s)", used > 0 ? ", " : "", shard->leader_address);
    return there;
}

/* shard_watch_gathering -- reports who is missing, and gives up at the deadline. */
void shard_watch_gathering(struct shard *shard, uint64_t now)
{
    char missing[320];

    if (shard->gathered || shard->ending)
        return;
    uint32_t there = shard_missing(shard, missing, sizeof(missing));
    if (shard->config.number == 0 && missing[0] != 0)
        leader_late_watch(shard, there, now);
    if (shard->ending)
        return;
    there = shard_missing(shard, missing, sizeof(missing));
    shard->stats.connected = there;
    if (missing[0] == 0) {
        shard->gathered = true;
        log_line(&shard->config.log, LOG_INFO, "%u of %u workers connected", there, shard->config.workers);
        return;
    }
    /* the leader speaks first; the others would say the same */
    uint64_t deadline = shard->join_deadline;
    if (deadline != CLOCK_NEVER && shard->config.number != 0)
        deadline += 300 * CLOCK_MS;
    if (now >= deadline) {
        error_set(STEPGATE_EJOIN, 0, "start what is missing; join_timeout sets how long to wait",
                  "%u of %u workers connected after %llu ms, missing: %s", there, shard->config.workers,
                  (unsigned long long)((now - shard->started) / CLOCK_MS), missing);
        error_step(UINT64_MAX, (int64_t)((now - shard->started) / CLOCK_MS));
        shard_abort(shard, now);
    } else if (now >= shard->join_report_at) {
        log_line(&shard->config.log, LOG_INFO, "%u of %u workers connected, missing: %s", there,
                 shard->config.workers, missing);
        shard->join_report_at = now + MEMBER_REPORT_MS * CLOCK_MS;
    }
}

/* shard_watch_leaving -- the job is over when every worker has left, and every shard has said so. */
void shard_watch_leaving(struct shard *shard, uint64_t now)
{
    const struct message done = {.kind = MESSAGE_SHARD_DONE};

    if (shard->ending)
        return;
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].leaving && !shard->members[w].lost)
            member_leave(shard, w, now);
    if (shard->ending)
        return;
    bool left = false, expected = false;
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        if (!shard->members[w].left && !shard->members[w].lost)
            return;
        left = left || shard->members[w].left;
        expected = expected || shard_absence_expected(shard, w);
    }
    if (expected && !left)
        return; /* who comes back may go on */
    if (shard_checkpoints_busy(shard))
        return; /* what is on its way is worth having */
    if (shard->config.number != 0) {
        if (!shard->done_sent)
            shard_post(shard, &shard->leader, &done, now);
        shard->done_sent = true;
    } else {
        for (uint32_t s = 1; s < shard->config.shards; s++)
            if (!shard->peers[s].done)
                return;
        for (uint32_t s = 1; s < shard->config.shards; s++)
            shard_post(shard, &shard->peers[s].link, &done, now);
    }
    shard->ending = true;
    shard->attend_at = now;
    shard->end_deadline =
        clock_after(now, shard->config.close_timeout_ms > 0 ? shard->config.close_timeout_ms : 5000);
    struct stepgate_error why;
    error_set(STEPGATE_EENDED, 0, "", "the job is over: every worker has left it");
    error_save(&why);
    shard_observers_tell(shard, &why, now);
}
