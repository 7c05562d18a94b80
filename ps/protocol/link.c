/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/link.h"

#include <stdio.h>
#include <string.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"

#define LINK_PROOF_NS (UINT64_C(10000) * CLOCK_MS) /* a peer that does not prove itself is let go */
#define LINK_TELL_EVERY                                                                                      \
    64u /* messages: what the other side keeps is bounded by it where nothing goes the other way */

/* link_init -- a link that is not connected. */
void link_init(struct link *link, const struct proof_secret *secret, int64_t liveness_ms)
{
    void *owner = link->owner;
    int tag = link->tag;

    memset(link, 0, sizeof(*link));
    link->owner = owner;
    link->tag = tag;
    link->secret = secret;
    link->liveness_ns = liveness_ms > 0 ? (uint64_t)liveness_ms * CLOCK_MS : 0;
    link->error.size = sizeof(link->error);
}

/* link_begin -- what both sides do: a hello with a fresh nonce. */
static void link_begin(struct link *link, const struct hello *hello, bool active, uint64_t now)
{
    link->mine = *hello;
    link->mine.version = HELLO_VERSION;
    proof_random(link->mine.nonce, sizeof(link->mine.nonce));
    hello_pack(&link->mine, link->mine_bytes);
    link->active = active;
    link->state = LINK_CONNECTING;
    link->last_heard = now;
    link->last_sent = now;
}

/* link_connect -- the active side. */
int link_connect(struct link *link, struct stepgate_queue *queue, struct stepgate_domain *domain,
                 const char *address, const struct hello *hello, uint64_t now)
{
    link_begin(link, hello, true, now);
    int status = queue->transport->endpoint_connect(queue, domain, address, link->mine_bytes,
                                                    STEPGATE_HELLO_BYTES, link, &link->endpoint);
    if (status != 0) {
        link->endpoint = NULL;
        link_fail(link);
    }
    return status;
}

/* link_accept -- the passive side. */
int link_accept(struct link *link, struct stepgate_request *request, struct stepgate_queue *queue,
                struct stepgate_domain *domain, const struct hello *hello, const void *theirs,
                uint32_t theirs_length, uint64_t now)
{
    link_begin(link, hello, false, now);
    int status = hello_unpack(theirs, theirs_length, &link->theirs);
    if (status != 0) {
        uint8_t refusal[STEPGATE_HELLO_BYTES];
        hello_refusal(hello->job, status, refusal);
        queue->transport->request_refuse(request, refusal, sizeof(refusal));
        link_fail(link);
        return status;
    }
    memcpy(link->theirs_bytes, theirs, STEPGATE_HELLO_BYTES);
    status = queue->transport->endpoint_accept(request, queue, domain, link->mine_bytes, STEPGATE_HELLO_BYTES,
                                               link, &link->endpoint);
    if (status != 0) {
        link->endpoint = NULL;
        link_fail(link);
    }
    return status;
}

/* link_fail -- down, for the reason that is this thread's last error. */
void link_fail(struct link *link)
{
    if (link->state == LINK_DOWN)
        return;
    error_save(&link->error);
    link->state = LINK_DOWN;
}

/* link_flush -- hands what waits to the endpoint, as far as it takes it. Before the link is up only what opens it goes. */
static int link_flush(struct link *link, uint64_t now)
{
    const uint8_t *data = link->opening;
    uint16_t length = link->opening_length;
    bool opening = length > 0;

    while (opening || (link->state == LINK_UP && (data = outbox_next(&link->outbox, &length)) != NULL)) {
        int status = link->endpoint->transport->endpoint_send(link->endpoint, data, length);
        if (status == -STEPGATE_EAGAIN)
            return 0;
        if (status != 0)
            return status;
        link->last_sent = now;
        if (!opening)
            outbox_sent(&link->outbox);
        link->opening_length = 0;
        opening = false;
    }
    return 0;
}

/* link_post -- sends or queues a packed message, in order. */
static int link_post(struct link *link, const struct message *message, uint64_t now)
{
    uint8_t data[MESSAGE_BYTES_MAX];
    int length = message_pack(message, data);

    if (length < 0)
        return length;
    bool first = outbox_idle(&link->outbox);
    int status = outbox_put(&link->outbox, data, (uint16_t)length);
    return status == 0 && first && link->state == LINK_UP ? link_flush(link, now) : status;
}

/* link_send -- queues a message. */
int link_send(struct link *link, const struct message *message, uint64_t now)
{
    if (link->state != LINK_UP && !link->held)
        return error_set(STEPGATE_EPEER, 0, "", "a message for a peer that is not connected");
    int status = link_post(link, message, now);
    /* What the endpoint of a broken connection does not take is kept: its DISCONNECTED event says why, and it is sent when the link is up again. */
    return status == -STEPGATE_EPEER && outbox_counts(message->kind) ? 0 : status;
}

/* link_beat -- a sign of life, with the number of messages that have come. */
static int link_beat(struct link *link, uint64_t now)
{
    struct message beat;

    message_begin(&beat, MESSAGE_HEARTBEAT);
    beat.sequence = link->told = link->received;
    return link_post(link, &beat, now);
}

/* link_acknowledge -- see link.h. That it failed is what the end of the connection will say. */
void link_acknowledge(struct link *link, uint64_t now)
{
    if (link->state == LINK_UP)
        (void)link_beat(link, now);
}

/* link_open -- sends what comes before everything that is kept. */
static int link_open(struct link *link, const struct message *message, uint64_t now)
{
    uint8_t data[MESSAGE_BYTES_MAX];
    int length = message_pack(message, data);

    if (length < 0 || length > (int)sizeof(link->opening))
        return error_set(STEPGATE_EINVAL, 0, "", "a %s that cannot open a connection",
                         message_name(message->kind));
    memcpy(link->opening, data, (size_t)length);
    link->opening_length = (uint16_t)length;
    return link_flush(link, now);
}

/* link_prove -- sends this side's proof, and how many messages it has received. */
static int link_prove(struct link *link, uint64_t now)
{
    struct message proof = {.kind = MESSAGE_PROOF, .sequence = link->received};

    proof_make(link->secret, link->mine_bytes, link->theirs_bytes, proof.part);
    link->told = link->received;
    return link_open(link, &proof, now);
}

/* link_same -- a held link is for the process that it was up with. */
static int link_same(const struct link *link)
{
    if (!link->held || link->peer == link->theirs.incarnation)
        return 0;
    error_set(STEPGATE_ELOST, 0, "look at its output and host, then start the job again",
              "it is gone, and another process has come in its place");
    error_peer(link->theirs.role, (int)link->theirs.rank, "", "");
    return -STEPGATE_ELOST;
}

/* link_connected -- the endpoint is there: the active side checks whom it met and proves itself. */
static int link_connected(struct link *link, const struct stepgate_event *event, uint64_t now)
{
    link->state = LINK_PROVING;
    if (!link->active)
        return 0;
    int status = hello_unpack(event->data, event->length, &link->theirs);
    if (status == 0)
        status = hello_check(&link->mine, &link->theirs);
    if (status == 0)
        status = link_same(link);
    if (status != 0)
        return status;
    memcpy(link->theirs_bytes, event->data, STEPGATE_HELLO_BYTES);
    status = link_prove(link, now);
    return status == -STEPGATE_EPEER ? 0 : status; /* broken again: its DISCONNECTED event says why */
}

/* link_refused_lost -- the job behind the address has failed, for want of somebody. */
static void link_refused_lost(const struct stepgate_event *event)
{
    static const char *const roles[] = {"somebody", "worker", "ps"};
    char whom[32] = "somebody";
    struct hello theirs;

    if (hello_unpack(event->data, event->length, &theirs) == 0 && theirs.lane >= STEPGATE_ROLE_WORKER &&
        theirs.lane <= STEPGATE_ROLE_PS)
        snprintf(whom, sizeof(whom), "%s %u", roles[theirs.lane], theirs.rank);
    error_set(STEPGATE_ELOST, 0, "look at its output and host, then start the job again",
              "refused: the job has failed: %s is lost", whom);
    if (strcmp(whom, "somebody") != 0)
        error_peer(theirs.lane, (int)theirs.rank, "", "");
}

/* link_disconnected -- why: a refusal's reason is worth more than the transport's status. */
static void link_disconnected(struct link *link, const struct stepgate_event *event)
{
    int reason =
        link->active && link->state == LINK_CONNECTING ? hello_reason(event->data, event->length) : 0;

    if (reason == 0 && (event->status == -STEPGATE_EPEER || event->status == 0))
        link->end = event->value == STEPGATE_END_DIED     ? LINK_END_REASON
                    : event->value == STEPGATE_END_CLOSED ? LINK_END_CLOSED
                                                          : LINK_END_BROKEN;
    bool told = event->why != NULL && event->why[0] != 0;
    switch (reason) {
    case 0:
        if ((event->status == -STEPGATE_EPEER || event->status == 0) && link->stopped_ms > 0)
            error_set(
                STEPGATE_EPEER, 0, "",
                "the connection was closed by the other side; this process had been stopped for %llu ms",
                (unsigned long long)link->stopped_ms);
        else if (event->status == 0 ||
                 (event->status == -STEPGATE_EPEER && (link->end != LINK_END_BROKEN || !told)))
            error_set(STEPGATE_EPEER, 0, "", "the connection was closed by the other side");
        else
            error_set(-event->status, 0, event->remedy != NULL ? event->remedy : "", "%s",
                      told ? event->why : stepgate_strerror(event->status));
        break;
    case STEPGATE_EWRONGJOB:
        error_set(reason, 0, "give every process the same job name, or another port",
                  "refused: the peer belongs to another job");
        break;
    case STEPGATE_EVERSION:
        error_set(reason, 0, "run the same version of stepgate everywhere",
                  "refused: the peer speaks another protocol version than %d", HELLO_VERSION);
        break;
    case STEPGATE_ERANK:
        error_set(reason, 0,
                  link->mine.role == STEPGATE_ROLE_PS
                      ? "give every ps its own task_index, its place in ps_hosts"
                      : "give every worker its own task_index, below the number of workers",
                  "refused: rank %u is taken, or not one of this job", link->mine.rank);
        break;
    case STEPGATE_EMISMATCH:
        error_set(reason, 0, "give every process the same ps and worker lists",
                  "refused: the peer counts other workers or ps than %u and %u", link->mine.workers,
                  link->mine.shards);
        break;
    case STEPGATE_ELOST: link_refused_lost(event); break;
    default: error_set(reason, 0, "", "refused: %s", stepgate_strerror(reason));
    }
    link_fail(link);
}

/* link_disprove -- tells the active side that its proof is wrong, and no more: silence would look like a ps that is not there. */
static void link_disprove(struct link *link, uint64_t now)
{
    const struct message abort = {.kind = MESSAGE_ABORT, .error = {.code = STEPGATE_EAUTH, .rank = -1}};

    (void)link_open(link, &abort, now); /* that it failed already is worth more than this failing */
}

/* link_resume -- the peer has proved itself, and says how much it has: what it lacks of all that was said is sent again. */
static int link_resume(struct link *link, uint64_t now)
{
    int status = outbox_again(&link->outbox, link->message.sequence);

    return status != 0 || link->active ? status : link_prove(link, now);
}

/* link_checked -- the peer's first message must be the right proof. Of one that has proved nothing only `wrong secret` is believed. */
static int link_checked(struct link *link, uint64_t now)
{
    const struct message *m = &link->message;

    if (link->active && m->kind == MESSAGE_ABORT && m->error.code == STEPGATE_EAUTH &&
        link->secret->bytes == 0)
        return error_set(STEPGATE_EAUTH, 0, "give it --secret-file, as every process of the job",
                         "the peer asks for the secret of the job, and this process has none");
    if (link->active && m->kind == MESSAGE_ABORT && m->error.code == STEPGATE_EAUTH)
        return error_set(STEPGATE_EAUTH, 0, "give every process of the job the same secret file",
                         "the peer knows another secret than this process");
    if (link->state != LINK_PROVING || m->kind != MESSAGE_PROOF)
        return error_set(STEPGATE_EPROTOCOL, 0, "", "%s before the %s", message_name(m->kind),
                         link->state == LINK_PROVING ? "proof" : "connection");
    int status = proof_check(link->secret, link->theirs_bytes, link->mine_bytes, m->part);
    if (status == 0)
        return link_resume(link, now);
    if (!link->active) {
        struct stepgate_error error;
        error_save(&error);
        link_disprove(link, now);
        status = error_restore(&error);
    }
    return status;
}

/* link_count -- one more message has come. The other side keeps it until it is told so. */
static void link_count(struct link *link, uint64_t now)
{
    link->received += outbox_counts(link->message.kind);
    if (link->received - link->told >= LINK_TELL_EVERY)
        link_acknowledge(link, now);
}

/* link_message -- a message arrived: proofs and heartbeats are the link's own. */
static int link_message(struct link *link, const struct stepgate_event *event, uint64_t now)
{
    int status = message_unpack(event->data, event->length, &link->message);

    if (status != 0)
        goto fail;
    if (link->state != LINK_UP) {
        if (link_checked(link, now) != 0)
            goto fail;
        link->state = LINK_UP;
        link->came_up = true;
        link->held = false;
        link->peer = link->theirs.incarnation;
        return LINK_CAME_UP;
    }
    if (link->message.kind == MESSAGE_PROOF) {
        error_set(STEPGATE_EPROTOCOL, 0, "", "a second proof");
        goto fail;
    }
    if (link->message.kind == MESSAGE_HEARTBEAT) {
        if (outbox_acknowledge(&link->outbox, link->message.sequence) != 0)
            goto fail;
        return LINK_NOTHING;
    }
    link_count(link, now);
    return LINK_MESSAGE;

fail:
    link_fail(link);
    return LINK_WENT_DOWN;
}

/* link_event -- takes an event of its endpoint. */
int link_event(struct link *link, const struct stepgate_event *event, uint64_t now)
{
    if (link->state == LINK_DOWN || link->state == LINK_NEW)
        return LINK_NOTHING;
    link->last_heard = now;
    switch (event->kind) {
    case STEPGATE_EVENT_CONNECTED:
        if (link_connected(link, event, now) != 0) {
            link_fail(link);
            return LINK_WENT_DOWN;
        }
        return LINK_NOTHING;
    case STEPGATE_EVENT_DISCONNECTED: link_disconnected(link, event); return LINK_WENT_DOWN;
    case STEPGATE_EVENT_MESSAGE: return link_message(link, event, now);
    case STEPGATE_EVENT_NOTIFY:
        if (link->state == LINK_UP)
            return LINK_NOTIFY;
        error_set(STEPGATE_EPROTOCOL, 0, "", "a notify before the proof");
        link_fail(link);
        return LINK_WENT_DOWN;
    case STEPGATE_EVENT_COMPLETION: return LINK_COMPLETION;
    default: return LINK_NOTHING;
    }
}

/* link_device -- see link.h. */
bool link_device(const struct stepgate_event *event)
{
    if (event->why != NULL)
        (void)error_set(STEPGATE_EDEVICE, 0, event->remedy, "%s", event->why);
    return event->status != 0;
}

/*
 * link_forgive -- a process that runs looks at its links several times within liveness. One that has not was stopped, and has not heard
 * what came meanwhile: the peer is given that time again. If the peer has given this process up, its end of the connection says so.
 */
static void link_forgive(struct link *link, uint64_t now)
{
    uint64_t gap = link->last_looked != 0 && now > link->last_looked ? now - link->last_looked : 0;

    link->last_looked = now;
    if (link->state != LINK_UP || link->liveness_ns == 0 || gap <= link->liveness_ns / 2)
        return;
    link->stopped_ms = gap / CLOCK_MS;
    link->last_heard = link->last_heard + gap < now ? link->last_heard + gap : now;
}

/* link_silent -- the peer is given up; what the device has counted meanwhile tells whether it is the network's fault. */
static int link_silent(const struct link *link, uint64_t now)
{
    unsigned long long waited = (now - link->last_heard) / CLOCK_MS;
    char trouble[384] = "";

    link->endpoint->transport->endpoint_trouble(link->endpoint, trouble, sizeof(trouble));
    int status =
        error_set(STEPGATE_EPEER, 0, "look at that host and process; raise liveness if it was only stopped",
                  "nothing was heard from the peer for %llu ms%s", waited, trouble);
    error_step(UINT64_MAX, (int64_t)waited);
    return status;
}

/* link_progress -- outbox, heartbeats, liveness. */
int link_progress(struct link *link, uint64_t now)
{
    link_forgive(link, now);
    if (link->state == LINK_PROVING && now > link->last_heard && now - link->last_heard > LINK_PROOF_NS) {
        error_set(STEPGATE_EUNREACHABLE, 0, "", "the peer did not prove itself within %d s", 10);
        link_fail(link);
        return LINK_WENT_DOWN;
    }
    if (link->state != LINK_UP && link->state != LINK_PROVING)
        return LINK_NOTHING;
    int status = link_flush(link, now);
    if (status == 0 && link->liveness_ns != 0 && link->state == LINK_UP) {
        if (now > link->last_heard && now - link->last_heard > link->liveness_ns) {
            status = link_silent(link, now);
        } else if (now > link->last_sent && now - link->last_sent >= link->liveness_ns / 4 &&
                   link_idle(link)) {
            status = link_beat(link, now);
        }
    }
    if (status == 0)
        return LINK_NOTHING;
    if (status == -STEPGATE_EPEER && (link->liveness_ns == 0 || now - link->last_heard <= link->liveness_ns))
        return LINK_NOTHING; /* posting to a broken endpoint: its DISCONNECTED event says why */
    link_fail(link);
    return LINK_WENT_DOWN;
}

/* link_idle -- nothing waits. */
bool link_idle(const struct link *link)
{
    return link->opening_length == 0 && outbox_idle(&link->outbox);
}

/* link_deadline -- when link_progress must be called. */
uint64_t link_deadline(const struct link *link)
{
    if (link->state == LINK_PROVING)
        return link->last_heard + LINK_PROOF_NS + 1;
    if (link->state != LINK_UP || link->liveness_ns == 0)
        return CLOCK_NEVER;
    uint64_t beat = link->last_sent + link->liveness_ns / 4;
    uint64_t lost = link->last_heard + link->liveness_ns + 1;
    return beat < lost ? beat : lost;
}

/* link_forget -- an event without endpoint is nobody's. */
void link_forget(const struct link *link, struct link_batch *batch)
{
    for (int i = 0; link->endpoint != NULL && i < batch->count; i++)
        if (batch->events[i].endpoint == link->endpoint)
            batch->events[i] = (struct stepgate_event){.kind = STEPGATE_EVENT_NONE};
}

/* link_close -- deletes the endpoint, frees the outbox. */
void link_close(struct link *link)
{
    if (link->endpoint != NULL)
        link->endpoint->transport->endpoint_delete(&link->endpoint);
    outbox_clear(&link->outbox);
    link->opening_length = 0;
    link->came_up = link->held = false;
    link->received = link->told = 0;
    link->state = LINK_DOWN;
}

/* link_hold -- see link.h. */
void link_hold(struct link *link)
{
    if (link->endpoint != NULL)
        link->endpoint->transport->endpoint_delete(&link->endpoint);
    if (link->came_up)
        outbox_hold(&link->outbox);
    else
        outbox_clear(&link->outbox);
    link->held = link->came_up;
    link->opening_length = 0;
    link->last_looked = link->stopped_ms = 0;
    link->end = LINK_END_REASON;
    link->state = LINK_NEW;
}

/* link_kept -- see link.h. */
bool link_kept(const struct link *link)
{
    return outbox_kept(&link->outbox);
}
