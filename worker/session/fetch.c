/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fetch -- reads that others may disturb: values in every mode but lockstep, and rows in all. Look at the words of the lanes, copy, look again
 * (pull.h); over a mapping at once, over a network with one read after the other. One fetch at a time per model.
 */
#include <string.h>
#include <sys/mman.h>

#include "transport/base/error.h"
#include "worker/session/inside.h"

#define FETCH_TRIES 16       /* in one call; the job's lock is held meanwhile */
#define FETCH_LATER_MS 1     /* what no lane announces is looked at again after this */
#define FETCH_ROWS_MIN 65536 /* bytes */

/* fetch_add -- one more unit to be read: a part of a segment. Neighbours on both sides are read together. */
static int fetch_add(struct session_model *model, const struct session_segment *segment, uint64_t skip,
                     uint64_t bytes, uint64_t first)
{
    struct pull *pull = &model->fetch.pull;
    const struct pull_unit unit = {.variable = segment->variable,
                                   .shard = segment->shard,
                                   .lane = segment->lane,
                                   .group = segment->group,
                                   .first = first,
                                   .offset = segment->offset + skip,
                                   .bytes = bytes};
    struct pull_unit *last = pull->count > 0 ? &pull->units[pull->count - 1] : NULL;

    if (last != NULL && skip > 0 && last->variable == unit.variable && last->shard == unit.shard &&
        last->lane == unit.lane && last->group == unit.group && last->offset + last->bytes == unit.offset &&
        last->first + last->bytes == unit.first) {
        last->bytes += bytes;
        return 0;
    }
    return pull_add(pull, &unit);
}

/* fetch_segment_of -- which segment of a variable holds a byte. */
static uint32_t fetch_segment_of(const struct session_model *model, uint32_t variable, uint64_t byte)
{
    const struct session_variable *v = &model->variables[variable];
    uint32_t low = 0, high = v->segments;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (model->segments[v->first_segment + middle].first <= byte)
            low = middle;
        else
            high = middle;
    }
    return v->first_segment + low;
}

/* fetch_want_rows -- the units of rows, each behind the other where they go. */
static int fetch_want_rows(struct session_model *model)
{
    const struct session_want *want = &model->fetch.want;
    const struct model_variable *v = &model->model->variables[want->variable];
    uint64_t row = v->bytes / v->dims[0];
    int status = 0;

    for (uint64_t r = 0; r < want->count; r++) {
        uint64_t at = want->indices[r] * row, end = at + row;
        uint32_t s = fetch_segment_of(model, (uint32_t)want->variable, at);
        for (; status == 0 && at < end; s++) {
            const struct session_segment *segment = &model->segments[s];
            uint64_t skip = at - segment->first, left = segment->bytes - skip;
            uint64_t bytes = end - at < left ? end - at : left;
            status = fetch_add(model, segment, skip, bytes, r * row + (at + row - end));
            at += bytes;
        }
    }
    return status;
}

/* fetch_want_variable -- the units of one variable; what lies in its buffer is not to be trusted until they are read. */
static int fetch_want_variable(struct session_model *model, uint32_t variable)
{
    struct session_variable *v = &model->variables[variable];
    int status = session_memory_value(model, variable);

    if (v->pulled_at == session_pull_key(model) || model->session->observer)
        v->pulled_at = 0;
    for (uint32_t i = 0; status == 0 && i < v->segments; i++) {
        const struct session_segment *segment = &model->segments[v->first_segment + i];
        status = fetch_add(model, segment, 0, segment->bytes, segment->first);
    }
    return status;
}

/* fetch_of_all -- is the variable one of those that STEPGATE_ALL reads from the ps? */
static bool fetch_of_all(const struct session_model *model, uint32_t variable)
{
    return session_pulls_all(model, variable) && model->model->variables[variable].kind != STEPGATE_AUX;
}

/* fetch_agree -- are all that this begin has pulled already of one step, that of *step if any is still to be read? */
static bool fetch_agree(const struct session_model *model, const uint64_t *step)
{
    const struct session_variable *one = NULL;

    for (uint32_t i = 0; i < model->model->count; i++) {
        const struct session_variable *v = &model->variables[i];
        if (!fetch_of_all(model, i) || v->pulled_at != session_pull_key(model))
            continue;
        if ((step != NULL && v->lowest != *step) || (one != NULL && v->lowest != one->lowest))
            return false;
        one = v;
    }
    return true;
}

/* fetch_want_all -- the units of all variables that this begin has not pulled; of all of them where they must be of one step and are not. */
static int fetch_want_all(struct session_model *model)
{
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < model->model->count; i++)
        if (fetch_of_all(model, i) &&
            (model->fetch.whole || model->variables[i].pulled_at != session_pull_key(model)))
            status = fetch_want_variable(model, i);
    return status;
}

/* fetch_want -- a new fetch: what is to be read. */
static int fetch_want(struct session_model *model, bool whole)
{
    struct session_fetch *fetch = &model->fetch;
    const struct session_want *want = &fetch->want;
    bool each = !model->session->observer &&
                (model->model->update == MODEL_ASYNC || model->model->update == MODEL_BOUNDED);
    int status;

    fetch->key = session_pull_key(model);
    fetch->whole = whole;
    fetch->next = 0;
    fetch->wait_until = 0;
    fetch->alarm = CLOCK_NEVER;
    /* what a worker has read is the least that it reads from then on */
    pull_start(&fetch->pull, each, !each && fetch->newest > model->step ? fetch->newest : model->step);
    if (want->rows)
        status = fetch_want_rows(model);
    else if (want->variable == STEPGATE_ALL)
        status = fetch_want_all(model);
    else
        status = fetch_want_variable(model, (uint32_t)want->variable);
    fetch->state = status == 0 ? FETCH_LOOK : FETCH_NONE;
    return status;
}

/* fetch_words_of -- where the words of a shard's lanes are read to. */
static uint8_t *fetch_words_of(const struct session_model *model, uint32_t shard)
{
    return model->fetch.words + (uint64_t)shard * model->plan->lanes * sizeof(struct slot_words);
}

/* fetch_ask -- reads the words of a shard that is not mapped, all of its lanes at once. */
static int fetch_ask(struct session_model *model, uint32_t s)
{
    struct session_fetch *fetch = &model->fetch;
    struct session_shard *shard = &model->session->shards[s];
    struct stepgate_endpoint *endpoint = session_pull_endpoint(shard, 0);
    if (endpoint == NULL)
        return -STEPGATE_EAGAIN;
    uint64_t offset = (uint64_t)(fetch_words_of(model, s) - fetch->words);

    return endpoint->transport->endpoint_read(
        endpoint, fetch->words_region[shard->route], offset, model->places[s].parameters,
        model->places[s].words, model->plan->lanes * sizeof(struct slot_words), STEPGATE_POST_COMPLETE,
        session_context(model, CONTEXT_FETCH, 0));
}

/* fetch_concerned -- is any lane of the shard? */
static bool fetch_concerned(const struct session_model *model, uint32_t shard)
{
    for (size_t l = 0; l < model->fetch.pull.lane_count; l++)
        if (model->fetch.pull.lanes[l].shard == shard)
            return true;
    return false;
}

/* fetch_look -- 0 when the words of all lanes concerned have been read anew. */
static int fetch_look(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    for (; fetch->next < model->plan->shards; fetch->next++) {
        uint32_t s = (uint32_t)fetch->next;
        if (session_mapped(&model->places[s]) || !fetch_concerned(model, s))
            continue;
        int status = fetch_ask(model, s);
        if (status != 0)
            return status;
        fetch->posted++;
        model->places[s].fetching++;
    }
    if (fetch->done < fetch->posted)
        return -STEPGATE_EAGAIN;
    for (size_t l = 0; l < fetch->pull.lane_count; l++) {
        struct pull_lane *lane = &fetch->pull.lanes[l];
        const struct session_place *place = &model->places[lane->shard];
        const uint8_t *words = session_mapped(place)
                                   ? (const uint8_t *)place->parameters->mapped + place->words
                                   : fetch_words_of(model, lane->shard);
        pull_look((const struct slot_words *)(const void *)words + lane->lane, &lane->words);
    }
    return 0;
}

/* fetch_room -- registered memory for rows that come over a network. */
static int fetch_room(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;
    const struct model_variable *v = &model->model->variables[fetch->want.variable];
    uint64_t needed = fetch->want.count * (v->bytes / v->dims[0]), bytes = FETCH_ROWS_MIN;

    if (needed <= fetch->rows_bytes)
        return 0;
    while (bytes < needed)
        bytes *= 2;
    session_fetch_rows_delete(model);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, 0, "free memory, or pull fewer rows",
                         "no memory for %llu bytes of rows", (unsigned long long)bytes);
    fetch->rows = memory;
    fetch->rows_bytes = bytes;
    int status = session_register(model, memory, bytes, fetch->rows_region);
    if (status != 0)
        session_fetch_rows_delete(model);
    return status;
}

/* fetch_unit -- moves one unit; over a network that is only the start. */
static int fetch_unit(struct session_model *model, const struct pull_unit *unit)
{
    struct session *session = model->session;
    struct session_fetch *fetch = &model->fetch;
    struct session_place *place = &model->places[unit->shard];
    struct session_shard *shard = &session->shards[unit->shard];
    struct session_variable *v = &model->variables[unit->variable];
    uint64_t source = place->parity[unit->step & 1] + unit->offset, offset = unit->first;

    if (session_mapped(place)) {
        uint8_t *target = v->caller_parameter != NULL ? v->caller_parameter : v->value;
        if (fetch->want.rows)
            target = fetch->want.out;
        pull_copy(target + unit->first, (const uint8_t *)place->parameters->mapped + source, unit->bytes);
        session->stats.bytes_copied += unit->bytes;
        session->stats.bytes_pulled += unit->bytes;
        return 0;
    }
    int status = fetch->want.rows ? fetch_room(model) : 0;
    if (status != 0)
        return status;
    struct stepgate_endpoint *endpoint = session_pull_endpoint(shard, unit->lane);
    if (endpoint == NULL)
        return -STEPGATE_EAGAIN;
    struct stepgate_region *region = fetch->want.rows
                                         ? fetch->rows_region[shard->route]
                                         : session_value_region(model, unit->variable, shard->route, &offset);
    status = endpoint->transport->endpoint_read(endpoint, region, offset, place->parameters, source,
                                                unit->bytes, STEPGATE_POST_COMPLETE,
                                                session_context(model, CONTEXT_FETCH, unit->variable));
    if (status != 0)
        return status;
    fetch->posted++;
    place->fetching++;
    session->stats.bytes_pulled += unit->bytes;
    return 0;
}

/* fetch_copy -- 0 when all units that were chosen have been copied. */
static int fetch_copy(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    for (; fetch->next < fetch->pull.count; fetch->next++) {
        const struct pull_unit *unit = &fetch->pull.units[fetch->next];
        int status = unit->chosen ? fetch_unit(model, unit) : 0;
        if (status != 0)
            return status;
    }
    pull_fence();
    return fetch->done < fetch->posted ? -STEPGATE_EAGAIN : 0;
}

/* fetch_ready -- lockstep: the lanes of all units have announced the step, and leave it alone until this worker goes on, or is given up. */
static bool fetch_ready(struct session_model *model)
{
    struct pull *pull = &model->fetch.pull;

    for (size_t u = 0; u < pull->count; u++) {
        struct pull_unit *unit = &pull->units[u];
        if (model->places[unit->shard].spans[unit->group][unit->lane].ready_next <= model->step)
            return false;
        unit->step = model->step;
        unit->chosen = true;
    }
    return true;
}

/* fetch_untouched -- lockstep, after the copy: see session_untouched. */
static bool fetch_untouched(const struct session_model *model)
{
    const struct pull *pull = &model->fetch.pull;

    for (size_t l = 0; l < pull->lane_count; l++)
        if (!session_untouched(model, pull->lanes[l].shard, pull->lanes[l].lane))
            return false;
    return true;
}

/* fetch_later -- there is nothing to read yet: not again before a lane says something, or a moment has passed. */
static int fetch_later(struct session_model *model, uint64_t now, bool soon)
{
    struct session_fetch *fetch = &model->fetch;

    fetch->notices = model->notices;
    fetch->wait_until = fetch->alarm = soon ? now : now + FETCH_LATER_MS * CLOCK_MS;
    return -STEPGATE_EAGAIN;
}

/* fetch_rows_over -- rows that came over a network are handed over. */
static void fetch_rows_over(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;
    uint8_t *out = fetch->want.out;

    model->session->stats.pulls++;
    for (size_t u = 0; u < fetch->pull.count; u++) {
        const struct pull_unit *unit = &fetch->pull.units[u];
        if (session_mapped(&model->places[unit->shard]))
            continue;
        memcpy(out + unit->first, fetch->rows + unit->first, unit->bytes);
        model->session->stats.bytes_copied += unit->bytes;
    }
}

/* fetch_variables_over -- what was read is what these variables are now. */
static void fetch_variables_over(struct session_model *model)
{
    const struct session_variable *last = NULL;

    for (size_t u = 0; u < model->fetch.pull.count; u++) { /* those of a variable lie together */
        const struct pull_unit *unit = &model->fetch.pull.units[u];
        struct session_variable *v = &model->variables[unit->variable];
        if (v != last) {
            v->pulled_at = session_pull_key(model);
            v->lowest = v->highest = unit->step;
            model->session->stats.pulls++;
        }
        last = v;
        v->lowest = unit->step < v->lowest ? unit->step : v->lowest;
        v->highest = unit->step > v->highest ? unit->step : v->highest;
    }
}

/* fetch_over -- everything was read. */
static int fetch_over(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    fetch->state = FETCH_NONE;
    fetch->alarm = CLOCK_NEVER;
    fetch->lowest = UINT64_MAX;
    for (size_t u = 0; u < fetch->pull.count; u++)
        fetch->lowest = fetch->pull.units[u].step < fetch->lowest ? fetch->pull.units[u].step : fetch->lowest;
    if (fetch->lowest == UINT64_MAX)
        fetch->lowest = model->step;
    if (fetch->lowest > fetch->newest)
        fetch->newest = fetch->lowest;
    if (fetch->want.rows)
        fetch_rows_over(model);
    else
        fetch_variables_over(model);
    return 0;
}

/* fetch_choose -- after the first look. Returns enum pull_choice. */
static int fetch_choose(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    if (model->lockstep)
        return fetch_ready(model) ? PULL_READ : PULL_WAIT;
    return pull_choose(&fetch->pull);
}

/* fetch_widen -- STEPGATE_ALL is of one step: does what this begin has pulled already fit what is about to be read? If not all is read. */
static int fetch_widen(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    if (fetch->want.rows || fetch->want.variable != STEPGATE_ALL || fetch->pull.each || fetch->whole ||
        fetch_agree(model, fetch->pull.count > 0 ? &fetch->pull.units[0].step : NULL))
        return 0;
    int status = fetch_want(model, true);
    return status != 0 ? status : 1;
}

/* fetch_move -- goes on until all is read, or must wait. */
static int fetch_move(struct session_model *model, uint64_t now)
{
    struct session_fetch *fetch = &model->fetch;
    int status, tries = 0;

    while (fetch->pull.count > 0) {
        if (fetch->state == FETCH_COPY) {
            status = fetch_copy(model);
            if (status != 0)
                return status;
            if (model->lockstep)
                return fetch_untouched(model) ? fetch_over(model) : fetch_later(model, now, false);
            fetch->state = FETCH_CHECK;
            fetch->next = 0;
        }
        status = model->lockstep ? 0 : fetch_look(model);
        if (status != 0)
            return status;
        fetch->next = 0;
        if (fetch->state == FETCH_CHECK) {
            uint64_t torn = fetch->pull.torn;
            size_t left = pull_judge(&fetch->pull);
            model->session->stats.pull_retries += fetch->pull.torn - torn;
            if (left == 0)
                return fetch_over(model);
        }
        fetch->state = FETCH_LOOK;
        int choice = fetch_choose(model); /* what was seen to judge is as good a first look */
        if (choice == PULL_WAIT || (choice == PULL_AGAIN && ++tries >= FETCH_TRIES))
            return fetch_later(model, now, choice == PULL_AGAIN);
        if (choice == PULL_AGAIN)
            continue;
        status = fetch_widen(model);
        if (status < 0)
            return status;
        if (status > 0)
            continue;
        if (++tries > FETCH_TRIES)
            return fetch_later(model, now, true);
        fetch->state = FETCH_COPY;
    }
    return fetch_over(model);
}

/* fetch_same -- is it the fetch that is under way? */
static bool fetch_same(const struct session_model *model, const struct session_want *want)
{
    const struct session_want *now = &model->fetch.want;

    return model->fetch.state != FETCH_NONE && model->fetch.key == session_pull_key(model) &&
           now->variable == want->variable && now->rows == want->rows && now->indices == want->indices &&
           now->count == want->count && now->out == want->out;
}

/* fetch_aux -- 1 if nothing else is wanted. */
static int fetch_aux(struct session_model *model, const struct session_want *want)
{
    bool all = want->variable == STEPGATE_ALL;

    if (want->rows || model->session->observer)
        return 0;
    for (uint32_t v = all ? 0 : (uint32_t)want->variable;
         v < (all ? (uint32_t)model->model->count : (uint32_t)want->variable + 1); v++) {
        if (model->model->variables[v].kind != STEPGATE_AUX)
            continue;
        session_pull_aux(model, v);
        if (!all)
            return 1;
    }
    return 0;
}

/* session_fetch_try -- see inside.h. */
int session_fetch_try(struct session_model *model, const struct session_want *want, uint64_t now)
{
    struct session_fetch *fetch = &model->fetch;
    int status;

    if (fetch_aux(model, want) == 1)
        return 0;
    if (fetch->broken && fetch->done == fetch->posted) {
        fetch->broken = false;
        fetch->state = FETCH_NONE; /* what was read of it is read again */
    }
    if (fetch->broken)
        return -STEPGATE_EAGAIN;
    if (!want->rows && want->variable != STEPGATE_ALL &&
        model->variables[want->variable].pulled_at == session_pull_key(model))
        return 0;
    if (!fetch_same(model, want)) {
        if (fetch->done < fetch->posted)
            return -STEPGATE_EAGAIN; /* reads for another purpose are still under way */
        fetch->want = *want;
        status = fetch_want(model, false);
        if (status == 0 && fetch->pull.count == 0) /* what there is was pulled: but is it of one step? */
            status = fetch_widen(model);
        if (status < 0)
            return status;
    } else if (now < fetch->wait_until && fetch->notices == model->notices) {
        return -STEPGATE_EAGAIN;
    }
    status = fetch_move(model, now);
    return status == -STEPGATE_EPEER ? -STEPGATE_EAGAIN
                                     : status; /* a broken link ends in the job's failure */
}

/* session_fetch_break -- see inside.h. */
void session_fetch_break(struct session_model *model, uint32_t s)
{
    struct session_place *place = &model->places[s];

    if (place->fetching == 0)
        return;
    model->fetch.done += place->fetching;
    model->fetch.broken = true;
    place->fetching = 0;
}

/* session_fetch_rows_delete -- the memory for rows on their way. */
void session_fetch_rows_delete(struct session_model *model)
{
    struct session_fetch *fetch = &model->fetch;

    session_unregister(fetch->rows_region);
    if (fetch->rows != NULL)
        munmap(fetch->rows, fetch->rows_bytes);
    fetch->rows = NULL;
    fetch->rows_bytes = 0;
}

/* session_fetch_delete -- see inside.h. */
void session_fetch_delete(struct session_model *model)
{
    session_fetch_rows_delete(model);
    pull_clear(&model->fetch.pull);
}
