/* SPDX-License-Identifier: BSD-3-Clause */
/* observer -- processes that read and are not counted: they come while the job runs, learn its models, and go. Nothing waits for them. */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

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

/* shard_accept_observer -- a control connection. */
int shard_accept_observer(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                          const struct stepgate_event *event, const struct hello *theirs, uint64_t now)
{
    struct shard_observer *observer = shard_observer_place(shard, now);

    if (observer == NULL || !shard->gathered)
        return STEPGATE_EBUSY; /* it comes again */
    link_close(&observer->control);
    link_init(&observer->control, shard->config.secret, shard->config.liveness_ms);
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

/* shard_observer_up -- it has proved itself. */
void shard_observer_up(struct shard *shard, uint32_t number, uint64_t now)
{
    struct message welcome;

    shard_welcome(shard, &welcome);
    shard->observers[number].up = true;
    shard_post(shard, &shard->observers[number].control, &welcome, now);
}

/* shard_observer_down -- it is gone: what was made for it goes, too. */
void shard_observer_down(struct shard *shard, uint32_t number)
{
    struct shard_observer *observer = &shard->observers[number];

    if (!observer->up)
        return;
    observer->up = false;
    shard_snapshots_drop(shard, observer->incarnation);
}

/* observer_model -- sends the description of a model of that name, if it is in training. */
static void observer_model(struct shard *shard, struct link *link, const char *name, uint64_t now)
{
    struct message found = {.kind = MESSAGE_FOUND};
    struct shard_model *model = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int status = 0;

    for (uint32_t m = 0; m < shard->model_end; m++)
        if (shard->models[m] != NULL && shard->models[m]->phase == PHASE_RUNNING &&
            strcmp(shard->models[m]->model->name, name) == 0)
            model = shard->models[m];
    if (model != NULL)
        status = model_pack(model->model, &bytes, &size);
    for (size_t at = 0; status == 0 && model != NULL && at < size; at += MESSAGE_PART_BYTES) {
        struct message part = {
            .kind = MESSAGE_MODEL_PART, .model = model->number, .offset = at, .total = size};
        part.length = (uint32_t)(size - at < MESSAGE_PART_BYTES ? size - at : MESSAGE_PART_BYTES);
        memcpy(part.part, bytes + at, part.length);
        status = shard_post(shard, link, &part, now);
    }
    free(bytes);
    if (status == 0 && model != NULL) {
        found.model = model->number;
        found.total = size;
    }
    shard_post(shard, link, &found, now);
}

/* observer_watch -- grants it the parameters of a model, on its pull connection. */
static void observer_watch(struct shard *shard, uint32_t number, uint32_t model_number)
{
    struct shard_model *model = shard->models[model_number];

    if (model == NULL || model->phase != PHASE_RUNNING)
        return;
    struct letter grant = {
        .kind = LETTER_GRANT,
        .message = MESSAGE_PARAMETERS,
        .rank = shard->config.workers + number,
        .model = model_number,
        .region = model->parameters[shard->observers[number].fabric],
        .offsets = {model->parity_offset[0], model->parity_offset[1], model->words_offset}};
    mailbox_put(lane_mailbox(shard->config.lane_list[0]), &grant);
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* shard_observer_message -- what an observer says. Whatever it does, the job goes on. */
void shard_observer_message(struct shard *shard, uint32_t number, const struct message *m, uint64_t now)
{
    struct shard_observer *observer = &shard->observers[number];
    const struct message left = {.kind = MESSAGE_LEFT};
    struct message answer;

    switch (m->kind) {
    case MESSAGE_FIND: observer_model(shard, &observer->control, m->key, now); return;
    case MESSAGE_WATCH: observer_watch(shard, number, m->model); return;
    case MESSAGE_SNAPSHOT: shard_snapshot_ask(shard, observer->incarnation, m, now); return;
    case MESSAGE_SNAPSHOT_DONE: shard_snapshot_done(shard, observer->incarnation, m); return;
    case MESSAGE_COUNTS_ASK:
        leader_counts(shard, m, &answer);
        shard_post(shard, &observer->control, &answer, now);
        return;
    case MESSAGE_LEAVE:
        shard_post(shard, &observer->control, &left, now);
        link_progress(&observer->control, now);
        shard_observer_down(shard, number);
        return;
    case MESSAGE_ABORT: shard_observer_down(shard, number); return;
    default: break;
    }
    error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
              "an observer sent a %s to ps %u", message_name(m->kind), shard->config.number);
    link_fail(&observer->control);
    shard_observer_down(shard, number);
}
