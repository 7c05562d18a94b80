/* SPDX-License-Identifier: BSD-3-Clause */
/* memory -- where gradients and values of a model lie in this process: in the slots and parameters themselves where they are mapped, else in local memory. */
#include <stdlib.h>
#include <sys/mman.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_register_memory -- see inside.h. */
int session_register_memory(struct session_model *model, const struct session_memory *memory, uint64_t bytes,
                            struct stepgate_region *regions[SESSION_ROUTES_MAX])
{
    struct session *session = model->session;
    int status = 0;

    for (uint32_t s = 0; status == 0 && s < session->shard_count; s++) {
        unsigned r = session->shards[s].route;
        if (session_mapped(&model->places[s]) || regions[r] != NULL)
            continue;
        const struct stepgate_region_options options = {.size = sizeof(options),
                                                        .address = memory->address,
                                                        .length = bytes,
                                                        .dmabuf = memory->dmabuf ? &memory->part : NULL};
        struct stepgate_domain *domain = session->routes[r].domain;
        status = domain->transport->region_new(domain, &options, &regions[r]);
    }
    if (status != 0)
        session_unregister(regions);
    return status;
}

/* session_register -- see inside.h. */
int session_register(struct session_model *model, void *memory, uint64_t bytes,
                     struct stepgate_region *regions[SESSION_ROUTES_MAX])
{
    const struct session_memory own = {.address = memory};

    return session_register_memory(model, &own, bytes, regions);
}

/* session_unregister -- what is registered for one buffer. */
void session_unregister(struct stepgate_region *regions[SESSION_ROUTES_MAX])
{
    for (unsigned r = 0; r < SESSION_ROUTES_MAX; r++)
        if (regions[r] != NULL)
            regions[r]->transport->region_delete(&regions[r]);
}

/* memory_map -- zeroed memory, in huge pages where there are any. */
static int memory_map(const struct session_model *model, uint64_t bytes, uint8_t **out)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, 0, "free memory, or use a smaller model",
                         "no memory for %llu bytes of buffers of model %s", (unsigned long long)bytes,
                         model->model->name);
    madvise(memory, bytes, MADV_HUGEPAGE);
    *out = memory;
    return 0;
}

/* memory_unmap -- safe on NULL. */
static void memory_unmap(uint8_t **memory, uint64_t bytes)
{
    if (*memory != NULL)
        munmap(*memory, bytes);
    *memory = NULL;
}

/* memory_room -- a whole number of lines, and a line of distance to what comes behind. */
static uint64_t memory_room(uint64_t bytes)
{
    return (bytes + 2 * PLAN_LINE - 1) / PLAN_LINE * PLAN_LINE;
}

/* memory_piece -- a variable's first piece. */
static const struct plan_piece *memory_piece(const struct session_model *model, uint32_t variable)
{
    return &model->plan->by_variable[model->plan->variable_first[variable]];
}

/* memory_mapped -- on how many of a variable's pieces are slots mapped? All of them, or not. */
static bool memory_mapped(const struct session_model *model, uint32_t variable)
{
    const struct plan *plan = model->plan;

    for (size_t p = plan->variable_first[variable]; p < plan->variable_first[variable + 1]; p++)
        if (!session_mapped(&model->places[plan->by_variable[p].shard]))
            return false;
    return true;
}

/* memory_whole -- is the variable one piece? */
static bool memory_whole(const struct session_model *model, uint32_t variable)
{
    return model->plan->variable_first[variable + 1] == model->plan->variable_first[variable] + 1;
}

/* memory_rows_bytes -- of a sparse variable's pieces, as they lie in slots; its parts learn where theirs begins. */
static uint64_t memory_rows_bytes(struct session_model *model, uint32_t variable)
{
    const struct session_variable *v = &model->variables[variable];
    const struct model_variable *declared = &model->model->variables[variable];
    uint64_t row = declared->row_elements * model_dtype_bytes(declared->gradient_dtype), bytes = 0;

    for (uint32_t i = 0; i < v->parts; i++) {
        struct session_part *part = &model->parts[v->first_part + i];
        part->first = bytes;
        bytes += memory_room(plan_sparse_rows(part->rows_max) + part->rows_max * row);
    }
    return bytes;
}

/* memory_keeps -- does the variable's value have its place in local memory from the start? */
static bool memory_keeps(const struct session_model *model, uint32_t variable)
{
    int kind = model->model->variables[variable].kind;

    return !model->variables[variable].in_place && kind != STEPGATE_SPARSE &&
           !(model->session->observer && kind == STEPGATE_AUX);
}

/* memory_sort_out -- which buffers are the slots and parameters themselves, and where the others will lie in local memory. Returns the bytes of frozen gradients. */
static uint64_t memory_sort_out(struct session_model *model)
{
    uint64_t frozen = 0;

    model->in_place = true;
    for (uint32_t i = 0; i < model->model->count; i++) {
        const struct model_variable *declared = &model->model->variables[i];
        struct session_variable *v = &model->variables[i];
        bool mapped = memory_mapped(model, i), whole = memory_whole(model, i);
        bool sparse = declared->kind == STEPGATE_SPARSE;

        v->in_place = model->lockstep && mapped && whole && declared->kind != STEPGATE_AUX;
        model->in_place = model->in_place && (v->in_place || declared->kind == STEPGATE_AUX);
        v->direct = mapped && whole && !declared->frozen && !sparse;
        v->value_offset = model->local_value_bytes;
        if (memory_keeps(model, i))
            model->local_value_bytes += memory_room(declared->bytes);
        if (model->session->observer) {
            v->direct = false; /* gives no gradients */
        } else if (sparse) {
            uint64_t bytes = memory_rows_bytes(model, i);
            v->gradient_offset = model->local_gradient_stride;
            model->local_gradient_stride += mapped || declared->frozen ? 0 : bytes;
        } else if (declared
                       ->frozen) { /* nothing of it is sent: it need not be registered, and one is enough */
            v->gradient_offset = frozen;
            frozen += memory_room(declared->gradient_bytes);
        } else if (!v->direct) {
            v->gradient_offset = model->local_gradient_stride;
            model->local_gradient_stride += memory_room(declared->gradient_bytes);
            model->copied = model->copied || mapped;
        }
    }
    return frozen;
}

/* memory_gradient -- the library's buffer of slot 0, and how far it is to the next. */
static void memory_gradient(struct session_model *model, uint32_t variable)
{
    const struct model_variable *declared = &model->model->variables[variable];
    struct session_variable *v = &model->variables[variable];

    if (v->direct) {
        const struct plan_piece *piece = memory_piece(model, variable);
        const struct session_place *place = &model->places[piece->shard];
        v->gradient = (uint8_t *)place->slots->mapped + place->slot_arena + piece->slot_offset +
                      plan_values(declared->kind);
        v->gradient_stride = place->slot_stride;
    } else if (declared->frozen && declared->kind != STEPGATE_SPARSE) {
        v->gradient =
            model->local_gradients + model->depth * model->local_gradient_stride + v->gradient_offset;
        v->gradient_stride = 0;
    } else if (declared->kind != STEPGATE_SPARSE || (!declared->frozen && !memory_mapped(model, variable))) {
        v->gradient = model->local_gradients + v->gradient_offset;
        v->gradient_stride = model->local_gradient_stride;
    }
}

/* memory_words -- where the words of lanes are read to. */
static int memory_words(struct session_model *model)
{
    uint64_t bytes = (uint64_t)model->plan->shards * model->plan->lanes * sizeof(struct slot_words);
    bool mapped = true;

    for (uint32_t s = 0; s < model->plan->shards; s++)
        mapped = mapped && session_mapped(&model->places[s]);
    if (mapped || model->lockstep)
        return 0;
    int status = memory_map(model, bytes, &model->fetch.words);
    return status != 0 ? status
                       : session_register(model, model->fetch.words, bytes, model->fetch.words_region);
}

/* session_memory_new -- see inside.h. */
int session_memory_new(struct session_model *model)
{
    int status = pull_new(&model->fetch.pull, model->plan->shards, model->plan->lanes);
    uint64_t frozen = memory_sort_out(model), sent = model->depth * model->local_gradient_stride;

    model->local_gradient_bytes = sent + frozen;
    if (status == 0 && model->local_gradient_bytes > 0)
        status = memory_map(model, model->local_gradient_bytes, &model->local_gradients);
    if (status == 0 && sent > 0)
        status = session_register(model, model->local_gradients, sent, model->local_gradient_region);
    if (status == 0 && model->local_value_bytes > 0)
        status = memory_map(model, model->local_value_bytes, &model->local_values);
    if (status == 0 && model->local_value_bytes > 0)
        status =
            session_register(model, model->local_values, model->local_value_bytes, model->local_value_region);
    if (status == 0)
        status = memory_words(model);
    if (status != 0)
        return status;
    for (uint32_t v = 0; v < model->model->count; v++) {
        if (!model->session->observer)
            memory_gradient(model, v);
        if (memory_keeps(model, v))
            model->variables[v].value = model->local_values + model->variables[v].value_offset;
    }
    return 0;
}

/* session_memory_value -- of a sparse variable, whose table may be too large to be kept by whoever reads rows alone. */
int session_memory_value(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];
    uint64_t bytes = model->model->variables[variable].bytes;

    if (v->in_place || v->value != NULL || v->caller_parameter != NULL)
        return 0;
    int status = memory_map(model, bytes, &v->value);
    if (status == 0)
        status = session_register(model, v->value, bytes, v->value_region);
    if (status != 0)
        memory_unmap(&v->value, bytes);
    v->value_own = status == 0;
    return status;
}

/* session_memory_rows -- see inside.h. */
int session_memory_rows(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];

    if (v->gradient != NULL)
        return 0;
    int status = memory_map(model, memory_rows_bytes(model, variable), &v->gradient);
    v->rows_own = status == 0;
    return status;
}

/* memory_variable_delete -- what belongs to one variable alone. */
static void memory_variable_delete(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];

    session_unregister(v->caller_gradient_region);
    session_unregister(v->caller_parameter_region);
    session_forget_memory(v, STEPGATE_USE_GRADIENT);
    session_forget_memory(v, STEPGATE_USE_PARAMETER);
    session_unregister(v->value_region);
    if (v->value_own)
        memory_unmap(&v->value, model->model->variables[variable].bytes);
    if (v->rows_own)
        memory_unmap(&v->gradient, memory_rows_bytes(model, variable));
    free(v->aux);
}

/* session_memory_delete -- see inside.h. */
void session_memory_delete(struct session_model *model)
{
    for (uint32_t v = 0; model->variables != NULL && v < model->model->count; v++)
        memory_variable_delete(model, v);
    session_unregister(model->local_gradient_region);
    session_unregister(model->local_value_region);
    session_unregister(model->fetch.words_region);
    memory_unmap(&model->local_gradients, model->local_gradient_bytes);
    memory_unmap(&model->local_values, model->local_value_bytes);
    if (model->plan != NULL)
        memory_unmap(&model->fetch.words,
                     (uint64_t)model->plan->shards * model->plan->lanes * sizeof(struct slot_words));
}

/* session_gradient_of -- see inside.h. */
uint8_t *session_gradient_of(const struct session_model *model, uint32_t variable, uint64_t sequence)
{
    const struct session_variable *v = &model->variables[variable];

    return v->gradient + sequence % model->depth * v->gradient_stride;
}
