/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/plain.h"

/* reference_bytes -- of a variable as it is published. */
static size_t reference_bytes(const struct shape_variable *v)
{
    return v->elements * plain_bytes(v->dtype);
}

/* reference_frame -- the one of r->step, with the values of a variable to be filled. */
static int reference_frame(struct reference *r)
{
    if (r->step >= r->room) {
        uint64_t room = r->room > 0 ? 2 * r->room : 16;
        struct reference_frame *more = realloc(r->frames, room * sizeof(*more));
        if (more == NULL)
            return -1;
        memset(more + r->room, 0, (room - r->room) * sizeof(*more));
        r->frames = more;
        r->room = room;
    }
    for (uint32_t v = 0; v < r->shape->variables; v++) {
        if (r->shape->variable[v].kind == STEPGATE_AUX)
            continue;
        r->frames[r->step].values[v] = malloc(reference_bytes(&r->shape->variable[v]));
        if (r->frames[r->step].values[v] == NULL)
            return -1;
    }
    return 0;
}

/* reference_has_array -- is this kept of the variable? */
static bool reference_has_array(const struct shape *s, const struct shape_variable *v, int array)
{
    if (!shape_moves(v))
        return false;
    return array == REFERENCE_VALUE || (array == REFERENCE_AVERAGE ? v->average : array <= rule_slots(s));
}

/* reference_variable -- memory and first numbers of one variable. */
static int reference_variable(struct reference *r, uint32_t i)
{
    const struct shape_variable *v = &r->shape->variable[i];
    uint8_t *first = r->frames[0].values[i];

    for (uint32_t w = 0; v->kind == STEPGATE_AUX && w < r->shape->workers; w++) {
        r->aux[w][i] = calloc(v->elements, plain_bytes(v->dtype));
        if (r->aux[w][i] == NULL)
            return -1;
    }
    r->sums[i] = calloc(v->elements, sizeof(double));
    r->row_weight[i] = calloc(v->kind == STEPGATE_SPARSE ? v->rows : 1, sizeof(double));
    if (r->sums[i] == NULL || r->row_weight[i] == NULL)
        return -1;
    if (first != NULL)
        shape_initial(r->shape, i, first);
    for (int a = 0; a < REFERENCE_ARRAYS; a++) {
        if (!reference_has_array(r->shape, v, a))
            continue;
        double *now = malloc(v->elements * sizeof(double)), *before = malloc(v->elements * sizeof(double));
        r->now.arrays[i][a] = now;
        r->before.arrays[i][a] = before;
        if (now == NULL || before == NULL)
            return -1;
        for (uint64_t e = 0; e < v->elements; e++)
            before[e] = now[e] = a == REFERENCE_VALUE || a == REFERENCE_AVERAGE
                                     ? plain_get(v->dtype, first, e)
                                     : rule_initial(r->shape, shape_wide(v), a - REFERENCE_FIRST);
    }
    return 0;
}

/* reference_start -- see the header. */
int reference_start(struct reference *r, const struct shape *shape, const struct contribution_log *logs)
{
    int status;

    memset(r, 0, sizeof(*r));
    r->shape = shape;
    r->logs = logs;
    r->beta1_power = (float)shape->beta1;
    r->beta2_power = (float)shape->beta2;
    r->wide_beta1_power = shape->beta1;
    r->wide_beta2_power = shape->beta2;
    status = reference_frame(r);
    for (uint32_t v = 0; v < shape->variables && status == 0; v++)
        status = reference_variable(r, v);
    return status;
}

/* reference_clear -- frees. */
void reference_clear(struct reference *r)
{
    for (uint64_t k = 0; k < r->room; k++) {
        for (uint32_t v = 0; v < SHAPE_VARIABLES_MAX; v++)
            free(r->frames[k].values[v]);
        free(r->frames[k].set);
    }
    for (uint32_t v = 0; v < SHAPE_VARIABLES_MAX; v++) {
        free(r->sums[v]);
        free(r->row_weight[v]);
        for (int a = 0; a < REFERENCE_ARRAYS; a++) {
            free(r->now.arrays[v][a]);
            free(r->before.arrays[v][a]);
        }
        for (uint32_t w = 0; w < SHAPE_WORKERS_MAX; w++)
            free(r->aux[w][v]);
    }
    free(r->frames);
    memset(r, 0, sizeof(*r));
}

/* reference_forget -- nothing is summed. */
static void reference_forget(struct reference *r)
{
    for (uint32_t i = 0; i < r->shape->variables; i++) {
        const struct shape_variable *v = &r->shape->variable[i];
        memset(r->sums[i], 0, v->elements * sizeof(double));
        memset(r->row_weight[i], 0, (v->kind == STEPGATE_SPARSE ? v->rows : 1) * sizeof(double));
        r->begun[i] = false;
        r->present[i] = 0;
    }
    r->divisor = 0;
    r->summed = 0;
}

/* reference_add -- count numbers of a part from `from` on, times a factor, to the sum of a variable from `to` on; fresh: they are the sum. */
static void reference_add(struct reference *r, uint32_t i, const struct contribution_part *part,
                          uint64_t from, uint64_t to, uint64_t count, double factor, bool fresh)
{
    const struct shape_variable *v = &r->shape->variable[i];
    bool wide = shape_wide(v);
    double by = plain_round(wide, factor);

    for (uint64_t e = 0; e < count; e++) {
        double g = part->absent ? 0 : plain_get(v->gradient_dtype, part->values, from + e);
        double product = plain_round(wide, by * g);
        r->sums[i][to + e] = fresh ? product : plain_round(wide, r->sums[i][to + e] + product);
    }
}

/* reference_sum -- one contribution to what is summed, which starts as the first one. */
static void reference_sum(struct reference *r, const struct contribution *c)
{
    double factor = contribution_factor(r->shape, c), weight = c->weight;

    for (uint32_t i = 0; i < r->shape->variables; i++) {
        const struct shape_variable *v = &r->shape->variable[i];
        const struct contribution_part *part = &c->parts[i];
        if (v->kind == STEPGATE_TRAINED && !v->frozen && !(part->absent && r->shape->mode == SHAPE_TF)) {
            reference_add(r, i, part, 0, 0, v->elements, factor, !r->begun[i]);
            r->begun[i] = true;
            r->present[i] += weight;
        }
        for (uint64_t n = 0; v->kind == STEPGATE_SPARSE && !v->frozen && n < part->rows; n++) {
            double *there = &r->row_weight[i][part->indices[n]];
            reference_add(r, i, part, n * v->width, part->indices[n] * v->width, v->width, factor,
                          *there == 0);
            *there += weight;
        }
        if (v->kind != STEPGATE_ASSIGNED || part->absent || (v->rank0 && c->rank != 0))
            continue;
        if (v->rank0) {
            memset(r->sums[i], 0, v->elements * sizeof(double));
            r->present[i] = 0;
        }
        reference_add(r, i, part, 0, 0, v->elements, v->rank0 ? 1 : weight, v->rank0 || !r->begun[i]);
        r->begun[i] = true;
        r->present[i] += v->rank0 ? 1 : weight;
    }
    r->divisor += c->weight;
    r->summed++;
}

/* reference_keep_aux -- what the ps keep of a worker for itself. */
static void reference_keep_aux(struct reference *r, const struct contribution *c)
{
    for (uint32_t i = 0; i < r->shape->variables; i++)
        if (r->shape->variable[i].kind == STEPGATE_AUX && !c->parts[i].absent)
            memcpy(r->aux[c->rank][i], c->parts[i].values, reference_bytes(&r->shape->variable[i]));
}

/* reference_accumulate -- see the header. */
void reference_accumulate(struct reference *r, struct contribution *c)
{
    c->taken = true;
    c->taken_step = r->step;
    reference_sum(r, c);
    reference_keep_aux(r, c);
}

/* reference_row_divisor -- of a row of a sparse variable. */
static double reference_row_divisor(const struct reference *r, uint32_t i, uint64_t row)
{
    bool everybody = r->shape->variable[i].by_replicas && r->shape->mode != SHAPE_TF;

    return everybody ? r->divisor : r->row_weight[i][row];
}

/* reference_divide -- sums become means. */
static void reference_divide(struct reference *r)
{
    for (uint32_t i = 0; i < r->shape->variables; i++) {
        const struct shape_variable *v = &r->shape->variable[i];
        bool wide = shape_wide(v);
        bool divides = shape_moves(v) || v->kind == STEPGATE_ASSIGNED;
        for (uint64_t e = 0; divides && e < v->elements; e++) {
            double by = v->kind == STEPGATE_SPARSE ? reference_row_divisor(r, i, e / v->width)
                        : v->kind == STEPGATE_ASSIGNED || r->shape->mode == SHAPE_TF
                            ? r->present[i] /* tf: what is absent counts in no mean */
                            : r->divisor;
            if (by != 0)
                r->sums[i][e] = plain_round(wide, r->sums[i][e] / plain_round(wide, by));
        }
    }
}

/* reference_squares -- of the mean of one variable, block by block, of rows row by row. */
static void reference_squares(const struct reference *r, uint32_t i, struct plain_sum *sum)
{
    const struct shape_variable *v = &r->shape->variable[i];
    bool sparse = v->kind == STEPGATE_SPARSE;
    uint64_t unit = sparse ? v->width : v->elements;

    for (uint64_t first = 0; first < v->elements; first += unit)
        for (uint64_t e = 0; e < unit && (!sparse || r->row_weight[i][first / unit] != 0); e += PLAIN_BLOCK)
            plain_sum_add(
                sum, plain_norm(r->sums[i] + first + e, unit - e < PLAIN_BLOCK ? unit - e : PLAIN_BLOCK));
}

/* reference_scale -- by the norm of the whole mean. */
static double reference_scale(struct reference *r)
{
    struct plain_sum sum = {.count = 0};

    for (uint32_t i = 0; i < r->shape->variables; i++)
        if (shape_moves(&r->shape->variable[i]))
            reference_squares(r, i, &sum);
    double norm = sqrt(plain_sum_round(&sum)), clip = r->shape->clip_global_norm;
    r->clipped += norm > clip;
    if (!isfinite(norm))
        return (double)NAN;
    return norm > clip ? clip / norm : 1;
}

/* reference_learn -- one step of a trained or sparse variable. */
static void reference_learn(struct reference *r, uint32_t i, const struct rule_scalars *scalars)
{
    const struct shape_variable *v = &r->shape->variable[i];
    void *next = r->frames[r->step + 1].values[i];

    if (r->shape->mode == SHAPE_TF && v->kind == STEPGATE_TRAINED && !r->begun[i])
        return; /* absent from all: it stays as it is */
    for (uint64_t e = 0; e < v->elements; e++) {
        double *at[REFERENCE_ARRAYS];
        if (v->kind == STEPGATE_SPARSE && r->row_weight[i][e / v->width] == 0)
            continue;
        for (int a = 0; a < REFERENCE_ARRAYS; a++)
            at[a] = r->now.arrays[i][a] != NULL ? &r->now.arrays[i][a][e] : NULL;
        rule_element(r->shape, v, scalars, r->sums[i][e], at);
        plain_put(v->dtype, next, e, *at[REFERENCE_VALUE]);
    }
}

/* reference_apply -- one step of everything. */
static void reference_apply(struct reference *r)
{
    struct rule_scalars scalars[2]; /* of f32, of f64 */

    reference_divide(r);
    for (int wide = 0; wide < 2; wide++)
        rule_scalars_at(r, wide, &scalars[wide]);
    if (r->shape->clip_global_norm > 0) {
        scalars[1].scale = reference_scale(r);
        scalars[0].scale = plain_round(false, scalars[1].scale);
    }
    for (uint32_t i = 0; i < r->shape->variables; i++) {
        const struct shape_variable *v = &r->shape->variable[i];
        if (shape_moves(v))
            reference_learn(r, i, &scalars[shape_wide(v)]);
        for (uint64_t e = 0; v->kind == STEPGATE_ASSIGNED && r->present[i] > 0 && e < v->elements; e++)
            plain_put(v->dtype, r->frames[r->step + 1].values[i], e, r->sums[i][e]);
    }
    r->updates++;
    r->beta1_power *= (float)r->shape->beta1;
    r->beta2_power *= (float)r->shape->beta2;
    r->wide_beta1_power *= r->shape->beta1;
    r->wide_beta2_power *= r->shape->beta2;
}

/* reference_next -- room for the next step, which is this one for now. */
static int reference_next(struct reference *r)
{
    r->step++;
    int status = reference_frame(r);
    r->step--;
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < r->shape->variables; i++) {
        const struct shape_variable *v = &r->shape->variable[i];
        if (v->kind != STEPGATE_AUX)
            memcpy(r->frames[r->step + 1].values[i], r->frames[r->step].values[i], reference_bytes(v));
        for (int a = 0; a < REFERENCE_ARRAYS; a++)
            if (r->now.arrays[i][a] != NULL)
                memcpy(r->before.arrays[i][a], r->now.arrays[i][a], v->elements * sizeof(double));
    }
    return 0;
}

/* reference_take -- see the header. */
int reference_take(struct reference *r, const struct reference_member *set, uint32_t count)
{
    bool tf = r->shape->mode == SHAPE_TF;

    if (reference_next(r) != 0)
        return -1;
    struct reference_frame *frame = &r->frames[r->step];
    frame->count = count;
    frame->decided = true;
    if (!tf) {
        reference_forget(r);
        frame->set = calloc(count + 1u, sizeof(*frame->set));
        if (frame->set == NULL)
            return -1;
    }
    for (uint32_t i = 0; !tf && i < count; i++) {
        struct contribution *c = contribution_at(&r->logs[set[i].rank], set[i].sequence);
        frame->set[i] = set[i];
        c->taken = true;
        c->taken_step = r->step;
        reference_sum(r, c);
        reference_keep_aux(r, c);
    }
    if (count > 0)
        reference_apply(r);
    if (tf)
        reference_forget(r);
    r->step++;
    return 0;
}

/* reference_has -- see the header. */
bool reference_has(const struct reference *r, uint64_t step, uint32_t rank, uint64_t sequence)
{
    const struct reference_frame *frame = step < r->step ? &r->frames[step] : NULL;

    for (uint32_t i = 0; frame != NULL && frame->set != NULL && i < frame->count; i++)
        if (frame->set[i].rank == rank && frame->set[i].sequence == sequence)
            return true;
    return false;
}
