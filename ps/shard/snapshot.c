/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot -- copies of parameters, averages or optimizer slots as of one exact step. The leader puts a copy between two commits, so every shard
 * makes it at the same step; whoever asked reads it out of a region of its own, then says that it is done. The region is kept for its next copy
 * until it goes: making memory costs more than copying, and a reader over shm keeps each one mapped.
 */
#include <stdlib.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/error.h"

#define SNAPSHOT_PAGE UINT64_C(4096)

/* snapshot_reader -- who asked: its number on lane 0 and its fabric; false: it is gone. */
static bool snapshot_reader(const struct shard *shard, uint64_t incarnation, uint32_t *number,
                            unsigned *fabric)
{
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        const struct shard_member *member = &shard->members[w];
        if (member->up && !member->left && !member->lost &&
            member->control.theirs.incarnation == incarnation) {
            *number = w;
            *fabric = member->fabric;
            return true;
        }
    }
    for (uint32_t i = 0; i < SHARD_OBSERVERS_MAX; i++)
        if (shard->observers[i].up && shard->observers[i].incarnation == incarnation) {
            *number = shard->config.workers + i;
            *fabric = shard->observers[i].fabric;
            return true;
        }
    return false;
}

/* snapshot_there -- does the model have what is asked for? */
static bool snapshot_there(const struct shard_model *model, uint32_t what)
{
    const struct board *board = &model->board;

    return what == BOARD_PARAMETERS || (what == BOARD_AVERAGES && board->average != NULL) ||
           (what >= BOARD_SLOT && what < BOARD_SLOT + board->rule->slots);
}

/* snapshot_of -- what a reader that is there has of a model; NULL: nothing yet. */
static struct shard_snapshot *snapshot_of(const struct shard *shard, uint64_t incarnation, uint32_t model)
{
    for (struct shard_snapshot *s = shard->snapshots; s != NULL; s = s->next)
        if (s->incarnation == incarnation && s->model == model && !s->gone)
            return s;
    return NULL;
}

/* snapshot_get -- the same, made where there is none; NULL: no memory. */
static struct shard_snapshot *snapshot_get(struct shard *shard, uint64_t incarnation, uint32_t model)
{
    struct shard_snapshot *snapshot = snapshot_of(shard, incarnation, model);

    if (snapshot != NULL)
        return snapshot;
    snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL)
        return NULL;
    snapshot->incarnation = incarnation;
    snapshot->model = model;
    snapshot->offset = slot_skew(2);
    snapshot->next = shard->snapshots;
    shard->snapshots = snapshot;
    return snapshot;
}

/* snapshot_delete -- no lane knows its region. */
static void snapshot_delete(struct shard *shard, struct shard_snapshot *gone)
{
    struct shard_snapshot **s = &shard->snapshots;

    while (*s != gone)
        s = &(*s)->next;
    *s = gone->next;
    if (gone->region != NULL)
        gone->region->transport->region_delete(&gone->region);
    free(gone);
}

/* snapshot_drop -- its reader is gone. Lane 0 forgets the region first; nothing is dropped that is still to be made. */
static void snapshot_drop(struct shard *shard, struct shard_snapshot *snapshot)
{
    const struct letter drop = {.kind = LETTER_DROP, .region = snapshot->region};

    snapshot->gone = true;
    if (snapshot->making || snapshot->dropping)
        return;
    if (snapshot->region == NULL) {
        snapshot_delete(shard, snapshot);
        return;
    }
    snapshot->dropping = mailbox_put(lane_mailbox(shard->config.lane_list[0]), &drop) == 0;
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* snapshot_fail -- a reader is told that there will be no copy here. */
static void snapshot_fail(struct shard *shard, uint64_t incarnation, uint32_t model, uint64_t id,
                          uint64_t now)
{
    const struct message no = {.kind = MESSAGE_SNAPSHOT_DONE, .model = model, .offset = id};
    uint32_t number;
    unsigned fabric;

    if (!snapshot_reader(shard, incarnation, &number, &fabric))
        return;
    if (number < shard->config.workers)
        shard_send(shard, number, &no, now);
    else
        shard_post(shard, &shard->observers[number - shard->config.workers].control, &no, now);
}

/* snapshot_issue -- the leader gives a copy its place among the commits. */
static void snapshot_issue(struct shard *shard, struct shard_snapshot *snapshot, uint64_t now)
{
    const struct leader_model *lead = shard->leads[snapshot->model];
    struct message take = snapshot->wanted;

    take.kind = MESSAGE_SNAPSHOT_TAKE;
    take.total = snapshot->incarnation;
    take.step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    snapshot->making = true;
    snapshot->waiting = false;
    for (uint32_t s = 1; s < shard->config.shards; s++)
        shard_post(shard, &shard->peers[s].link, &take, now);
    shard_order(shard, &take, now);
}

/* shard_snapshot_ask -- see inside.h. One that is no longer wanted is made first: so there is never more than one of a reader among the orders. */
int shard_snapshot_ask(struct shard *shard, uint64_t incarnation, const struct message *m, uint64_t now)
{
    const struct shard_model *model = shard->models[m->model];
    struct shard_snapshot *snapshot = snapshot_of(shard, incarnation, m->model);

    if (shard->config.number != 0 || shard->leads[m->model] == NULL || model == NULL ||
        model->phase != PHASE_RUNNING || !snapshot_there(model, m->what) ||
        (snapshot != NULL && snapshot->asked))
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "ps %u was asked for a snapshot of model %u, which cannot be", shard->config.number,
                         m->model);
    if (shard->ending)
        return 0;
    snapshot = snapshot_get(shard, incarnation, m->model);
    if (snapshot == NULL) {
        snapshot_fail(shard, incarnation, m->model, m->offset, now);
        return 0;
    }
    snapshot->asked = true;
    snapshot->wanted = *m;
    snapshot->waiting = snapshot->making;
    if (!snapshot->making)
        snapshot_issue(shard, snapshot, now);
    return 0;
}

/* snapshot_room -- the region, large enough for anything of the model. */
static int snapshot_room(struct shard_snapshot *snapshot, const struct shard_model *model, unsigned fabric)
{
    struct shard *shard = model->shard;
    const struct plan_shard *plan = model->board.shard;
    uint64_t bytes = plan->arena_bytes > plan->state_bytes ? plan->arena_bytes : plan->state_bytes;
    const struct stepgate_region_options options = {
        .size = sizeof(options), .access = STEPGATE_ACCESS_READ, .length = bytes + SNAPSHOT_PAGE};
    const struct stepgate_transport_v1 *transport = shard->config.fabrics[fabric].fabric->transport;

    if (snapshot->region != NULL)
        return 0;
    uint64_t there = shard->config.memory_available != NULL ? shard->config.memory_available() : UINT64_MAX;
    if (options.length > there)
        return error_set(STEPGATE_ELIMIT, 0, "free memory", "%llu MiB are needed, %llu MiB are available",
                         (unsigned long long)(options.length >> 20), (unsigned long long)(there >> 20));
    return transport->region_new(shard->shared[fabric], &options, &snapshot->region);
}

/* shard_snapshot_begin -- where the copy goes; false: nobody wants it any more, or there is no memory. */
bool shard_snapshot_begin(struct shard_model *model, const struct message *take, uint64_t now)
{
    struct shard *shard = model->shard;
    struct shard_snapshot *snapshot = NULL;
    uint32_t number;
    unsigned fabric;
    bool there = snapshot_reader(shard, take->total, &number, &fabric);

    if (there)
        snapshot = snapshot_get(shard, take->total, model->number);
    for (struct shard_snapshot *s = shard->snapshots; !there && snapshot == NULL && s != NULL; s = s->next)
        if (s->incarnation == take->total && s->model == model->number && s->making)
            snapshot = s;
    int status = snapshot == NULL ? -STEPGATE_ENOMEM : 0;
    if (status == 0 && there)
        status = snapshot_room(snapshot, model, fabric);
    if (status == 0 && there) {
        snapshot->making = true;
        model->board.order.what = (int)take->what;
        model->board.order.target = (uint8_t *)snapshot->region->address + snapshot->offset;
        return true;
    }
    if (snapshot != NULL)
        snapshot->making = false;
    if (!there && snapshot != NULL)
        snapshot_drop(shard, snapshot);
    if (there) {
        struct stepgate_error error;
        error_save(&error);
        log_line(&shard->config.log, LOG_WARN, "no snapshot of model %s: %s", model->model->name, error.text);
        snapshot_fail(shard, take->total, model->number, take->offset, now);
    }
    return false;
}

/* shard_snapshot_made -- the copy is there: whoever asked may read it. */
void shard_snapshot_made(struct shard_model *model, const struct message *take, uint64_t now)
{
    struct shard *shard = model->shard;
    struct shard_snapshot *snapshot = shard->snapshots;
    uint32_t number;
    unsigned fabric;

    while (snapshot != NULL &&
           (snapshot->incarnation != take->total || snapshot->model != model->number || !snapshot->making))
        snapshot = snapshot->next;
    if (snapshot == NULL)
        return;
    snapshot->making = false;
    if (snapshot->gone || !snapshot_reader(shard, take->total, &number, &fabric)) {
        snapshot_drop(shard, snapshot);
        return;
    }
    if (snapshot->waiting) { /* nobody reads this one */
        snapshot_issue(shard, snapshot, now);
        return;
    }
    const struct letter grant = {.kind = LETTER_GRANT,
                                 .message = MESSAGE_SNAPSHOT_READY,
                                 .rank = number,
                                 .model = model->number,
                                 .step = model->step,
                                 .region = snapshot->region,
                                 .offsets = {snapshot->offset, take->offset, 0}};
    if (mailbox_put(lane_mailbox(shard->config.lane_list[0]), &grant) != 0)
        snapshot_fail(shard, take->total, model->number, take->offset, now);
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* shard_snapshot_done -- it was read, or is no longer wanted. */
void shard_snapshot_done(struct shard *shard, uint64_t incarnation, const struct message *m)
{
    struct shard_snapshot *snapshot = snapshot_of(shard, incarnation, m->model);

    if (snapshot != NULL && snapshot->wanted.offset == m->offset)
        snapshot->asked = snapshot->waiting = false;
}

/* shard_snapshots_drop -- a reader is gone. */
void shard_snapshots_drop(struct shard *shard, uint64_t incarnation)
{
    struct shard_snapshot *next;

    for (struct shard_snapshot *s = shard->snapshots; s != NULL; s = next) {
        next = s->next;
        if (s->incarnation == incarnation)
            snapshot_drop(shard, s);
    }
}

/* shard_snapshot_dropped -- lane 0 has forgotten a region. */
void shard_snapshot_dropped(struct shard *shard, struct stepgate_region *region)
{
    for (struct shard_snapshot *s = shard->snapshots; s != NULL; s = s->next)
        if (s->region == region) {
            snapshot_delete(shard, s);
            return;
        }
}

/* shard_snapshots_delete -- at the end; lanes are gone. */
void shard_snapshots_delete(struct shard *shard)
{
    while (shard->snapshots != NULL)
        snapshot_delete(shard, shard->snapshots);
}
