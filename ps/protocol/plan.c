/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/plan.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

#define PLAN_GROUP_BYTES (UINT64_C(1) << 20)
#define PLAN_CUT_BYTES (UINT64_C(256) << 20)
/* plan_round -- up to a multiple of unit. */
static uint64_t plan_round(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* plan_sparse_rows -- behind the line with the count and the indices. */
uint64_t plan_sparse_rows(uint64_t rows_max)
{
    return PLAN_LINE + plan_round(rows_max * sizeof(uint64_t), PLAN_LINE);
}

/* plan_values -- behind the line with the count, where there is one. */
uint64_t plan_values(int kind)
{
    return kind == STEPGATE_TRAINED ? 0 : PLAN_LINE;
}

/* plan_state_element -- of the type it is computed in. */
uint64_t plan_state_element(int dtype)
{
    return dtype == STEPGATE_F64 ? sizeof(double) : sizeof(float);
}

/*
 * plan_cut_unit -- the bytes between two possible cuts of a variable: whole rows, and whole blocks unless it is sparse; its own size if it
 * cannot be cut.
 */
static uint64_t plan_cut_unit(const struct model_variable *v)
{
    uint64_t row = v->rank > 0 ? v->elements / v->dims[0] : 1;

    if (v->kind == STEPGATE_SPARSE)
        return row * (v->bytes / v->elements);
    if (v->kind != STEPGATE_TRAINED)
        return v->bytes;
    uint64_t a = row, b = PLAN_BLOCK;

    while (b != 0) { /* a becomes the greatest common divisor */
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    uint64_t factor = PLAN_BLOCK / a;
    if (row >= v->elements || factor > v->elements / row)
        return v->bytes;
    return row * factor * (v->bytes / v->elements);
}

/* plan_parts -- into how many pieces a variable is cut: enough for cut_bytes, never more than shards or than units. */
static uint64_t plan_parts(const struct model_variable *v, const struct plan_options *options)
{
    uint64_t cut = options->cut_bytes != 0 ? options->cut_bytes : PLAN_CUT_BYTES;
    uint64_t parts = (v->bytes - 1) / cut + 1; /* cut comes from a peer: no sum with it may overflow */
    uint64_t units = (v->bytes + plan_cut_unit(v) - 1) / plan_cut_unit(v);

    if (parts > options->shards)
        parts = options->shards;
    return parts > units ? units : parts;
}

/* plan_lightest -- the shard with the fewest bytes, the lowest number among equals. */
static uint32_t plan_lightest(const uint64_t *load, uint32_t shards)
{
    uint32_t best = 0;

    for (uint32_t s = 1; s < shards; s++)
        if (load[s] < load[best])
            best = s;
    return best;
}

/* A variable to be placed: the largest first, by declaration among equals, so that the greedy choice balances well. */
struct plan_item {
    uint64_t bytes;
    uint32_t variable;
};

/* plan_compare -- larger first. */
static int plan_compare(const void *a, const void *b)
{
    const struct plan_item *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->variable < y->variable ? -1 : x->variable > y->variable;
}

/* plan_place -- fills by_variable with pieces, the largest variable first onto the lightest shard. */
static int plan_place(struct plan *plan, const struct model *model, const struct plan_options *options)
{
    struct plan_item *items = calloc(model->count, sizeof(*items));
    uint64_t *load = calloc(plan->shards, sizeof(*load));
    int status = 0;

    if (items == NULL || load == NULL) {
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for the plan of model %s", model->name);
        goto free_items;
    }
    for (size_t v = 0; v < model->count; v++)
        items[v] = (struct plan_item){model->variables[v].bytes, (uint32_t)v};
    qsort(items, model->count, sizeof(*items), plan_compare);
    for (size_t i = 0; i < model->count; i++) {
        const struct model_variable *v = &model->variables[items[i].variable];
        struct plan_piece *piece = &plan->by_variable[plan->variable_first[items[i].variable]];
        uint64_t parts = plan_parts(v, options), unit = plan_cut_unit(v), first = 0;
        uint32_t shard = plan_lightest(load, plan->shards);

        for (uint64_t p = 0; p < parts; p++, piece++) {
            uint64_t units = (v->bytes + unit - 1) / unit;
            uint64_t end = p + 1 == parts ? v->bytes : units * (p + 1) / parts * unit;
            uint64_t element = v->bytes / v->elements;
            *piece = (struct plan_piece){.variable = items[i].variable,
                                         .shard = shard,
                                         .first_element = first / element,
                                         .elements = (end - first) / element,
                                         .first = first,
                                         .bytes = end - first};
            load[shard] += end - first;
            first = end;
            shard = (shard + 1) % plan->shards;
        }
    }
free_items:
    free(items);
    free(load);
    return status;
}

/* plan_slot_bytes -- what one push of a piece takes at most. */
static uint64_t plan_slot_bytes(const struct model_variable *v, struct plan_piece *piece)
{
    uint64_t element = model_dtype_bytes(v->gradient_dtype);

    if (v->frozen)
        return 0;
    if (v->kind != STEPGATE_SPARSE)
        return plan_values(v->kind) + piece->elements * element;
    uint64_t rows = piece->elements / v->row_elements;
    piece->rows_max = v->rows_max < rows ? v->rows_max : rows;
    return plan_sparse_rows(piece->rows_max) + piece->rows_max * v->row_elements * element;
}

/* plan_lay_out_piece -- a piece behind those before it, in each arena. */
static void plan_lay_out_piece(struct plan_shard *shard, const struct model_variable *v, bool accumulated,
                               struct plan_piece *piece)
{
    piece->slot_bytes = plan_slot_bytes(v, piece);
    piece->slot_offset = shard->slot_bytes;
    shard->slot_bytes += plan_round(piece->slot_bytes, PLAN_LINE);
    if (v->kind == STEPGATE_AUX) {
        piece->state_offset = shard->aux_bytes;
        shard->aux_bytes += plan_round(piece->bytes, PLAN_LINE);
        return;
    }
    piece->offset = shard->arena_bytes;
    shard->arena_bytes += plan_round(piece->bytes, PLAN_LINE);
    if (v->frozen || (v->kind == STEPGATE_ASSIGNED && !accumulated))
        return;
    piece->state_offset = shard->state_bytes;
    shard->state_bytes += plan_round(piece->elements * plan_state_element(v->dtype), PLAN_LINE);
}

/* plan_lay_out -- orders the pieces of each shard by declaration and gives them offsets. */
static void plan_lay_out(struct plan *plan, const struct model *model)
{
    size_t next = 0;

    for (uint32_t s = 0; s < plan->shards; s++) {
        struct plan_shard *shard = &plan->shard[s];

        shard->first_piece = next;
        for (size_t p = 0; p < plan->pieces; p++) {
            struct plan_piece *piece = &plan->by_variable[p];
            if (piece->shard != s)
                continue;
            plan_lay_out_piece(shard, &model->variables[piece->variable], model->update == MODEL_TF, piece);
            plan->by_shard[next++] = *piece;
        }
        shard->pieces = next - shard->first_piece;
        if (shard->arena_bytes == 0)
            shard->arena_bytes = PLAN_LINE;
        if (shard->slot_bytes == 0)
            shard->slot_bytes = PLAN_LINE;
    }
}

/* Where the spans of a shard end in its slot arena, before they are moved to where a piece may be cut. */
struct plan_borders {
    uint32_t lanes, count;
    uint64_t end[PLAN_GROUPS_MAX * PLAN_LANES_MAX];
};

/* plan_draw -- equal groups, and in each equal spans, one per lane. */
static void plan_draw(const struct plan *plan, struct plan_shard *shard, uint64_t group_bytes,
                      struct plan_borders *borders)
{
    uint64_t groups = shard->slot_bytes / group_bytes;

    groups = groups < 1 ? 1 : groups > PLAN_GROUPS_MAX ? PLAN_GROUPS_MAX : groups;
    shard->groups = (uint32_t)groups;
    borders->lanes = plan->lanes;
    borders->count = (uint32_t)groups * plan->lanes;
    uint64_t begin = 0;
    for (uint64_t g = 0; g < groups; g++) {
        uint64_t end = g + 1 == groups ? shard->slot_bytes : shard->slot_bytes / groups * (g + 1);
        for (uint64_t l = 0; l < plan->lanes; l++)
            borders->end[g * plan->lanes + l] =
                l + 1 == plan->lanes ? end : begin + (end - begin) / plan->lanes * (l + 1);
        begin = end;
    }
}

/* plan_part -- how many elements of a piece, from element `done` of it on, belong to the span that ends at `end`. */
static uint64_t plan_part(const struct model_variable *v, const struct plan_piece *piece, uint64_t done,
                          uint64_t end)
{
    uint64_t left = piece->elements - done;

    if (v->kind != STEPGATE_TRAINED || piece->slot_bytes == 0 ||
        end >= piece->slot_offset + piece->slot_bytes)
        return left;
    uint64_t until =
        plan_round((end - piece->slot_offset) / (piece->slot_bytes / piece->elements), PLAN_BLOCK);
    return until >= piece->elements ? left : until <= done ? 0 : until - done;
}

/* plan_fragment_put -- the next fragment, of `span`. */
static void plan_fragment_put(struct plan *plan, const struct model_variable *v, size_t piece_index,
                              uint64_t done, uint64_t elements, struct plan_shard *shard, uint32_t span)
{
    const struct plan_piece *piece = &plan->by_shard[piece_index];
    uint32_t group = span / plan->lanes, lane = span % plan->lanes;
    struct plan_span *out = &shard->spans[group][lane];
    uint64_t element =
        piece->slot_bytes > 0 && v->kind == STEPGATE_TRAINED ? model_dtype_bytes(v->gradient_dtype) : 0;

    if (out->fragments == 0)
        out->first_fragment = plan->fragment_count;
    out->fragments++;
    out->slot_bytes += v->kind == STEPGATE_TRAINED ? elements * element : piece->slot_bytes;
    plan->fragments[plan->fragment_count++] =
        (struct plan_fragment){.piece = piece_index,
                               .variable = piece->variable,
                               .group = (uint16_t)group,
                               .lane = (uint16_t)lane,
                               .first_element = piece->first_element + done,
                               .elements = elements,
                               .offset = piece->offset + done * (v->bytes / v->elements),
                               .slot_offset = piece->slot_offset + done * element,
                               .state_offset = piece->state_offset + done * plan_state_element(v->dtype)};
}

/* plan_split -- gives every piece of a shard, or its parts, to spans; borders only ever move on. */
static void plan_split(struct plan *plan, const struct model *model, struct plan_shard *shard,
                       uint64_t group_bytes)
{
    struct plan_borders borders;
    uint32_t span = 0;

    plan_draw(plan, shard, group_bytes, &borders);
    for (size_t p = shard->first_piece; p < shard->first_piece + shard->pieces; p++) {
        const struct plan_piece *piece = &plan->by_shard[p];
        const struct model_variable *v = &model->variables[piece->variable];
        uint64_t done = 0;
        while (span + 1 < borders.count && borders.end[span] <= piece->slot_offset)
            span++;
        while (done < piece->elements) {
            uint64_t part = span + 1 < borders.count ? plan_part(v, piece, done, borders.end[span])
                                                     : piece->elements - done;
            if (part > 0)
                plan_fragment_put(plan, v, p, done, part, shard, span);
            done += part;
            if (done < piece->elements)
                span++;
        }
    }
}

/* plan_fragments_max -- one per piece, and one more for each border of a span. */
static size_t plan_fragments_max(const struct plan *plan)
{
    return plan->pieces + (size_t)plan->shards * PLAN_GROUPS_MAX * plan->lanes;
}

/* plan_new -- see plan.h. */
int plan_new(const struct model *model, const struct plan_options *options, struct plan **out)
{
    if (model->count == 0)
        return error_set(STEPGATE_EINVAL, 0, "declare at least one variable", "model %s has no variable",
                         model->name);
    if (options->shards == 0 || options->lanes == 0 || options->lanes > PLAN_LANES_MAX)
        return error_set(STEPGATE_EINVAL, 0, "",
                         "%u shards and %u lanes: at least one of each, at most %u lanes", options->shards,
                         options->lanes, PLAN_LANES_MAX);
    struct plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the plan of model %s", model->name);
    plan->shards = options->shards;
    plan->lanes = options->lanes;
    plan->variable_first = calloc(model->count + 1, sizeof(*plan->variable_first));
    plan->shard = calloc(plan->shards, sizeof(*plan->shard));
    int status = -STEPGATE_ENOMEM;
    if (plan->variable_first == NULL || plan->shard == NULL)
        goto delete_plan;
    for (size_t v = 0; v < model->count; v++) {
        plan->variable_first[v] = plan->pieces;
        plan->pieces += plan_parts(&model->variables[v], options);
    }
    plan->variable_first[model->count] = plan->pieces;
    plan->by_variable = calloc(plan->pieces, sizeof(*plan->by_variable));
    plan->by_shard = calloc(plan->pieces, sizeof(*plan->by_shard));
    if (plan->by_variable == NULL || plan->by_shard == NULL)
        goto delete_plan;
    status = plan_place(plan, model, options);
    if (status != 0)
        goto delete_plan;
    plan_lay_out(plan, model);
    plan->fragments = calloc(plan_fragments_max(plan), sizeof(*plan->fragments));
    status = -STEPGATE_ENOMEM;
    if (plan->fragments == NULL)
        goto delete_plan;
    for (uint32_t s = 0; s < plan->shards; s++)
        plan_split(plan, model, &plan->shard[s],
                   options->group_bytes != 0 ? options->group_bytes : PLAN_GROUP_BYTES);
    *out = plan;
    return 0;

delete_plan:
    if (status == -STEPGATE_ENOMEM)
        error_set(STEPGATE_ENOMEM, 0, "", "no memory for the plan of model %s", model->name);
    plan_delete(&plan);
    return status;
}

/* plan_delete -- frees, sets NULL. */
void plan_delete(struct plan **plan)
{
    if (*plan == NULL)
        return;
    free((*plan)->by_variable);
    free((*plan)->by_shard);
    free((*plan)->fragments);
    free((*plan)->variable_first);
    free((*plan)->shard);
    free(*plan);
    *plan = NULL;
}
