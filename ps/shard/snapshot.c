/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot -- copies of parameters, averages or optimizer slots as of one exact step. The leader puts a copy between two commits, so every shard
 * makes it at the same step; whoever asked reads it out of a region of its own, then says that it is done.
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

/* shard_snapshot_ask -- somebody wants one; the leader gives it its place among the commits. */
void shard_snapshot_ask(struct shard *shard, uint64_t incarnation, const struct message *m, uint64_t now)
{
    const struct shard_model *model = shard->models[m->model];
    const struct leader_model *lead = shard->leads[m->model];
    struct message take = {.kind = MESSAGE_SNAPSHOT_TAKE,
                           .model = m->model,
                           .offset = m->offset,
                           .total = incarnation,
                           .what = m->what};

    if (shard->config.number != 0 || lead == NULL || model == NULL || model->phase != PHASE_RUNNING ||
        !snapshot_there(model, m->what))
        return; /* the session asks for nothing of the kind */
    take.step = atomic_load_explicit(&lead->step, memory_order_relaxed); /* only this thread moves it */
    for (uint32_t s = 1; s < shard->config.shards; s++)
        shard_post(shard, &shard->peers[s].link, &take, now);
    shard_order(shard, &take, now);
}

/* shard_snapshot_begin -- memory for the copy; false: nobody wants it any more, or there is none. */
bool shard_snapshot_begin(struct shard_model *model, const struct message *take)
{
    struct shard *shard = model->shard;
    const struct plan_shard *plan = model->board.shard;
    uint64_t bytes = take->what == BOARD_PARAMETERS ? plan->arena_bytes : plan->state_bytes;
    const struct stepgate_region_options options = {
        .size = sizeof(options), .access = STEPGATE_ACCESS_READ, .length = bytes + SNAPSHOT_PAGE};
    struct shard_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    uint32_t number;
    unsigned fabric;

    if (snapshot == NULL || !snapshot_there(model, take->what) ||
        !snapshot_reader(shard, take->total, &number, &fabric))
        goto free_snapshot;
    const struct stepgate_transport_v1 *transport = shard->config.fabrics[fabric].fabric->transport;
    if (transport->region_new(shard->shared[fabric], &options, &snapshot->region) != 0) {
        struct stepgate_error error;
        error_save(&error);
        log_line(&shard->config.log, LOG_WARN, "no snapshot of model %s: %s", model->model->name, error.text);
        goto free_snapshot;
    }
    snapshot->incarnation = take->total;
    snapshot->id = take->offset;
    snapshot->offset = slot_skew(2);
    snapshot->next = shard->snapshots;
    shard->snapshots = snapshot;
    model->board.order.what = (int)take->what;
    model->board.order.target = (uint8_t *)snapshot->region->address + snapshot->offset;
    return true;

free_snapshot:
    free(snapshot);
    return false;
}

/* shard_snapshot_made -- the copy is there: whoever asked may read it. */
void shard_snapshot_made(struct shard_model *model, const struct message *take)
{
    struct shard *shard = model->shard;
    struct shard_snapshot *snapshot = shard->snapshots;
    uint32_t number;
    unsigned fabric;

    while (snapshot != NULL && (snapshot->incarnation != take->total || snapshot->id != take->offset))
        snapshot = snapshot->next;
    if (snapshot == NULL || !snapshot_reader(shard, take->total, &number, &fabric)) {
        shard_snapshots_drop(shard, take->total);
        return;
    }
    const struct letter grant = {.kind = LETTER_GRANT,
                                 .message = MESSAGE_SNAPSHOT_READY,
                                 .rank = number,
                                 .model = model->number,
                                 .step = model->step,
                                 .region = snapshot->region,
                                 .offsets = {snapshot->offset, snapshot->id, 0}};
    mailbox_put(lane_mailbox(shard->config.lane_list[0]), &grant);
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* snapshot_drop -- lane 0 forgets the region first; then it is deleted. */
static void snapshot_drop(struct shard *shard, struct shard_snapshot *snapshot)
{
    const struct letter drop = {.kind = LETTER_DROP, .region = snapshot->region};

    if (snapshot->dropping)
        return;
    snapshot->dropping = mailbox_put(lane_mailbox(shard->config.lane_list[0]), &drop) == 0;
    if (shard->config.wake_lane != NULL)
        shard->config.wake_lane(shard->config.wake_context, 0);
}

/* snapshot_busy -- the lanes are copying into it. */
static bool snapshot_busy(const struct shard *shard, const struct shard_snapshot *snapshot)
{
    for (uint32_t m = 0; m < shard->model_end; m++) {
        const struct shard_model *model = shard->models[m];
        if (model != NULL && model->ordered && model->current.kind == MESSAGE_SNAPSHOT_TAKE &&
            model->current.total == snapshot->incarnation && model->current.offset == snapshot->id)
            return true;
    }
    return false;
}

/* shard_snapshot_done -- it was read. */
void shard_snapshot_done(struct shard *shard, uint64_t incarnation, const struct message *m)
{
    for (struct shard_snapshot *s = shard->snapshots; s != NULL; s = s->next)
        if (s->incarnation == incarnation && s->id == m->offset && !snapshot_busy(shard, s))
            snapshot_drop(shard, s);
}

/* shard_snapshots_drop -- whoever asked is gone. A copy that is being made is dropped when it is made. */
void shard_snapshots_drop(struct shard *shard, uint64_t incarnation)
{
    for (struct shard_snapshot *s = shard->snapshots; s != NULL; s = s->next)
        if (s->incarnation == incarnation && !snapshot_busy(shard, s))
            snapshot_drop(shard, s);
}

/* shard_snapshot_dropped -- lane 0 has forgotten a region. */
void shard_snapshot_dropped(struct shard *shard, struct stepgate_region *region)
{
    for (struct shard_snapshot **s = &shard->snapshots; *s != NULL; s = &(*s)->next)
        if ((*s)->region == region) {
            struct shard_snapshot *gone = *s;
            *s = gone->next;
            gone->region->transport->region_delete(&gone->region);
            free(gone);
            return;
        }
}

/* shard_snapshots_delete -- at the end; lanes are gone. */
void shard_snapshots_delete(struct shard *shard)
{
    while (shard->snapshots != NULL) {
        struct shard_snapshot *gone = shard->snapshots;
        shard->snapshots = gone->next;
        gone->region->transport->region_delete(&gone->region);
        free(gone);
    }
}
