/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer -- how gradients, counts and rows get into slots: parts, headers, notifies, the seal. Initial values take the same way. */
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
                span->unsent = slot_kind == SLOT_INITIAL ? span->segments : span->parts;
                span->state = span->unsent == 0 ? SPAN_HEADER : SPAN_FILLING;
            }
}

/* session_use_over -- see inside.h. */
bool session_use_over(const struct session_model *model, uint32_t shard, const struct session_span *span,
                      const struct session_use *use)
{
    if (!use->used)
        return true;
    if (model->model->update ==
        MODEL_STRICT) /* a lane announces a step after it has summed those before it */
        return use->dropped || span->ready_next > use->step + 1;
    return model->places[shard].released_next > use->sequence;
}

/* session_span_free -- see inside.h. Initial values come first of all. */
bool session_span_free(const struct session_model *model, uint32_t shard, const struct session_span *span)
{
#ifdef STEPGATE_MUTANT_SLOT_REUSED_EARLY
    (void)shard;
    (void)span;
    return model != NULL;
#else
    return model->slot_kind == SLOT_INITIAL || session_use_over(model, shard, span, &model->before);
#endif
}

/* What of a section is where: bytes within the source, and within a slot arena. */
struct transfer_section {
    uint64_t source, target, bytes;
};

/* transfer_section -- the one that a part is at; false: it is at its end. */
static bool transfer_section(const struct session_model *model, const struct session_part *part,
                             struct transfer_section *out)
{
    const struct model_variable *v = &model->model->variables[part->variable];
    bool sparse = v->kind == STEPGATE_SPARSE;
    uint64_t row = v->row_elements * model_dtype_bytes(v->gradient_dtype);
    uint64_t rows = plan_sparse_rows(part->rows_max);

    switch (part->section) {
    case SECTION_COUNT:
        *out =
            (struct transfer_section){0, part->offset, v->kind == STEPGATE_TRAINED ? 0 : sizeof(part->count)};
        return true;
    case SECTION_VALUES:
        if (sparse)
            *out = (struct transfer_section){part->first + PLAN_LINE, part->offset + PLAN_LINE,
                                             part->count * sizeof(uint64_t)};
        else
            *out =
                (struct transfer_section){part->first, part->offset + plan_values(v->kind),
                                          v->kind == STEPGATE_TRAINED || part->count > 0 ? part->bytes : 0};
        return true;
    case SECTION_ROWS:
        *out = (struct transfer_section){part->first + rows, part->offset + rows,
                                         sparse ? part->count * row : 0};
        return true;
    default: return false;
    }
}

/* transfer_store -- a section into a slot that is mapped here. */
static void transfer_store(struct session_model *model, const struct session_part *part,
                           const struct transfer_section *section, uint64_t slot)
{
    const struct session_variable *v = &model->variables[part->variable];
    const struct session_place *place = &model->places[part->shard];
    uint8_t *target = (uint8_t *)place->slots->mapped + place->slot_arena + slot + section->target;

    if (part->section == SECTION_COUNT) {
        memcpy(target, &part->count, section->bytes);
        return;
    }
    if (v->absent) { /* zeros */
        memset(target, 0, section->bytes);
        return;
    }
    const uint8_t *gradient =
        v->callers ? v->caller_gradient : session_gradient_of(model, part->variable, model->sending);
    if (gradient + section->source != target) {
        memcpy(target, gradient + section->source, section->bytes);
        model->session->stats.bytes_copied += section->bytes;
    }
    model->session->stats.bytes_pushed += section->bytes;
}

/*
 * transfer_keep -- what may have to be sent again once the caller's buffer holds something else is copied, and sent from there. Only where its span
 * is free: until then writes that were posted once more may still read what the library's buffer held before.
 */
static void transfer_keep(struct session_model *model, struct session_part *part,
                          const struct transfer_section *section)
{
    const struct session_variable *v = &model->variables[part->variable];

    if (!v->callers || part->kept || part->section != SECTION_VALUES || model->quota <= 1 ||
        model->session->reconnect == 0)
        return;
    memcpy(session_gradient_of(model, part->variable, model->sending) + section->source,
           (const uint8_t *)v->caller_gradient + section->source, section->bytes);
    model->session->stats.bytes_copied += section->bytes;
    part->kept = true;
}

/* transfer_write -- at most one chunk of a section over a network. Returns the bytes that are on their way, or an error of the post. */
static int64_t transfer_write(struct session_model *model, struct session_part *part,
                              const struct transfer_section *section, uint64_t sequence)
{
    struct session *session = model->session;
    struct session_shard *shard = &session->shards[part->shard];
    struct session_variable *v = &model->variables[part->variable];
    struct session_place *place = &model->places[part->shard];
    struct stepgate_endpoint *endpoint = session_push_endpoint(shard, part->lane);
    uint64_t left = section->bytes - part->sent,
             bytes = left < session->chunk_bytes ? left : session->chunk_bytes;
    uint64_t source = section->source + part->sent, target = place->slot_arena +
                                                             sequence % model->depth * place->slot_stride +
                                                             section->target + part->sent;
    /* The last part of a span is followed by its header and notify. */
    unsigned more = bytes < left || session_span_of(model, part)->unsent == 1 ? STEPGATE_POST_MORE : 0;
    int status;

    if (endpoint == NULL)
        return -STEPGATE_EAGAIN;
    if (part->section == SECTION_COUNT) {
        status = endpoint->transport->endpoint_write(endpoint, NULL, 0, &part->count, place->slots, target,
                                                     bytes, STEPGATE_WRITE_INLINE | more, 0);
        return status != 0 ? status : (int64_t)bytes;
    }
    transfer_keep(model, part, section);
    bool callers = v->callers && !part->kept;
    /* Several contributions of one step may be in the slots: only then is it asked when one has left the caller's memory. */
    bool counted = callers && model->quota > 1;
    struct stepgate_region *region =
        callers ? v->caller_gradient_region[shard->route] : model->local_gradient_region[shard->route];
    if (!callers)
        source += v->gradient_offset + sequence % model->depth * v->gradient_stride;
    status = endpoint->transport->endpoint_write(
        endpoint, region, source, NULL, place->slots, target, bytes,
        (counted || place->replays ? STEPGATE_POST_COMPLETE : 0) | more,
        session_context(model, place->replays ? CONTEXT_REPLAY : CONTEXT_WRITE, part->variable));
    if (status != 0)
        return status;
    v->writes_posted += counted;
    place->replaying += place->replays;
    session->stats.bytes_pushed += bytes;
    return (int64_t)bytes;
}

/* transfer_part -- moves on with a part of a contribution. Returns 0 when all of it is out, EAGAIN, or an error of the post; *busy when anything was moved. */
static int transfer_part(struct session_model *model, struct session_part *part, uint64_t sequence, int *busy)
{
    const struct session_place *place = &model->places[part->shard];
    struct transfer_section section;

    for (; transfer_section(model, part, &section); part->section++, part->sent = 0) {
        if (session_mapped(place)) {
            if (section.bytes > 0)
                transfer_store(model, part, &section, sequence % model->depth * place->slot_stride);
            *busy = 1;
            continue;
        }
        while (part->sent < section.bytes) {
            int64_t moved = transfer_write(model, part, &section, sequence);
            if (moved < 0)
                return (int)moved;
            part->sent += (uint64_t)moved;
            *busy = 1;
        }
    }
    return 0;
}

/* transfer_initial -- one segment of the initial values. */
static int transfer_initial(struct session_model *model, const struct session_segment *segment, int *busy)
{
    struct session_place *place = &model->places[segment->shard];
    struct session_shard *shard = &model->session->shards[segment->shard];
    uint64_t offset, target = place->slot_arena + segment->offset;
    const uint8_t *source = session_initial_source(model, segment, &offset);
    int status = 0;

    if (session_mapped(place)) {
        uint8_t *slot = (uint8_t *)place->slots->mapped + target;
        if (source != NULL)
            memcpy(slot, source, segment->bytes);
        else
            memset(slot, 0, segment->bytes);
    } else {
        struct stepgate_endpoint *endpoint = session_push_endpoint(shard, segment->lane);
        status = endpoint == NULL
                     ? -STEPGATE_EAGAIN
                     : endpoint->transport->endpoint_write(
                           endpoint, model->initial_region[shard->route], offset, NULL, place->slots, target,
                           segment->bytes, place->replays ? STEPGATE_POST_COMPLETE : 0,
                           session_context(model, CONTEXT_REPLAY, segment->variable));
        place->replaying += status == 0 && place->replays;
    }
    if (status != 0)
        return status;
    model->session->stats.bytes_pushed += segment->bytes;
    *busy = 1;
    return 0;
}

/* transfer_header -- writes the header of a full span. */
static int transfer_header(struct session_model *model, uint32_t s, uint32_t l, uint32_t g, uint64_t sequence)
{
    struct session_place *place = &model->places[s];
    uint32_t slot = (uint32_t)(sequence % model->depth);
    bool initial = model->slot_kind == SLOT_INITIAL;
    const struct slot_header header = {.step = model->step,
                                       .sequence = sequence,
                                       .incarnation = model->session->hello.incarnation,
                                       .bytes = initial ? 0 : place->spans[g][l].bytes,
                                       .rank = model->session->rank,
                                       .model = model->number,
                                       .lane = (uint16_t)l,
                                       .group = (uint16_t)g,
                                       .kind = (uint32_t)model->slot_kind,
                                       .slot = slot,
                                       .magic = SLOT_MAGIC};
    uint64_t offset = place->slot_headers + slot_header_offset(model->plan->lanes, slot, l, g);

    if (session_mapped(place)) {
        slot_header_store((uint8_t *)place->slots->mapped + offset, &header);
        return 0;
    }
    struct stepgate_endpoint *endpoint = session_push_endpoint(&model->session->shards[s], l);
    return endpoint->transport->endpoint_write(endpoint, NULL, 0, &header, place->slots, offset,
                                               sizeof(header), STEPGATE_WRITE_INLINE | STEPGATE_POST_MORE, 0);
}

/* transfer_span -- header, then notify, once everything in it is out. Returns 0 when the span is sent. */
static int transfer_span(struct session_model *model, uint32_t s, uint32_t l, uint32_t g)
{
    struct session_span *span = &model->places[s].spans[g][l];
    struct stepgate_endpoint *endpoint = session_push_endpoint(&model->session->shards[s], l);
    uint32_t value = slot_notify(model->number, (uint32_t)(model->sending % model->depth), g, model->sending);
    int status = 0;

    if (endpoint == NULL)
        return -STEPGATE_EAGAIN;

#ifdef STEPGATE_MUTANT_NOTIFY_BEFORE_HEADER
    if (span->state == SPAN_HEADER)
        endpoint->transport->endpoint_notify(endpoint, value);
#endif
    if (span->state == SPAN_HEADER && session_span_free(model, s, span)) {
        status = transfer_header(model, s, l, g, model->sending);
        if (status == 0)
            span->state = SPAN_NOTIFY;
    }
    if (span->state == SPAN_NOTIFY && status == 0) {
        status = endpoint->transport->endpoint_notify(endpoint, value);
        if (status == 0) {
            span->state = SPAN_SENT;
            model->spans_sent++;
        }
    }
    return status;
}

/* transfer_done -- one part or segment of a span less to be sent. */
static void transfer_done(struct session_span *span)
{
    if (--span->unsent == 0)
        span->state = SPAN_HEADER;
}

/* transfer_said -- where it is kept what the line in front of a part says in a contribution. */
static uint64_t *transfer_said(const struct session_model *model, uint32_t part, uint64_t sequence)
{
    return &model->said[sequence % model->depth * model->part_count + part];
}

/* session_transfer_queue -- queues the parts of a variable; one that has nothing to send is out at once. */
void session_transfer_queue(struct session_model *model, uint32_t variable)
{
    const struct session_variable *v = &model->variables[variable];

    for (uint32_t i = 0; i < v->parts; i++) {
        struct session_part *part = &model->parts[v->first_part + i];
        struct session_span *span = session_span_of(model, part);
        if (model->said != NULL)
            *transfer_said(model, v->first_part + i, model->sending) = part->count;
        if (part->section != SECTION_END) {
            model->pending[model->pending_count++] = v->first_part + i;
            continue;
        }
        transfer_done(span);
        if (span->unsent == 0)
            transfer_span(model, part->shard, part->lane, part->group);
    }
}

/* transfer_pending -- what has a free span goes out; the others keep their order. Returns 1 if anything went. */
static int transfer_pending(struct session_model *model)
{
    bool initial = model->slot_kind == SLOT_INITIAL;
    uint32_t kept = 0, count = model->pending_count;
    int busy = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t item = model->pending[i];
        const struct session_segment *segment = initial ? &model->segments[item] : NULL;
        struct session_part *part = initial ? NULL : &model->parts[item];
        uint32_t s = initial ? segment->shard : part->shard, l = initial ? segment->lane : part->lane,
                 g = initial ? segment->group : part->group;
        struct session_span *span = &model->places[s].spans[g][l];
        if (session_span_free(model, s, span) &&
            (initial ? transfer_initial(model, segment, &busy)
                     : transfer_part(model, part, model->sending, &busy)) == 0)
            transfer_done(span);
        else
            model->pending[kept++] = item;
        if (span->unsent == 0 && span->state != SPAN_SENT)
            transfer_span(model, s, l, g);
    }
    model->pending_count = kept;
    return busy;
}

/* transfer_spans -- headers and notifies that an endpoint did not take before, or that have nothing in front of them. */
static void transfer_spans(struct session_model *model)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                struct session_span *span = &model->places[s].spans[g][l];
                if (span->parts > 0 && (span->state == SPAN_HEADER || span->state == SPAN_NOTIFY))
                    transfer_span(model, s, l, g);
            }
}

/* transfer_absent -- tf: a bit for each variable without a gradient; it counts in that variable's mean for nothing. */
static void transfer_absent(const struct session_model *model, struct message *seal)
{
    memset(seal->part, 0, sizeof(seal->part));
    for (uint32_t v = 0; v < model->model->count; v++) {
        if (!model->variables[v].absent)
            continue;
        seal->part[v / 8] |= (uint8_t)(1u << (v % 8));
        seal->length = v / 8 + 1;
    }
}

/* transfer_seal -- the contribution is out: says so to every shard, with its weight, and what the ps must know of its numbers. */
static int transfer_seal(struct session_model *model, uint64_t now)
{
    struct message seal;

    message_begin(&seal, MESSAGE_SEAL);
    seal.model = model->number;
    seal.step = model->step;
    seal.sequence = model->sending;
    seal.weight = model->weight;
    seal.finite = true;
    for (size_t v = 0; model->slot_kind == SLOT_GRADIENT && model->weight > 0 && v < model->model->count;
         v++) {
        seal.norm += model->variables[v].norm;
#ifdef STEPGATE_MUTANT_LAST_FINITE_COUNTS
        seal.finite = model->variables[v].finite;
#endif
        seal.finite = seal.finite && model->variables[v].finite;
    }
    if (model->model->update == MODEL_TF && model->slot_kind == SLOT_GRADIENT && model->weight > 0)
        transfer_absent(model, &seal);
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

/*
 * transfer_may_seal -- a ps keeps the seals of the newest contributions alone. One that is abandoned, or that has nothing for some ps, waits for no slot there: it
 * may still not run ahead of what a ps has done with those before it. In strict mode tokens see to that.
 */
static bool transfer_may_seal(const struct session_model *model)
{
    for (uint32_t s = 0; model->model->update != MODEL_STRICT && s < model->plan->shards; s++)
        if (model->sending >= model->places[s].released_next + model->depth)
            return false;
    return true;
}

/* transfer_answered -- has the token of the newest contribution come? Then it is complete on every shard. */
static bool transfer_answered(const struct session_model *model)
{
    return model->state == MODEL_COMMITTED && !model->open &&
           (model->slot_kind == SLOT_INITIAL || model->token_next == model->sending + 1);
}

/* transfer_take_back -- nothing that was queued for this shard is sent as it was. */
static void transfer_take_back(struct session_model *model, uint32_t s)
{
    bool initial = model->slot_kind == SLOT_INITIAL;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < model->pending_count; i++) {
        uint32_t item = model->pending[i];
        if ((initial ? model->segments[item].shard : model->parts[item].shard) != s)
            model->pending[kept++] = item;
    }
    model->pending_count = kept;
}

/* transfer_queue_again -- over a network everything of a shard that was handed in, from its first byte. */
static void transfer_queue_again(struct session_model *model, uint32_t s)
{
    bool initial = model->slot_kind == SLOT_INITIAL;

    transfer_take_back(model, s);
    for (uint32_t i = 0; initial && i < model->segment_count; i++)
        if (model->segments[i].shard == s)
            model->pending[model->pending_count++] = i;
    for (uint32_t i = 0; !initial && i < model->part_count; i++) {
        struct session_part *part = &model->parts[i];
        if (part->shard != s || !model->variables[part->variable].pushed)
            continue;
        if (model->model->variables[part->variable].frozen) {
            transfer_done(session_span_of(model, part));
            continue;
        }
        part->section = SECTION_COUNT;
        part->sent = 0;
        model->pending[model->pending_count++] = i;
    }
}

/* transfer_unanswered -- contributions before `sending` that have no token yet, by the slots they lie in: those of the same step. */
static uint32_t transfer_unanswered(const struct session_model *model)
{
    uint32_t slots = 0;

    for (uint32_t i = 0; i < model->depth; i++) {
        const struct session_use *use = &model->slots[i];
        if (use->used && !use->abandoned && use->sequence >= model->token_next &&
            use->sequence < model->sending)
            slots |= UINT32_C(1) << i;
    }
    return slots;
}

/*
 * session_transfer_again -- see inside.h. Which notifies a ps has seen nobody here knows; what it has seen twice it ignores. Where slots are mapped
 * their bytes are there. Over a network the same bytes are written again: the library's buffers are as they were, one for each contribution to a
 * step, and so are the caller's where there is only one contribution. A ps that sums them meanwhile reads the same.
 */
void session_transfer_again(struct session_model *model, uint32_t s)
{
    struct session_place *place = &model->places[s];
    bool mapped = model->state >= MODEL_PLACED && session_mapped(place),
         initial = model->slot_kind == SLOT_INITIAL;

    place->replaying = 0; /* what read them is gone */
    if (model->state < MODEL_PLACED || (model->state == MODEL_PLACED && model->session->rank != 0) ||
        transfer_answered(model))
        return;
    place->replays = true;
    place->again = (struct session_again){.slots = transfer_unanswered(model)};
#ifdef STEPGATE_MUTANT_EARLIER_NOT_SENT_AGAIN
    place->again.slots = 0;
#endif
    if (model->finishing && model->weight == 0)
        return;
    for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
        for (uint32_t l = 0; l < model->plan->lanes; l++) {
            struct session_span *span = &place->spans[g][l];
            model->spans_sent -= span->parts > 0 && span->state == SPAN_SENT;
            if (!mapped)
                span->unsent = initial ? span->segments : span->parts;
            span->state = span->unsent == 0 ? SPAN_HEADER : SPAN_FILLING;
        }
    if (!mapped)
        transfer_queue_again(model, s);
}

/* session_transfer_leave -- see inside.h. */
void session_transfer_leave(struct session_model *model)
{
    uint32_t slot = (uint32_t)(model->sending % model->depth);
    const struct session_use *use = &model->slots[slot];
    bool answered = model->token_next > model->sending,
         whole = use->used && use->sequence == model->sending && !use->abandoned;

    for (uint32_t s = 0; s < model->plan->shards; s++) {
        struct session_place *place = &model->places[s];
        if (answered) {
            place->again = (struct session_again){.slots = 0};
            place->replays = false;
            continue;
        }
        for (uint32_t g = 0; whole && g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++)
                if (place->spans[g][l].parts > 0 && place->spans[g][l].state != SPAN_SENT)
                    place->again.slots |= UINT32_C(1) << slot;
    }
}

/* session_transfer_replays -- see inside.h. */
bool session_transfer_replays(const struct session_model *model)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        if (model->places[s].replaying > 0)
            return true;
    return false;
}

/* transfer_earlier_parts -- over a network, those of an earlier contribution. Returns 0 when they are out. */
static int transfer_earlier_parts(struct session_model *model, uint32_t s, uint64_t sequence, int *busy)
{
    struct session_again *again = &model->places[s].again;

    for (; again->part < model->part_count; again->part++) {
        struct session_part part = model->parts[again->part];
        if (part.shard != s || model->model->variables[part.variable].frozen)
            continue;
        part.count = *transfer_said(model, again->part, sequence);
        part.section = again->section;
        part.sent = again->sent;
        part.kept = true;
        int status = transfer_part(model, &part, sequence, busy);
        again->section = status != 0 ? part.section : SECTION_COUNT;
        again->sent = status != 0 ? part.sent : 0;
        if (status != 0)
            return status;
    }
    return 0;
}

/* transfer_earlier_spans -- their headers and notifies. */
static int transfer_earlier_spans(struct session_model *model, uint32_t s, uint64_t sequence, int *busy)
{
    struct session_place *place = &model->places[s];
    uint64_t spans = (uint64_t)model->plan->shard[s].groups * model->plan->lanes;
    uint32_t slot = (uint32_t)(sequence % model->depth);

    for (; place->again.span < spans; place->again.span++) {
        uint32_t g = (uint32_t)(place->again.span / model->plan->lanes),
                 l = (uint32_t)(place->again.span % model->plan->lanes);
        struct stepgate_endpoint *endpoint = session_push_endpoint(&model->session->shards[s], l);
        int status = endpoint == NULL ? -STEPGATE_EAGAIN : 0;
        if (place->spans[g][l].parts == 0)
            continue;
        if (status == 0 && !session_mapped(place))
            status = transfer_header(model, s, l, g, sequence);
        if (status == 0)
            status =
                endpoint->transport->endpoint_notify(endpoint, slot_notify(model->number, slot, g, sequence));
        if (status != 0)
            return status;
        *busy = 1;
    }
    return 0;
}

/* transfer_earlier -- contributions to this step that were finished before, to every shard that has been reached again. */
static int transfer_earlier(struct session_model *model)
{
    int busy = 0;

    for (uint32_t s = 0; model->quota > 1 && s < model->plan->shards; s++) {
        struct session_place *place = &model->places[s];
        while (place->again.slots != 0) {
            uint64_t sequence = model->slots[__builtin_ctz(place->again.slots)].sequence;
            if ((!session_mapped(place) && transfer_earlier_parts(model, s, sequence, &busy) != 0) ||
                transfer_earlier_spans(model, s, sequence, &busy) != 0)
                break;
            place->again = (struct session_again){.slots = place->again.slots & (place->again.slots - 1)};
        }
    }
    return busy;
}

/* transfer_owes -- is a contribution that was sealed still to be sent once more? */
static bool transfer_owes(const struct session_model *model)
{
    if (transfer_answered(model))
        return false;
    for (uint32_t s = 0; model->quota > 1 && s < model->plan->shards; s++)
        if (model->places[s].again.slots != 0)
            return true;
    return model->weight != 0 && model->spans_sent < model->spans_total;
}

/* session_model_progress -- sends what can be sent. */
int session_model_progress(struct session_model *model, uint64_t now)
{
    int busy = 0;

    if (now >= model->fetch.alarm) { /* whoever reads looks again */
        model->fetch.alarm = CLOCK_NEVER;
        busy = 1;
    }
    if (model->state < MODEL_PLACED || (model->sealed && !transfer_owes(model)) ||
        (model->state == MODEL_COMMITTED && !model->open && !model->finishing) ||
        (model->state == MODEL_PLACED && model->session->rank != 0))
        return busy;
    busy |= transfer_earlier(model);
    busy |= model->pending_count > 0 ? transfer_pending(model) : 0;
    if (model->spans_sent < model->spans_total && (model->finishing || model->unpushed == 0))
        transfer_spans(model);
    if (model->finishing && !model->sealed &&
        (model->weight == 0 || model->spans_sent == model->spans_total) && transfer_may_seal(model)) {
        transfer_seal(model, now);
        busy = 1;
    }
    return busy;
}

/* session_transfer_first -- see inside.h. What was announced before was kept as it came. */
void session_transfer_first(struct session_model *model, uint64_t step)
{
    for (uint32_t s = 0; s < model->plan->shards; s++)
        for (uint32_t g = 0; g < model->plan->shard[s].groups; g++)
            for (uint32_t l = 0; l < model->plan->lanes; l++) {
                struct session_span *span = &model->places[s].spans[g][l];
                int16_t ahead =
                    (int16_t)(uint16_t)(span->ready_next - 1 - step); /* a lane may be behind it */
                span->ready_next = span->ready_next > 0 ? step + 1 + (uint64_t)(int64_t)ahead : step;
            }
    model->first_known = true;
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
    uint16_t ahead = (uint16_t)(slot_notify_number(value) - (uint32_t)(span->ready_next & 0xffffu));
    if (!model->first_known)
        span->ready_next = slot_notify_number(value) + UINT64_C(1);
    else if (ahead < 0x8000u)
        span->ready_next += ahead + 1u;
    model->notices++;
}
