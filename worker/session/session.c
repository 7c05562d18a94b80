/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

#define SESSION_EVENTS 32
#define SESSION_RETRY_MS_MIN 10
#define SESSION_RETRY_MS_MAX 1000
#define SESSION_SUSPECT_MS 500

/* session_new -- a session that is not joined. */
int session_new(const struct session_config *config, uint64_t now, struct session **out)
{
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the session");
    session->observer = config->observer;
    session->rank = config->rank;
    session->workers = config->workers;
    session->shard_count = config->shards;
    session->secret = config->secret;
    session->chunk_bytes = config->chunk_bytes > 0 ? config->chunk_bytes : UINT64_C(1) << 20;
    session->chunk_bytes += -session->chunk_bytes % PLAN_LINE;
    session->liveness_ms = config->liveness_ms;
    session->reconnect = config->reconnect;
    session->again = config->again;
    session->join_timeout_ms = config->join_timeout_ms;
    session->join_started = now;
    session->join_report_at = now + 5000 * CLOCK_MS;
    session->join_deadline = clock_after(now, config->join_timeout_ms);
    session->log = config->log;
    session->stats.size = sizeof(session->stats);
    random_seed(&session->random, config->incarnation ^ (UINT64_C(0x9e3779b97f4a7c15) * (config->rank + 1u)));
    session->hello =
        (struct hello){.version = HELLO_VERSION,
                       .role = (uint8_t)(config->observer ? STEPGATE_ROLE_OBSERVER : STEPGATE_ROLE_WORKER),
                       .rank = config->rank,
                       .job = hello_job_hash(config->job),
                       .incarnation = config->incarnation,
                       .workers = config->workers,
                       .shards = config->shards};
    for (unsigned r = 0; r < SESSION_ROUTES_MAX && config->routes[r].queue != NULL; r++)
        session->routes[session->route_count++] = config->routes[r];
    session->shards = calloc(config->shards, sizeof(*session->shards));
    if (session->shards == NULL) {
        free(session);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u shards", config->shards);
    }
    for (uint32_t s = 0; s < config->shards; s++) {
        struct session_shard *shard = &session->shards[s];
        shard->session = session;
        shard->number = s;
        shard->suspect_until = CLOCK_NEVER;
        snprintf(shard->address, sizeof(shard->address), "%s", config->addresses[s]);
        shard->control.link.owner = shard;
        shard->control.link.tag = SESSION_CONTROL;
        link_init(&shard->control.link, &session->secret, session->liveness_ms);
    }
    *out = session;
    return 0;
}

/* session_delete -- models first: their remotes belong to the links. */
void session_delete(struct session **out)
{
    struct session *session = *out;

    if (session == NULL)
        return;
    for (size_t m = 0; m < session->model_count; m++)
        session_model_delete(&session->models[m]);
    session_hang_up(session);
    for (uint32_t s = 0; s < session->shard_count; s++) {
        free(session->shards[s].push);
        free(session->shards[s].pull);
    }
    free(session->models);
    free(session->shards);
    free(session);
    *out = NULL;
}

/* session_fail -- keeps the first failure. */
void session_fail(struct session *session)
{
    if (session->failed)
        return;
    error_save(&session->failure);
    session->failed = true;
    session->changes++;
}

/* session_error -- the first failure, as this thread's error. */
int session_error(const struct session *session)
{
    return session->failed ? error_restore(&session->failure) : 0;
}

/* session_failure -- the first failure. */
const struct stepgate_error *session_failure(const struct session *session)
{
    return session->failed ? &session->failure : NULL;
}

/* session_device -- the name of the transport that a shard is reached by. */
static const char *session_device(const struct session_shard *shard)
{
    const struct session_route *route = &shard->session->routes[shard->route];

    return shard->control.link.endpoint != NULL || shard->welcome ? route->queue->transport->name : "";
}

/* session_lost -- see inside.h. */
void session_lost(struct session_shard *shard, const struct stepgate_error *why)
{
    const struct session *session = shard->session;
    uint64_t step = session->model_count > 0 ? session->models[0]->step : UINT64_MAX;
    char when[40] = "";

    if (step != UINT64_MAX)
        snprintf(when, sizeof(when), " in step %llu", (unsigned long long)step);
    error_set(STEPGATE_ELOST, 0,
              shard->control.link.stopped_ms > 0
                  ? "do not stop a process for longer than liveness, or set that higher (off: for debuggers)"
                  : "look at that ps's output and host, then start the job again",
              "ps %u (%s) is lost%s: %s", shard->number, shard->address, when, why->text);
    error_peer(STEPGATE_ROLE_PS, (int)shard->number, shard->address, session_device(shard));
    error_step(step, why->waited_ms);
}

/* session_is_transient -- may another attempt to connect end better? */
static bool session_is_transient(const struct session *session, int code)
{
    if (session->again && (code == STEPGATE_ERANK || code == STEPGATE_ELOST || code == STEPGATE_EENDED))
        return true; /* it has not noticed yet that the job goes back */
    return code == STEPGATE_EREFUSED || code == STEPGATE_EUNREACHABLE || code == STEPGATE_EPEER ||
           code == STEPGATE_EBUSY;
}

/* session_back_off -- see inside.h. */
uint64_t session_back_off(struct session *session, unsigned attempts, int64_t most_ms, uint64_t now)
{
    int64_t backoff = SESSION_RETRY_MS_MIN << (attempts < 7 ? attempts : 7);

    if (backoff > most_ms)
        backoff = most_ms;
    backoff = backoff / 2 + (int64_t)random_below(&session->random, (uint64_t)backoff);
    return now + (uint64_t)backoff * CLOCK_MS;
}

/* session_suspect -- a lane's link went down: the control link is given a moment to say why. */
static void session_suspect(struct session_shard *shard, uint64_t now)
{
    if (shard->suspected)
        return;
    shard->suspected = true;
    shard->suspect_until = now + SESSION_SUSPECT_MS * CLOCK_MS;
}

/* session_link_down -- see inside.h. */
const struct link *session_link_down(const struct session *session, const struct session_shard *shard)
{
    for (uint32_t l = 0; l < session->push_lanes; l++)
        if (shard->push[l].link.state == LINK_DOWN)
            return &shard->push[l].link;
    for (uint32_t l = 0; l < session->pull_lanes; l++)
        if (shard->pull[l].link.state == LINK_DOWN)
            return &shard->pull[l].link;
    return NULL;
}

/* session_down -- a link went down: try again while joining, suspect, make it anew or fail afterwards. */
void session_down(struct session *session, struct session_shard *shard, struct session_connection *connection,
                  uint64_t now)
{
    struct stepgate_error why = connection->link.error;
    bool control = connection == &shard->control;

    if (session->left || shard->left)
        return;
    if (shard->broken) {
        session_rebuild_again(session, shard, connection, now);
        return;
    }
    if (!session->joined && session_is_transient(session, why.code) && !(control && shard->welcome)) {
        snprintf(shard->why, sizeof(shard->why), "%.*s", (int)sizeof(shard->why) - 1, why.text);
        connection->retry_at = session_back_off(session, connection->attempts++, SESSION_RETRY_MS_MAX, now);
        if (control && session->route_count > 1)
            shard->route = (shard->route + 1) % session->route_count;
        link_forget(&connection->link, &session->batch);
        link_close(&connection->link);
        link_init(&connection->link, &session->secret, control ? session->liveness_ms : 0);
        return;
    }
    if (!session->joined && !session_is_transient(session, why.code)) {
        error_set(why.code, why.os_errno, why.remedy, "ps %u (%s): %s", shard->number, shard->address,
                  why.text);
        error_peer(STEPGATE_ROLE_PS, (int)shard->number, shard->address, session_device(shard));
        session_fail(session);
        return;
    }
    if (!control) {
        session_suspect(shard, now);
        return;
    }
    if (session_rebuild_begin(session, shard, &connection->link, now))
        return;
    session_lost(shard, &why);
    session_fail(session);
}

/* session_watch_suspect -- the control link has had its moment. */
static void session_watch_suspect(struct session *session, struct session_shard *shard, uint64_t now)
{
    if (!shard->suspected || shard->left || now < shard->suspect_until || session->failed)
        return;
    const struct link *link = session_link_down(session, shard);
    if (link == NULL || session_rebuild_begin(session, shard, link, now))
        return;
    session_lost(shard, &link->error);
    session_fail(session);
}

/* session_welcome -- a shard says how it is made: the lanes' links can be connected now. */
static void session_welcome(struct session *session, struct session_shard *shard, const struct message *m)
{
    if (m->shard != shard->number || m->shards != session->shard_count || m->workers != session->workers ||
        m->lanes == 0 || m->lanes > PLAN_LANES_MAX || shard->welcome ||
        (session->lanes != 0 && (m->lanes != session->lanes || m->group_bytes != session->group_bytes ||
                                 m->cut_bytes != session->cut_bytes))) {
        error_set(
            STEPGATE_EMISMATCH, 0,
            "give every process the same ps_hosts in the same order, and every ps the same lanes and sizes",
            "the ps at %s says it is shard %u of %u with %u lanes, expected was shard %u of %u%s",
            shard->address, m->shard, m->shards, m->lanes, shard->number, session->shard_count,
            session->lanes != 0 ? " with the lanes and sizes of the other ps" : "");
        error_peer(STEPGATE_ROLE_PS, (int)shard->number, shard->address, "");
        session_fail(session);
        return;
    }
    session->lanes = m->lanes;
    session->push_lanes = session->observer ? 0 : m->lanes;
    session->pull_lanes = session->observer ? 1 : m->lanes;
    session->group_bytes = m->group_bytes;
    session->cut_bytes = m->cut_bytes;
    shard->push = calloc(m->lanes, sizeof(*shard->push));
    shard->pull = calloc(m->lanes, sizeof(*shard->pull));
    if (shard->push == NULL || shard->pull == NULL) {
        free(shard->push);
        free(shard->pull);
        shard->push = shard->pull = NULL;
        error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u lanes", m->lanes);
        session_fail(session);
        return;
    }
    for (uint32_t l = 0; l < m->lanes; l++) {
        shard->push[l].link.owner = shard->pull[l].link.owner = shard;
        shard->push[l].link.tag = SESSION_PUSH + 4 * (int)l;
        shard->pull[l].link.tag = SESSION_PULL + 4 * (int)l;
        link_init(&shard->push[l].link, &session->secret, 0);
        link_init(&shard->pull[l].link, &session->secret, 0);
    }
    shard->welcome = true;
}

/* session_message -- a message on a control or pull link. */
static void session_message(struct session *session, struct session_shard *shard, struct link *link,
                            uint64_t now)
{
    const struct message *m = &link->message;

    switch (m->kind) {
    case MESSAGE_WELCOME: session_welcome(session, shard, m); return;
    case MESSAGE_ABORT:
        link_acknowledge(link, now);
        shard->knows = true;
        error_restore(&m->error);
        session_fail(session);
        return;
    case MESSAGE_LEFT:
        link_acknowledge(link, now); /* else the ps waits for this worker to come back for it */
        shard->left = true;
        return;
    case MESSAGE_BARRIER_OVER:
        if (m->step > session->barrier_over)
            session->barrier_over = m->step;
        return;
    case MESSAGE_MODEL_ASK:
    case MESSAGE_MODEL_OK:
    case MESSAGE_PARAMETERS:
    case MESSAGE_RELEASED:
    case MESSAGE_AUX:
    case MESSAGE_TOKEN: session_model_message(session, shard, m, now); return;
    case MESSAGE_MODEL_PART:
    case MESSAGE_FOUND:
        if (!session_observe_message(session, shard, m, now))
            break;
        return;
    case MESSAGE_SNAPSHOT_READY:
    case MESSAGE_SNAPSHOT_DONE:
        if (!session_snapshot_message(session, shard, m))
            break;
        return;
    case MESSAGE_CHECKPOINT_DONE:
        if (shard->number != 0 || !session_checkpoint_message(session, m))
            break;
        return;
    case MESSAGE_COUNTS:
        if (!session_counts_message(session, m))
            break;
        return;
    default: break;
    }
    if (session->failed)
        return;
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
              "ps %u sent a %s, which is not for %s, or not now", shard->number, message_name(m->kind),
              session->observer ? "observers" : "workers");
    session_fail(session);
}

/* session_connection_of -- the connection that a link is part of. */
static struct session_connection *session_connection_of(struct session_shard *shard, const struct link *link)
{
    uint32_t lane = (uint32_t)link->tag / 4;

    switch (link->tag % 4) {
    case SESSION_PUSH: return &shard->push[lane];
    case SESSION_PULL: return &shard->pull[lane];
    default: return &shard->control;
    }
}

/* session_hear -- what a device says: without it there is no session. */
static void session_hear(struct session *session, const struct stepgate_event *event)
{
    struct stepgate_error said;

    if (link_device(event)) {
        session_fail(session);
        return;
    }
    error_save(&said);
    log_line(&session->log, LOG_WARN, "%s", said.text);
}

/* session_event -- one event of a queue. */
static void session_event(struct session *session, const struct stepgate_event *event, uint64_t now)
{
    if (event->kind == STEPGATE_EVENT_DEVICE) {
        session_hear(session, event);
        return;
    }
    if (event->endpoint == NULL)
        return;
    struct link *link = event->endpoint->user;
    struct session_shard *shard = link->owner;
    switch (link_event(link, event, now)) {
    case LINK_MESSAGE: session_message(session, shard, link, now); break;
    case LINK_NOTIFY: session_model_notify(session, shard, (uint32_t)link->tag / 4, event->value); break;
    case LINK_COMPLETION: session_model_completion(session, shard, event->context, event->status); break;
    case LINK_WENT_DOWN: session_down(session, shard, session_connection_of(shard, link), now); break;
    default: break;
    }
}

/* session_attend -- connects what is due and runs the link's timers. */
static void session_attend(struct session *session, struct session_shard *shard,
                           struct session_connection *connection, uint8_t purpose, uint32_t lane,
                           uint64_t now)
{
    struct link *link = &connection->link;

    if (session_rebuild_waits(shard, connection))
        return;
    if (link->state == LINK_NEW && (!session->leaving || shard->broken) && now >= connection->retry_at) {
        shard->attempts += purpose == HELLO_CONTROL;
        struct hello hello = session->hello;
        hello.purpose = purpose;
        hello.lane = (uint16_t)lane;
        const struct session_route *route = &session->routes[shard->route];
        connection->tried_at = now;
        if (link_connect(link, route->queue, route->domain, shard->address, &hello, now) != 0)
            session_down(session, shard, connection, now);
    } else if (link_progress(link, now) == LINK_WENT_DOWN) {
        session_down(session, shard, connection, now);
    }
}

/* session_is_up -- see inside.h. */
bool session_is_up(const struct session *session, const struct session_shard *shard)
{
    if (!shard->welcome || shard->control.link.state != LINK_UP)
        return false;
    for (uint32_t l = 0; l < session->push_lanes; l++)
        if (shard->push[l].link.state != LINK_UP)
            return false;
    for (uint32_t l = 0; l < session->pull_lanes; l++)
        if (shard->pull[l].link.state != LINK_UP)
            return false;
    return true;
}

/* session_watch_join -- reports who is missing, and gives up at the deadline. */
static void session_watch_join(struct session *session, uint64_t now)
{
    char missing[400];

    if (session->joined || session->failed)
        return;
    uint32_t up = session_missing(session, now, missing, sizeof(missing));
    if (up == session->shard_count) {
        session->joined = true;
        return;
    }
    if (now >= session->join_deadline) {
        error_set(STEPGATE_EJOIN, 0,
                  "start the missing ps, or check their addresses; join_timeout sets how long to wait",
                  "%u of %u ps connected after %llu ms, missing: %s", up, session->shard_count,
                  (unsigned long long)((now - session->join_started) / CLOCK_MS), missing);
        error_step(UINT64_MAX, (int64_t)((now - session->join_started) / CLOCK_MS));
        session_fail(session);
    } else if (now >= session->join_report_at) {
        log_line(&session->log, LOG_INFO, "%u of %u ps connected, missing: %s", up, session->shard_count,
                 missing);
        session->join_report_at = now + 5000 * CLOCK_MS;
    }
}

/*
 * session_tell -- tells every ps why this worker fails. A ps that has not noticed the cause yet would take the end of this worker, which is
 * its echo, for the cause.
 */
static void session_tell(struct session *session, uint64_t now)
{
    const struct message abort = {.kind = MESSAGE_ABORT, .error = session->failure};

    if (session->told)
        return;
    session->told = true;
    for (uint32_t s = 0; s < session->shard_count; s++) {
        struct session_shard *shard = &session->shards[s];
        if (!shard->left && shard->control.link.state == LINK_UP)
            link_send(&shard->control.link, &abort, now);
    }
    error_restore(&session->failure);
}

/* session_poll -- takes what the queues hold, and sends what is due. */
static int session_poll(struct session *session, uint64_t now)
{
    struct stepgate_event events[SESSION_EVENTS];
    int busy = 0;

    for (unsigned r = 0; r < session->route_count; r++) {
        struct stepgate_queue *queue = session->routes[r].queue;
        int n = queue->transport->queue_poll(queue, events, SESSION_EVENTS);
        session->batch = (struct link_batch){events, n};
        for (int i = 0; i < n; i++)
            session_event(session, &events[i], now);
        session->batch = (struct link_batch){NULL, 0};
        busy |= n > 0;
    }
    if (session->failed || session->left)
        return busy;
    for (uint32_t s = 0; s < session->shard_count && !session->failed; s++) {
        struct session_shard *shard = &session->shards[s];
        session_attend(session, shard, &shard->control, HELLO_CONTROL, 0, now);
        for (uint32_t l = 0; shard->welcome && l < session->push_lanes; l++)
            session_attend(session, shard, &shard->push[l], HELLO_PUSH, l, now);
        for (uint32_t l = 0; shard->welcome && l < session->pull_lanes; l++)
            session_attend(session, shard, &shard->pull[l], HELLO_PULL, l, now);
        session_watch_suspect(session, shard, now);
        session_rebuild_watch(session, shard, now);
    }
    session_watch_join(session, now);
    for (size_t m = 0; m < session->model_count && !session->failed; m++)
        busy |= session_model_progress(session->models[m], now);
    return busy;
}

/* session_progress -- see session.h. */
int session_progress(struct session *session, uint64_t now)
{
    int busy = session_poll(session, now);

    session->changes += busy != 0;
    if (session->failed)
        session_tell(session, now);
    return busy;
}

/* session_changes -- see session.h. */
uint64_t session_changes(const struct session *session)
{
    return session->changes;
}

/* session_earlier -- the earlier of two deadlines. */
static uint64_t session_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* session_connection_deadline -- of one connection. */
static uint64_t session_connection_deadline(const struct session_shard *shard,
                                            const struct session_connection *connection)
{
    if (session_rebuild_waits(shard, connection))
        return CLOCK_NEVER;
    return connection->link.state == LINK_NEW ? connection->retry_at : link_deadline(&connection->link);
}

/* session_deadline -- when session_progress must be called. */
uint64_t session_deadline(const struct session *session)
{
    uint64_t deadline = CLOCK_NEVER;

    if (session->failed || session->left)
        return CLOCK_NEVER;
    if (!session->joined)
        deadline =
            session_earlier(deadline, session_earlier(session->join_report_at, session->join_deadline));
    for (uint32_t s = 0; s < session->shard_count; s++) {
        const struct session_shard *shard = &session->shards[s];
        deadline = session_earlier(deadline, session_connection_deadline(shard, &shard->control));
        if (shard->suspected)
            deadline = session_earlier(deadline, shard->suspect_until);
        if (shard->broken)
            deadline = session_earlier(deadline, shard->rebuild_by);
        for (uint32_t l = 0; shard->welcome && l < session->push_lanes; l++)
            deadline = session_earlier(deadline, session_connection_deadline(shard, &shard->push[l]));
        for (uint32_t l = 0; shard->welcome && l < session->pull_lanes; l++)
            deadline = session_earlier(deadline, session_connection_deadline(shard, &shard->pull[l]));
    }
    for (size_t m = 0; m < session->model_count; m++)
        deadline = session_earlier(deadline, session->models[m]->fetch.alarm);
    return deadline;
}

/* session_join_try -- done when every link to every shard is up. */
int session_join_try(struct session *session, uint64_t now)
{
    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    return session->joined ? 0 : -STEPGATE_EAGAIN;
}

/* session_leave_one -- says good-bye to a shard once; true when it has answered. */
static bool session_leave_one(struct session_shard *shard, uint64_t now)
{
    const struct message leave = {.kind = MESSAGE_LEAVE};

    if (!shard->leave_sent && shard->control.link.state == LINK_UP) {
        shard->leave_sent = link_send(&shard->control.link, &leave, now) == 0;
        link_progress(&shard->control.link, now);
    }
    return shard->left;
}

/* session_end -- nothing is left to call after the good-bye; this thread's last error stays what it is. */
static void session_end(struct session *session)
{
    struct stepgate_error last;

    error_save(&last);
    if (session->observer)
        error_set(STEPGATE_EENDED, 0, "delete the job", "this observer has left the job");
    else
        error_set(STEPGATE_EENDED, 0, "delete the job", "worker %u has left the job", session->rank);
    session_fail(session);
    error_restore(&last);
}

/* session_sending -- is a contribution that was finished still on its way? What a ps hears behind the good-bye it does not look at. */
static bool session_sending(const struct session *session)
{
    for (size_t m = 0; m < session->model_count; m++)
        if (session->models[m]->finishing && !session->models[m]->sealed)
            return true;
    return false;
}

/* session_leave_try -- the leader comes last, so that it never sees a shard end before the workers have left. */
int session_leave_try(struct session *session, uint64_t now)
{
    bool others = true;

    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    if (session_sending(session))
        return -STEPGATE_EAGAIN;
    session->leaving = true;
    for (uint32_t s = 1; s < session->shard_count; s++)
        others = session_leave_one(&session->shards[s], now) && others;
    if (!others || !session_leave_one(&session->shards[0], now))
        return -STEPGATE_EAGAIN;
    session->left = true;
    session_end(session);
    return 0;
}

/* session_barrier_try -- one barrier after the other. */
int session_barrier_try(struct session *session, uint64_t now)
{
    int status = session_need_worker(session, "barrier");

    if (status != 0)
        return status;
    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    if (!session->barrier_sent) {
        struct message m = {.kind = MESSAGE_BARRIER, .step = session->barrier_sequence + 1};
        status = link_send(&session->shards[0].control.link, &m, now);
        if (status != 0)
            return status;
        session->barrier_sequence++;
        session->barrier_sent = true;
    }
    if (session->barrier_over < session->barrier_sequence)
        return -STEPGATE_EAGAIN;
    session->barrier_sent = false;
    return 0;
}

/* session_waits_for -- for time-out messages. */
void session_waits_for(const struct session *session, uint64_t now, char *text, size_t size)
{
    if (!session->joined)
        session_missing(session, now, text, size);
    else
        snprintf(text, size, "the leader, ps 0 (%s)", session->shards[0].address);
}

/* session_transport -- of all control links. */
const char *session_transport(const struct session *session)
{
    const char *name = "";

    for (uint32_t s = 0; s < session->shard_count; s++) {
        const char *one = session_device(&session->shards[s]);
        if (name[0] != 0 && strcmp(name, one) != 0)
            return "shm+verbs";
        name = one;
    }
    return name;
}

/* session_capabilities -- what the connection to the leader carries, and how it travels. */
int session_capabilities(const struct session *session, struct stepgate_capabilities *out)
{
    struct stepgate_endpoint *endpoint = session->shards[0].control.link.endpoint;

    return endpoint != NULL ? endpoint->transport->endpoint_capabilities(endpoint, out)
                            : error_set(STEPGATE_EPEER, 0, "start the job again",
                                        "ps 0 (%s) is not connected", session->shards[0].address);
}

/* session_stats -- a copy of the counters. */
void session_stats(const struct session *session, struct stepgate_job_stats *stats)
{
    *stats = session->stats;
}

/* session_lanes -- per shard; 0 before the join. */
uint32_t session_lanes(const struct session *session)
{
    return session->lanes;
}
