/* SPDX-License-Identifier: BSD-3-Clause */
/* observe -- how an observer comes to know a model: asks the leader for its description, and every shard for its parameters. */
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

#define OBSERVE_AGAIN_MS 20 /* after which a model that was not there is asked for again */
#define OBSERVE_MODEL_BYTES_MAX (UINT64_C(1) << 30) /* of a description */

/* session_observes -- see session.h. */
bool session_observes(const struct session *session)
{
    return session->observer;
}

/* session_need_worker -- see inside.h. */
int session_need_worker(const struct session *session, const char *what)
{
    if (session->observer)
        return error_set(STEPGATE_ESTATE, 0, "do it in a worker (job_name=worker)",
                         "%s: this is an observer, which only reads", what);
    return 0;
}

/* session_need_observer -- see session.h. */
int session_need_observer(const struct session *session)
{
    if (!session->observer)
        return error_set(STEPGATE_ESTATE, 0, "declare and commit it, or join with job_name=observer",
                         "attach: this is a worker, which declares its models");
    return 0;
}

/* session_observe -- see session.h. */
int session_observe(struct session *session, const char *name, struct session_model **out)
{
    int status = session_error(session);

    if (status == 0)
        status = session_need_observer(session);
    if (status != 0)
        return status;
    for (size_t m = 0; m < session->model_count; m++)
        if (name != NULL && strcmp(session->models[m]->model->name, name) == 0) {
            *out = session->models[m];
            return 0;
        }
    return session_model_add(session, name, out);
}

/* observe_forget -- what has come of a description. */
static void observe_forget(struct session_model *model)
{
    free(model->found);
    model->found = NULL;
    model->found_total = model->found_there = 0;
}

/* observe_part -- of the description; false: it does not fit. */
static bool observe_part(struct session *session, const struct message *m)
{
    struct session_model *model = session->finding;

    if (model->found == NULL && m->total > 0 && m->total <= OBSERVE_MODEL_BYTES_MAX) {
        model->found = malloc(m->total);
        model->found_total = m->total;
        model->number = m->model;
        if (model->found == NULL) {
            error_set(STEPGATE_ENOMEM, 0, "", "no memory for the description of model %s",
                      model->model->name);
            session_fail(session);
            return true;
        }
    }
    if (model->found == NULL || m->model != model->number || m->total != model->found_total ||
        m->offset != model->found_there || m->length == 0 ||
        m->length > model->found_total - model->found_there)
        return false;
    memcpy(model->found + model->found_there, m->part, m->length);
    model->found_there += m->length;
    return true;
}

/* session_observe_message -- the leader answers one question after the other. */
bool session_observe_message(struct session *session, const struct session_shard *shard,
                             const struct message *m, uint64_t now)
{
    struct session_model *model = session->finding;

    if (model == NULL || shard->number != 0)
        return false;
    if (m->kind == MESSAGE_MODEL_PART)
        return observe_part(session, m);
    session->finding = NULL;
    if (m->total == 0 && model->found == NULL) { /* it is not in training yet */
        model->find_at = model->fetch.alarm = now + OBSERVE_AGAIN_MS * CLOCK_MS;
        return true;
    }
    model->found_all =
        m->total == model->found_total && model->found_there == m->total && m->model == model->number;
    return model->found_all;
}

/* observe_ask -- the leader, about one model at a time. */
static int observe_ask(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;
    struct message find = {.kind = MESSAGE_FIND};

    if (session->finding != NULL || now < model->find_at)
        return -STEPGATE_EAGAIN;
    memcpy(find.key, model->model->name, strlen(model->model->name) + 1);
    static_assert(sizeof(find.key) >= STEPGATE_NAME_BYTES, "a message has room for a model's name");
    int status = link_send(&session->shards[0].control.link, &find, now);
    if (status == 0)
        session->finding = model;
    return status == 0 || status == -STEPGATE_EPEER ? -STEPGATE_EAGAIN : status;
}

/* observe_place -- the description is here: plans, and asks for the parameters. */
static int observe_place(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;
    const struct message watch = {.kind = MESSAGE_WATCH, .model = model->number};
    struct model *found = NULL;
    int status = model_unpack(model->found, model->found_total, &found);

    observe_forget(model);
    if (status != 0)
        return status;
    if (strcmp(found->name, model->model->name) != 0)
        status =
            error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                      "ps 0 was asked for model %s and describes model %s", model->model->name, found->name);
    model_delete(&model->model);
    model->model = found;
    if (status == 0)
        status = model_check_workers(found, session->workers);
    if (status == 0)
        status = session_place_plan(model);
    model->lockstep = false; /* nothing waits for it: what it reads may be overwritten */
    model->depth = model->quota = 1;
    for (uint32_t s = 0; status == 0 && s < session->shard_count; s++)
        status = link_send(&session->shards[s].control.link, &watch, now);
    return status == -STEPGATE_EPEER ? 0 : status; /* a broken link ends in the job's failure */
}

/* observe_step -- one move of the attachment. */
static int observe_step(struct session_model *model, uint64_t now)
{
    int status = 0;

    if (model->state == MODEL_DECLARED && !model->found_all)
        return observe_ask(model, now);
    if (model->state == MODEL_DECLARED) {
        status = observe_place(model, now);
        if (status != 0)
            return status;
        model->state = MODEL_TOLD;
    }
    for (uint32_t s = 0; status == 0 && s < model->session->shard_count; s++)
        status = session_place_parameters(model, s);
    if (status == 0)
        status = session_memory_new(model);
    if (status != 0)
        return status;
    model->state = MODEL_COMMITTED;
    model->begun = true; /* it has no steps: a pull is always due */
    return 0;
}

/* session_observe_try -- see session.h. */
int session_observe_try(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;

    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    if (!session->joined)
        return error_set(STEPGATE_ESTATE, 0, "join first", "attach before the join is done");
    int status = model->state == MODEL_COMMITTED ? 0 : observe_step(model, now);
    if (status == 0 || status == -STEPGATE_EAGAIN)
        return status;
    session_fail(session); /* half placed: there is no way back */
    return session_error(session);
}
