/* SPDX-License-Identifier: BSD-3-Clause */
/* step -- begin, push, absent, finish; and where the buffers of a variable are. */
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_begin_try -- the token opens the next step. */
int session_begin_try(struct session_model *model, uint64_t now, struct stepgate_step_info *info)
{
    struct session *session = model->session;

    if (session_error(session) != 0)
        return session_error(session);
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "call finish or abandon first", "step %llu is still open",
                         (unsigned long long)model->step);
    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    if (model->begun && (model->token_step <= model->step || !model->sealed))
        return -STEPGATE_EAGAIN;
    model->step = model->token_step;
    model->begun = true;
    model->open = true;
    session_transfer_begin(model, SLOT_GRADIENT);
    model->unpushed = (uint32_t)model->model->count;
    for (size_t v = 0; v < model->model->count; v++) {
        model->variables[v].pushed = false;
        model->variables[v].absent = false;
    }
    session->stats.steps++;
    if (info != NULL) {
        info->step = model->step;
        info->rewound = 0;
        info->verdict = model->token_verdict;
        info->verdict_step = model->token_verdict_step;
        info->replicas_to_aggregate = session->workers;
        info->total_num_replicas = session->workers;
    }
    return 0;
}

/* session_hand_in -- a variable's gradient is there, or declared to be zeros. */
static int session_hand_in(struct session_model *model, uint32_t variable, bool absent, uint64_t now)
{
    struct session_variable *v = &model->variables[variable];
    int status = session_error(model->session);

    if (status != 0)
        return status;
    if (!model->open)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "push of %s outside a step",
                         model->model->variables[variable].name);
    if (v->pushed)
        return error_set(STEPGATE_EALREADY, 0, "push each variable once per step",
                         "variable %s is pushed twice in step %llu", model->model->variables[variable].name,
                         (unsigned long long)model->step);
    v->pushed = true;
    v->absent = absent;
    v->pushed_next = model->step + 1;
    model->unpushed--;
    model->session->stats.pushes++;
    session_transfer_queue(model, variable);
    session_model_progress(model, now);
    return session_error(model->session);
}

/* session_push -- hands in the gradient of a variable. */
int session_push(struct session_model *model, uint32_t variable, uint64_t now)
{
    return session_hand_in(model, variable, false, now);
}

/* session_absent -- zeros. Where slots are not mapped they are sent from the library's buffer. */
int session_absent(struct session_model *model, uint32_t variable, uint64_t now)
{
    struct session_variable *v = &model->variables[variable];

    if (session_error(model->session) == 0 && model->open && !v->pushed && v->parameter_local != NULL)
        memset(v->gradient, 0, model->model->variables[variable].bytes);
    return session_hand_in(model, variable, true, now);
}

/* session_finish -- seals the contribution; weight 0: it counts for nothing and need not be complete. */
int session_finish(struct session_model *model, double weight, uint64_t now)
{
    int status = session_error(model->session);

    if (status != 0)
        return status;
    if (!model->open)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "finish outside a step");
    if (!slot_weight_fits(weight))
        return error_set(STEPGATE_EINVAL, 0, "", "a weight of %g: it must be 0, or from 1e-30 to 1e30",
                         weight);
    for (size_t v = 0; weight > 0 && v < model->model->count; v++)
        if (!model->variables[v].pushed)
            return error_set(STEPGATE_ESTATE, 0, "push it, or declare it absent",
                             "finish of step %llu without variable %s (%u missing)",
                             (unsigned long long)model->step, model->model->variables[v].name,
                             model->unpushed);
    if (weight == 0)
        model->pending_count = 0;
    model->weight = weight;
    model->finishing = true;
    model->open = false;
    session_model_progress(model, now);
    return session_error(model->session);
}

/* session_need_placed -- buffers exist from commit on. */
static int session_need_placed(const struct session_model *model)
{
    if (model->state < MODEL_PLACED)
        return error_set(STEPGATE_ESTATE, 0, "call commit first", "model %s is not committed",
                         model->model->name);
    return 0;
}

/* session_gradient -- where to put it. */
int session_gradient(struct session_model *model, uint32_t variable, void **pointer)
{
    int status = session_need_placed(model);
    struct session_variable *v = status == 0 ? &model->variables[variable] : NULL;

    if (status == 0)
        *pointer = v->caller_gradient != NULL ? v->caller_gradient : v->gradient;
    return status;
}

/* session_parameter -- where the value of the last pull is. */
int session_parameter(struct session_model *model, uint32_t variable, const void **pointer)
{
    int status = session_need_placed(model);

    if (status != 0)
        return status;
    const struct session_variable *v = &model->variables[variable];
    if (v->pulled_next == 0)
        return error_set(STEPGATE_ESTATE, 0, "pull it first", "variable %s was not pulled yet",
                         model->model->variables[variable].name);
    if (v->caller_parameter != NULL) {
        *pointer = v->caller_parameter;
    } else if (v->parameter_local != NULL) {
        *pointer = v->parameter_local;
    } else {
        const struct plan_piece *piece = &model->plan->by_variable[model->plan->variable_first[variable]];
        const struct session_place *place = &model->places[piece->shard];
        uint64_t parity = (v->pulled_next - 1) & 1;
#ifdef STEPGATE_MUTANT_PARITY_READ_SWAPPED
        parity ^= 1;
#endif
        *pointer = (const uint8_t *)place->parameters->mapped + place->parity[parity] + piece->offset;
    }
    return 0;
}

/* session_need_use -- gradient or parameter. */
static int session_need_use(int use)
{
    if (use != STEPGATE_USE_GRADIENT && use != STEPGATE_USE_PARAMETER)
        return error_set(STEPGATE_EINVAL, 0, "", "use %d is neither gradient nor parameter", use);
    return 0;
}

/* session_attach -- memory of the caller's; registered on each route whose slots are not mapped. */
int session_attach(struct session_model *model, uint32_t variable, int use, void *pointer, uint64_t bytes)
{
    struct session *session = model->session;
    int status = session_need_placed(model);

    if (status != 0)
        return status;
    struct session_variable *v = &model->variables[variable];
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "attach between steps", "attach while step %llu is open",
                         (unsigned long long)model->step);
    if (pointer == NULL || bytes != model->model->variables[variable].bytes)
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s has %llu bytes, the buffer %llu",
                         model->model->variables[variable].name,
                         (unsigned long long)model->model->variables[variable].bytes,
                         (unsigned long long)bytes);
    status = session_need_use(use);
    if (status != 0)
        return status;
    if (use == STEPGATE_USE_GRADIENT && session_is_idle(model, variable) != 1)
        return error_set(STEPGATE_EBUSY, 0, "wait until stepgate_buffer_is_idle says 1",
                         "the gradient of %s is still being sent", model->model->variables[variable].name);
    session_detach(model, variable, use);
    bool gradient = use == STEPGATE_USE_GRADIENT;
    struct stepgate_region **regions = gradient ? v->caller_gradient_region : v->caller_parameter_region;
    for (uint32_t i = 0; i < v->segments; i++) {
        uint32_t s = model->segments[v->first_segment + i].shard;
        unsigned r = session->shards[s].route;
        if (session_mapped(&model->places[s]) || regions[r] != NULL)
            continue;
        const struct stepgate_region_options options = {
            .size = sizeof(options), .address = pointer, .length = bytes};
        struct stepgate_domain *domain = session->routes[r].domain;
        status = domain->transport->region_new(domain, &options, &regions[r]);
        if (status != 0) {
            session_detach(model, variable, use);
            return status;
        }
    }
    if (gradient)
        v->caller_gradient = pointer;
    else
        v->caller_parameter = pointer;
    if (!gradient)
        v->pulled_next = v->pulling_next = 0;
    return 0;
}

/* session_detach -- back to the library's buffer. */
int session_detach(struct session_model *model, uint32_t variable, int use)
{
    int status = session_need_placed(model);

    if (status == 0)
        status = session_need_use(use);
    if (status != 0)
        return status;
    struct session_variable *v = &model->variables[variable];
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "detach between steps", "detach while step %llu is open",
                         (unsigned long long)model->step);
    bool gradient = use == STEPGATE_USE_GRADIENT;
    struct stepgate_region **regions = gradient ? v->caller_gradient_region : v->caller_parameter_region;
    if (gradient && v->caller_gradient != NULL && session_is_idle(model, variable) != 1)
        return error_set(STEPGATE_EBUSY, 0, "wait until stepgate_buffer_is_idle says 1",
                         "the gradient of %s is still being sent", model->model->variables[variable].name);
    for (unsigned r = 0; r < SESSION_ROUTES_MAX; r++)
        if (regions[r] != NULL)
            regions[r]->transport->region_delete(&regions[r]);
    if (gradient)
        v->caller_gradient = NULL;
    else if (v->caller_parameter != NULL) {
        v->caller_parameter = NULL;
        v->pulled_next = v->pulling_next = 0;
    }
    return 0;
}

/* session_is_idle -- 1 when every lane has announced the step after the newest push: its bytes have been summed. */
int session_is_idle(struct session_model *model, uint32_t variable)
{
    int status = session_need_placed(model);

    if (status != 0)
        return status;
    const struct session_variable *v = &model->variables[variable];
    for (uint32_t i = 0; v->pushed_next > 0 && i < v->segments; i++) {
        const struct session_segment *segment = &model->segments[v->first_segment + i];
        if (model->places[segment->shard].spans[segment->group][segment->lane].ready_next <= v->pushed_next)
            return 0;
    }
    return 1;
}
