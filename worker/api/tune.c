/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/tune.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

/* tune_timeout -- what a call waits that says -1: these questions are answered between two steps, whoever is late. */
static int64_t tune_timeout(const struct stepgate_job *job)
{
    return knob_time_ms(&job->knobs, "join_timeout");
}

/* tune_attach_attempt -- one look for the model. */
static int tune_attach_attempt(void *context, uint64_t now)
{
    struct stepgate_model *model = context;

    return session_observe_try(model->session, now);
}

/* tune_handle -- a handle of the session's model; each has one at a time. Called with the job's lock held. */
static int tune_handle(struct stepgate_job *job, const char *name, struct stepgate_model *model)
{
    struct session_model *session;
    int status = session_observe(job->session, name, &session);

    for (const struct stepgate_model *other = job->models; status == 0 && other != NULL; other = other->next)
        if (other->session == session)
            status = error_set(STEPGATE_EALREADY, 0, "use the model that is there, or delete it first",
                               "model %s is attached already", name);
    if (status != 0)
        return status;
    model->session = session;
    model->job = job;
    model->next = job->models;
    job->models = model;
    return 0;
}

/* tune_attach_begin -- a new handle, or the one of an earlier try. */
static int tune_attach_begin(struct stepgate_job *job, const char *name, struct stepgate_model **model)
{
    if (*model != NULL) {
        int status = model_check(*model, -1);
        if (status == 0 && (*model)->job != job)
            status = error_set(STEPGATE_EINVAL, 0, "set the pointer to NULL before the first try",
                               "the model belongs to another job");
        if (status != 0)
            return status;
        job_lock(job);
        status = session_need_observer(job->session);
        job_unlock(job);
        return status;
    }
    struct stepgate_model *fresh = calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a model");
    job_lock(job);
    int status = tune_handle(job, name, fresh);
    job_unlock(job);
    if (status == 0)
        *model = fresh;
    else
        free(fresh);
    return status;
}

/* stepgate_model_attach -- see tune.h. */
int stepgate_model_attach(struct stepgate_job *job, const char *name, int ms, struct stepgate_model **out)
{
    int status = job_check(job);

    if (status == 0 && out == NULL)
        status = error_set(STEPGATE_EINVAL, 0, "", "model must not be NULL");
    if (status != 0)
        return status;
    struct stepgate_model *model = *out;
    status = tune_attach_begin(job, name, &model);
    if (status != 0)
        return status;
    status = wait_until(job, ms, tune_timeout(job), STEPGATE_ETIMEOUT, "model of that name in training",
                        tune_attach_attempt, model);
    model->committed = model->committed || status == 0;
    if (status == 0 || (status == -STEPGATE_EAGAIN && ms == 0)) {
        *out = model;
    } else if (*out == NULL) {
        struct stepgate_error error;
        error_save(&error);
        stepgate_model_delete(&model);
        error_restore(&error);
    }
    return status;
}

/* stepgate_model_tune -- see tune.h. */
int stepgate_model_tune(struct stepgate_model *model, const char *key, const char *value, uint64_t from_step)
{
    int status = model_check(model, -1);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    return model_leave(model, session_tune(model->session, key, value, from_step, clock_now()));
}

/* stepgate_model_slot_name -- see tune.h. */
const char *stepgate_model_slot_name(const struct stepgate_model *model, unsigned index)
{
    return model_check(model, -1) == 0 ? session_slot_name(model->session, index) : NULL;
}

/* What is wanted of a snapshot. */
struct tune_snapshot {
    struct stepgate_model *model;
    uint32_t what;
    const int *ids;
    size_t count;
    void *const *out;
    uint64_t step;
};

/* tune_snapshot_attempt -- one look at the copies. */
static int tune_snapshot_attempt(void *context, uint64_t now)
{
    struct tune_snapshot *s = context;

    return session_snapshot_try(s->model->session, s->what, s->ids, s->count, s->out, now, &s->step);
}

/* tune_snapshot -- waits for it; whoever gives up gets a newer one next time. */
static int tune_snapshot(struct stepgate_model *model, struct tune_snapshot *s, int ms, uint64_t *step)
{
    int status = model_wait(model, ms, tune_timeout(model->job), STEPGATE_ETIMEOUT, "snapshot",
                            tune_snapshot_attempt, s);

    if (status == 0 && step != NULL)
        *step = s->step;
    if (status == 0 || status == -STEPGATE_EAGAIN)
        return status;
    job_lock(model->job);
    session_snapshot_cancel(model->session, clock_now());
    job_unlock(model->job);
    return status;
}

/* tune_snapshot_check -- the arguments, as far as the model is not needed. */
static int tune_snapshot_check(const int *ids, size_t n, void *const *out)
{
    if (n == 0 || ids == NULL || out == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "name one variable or more, and where each goes to");
    for (size_t i = 0; i < n; i++)
        if (out[i] == NULL)
            return error_set(STEPGATE_EINVAL, 0, "", "out[%zu] is NULL", i);
    return 0;
}

/* tune_refused -- why there is no such snapshot; 0: there is. */
static int tune_refused(struct stepgate_model *model, const struct tune_snapshot *s)
{
    int status = model_enter(model);

    if (status != 0)
        return status;
    return model_leave(model, session_snapshot_check(s->model->session, s->what, s->ids, s->count));
}

/* stepgate_model_snapshot -- see tune.h. */
int stepgate_model_snapshot(struct stepgate_model *model, int what, const int *ids, size_t n,
                            void *const *out, int ms, uint64_t *step)
{
    int status = model_check(model, -1);

    if (status == 0 && what != STEPGATE_SNAPSHOT_PARAMETERS && what != STEPGATE_SNAPSHOT_AVERAGES)
        status = error_set(STEPGATE_EINVAL, 0, "give one of enum stepgate_what", "a snapshot of %d", what);
    if (status == 0)
        status = tune_snapshot_check(ids, n, out);
    if (status != 0)
        return status;
    struct tune_snapshot snapshot = {.model = model,
                                     .what = what == STEPGATE_SNAPSHOT_PARAMETERS ? SESSION_PARAMETERS
                                                                                  : SESSION_AVERAGES,
                                     .ids = ids,
                                     .count = n,
                                     .out = out};
    status = tune_refused(model, &snapshot);
    return status != 0 ? status : tune_snapshot(model, &snapshot, ms, step);
}

/* A checkpoint that is wanted. */
struct tune_checkpoint {
    struct stepgate_model *model;
    uint64_t step;
};

/* tune_checkpoint_attempt -- one look for the answer. */
static int tune_checkpoint_attempt(void *context, uint64_t now)
{
    struct tune_checkpoint *c = context;

    return session_checkpoint_try(c->model->session, now, &c->step);
}

/* stepgate_checkpoint -- see tune.h. */
int stepgate_checkpoint(struct stepgate_model *model, int ms, uint64_t *step)
{
    int status = model_check(model, -1);

    if (status != 0)
        return status;
    struct tune_checkpoint checkpoint = {.model = model};
    status = model_wait(model, ms, tune_timeout(model->job), STEPGATE_ETIMEOUT, "checkpoint",
                        tune_checkpoint_attempt, &checkpoint);
    if (status == 0 && step != NULL)
        *step = checkpoint.step;
    if (status == 0 || status == -STEPGATE_EAGAIN)
        return status;
    struct stepgate_error error;
    error_save(&error);
    job_lock(model->job);
    session_checkpoint_cancel(model->session);
    job_unlock(model->job);
    error_restore(&error);
    return status;
}

/* What is wanted of the leader. */
struct tune_counts {
    struct stepgate_model *model;
    uint32_t rank;
    struct session_count count;
};

/* tune_counts_attempt -- one look for the answer. */
static int tune_counts_attempt(void *context, uint64_t now)
{
    struct tune_counts *c = context;

    return session_counts_try(c->model->session, c->rank, now, &c->count);
}

/* tune_counts -- waits for the answer. */
static int tune_counts(struct stepgate_model *model, struct tune_counts *c, int ms)
{
    int status =
        model_wait(model, ms, tune_timeout(model->job), STEPGATE_ETIMEOUT, "answer", tune_counts_attempt, c);

    if (status == 0 || status == -STEPGATE_EAGAIN)
        return status;
    job_lock(model->job);
    session_counts_cancel(model->session);
    job_unlock(model->job);
    return status;
}

/* tune_power -- adam's power of beta1 (0) or beta2 (1). */
static int tune_power(struct stepgate_model *model, int power, const char *name, int ms, void *out,
                      uint64_t bytes, uint64_t *step)
{
    struct tune_counts counts = {.model = model};

    if (bytes != sizeof(float))
        return error_set(STEPGATE_EINVAL, 0, "", "%s has %zu bytes, the buffer %llu", name, sizeof(float),
                         (unsigned long long)bytes);
    int status = tune_counts(model, &counts, ms);
    if (status != 0)
        return status;
    memcpy(out, &counts.count.powers[power], sizeof(float));
    if (step != NULL)
        *step = counts.count.step;
    return 0;
}

/* stepgate_model_slot -- see tune.h. */
int stepgate_model_slot(struct stepgate_model *model, int id, const char *name, int ms, void *out,
                        uint64_t bytes, uint64_t *step)
{
    int status = model_check(model, -1);
    unsigned index = 0;

    if (status == 0 && (name == NULL || out == NULL))
        status = error_set(STEPGATE_EINVAL, 0, "", "name and out must not be NULL");
    if (status != 0)
        return status;
    int power = session_slot_power(model->session, name);
    if (power >= 0)
        return tune_power(model, power, name, ms, out, bytes, step);
    status =
        id < 0 ? error_set(STEPGATE_EINVAL, 0, "", "name one variable, not %d", id) : model_check(model, id);
    if (status != 0)
        return status;
    const char *slot = session_slot_name(model->session, index);
    while (slot != NULL && strcmp(slot, name) != 0)
        slot = session_slot_name(model->session, ++index);
    if (slot == NULL)
        return error_set(STEPGATE_ENOENT, 0, "stepgate_model_slot_name lists those of the model",
                         "the optimizer has no slot `%.60s`", name);
    struct tune_snapshot snapshot = {
        .model = model, .what = SESSION_SLOT + index, .ids = &id, .count = 1, .out = &out};
    status = tune_refused(model, &snapshot);
    if (status == 0 && bytes != session_snapshot_bytes(model->session, snapshot.what, (uint32_t)id))
        status =
            error_set(STEPGATE_EINVAL, 0, "", "slot %s of it has %llu bytes, the buffer %llu", name,
                      (unsigned long long)session_snapshot_bytes(model->session, snapshot.what, (uint32_t)id),
                      (unsigned long long)bytes);
    return status != 0 ? status : tune_snapshot(model, &snapshot, ms, step);
}

/* stepgate_model_contributions -- see tune.h. */
int stepgate_model_contributions(struct stepgate_model *model, int rank, int ms,
                                 struct stepgate_contributions *counts)
{
    int status = model_check(model, -1);

    if (status == 0 && (counts == NULL || counts->size < sizeof(*counts)))
        status = error_set(STEPGATE_EINVAL, 0, "set counts.size = sizeof(counts)",
                           "counts is NULL, or counts.size smaller than this version's");
    if (status == 0 && (rank < 0 || rank >= knobs_workers(&model->job->knobs)))
        status = error_set(STEPGATE_EINVAL, 0, "", "there is no worker %d", rank);
    if (status != 0)
        return status;
    struct tune_counts asked = {.model = model, .rank = (uint32_t)rank};
    status = tune_counts(model, &asked, ms);
    if (status != 0)
        return status;
    counts->accepted = asked.count.accepted;
    counts->stale = asked.count.stale;
    counts->non_finite = asked.count.non_finite;
    counts->empty = asked.count.empty;
    return 0;
}
