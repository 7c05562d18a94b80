/* SPDX-License-Identifier: BSD-3-Clause */
/* step -- begin, push, absent, finish. */
#include <string.h>

#include "ps/optimizer/number.h"
#include "transport/base/error.h"
#include "worker/session/inside.h"

/* step_open -- the next contribution starts. */
static void step_open(struct session_model *model)
{
    session_transfer_leave(model);
    model->sending = model->sequence;
    model->before = model->slots[model->sending % model->depth];
    model->begun = true;
    model->open = true;
    session_transfer_begin(model, SLOT_GRADIENT);
    model->unpushed = (uint32_t)model->model->count;
    model->present = 0;
    for (size_t v = 0; v < model->model->count; v++) {
        model->variables[v].pushed = false;
        model->variables[v].absent = false;
    }
    model->session->stats.steps++;
}

/* session_begin_try -- the token opens the next step. Where a worker gives several contributions to one, it asks for none between them. */
int session_begin_try(struct session_model *model, uint64_t now, struct stepgate_step_info *info)
{
    struct session *session = model->session;

    if (session_error(session) != 0)
        return session_error(session);
    if (session->observer)
        return session_need_worker(session, "begin a step");
    if (model->open)
        return error_set(STEPGATE_ESTATE, 0, "call finish or abandon first", "step %llu is still open",
                         (unsigned long long)model->step);
    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    bool same = model->begun && model->lockstep && model->handed < model->quota;
    if ((model->begun && !model->sealed) || (!same && model->token_next != model->sequence))
        return -STEPGATE_EAGAIN;
    if (!same && session_transfer_replays(model))
        return -STEPGATE_EAGAIN;
    if (!same) {
        model->step = model->token_step;
        model->handed = 0;
    }
    step_open(model);
    if (info != NULL) {
        info->step = model->step;
        info->rewound = 0;
        info->verdict = same ? STEPGATE_VERDICT_NONE : model->token_verdict;
        info->verdict_step = same ? 0 : model->token_verdict_step;
        info->staleness = same ? 0 : model->token_staleness;
        info->replicas_to_aggregate = model->token_replicas;
        info->total_num_replicas = model->token_workers;
    }
    return 0;
}

/* step_may_hand_in -- a step is open, and has nothing of this variable yet. */
static int step_may_hand_in(const struct session_model *model, uint32_t variable, const char *what)
{
    int status = session_error(model->session);

    if (status == 0)
        status = session_need_worker(model->session, "push");
    if (status != 0)
        return status;
    if (!model->open)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "%s of %s outside a step", what,
                         model->model->variables[variable].name);
    if (model->variables[variable].pushed)
        return error_set(STEPGATE_EALREADY, 0, "push each variable, or call it absent, once per step",
                         "variable %s is %s already in step %llu", model->model->variables[variable].name,
                         model->variables[variable].absent ? "absent" : "pushed",
                         (unsigned long long)model->step);
    return 0;
}

/* step_parts -- what each part of a variable will say and send. */
static void step_parts(struct session_model *model, uint32_t variable, uint64_t count)
{
    const struct session_variable *v = &model->variables[variable];

    for (uint32_t i = 0; i < v->parts; i++) {
        struct session_part *part = &model->parts[v->first_part + i];
        part->section = model->model->variables[variable].frozen ? SECTION_END : SECTION_COUNT;
        part->sent = 0;
        part->kept = false;
        part->count = count;
    }
}

/* step_hand_in -- a variable is there, or declared absent; its parts are made ready. */
static int step_hand_in(struct session_model *model, uint32_t variable, bool absent, uint64_t now)
{
    struct session_variable *v = &model->variables[variable];

    v->pushed = true;
    v->absent = absent;
    v->callers = v->caller_gradient != NULL && !absent;
    v->pushed_next = model->sending + 1;
    model->slots[model->sending % model->depth] =
        (struct session_use){.used = true, .sequence = model->sending, .step = model->step};
    model->unpushed--;
    model->present += !absent && !model->model->variables[variable].frozen;
    model->session->stats.pushes++;
    session_transfer_queue(model, variable);
    session_model_progress(model, now);
    return session_error(model->session);
}

/* step_measure_block -- what the ps must know of elements: their squares where gradients are clipped by their norm, and whether they are finite where that counts. */
static void step_measure_block(const struct model *model, struct session_variable *v, int dtype,
                               const void *elements, size_t count)
{
    if (model->non_finite != MODEL_PROPAGATE)
        v->finite = v->finite && number_all_finite(dtype, elements, count);
    if (model->clip_norm > 0)
        v->norm += number_norm(dtype, elements, count);
}

/* step_measure -- block by block, so that the sum does not depend on where they lie; the caller's memory may be aligned to nothing. */
static void step_measure(const struct session_model *model, struct session_variable *v, int dtype,
                         const void *elements, uint64_t count)
{
    size_t bytes = number_bytes(dtype);
    double aligned[NUMBER_NORM_MAX];

    if (model->model->non_finite == MODEL_PROPAGATE && model->model->clip_norm <= 0)
        return;
    for (uint64_t i = 0; i < count; i += NUMBER_NORM_MAX) {
        size_t n = count - i < NUMBER_NORM_MAX ? count - i : NUMBER_NORM_MAX;
        const uint8_t *block = (const uint8_t *)elements + i * bytes;
        if ((uintptr_t)block % bytes != 0)
            block = memcpy(aligned, block, n * bytes);
        step_measure_block(model->model, v, dtype, block, n);
    }
}

/* step_look -- at a dense gradient. What is assigned has no norm, and what a worker keeps for itself hurts nobody. */
static void step_look(struct session_model *model, uint32_t variable)
{
    const struct model_variable *declared = &model->model->variables[variable];
    struct session_variable *v = &model->variables[variable];
    const void *gradient = v->caller_gradient != NULL ? v->caller_gradient
                                                      : session_gradient_of(model, variable, model->sending);

    if (declared->kind == STEPGATE_AUX)
        memcpy(v->aux, gradient, declared->bytes);
    else if (!declared->frozen)
        step_measure(model, v, declared->gradient_dtype, gradient, declared->elements);
    if (declared->kind != STEPGATE_TRAINED)
        v->norm = 0;
}

/* session_push -- hands in the gradient of a variable. */
int session_push(struct session_model *model, uint32_t variable, uint64_t now)
{
    const struct model_variable *declared = &model->model->variables[variable];
    struct session_variable *v = &model->variables[variable];
    int status = step_may_hand_in(model, variable, "push");

    if (status != 0)
        return status;
    if (declared->kind == STEPGATE_SPARSE)
        return error_set(STEPGATE_EINVAL, 0, "hand in its rows with push_rows", "variable %s is sparse",
                         declared->name);
    v->norm = 0;
    v->finite = true;
    step_look(model, variable);
    step_parts(model, variable, 1);
    return step_hand_in(model, variable, false, now);
}

/* step_zero -- over a network the zeros of an absent gradient are sent from the library's buffer. */
static void step_zero(struct session_model *model, uint32_t variable)
{
    const struct model_variable *declared = &model->model->variables[variable];
    const struct session_variable *v = &model->variables[variable];
    bool mapped = true;

    for (uint32_t i = 0; i < v->parts; i++)
        mapped = mapped && session_mapped(&model->places[model->parts[v->first_part + i].shard]);
    if (!mapped && declared->kind == STEPGATE_TRAINED && !declared->frozen)
        memset(session_gradient_of(model, variable, model->sending), 0, declared->gradient_bytes);
}

/* session_absent -- zeros; of what has a count in front, nothing. In tf mode the zeros are not looked at. */
int session_absent(struct session_model *model, uint32_t variable, uint64_t now)
{
    int status = step_may_hand_in(model, variable, "absence");

    if (status != 0)
        return status;
    if (model->model->update == MODEL_TF && model->model->count > MESSAGE_ABSENT_MAX)
        return error_set(STEPGATE_EINVAL, 0, "push zeros, or use fewer variables",
                         "in a model of %zu variables in tf mode none can be absent, at most %u are possible",
                         model->model->count, MESSAGE_ABSENT_MAX);
    step_zero(model, variable);
    model->variables[variable].norm = 0;
    model->variables[variable].finite = true;
    step_parts(model, variable, 0);
    return step_hand_in(model, variable, true, now);
}

/* step_check_rows -- nothing has changed before everything is known to be right. */
static int step_check_rows(const struct session_model *model, uint32_t variable, const uint64_t *indices,
                           uint64_t count, const void *values)
{
    const struct model_variable *declared = &model->model->variables[variable];

    if (declared->kind != STEPGATE_SPARSE)
        return error_set(STEPGATE_EINVAL, 0, "use push", "variable %s is not sparse", declared->name);
    if (count > 0 && (indices == NULL || values == NULL))
        return error_set(STEPGATE_EINVAL, 0, "", "the %s of %s are NULL",
                         indices == NULL ? "indices" : "rows", declared->name);
    if (count > 0 && ((uintptr_t)indices % sizeof(*indices) != 0 ||
                      (uintptr_t)values % number_bytes(declared->gradient_dtype) != 0))
        return error_set(STEPGATE_EINVAL, 0, "give arrays of the types that stepgate/step.h names",
                         "the %s of %s are at %p, which is not aligned to their elements",
                         (uintptr_t)indices % sizeof(*indices) != 0 ? "indices" : "rows", declared->name,
                         (uintptr_t)indices % sizeof(*indices) != 0 ? (const void *)indices : values);
    if (count > declared->rows_max)
        return error_set(STEPGATE_EINVAL, 0, "declare a larger rows_max, or push fewer rows",
                         "push of %llu rows of %s, rows_max is %llu", (unsigned long long)count,
                         declared->name, (unsigned long long)declared->rows_max);
    size_t bad = rows_bad(indices, count, declared->rows);
    if (bad < count)
        return error_set(STEPGATE_EINVAL, 0, "", "row %llu of %s: it has %llu rows",
                         (unsigned long long)indices[bad], declared->name,
                         (unsigned long long)declared->rows);
    return 0;
}

/* step_slot_open -- can the part be written into its slot right now? */
static bool step_slot_open(const struct session_model *model, const struct session_part *part)
{
    return session_mapped(&model->places[part->shard]) &&
           session_span_free(model, part->shard, session_span_of(model, part));
}

/* step_put_rows -- a piece's rows: into its slot if that can be written, else into local memory, from where they are sent. */
static void step_put_rows(struct session_model *model, uint32_t variable, struct session_part *part,
                          const void *values)
{
    const struct model_variable *declared = &model->model->variables[variable];
    const struct rows_format format = {declared->gradient_dtype, declared->row_elements};
    const struct session_place *place = &model->places[part->shard];
    struct session_variable *v = &model->variables[variable];
    bool direct = step_slot_open(model, part);
    uint8_t *piece = direct ? (uint8_t *)place->slots->mapped + place->slot_arena +
                                  model->sending % model->depth * place->slot_stride + part->offset
                            : session_gradient_of(model, variable, model->sending) + part->first;
    uint8_t *rows = piece + plan_sparse_rows(part->rows_max);
    uint64_t row = declared->row_elements * number_bytes(declared->gradient_dtype);

    part->count = rows_put(&model->rows, part->first_row, part->end_row, &format, values,
                           (uint64_t *)(void *)(piece + PLAN_LINE), rows);
    /* Row by row: how rows are shared out to pieces may not show in the sum. */
    for (uint64_t r = 0; r < part->count; r++)
        step_measure(model, v, declared->gradient_dtype, rows + r * row, declared->row_elements);
    model->session->stats.bytes_copied += part->count * row;
    if (!direct)
        return;
    memcpy(piece, &part->count, sizeof(part->count));
    part->section = SECTION_END;
    model->session->stats.bytes_pushed += part->count * (row + sizeof(uint64_t));
}

/* session_push_rows -- see session.h. */
int session_push_rows(struct session_model *model, uint32_t variable, const uint64_t *indices, uint64_t count,
                      const void *values, uint64_t now)
{
    struct session_variable *v = &model->variables[variable];
    bool frozen = model->model->variables[variable].frozen, local = false;
    int status = step_may_hand_in(model, variable, "push");

    if (status == 0)
        status = step_check_rows(model, variable, indices, count, values);
    for (uint32_t i = 0; status == 0 && !frozen && i < v->parts; i++)
        local = local || !step_slot_open(model, &model->parts[v->first_part + i]);
    if (status == 0 && local)
        status = session_memory_rows(model, variable);
    if (status == 0 && !frozen)
        status = rows_sort(&model->rows, indices, count);
    if (status != 0)
        return status;
    v->norm = 0;
    v->finite = true;
    step_parts(model, variable, 0);
    for (uint32_t i = 0; !frozen && i < v->parts; i++)
        step_put_rows(model, variable, &model->parts[v->first_part + i], values);
    return step_hand_in(model, variable, false, now);
}

/* step_complete -- is everything handed in that a contribution must have? */
static int step_complete(const struct session_model *model)
{
    for (size_t v = 0; model->unpushed > 0 && v < model->model->count; v++)
        if (!model->variables[v].pushed)
            return error_set(STEPGATE_ESTATE, 0, "push it, or declare it absent",
                             "finish of step %llu without variable %s (%u missing)",
                             (unsigned long long)model->step, model->model->variables[v].name,
                             model->unpushed);
    if (model->model->update == MODEL_TF && model->present == 0)
        return error_set(STEPGATE_EINVAL, 0, "abandon the step instead",
                         "every gradient is absent: abandon the step instead");
    return 0;
}

/* session_finish -- seals the contribution; weight 0: it counts for nothing and need not be complete. */
int session_finish(struct session_model *model, double weight, uint64_t now)
{
    int status = session_error(model->session);

    if (status == 0)
        status = session_need_worker(model->session, "finish a step");
    if (status != 0)
        return status;
    if (!model->open)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "%s outside a step",
                         weight == 0 ? "abandon (finish with weight 0)" : "finish");
    if (!slot_weight_fits(weight))
        return error_set(STEPGATE_EINVAL, 0, "", "a weight of %g: it must be 0, or from 1e-30 to 1e30",
                         weight);
    status = weight > 0 ? step_complete(model) : 0;
    if (status != 0)
        return status;
    if (weight == 0) {
        model->pending_count = 0;
        model->slots[model->sending % model->depth].abandoned = true;
    }
    model->weight = weight;
    model->finishing = true;
    model->open = false;
    model->handed++;
    model->sequence++;
    session_model_progress(model, now);
    return session_error(model->session);
}
