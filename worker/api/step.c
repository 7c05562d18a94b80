/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/step.h"

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

#define STEP_TIMEOUT_GRACE_MS 500

struct step_begin {
    struct stepgate_model *model;
    struct stepgate_step_info info;
};

/* step_begin_attempt -- one look for the token. Where a ps was lost this is where the job goes back to a checkpoint, if it does. */
static int step_begin_attempt(void *context, uint64_t now)
{
    struct step_begin *begin = context;

    struct stepgate_job *job = begin->model->job;
    int status = rewind_try(job, now);

    if (status == 0)
        status = session_begin_try(begin->model->session, now, &begin->info);
    if (status == 0)
        begin->info.rewound = rewind_begun(begin->model);
    if (rewind_verdict(job, status) != -STEPGATE_EREWOUND)
        return status;
    status = rewind_try(job, now);
    return status != 0 ? status : -STEPGATE_EAGAIN;
}

/* step_need_committed -- steps exist from commit on. */
static int step_need_committed(const struct stepgate_model *model)
{
    if (model->committed)
        return 0;
    int status = job_failure(model->job);
    return status != 0 ? status
                       : error_set(STEPGATE_ESTATE, 0, "call commit first", "the model is not committed");
}

/* step_late -- what a wait that was too long is: nothing waits for an observer, so nothing ends with its wait. */
static int step_late(const struct stepgate_model *model, int ms)
{
    return ms < 0 && !job_observes(&model->job->knobs) ? STEPGATE_ESTEPTIME : STEPGATE_ETIMEOUT;
}

/* step_timeout -- the leader, which knows who is late, speaks first. */
static int64_t step_timeout(const struct stepgate_job *job)
{
    int64_t ms = knob_time_ms(&job->knobs, "step_timeout");

    return ms > 0 ? ms + STEP_TIMEOUT_GRACE_MS : ms;
}

/* stepgate_step_begin -- waits for the token of the next step. */
int stepgate_step_begin(struct stepgate_model *model, int ms, struct stepgate_step_info *info)
{
    int status = model_check(model, -1);

    if (status == 0)
        status = step_need_committed(model);
    if (status == 0 && info != NULL && info->size < sizeof(*info))
        status = error_set(STEPGATE_EINVAL, 0, "set info.size = sizeof(info)",
                           "info.size is smaller than this version's");
    if (status != 0)
        return status;
    struct step_begin begin = {.model = model};
    status = wait_until(model->job, ms, step_timeout(model->job), step_late(model, ms),
                        "token of the next step", step_begin_attempt, &begin);
    if (status == 0 && info != NULL) {
        size_t size = info->size;
        *info = begin.info;
        info->size = size;
    }
    return status;
}

struct step_pull {
    struct stepgate_model *model;
    int id;
    uint64_t step;
};

/* step_pull_attempt -- one look at the value. */
static int step_pull_attempt(void *context, uint64_t now)
{
    struct step_pull *pull = context;

    return session_pull_try(pull->model->session, pull->id, now, &pull->step);
}

/* stepgate_step_pull -- makes a value of this step readable. */
int stepgate_step_pull(struct stepgate_model *model, int id, int ms, uint64_t *step_read)
{
    int status = model_check(model, id);

    if (status == 0)
        status = step_need_committed(model);
    if (status != 0)
        return status;
    struct step_pull pull = {.model = model, .id = id};
    status = model_wait(model, ms, step_timeout(model->job), step_late(model, ms), "value of this step",
                        step_pull_attempt, &pull);
    if (status == 0 && step_read != NULL)
        *step_read = pull.step;
    return status;
}

/* stepgate_step_pulled -- which steps were read. */
int stepgate_step_pulled(struct stepgate_model *model, int id, uint64_t *lowest, uint64_t *highest)
{
    uint64_t low = 0, high = 0;
    int status = model_check(model, id);

    if (status == 0)
        status = step_need_committed(model);
    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    status = model_leave(model, session_pulled(model->session, id, &low, &high));
    if (status == 0 && lowest != NULL)
        *lowest = low;
    if (status == 0 && highest != NULL)
        *highest = high;
    return status;
}

/* step_need_variable -- one variable, of a committed model. */
static int step_need_variable(const struct stepgate_model *model, int id)
{
    int status = model_check(model, id);

    if (status == 0 && id < 0)
        status = error_set(STEPGATE_EINVAL, 0, "", "name one variable, not %d", id);
    return status != 0 ? status : step_need_committed(model);
}

/* stepgate_step_push -- hands in a gradient. */
int stepgate_step_push(struct stepgate_model *model, int id)
{
    int status = step_need_variable(model, id);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    return model_leave(model, session_push(model->session, (uint32_t)id, clock_now()));
}

/* stepgate_step_push_rows -- hands in rows of a sparse gradient. */
int stepgate_step_push_rows(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                            const void *rows)
{
    int status = step_need_variable(model, id);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    return model_leave(model, session_push_rows(model->session, (uint32_t)id, indices, n, rows, clock_now()));
}

struct step_pull_rows {
    struct stepgate_model *model;
    uint32_t id;
    const uint64_t *indices;
    uint64_t count;
    void *out;
    uint64_t step;
};

/* step_pull_rows_attempt -- one look at the rows. */
static int step_pull_rows_attempt(void *context, uint64_t now)
{
    struct step_pull_rows *pull = context;

    return session_pull_rows_try(pull->model->session, pull->id, pull->indices, pull->count, pull->out, now,
                                 &pull->step);
}

/* stepgate_step_pull_rows -- reads rows into the caller's memory. */
int stepgate_step_pull_rows(struct stepgate_model *model, int id, const uint64_t *indices, uint64_t n,
                            void *out, int ms, uint64_t *step_read)
{
    int status = step_need_variable(model, id);

    if (status != 0)
        return status;
    struct step_pull_rows pull = {
        .model = model, .id = (uint32_t)id, .indices = indices, .count = n, .out = out};
    status = model_wait(model, ms, step_timeout(model->job), step_late(model, ms), "rows of this step",
                        step_pull_rows_attempt, &pull);
    if (status == 0 && step_read != NULL)
        *step_read = pull.step;
    return status;
}

/* stepgate_step_absent -- hands in zeros. */
int stepgate_step_absent(struct stepgate_model *model, int id)
{
    int status = step_need_variable(model, id);

    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    return model_leave(model, session_absent(model->session, (uint32_t)id, clock_now()));
}

/* stepgate_step_finish -- seals the contribution. */
int stepgate_step_finish(struct stepgate_model *model, double weight)
{
    int status = model_check(model, -1);

    if (status == 0)
        status = step_need_committed(model);
    if (status == 0)
        status = model_enter(model);
    if (status != 0)
        return status;
    return model_leave(model, session_finish(model->session, weight, clock_now()));
}

/* stepgate_step_abandon -- counts for nothing. */
int stepgate_step_abandon(struct stepgate_model *model)
{
    return stepgate_step_finish(model, 0);
}
