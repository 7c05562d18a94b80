/* SPDX-License-Identifier: BSD-3-Clause */
/* again -- what one session hands to the next, where a job goes back to a checkpoint: declared models, and memory that was mapped. */
#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_all_know -- see session.h. */
bool session_all_know(const struct session *session)
{
    for (uint32_t s = 0; s < session->shard_count; s++) {
        const struct session_shard *shard = &session->shards[s];
        if (!shard->knows && !shard->left && shard->control.link.state == LINK_UP)
            return false;
    }
    return true;
}

/* session_hang_up -- see session.h. */
void session_hang_up(struct session *session)
{
    for (uint32_t s = 0; s < session->shard_count; s++) {
        struct session_shard *shard = &session->shards[s];
        for (uint32_t l = 0; shard->push != NULL && l < session->lanes; l++) {
            link_close(&shard->push[l].link);
            link_close(&shard->pull[l].link);
        }
        link_close(&shard->control.link);
    }
}

/* session_leaves -- see session.h. */
bool session_leaves(const struct session *session)
{
    return session->leaving;
}

/* session_fail_rather -- see session.h. */
void session_fail_rather(struct session *session)
{
    error_save(&session->failure);
    session->failed = true;
    session->changes++;
}

/* session_model_at -- see session.h. */
struct session_model *session_model_at(const struct session *session, size_t index)
{
    return index < session->model_count ? session->models[index] : NULL;
}

/* session_model_number -- see session.h. */
uint32_t session_model_number(const struct session_model *model)
{
    return model->number;
}

/* session_model_lend -- see session.h. */
struct model *session_model_lend(struct session_model *model, bool lent)
{
    model->lent = lent;
    return model->model;
}

/* session_model_again -- see session.h. */
int session_model_again(struct session *session, struct model *declared, struct session_model **out)
{
    struct session_model *model;
    int status = session_model_add(session, declared->name, &model);

    if (status != 0)
        return status;
    model_delete(&model->model);
    model->model = declared;
    model->lent = true;
    *out = model;
    return 0;
}

/* session_attached -- see session.h. */
bool session_attached(const struct session_model *model, uint32_t variable, int use,
                      struct session_memory *out)
{
    const struct session_variable *v;

    if (model->variables == NULL) /* not committed yet */
        return false;
    v = &model->variables[variable];
    *out = v->callers_own[use - 1];
    return (use == STEPGATE_USE_GRADIENT ? v->caller_gradient : v->caller_parameter) != NULL;
}
