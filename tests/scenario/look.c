/* SPDX-License-Identifier: BSD-3-Clause */
/* look -- what the shards hold, what workers have pulled, and whether these are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ps/optimizer/number.h"
#include "ps/shard/inside.h"
#include "tests/scenario/inside.h"

/* cluster_narrow -- see inside.h. */
void cluster_narrow(int dtype, const double *from, uint64_t count, void *to, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++) {
        float narrow = (float)from[i % count];
        if (dtype == STEPGATE_F64)
            ((double *)to)[i] = from[i % count];
        else
            number_narrow_f32(dtype, &narrow, (uint8_t *)to + i * number_bytes(dtype), 1);
    }
}

/* cluster_widen -- see inside.h. */
double cluster_widen(int dtype, const void *values, uint64_t element)
{
    double value;

    number_widen_f64(dtype, (const uint8_t *)values + element * number_bytes(dtype), &value, 1);
    return value;
}

/* look_model -- on a shard, once it runs; NULL before. */
static const struct shard_model *look_model(const struct cluster *c, uint32_t s)
{
    const struct shard_model *model = c->ps[s].shard != NULL ? c->ps[s].shard->models[0] : NULL;

    return model != NULL && model->phase == PHASE_RUNNING ? model : NULL;
}

/* cluster_gs -- see cluster.h. */
uint64_t cluster_gs(const struct cluster *c)
{
    uint64_t step = UINT64_MAX;

    for (uint32_t s = 0; s < c->shards; s++) {
        const struct shard_model *model = look_model(c, s);
        if (model == NULL || (s > 0 && model->step != step))
            return UINT64_MAX;
        step = model->step;
    }
    return atomic_load(&c->ps[0].shard->leads[0]->step) == step ? step : UINT64_MAX;
}

/* look_piece -- which piece holds an element. */
static const struct plan_piece *look_piece(const struct plan *plan, uint32_t v, uint64_t element)
{
    const struct plan_piece *piece = &plan->by_variable[plan->variable_first[v]];

    while (element >= piece->first_element + piece->elements)
        piece++;
    return piece;
}

/* cluster_value -- see cluster.h. */
double cluster_value(const struct cluster *c, uint32_t v, uint64_t element)
{
    const struct shard_model *model = look_model(c, 0);

    if (model == NULL)
        return (double)NAN;
    const struct plan_piece *piece = look_piece(model->plan, v, element);
    model = look_model(c, piece->shard);
    return cluster_widen(model->model->variables[v].dtype,
                         model->board.parameters[model->step & 1] + piece->offset,
                         element - piece->first_element);
}

/* look_state -- an element of a state arena. */
static double look_state(const struct cluster *c, uint32_t v, uint64_t element,
                         const uint8_t *(*arena)(const struct board *, unsigned), unsigned slot)
{
    const struct shard_model *model = look_model(c, 0);

    if (model == NULL)
        return (double)NAN;
    const struct plan_piece *piece = look_piece(model->plan, v, element);
    model = look_model(c, piece->shard);
    const uint8_t *at = arena(&model->board, slot);
    if (at == NULL)
        return (double)NAN;
    return cluster_widen(model->model->variables[v].dtype == STEPGATE_F64 ? NUMBER_F64 : NUMBER_F32,
                         at + piece->state_offset, element - piece->first_element);
}

/* look_slot_arena, look_average_arena -- which arena look_state looks into. */
static const uint8_t *look_slot_arena(const struct board *board, unsigned slot)
{
    return board->state[slot];
}
static const uint8_t *look_average_arena(const struct board *board, unsigned slot)
{
    (void)slot;
    return board->average;
}

/* cluster_slot -- see cluster.h. */
double cluster_slot(const struct cluster *c, uint32_t v, unsigned slot, uint64_t element)
{
    return look_state(c, v, element, look_slot_arena, slot);
}

/* cluster_average -- see cluster.h. */
double cluster_average(const struct cluster *c, uint32_t v, uint64_t element)
{
    return look_state(c, v, element, look_average_arena, 0);
}

/* cluster_pulled -- see cluster.h. */
double cluster_pulled(const struct cluster *c, uint32_t w, uint32_t v, uint64_t element)
{
    const double *values = c->worker[w].pulls[v].values;

    return values != NULL ? values[element] : (double)NAN;
}

/* cluster_counts -- see cluster.h. */
struct mode_counts cluster_counts(const struct cluster *c, uint32_t w)
{
    struct mode_counts counts = {0};

    if (c->ps[0].shard->leads[0] != NULL && c->ps[0].shard->leads[0]->mode != NULL)
        mode_counts(c->ps[0].shard->leads[0]->mode, w, &counts);
    return counts;
}

/* look_history -- where the values of a step are kept. */
static double *look_history(struct cluster *c, uint64_t step, uint32_t v)
{
    if (step >= c->history_count) {
        c->history = realloc(c->history, (step + 1) * sizeof(*c->history));
        memset(c->history + c->history_count, 0, (step + 1 - c->history_count) * sizeof(*c->history));
        c->history_count = step + 1;
    }
    if (c->history[step].values[v] == NULL) {
        c->history[step].values[v] = malloc(c->elements[v] * sizeof(double));
        for (uint64_t i = 0; i < c->elements[v]; i++)
            c->history[step].values[v][i] = (double)NAN;
    }
    return c->history[step].values[v];
}

/* cluster_record -- a shard comes to one step after the other, and is looked at after each of its moves. */
void cluster_record(struct cluster *c, uint32_t s)
{
    const struct shard_model *model = look_model(c, s);

    if (model == NULL || c->ps[s].recorded == model->step + 1)
        return;
    c->ps[s].recorded = model->step + 1;
    const struct plan_shard *planned = &model->plan->shard[s];
    for (size_t p = 0; p < planned->pieces; p++) {
        const struct plan_piece *piece = &model->plan->by_shard[planned->first_piece + p];
        if (model->model->variables[piece->variable].kind == STEPGATE_AUX)
            continue;
        double *to = look_history(c, model->step, piece->variable);
        for (uint64_t i = 0; i < piece->elements; i++)
            to[piece->first_element + i] =
                cluster_widen(model->model->variables[piece->variable].dtype,
                              model->board.parameters[model->step & 1] + piece->offset, i);
    }
}

/* cluster_note -- see inside.h. */
void cluster_note(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    const struct model *declared = session_model_declared(worker->model);

    for (uint32_t v = 0; v < c->variables; v++) {
        struct cluster_pull *pull = &worker->pulls[v];
        const void *value = NULL;
        if (session_parameter(worker->model, v, &value) != 0 || value == NULL)
            continue;
        if (session_pulled(worker->model, (int)v, &pull->lowest, &pull->highest) != 0)
            continue;
        if (pull->values == NULL)
            pull->values = malloc(c->elements[v] * sizeof(double));
        for (uint64_t i = 0; i < c->elements[v]; i++)
            pull->values[i] = cluster_widen(declared->variables[v].dtype, value, i);
        pull->unchecked = declared->variables[v].kind != STEPGATE_AUX;
    }
}

/* look_held -- did the shards hold this value of the element in one of the steps that were read? */
static bool look_held(struct cluster *c, const struct cluster_pull *pull, uint32_t v, uint64_t element)
{
    for (uint64_t step = pull->lowest; step <= pull->highest; step++) {
        double held = look_history(c, step, v)[element];
        if (memcmp(&held, &pull->values[element], sizeof(held)) == 0 ||
            (isnan(held) && isnan(pull->values[element])))
            return true;
    }
    return false;
}

/* cluster_check_pulls -- see inside.h. */
int cluster_check_pulls(struct cluster *c)
{
    for (uint32_t w = 0; w < c->workers; w++)
        for (uint32_t v = 0; v < c->variables; v++) {
            struct cluster_pull *pull = &c->worker[w].pulls[v];
            for (uint64_t i = 0; pull->unchecked && i < c->elements[v]; i++)
                if (!look_held(c, pull, v, i))
                    return FAIL(
                        c->ground,
                        "worker %u has pulled %.17g as element %llu of variable %u, steps %llu to %llu; "
                        "the ps held %.17g",
                        w, pull->values[i], (unsigned long long)i, v, (unsigned long long)pull->lowest,
                        (unsigned long long)pull->highest, look_history(c, pull->lowest, v)[i]);
            pull->unchecked = false;
        }
    return 0;
}
