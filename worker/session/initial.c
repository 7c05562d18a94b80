/* SPDX-License-Identifier: BSD-3-Clause */
/* initial -- the values a model starts with: kept as they are given, sent by worker 0 in the layout of a parameter arena. Those of aux variables stay. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_model_initialize -- keeps a copy of an initial value, on worker 0; of an aux variable on every worker. */
int session_model_initialize(struct session_model *model, uint32_t variable, const void *data, uint64_t bytes)
{
    const struct model_variable *v = &model->model->variables[variable];

    if (bytes != v->bytes)
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s has %llu bytes, the initial value %llu",
                         v->name, (unsigned long long)v->bytes, (unsigned long long)bytes);
    if (model->session->rank != 0 && v->kind != STEPGATE_AUX)
        return 0;
    if (variable >= model->initial_count) { /* variables may still be declared: the list grows with them */
        void **list = realloc(model->initial, model->model->count * sizeof(void *));
        if (list == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for initial values");
        for (size_t i = model->initial_count; i < model->model->count; i++)
            list[i] = NULL;
        model->initial = list;
        model->initial_count = model->model->count;
    }
    if (model->initial[variable] == NULL)
        model->initial[variable] = malloc(v->bytes);
    if (model->initial[variable] == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the initial value of %s", v->name);
    memcpy(model->initial[variable], data, bytes);
    return 0;
}

/* initial_value -- of a variable; NULL: zeros. */
static uint8_t *initial_value(const struct session_model *model, uint32_t variable)
{
    return variable < model->initial_count ? model->initial[variable] : NULL;
}

/* session_model_initial -- see session.h. */
const void *session_model_initial(const struct session_model *model, uint32_t variable)
{
    if (model->state == MODEL_COMMITTED)
        return NULL;
    if (model->initial_local != NULL && model->model->variables[variable].kind != STEPGATE_AUX)
        return model->initial_local + model->variables[variable].initial_offset;
    return initial_value(model, variable);
}

/* initial_aux -- the value that a pull gives until something is pushed. */
static int initial_aux(struct session_model *model)
{
    for (uint32_t v = 0; v < model->model->count; v++) {
        if (model->model->variables[v].kind != STEPGATE_AUX || model->variables[v].aux != NULL)
            continue; /* a ps may have been faster: then it is what a checkpoint had */
        model->variables[v].aux = initial_value(model, v);
        if (model->variables[v].aux != NULL)
            model->initial[v] = NULL;
        else
            model->variables[v].aux = calloc(1, model->model->variables[v].bytes);
        if (model->variables[v].aux == NULL)
            return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the value of %s",
                             model->model->variables[v].name);
    }
    return 0;
}

/* initial_room -- for an aux variable that comes from a checkpoint: it begins as it would without one. */
static int initial_room(struct session_model *model, uint32_t variable)
{
    const struct model_variable *declared = &model->model->variables[variable];
    struct session_variable *v = &model->variables[variable];
    const uint8_t *initial = initial_value(model, variable);

    if (v->aux != NULL)
        return 0;
    v->aux = calloc(1, declared->bytes);
    if (v->aux == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the value of %s", declared->name);
    if (initial != NULL)
        memcpy(v->aux, initial, declared->bytes);
    return 0;
}

/* session_initial_aux -- see inside.h. */
int session_initial_aux(struct session_model *model, const struct message *m)
{
    const struct model *declared = model->model;

    if (m->what == MESSAGE_EVERYTHING) {
        model->aux_told++;
        return 0;
    }
    if (model->state == MODEL_COMMITTED || m->what >= declared->count ||
        declared->variables[m->what].kind != STEPGATE_AUX ||
        !session_fits(m->offset, m->length, declared->variables[m->what].bytes))
        return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                         "a ps sent a value of variable %u of model %s, which does not fit", m->what,
                         declared->name);
    int status = initial_room(model, m->what);
    if (status == 0)
        memcpy(model->variables[m->what].aux + m->offset, m->part, m->length);
    return status;
}

/* session_initial_there -- see inside.h. */
bool session_initial_there(const struct session_model *model)
{
    bool some = false;

    for (size_t v = 0; v < model->model->count; v++)
        some = some || model->model->variables[v].kind == STEPGATE_AUX;
    return !some || !(model->kept & MESSAGE_KEPT_RESTORED) || model->aux_told == model->session->shard_count;
}

/* initial_copy -- all values in one piece of memory, which can be registered; the copies that were kept are freed as it fills. */
static int initial_copy(struct session_model *model)
{
    uint64_t bytes = 0;

    for (uint32_t v = 0; v < model->model->count; v++) {
        model->variables[v].initial_offset = bytes;
        if (model->model->variables[v].kind != STEPGATE_AUX)
            bytes += (model->model->variables[v].bytes + PLAN_LINE - 1) / PLAN_LINE * PLAN_LINE;
    }
    if (bytes == 0)
        return 0;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, 0, "free memory, or use a smaller model",
                         "no memory for %llu bytes of initial values of model %s", (unsigned long long)bytes,
                         model->model->name);
    model->initial_local = memory;
    model->initial_bytes = bytes;
    for (uint32_t v = 0; v < model->initial_count; v++) {
        if (model->initial[v] != NULL)
            memcpy(model->initial_local + model->variables[v].initial_offset, model->initial[v],
                   model->model->variables[v].bytes);
        free(model->initial[v]);
        model->initial[v] = NULL;
    }
    return session_register(model, model->initial_local, bytes, model->initial_region);
}

/* session_initial_new -- over a network the values are sent out of registered memory; into a mapping they are copied from where they were kept. */
int session_initial_new(struct session_model *model)
{
    int status = initial_aux(model);
    bool mapped = true;

    if (status != 0 || model->session->rank != 0 || model->running)
        return status;
    for (uint32_t s = 0; s < model->plan->shards; s++)
        mapped = mapped && session_mapped(&model->places[s]);
    status = mapped ? 0 : initial_copy(model);
    if (status != 0)
        return status;
    model->step = model->sending = 0;
    model->weight = 1;
    session_transfer_begin(model, SLOT_INITIAL);
    for (uint32_t i = 0; i < model->segment_count; i++)
        model->pending[model->pending_count++] = i;
    model->finishing = true;
    return 0;
}

/* session_initial_source -- see inside.h. */
const uint8_t *session_initial_source(const struct session_model *model,
                                      const struct session_segment *segment, uint64_t *offset)
{
    *offset = model->variables[segment->variable].initial_offset + segment->first;
    if (model->initial_local != NULL)
        return model->initial_local + *offset;
    const uint8_t *value = initial_value(model, segment->variable);
    return value != NULL ? value + segment->first : NULL;
}

/* session_initial_delete -- see inside.h. */
void session_initial_delete(struct session_model *model)
{
    session_unregister(model->initial_region);
    if (model->initial_local != NULL)
        munmap(model->initial_local, model->initial_bytes);
    model->initial_local = NULL;
    for (size_t v = 0; v < model->initial_count; v++)
        free(model->initial[v]);
    free(model->initial);
    model->initial = NULL;
    model->initial_count = 0;
}
