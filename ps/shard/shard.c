/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/shard/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define SHARD_EVENTS 32
#define SHARD_RETRY_MS 50 /* between attempts to reach the leader; doubled up to 800 ms */

/* shard_listen -- on every fabric, with one port. */
static int shard_listen(struct shard *shard)
{
    const char *address = shard->config.listen;

    for (unsigned f = 0; f < LANE_FABRICS_MAX && shard->config.fabrics[f].fabric != NULL; f++) {
        struct stepgate_fabric *fabric = shard->config.fabrics[f].fabric;
        int status = fabric->transport->domain_new(fabric, &shard->shared[f]);
        if (status == 0)
            status = fabric->transport->listener_new(shard->config.fabrics[f].queue, address,
                                                     &shard->listeners[f]);
        if (status == 0)
            status = fabric->transport->listener_address(shard->listeners[f], shard->address,
                                                         sizeof(shard->address));
        if (status != 0)
            return status;
        address = shard->address; /* a port that was taken freely on the first is the one on all */
    }
    return 0;
}

/* shard_new -- see shard.h. */
int shard_new(const struct shard_config *config, uint64_t now, struct shard **out)
{
    struct shard *shard = calloc(1, sizeof(*shard));
    int status;

    if (shard == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a shard");
    shard->config = *config;
    shard->hello = (struct hello){.version = HELLO_VERSION,
                                  .role = STEPGATE_ROLE_PS,
                                  .rank = config->number,
                                  .job = hello_job_hash(config->job),
                                  .incarnation = config->incarnation,
                                  .workers = config->workers,
                                  .shards = config->shards};
    snprintf(shard->leader_address, sizeof(shard->leader_address), "%s",
             config->leader != NULL ? config->leader : "");
    shard->started = now;
    shard->join_deadline = clock_after(now, config->join_timeout_ms > 0 ? config->join_timeout_ms : -1);
    shard->join_report_at = now + 5000 * CLOCK_MS;
    shard->end_deadline = shard->late_at = CLOCK_NEVER;
    shard->members = calloc(config->workers, sizeof(*shard->members));
    shard->peers = calloc(config->shards, sizeof(*shard->peers));
    if (shard->members == NULL || shard->peers == NULL) {
        status =
            error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u members", config->workers + config->shards);
        goto delete_shard;
    }
    for (uint32_t w = 0; w < config->workers; w++) {
        shard->members[w].control.owner = shard;
        shard->members[w].control.tag = SHARD_MEMBER + 4 * (int)w;
        link_init(&shard->members[w].control, config->secret, config->liveness_ms);
    }
    for (uint32_t s = 0; s < config->shards; s++) {
        shard->peers[s].link.owner = shard;
        shard->peers[s].link.tag = SHARD_PEER + 4 * (int)s;
        link_init(&shard->peers[s].link, config->secret, config->liveness_ms);
    }
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++) {
        shard->observers[i].control.owner = shard;
        shard->observers[i].control.tag = SHARD_OBSERVER + 4 * (int)i;
        link_init(&shard->observers[i].control, config->secret, config->liveness_ms);
    }
    shard->leader.owner = shard;
    shard->leader.tag = SHARD_LEADER;
    link_init(&shard->leader, config->secret, config->liveness_ms);
    status = shard_listen(shard);
    if (status != 0)
        goto delete_shard;
    *out = shard;
    return 0;

delete_shard:
    shard_delete(&shard);
    return status;
}

/* shard_delete -- links before regions before domains. */
void shard_delete(struct shard **out)
{
    struct shard *shard = *out;

    if (shard == NULL)
        return;
    for (unsigned f = 0; f < LANE_FABRICS_MAX; f++)
        if (shard->listeners[f] != NULL)
            shard->listeners[f]->transport->listener_delete(&shard->listeners[f]);
    for (uint32_t w = 0; shard->members != NULL && w < shard->config.workers; w++)
        link_close(&shard->members[w].control);
    for (uint32_t s = 0; shard->peers != NULL && s < shard->config.shards; s++)
        link_close(&shard->peers[s].link);
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        link_close(&shard->observers[i].control);
    link_close(&shard->leader);
    shard_snapshots_delete(shard);
    for (uint32_t m = 0; m < SLOT_MODELS_MAX; m++) {
        shard_model_delete(&shard->models[m]);
        leader_model_delete(&shard->leads[m]);
    }
    for (uint32_t w = 0; shard->members != NULL && w < shard->config.workers; w++)
        if (shard->members[w].domain != NULL)
            shard->members[w].domain->transport->domain_delete(&shard->members[w].domain);
    for (unsigned f = 0; f < LANE_FABRICS_MAX; f++)
        if (shard->shared[f] != NULL)
            shard->shared[f]->transport->domain_delete(&shard->shared[f]);
    free(shard->members);
    free(shard->peers);
    free(shard);
    *out = NULL;
}

/* shard_address -- with the real port. */
const char *shard_address(const struct shard *shard)
{
    return shard->address;
}

/* shard_welcome -- how this shard is made. */
void shard_welcome(const struct shard *shard, struct message *out)
{
    *out = (struct message){.kind = MESSAGE_WELCOME,
                            .shard = shard->config.number,
                            .shards = shard->config.shards,
                            .workers = shard->config.workers,
                            .lanes = shard->config.lanes,
                            .group_bytes = shard->config.group_bytes,
                            .cut_bytes = shard->config.cut_bytes};
}

/* shard_member_up -- a worker has proved itself. */
static void shard_member_up(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct message welcome;

    if (shard->members[rank].up) {
        shard_rebuild_over(shard, rank, now);
        return;
    }
    if (shard->members[rank].open)
        shard_absence_up(shard, rank);
    shard_welcome(shard, &welcome);
    shard->members[rank].up = true;
    shard->members[rank].up_since = now;
    shard->members[rank].incarnation = shard->members[rank].control.theirs.incarnation;
    shard_send(shard, rank, &welcome, now);
}

/* shard_peer_up -- another ps has proved itself to the leader. */
static void shard_peer_up(struct shard *shard, uint32_t number, uint64_t now)
{
    static const char *const policies[] = {"fail", "wait", "shrink"};
    uint16_t theirs = shard->peers[number].link.theirs.lane;

    shard->peers[number].up = true;
    if (theirs != shard->config.lost) { /* they would count contributions in two ways */
        error_set(STEPGATE_EMISMATCH, 0, "give every ps the same lost_worker",
                  "ps 0 has lost_worker=%s, and ps %u has %s", policies[shard->config.lost], number,
                  theirs < 3 ? policies[theirs] : "another");
        error_peer(STEPGATE_ROLE_PS, (int)number, "", "");
        shard_abort(shard, now);
        return;
    }
    leader_checkpoint_probe(shard, number, now);
}

/* shard_lost_ps -- another ps is gone. */
static void shard_lost_ps(struct shard *shard, uint32_t number, const struct link *link, const char *address,
                          uint64_t now)
{
    if (shard->ending)
        return;
    struct stepgate_error why = link->error;
    error_set(STEPGATE_ELOST, 0, "look at that ps's output and host, then start the job again",
              "ps %u is lost: %s", number, why.text);
    error_peer(STEPGATE_ROLE_PS, (int)number, address, "");
    error_step(shard->models[0] != NULL ? shard->models[0]->step : UINT64_MAX, why.waited_ms);
    shard_abort(shard, now);
}

/* shard_peer_message -- another shard speaks to the leader, or the leader to this shard. */
static void shard_peer_message(struct shard *shard, uint32_t from, const struct message *m, uint64_t now)
{
    bool leader = shard->config.number == 0;

    switch (m->kind) {
    case MESSAGE_ABORT:
        *(leader ? &shard->peers[from].knows : &shard->leader_knows) = true;
        error_restore(&m->error);
        shard_abort(shard, now);
        return;
    case MESSAGE_SHARD_DONE:
        if (!leader)
            return;
        shard->peers[from].done = true;
        leader_checkpoint_gone(shard, from, now);
        return;
    case MESSAGE_CHECKPOINT_WRITTEN:
    case MESSAGE_CHECKPOINT_FAILED:
    case MESSAGE_RESTORED:
        if (!leader)
            break;
        leader_checkpoint_answer(shard, from, m, now);
        return;
    case MESSAGE_CHECKPOINT_STOP:
        if (!leader)
            break;
        leader_part(shard, from, now);
        return;
    case MESSAGE_CHECKPOINT_PROBE:
        if (leader)
            break;
        shard_checkpoint_probe(shard, m, now);
        return;
    case MESSAGE_RESTORE:
        if (leader)
            break;
        if (shard_model_get(shard, m->model, now) != NULL && !shard->ending)
            shard_checkpoint_restore(shard->models[m->model], m, now);
        return;
    case MESSAGE_COMPLETE:
        if (!leader)
            break;
        leader_complete(shard, from, m, now);
        return;
    case MESSAGE_APPLIED:
        if (!leader)
            break;
        leader_applied(shard, from, m, now);
        return;
    case MESSAGE_NORM:
        if (!leader)
            break;
        leader_norm(shard, from, m, now);
        return;
    case MESSAGE_FORGOT:
    case MESSAGE_BACK:
        if (!leader)
            break;
        leader_absence_answer(shard, from, m, now);
        return;
    case MESSAGE_GONE:
        if (!leader)
            break;
        shard_member_gone(shard, m->rank, m->total, &m->error, now);
        return;
    case MESSAGE_LATE:
        if (leader || m->rank >= shard->config.workers)
            break;
        shard_late(shard, m->rank, now);
        return;
    case MESSAGE_TUNE:
    case MESSAGE_COMMIT:
    case MESSAGE_MEASURE:
    case MESSAGE_ACCUMULATE:
    case MESSAGE_RELEASE:
    case MESSAGE_FORGET:
    case MESSAGE_SNAPSHOT_TAKE:
    case MESSAGE_CHECKPOINT_TAKE:
        if (leader)
            break;
        shard_order(shard, m, now);
        return;
    default: break;
    }
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
              "ps %u sent a %s to ps %u", from, message_name(m->kind), shard->config.number);
    shard_abort(shard, now);
}

/* shard_link_down -- what the end of a link means depends on who was behind it. */
static void shard_link_down(struct shard *shard, struct link *link, uint64_t now)
{
    uint32_t number = (uint32_t)link->tag / 4;

    switch (link->tag % 4) {
    case SHARD_MEMBER:
        if (shard->members[number].broken)
            shard_rebuild_again(shard, number);
        else
            shard_member_down(shard, number, &link->error, link->end, now);
        return;
    case SHARD_OBSERVER: shard_observer_down(shard, number); return;
    case SHARD_PEER:
        if (shard->peers[number].up && !shard->peers[number].done)
            shard_lost_ps(shard, number, link, "", now);
        return;
    default: break;
    }
    if (shard->leader_up) {
        shard->leader_up = false;
        if (!shard->done_sent)
            shard_lost_ps(shard, 0, link, shard->leader_address, now);
        return;
    }
    int code = link->error.code;
    bool later = shard->config.rewinds &&
                 (code == STEPGATE_ERANK || code == STEPGATE_ELOST || code == STEPGATE_EENDED);
    if (!later && (code == STEPGATE_EWRONGJOB || code == STEPGATE_EVERSION || code == STEPGATE_EMISMATCH ||
                   code == STEPGATE_EAUTH || code == STEPGATE_ERANK || code == STEPGATE_ENODEVICE ||
                   code == STEPGATE_ELOST || code == STEPGATE_EENDED)) {
        struct stepgate_error why = link->error;
        error_set(code, why.os_errno, why.remedy, "ps 0 (%s): %s", shard->leader_address, why.text);
        shard_abort(shard, now);
        return;
    }
    shard->leader_fabric = shard->leader_fabric + 1 < LANE_FABRICS_MAX &&
                                   shard->config.fabrics[shard->leader_fabric + 1].fabric != NULL
                               ? shard->leader_fabric + 1
                               : 0;
    uint64_t wait = (uint64_t)SHARD_RETRY_MS << (shard->leader_attempts < 4 ? shard->leader_attempts : 4);
    shard->leader_attempts++;
    shard->leader_retry_at = now + wait * CLOCK_MS;
}

/* shard_device -- this thread's last error is what a device says: without it there is no ps. */
static void shard_device(struct shard *shard, bool lost, uint64_t now)
{
    struct stepgate_error error;

    error_save(&error);
    if (!lost) {
        log_line(&shard->config.log, LOG_WARN, "%s", error.text);
        return;
    }
    error_set(error.code, error.os_errno, error.remedy, "ps %u: %s", shard->config.number, error.text);
    shard_abort(shard, now);
}

/* shard_event -- one event of a queue. */
static void shard_event(struct shard *shard, unsigned fabric, const struct stepgate_event *event,
                        uint64_t now)
{
    if (event->kind == STEPGATE_EVENT_REQUEST) {
        shard_request(shard, fabric, event, now);
        return;
    }
    if (event->kind == STEPGATE_EVENT_DEVICE) {
        bool lost = link_device(event);
        shard_device(shard, lost, now);
        return;
    }
    if (event->endpoint == NULL)
        return;
    struct link *link = event->endpoint->user;
    uint32_t number = (uint32_t)link->tag / 4;
    switch (link_event(link, event, now)) {
    case LINK_CAME_UP:
        if (link->tag % 4 == SHARD_MEMBER)
            shard_member_up(shard, number, now);
        else if (link->tag % 4 == SHARD_PEER)
            shard_peer_up(shard, number, now);
        else if (link->tag % 4 == SHARD_OBSERVER)
            shard_observer_up(shard, number, now);
        else
            shard->leader_up = true;
        break;
    case LINK_MESSAGE:
        if (link->tag % 4 == SHARD_MEMBER)
            shard_member_message(shard, number, &link->message, now);
        else if (link->tag % 4 == SHARD_OBSERVER)
            shard_observer_message(shard, number, &link->message, now);
        else
            shard_peer_message(shard, number, &link->message, now);
        break;
    case LINK_WENT_DOWN: shard_link_down(shard, link, now); break;
    default: break;
    }
}

/* shard_attend_link -- timers and outbox of one link; returns when it wants to be looked at again. */
static uint64_t shard_attend_link(struct shard *shard, struct link *link, uint64_t now)
{
    if (link_progress(link, now) == LINK_WENT_DOWN)
        shard_link_down(shard, link, now);
    if (link->state == LINK_UP && !link_idle(link))
        return now + CLOCK_MS / 5;
    return link_deadline(link);
}

/* shard_connect_leader -- any start order works: it is tried until join_timeout. */
static void shard_connect_leader(struct shard *shard, uint64_t now)
{
    if (shard->config.number == 0 || shard->leader_up || shard->done_sent || shard->ending ||
        now < shard->leader_retry_at || shard->leader.state == LINK_CONNECTING ||
        shard->leader.state == LINK_PROVING)
        return;
    link_close(&shard->leader);
    link_init(&shard->leader, shard->config.secret, shard->config.liveness_ms);
    struct hello hello = shard->hello;
    hello.purpose = HELLO_SHARD;
    hello.lane = (uint16_t)shard->config.lost;
    unsigned f = shard->leader_fabric;
    if (link_connect(&shard->leader, shard->config.fabrics[f].queue, shard->shared[f], shard->leader_address,
                     &hello, now) != 0)
        shard_link_down(shard, &shard->leader, now);
}

/* shard_attend -- all links; done when one is due, not in every round. */
static void shard_attend(struct shard *shard, uint64_t now)
{
    uint64_t next = CLOCK_NEVER;

    for (uint32_t w = 0; w < shard->config.workers; w++) {
        uint64_t one = shard_attend_link(shard, &shard->members[w].control, now);
        next = one < next ? one : next;
    }
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++) {
        uint64_t one = shard_attend_link(shard, &shard->observers[i].control, now);
        next = one < next ? one : next;
    }
    for (uint32_t s = 1; shard->config.number == 0 && s < shard->config.shards; s++) {
        uint64_t one = shard_attend_link(shard, &shard->peers[s].link, now);
        next = one < next ? one : next;
    }
    if (shard->config.number != 0) {
        shard_connect_leader(shard, now);
        uint64_t one = shard_attend_link(shard, &shard->leader, now);
        next = one < next ? one : next;
        if (!shard->leader_up && !shard->ending && shard->leader_retry_at > now &&
            shard->leader_retry_at < next)
            next = shard->leader_retry_at;
    }
    shard->attend_at = next;
}

/*
 * shard_poll -- what the queues hold. Requests come last: taking one in may delete the endpoint that the same rank had before, of which
 * the batch may still hold events.
 */
static int shard_poll(struct shard *shard, uint64_t now)
{
    struct stepgate_event events[SHARD_EVENTS];
    int busy = 0;

    for (unsigned f = 0; f < LANE_FABRICS_MAX && shard->config.fabrics[f].fabric != NULL; f++) {
        struct stepgate_queue *queue = shard->config.fabrics[f].queue;
        int n = queue->transport->queue_poll(queue, events, SHARD_EVENTS);
        shard->batch = (struct link_batch){events, n};
        for (int i = 0; i < n; i++)
            if (events[i].kind != STEPGATE_EVENT_REQUEST)
                shard_event(shard, f, &events[i], now);
        for (int i = 0; i < n; i++)
            if (events[i].kind == STEPGATE_EVENT_REQUEST)
                shard_event(shard, f, &events[i], now);
        shard->batch = (struct link_batch){NULL, 0};
        busy |= n > 0;
    }
    return busy;
}

/* shard_letters -- what lanes report. */
static int shard_letters(struct shard *shard, uint64_t now)
{
    struct letter letter;
    int busy = 0;

    while (mailbox_take(shard->config.mailbox, &letter)) {
        busy = 1;
        if (letter.kind == LETTER_DROPPED)
            shard_snapshot_dropped(shard, letter.region);
        if (letter.kind == LETTER_HELD)
            shard_rebuild_held(shard, letter.rank);
        if (letter.kind == LETTER_FORGOT)
            shard_absence_forgot(shard, letter.rank, now);
        if (letter.kind == LETTER_DEVICE) {
            error_restore(&letter.error);
            shard_device(shard, letter.end != 0, now);
        }
        if (letter.kind != LETTER_LOST)
            continue;
        shard_poll(shard, now); /* the worker may have said why on its control connection before it went */
        if (!shard->members[letter.rank].broken || letter.end == LINK_END_REASON)
            shard_member_down(shard, letter.rank, &letter.error, (enum link_end)letter.end, now);
    }
    return busy;
}

/* shard_flushed -- nobody is left who could still be listening to last words. */
static bool shard_flushed(const struct shard *shard, uint64_t now)
{
    if (shard_observers_listen(shard, now))
        return false;
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].control.state == LINK_UP || shard->members[w].broken)
            return false;
    if (shard->config.number != 0)
        return shard->leader_knows || shard->leader.state != LINK_UP;
    for (uint32_t s = 1; shard->failed && s < shard->config.shards; s++)
        if (shard->peers[s].link.state == LINK_UP && !shard->peers[s].knows)
            return false;
    for (uint32_t s = 1; s < shard->config.shards; s++)
        if (!link_idle(&shard->peers[s].link) && shard->peers[s].link.state == LINK_UP)
            return false;
    return true;
}

/*
 * shard_look_back -- a process that runs attends to its links when they are due: one that comes much later was stopped. Whoever has gone meanwhile may be expected back
 * for liveness (rebuild.c) before it is lost.
 */
static void shard_look_back(struct shard *shard, uint64_t now)
{
    uint64_t liveness = shard->config.liveness_ms > 0 ? (uint64_t)shard->config.liveness_ms * CLOCK_MS : 0;

    if (liveness == 0 || shard->attend_at == 0 || now < shard->attend_at || now - shard->attend_at < liveness)
        return;
    shard->stood_ms = (now - shard->attend_at) / CLOCK_MS;
    shard->stood_until = now + 2 * liveness;
}

/* shard_progress -- see shard.h. */
int shard_progress(struct shard *shard, uint64_t now)
{
    if (shard->finished)
        return 0;
    shard_look_back(shard, now);
    int busy = shard_poll(shard, now);
    busy |= shard_letters(shard, now);
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++) {
        if (shard->models[m] == NULL)
            continue;
        busy |= shard_place_over(shard->models[m], now);
        busy |= shard_checkpoint_progress(shard->models[m], now);
        if (shard->leads[m] != NULL)
            busy |= leader_checkpoint_progress(shard->models[m], now);
        if (shard->models[m]->phase == PHASE_INITIAL || shard->models[m]->again > 0)
            shard_place_retry(shard->models[m], now);
        if (shard->models[m]->phase != PHASE_DECLARED)
            shard_gate(shard->models[m], now);
        else if (busy)
            shard_gate_declared(shard->models[m], now);
    }
    shard_observers_sweep(shard);
    if (busy || now >= shard->attend_at)
        shard_attend(shard, now);
    shard_watch_gathering(shard, now);
    shard_rebuild_watch(shard, now);
    shard_absence_watch(shard, now);
    shard_watch_leaving(shard, now);
    shard_parting(shard, now);
    if (shard->ending && (now >= shard->end_deadline || (!shard->lingers && shard_flushed(shard, now))))
        shard->finished = true;
    return busy;
}

/* shard_deadline -- when shard_progress must be called. */
uint64_t shard_deadline(const struct shard *shard)
{
    uint64_t deadline = shard->attend_at;

    if (shard->finished)
        return CLOCK_NEVER;
    if (!shard->gathered && !shard->ending) {
        deadline = shard->join_report_at < deadline ? shard->join_report_at : deadline;
        uint64_t join = shard->join_deadline;
        if (join != CLOCK_NEVER && shard->config.number != 0)
            join += 300 * CLOCK_MS;
        deadline = join < deadline ? join : deadline;
        deadline = shard->late_at < deadline ? shard->late_at : deadline;
    }
    if (shard_rebuild_deadline(shard) < deadline)
        deadline = shard_rebuild_deadline(shard);
    if (shard_absence_deadline(shard) < deadline)
        deadline = shard_absence_deadline(shard);
    if (shard->ending && shard->end_deadline < deadline)
        deadline = shard->end_deadline;
    if (shard->parting && !shard->ending && shard->parting_until < deadline)
        deadline = shard->parting_until;
    if (shard->ending && shard->observers_until < deadline)
        deadline = shard->observers_until;
    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL) {
            const struct shard_model *model = shard->models[m];
            deadline = model->report_at < deadline ? model->report_at : deadline;
            deadline = model->late_at < deadline ? model->late_at : deadline;
        }
    return deadline;
}

/* shard_finished -- the job is over here. */
bool shard_finished(const struct shard *shard, int *status)
{
    if (shard->finished && status != NULL)
        *status = shard->failed ? error_restore(&shard->failure) : 0;
    return shard->finished;
}

/* shard_running -- models that are in training. */
static uint32_t shard_running(const struct shard *shard)
{
    uint32_t running = 0;

    for (uint32_t m = 0; m < shard->model_end; m++)
        running += shard->models[m] != NULL && shard->models[m]->phase == PHASE_RUNNING;
    return running;
}

/*
 * shard_can_rewind -- see shard.h. Who goes back itself may lose somebody once more before anything is placed again; and one that is new may have found a ps that had
 * not noticed yet that the job goes back.
 */
bool shard_can_rewind(const struct shard *shard)
{
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].left)
            return false;
    return shard->config.again || shard_running(shard) == 0 || shard_running(shard) == shard->model_end;
}

/* shard_has_trained -- see shard.h. */
bool shard_has_trained(const struct shard *shard)
{
    return shard->config.again || shard_running(shard) > 0;
}

/* shard_stats -- a copy of the counters. */
void shard_stats(const struct shard *shard, struct shard_stats *out)
{
    *out = shard->stats;
}

/* shard_parameters -- for tests. */
const void *shard_parameters(const struct shard *shard, uint32_t number, uint64_t *bytes, uint64_t *step)
{
    const struct shard_model *model = number < SLOT_MODELS_MAX ? shard->models[number] : NULL;

    if (model == NULL || model->phase != PHASE_RUNNING)
        return NULL;
    *bytes = model->plan->shard[shard->config.number].arena_bytes;
    *step = model->step;
    return model->board.parameters[model->step & 1];
}
