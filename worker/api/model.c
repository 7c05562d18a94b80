/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/model.h"

#include <stdlib.h>
#include <unistd.h>

#include "ps/protocol/model.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

/* model_check -- NULL, fork, and the variable's number. */
int model_check(const struct stepgate_model *model, int id)
{
    if (model == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "the model is NULL");
    int status = job_check(model->job);
    if (status != 0)
        return status;
    size_t count = session_model_declared(model->session)->count;
    if (id != -1 && (id < 0 || (size_t)id >= count))
        return error_set(STEPGATE_EINVAL, 0, "", "there is no variable %d: the model has %zu", id, count);
    return 0;
}

/* model_enter -- see inside.h. */
int model_enter(struct stepgate_model *model)
{
    job_lock(model->job);
    int status = rewind_look(model);
    if (status != 0)
        job_unlock(model->job);
    return status;
}

/* model_leave -- see inside.h. */
int model_leave(struct stepgate_model *model, int status)
{
    status = rewind_verdict(model->job, status);
    job_unlock(model->job);
    return status;
}

/* stepgate_model_new -- an empty model. */
int stepgate_model_new(struct stepgate_job *job, const char *name, struct stepgate_model **out)
{
    int status = job_check(job);

    if (status != 0)
        return status;
    if (out == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "model must not be NULL");
    struct stepgate_model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a model");
    job_lock(job);
    struct session_model *session;
    status = rewind_under_way(job);
    if (status == 0)
        status = session_model_new(job->session, name, &session);
    if (status == 0) {
        model->session = session;
        model->job = job;
        model->next = job->models;
        job->models = model;
        *out = model;
    } else {
        free(model);
    }
    job_unlock(job);
    return status;
}

/* stepgate_model_delete -- the session keeps its side until the job ends: shards may still announce spans of it. */
void stepgate_model_delete(struct stepgate_model **out)
{
    if (out == NULL || *out == NULL)
        return;
    struct stepgate_model *model = *out;
    struct stepgate_job *job = model->job;
    *out = NULL;
    if (!origin_is_here(&job->origin))
        return; /* as in stepgate_job_delete */
    job_lock(job);
    for (struct stepgate_model **at = &job->models; *at != NULL; at = &(*at)->next)
        if (*at == model) {
            *at = model->next;
            break;
        }
    job_unlock(job);
    rewind_forget(model);
    free(model);
}

/* model_need_declared -- declarations end when the commit starts. */
static int model_need_declared(struct stepgate_model *model)
{
    int status = job_failure(model->job);

    if (status != 0)
        return status;
    if (model->committed || !session_model_declaring(model->session))
        return error_set(STEPGATE_ESTATE, 0, "declare everything before commit", "the model is %s",
                         model->committed ? "committed" : "being committed");
    return 0;
}

/* stepgate_model_variable -- declares a variable. */
int stepgate_model_variable(struct stepgate_model *model, const char *name, int kind, int dtype, int rank,
                            const uint64_t *dims, int *id)
{
    int status = model_check(model, -1);

    if (status == 0)
        status = model_need_declared(model);
    if (status == 0 && id == NULL)
        status = error_set(STEPGATE_EINVAL, 0, "", "id must not be NULL");
    if (status != 0)
        return status;
    job_lock(model->job);
    int number = model_add(session_model_declared(model->session), name, kind, dtype, rank, dims);
    job_unlock(model->job);
    if (number < 0)
        return number;
    *id = number;
    return 0;
}

/* stepgate_model_variable_set -- an option of a variable. */
int stepgate_model_variable_set(struct stepgate_model *model, int id, const char *key, const char *text)
{
    int status = model_check(model, id);

    if (status == 0)
        status = model_need_declared(model);
    if (status == 0 && id < 0)
        status = error_set(STEPGATE_EINVAL, 0, "", "an option is set for one variable at a time");
    if (status != 0)
        return status;
    job_lock(model->job);
    status = model_variable_set(session_model_declared(model->session), (uint32_t)id, key, text);
    job_unlock(model->job);
    return status;
}

/* stepgate_model_set -- a key of the model. */
int stepgate_model_set(struct stepgate_model *model, const char *key, const char *text)
{
    int status = model_check(model, -1);

    if (status == 0)
        status = model_need_declared(model);
    if (status != 0)
        return status;
    job_lock(model->job);
    status = model_set(session_model_declared(model->session), key, text);
    job_unlock(model->job);
    return status;
}

/* stepgate_model_initialize -- an initial value. */
int stepgate_model_initialize(struct stepgate_model *model, int id, const void *data, uint64_t bytes)
{
    int status = model_check(model, id);

    if (status == 0)
        status = model_need_declared(model);
    if (status == 0 && (data == NULL || id < 0))
        status = error_set(STEPGATE_EINVAL, 0, "", "data is NULL or the variable is %d", id);
    if (status != 0)
        return status;
    job_lock(model->job);
    status = session_model_initialize(model->session, (uint32_t)id, data, bytes);
    if (status == 0)
        status = rewind_keep(model, (uint32_t)id, data, bytes);
    job_unlock(model->job);
    return status;
}

struct model_commit {
    struct stepgate_model *model;
    struct stepgate_model_info info;
};

/* model_commit_attempt -- one look at the commit. */
static int model_commit_attempt(void *context, uint64_t now)
{
    struct model_commit *commit = context;
    int status = session_join_try(commit->model->job->session, now); /* another session may have to, first */

    if (status == 0)
        status = session_commit_try(commit->model->session, now, &commit->info);
    return rewind_rejoin(commit->model->job, status, now);
}

/* model_say -- how steps are made, and which case of copies this worker got. */
static void model_say(const struct stepgate_model *model, const struct stepgate_model_info *info)
{
    const struct model *declared = session_model_declared(model->session);
    uint32_t workers = (uint32_t)knobs_workers(&model->job->knobs);

    log_line(&model->job->knobs.log, LOG_INFO,
             "model %s: update %s, R %u of T %u, optimizer %s, %zu variables, %llu bytes, step %llu%s, "
             "transport %s, "
             "parameters %s, copies in the library's buffers: %u per push, %u per pull",
             declared->name, model_update_name(declared->update), model_replicas(declared, workers), workers,
             model_optimizer_name(declared), declared->count, (unsigned long long)info->bytes,
             (unsigned long long)info->step,
             info->restored == 2 ? " of a job that goes on"
             : info->restored    ? " from a checkpoint"
                                 : "",
             stepgate_job_transport(model->job), info->in_place ? "mapped in place" : "read into memory",
             info->copies_push, info->copies_pull);
}

/* stepgate_model_commit -- collective. */
int stepgate_model_commit(struct stepgate_model *model, int ms, struct stepgate_model_info *info)
{
    int status = model_check(model, -1);

    if (status != 0)
        return status;
    if (info != NULL && info->size < sizeof(*info))
        return error_set(STEPGATE_EINVAL, 0, "set info.size = sizeof(info)",
                         "info.size is smaller than this version's");
    struct model_commit commit = {.model = model};
    status = model_wait(model, ms, knob_time_ms(&model->job->knobs, "join_timeout"),
                        ms < 0 ? STEPGATE_EJOIN : STEPGATE_ETIMEOUT, "commit", model_commit_attempt, &commit);
    if (status == 0) {
        model->committed = true;
        model_say(model, &commit.info);
    }
    if (status == 0 && info != NULL) {
        size_t size = info->size;
        *info = commit.info;
        info->size = size;
    }
    return status;
}

/* stepgate_model_count -- declared variables. */
int stepgate_model_count(const struct stepgate_model *model)
{
    int status = model_check(model, -1);

    return status != 0 ? status : (int)session_model_declared(model->session)->count;
}

/* stepgate_model_describe -- what was declared. */
int stepgate_model_describe(const struct stepgate_model *model, int id, struct stepgate_variable_info *info)
{
    int status = model_check(model, id);

    if (status == 0 && (info == NULL || info->size < sizeof(*info) || id < 0))
        status = error_set(STEPGATE_EINVAL, 0, "set info.size = sizeof(info)",
                           "info is NULL, or info.size smaller than this version's");
    if (status != 0)
        return status;
    const struct model_variable *v = &session_model_declared(model->session)->variables[id];
    info->name = v->name;
    info->kind = v->kind;
    info->dtype = v->dtype;
    info->rank = v->rank;
    for (int d = 0; d < STEPGATE_RANK_MAX; d++)
        info->dims[d] = d < v->rank ? v->dims[d] : 0;
    info->elements = v->elements;
    info->bytes = v->bytes;
    info->gradient_dtype = v->gradient_dtype;
    info->rows_max = v->rows_max;
    info->gradient_bytes = v->gradient_bytes;
    return 0;
}
