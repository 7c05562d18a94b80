/* SPDX-License-Identifier: BSD-3-Clause */
/* pulls -- makes values readable. In lockstep what a lane has announced stays as it is until this worker goes on, or is given up; in other modes reads are verified (fetch.c). */
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_model_completion -- a read or write has finished; a failed one is followed by the end of its link. */
void session_model_completion(struct session *session, const struct session_shard *shard, uint64_t context,
                              int status)
{
    struct session_model *model = session_model_of(session, (uint32_t)(context >> 40));
    uint32_t number = (uint32_t)context;

    if (status != 0 || model == NULL)
        return;
    struct session_place *place = &model->places[shard->number];
    switch (context >> 32 & 0xffu) {
    case CONTEXT_FETCH:
        model->fetch.done++;
        place->fetching--;
        return;
    case CONTEXT_SNAPSHOT:
        model->snapshot.done++;
        place->copying--;
        return;
    case CONTEXT_PULL:
        if (number < model->segment_count && model->segments[number].reading) {
            model->segments[number].reading = false;
            model->variables[model->segments[number].variable].pull_done++;
        }
        return;
    case CONTEXT_REPLAY: place->replaying--; return;
    case CONTEXT_WRITE:
        if (number < model->model->count)
            model->variables[number].writes_done++;
        return;
    default: return;
    }
}

/* session_pulls_break -- see inside.h. */
void session_pulls_break(struct session_model *model, uint32_t shard)
{
    for (uint32_t i = 0; i < model->segment_count; i++) {
        struct session_segment *segment = &model->segments[i];
        if (segment->shard != shard || !segment->reading)
            continue;
        segment->reading = false;
        model->variables[segment->variable].pull_done++;
        model->variables[segment->variable].pull_broken = true;
    }
}

/* session_reading -- see inside.h. */
bool session_reading(const struct session_model *model, uint32_t variable)
{
    const struct session_fetch *fetch = &model->fetch;
    const struct session_variable *v = &model->variables[variable];

    return v->pull_done < v->pull_posted || (fetch->done < fetch->posted && !fetch->want.rows);
}

/* session_pull_aux -- the newest value that was pushed, once in a contribution. */
int session_pull_aux(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];

    if (v->pulled_at == session_pull_key(model))
        return 0;
    memcpy(v->caller_parameter != NULL ? v->caller_parameter : v->value, v->aux,
           model->model->variables[variable].bytes);
    v->pulled_at = session_pull_key(model);
    v->lowest = v->highest = model->step;
    model->session->stats.pulls++;
    return 0;
}

/* pulls_ready -- has the lane of every segment announced the step? */
static bool pulls_ready(const struct session_model *model, const struct session_variable *v)
{
#ifdef STEPGATE_MUTANT_READY_IGNORED
    return v->pulled_at == 0 || model->step != v->lowest;
#endif
    for (uint32_t i = 0; i < v->segments; i++) {
        const struct session_segment *segment = &model->segments[v->first_segment + i];
        if (model->places[segment->shard].spans[segment->group][segment->lane].ready_next <= model->step)
            return false;
    }
    return true;
}

/* pulls_segment -- moves the value's bytes of one segment to where the caller reads them. */
static int pulls_segment(struct session_model *model, uint32_t variable, struct session_segment *segment)
{
    struct session *session = model->session;
    struct session_variable *v = &model->variables[variable];
    struct session_place *place = &model->places[segment->shard];
    struct session_shard *shard = &session->shards[segment->shard];
    uint64_t source = place->parity[model->step & 1] + segment->offset, offset = segment->first;
    uint8_t *target = v->caller_parameter != NULL ? v->caller_parameter : v->value;

    if (session_mapped(place)) {
        if (target != NULL) {
            pull_copy(target + segment->first, (const uint8_t *)place->parameters->mapped + source,
                      segment->bytes);
            session->stats.bytes_copied += segment->bytes;
            session->stats.bytes_pulled += segment->bytes;
        }
        v->pull_done++;
        return 0;
    }
    struct stepgate_endpoint *endpoint = session_pull_endpoint(shard, segment->lane);
    if (endpoint == NULL)
        return -STEPGATE_EAGAIN;
    struct stepgate_region *region = session_value_region(model, variable, shard->route, &offset);
    int status = endpoint->transport->endpoint_read(
        endpoint, region, offset, place->parameters, source, segment->bytes, STEPGATE_POST_COMPLETE,
        session_context(model, CONTEXT_PULL, (uint32_t)(segment - model->segments)));
    segment->reading = status == 0;
    if (status == 0)
        session->stats.bytes_pulled += segment->bytes;
    return status;
}

/* session_value_region -- see inside.h. */
struct stepgate_region *session_value_region(const struct session_model *model, uint32_t variable,
                                             unsigned route, uint64_t *offset)
{
    const struct session_variable *v = &model->variables[variable];

    if (v->caller_parameter != NULL)
        return v->caller_parameter_region[route];
    if (v->value_own)
        return v->value_region[route];
    *offset += v->value_offset;
    return model->local_value_region[route];
}

/*
 * session_untouched -- lockstep, after the copy out of a mapping: is the step still what lies there? Not for a worker that stood still, was given up, and wakes: the others
 * have gone on without it, and it is to hear so before it sees a value of two steps. Over a network its connections are gone before a lane goes on.
 */
bool session_untouched(const struct session_model *model, uint32_t shard, uint32_t lane)
{
    const struct session_place *place = &model->places[shard];
    struct pull_words words;

#ifdef STEPGATE_MUTANT_TOUCHED_IS_READ
    return true;
#endif
    if (!session_mapped(place))
        return true;
    pull_look(
        (const struct slot_words *)(const void *)((const uint8_t *)place->parameters->mapped + place->words) +
            lane,
        &words);
    return words.writing[model->step & 1] == model->step;
}

/* pulls_untouched -- all segments of a variable. */
static bool pulls_untouched(const struct session_model *model, const struct session_variable *v)
{
    pull_fence();
    for (uint32_t i = 0; i < v->segments; i++) {
        const struct session_segment *segment = &model->segments[v->first_segment + i];
        if (!session_untouched(model, segment->shard, segment->lane))
            return false;
    }
    return true;
}

/* pulls_there -- is the value of this step readable? */
static bool pulls_there(const struct session_model *model, const struct session_variable *v)
{
    return v->pulled_at > 0 && v->lowest == model->step;
}

/* pulls_one -- 0 when the value of the open step is readable. */
static int pulls_one(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];

    if (model->model->variables[variable].kind == STEPGATE_AUX)
        return session_pull_aux(model, variable);
#ifdef STEPGATE_MUTANT_STALE_CACHE
    if (v->pulled_at > 0 && model->step % 5 == 3) {
        v->lowest = v->highest = model->step;
        return 0;
    }
#endif
    if (pulls_there(model, v)) /* where it is read in place it may be gone since */
        return !v->in_place || pulls_untouched(model, v) ? 0 : -STEPGATE_EAGAIN;
    int status = session_memory_value(model, variable);
    if (status != 0)
        return status;
    if (v->pulling_next != model->step + 1 || v->pull_broken) {
        if (v->pull_done < v->pull_posted)
            return -STEPGATE_EAGAIN; /* reads of before are still writing the buffer */
        v->pull_posted = v->pull_done = 0;
        v->pull_broken = false;
        v->pulling_next = model->step + 1;
    }
    if (v->pull_posted < v->segments && !pulls_ready(model, v))
        return -STEPGATE_EAGAIN;
    while (v->pull_posted < v->segments) {
        status = pulls_segment(model, variable, &model->segments[v->first_segment + v->pull_posted]);
        if (status == -STEPGATE_EAGAIN || status == -STEPGATE_EPEER) {
            model->pull_refused = true; /* a broken link ends in the job's failure */
            return -STEPGATE_EAGAIN;
        }
        if (status != 0)
            return status;
        v->pull_posted++;
    }
    if (v->pull_done < v->pull_posted || !pulls_untouched(model, v))
        return -STEPGATE_EAGAIN;
    v->pulled_at = session_pull_key(model);
    v->lowest = v->highest = model->step;
    model->session->stats.pulls++;
    return 0;
}

/* session_pulls_all -- see inside.h. */
bool session_pulls_all(const struct session_model *model, uint32_t variable)
{
    return model->model->variables[variable].kind != STEPGATE_SPARSE || model->variables[variable].in_place;
}

/* pulls_some -- one variable or all of them; reads of many are under way together. */
static int pulls_some(struct session_model *model, int variable)
{
    int status = 0;

    if (variable != STEPGATE_ALL)
        return pulls_one(model, (uint32_t)variable);
    for (uint32_t v = 0; v < model->model->count; v++) {
        int one = session_pulls_all(model, v) ? pulls_one(model, v) : 0;
        if (one != 0 && (status == 0 || one != -STEPGATE_EAGAIN))
            status = one;
    }
    return status;
}

/* pulls_step -- the oldest step among what was read. */
static uint64_t pulls_step(const struct session_model *model, int variable)
{
    uint64_t step = UINT64_MAX;

    if (model->lockstep)
        return model->step;
    if (variable != STEPGATE_ALL)
        return model->variables[variable].lowest;
    for (uint32_t v = 0; v < model->model->count; v++)
        if (session_pulls_all(model, v) && model->model->variables[v].kind != STEPGATE_AUX &&
            model->variables[v].lowest < step)
            step = model->variables[v].lowest;
    return step == UINT64_MAX ? model->step : step;
}

/* pulls_key -- what a look at all variables depends on: the step, and what has arrived. */
static struct session_look pulls_key(const struct session_model *model)
{
    return (struct session_look){model->step + 1, session_changes(model->session)};
}

/* pulls_attempt -- one look. A wait looks very often, and a model may have very many variables: all of them are looked at only if something has arrived. */
static int pulls_attempt(struct session_model *model, const struct session_want *want, uint64_t now)
{
    const struct session_look key = pulls_key(model);

    if (want->rows || !model->lockstep)
        return session_fetch_try(model, want, now);
    if (want->variable != STEPGATE_ALL)
        return pulls_some(model, want->variable);
    if (model->pull_missed.next == key.next && model->pull_missed.changes == key.changes)
        return -STEPGATE_EAGAIN;
    model->pull_refused = false;
    int status = pulls_some(model, want->variable);
    /* An endpoint that takes no read now may take it the next time, with nothing to arrive in between. */
    if (status == -STEPGATE_EAGAIN && !model->pull_refused)
        model->pull_missed = key;
    return status;
}

/* pulls_try -- looks, and if that was not enough looks again after what has arrived. */
static int pulls_try(struct session_model *model, const struct session_want *want, uint64_t now)
{
    int status = session_error(model->session);

    if (status != 0)
        return status;
    if (!model->begun)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "pull before the first step was begun");
    status = pulls_attempt(model, want, now);
    if (status == -STEPGATE_EAGAIN) {
        session_progress(model->session, now);
        status = session_error(model->session);
        if (status ==
            0) /* a caller that is told EAGAIN may sleep: nothing that is here by now may be overlooked */
            status = pulls_attempt(model, want, now);
    }
    if (status == 0 && model->session->observer)
        model->sending++; /* has no begins: its next pull is another one */
    return status;
}

/* pulls_check -- nobody else has what a worker keeps for itself. */
static int pulls_check(const struct session_model *model, int variable)
{
    if (model->session->observer && variable != STEPGATE_ALL &&
        model->model->variables[variable].kind == STEPGATE_AUX)
        return error_set(STEPGATE_EINVAL, 0, "", "variable %s is private to each worker",
                         model->model->variables[variable].name);
    return 0;
}

/* session_pull_try -- see session.h. */
int session_pull_try(struct session_model *model, int variable, uint64_t now, uint64_t *step_read)
{
    const struct session_want want = {.variable = variable};
    int status = pulls_check(model, variable);

    if (status == 0)
        status = pulls_try(model, &want, now);

    if (status == 0 && step_read != NULL)
        *step_read = pulls_step(model, variable);
    return status;
}

/* pulls_check_rows -- can these rows be read? */
static int pulls_check_rows(const struct session_model *model, const struct session_want *want)
{
    const struct model_variable *v = &model->model->variables[want->variable];

    if (v->kind == STEPGATE_AUX || v->rank == 0)
        return error_set(STEPGATE_EINVAL, 0, "use pull", "variable %s has no rows to be read%s", v->name,
                         v->rank == 0 ? "" : ": it is private to its worker");
    if (want->count > 0 && (want->indices == NULL || want->out == NULL))
        return error_set(STEPGATE_EINVAL, 0, "", "the %s of %s are NULL",
                         want->indices == NULL ? "indices" : "rows", v->name);
    size_t bad = rows_bad(want->indices, want->count, v->dims[0]);
    if (bad < want->count)
        return error_set(STEPGATE_EINVAL, 0, "", "row %llu of %s: it has %llu rows",
                         (unsigned long long)want->indices[bad], v->name, (unsigned long long)v->dims[0]);
    return 0;
}

/* session_pull_rows_try -- see session.h. */
int session_pull_rows_try(struct session_model *model, uint32_t variable, const uint64_t *indices,
                          uint64_t count, void *out, uint64_t now, uint64_t *step_read)
{
    const struct session_want want = {
        .variable = (int)variable, .rows = true, .indices = indices, .count = count, .out = out};
    int status = pulls_check_rows(model, &want);

    if (status == 0)
        status = pulls_try(model, &want, now);
    if (status == 0 && step_read != NULL)
        *step_read = model->fetch.lowest;
    return status;
}
