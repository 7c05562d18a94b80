/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/api/rewind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ps/protocol/model.h"
#include "ps/protocol/rewind.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

#define REWIND_TELL_MS 1000 /* a ps that has not answered by then is deaf, or gone */

/* rewind_trained -- is there somebody to call begin, and was everything committed? Initial values are gone then. */
static bool rewind_trained(const struct stepgate_job *job)
{
    const struct session_model *model;

    for (size_t m = 0; (model = session_model_at(job->session, m)) != NULL; m++)
        if (!session_model_committed(model))
            return false;
    return job->models != NULL;
}

/* rewind_due -- has the session failed so that the job goes back? */
static bool rewind_due(const struct stepgate_job *job)
{
    const struct stepgate_error *failure = session_failure(job->session);

    return job->rewind.on && !job->rewind.over && failure != NULL && rewind_for(failure) &&
           !session_leaves(job->session) && (job->rewind.state != REWIND_NONE || rewind_trained(job));
}

/* rewind_error -- what every call but begin gives. */
static int rewind_error(const struct stepgate_job *job)
{
    const struct stepgate_error *cause = &job->rewind.cause;

    error_set(STEPGATE_EREWOUND, 0, "call stepgate_step_begin: it gives the step to go on with",
              "the job goes back to a checkpoint: %.400s", cause->text);
    error_peer(cause->role, cause->rank, cause->host, cause->device);
    error_step(cause->step, cause->waited_ms);
    return -STEPGATE_EREWOUND;
}

/* rewind_notice -- nothing that was open counts any more. */
static void rewind_notice(struct stepgate_job *job)
{
    job->rewind.cause = *session_failure(job->session);
    for (struct stepgate_model *model = job->models; model != NULL; model = model->next)
        model->back = true;
}

/* rewind_look -- see rewind.h. */
int rewind_look(struct stepgate_model *model)
{
    if (rewind_due(model->job))
        rewind_notice(model->job);
    return model->back ? rewind_error(model->job) : 0;
}

/* rewind_verdict -- see rewind.h. */
int rewind_verdict(struct stepgate_job *job, int status)
{
    if (status >= 0 || status == -STEPGATE_EAGAIN || !rewind_due(job))
        return status;
    rewind_notice(job);
    return rewind_error(job);
}

/* rewind_under_way -- see rewind.h. */
int rewind_under_way(struct stepgate_job *job)
{
    if (rewind_due(job))
        rewind_notice(job);
    else if (job->rewind.state == REWIND_NONE)
        return 0;
    return rewind_error(job);
}

/* rewind_move -- to another state; whoever sleeps on the job's descriptor has something to look at. */
static void rewind_move(struct stepgate_job *job, int state, uint64_t until)
{
    job->rewind.state = state;
    job->rewind.until = until;
    job->tried = false;
    job_tell(job);
}

/* rewind_handle -- of the session's model; NULL: it was deleted. */
static struct stepgate_model *rewind_handle(const struct stepgate_job *job,
                                            const struct session_model *session)
{
    struct stepgate_model *model = job->models;

    while (model != NULL && model->session != session)
        model = model->next;
    return model;
}

/* rewind_detach -- frees what was kept of attached buffers. */
static void rewind_detach(struct rewind_model *saved)
{
    for (int use = 0; use < 2; use++) {
        for (uint32_t v = 0; saved->attached[use] != NULL && v < saved->declared->count; v++)
            if (saved->attached[use][v].dmabuf)
                close(saved->attached[use][v].part.fd);
        free(saved->attached[use]);
        saved->attached[use] = NULL;
    }
}

/* rewind_own -- what is declared belongs to the session again, or for good. */
static void rewind_own(struct stepgate_job *job)
{
    struct session_model *model;

    for (size_t m = 0; (model = session_model_at(job->session, m)) != NULL; m++)
        (void)session_model_lend(model, false);
    for (size_t m = 0; m < job->rewind.count; m++)
        rewind_detach(&job->rewind.models[m]);
    free(job->rewind.models);
    job->rewind.models = NULL;
    job->rewind.count = 0;
}

/* rewind_fail -- for good, for the reason that is this thread's last error. Returns its negative code. */
static int rewind_fail(struct stepgate_job *job)
{
    struct stepgate_error why;

    error_save(&why);
    error_set(why.code, why.os_errno, why.remedy, "%.230s; going back to a checkpoint failed: %.230s",
              job->rewind.cause.text, why.text);
    if (why.code != STEPGATE_ELOST) /* a ps that is told would take it for another loss, and go back */
        error_peer(job->rewind.cause.role, job->rewind.cause.rank, job->rewind.cause.host,
                   job->rewind.cause.device);
    error_step(job->rewind.cause.step, job->rewind.cause.waited_ms);
    rewind_own(job);
    job->rewind.over = true;
    for (struct stepgate_model *model = job->models; model != NULL; model = model->next)
        model->back = false;
    session_fail_rather(job->session);
    rewind_move(job, REWIND_NONE, CLOCK_NEVER);
    return session_error(job->session);
}

/* rewind_save_model -- what the next session is to have of a model. */
static int rewind_save_model(struct session_model *model, struct rewind_model *out)
{
    out->declared = session_model_lend(model, true);
    for (int use = STEPGATE_USE_GRADIENT; use <= STEPGATE_USE_PARAMETER; use++) {
        out->attached[use - 1] = calloc(out->declared->count, sizeof(struct session_memory));
        if (out->attached[use - 1] == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the buffers of model %s",
                             out->declared->name);
        for (uint32_t v = 0; v < out->declared->count; v++) {
            struct session_memory own;
            if (!session_attached(model, v, use, &own))
                continue;
            if (own.dmabuf && (own.part.fd = fcntl(own.part.fd, F_DUPFD_CLOEXEC, 0)) < 0)
                return error_set(STEPGATE_ESYSTEM, errno, "", "the dma-buf of %s cannot be kept",
                                 out->declared->variables[v].name);
            out->attached[use - 1][v] = own;
        }
    }
    return 0;
}

/* rewind_save -- the same of all, once. */
static int rewind_save(struct stepgate_job *job)
{
    struct rewind *rewind = &job->rewind;
    size_t count = 0;
    int status = 0;

    while (session_model_at(job->session, count) != NULL)
        count++;
    if (rewind->models != NULL)
        return 0;
    rewind->models = calloc(count, sizeof(*rewind->models));
    if (rewind->models == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu models", count);
    for (; status == 0 && rewind->count < count; rewind->count++)
        status =
            rewind_save_model(session_model_at(job->session, rewind->count), &rewind->models[rewind->count]);
    return status;
}

/* rewind_retire -- a session whose place was taken; where others train models of their own, its memory stays. */
static int rewind_retire(struct stepgate_job *job, struct session *session)
{
    struct rewind *rewind = &job->rewind;

    if (job->models == NULL || job->models->next == NULL) {
        session_delete(&session);
        return 0;
    }
    struct session **past = realloc(rewind->past, (rewind->past_count + 1) * sizeof(struct session *));
    if (past == NULL) /* better kept for ever than taken away from under somebody */
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to keep what is in use");
    rewind->past = past;
    rewind->past[rewind->past_count++] = session;
    return 0;
}

/* rewind_drop -- nobody looks at the sessions that were. */
static void rewind_drop(struct rewind *rewind)
{
    while (rewind->past_count > 0)
        session_delete(&rewind->past[--rewind->past_count]);
    free(rewind->past);
    rewind->past = NULL;
}

/* rewind_initialize -- this worker's own values, for those that the checkpoint has not; of a model that was never committed all that it has been given. */
static int rewind_initialize(const struct stepgate_model *handle, const struct session_model *old,
                             struct session_model *fresh)
{
    const struct model *declared = session_model_declared(fresh);
    int status = 0;

    for (uint32_t v = 0; status == 0 && v < declared->count; v++) {
        const void *value = session_model_initial(old, v);
        if (value == NULL && handle != NULL && v < handle->own_count)
            value = handle->own[v];
        if (value != NULL)
            status = session_model_initialize(fresh, v, value, declared->variables[v].bytes);
    }
    return status;
}

/* rewind_declare -- the same models, in a session that is to take the place of the job's. */
static int rewind_declare(struct stepgate_job *job, struct session *fresh)
{
    int status = 0;

    for (size_t m = 0; status == 0 && m < job->rewind.count; m++) {
        const struct session_model *old = session_model_at(job->session, m);
        struct session_model *again;
        status = session_model_again(fresh, job->rewind.models[m].declared, &again);
        if (status == 0)
            status = rewind_initialize(rewind_handle(job, old), old, again);
    }
    return status;
}

/* rewind_renew -- another session takes the place of the one that failed. */
static int rewind_renew(struct stepgate_job *job, uint64_t now)
{
    struct session *fresh = NULL, *old = job->session;
    int status = rewind_save(job);

    session_hang_up(old);
    if (status == 0)
        status = job_session(job, true, now, &fresh);
    if (status == 0)
        status = rewind_declare(job, fresh);
    if (status != 0) {
        session_delete(&fresh);
        return status;
    }
    for (size_t m = 0; m < job->rewind.count; m++) {
        struct stepgate_model *handle = rewind_handle(job, session_model_at(old, m));
        if (handle != NULL)
            handle->session = session_model_at(fresh, m);
    }
    rewind_stats(job, NULL);
    job->session = fresh;
    return rewind_retire(job, old);
}

/* rewind_start -- the session has failed, for the loss of a ps. */
static int rewind_start(struct stepgate_job *job, uint64_t now)
{
    int64_t join = knob_time_ms(&job->knobs, "join_timeout");

    rewind_notice(job);
    if (job->rewind.row++ == REWINDS_IN_A_ROW) {
        error_set(STEPGATE_ELOST, 0, job->rewind.cause.remedy,
                  "it went back %d times in a row, without a step", REWINDS_IN_A_ROW);
        return rewind_fail(job);
    }
    log_line(&job->knobs.log, LOG_WARN,
             "%s; this worker goes back to a checkpoint, and waits for everybody, for join_timeout (%lld ms)",
             job->rewind.cause.text, (long long)join);
    rewind_move(job, REWIND_TELLS, clock_after(now, REWIND_TELL_MS));
    return 0;
}

/* rewind_tells -- a ps that has not noticed would take the end of this worker for the cause: it is told before the connections go. */
static int rewind_tells(struct stepgate_job *job, uint64_t now)
{
    session_progress(job->session, now);
    if (!session_all_know(job->session) && now < job->rewind.until)
        return -STEPGATE_EAGAIN;
    if (rewind_renew(job, now) != 0)
        return rewind_fail(job);
    rewind_move(job, REWIND_JOINS, CLOCK_NEVER); /* the session has a deadline for this */
    return 0;
}

/* rewind_joins -- with the other session. */
static int rewind_joins(struct stepgate_job *job, uint64_t now)
{
    int status = session_join_try(job->session, now);

    if (status == 0)
        rewind_move(job, REWIND_COMMITS, clock_after(now, knob_time_ms(&job->knobs, "join_timeout")));
    return status;
}

/* rewind_attach -- the caller's buffers. */
static int rewind_attach(struct session_model *model, const struct rewind_model *saved)
{
    const struct model *declared = saved->declared;
    int status = 0;

    for (uint32_t v = 0; v < declared->count; v++) {
        const struct session_memory *gradient = &saved->attached[STEPGATE_USE_GRADIENT - 1][v],
                                    *parameter = &saved->attached[STEPGATE_USE_PARAMETER - 1][v];
        if (status == 0 && (gradient->address != NULL || gradient->dmabuf))
            status = session_attach(model, v, STEPGATE_USE_GRADIENT, gradient,
                                    declared->variables[v].gradient_bytes);
        if (status == 0 && (parameter->address != NULL || parameter->dmabuf))
            status =
                session_attach(model, v, STEPGATE_USE_PARAMETER, parameter, declared->variables[v].bytes);
    }
    return status;
}

/* rewind_commit -- one model. A ps that was started again may have found no checkpoint: then what it has is not what was trained. */
static int rewind_commit(struct stepgate_job *job, size_t number, uint64_t now)
{
    struct session_model *model = session_model_at(job->session, number);
    struct stepgate_model_info info = {.size = sizeof(info)};

    if (session_model_committed(model))
        return 0;
    int status = session_commit_try(model, now, &info);
    if (status != 0)
        return status;
    if (!info.restored) {
        error_set(STEPGATE_ELOST, 0, "start the job again", "there was no checkpoint of model %s yet",
                  job->rewind.models[number].declared->name);
        session_fail(job->session);
        return session_error(job->session);
    }
    log_line(&job->knobs.log, LOG_WARN, "model %s goes back to step %llu",
             job->rewind.models[number].declared->name, (unsigned long long)info.step);
#ifdef STEPGATE_MUTANT_ATTACHED_FORGOTTEN
    return 0;
#endif
    return rewind_attach(model, &job->rewind.models[number]);
}

/* rewind_commits -- all models, in their order. */
static int rewind_commits(struct stepgate_job *job, uint64_t now)
{
    int status = 0;

    for (size_t m = 0; status == 0 && m < job->rewind.count; m++)
        status = rewind_commit(job, m, now);
    if (status == -STEPGATE_EAGAIN && now >= job->rewind.until)
        return error_set(STEPGATE_EJOIN, 0, "join_timeout sets how long to wait",
                         "not everybody has come to the same models in time");
    if (status != 0)
        return status;
    rewind_own(job);
    rewind_move(job, REWIND_NONE, CLOCK_NEVER);
    return 0;
}

/* rewind_try -- see rewind.h. */
int rewind_try(struct stepgate_job *job, uint64_t now)
{
    int status = 0;

    while (status == 0 && (job->rewind.state != REWIND_NONE || rewind_due(job)))
        switch (job->rewind.state) {
        case REWIND_TELLS: status = rewind_tells(job, now); break;
        case REWIND_JOINS:
        case REWIND_COMMITS:
            status = job->rewind.state == REWIND_JOINS ? rewind_joins(job, now) : rewind_commits(job, now);
            if (status == 0 || status == -STEPGATE_EAGAIN)
                break;
            status = rewind_due(job) ? rewind_start(job, now) : rewind_fail(job);
            break;
        default: status = rewind_start(job, now); break;
        }
    return status;
}

/* rewind_is_new -- has nothing been trained here, and is nothing lost with the session? */
static bool rewind_is_new(const struct stepgate_job *job)
{
    const struct session_model *model;

    for (size_t m = 0; (model = session_model_at(job->session, m)) != NULL; m++)
        if (session_model_committed(model))
            return false;
    return true;
}

/* rewind_mends -- see rewind.h. */
bool rewind_mends(const struct stepgate_job *job)
{
    const struct stepgate_error *failure = session_failure(job->session);

    return job->rewind.on && !job->rewind.over && failure != NULL && rewind_for(failure) &&
           rewind_is_new(job) && job->rewind.row < REWINDS_IN_A_ROW;
}

/* rewind_rejoin -- see rewind.h. */
int rewind_rejoin(struct stepgate_job *job, int status, uint64_t now)
{
    struct rewind *rewind = &job->rewind;
    const struct stepgate_error *failure = session_failure(job->session);

    if (status >= 0 || status == -STEPGATE_EAGAIN || !rewind_mends(job))
        return status;
    if (!rewind->tells) {
        log_line(&job->knobs.log, LOG_WARN, "%s; this worker joins anew", failure->text);
        rewind->row++;
        rewind->tells = true;
        rewind->until = clock_after(now, REWIND_TELL_MS);
    }
    if (!session_all_know(job->session) && now < rewind->until)
        return -STEPGATE_EAGAIN;
    rewind->tells = false;
    status = rewind_renew(job, now);
    rewind_own(job);
    job_tell(job);
    return status == 0 ? -STEPGATE_EAGAIN : status;
}

/* rewind_attend -- see rewind.h. begin says how it ended. */
void rewind_attend(struct stepgate_job *job, uint64_t now)
{
    if (job->rewind.state != REWIND_NONE)
        (void)rewind_try(job, now);
    else if (job->rewind.tells && now >= job->rewind.until)
        job_tell(job);
}

/* rewind_begun -- see rewind.h. */
int rewind_begun(struct stepgate_model *model)
{
    struct stepgate_job *job = model->job;
    bool all = true;

    if (!model->back) {
        job->rewind.row = 0;
        return 0;
    }
    model->back = false;
    for (const struct stepgate_model *other = job->models; other != NULL; other = other->next)
        all = all && !other->back;
    if (all)
        rewind_drop(&job->rewind);
    return 1;
}

/* rewind_deadline -- see rewind.h. */
uint64_t rewind_deadline(const struct stepgate_job *job)
{
    return job->rewind.state != REWIND_NONE || job->rewind.tells ? job->rewind.until : CLOCK_NEVER;
}

/* rewind_keep -- see rewind.h. */
int rewind_keep(struct stepgate_model *model, uint32_t variable, const void *data, uint64_t bytes)
{
    const struct model *declared = session_model_declared(model->session);

    if (!model->job->rewind.on || declared->variables[variable].kind != STEPGATE_AUX)
        return 0;
    if (variable >= model->own_count) {
        void **own = realloc(model->own, declared->count * sizeof(void *));
        if (own == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for initial values");
        for (size_t v = model->own_count; v < declared->count; v++)
            own[v] = NULL;
        model->own = own;
        model->own_count = declared->count;
    }
    if (model->own[variable] == NULL)
        model->own[variable] = malloc(bytes);
    if (model->own[variable] == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for an initial value");
    memcpy(model->own[variable], data, bytes);
    return 0;
}

/* rewind_forget -- see rewind.h. */
void rewind_forget(struct stepgate_model *model)
{
    for (size_t v = 0; v < model->own_count; v++)
        free(model->own[v]);
    free(model->own);
    model->own = NULL;
    model->own_count = 0;
}

/* rewind_stats -- see rewind.h; NULL: the session goes, and what it has counted stays. */
void rewind_stats(struct stepgate_job *job, struct stepgate_job_stats *stats)
{
    struct stepgate_job_stats now = {.size = sizeof(now)};
    const struct stepgate_job_stats *past = &job->rewind.stats;

    session_stats(job->session, &now);
    now.steps += past->steps;
    now.bytes_pushed += past->bytes_pushed;
    now.bytes_pulled += past->bytes_pulled;
    now.bytes_copied += past->bytes_copied;
    now.pushes += past->pushes;
    now.pulls += past->pulls;
    now.pull_retries += past->pull_retries;
    now.reconnects += past->reconnects;
    *(stats != NULL ? stats : &job->rewind.stats) = now;
}

/* rewind_end -- see rewind.h. */
void rewind_end(struct stepgate_job *job)
{
    rewind_drop(&job->rewind);
    if (job->session != NULL)
        rewind_own(job);
}
