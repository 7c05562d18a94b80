/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/plan.h"

#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

#define PLAN_GROUP_BYTES (UINT64_C(1) << 20)
#define PLAN_CUT_BYTES (UINT64_C(256) << 20)
#define PLAN_SPAN_UNIT                                                                                       \
    (UINT64_C(4) * PLAN_BLOCK) /* bytes: lanes are cut at multiples of it where there is enough */

/* plan_round -- up to a multiple of unit. */
static uint64_t plan_round(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* plan_cut_unit -- the bytes between two possible cuts of a variable: whole rows and whole blocks; its own size if it cannot be cut. */
static uint64_t plan_cut_unit(const struct model_variable *v)
{
    uint64_t row = v->rank > 0 ? v->elements / v->dims[0] : 1;
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
            *piece = (struct plan_piece){
                .variable = items[i].variable, .shard = shard, .first = first, .bytes = end - first};
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

/* plan_lay_out -- orders the pieces of each shard by declaration and gives them offsets. */
static void plan_lay_out(struct plan *plan)
{
    size_t next = 0;

    for (uint32_t s = 0; s < plan->shards; s++) {
        struct plan_shard *shard = &plan->shard[s];
        uint64_t offset = 0;

        shard->first_piece = next;
        for (size_t p = 0; p < plan->pieces; p++) {
            struct plan_piece *piece = &plan->by_variable[p];
            if (piece->shard != s)
                continue;
            piece->offset = offset;
            offset = plan_round(offset + piece->bytes, PLAN_LINE);
            plan->by_shard[next++] = *piece;
        }
        shard->pieces = next - shard->first_piece;
        shard->arena_bytes = offset > 0 ? offset : PLAN_LINE;
    }
}

/* plan_split -- cuts a shard's arena into groups, and each group into one span per lane. */
static void plan_split(struct plan *plan, struct plan_shard *shard, uint64_t group_bytes)
{
    uint64_t groups = shard->arena_bytes / group_bytes;

    groups = groups < 1 ? 1 : groups > PLAN_GROUPS_MAX ? PLAN_GROUPS_MAX : groups;
    shard->groups = (uint32_t)groups;
    uint64_t begin = 0;
    for (uint64_t g = 0; g < groups; g++) {
        uint64_t end = g + 1 == groups ? shard->arena_bytes
                                       : plan_round(shard->arena_bytes / groups * (g + 1), PLAN_LINE);
        uint64_t bytes = end - begin, from = begin;
        uint64_t unit = bytes >= PLAN_SPAN_UNIT * plan->lanes ? PLAN_SPAN_UNIT : PLAN_LINE;
        for (uint64_t l = 0; l < plan->lanes; l++) {
            uint64_t to =
                l + 1 == plan->lanes ? end : begin + plan_round(bytes / plan->lanes * (l + 1), unit);
            if (to > end)
                to = end;
            shard->spans[g][l] = (struct plan_span){from, to};
            from = to;
        }
        begin = end;
    }
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
    plan_lay_out(plan);
    for (uint32_t s = 0; s < plan->shards; s++)
        plan_split(plan, &plan->shard[s],
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
    free((*plan)->variable_first);
    free((*plan)->shard);
    free(*plan);
    *plan = NULL;
}
