/* SPDX-License-Identifier: BSD-3-Clause */
/* observer -- processes that read and are not counted: they come while the job runs, learn its models, and go. Nothing waits for them. */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define OBSERVER_LAST_WORDS_MS 500 /* how long the end of a ps waits for observers to have heard of it */

/* observer_of -- the observer of an incarnation; NULL: not here. */
static struct shard_observer *observer_of(struct shard *shard, uint64_t incarnation)
{
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        if (shard->observers[i].up && shard->observers[i].incarnation == incarnation)
            return &shard->observers[i];
    return NULL;
}

/* shard_observer_place -- where a free place is; NULL: there are enough. */
static struct shard_observer *shard_observer_place(struct shard *shard, uint64_t now)
{
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        if (!shard->observers[i].up && !shard_unproven(&shard->observers[i].control, now))
            return &shard->observers[i];
    return NULL;
}

/* observer_close_view -- lane 0 ends its pull connection, and what is still to be granted over it. */
static void observer_close_view(struct shard *shard, const struct shard_observer *observer)
{
    const struct letter close = {.kind = LETTER_CLOSE,
                                 .rank = shard->config.workers + (uint32_t)(observer - shard->observers)};

    mailbox_put(lane_mailbox(shard->config.lane_list[0]), &close);
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* shard_accept_observer -- a control connection. Who had its place before may not have closed its own yet. */
int shard_accept_observer(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                          const struct stepgate_event *event, const struct hello *theirs, uint64_t now)
{
    struct shard_observer *observer = shard_observer_place(shard, now);

    if (observer == NULL || !shard->gathered)
        return STEPGATE_EBUSY; /* it comes again */
    if (observer_of(shard, theirs->incarnation) != NULL)
        return STEPGATE_ERANK;
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].control.theirs.incarnation == theirs->incarnation)
            return STEPGATE_ERANK; /* what is meant for a reader goes by its incarnation */
    link_close(&observer->control);
    observer_close_view(shard, observer);
    link_init(&observer->control, shard->config.secret, shard->config.liveness_ms);
    observer->closing = false;
    memset(observer->watches, 0, sizeof(observer->watches));
    observer->fabric = fabric;
    observer->incarnation = theirs->incarnation;
    struct hello hello = shard->hello;
    hello.purpose = HELLO_CONTROL;
    if (link_accept(&observer->control, request, shard->config.fabrics[fabric].queue, shard->shared[fabric],
                    &hello, event->data, event->length, now) != 0)
        link_close(&observer->control);
    return 0;
}

/* shard_accept_view -- its pull connection, to lane 0: every region of the shared domain can be read over it. */
int shard_accept_view(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                      const struct stepgate_event *event, const struct hello *theirs)
{
    struct shard_observer *observer = observer_of(shard, theirs->incarnation);

    if (observer == NULL || observer->fabric != fabric || theirs->lane != 0)
        return STEPGATE_EBUSY;
    struct letter letter = {.kind = LETTER_ACCEPT,
                            .rank = shard->config.workers + (uint32_t)(observer - shard->observers),
                            .fabric = fabric,
                            .purpose = HELLO_PULL,
                            .request = request,
                            .domain = shard->shared[fabric]};
    memcpy(letter.hello, event->data, sizeof(letter.hello));
    if (mailbox_put(lane_mailbox(shard->config.lane_list[0]), &letter) != 0)
        return STEPGATE_ENOMEM;
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
    return 0;
}

/* observer_send -- one that takes nothing for so long is not kept. */
static int observer_send(struct shard *shard, struct shard_observer *observer, const struct message *m,
                         uint64_t now)
{
    int status = shard_post(shard, &observer->control, m, now);

    if (status == -STEPGATE_ENOMEM)
        shard_observer_down(shard, (uint32_t)(observer - shard->observers));
    return status;
}

/* shard_observer_up -- it has proved itself. */
void shard_observer_up(struct shard *shard, uint32_t number, uint64_t now)
{
    struct message welcome;

    shard_welcome(shard, &welcome);
    shard->observers[number].up = true;
    observer_send(shard, &shard->observers[number], &welcome, now);
}

/* observer_gone -- what was made for it goes, too. */
static void observer_gone(struct shard *shard, struct shard_observer *observer)
{
    if (!observer->up)
        return;
    observer->up = false;
    shard_snapshots_drop(shard, observer->incarnation);
}

/* shard_observer_down -- it is lost, or is no longer listened to. */
void shard_observer_down(struct shard *shard, uint32_t number)
{
    struct shard_observer *observer = &shard->observers[number];

    observer->closing = true;
    observer_gone(shard, observer);
    observer_close_view(shard, observer);
}

/* shard_observers_sweep -- see inside.h. */
void shard_observers_sweep(struct shard *shard)
{
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        if (shard->observers[i].closing) {
            shard->observers[i].closing = false;
            link_close(&shard->observers[i].control);
        }
}

/* shard_observers_tell -- see inside.h. */
void shard_observers_tell(struct shard *shard, const struct stepgate_error *why, uint64_t now)
{
    const struct message abort = {.kind = MESSAGE_ABORT, .error = *why};

    shard->observers_until = now + OBSERVER_LAST_WORDS_MS * CLOCK_MS;
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        if (shard->observers[i].up)
            observer_send(shard, &shard->observers[i], &abort, now);
}

/* shard_observers_listen -- one that has heard says ABORT as well, or goes. */
bool shard_observers_listen(const struct shard *shard, uint64_t now)
{
    for (uint32_t i = 0; now < shard->observers_until && i < SHARD_OBSERVERS_MAX; i++)
        if (shard->observers[i].up && shard->observers[i].control.state == LINK_UP)
            return true;
    return false;
}

/* observer_trained -- is the model in training, on every shard? */
static bool observer_trained(const struct shard *shard, uint32_t number)
{
    const struct shard_model *model = shard->models[number];
    const struct leader_model *lead = shard->leads[number];

    if (model == NULL || lead == NULL || model->phase != PHASE_RUNNING)
        return false;
    for (uint32_t s = 0; s < shard->config.shards; s++)
        if (!lead->applied_initial[s])
            return false;
    return true;
}

/* observer_model -- sends the description of a model of that name, if it is in training. */
static void observer_model(struct shard *shard, struct shard_observer *observer, const char *name,
                           uint64_t now)
{
    struct message found = {.kind = MESSAGE_FOUND};
    struct shard_model *model = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int status = 0;

    for (uint32_t m = 0; m < shard->model_end; m++)
        if (observer_trained(shard, m) && strcmp(shard->models[m]->model->name, name) == 0)
            model = shard->models[m];
    if (model != NULL && model_pack(model->model, &bytes, &size) != 0)
        model = NULL; /* it comes again */
    for (size_t at = 0; status == 0 && at < size; at += MESSAGE_PART_BYTES) {
        struct message part = {
            .kind = MESSAGE_MODEL_PART, .model = model->number, .offset = at, .total = size};
        part.length = (uint32_t)(size - at < MESSAGE_PART_BYTES ? size - at : MESSAGE_PART_BYTES);
        memcpy(part.part, bytes + at, part.length);
        status = observer_send(shard, observer, &part, now);
    }
    free(bytes);
    if (status != 0)
        return; /* it is gone */
    if (model != NULL) {
        found.model = model->number;
        found.total = size;
    }
    observer_send(shard, observer, &found, now);
}

/* observer_watch -- grants it the parameters of a model, on its pull connection, once; false: it cannot ask for that. */
static bool observer_watch(struct shard *shard, uint32_t number, uint32_t model_number)
{
    struct shard_model *model = shard->models[model_number];

    if (model == NULL || model->phase != PHASE_RUNNING || shard->observers[number].watches[model_number])
        return false;
    shard->observers[number].watches[model_number] = true;
    struct letter grant = {
        .kind = LETTER_GRANT,
        .message = MESSAGE_PARAMETERS,
        .rank = shard->config.workers + number,
        .model = model_number,
        .region = model->parameters[shard->observers[number].fabric],
        .offsets = {model->parity_offset[0], model->parity_offset[1], model->words_offset}};
    bool put = mailbox_put(lane_mailbox(shard->config.lane_list[0]), &grant) == 0;
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
    return put;
}

/* observer_ask -- what it asks one shard, or the leader alone; false: that is not for this one. */
static bool observer_ask(struct shard *shard, uint32_t number, const struct message *m, uint64_t now)
{
    struct shard_observer *observer = &shard->observers[number];
    struct message answer;

    if (m->kind == MESSAGE_WATCH)
        return observer_watch(shard, number, m->model);
    if (shard->config.number != 0)
        return false;
    switch (m->kind) {
    case MESSAGE_FIND: observer_model(shard, observer, m->key, now); return true;
    case MESSAGE_SNAPSHOT: return shard_snapshot_ask(shard, observer->incarnation, m, now) == 0;
    case MESSAGE_SNAPSHOT_DONE: shard_snapshot_done(shard, observer->incarnation, m); return true;
    case MESSAGE_COUNTS_ASK:
        leader_counts(shard, m, &answer);
        observer_send(shard, observer, &answer, now);
        return true;
    default: return false;
    }
}

/* shard_observer_message -- what an observer says. Whatever it does, the job goes on. */
void shard_observer_message(struct shard *shard, uint32_t number, const struct message *m, uint64_t now)
{
    struct shard_observer *observer = &shard->observers[number];
    const struct message left = {.kind = MESSAGE_LEFT};

    if (observer->up && m->kind == MESSAGE_LEAVE) { /* it closes its connections when it has the answer */
        observer_send(shard, observer, &left, now);
        link_progress(&observer->control, now);
        observer_gone(shard, observer);
    } else if (!observer->up || m->kind == MESSAGE_ABORT || !observer_ask(shard, number, m, now)) {
        shard_observer_down(shard, number);
    }
}
