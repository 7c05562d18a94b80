/* SPDX-License-Identifier: BSD-3-Clause */
/* watch -- a step that lasts: who is waited for, who will not come any more. */
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

/* watch_here -- has this worker done its part of the awaited step? */
static bool watch_here(const struct shard_model *model, uint32_t rank)
{
    const struct leader_model *lead = model->shard->leads[model->number];
    const struct shard_share *share = &model->shares[rank];
    uint32_t quota = model_quota(model->model, model->board.workers, rank);

    if (model->together)
        return share->sealed_next >= shard_sequence(model, model->step + 1, quota);
    return lead == NULL || lead->mode == NULL || !mode_missing(lead->mode, rank);
}

/* watch_missing -- words the workers whose contribution to the step is missing, if others have contributed; *first is the lowest. */
static bool watch_missing(const struct shard_model *model, char *names, size_t size, uint32_t *first)
{
    bool some = false;
    size_t used = 0;

    names[0] = 0;
    for (uint32_t w = 0; w < model->board.workers; w++) {
        const struct shard_member *member = &model->shard->members[w];
        bool expected = shard_absence_expected(model->shard, w);
        if (member->left || (member->lost && !expected))
            continue;
        if (!expected && watch_here(model, w)) {
            some = true;
            continue;
        }
        if (used == 0)
            *first = w;
        int n = snprintf(names + used, size - used, "%s%u%s", used > 0 ? ", " : "", w,
                         expected ? " (lost, it may come back)" : "");
        if (n > 0 && (size_t)n < size - used)
            used += (size_t)n;
    }
    return some && used > 0;
}

/* watch_report -- peers are alive but slow: one line says who is waited for. */
static void watch_report(struct shard_model *model, uint64_t now)
{
    char names[256];
    uint32_t first = 0;

    model->report_at = CLOCK_NEVER;
    if (model->phase == PHASE_RUNNING && watch_missing(model, names, sizeof(names), &first))
        log_line(&model->shard->config.log, LOG_WARN,
                 "model %s, step %llu: after %llu ms still waiting for worker %s", model->model->name,
                 (unsigned long long)model->step, (unsigned long long)((now - model->step_since) / CLOCK_MS),
                 names);
}

/* watch_late -- the step has lasted longer than anybody wants to wait. */
static void watch_late(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    char names[256], wasted[320];
    uint32_t first = 0;

    model->late_at = CLOCK_NEVER;
    if (shard->config.number != 0 || model->phase != PHASE_RUNNING ||
        !watch_missing(model, names, sizeof(names), &first))
        return;
    bool some = shard_waste_words(model, false, wasted, sizeof(wasted)) > 0;
    error_set(STEPGATE_ESTEPTIME, 0, "look at what it does; step_timeout sets how long a step may take",
              "step %llu of model %s is not complete after %lld ms: waiting for worker %s%s%s",
              (unsigned long long)model->step, model->model->name, (long long)shard->config.step_timeout_ms,
              names, some ? "; these contributions counted for nothing: " : "", wasted);
    error_peer(STEPGATE_ROLE_WORKER, (int)first, "", "");
    error_step(model->step, shard->config.step_timeout_ms);
    shard_abort(shard, now);
}

/* shard_watch -- reports and deadlines that are due. */
void shard_watch(struct shard_model *model, uint64_t now)
{
    if (now >= model->report_at)
        watch_report(model, now);
    if (now >= model->late_at)
        watch_late(model, now);
}

/* shard_watch_again -- a step begins. */
void shard_watch_again(struct shard_model *model, uint64_t now)
{
    int64_t report = model->shard->config.stall_report_ms;

    model->step_since = now;
    model->report_at = clock_after(now, report > 0 ? report : -1);
    model->late_at = CLOCK_NEVER;
}

/* shard_watch_late -- the time runs from the first contribution to a step: before it nobody waits for anybody. */
void shard_watch_late(struct shard_model *model, uint64_t now)
{
    char names[256];
    uint32_t first = 0;

    if (model->late_at == CLOCK_NEVER && model->shard->config.step_timeout_ms > 0 &&
        model->shard->config.number == 0 && model->phase == PHASE_RUNNING &&
        watch_missing(model, names, sizeof(names), &first))
        model->late_at = clock_after(now, model->shard->config.step_timeout_ms);
}

/* shard_departed -- see inside.h. Where contributions are reported one by one the mode knows. */
bool shard_departed(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    bool sealed = false;
    uint32_t gone = UINT32_MAX;

    if (shard->config.number != 0 || model->phase != PHASE_RUNNING || !model->together)
        return false;
    for (uint32_t w = 0; w < model->board.workers; w++) {
        uint32_t quota = model_quota(model->model, model->board.workers, w);
        sealed = sealed || (!shard->members[w].left &&
                            model->shares[w].sealed_next > shard_sequence(model, model->step, quota));
        if (shard->members[w].left && !watch_here(model, w) && gone == UINT32_MAX)
            gone = w;
    }
    if (!sealed || gone == UINT32_MAX)
        return false;
    error_set(STEPGATE_ELOST, 0, "let every worker run the same number of steps",
              "worker %u left the job before step %llu of model %s, to which others contribute", gone,
              (unsigned long long)model->step, model->model->name);
    error_peer(STEPGATE_ROLE_WORKER, (int)gone, "", "");
    error_step(model->step, -1);
    shard_abort(shard, now);
    return true;
}

/* shard_gate_declared -- a model that is not placed waits for every worker: one that has left will not come. */
void shard_gate_declared(struct shard_model *model, uint64_t now)
{
    struct shard *shard = model->shard;
    bool awaited = false;
    uint32_t gone = UINT32_MAX;

    if (shard->config.number != 0)
        return;
    for (uint32_t w = 0; w < shard->config.workers; w++) {
        awaited = awaited || (model->shares[w].checked && !shard->members[w].left);
        if (shard->members[w].left && !model->shares[w].checked && gone == UINT32_MAX)
            gone = w;
    }
    if (!awaited || gone == UINT32_MAX)
        return;
    error_set(STEPGATE_ELOST, 0, "let every worker declare the same models",
              "worker %u left the job before model %u was committed, which others wait for", gone,
              model->number);
    error_peer(STEPGATE_ROLE_WORKER, (int)gone, "", "");
    shard_abort(shard, now);
}
