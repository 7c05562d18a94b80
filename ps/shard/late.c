/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late -- workers that are not there when the job begins.
 *
 * Where start_workers says that fewer will do, the leader waits for the others until nobody has come for start_after. Then it names those who are missing to every shard, before
 * anything is placed: models are placed without slots of theirs, and their ranks are open, as if they had been lost and forgotten in step 0 (absence.c). Who comes under such a
 * rank is let in as soon as all models are in training, as whoever comes back.
 */
#include <stdio.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

/* late_due -- is it time to begin? The time runs from when the last one came. */
static bool late_due(struct shard *shard, uint32_t there, uint64_t now)
{
    const struct shard_config *config = &shard->config;

    for (uint32_t s = 1; s < config->shards; s++)
        if (!shard->peers[s].up)
            return false;
    if (config->start_workers == 0 || there < config->start_workers || !shard->members[0].up)
        return false;
    if (shard->late_at == CLOCK_NEVER || there != shard->stats.connected)
        shard->late_at = clock_after(now, config->start_after_ms > 0 ? config->start_after_ms : -1);
    return now >= shard->late_at;
}

/* leader_late_watch -- see inside.h. */
void leader_late_watch(struct shard *shard, uint32_t there, uint64_t now)
{
    struct message late = {.kind = MESSAGE_LATE};

    if (!late_due(shard, there, now))
        return;
    shard->late_at = CLOCK_NEVER;
    for (late.rank = 0; late.rank < shard->config.workers && !shard->failed; late.rank++) {
        if (shard->members[late.rank].up || shard->members[late.rank].late)
            continue;
        for (uint32_t s = 1; s < shard->config.shards; s++)
            shard_post(shard, &shard->peers[s].link, &late, now);
        shard_late(shard, late.rank, now);
    }
}

/* shard_late -- see inside.h. On a shard other than the leader it may have come by now: it goes, and comes again. */
void shard_late(struct shard *shard, uint32_t rank, uint64_t now)
{
    struct shard_member *member = &shard->members[rank];

    log_line(
        &shard->config.log, LOG_WARN,
        "the job begins without worker %u: of %u workers it needs %u, and nobody else has come for %lld ms",
        rank, shard->config.workers, shard->config.start_workers, (long long)shard->config.start_after_ms);
    error_set(STEPGATE_EJOIN, 0, "start it: it may come late", "it had not come when the job began");
    error_save(&member->cause);
    member->lost = member->late = true;
    member->expected = shard->config.lost == MODE_LOST_WAIT;
    member->expected_until = clock_after(now, shard->config.return_timeout_ms);
    if (member->expected_until != CLOCK_NEVER && shard->config.number != 0)
        member->expected_until += 300 * CLOCK_MS; /* the leader speaks first */
    shard_absence_let_go(shard, rank, now);
    for (uint32_t m = 0; m < shard->model_end && !shard->failed; m++)
        if (shard->models[m] != NULL && shard_place_look(shard->models[m], now) != 0)
            shard_abort(shard, now);
}

/* shard_late_some -- see inside.h. */
bool shard_late_some(const struct shard *shard)
{
    for (uint32_t w = 0; w < shard->config.workers; w++)
        if (shard->members[w].late)
            return true;
    return false;
}

/* shard_late_admits -- see inside.h. Before that it would have slots on some shards, and on others not. */
bool shard_late_admits(const struct shard *shard)
{
    bool some = false;

    for (uint32_t m = 0; m < shard->model_end; m++) {
        if (shard->models[m] == NULL)
            continue;
        if (shard->models[m]->phase != PHASE_RUNNING)
            return false;
        some = true;
    }
    return some;
}

/* shard_late_place -- see inside.h. */
int shard_late_place(struct shard_model *model)
{
    struct shard *shard = model->shard;

    if (!shard_late_some(shard))
        return 0;
    if (model->model->update != MODEL_STRICT)
        return error_set(STEPGATE_EINVAL, 0, "use start_workers=0, or update=strict",
                         "the job began without all of its workers, but model %s has update=%s: a worker "
                         "comes late in strict mode alone",
                         model->model->name, model_update_name(model->model->update));
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        struct shard_share *share = &model->shares[w];
        share->late = shard->members[w].late;
        if (share->late)
            share->begins = share->sealed_next = share->reported_next = shard_absence_first(0, model->depth);
    }
    return 0;
}

/* leader_late_place -- see inside.h: every shard has forgotten them. */
void leader_late_place(struct shard_model *model)
{
    const struct shard *shard = model->shard;
    struct leader_model *lead = shard->leads[model->number];

    for (uint32_t w = 0; w < shard->config.workers; w++) {
        if (!model->shares[w].late)
            continue;
        lead->absences[w] = (struct leader_absence){
            .state = ABSENCE_AWAY, .forgot = shard->config.shards, .begins = model->shares[w].begins};
        lead->absent++;
        for (uint32_t s = 0; s < shard->config.shards; s++)
            lead->heard[(size_t)w * shard->config.shards + s] = HEARD_FORGOT;
    }
}

/* leader_late_mode -- see inside.h. */
int leader_late_mode(struct shard_model *model)
{
    const struct shard *shard = model->shard;
    int status = 0;

    for (uint32_t w = 0; status == 0 && w < shard->config.workers; w++)
        if (model->shares[w].late && shard->members[w].late)
            status = mode_gone(shard->leads[model->number]->mode, w, shard->members[w].expected);
    return status;
}
