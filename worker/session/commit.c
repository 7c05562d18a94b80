/* SPDX-License-Identifier: BSD-3-Clause */
/* commit -- how a declared model comes to be placed: told to the shards, its slots and parameters imported, its initial values sent. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_model_new -- the model with the next number. */
int session_model_new(struct session *session, const char *name, struct session_model **out)
{
    int status = session_error(session);

    if (status != 0)
        return status;
    for (size_t m = 0; m < session->model_count; m++)
        if (name != NULL && strcmp(session->models[m]->model->name, name) == 0)
            return error_set(STEPGATE_EALREADY, 0, "give each model a name of its own",
                             "the job has a model %s already", name);
    if (session->model_count >= SLOT_MODELS_MAX)
        return error_set(STEPGATE_EINVAL, 0, "", "a job has at most %u models", SLOT_MODELS_MAX);
    struct session_model **more =
        realloc(session->models, (session->model_count + 1) * sizeof(struct session_model *));
    if (more == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a model");
    session->models = more;
    struct session_model *model = calloc(1, sizeof(*model));
    if (model == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a model");
    status = model_new(name, &model->model);
    if (status != 0) {
        free(model);
        return status;
    }
    model->session = session;
    model->number = (uint32_t)session->model_count;
    session->models[session->model_count++] = model;
    *out = model;
    return 0;
}

/* session_model_regions_delete -- what is registered for one buffer. */
static void session_model_regions_delete(struct stepgate_region *regions[SESSION_ROUTES_MAX])
{
    for (unsigned r = 0; r < SESSION_ROUTES_MAX; r++)
        if (regions[r] != NULL)
            regions[r]->transport->region_delete(&regions[r]);
}

/* session_model_delete -- frees, sets NULL. */
void session_model_delete(struct session_model **out)
{
    struct session_model *model = *out;

    if (model == NULL)
        return;
    for (uint32_t s = 0; model->places != NULL && s < model->session->shard_count; s++) {
        struct session_place *place = &model->places[s];
        if (place->slots != NULL)
            place->slots->transport->remote_delete(&place->slots);
        if (place->parameters != NULL)
            place->parameters->transport->remote_delete(&place->parameters);
    }
    for (size_t v = 0; v < model->model->count; v++) {
        if (v < model->initial_count)
            free(model->initial[v]);
        if (model->variables != NULL) {
            session_model_regions_delete(model->variables[v].caller_gradient_region);
            session_model_regions_delete(model->variables[v].caller_parameter_region);
        }
    }
    session_model_regions_delete(model->local_gradient_region);
    session_model_regions_delete(model->local_parameter_region);
    if (model->local_gradients != NULL)
        munmap(model->local_gradients, model->local_bytes);
    if (model->local_parameters != NULL)
        munmap(model->local_parameters, model->local_bytes);
    free(model->initial);
    free(model->variables);
    free(model->segments);
    free(model->pending);
    free(model->places);
    plan_delete(&model->plan);
    model_delete(&model->model);
    free(model);
    *out = NULL;
}

/* session_model_declared -- the declaration, to be added to before commit. */
struct model *session_model_declared(struct session_model *model)
{
    return model->model;
}

/* session_model_committed -- may steps begin? */
bool session_model_committed(const struct session_model *model)
{
    return model->state == MODEL_COMMITTED;
}

/* session_model_declaring -- what the shards are told is what counts. */
bool session_model_declaring(const struct session_model *model)
{
    return model->state == MODEL_DECLARED;
}

/* session_model_initialize -- keeps a copy of an initial value, on worker 0. */
int session_model_initialize(struct session_model *model, uint32_t variable, const void *data, uint64_t bytes)
{
    const struct model_variable *v = &model->model->variables[variable];

    if (bytes != v->bytes)
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s has %llu bytes, the initial value %llu",
                         v->name, (unsigned long long)v->bytes, (unsigned long long)bytes);
    if (model->session->rank != 0)
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

/* session_commit_segments -- cuts every piece at the spans' borders and into chunks; called once to count and once to fill. */
static uint32_t session_commit_segments(struct session_model *model, struct session_segment *out)
{
    uint64_t chunk = model->session->chunk_bytes;
    uint32_t count = 0;

    for (size_t v = 0; v < model->model->count; v++) {
        uint32_t first = count;
        for (size_t p = model->plan->variable_first[v]; p < model->plan->variable_first[v + 1]; p++) {
            const struct plan_piece *piece = &model->plan->by_variable[p];
            const struct plan_shard *shard = &model->plan->shard[piece->shard];
            uint64_t end = piece->offset + piece->bytes;
            for (uint32_t g = 0; g < shard->groups; g++)
                for (uint32_t l = 0; l < model->plan->lanes; l++) {
                    uint64_t from = shard->spans[g][l].begin, to = shard->spans[g][l].end;
                    from = from > piece->offset ? from : piece->offset;
                    to = to < end ? to : end;
                    for (; from < to; from += chunk, count++)
                        if (out != NULL)
                            out[count] =
                                (struct session_segment){.variable = (uint32_t)v,
                                                         .shard = piece->shard,
                                                         .lane = (uint16_t)l,
                                                         .group = (uint16_t)g,
                                                         .first = piece->first + (from - piece->offset),
                                                         .offset = from,
                                                         .bytes = to - from < chunk ? to - from : chunk};
                }
        }
        if (out != NULL) {
            model->variables[v].first_segment = first;
            model->variables[v].segments = count - first;
        }
    }
    return count;
}

/* session_commit_spans -- how many segments each span has; a span without one (all gap) is still announced, with nothing to write. */
static void session_commit_spans(struct session_model *model)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                const struct plan_span *span = &model->plan->shard[s].spans[g][l];
                model->places[s].spans[g][l].bytes = span->end - span->begin;
                if (span->end > span->begin)
                    model->spans_total++;
            }
    for (uint32_t i = 0; i < model->segment_count; i++) {
        const struct session_segment *segment = &model->segments[i];
        model->places[segment->shard].spans[segment->group][segment->lane].segments++;
    }
}

/* session_commit_parts -- sends the packed model to a shard, part by part. */
static int session_commit_parts(struct session_model *model, struct session_shard *shard, uint64_t now)
{
    uint8_t *bytes;
    size_t size;
    int status = model_pack(model->model, &bytes, &size);

    if (status != 0)
        return status;
    for (size_t at = 0; status == 0 && at < size; at += MESSAGE_PART_BYTES) {
        struct message m = {.kind = MESSAGE_MODEL_PART, .model = model->number, .offset = at, .total = size};
        m.length = (uint32_t)(size - at < MESSAGE_PART_BYTES ? size - at : MESSAGE_PART_BYTES);
        memcpy(m.part, bytes + at, m.length);
        status = link_send(&shard->control.link, &m, now);
    }
    free(bytes);
    return status;
}

/* session_commit_tell -- plans, and tells every shard. */
static int session_commit_tell(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;
    struct plan_options options = {session->shard_count, session->lanes, session->group_bytes,
                                   session->cut_bytes};
    int status = plan_new(model->model, &options, &model->plan);

    if (status != 0)
        return status;
    model->variables = calloc(model->model->count, sizeof(*model->variables));
    model->places = calloc(session->shard_count, sizeof(*model->places));
    model->segment_count = session_commit_segments(model, NULL);
    model->segments = calloc(model->segment_count, sizeof(*model->segments));
    model->pending = calloc(model->segment_count, sizeof(*model->pending));
    if (model->variables == NULL || model->places == NULL || model->segments == NULL ||
        model->pending == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to place model %s", model->model->name);
    session_commit_segments(model, model->segments);
    session_commit_spans(model);
    struct message check = {.kind = MESSAGE_MODEL_CHECK, .model = model->number};
    status = model_fingerprint(model->model, check.fingerprint);
    for (uint32_t s = 0; status == 0 && s < session->shard_count; s++) {
        if (session->rank == 0)
            status = session_commit_parts(model, &session->shards[s], now);
        if (status == 0)
            status = link_send(&session->shards[s].control.link, &check, now);
    }
    return status;
}

/* session_commit_fits -- does [offset, offset + bytes) end at `end` or before? The offset is a ps's word: no sum may wrap. */
static bool session_commit_fits(uint64_t offset, uint64_t bytes, uint64_t end)
{
    return offset <= end && bytes <= end - offset;
}

/* session_commit_import -- 0 when slots and parameters of every shard are there. */
static int session_commit_import(struct session_model *model)
{
    struct session *session = model->session;

    for (uint32_t s = 0; s < session->shard_count; s++) {
        struct session_place *place = &model->places[s];
        struct session_shard *shard = &session->shards[s];
        struct stepgate_endpoint *control = shard->control.link.endpoint;
        struct stepgate_endpoint *pull = shard->pull[0].link.endpoint;
        const struct plan_shard *planned = &model->plan->shard[s];
        int status = 0;

        if (!place->slots_told || !place->parameters_told)
            return -STEPGATE_EAGAIN;
        if (place->slots == NULL)
            status = control->transport->endpoint_import(control, &place->slots_descriptor, &place->slots);
        if (status == 0 && place->parameters == NULL)
            status =
                pull->transport->endpoint_import(pull, &place->parameters_descriptor, &place->parameters);
        if (status != 0)
            return status;
        uint64_t headers = (uint64_t)session->lanes * PLAN_GROUPS_MAX * sizeof(struct slot_header);
        if (!session_commit_fits(place->slot_arena, planned->arena_bytes, place->slot_headers) ||
            !session_commit_fits(place->slot_headers, headers, place->slots->length) ||
            !session_commit_fits(place->parity[0], planned->arena_bytes, place->parameters->length) ||
            !session_commit_fits(place->parity[1], planned->arena_bytes, place->parameters->length))
            return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                             "ps %u grants less memory than model %s takes", s, model->model->name);
    }
    return 0;
}

/* session_commit_local -- local memory for both buffers of every variable; registered on each route without mapping. */
static int session_commit_local(struct session_model *model)
{
    struct session *session = model->session;
    uint64_t bytes = 0;

    for (size_t v = 0; v < model->model->count; v++) {
        model->variables[v].local_offset = bytes;
        bytes += (model->model->variables[v].bytes + 127) / 64 * 64; /* a line of distance */
    }
    uint8_t *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory[i] == MAP_FAILED) {
            if (i == 1)
                munmap(memory[0], bytes);
            return error_set(STEPGATE_ENOMEM, 0, "free memory, or use a smaller model",
                             "no memory for %llu bytes of buffers of model %s", (unsigned long long)bytes,
                             model->model->name);
        }
        madvise(memory[i], bytes, MADV_HUGEPAGE);
    }
    model->local_gradients = memory[0];
    model->local_parameters = memory[1];
    model->local_bytes = bytes;
    for (uint32_t s = 0; s < session->shard_count; s++) {
        unsigned r = session->shards[s].route;
        if (session_mapped(&model->places[s]) || model->local_gradient_region[r] != NULL)
            continue;
        struct stepgate_domain *domain = session->routes[r].domain;
        struct stepgate_region_options options = {.size = sizeof(options), .length = bytes};
        options.address = memory[0];
        int status = domain->transport->region_new(domain, &options, &model->local_gradient_region[r]);
        options.address = memory[1];
        if (status == 0)
            status = domain->transport->region_new(domain, &options, &model->local_parameter_region[r]);
        if (status != 0)
            return status;
    }
    return 0;
}

/* session_commit_buffers -- where each variable's gradient and value lie. */
static int session_commit_buffers(struct session_model *model)
{
    bool local = false;

    model->in_place = true;
    for (size_t v = 0; v < model->model->count; v++) {
        size_t first = model->plan->variable_first[v];
        bool whole = model->plan->variable_first[v + 1] == first + 1;
        const struct plan_piece *piece = &model->plan->by_variable[first];
        if (whole && session_mapped(&model->places[piece->shard]))
            continue;
        local = true;
        model->in_place = false;
    }
    int status = local ? session_commit_local(model) : 0;
    if (status != 0)
        return status;
    for (size_t v = 0; v < model->model->count; v++) {
        struct session_variable *variable = &model->variables[v];
        size_t first = model->plan->variable_first[v];
        const struct plan_piece *piece = &model->plan->by_variable[first];
        const struct session_place *place = &model->places[piece->shard];
        if (model->plan->variable_first[v + 1] == first + 1 && session_mapped(place)) {
            variable->gradient = (uint8_t *)place->slots->mapped + place->slot_arena + piece->offset;
        } else {
            variable->gradient = model->local_gradients + variable->local_offset;
            variable->parameter_local = model->local_parameters + variable->local_offset;
        }
    }
    return 0;
}

/* session_commit_initial -- worker 0 puts the initial values where gradients go, and queues them all. */
static void session_commit_initial(struct session_model *model)
{
    session_transfer_begin(model, SLOT_INITIAL);
    for (uint32_t v = 0; v < model->model->count; v++) {
        void *value = v < model->initial_count ? model->initial[v] : NULL;
        if (value != NULL)
            memcpy(model->variables[v].gradient, value, model->model->variables[v].bytes);
        else
            memset(model->variables[v].gradient, 0, model->model->variables[v].bytes);
        if (value != NULL) {
            free(value);
            model->initial[v] = NULL;
        }
        session_transfer_queue(model, v);
    }
    model->step = 0;
    model->weight = 1;
    model->finishing = true;
}

/* session_supported -- what the ps cannot do yet is refused before anybody trains with it. */
static int session_supported(const struct session *session, const struct model *model)
{
    bool plain = model->update == MODEL_STRICT &&
                 model_replicas(model, session->workers) == session->workers &&
                 model->non_finite == MODEL_PROPAGATE &&
                 (model->optimizer == MODEL_SGD || model->optimizer == MODEL_MOMENTUM) &&
                 model->l2_decay == 0 && model->clip_value == 0 && model->clip_norm == 0 &&
                 model->clip_global_norm == 0 && model->average_decay == 0;

    for (size_t i = 0; plain && i < model->count; i++) {
        const struct model_variable *v = &model->variables[i];
        plain = v->kind == STEPGATE_TRAINED && v->dtype == STEPGATE_F32 &&
                v->gradient_dtype == STEPGATE_F32 && v->learning_rate_scale == 1 && !v->frozen;
    }
    if (!plain)
        return error_set(STEPGATE_EINVAL, 0,
                         "use update strict, sgd or momentum, and f32 variables that are trained",
                         "model %s: a key, kind or option of it is not built yet", model->name);
    return 0;
}

/* session_commit_check -- does what was declared fit together, and the job? */
static int session_commit_check(const struct session_model *model)
{
    int status = model_check_keys(model->model);

    if (status == 0)
        status = model_check_workers(model->model, model->session->workers);
    return status != 0 ? status : session_supported(model->session, model->model);
}

/* session_commit_step -- one move of the commit. */
static int session_commit_step(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;
    int status;

    if (model->state == MODEL_DECLARED) {
        status = session_commit_tell(model, now);
        if (status != 0)
            return status;
        model->state = MODEL_TOLD;
    }
    if (model->state == MODEL_TOLD) {
        status = session_commit_import(model);
        if (status == 0)
            status = session_commit_buffers(model);
        if (status != 0)
            return status;
        if (session->rank == 0)
            session_commit_initial(model);
        model->state = MODEL_PLACED;
    }
    session_model_progress(model, now);
    if (!model->token_there)
        return -STEPGATE_EAGAIN;
    model->state = MODEL_COMMITTED;
    return 0;
}

/* session_commit_try -- see session.h. */
int session_commit_try(struct session_model *model, uint64_t now, struct stepgate_model_info *info)
{
    struct session *session = model->session;

    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    if (!session->joined)
        return error_set(STEPGATE_ESTATE, 0, "join first", "commit before the join is done");
    if (model->state == MODEL_COMMITTED)
        return error_set(STEPGATE_EALREADY, 0, "", "model %s is committed already", model->model->name);
    if (model->model->count == 0)
        return error_set(STEPGATE_EINVAL, 0, "declare at least one variable", "model %s has no variable",
                         model->model->name);
    int status = model->state == MODEL_DECLARED ? session_commit_check(model) : 0;
    if (status != 0)
        return status;
    status = session_commit_step(model, now);
    if (status == -STEPGATE_EAGAIN)
        return status;
    if (status != 0) { /* half placed: there is no way back */
        session_fail(session);
        return session_error(session);
    }
    if (info != NULL) {
        info->step = model->token_step;
        info->bytes = 0;
        for (size_t v = 0; v < model->model->count; v++)
            info->bytes += model->model->variables[v].bytes;
        info->restored = 0;
        info->in_place = model->in_place;
        bool mapped = true;
        for (uint32_t s = 0; s < session->shard_count; s++)
            mapped = mapped && session_mapped(&model->places[s]);
        info->copies_push = info->copies_pull = mapped && !model->in_place ? 1 : 0;
    }
    return 0;
}

/* session_model_message -- a message about a model. */
void session_model_message(struct session *session, struct session_shard *shard, const struct message *m,
                           uint64_t now)
{
    struct session_model *model = m->model < session->model_count ? session->models[m->model] : NULL;

    if (model == NULL || (m->kind != MESSAGE_TOKEN && model->state != MODEL_TOLD) ||
        (m->kind == MESSAGE_TOKEN && (shard->number != 0 || model->state < MODEL_TOLD))) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "ps %u sent a %s for model %u at the wrong time", shard->number, message_name(m->kind),
                  m->model);
        session_fail(session);
        return;
    }
    struct session_place *place = &model->places[shard->number];
    switch (m->kind) {
    case MESSAGE_MODEL_ASK:
        if (session_commit_parts(model, shard, now) != 0)
            session_fail(session);
        return;
    case MESSAGE_MODEL_OK:
        place->slots_descriptor = m->descriptor;
        place->slot_arena = m->arena_offset;
        place->slot_headers = m->header_offset;
        place->slots_told = true;
        return;
    case MESSAGE_PARAMETERS:
        place->parameters_descriptor = m->descriptor;
        place->parity[0] = m->arena_offset;
        place->parity[1] = m->header_offset;
        place->parameters_told = true;
        return;
    default: /* a token: a mailbox that holds the latest, so an old one changes nothing */
        if (model->token_there && m->step <= model->token_step)
            return;
        model->token_there = true;
        model->token_step = m->step;
        model->token_verdict = (int)m->verdict;
        model->token_verdict_step = m->verdict_step;
    }
}
