/* SPDX-License-Identifier: BSD-3-Clause */
/* commit -- how a declared model comes to be placed: told to the shards, its slots and parameters imported, its initial values sent. */
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_model_of -- workers number models in the order in which they are made; an observer learns the number. */
struct session_model *session_model_of(const struct session *session, uint32_t number)
{
    if (!session->observer)
        return number < session->model_count ? session->models[number] : NULL;
    for (size_t m = 0; m < session->model_count; m++)
        if (session->models[m]->number == number)
            return session->models[m];
    return NULL;
}

/* session_model_new -- the model with the next number. */
int session_model_new(struct session *session, const char *name, struct session_model **out)
{
    int status = session_error(session);

    if (status == 0)
        status = session_need_worker(session, "declare a model");
    return status != 0 ? status : session_model_add(session, name, out);
}

/* session_model_add -- see inside.h. */
int session_model_add(struct session *session, const char *name, struct session_model **out)
{
    int status;

    for (size_t m = 0; m < session->model_count; m++)
        if (name != NULL && strcmp(session->models[m]->model->name, name) == 0)
            return error_set(STEPGATE_EALREADY, 0, "give each model a name of its own",
                             "the job has a model %s already", name);
    if (session->model_count >= SLOT_MODELS_MAX)
        return error_set(STEPGATE_EINVAL, 0, "make one model of variables that are updated together",
                         "a job has at most %u models", SLOT_MODELS_MAX);
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
    model->number = session->observer ? UINT32_MAX : (uint32_t)session->model_count;
    model->fetch.alarm = CLOCK_NEVER;
    session->models[session->model_count++] = model;
    *out = model;
    return 0;
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
    session_initial_delete(model);
    session_fetch_delete(model);
    session_snapshot_delete(model);
    session_memory_delete(model);
    rows_clear(&model->rows);
    free(model->variables);
    free(model->segments);
    free(model->parts);
    free(model->said);
    free(model->pending);
    free(model->places);
    free(model->found);
    plan_delete(&model->plan);
    if (!model->lent)
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
    return model->state == MODEL_DECLARED && !model->session->observer;
}

/* session_commit_segment -- cuts what is read of a fragment into chunks. */
static uint32_t session_commit_segment(struct session_model *model, const struct plan_fragment *fragment,
                                       uint32_t shard, struct session_segment *out)
{
    const struct model_variable *v = &model->model->variables[fragment->variable];
    uint64_t element = model_dtype_bytes(v->dtype), bytes = fragment->elements * element;
    uint64_t chunk = model->session->chunk_bytes;
    uint32_t count = 0;

    if (v->kind == STEPGATE_AUX)
        return 0;
    for (uint64_t from = 0; from < bytes; from += chunk, count++)
        if (out != NULL)
            out[count] = (struct session_segment){.variable = fragment->variable,
                                                  .shard = shard,
                                                  .lane = fragment->lane,
                                                  .group = fragment->group,
                                                  .first = fragment->first_element * element + from,
                                                  .offset = fragment->offset + from,
                                                  .bytes = bytes - from < chunk ? bytes - from : chunk};
    return count;
}

/* session_commit_part -- what is pushed of a fragment. Where the rows of a sparse one lie locally is found out with the memory. */
static struct session_part session_commit_part(const struct session_model *model,
                                               const struct plan_fragment *fragment, uint32_t shard)
{
    const struct model_variable *v = &model->model->variables[fragment->variable];
    const struct plan_piece *piece = &model->plan->by_shard[fragment->piece];
    struct session_part part = {.variable = fragment->variable,
                                .shard = shard,
                                .lane = fragment->lane,
                                .group = fragment->group,
                                .offset = fragment->slot_offset};
    uint64_t element = model_dtype_bytes(v->gradient_dtype);

    if (v->kind == STEPGATE_SPARSE) {
        part.first_row = piece->first_element / v->row_elements;
        part.end_row = part.first_row + piece->elements / v->row_elements;
        part.rows_max = piece->rows_max;
    } else if (!v->frozen) {
        part.first = fragment->first_element * element;
        part.bytes = fragment->elements * element;
    }
    return part;
}

/* session_commit_fragment -- counts what a fragment is read and pushed in, or fills it in where its variable knows its first places. */
static void session_commit_fragment(struct session_model *model, const struct plan_fragment *fragment,
                                    uint32_t shard, struct session_span *fill)
{
    struct session_variable *v = &model->variables[fragment->variable];
    struct session_segment *out = fill != NULL ? &model->segments[v->first_segment + v->segments] : NULL;
    uint32_t segments = session_commit_segment(model, fragment, shard, out);

    if (fill != NULL) {
        model->parts[v->first_part + v->parts] = session_commit_part(model, fragment, shard);
        fill->parts++;
        fill->segments += segments;
    }
    v->segments += segments;
    v->parts++;
}

/* session_commit_visit -- goes through the fragments; once to count and once to fill. */
static void session_commit_visit(struct session_model *model, bool fill)
{
    const struct plan *plan = model->plan;

    for (uint32_t s = 0; s < plan->shards; s++)
        for (uint32_t g = 0; g < plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < plan->lanes; l++) {
                const struct plan_span *planned = &plan->shard[s].spans[g][l];
                struct session_span *span = fill ? &model->places[s].spans[g][l] : NULL;
                for (size_t f = 0; f < planned->fragments; f++)
                    session_commit_fragment(model, &plan->fragments[planned->first_fragment + f], s, span);
            }
}

/* session_commit_compare -- by their place in the variable. */
static int session_commit_compare(const void *a, const void *b)
{
    const struct session_segment *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/* session_commit_spans -- what each span weighs, and how many there are. */
static void session_commit_spans(struct session_model *model)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                struct session_span *span = &model->places[s].spans[g][l];
                span->bytes = model->plan->shard[s].spans[g][l].slot_bytes;
                model->spans_total += span->parts > 0;
            }
}

/* session_commit_cut -- parts and segments of every variable, and how many of them each span has. */
static int session_commit_cut(struct session_model *model)
{
    session_commit_visit(model, false);
    for (uint32_t i = 0; i < model->model->count; i++) {
        struct session_variable *v = &model->variables[i];
        v->first_segment = model->segment_count;
        v->first_part = model->part_count;
        model->segment_count += v->segments;
        model->part_count += v->parts;
        v->segments = v->parts = 0;
    }
    uint32_t most = model->segment_count > model->part_count ? model->segment_count : model->part_count;
    model->segments = calloc(most, sizeof(*model->segments));
    model->parts = calloc(most, sizeof(*model->parts));
    model->pending = calloc(most, sizeof(*model->pending));
    if (model->quota > 1)
        model->said = calloc((size_t)model->depth * most, sizeof(*model->said));
    if (model->segments == NULL || model->parts == NULL || model->pending == NULL ||
        (model->quota > 1 && model->said == NULL))
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to place model %s", model->model->name);
    session_commit_visit(model, true);
    for (uint32_t i = 0; i < model->model->count; i++)
        qsort(&model->segments[model->variables[i].first_segment], model->variables[i].segments,
              sizeof(*model->segments), session_commit_compare);
    session_commit_spans(model);
    return 0;
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

/* session_place_plan -- see inside.h. */
int session_place_plan(struct session_model *model)
{
    struct session *session = model->session;
    struct plan_options options = {session->shard_count, session->lanes, session->group_bytes,
                                   session->cut_bytes};
    int status = plan_new(model->model, &options, &model->plan);

    if (status != 0)
        return status;
    model->lockstep = model_lockstep(model->model, session->workers);
    model->depth = model_slot_depth(model->model, session->workers);
    model->quota = model_quota(model->model, session->workers, session->rank);
    model->variables = calloc(model->model->count, sizeof(*model->variables));
    model->places = calloc(session->shard_count, sizeof(*model->places));
    if (model->variables == NULL || model->places == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory to place model %s", model->model->name);
    for (uint32_t s = 0; s < session->shard_count; s++)
        model->places[s].slot_stride = slot_stride(model->plan->shard[s].slot_bytes);
    return session_commit_cut(model);
}

/* session_commit_tell -- plans, and tells every shard. */
static int session_commit_tell(struct session_model *model, uint64_t now)
{
    struct session *session = model->session;
    int status = session_place_plan(model);

    if (status != 0)
        return status;
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

/* session_commit_slots -- is there room for everything in the slots that a shard grants? */
static bool session_commit_slots(const struct session_model *model, uint32_t s)
{
    const struct session_place *place = &model->places[s];
    const struct plan_shard *planned = &model->plan->shard[s];
    uint64_t headers = slot_header_offset(model->plan->lanes, model->depth, 0, 0);
    uint64_t slots = (model->depth - 1) * place->slot_stride + planned->slot_bytes;

    if (model->session->rank == 0 && slots < planned->arena_bytes)
        slots = planned->arena_bytes; /* initial values go there, too */
    return session_fits(place->slot_headers, headers, place->slot_arena) &&
           session_fits(place->slot_arena, slots, place->slots->length);
}

/* session_commit_parameters -- the same of its parameters. */
static bool session_commit_parameters(const struct session_model *model, uint32_t s)
{
    const struct session_place *place = &model->places[s];
    const struct plan_shard *planned = &model->plan->shard[s];
    uint64_t words = model->plan->lanes * sizeof(struct slot_words);

    return session_fits(place->parity[0], planned->arena_bytes, place->parameters->length) &&
           session_fits(place->parity[1], planned->arena_bytes, place->parameters->length) &&
           place->words % PLAN_LINE == 0 && session_fits(place->words, words, place->parameters->length);
}

/* session_commit_short -- a shard grants too little. */
static int session_commit_short(const struct session_model *model, uint32_t s)
{
    return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                     "ps %u grants less memory than model %s takes", s, model->model->name);
}

/* session_place_parameters -- see inside.h. */
int session_place_parameters(struct session_model *model, uint32_t s)
{
    struct session_place *place = &model->places[s];
    struct stepgate_endpoint *pull = session_pull_endpoint(&model->session->shards[s], 0);

    if (place->parameters != NULL)
        return 0;
    if (!place->parameters_told || pull == NULL)
        return -STEPGATE_EAGAIN;
    int status = pull->transport->endpoint_import(pull, &place->parameters_descriptor, &place->parameters);
    if (status != 0)
        return status;
    return session_commit_parameters(model, s) ? 0 : session_commit_short(model, s);
}

/* session_commit_import -- 0 when slots and parameters of every shard are there. */
static int session_commit_import(struct session_model *model)
{
    struct session *session = model->session;

    for (uint32_t s = 0; s < session->shard_count; s++) {
        struct session_place *place = &model->places[s];
        struct session_shard *shard = &session->shards[s];
        struct stepgate_endpoint *control = session_endpoint_of(&shard->control.link);
        int status = 0;

        if (place->slots == NULL && (!place->slots_told || control == NULL))
            return -STEPGATE_EAGAIN;
        if (place->slots == NULL)
            status = control->transport->endpoint_import(control, &place->slots_descriptor, &place->slots);
        if (status == 0)
            status = session_place_parameters(model, s);
        if (status != 0)
            return status;
        if (!session_commit_slots(model, s))
            return session_commit_short(model, s);
    }
    return 0;
}

/* commit_broke -- was a connection made anew? Initial values that were sent again may still be on their way: they stay where they are as long as the model. */
static bool commit_broke(const struct session *session)
{
    for (uint32_t s = 0; s < session->shard_count; s++)
        if (session->shards[s].breaks > 0)
            return true;
    return false;
}

/* session_commit_step -- one move of the commit. */
static int session_commit_step(struct session_model *model, uint64_t now)
{
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
            status = session_memory_new(model);
        if (status == 0)
            status = session_initial_new(model);
        if (status != 0)
            return status;
        model->state = MODEL_PLACED;
    }
    session_model_progress(model, now);
    if (!model->token_there || !session_initial_there(model))
        return -STEPGATE_EAGAIN;
    if (!commit_broke(model->session))
        session_initial_delete(model);
    model->state = MODEL_COMMITTED;
    return 0;
}

/* session_commit_info -- what the caller learns. Copies are counted where every ps is mapped: elsewhere the device moves the bytes. */
static void session_commit_info(const struct session_model *model, struct stepgate_model_info *info)
{
    bool mapped = true;

    for (uint32_t s = 0; s < model->session->shard_count; s++)
        mapped = mapped && session_mapped(&model->places[s]);
    info->step = model->token_step;
    info->bytes = 0;
    for (size_t v = 0; v < model->model->count; v++)
        info->bytes += model->model->variables[v].bytes;
    info->restored = model->running ? 2 : (model->kept & MESSAGE_KEPT_RESTORED) != 0;
    info->checkpoints = (model->kept & MESSAGE_KEPT_FOLDER) != 0;
    info->sets = (model->kept & MESSAGE_KEPT_SETS) != 0;
    info->in_place = model->in_place;
    info->copies_push = mapped && model->copied ? 1 : 0;
    info->copies_pull = mapped && !model->in_place ? 1 : 0;
}

/* session_commit_check -- does what was declared fit together, and the job? */
static int session_commit_check(const struct session_model *model)
{
    int status = model_check_keys(model->model);

    return status != 0 ? status : model_check_workers(model->model, model->session->workers);
}

/* session_commit_try -- see session.h. */
int session_commit_try(struct session_model *model, uint64_t now, struct stepgate_model_info *info)
{
    struct session *session = model->session;
    int status;

    session_progress(session, now);
    if (session->failed)
        return session_error(session);
    status = session_need_worker(session, "commit");
    if (status != 0)
        return status;
    if (!session->joined)
        return error_set(STEPGATE_ESTATE, 0, "join first", "commit before the join is done");
    if (model->state == MODEL_COMMITTED)
        return error_set(STEPGATE_EALREADY, 0, "", "model %s is committed already", model->model->name);
    if (model->model->count == 0)
        return error_set(STEPGATE_EINVAL, 0, "declare at least one variable", "model %s has no variable",
                         model->model->name);
    status = model->state == MODEL_DECLARED ? session_commit_check(model) : 0;
    if (status != 0)
        return status;
    status = session_commit_step(model, now);
    if (status == -STEPGATE_EAGAIN || status == -STEPGATE_EPEER)
        return -STEPGATE_EAGAIN; /* a broken link ends in the job's failure */
    if (status != 0) {           /* half placed: there is no way back */
        session_fail(session);
        return session_error(session);
    }
    if (info != NULL)
        session_commit_info(model, info);
    return 0;
}

/* session_commit_token -- a mailbox that holds the latest, so an old one changes nothing. */
static void session_commit_token(struct session_model *model, const struct message *m)
{
    uint64_t next = m->sequence + 1; /* 0: the commit's, which answers nothing */

    if (model->token_there && next <= model->token_next)
        return;
    if (!model
             ->first_known) /* a worker that came back goes on counting where the one before it may have stopped */
        model->sequence = model->sending = m->offset;
    if (next > model->sequence) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "the leader answers contribution %llu, %llu were handed in",
                  (unsigned long long)m->sequence, (unsigned long long)model->sequence);
        session_fail(model->session);
        return;
    }
    struct session_use *use = &model->slots[next > 0 ? m->sequence % model->depth : 0];
    if (next > 0 && use->used && use->sequence == m->sequence)
        use->dropped = m->verdict == STEPGATE_VERDICT_STALE || m->verdict == STEPGATE_VERDICT_EMPTY ||
                       m->verdict == STEPGATE_VERDICT_NON_FINITE;
    if (!model->first_known) { /* the first of all */
        model->kept = m->kept;
        session_transfer_first(model, m->step);
    }
    model->token_there = true;
    model->token_next = next > 0 ? next : model->sequence;
    model->token_replicas = m->count;
    model->token_workers = m->workers;
    model->token_step = m->step;
    model->token_verdict = (int)m->verdict;
    model->token_verdict_step = m->verdict_step;
    model->token_staleness = m->staleness;
}

/* commit_again -- where memory is is told again when connections were made anew; what was taken before is still of use. */
static bool commit_again(const struct session_model *model, const struct session_shard *shard,
                         const struct message *m)
{
    const struct session_place *place = model->places != NULL ? &model->places[shard->number] : NULL;

    if (place == NULL || shard->breaks == 0)
        return false;
    return (m->kind == MESSAGE_MODEL_OK && place->slots != NULL) ||
           (m->kind == MESSAGE_PARAMETERS && place->parameters != NULL);
}

/* session_model_message -- a message about a model. */
void session_model_message(struct session *session, struct session_shard *shard, const struct message *m,
                           uint64_t now)
{
    struct session_model *model = session_model_of(session, m->model);
    bool early = m->kind == MESSAGE_MODEL_ASK || m->kind == MESSAGE_MODEL_OK || m->kind == MESSAGE_PARAMETERS;

    if (model != NULL && commit_again(model, shard, m))
        return;
    if (model == NULL || (session->observer && m->kind != MESSAGE_PARAMETERS) ||
        (early ? model->state != MODEL_TOLD : model->state < MODEL_TOLD) ||
        (m->kind == MESSAGE_TOKEN && shard->number != 0) ||
        (m->kind == MESSAGE_RELEASED && m->sequence >= model->sequence)) {
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
        model->running = model->running || (m->kept & MESSAGE_KEPT_RUNNING) != 0;
        return;
    case MESSAGE_PARAMETERS:
        place->parameters_descriptor = m->descriptor;
        place->parity[0] = m->arena_offset;
        place->parity[1] = m->header_offset;
        place->words = m->words_offset;
        place->parameters_told = true;
        return;
    case MESSAGE_RELEASED:
        if (m->sequence + 1 > place->released_next)
            place->released_next = m->sequence + 1;
        return;
    case MESSAGE_AUX:
        if (session_initial_aux(model, m) != 0)
            session_fail(session);
        return;
    default: session_commit_token(model, m);
    }
}
