/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer -- how gradients get into slots and values out of them: segments, headers, notifies, the seal, reads. */
#include <string.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

/* session_transfer_begin -- nothing of this contribution is out yet. */
void session_transfer_begin(struct session_model *model, int slot_kind)
{
    model->slot_kind = slot_kind;
    model->pending_count = 0;
    model->spans_sent = 0;
    model->finishing = false;
    model->sealed = false;
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                struct session_span *span = &model->places[s].spans[g][l];
                span->unsent = span->segments;
                span->state = span->segments == 0 ? SPAN_HEADER : SPAN_FILLING;
            }
}

/* session_transfer_queue -- queues the segments of a variable. */
void session_transfer_queue(struct session_model *model, uint32_t variable)
{
    const struct session_variable *v = &model->variables[variable];

    for (uint32_t i = 0; i < v->segments; i++)
        model->pending[model->pending_count++] = v->first_segment + i;
}

/* session_span_free -- may the slot's span be written? It may once the lane has announced this step: the sum of the last one is done. */
static bool session_span_free(const struct session_model *model, const struct session_span *span)
{
#ifdef STEPGATE_MUTANT_SLOT_REUSED_EARLY
    (void)span;
    return model != NULL;
#else
    return model->slot_kind == SLOT_INITIAL || span->ready_next > model->step;
#endif
}

/* session_transfer_segment -- moves the bytes of one segment. Returns 0, EAGAIN, or an error of the post. */
static int session_transfer_segment(struct session_model *model, const struct session_segment *segment)
{
    struct session *session = model->session;
    struct session_variable *v = &model->variables[segment->variable];
    struct session_place *place = &model->places[segment->shard];
    struct session_shard *shard = &session->shards[segment->shard];
    bool callers = v->caller_gradient != NULL && !v->absent && model->slot_kind == SLOT_GRADIENT;
    const uint8_t *source = (callers ? (const uint8_t *)v->caller_gradient : v->gradient) + segment->first;
    uint64_t target = place->slot_arena + segment->offset;

    if (session_mapped(place)) {
        uint8_t *slot = (uint8_t *)place->slots->mapped + target;
        if (model->slot_kind == SLOT_GRADIENT && v->absent) {
            memset(slot, 0, segment->bytes);
            return 0;
        }
        if (slot != source) {
            memcpy(slot, source, segment->bytes);
            session->stats.bytes_copied += segment->bytes;
        }
        session->stats.bytes_pushed += segment->bytes;
        return 0;
    }
    struct stepgate_endpoint *endpoint = shard->push[segment->lane].link.endpoint;
    struct stepgate_region *region =
        callers ? v->caller_gradient_region[shard->route] : model->local_gradient_region[shard->route];
    uint64_t offset = callers ? segment->first : v->local_offset + segment->first;
    int status = endpoint->transport->endpoint_write(endpoint, region, offset, NULL, place->slots, target,
                                                     segment->bytes, 0, 0);
    if (status == 0)
        session->stats.bytes_pushed += segment->bytes;
    return status;
}

/* session_transfer_header -- writes the header of a full span. */
static int session_transfer_header(struct session_model *model, uint32_t s, uint32_t l, uint32_t g)
{
    struct session_place *place = &model->places[s];
    const struct slot_header header = {.step = model->step,
                                       .incarnation = model->session->hello.incarnation,
                                       .bytes = place->spans[g][l].bytes,
                                       .rank = model->session->rank,
                                       .model = model->number,
                                       .lane = (uint16_t)l,
                                       .group = (uint16_t)g,
                                       .kind = (uint32_t)model->slot_kind,
                                       .magic = SLOT_MAGIC};
    uint64_t offset = place->slot_headers + slot_header_offset(l, g);

    if (session_mapped(place)) {
        memcpy((uint8_t *)place->slots->mapped + offset, &header, sizeof(header));
        return 0;
    }
    struct stepgate_endpoint *endpoint = model->session->shards[s].push[l].link.endpoint;
    return endpoint->transport->endpoint_write(endpoint, NULL, 0, &header, place->slots, offset,
                                               sizeof(header), STEPGATE_WRITE_INLINE, 0);
}

/* session_transfer_span -- header, then notify, once every segment is out. Returns 0 when the span is sent. */
static int session_transfer_span(struct session_model *model, uint32_t s, uint32_t l, uint32_t g)
{
    struct session_span *span = &model->places[s].spans[g][l];
    struct stepgate_endpoint *endpoint = model->session->shards[s].push[l].link.endpoint;
    int status = 0;

#ifdef STEPGATE_MUTANT_NOTIFY_BEFORE_HEADER
    if (span->state == SPAN_HEADER)
        endpoint->transport->endpoint_notify(endpoint, slot_notify(model->number, g, model->step));
#endif
    if (span->state == SPAN_HEADER && session_span_free(model, span)) {
        status = session_transfer_header(model, s, l, g);
        if (status == 0)
            span->state = SPAN_NOTIFY;
    }
    if (span->state == SPAN_NOTIFY && status == 0) {
        status = endpoint->transport->endpoint_notify(endpoint, slot_notify(model->number, g, model->step));
        if (status == 0) {
            span->state = SPAN_SENT;
            model->spans_sent++;
        }
    }
    return status;
}

/* session_transfer_pending -- segments whose span is free go out; the others keep their order. Returns 1 if any went. */
static int session_transfer_pending(struct session_model *model)
{
    uint32_t kept = 0, count = model->pending_count;
    int busy = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct session_segment *segment = &model->segments[model->pending[i]];
        struct session_span *span = &model->places[segment->shard].spans[segment->group][segment->lane];
        if (session_span_free(model, span) && session_transfer_segment(model, segment) == 0) {
            busy = 1;
            if (--span->unsent == 0)
                span->state = SPAN_HEADER;
        } else {
            model->pending[kept++] = model->pending[i];
        }
        if (span->unsent == 0 && span->state != SPAN_SENT)
            session_transfer_span(model, segment->shard, segment->lane, segment->group);
    }
    model->pending_count = kept;
    return busy;
}

/* session_transfer_spans -- headers and notifies that an endpoint did not take before. */
static void session_transfer_spans(struct session_model *model)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                struct session_span *span = &model->places[s].spans[g][l];
                if (span->bytes > 0 && (span->state == SPAN_HEADER || span->state == SPAN_NOTIFY))
                    session_transfer_span(model, s, l, g);
            }
}

/* session_transfer_seal -- the contribution is out: says so to every shard, with its weight. */
static int session_transfer_seal(struct session_model *model, uint64_t now)
{
    struct message seal = {
        .kind = MESSAGE_SEAL, .model = model->number, .step = model->step, .weight = model->weight};

    for (uint32_t s = 0; s < model->plan->shards; s++) {
        int status = link_send(&model->session->shards[s].control.link, &seal, now);
        if (status == -STEPGATE_ENOMEM) {
            session_fail(model->session);
            return status;
        }
    }
    model->sealed = true;
    return 0;
}

/* session_model_progress -- sends what can be sent. */
int session_model_progress(struct session_model *model, uint64_t now)
{
    if (model->state < MODEL_PLACED || model->sealed ||
        (model->state == MODEL_COMMITTED && !model->open && !model->finishing) ||
        (model->state == MODEL_PLACED && model->session->rank != 0))
        return 0;
    int busy = model->pending_count > 0 ? session_transfer_pending(model) : 0;
    if (model->spans_sent < model->spans_total && (model->finishing || model->unpushed == 0))
        session_transfer_spans(model);
    if (model->finishing && (model->weight == 0 || model->spans_sent == model->spans_total)) {
        session_transfer_seal(model, now);
        busy = 1;
    }
    return busy;
}

/* session_model_notify -- a lane announces a span of a step; the low bits are extended from the newest one known. */
void session_model_notify(struct session *session, struct session_shard *shard, uint32_t lane, uint32_t value)
{
    uint32_t number = slot_notify_model(value), group = slot_notify_group(value);
    struct session_model *model = number < session->model_count ? session->models[number] : NULL;

    if (model == NULL || model->state < MODEL_TOLD || group >= model->plan->shard[shard->number].groups) {
        error_set(STEPGATE_EPROTOCOL, 0, "run the same version of stepgate everywhere",
                  "ps %u announced group %u of model %u, which is not there", shard->number, group, number);
        session_fail(session);
        return;
    }
    struct session_span *span = &model->places[shard->number].spans[group][lane];
    uint16_t ahead = (uint16_t)(slot_notify_step(value) - (uint32_t)(span->ready_next & 0xffffu));
    if (ahead < 0x8000u)
        span->ready_next += ahead + 1u;
}

/* session_pull_context -- which read a completion belongs to. */
static uint64_t session_pull_context(const struct session_model *model, uint32_t variable)
{
    return (uint64_t)model->number << 32 | variable;
}

/* session_model_completion -- a read has finished; a failed one is followed by the end of its link. */
void session_model_completion(struct session *session, uint64_t context, int status)
{
    uint64_t number = context >> 32;

    if (status != 0 || number >= session->model_count)
        return;
    struct session_model *model = session->models[number];
    if ((uint32_t)context < model->model->count)
        model->variables[(uint32_t)context].pull_done++;
}

/* session_pull_ready -- has the lane of every segment announced the step? */
static bool session_pull_ready(const struct session_model *model, const struct session_variable *v)
{
#ifdef STEPGATE_MUTANT_READY_IGNORED
    return model->step + 1 > v->pulled_next;
#endif
    for (uint32_t i = 0; i < v->segments; i++) {
        const struct session_segment *segment = &model->segments[v->first_segment + i];
        if (model->places[segment->shard].spans[segment->group][segment->lane].ready_next <= model->step)
            return false;
    }
    return true;
}

/* session_pull_segment -- moves the value's bytes of one segment to where the caller reads them. */
static int session_pull_segment(struct session_model *model, uint32_t variable,
                                const struct session_segment *segment)
{
    struct session *session = model->session;
    struct session_variable *v = &model->variables[variable];
    struct session_place *place = &model->places[segment->shard];
    struct session_shard *shard = &session->shards[segment->shard];
    uint64_t source = place->parity[model->step & 1] + segment->offset;
    uint8_t *target = v->caller_parameter != NULL ? v->caller_parameter : v->parameter_local;

    if (session_mapped(place)) {
        if (target != NULL) {
            memcpy(target + segment->first, (const uint8_t *)place->parameters->mapped + source,
                   segment->bytes);
            session->stats.bytes_copied += segment->bytes;
            session->stats.bytes_pulled += segment->bytes;
        }
        v->pull_done++;
        return 0;
    }
    struct stepgate_endpoint *endpoint = shard->pull[segment->lane].link.endpoint;
    bool callers = v->caller_parameter != NULL;
    struct stepgate_region *region =
        callers ? v->caller_parameter_region[shard->route] : model->local_parameter_region[shard->route];
    uint64_t offset = callers ? segment->first : v->local_offset + segment->first;
    int status = endpoint->transport->endpoint_read(endpoint, region, offset, place->parameters, source,
                                                    segment->bytes, STEPGATE_POST_COMPLETE,
                                                    session_pull_context(model, variable));
    if (status == 0)
        session->stats.bytes_pulled += segment->bytes;
    return status;
}

/* session_pull_one -- 0 when the value of the open step is readable. */
static int session_pull_one(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];

#ifdef STEPGATE_MUTANT_STALE_CACHE
    if (v->pulled_next > 0 && model->step % 5 == 3) {
        v->pulled_next = model->step + 1;
        return 0;
    }
#endif
    if (v->pulled_next == model->step + 1)
        return 0;
    if (v->pulling_next != model->step + 1) {
        if (v->pull_done < v->pull_posted)
            return -STEPGATE_EAGAIN; /* reads of an older step are still writing the buffer */
        v->pull_posted = v->pull_done = 0;
        v->pulling_next = model->step + 1;
    }
    if (v->pull_posted < v->segments && !session_pull_ready(model, v))
        return -STEPGATE_EAGAIN;
    while (v->pull_posted < v->segments) {
        int status =
            session_pull_segment(model, variable, &model->segments[v->first_segment + v->pull_posted]);
        if (status == -STEPGATE_EAGAIN || status == -STEPGATE_EPEER)
            return -STEPGATE_EAGAIN; /* a broken link ends in the job's failure */
        if (status != 0)
            return status;
        v->pull_posted++;
    }
    if (v->pull_done < v->pull_posted)
        return -STEPGATE_EAGAIN;
    v->pulled_next = model->step + 1;
    model->session->stats.pulls++;
    return 0;
}

/* session_pull_some -- one variable or all of them; reads of many are under way together. */
static int session_pull_some(struct session_model *model, int variable)
{
    int status = 0;

    if (variable != STEPGATE_ALL)
        return session_pull_one(model, (uint32_t)variable);
    for (uint32_t v = 0; v < model->model->count; v++) {
        int one = session_pull_one(model, v);
        if (one != 0 && (status == 0 || one != -STEPGATE_EAGAIN))
            status = one;
    }
    return status;
}

/* session_pull_try -- see session.h. */
int session_pull_try(struct session_model *model, int variable, uint64_t now, uint64_t *step_read)
{
    int status = session_error(model->session);

    if (status != 0)
        return status;
    if (!model->begun)
        return error_set(STEPGATE_ESTATE, 0, "call begin first", "pull before the first step was begun");
    status = session_pull_some(model, variable);
    if (status == -STEPGATE_EAGAIN) {
        session_progress(model->session, now);
        status = session_error(model->session);
        if (status ==
            0) /* a caller that is told EAGAIN may sleep: nothing that is here by now may be overlooked */
            status = session_pull_some(model, variable);
    }
    if (status == 0 && step_read != NULL)
        *step_read = model->step;
    return status;
}
