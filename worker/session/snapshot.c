/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot -- copies of one exact step. Every shard makes its copy at the same step and says where it lies; it stays there, and as it is, until
 * this reader is done with it. One at a time per model.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ps/optimizer/rule.h"
#include "transport/base/error.h"
#include "worker/session/inside.h"

#define SNAPSHOT_CHUNK (UINT64_C(256) << 10) /* read at once over a network */
#define SNAPSHOT_SCRATCH (SNAPSHOT_BATCH * SNAPSHOT_CHUNK)

/* snapshot_there -- does the model have what is asked for? */
static int snapshot_there(const struct session_model *model, uint32_t what)
{
    const struct model *m = model->model;

    if (what == SESSION_PARAMETERS)
        return 0;
    if (what == SESSION_AVERAGES)
        return m->average_decay > 0 ? 0
                                    : error_set(STEPGATE_ENOENT, 0, "set average_decay before commit",
                                                "model %s has no averages", m->name);
    if (session_slot_name(model, what - SESSION_SLOT) == NULL)
        return error_set(STEPGATE_ENOENT, 0, "", "the optimizer %s has no slot %u", model_optimizer_name(m),
                         what - SESSION_SLOT);
    return 0;
}

/* snapshot_has -- does the variable have it? */
static bool snapshot_has(const struct model_variable *v, uint32_t what)
{
    if (what == SESSION_PARAMETERS)
        return v->kind != STEPGATE_AUX;
    return (v->kind == STEPGATE_TRAINED || v->kind == STEPGATE_SPARSE) && !v->frozen &&
           (what != SESSION_AVERAGES || v->average);
}

/* session_snapshot_check -- see session.h. */
int session_snapshot_check(const struct session_model *model, uint32_t what, const int *ids, size_t count)
{
    int status = session_error(model->session);

    if (status == 0 && model->state != MODEL_COMMITTED)
        status = error_set(STEPGATE_ESTATE, 0, "call commit first", "model %s is not committed",
                           model->model->name);
    if (status == 0)
        status = snapshot_there(model, what);
    for (size_t i = 0; status == 0 && i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= model->model->count)
            return error_set(STEPGATE_EINVAL, 0, "", "there is no variable %d: the model has %zu", ids[i],
                             model->model->count);
        const struct model_variable *v = &model->model->variables[ids[i]];
        if (!snapshot_has(v, what))
            return error_set(STEPGATE_EINVAL, 0, "", "variable %s (%s%s) has no %s", v->name,
                             model_kind_name(v->kind), v->frozen ? ", frozen" : "",
                             what == SESSION_PARAMETERS ? "value on the ps that others could read"
                             : what == SESSION_AVERAGES ? "average"
                                                        : "optimizer slots");
    }
    return status;
}

/* session_snapshot_bytes -- see session.h. */
uint64_t session_snapshot_bytes(const struct session_model *model, uint32_t what, uint32_t variable)
{
    const struct model_variable *v = &model->model->variables[variable];

    return what == SESSION_PARAMETERS ? v->bytes : v->elements * plan_state_element(v->dtype);
}

/* snapshot_arena -- how many bytes a shard's copy has. */
static uint64_t snapshot_arena(const struct session_model *model, uint32_t s)
{
    const struct plan_shard *shard = &model->plan->shard[s];

    return model->snapshot.what == SESSION_PARAMETERS ? shard->arena_bytes : shard->state_bytes;
}

/* snapshot_clear -- nothing is under way, nothing is wanted. */
static void snapshot_clear(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;

    for (uint32_t s = 0; snapshot->copies != NULL && s < model->session->shard_count; s++)
        if (snapshot->copies[s].remote != NULL)
            snapshot->copies[s].remote->transport->remote_delete(&snapshot->copies[s].remote);
    free(snapshot->copies);
    free(snapshot->ids);
    free(snapshot->out);
    snapshot->copies = NULL;
    snapshot->ids = NULL;
    snapshot->out = NULL;
    snapshot->active = false;
}

/* session_snapshot_delete -- see inside.h. */
void session_snapshot_delete(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;

    snapshot_clear(model);
    session_unregister(snapshot->scratch_region);
    if (snapshot->scratch != NULL)
        munmap(snapshot->scratch, SNAPSHOT_SCRATCH);
    snapshot->scratch = NULL;
}

/* session_snapshot_cancel -- the copies are let go. Reads under way still use what was imported: that stays until they are done. */
void session_snapshot_cancel(struct session_model *model, uint64_t now)
{
    struct session_snapshot *snapshot = &model->snapshot;
    const struct message done = {
        .kind = MESSAGE_SNAPSHOT_DONE, .model = model->number, .offset = snapshot->id};
    struct stepgate_error why;

    if (!snapshot->active)
        return;
    snapshot->active = false;
    error_save(&why); /* of whoever gives up: that a lost ps cannot be told is no news */
    if (link_send(&model->session->shards[0].control.link, &done, now) != 0)
        error_restore(&why);
}

/* session_snapshot_break -- see inside.h. */
void session_snapshot_break(struct session_model *model, uint32_t shard, uint64_t now)
{
    model->snapshot.done += model->places[shard].copying;
    model->places[shard].copying = 0;
    session_snapshot_cancel(model, now);
}

/* snapshot_ask -- a new one. What was wanted is kept: whoever repeats the call may have the same in other memory. */
static int snapshot_ask(struct session_model *model, uint32_t what, const int *ids, size_t count,
                        void *const *out, uint64_t now)
{
    struct session_snapshot *snapshot = &model->snapshot;
    struct message ask = {.kind = MESSAGE_SNAPSHOT, .model = model->number, .what = what};

    snapshot_clear(model);
    snapshot->copies = calloc(model->session->shard_count, sizeof(*snapshot->copies));
    snapshot->ids = calloc(count, sizeof(*snapshot->ids));
    snapshot->out = calloc(count, sizeof(*snapshot->out));
    if (snapshot->copies == NULL || snapshot->ids == NULL || snapshot->out == NULL) {
        snapshot_clear(model);
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a snapshot of %zu variables", count);
    }
    for (size_t i = 0; i < count; i++)
        snapshot->ids[i] = (uint32_t)ids[i];
    memcpy(snapshot->out, out, count * sizeof(*out));
    snapshot->what = what;
    snapshot->count = count;
    snapshot->refused = false;
    snapshot->at_variable = snapshot->at_piece = snapshot->batch_count = 0;
    snapshot->at_byte = 0;
    ask.offset = ++snapshot->id;
    snapshot->active = link_send(&model->session->shards[0].control.link, &ask, now) == 0;
    return 0;
}

/* snapshot_same -- is it the one that is under way? */
static bool snapshot_same(const struct session_model *model, uint32_t what, const int *ids, size_t count,
                          void *const *out)
{
    const struct session_snapshot *snapshot = &model->snapshot;

    if (!snapshot->active || snapshot->what != what || snapshot->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (snapshot->ids[i] != (uint32_t)ids[i] || snapshot->out[i] != out[i])
            return false;
    return true;
}

/* session_snapshot_message -- one that is no longer wanted is told of as well: it was made before the shard knew. */
bool session_snapshot_message(struct session *session, const struct session_shard *shard,
                              const struct message *m)
{
    struct session_model *model = session_model_of(session, m->model);
    bool ready = m->kind == MESSAGE_SNAPSHOT_READY;

    if (model == NULL || model->state != MODEL_COMMITTED)
        return false;
    struct session_snapshot *snapshot = &model->snapshot;
    if (!snapshot->active || (ready ? m->header_offset : m->offset) != snapshot->id)
        return true;
    struct session_copy *copy = &snapshot->copies[shard->number];
    if (!ready)
        snapshot->refused = true;
    else if (copy->told)
        return false;
    else
        *copy = (struct session_copy){
            .told = true, .step = m->step, .offset = m->arena_offset, .descriptor = m->descriptor};
    return true;
}

/* snapshot_import -- 0 when every shard's copy can be read, all of one step. */
static int snapshot_import(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;

    for (uint32_t s = 0; s < model->session->shard_count; s++)
        if (!snapshot->copies[s].told)
            return -STEPGATE_EAGAIN;
    for (uint32_t s = 0; s < model->session->shard_count; s++) {
        struct session_copy *copy = &snapshot->copies[s];
        struct stepgate_endpoint *pull = session_pull_endpoint(&model->session->shards[s], 0);
        if (copy->remote != NULL)
            continue;
        if (pull == NULL)
            return -STEPGATE_EAGAIN;
        int status = pull->transport->endpoint_import(pull, &copy->descriptor, &copy->remote);
        if (status != 0)
            return status;
        if (copy->step != snapshot->copies[0].step ||
            !session_fits(copy->offset, snapshot_arena(model, s), copy->remote->length))
            return error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                             "ps %u made a snapshot of %llu bytes of step %llu, ps 0 one of step %llu", s,
                             (unsigned long long)copy->remote->length, (unsigned long long)copy->step,
                             (unsigned long long)snapshot->copies[0].step);
    }
    return 0;
}

/* snapshot_scratch -- memory that the device can write. */
static int snapshot_scratch(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;

    if (snapshot->scratch != NULL)
        return 0;
    void *memory = mmap(NULL, SNAPSHOT_SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, 0, "free memory", "no memory for a snapshot");
    int status = session_register(model, memory, SNAPSHOT_SCRATCH, snapshot->scratch_region);
    if (status != 0)
        munmap(memory, SNAPSHOT_SCRATCH);
    else
        snapshot->scratch = memory;
    return status;
}

/* A part of a variable's piece: where it is in the shard's copy, and where it goes. */
struct snapshot_part {
    uint32_t shard;
    uint64_t source, bytes;
    uint8_t *target;
};

/* snapshot_part -- what is next; false: nothing is. */
static bool snapshot_part(const struct session_model *model, struct snapshot_part *out)
{
    const struct session_snapshot *snapshot = &model->snapshot;

    if (snapshot->at_variable == snapshot->count)
        return false;
    uint32_t variable = snapshot->ids[snapshot->at_variable];
    const struct model_variable *v = &model->model->variables[variable];
    const struct plan_piece *piece =
        &model->plan->by_variable[model->plan->variable_first[variable] + snapshot->at_piece];
    bool values = snapshot->what == SESSION_PARAMETERS;
    uint64_t element = values ? model_dtype_bytes(v->dtype) : plan_state_element(v->dtype);

    *out =
        (struct snapshot_part){.shard = piece->shard,
                               .source = (values ? piece->offset : piece->state_offset) + snapshot->at_byte,
                               .bytes = piece->elements * element - snapshot->at_byte,
                               .target = (uint8_t *)snapshot->out[snapshot->at_variable] +
                                         piece->first_element * element + snapshot->at_byte};
    return true;
}

/* snapshot_advance -- behind that many bytes of the piece, of which `left` are left. */
static void snapshot_advance(struct session_model *model, uint64_t bytes, uint64_t left)
{
    struct session_snapshot *snapshot = &model->snapshot;
    uint32_t variable = snapshot->ids[snapshot->at_variable];
    const struct plan *plan = model->plan;

    snapshot->at_byte += bytes;
    if (left > 0)
        return;
    snapshot->at_byte = 0;
    if (++snapshot->at_piece == plan->variable_first[variable + 1] - plan->variable_first[variable]) {
        snapshot->at_piece = 0;
        snapshot->at_variable++;
    }
}

/* snapshot_read -- one part over a network, at most one chunk of it. Returns its bytes, or an error of the post. */
static int64_t snapshot_read(struct session_model *model, const struct snapshot_part *part)
{
    struct session_snapshot *snapshot = &model->snapshot;
    const struct session_shard *shard = &model->session->shards[part->shard];
    const struct session_copy *copy = &snapshot->copies[part->shard];
    struct stepgate_endpoint *endpoint = session_pull_endpoint(shard, 0);
    uint64_t bytes = part->bytes < SNAPSHOT_CHUNK ? part->bytes : SNAPSHOT_CHUNK;
    int status = endpoint != NULL ? snapshot_scratch(model) : -STEPGATE_EAGAIN;

    if (status == 0)
        status = endpoint->transport->endpoint_read(
            endpoint, snapshot->scratch_region[shard->route], snapshot->batch_count * SNAPSHOT_CHUNK,
            copy->remote, copy->offset + part->source, bytes, STEPGATE_POST_COMPLETE,
            session_context(model, CONTEXT_SNAPSHOT, 0));
    if (status != 0)
        return status;
    snapshot->posted++;
    model->places[part->shard].copying++;
    snapshot->batch[snapshot->batch_count++] =
        (struct session_snapshot_piece){.target = part->target, .bytes = bytes};
    return (int64_t)bytes;
}

/* snapshot_hand_over -- what was read over a network. */
static void snapshot_hand_over(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;

    for (size_t i = 0; i < snapshot->batch_count; i++)
        memcpy(snapshot->batch[i].target, snapshot->scratch + i * SNAPSHOT_CHUNK, snapshot->batch[i].bytes);
    snapshot->batch_count = 0;
}

/* snapshot_copy -- 0 when everything is where it was wanted. Nothing changes the copies meanwhile. */
static int snapshot_copy(struct session_model *model)
{
    struct session_snapshot *snapshot = &model->snapshot;
    struct session *session = model->session;
    struct snapshot_part part;

    for (;;) {
        if (snapshot->done < snapshot->posted)
            return -STEPGATE_EAGAIN;
        snapshot_hand_over(model);
        while (snapshot->batch_count < SNAPSHOT_BATCH && snapshot_part(model, &part)) {
            const struct session_copy *copy = &snapshot->copies[part.shard];
            int64_t bytes = (int64_t)part.bytes;
            if (copy->remote->mapped != NULL)
                memcpy(part.target, (const uint8_t *)copy->remote->mapped + copy->offset + part.source,
                       part.bytes);
            else
                bytes = snapshot_read(model, &part);
            if (bytes == -STEPGATE_EAGAIN && snapshot->batch_count > 0)
                break;
            if (bytes < 0)
                return (int)bytes;
            session->stats.bytes_copied += (uint64_t)bytes;
            session->stats.bytes_pulled += (uint64_t)bytes;
            snapshot_advance(model, (uint64_t)bytes, part.bytes - (uint64_t)bytes);
        }
        if (snapshot->batch_count == 0 && !snapshot_part(model, &part))
            return 0;
    }
}

/* snapshot_move -- goes on until everything is there, or must wait. */
static int snapshot_move(struct session_model *model)
{
    int status;

    if (model->snapshot.refused)
        return error_set(STEPGATE_ENOMEM, 0, "look at the output of the ps",
                         "a ps has no memory for a snapshot of model %s", model->model->name);
    status = snapshot_import(model);
    if (status == 0)
        status = snapshot_copy(model);
    return status == -STEPGATE_EPEER ? -STEPGATE_EAGAIN : status; /* ends in the job's failure */
}

/* session_snapshot_try -- see session.h. */
int session_snapshot_try(struct session_model *model, uint32_t what, const int *ids, size_t count,
                         void *const *out, uint64_t now, uint64_t *step)
{
    struct session_snapshot *snapshot = &model->snapshot;

    session_progress(model->session, now);
    if (model->session->failed)
        return session_error(model->session);
    if (!snapshot_same(model, what, ids, count, out)) {
        session_snapshot_cancel(model, now);
        if (snapshot->done < snapshot->posted)
            return -STEPGATE_EAGAIN; /* reads of the one before still write the scratch memory */
        int status = snapshot_ask(model, what, ids, count, out, now);
        if (status != 0)
            return status;
    }
    int status = snapshot->active ? snapshot_move(model) : -STEPGATE_EAGAIN;
    if (status == -STEPGATE_EAGAIN)
        return status;
    uint64_t made = snapshot->copies[0].step;
    session_snapshot_cancel(model, now); /* read, or given up */
    if (snapshot->done == snapshot->posted)
        snapshot_clear(model);
    if (status == -STEPGATE_EPROTOCOL) {
        session_fail(model->session);
        return session_error(model->session);
    }
    if (status == 0)
        *step = made;
    return status;
}
