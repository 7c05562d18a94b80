/* SPDX-License-Identifier: BSD-3-Clause */
/* maker -- what a trainee computes: a function of its rank, the number of the contribution, and what it pulled, so that a wrong read shows in every later step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/plain.h"
#include "tests/simulation/trainee.h"

/* maker_number -- one element of a gradient, as its dtype has it. */
static void maker_number(const struct shape_variable *v, uint64_t base, uint64_t element, const void *value,
                         void *out, uint64_t i)
{
    double noise = shape_unit((base + element) * UINT64_C(0x9e3779b97f4a7c15));
    double read = value != NULL ? plain_get(v->dtype, value, element) * 0.125 : 0;

    plain_put(v->gradient_dtype, out, i, plain_round(shape_wide(v), noise + read));
}

/* maker_rows -- which rows; each once, rising. */
static int maker_rows(struct trainee *t, const struct shape_variable *v, struct contribution_part *part)
{
    uint64_t some = random_below(&t->random, v->rows_max + 1), chance = some * 1000 / v->rows + 1;

    part->indices = malloc((v->rows_max + 1) * sizeof(*part->indices));
    if (part->indices == NULL)
        return -1;
    for (uint64_t row = 0; row < v->rows && part->rows < some; row++)
        if (random_below(&t->random, 1000) < chance)
            part->indices[part->rows++] = row;
    return 0;
}

/* maker_spoil -- something that is not finite, in any place. */
static void maker_spoil(struct trainee *t, const struct shape_variable *v, struct contribution_part *part)
{
    uint64_t n = v->kind == STEPGATE_SPARSE ? part->rows * v->width : v->elements;

    if (n == 0 || t->shape->bad_per_mille == 0 ||
        !random_chance(&t->random, t->shape->bad_per_mille / (unsigned)t->shape->variables + 1))
        return;
    plain_put(v->gradient_dtype, part->values, random_below(&t->random, n),
              random_chance(&t->random, 600) ? (double)NAN : (double)INFINITY);
    t->counts.bad++;
}

/* trainee_make -- see the header. */
int trainee_make(struct trainee *t, uint32_t i)
{
    const struct shape_variable *v = &t->shape->variable[i];
    struct contribution_part *part = &t->open->parts[i];
    uint64_t base = shape_mix(t->shape->seed, 4, t->rank, t->open->sequence, i);
    bool sparse = v->kind == STEPGATE_SPARSE;
    const void *value = NULL;

    part->pushed = true;
    if (sparse && maker_rows(t, v, part) != 0)
        return -1;
    uint64_t n = sparse ? part->rows * v->width : v->elements;
    part->values = malloc(n * plain_bytes(v->gradient_dtype) + 1);
    if (part->values == NULL)
        return -1;
    if (session_parameter(t->model, i, &value) != 0)
        value = NULL; /* not pulled yet */
    for (uint64_t e = 0; e < n; e++)
        maker_number(v, base, sparse ? part->indices[e / v->width] * v->width + e % v->width : e, value,
                     part->values, e);
    maker_spoil(t, v, part);
    return 0;
}

/* What is handed over of a sparse variable. */
struct maker_list {
    uint64_t count;
    uint64_t *indices;
    uint8_t *values;
};

/* maker_split -- a row in two parts, whose sum, rounded as it is when they are pushed, is what counts. Both are written behind the list. */
static void maker_split(struct trainee *t, const struct shape_variable *v, struct contribution_part *part,
                        uint64_t row, struct maker_list *list)
{
    bool wide = v->gradient_dtype == STEPGATE_F64;
    uint64_t at = list->count * v->width;

    for (uint64_t e = 0; e < v->width; e++) {
        double first = plain_get(v->gradient_dtype, part->values, row * v->width + e);
        plain_put(v->gradient_dtype, list->values, at + e, first);
        plain_put(v->gradient_dtype, list->values, at + v->width + e, 0.375);
        plain_put(v->gradient_dtype, part->values, row * v->width + e, plain_round(wide, first + 0.375));
    }
    list->indices[list->count++] = part->indices[row];
    list->indices[list->count++] = part->indices[row];
    t->counts.duplicates++;
}

/* maker_shuffle -- any order, but that two parts of a row stay in theirs: they are added in the order given. */
static void maker_shuffle(struct trainee *t, const struct shape_variable *v, struct maker_list *list)
{
    size_t bytes = v->width * plain_bytes(v->gradient_dtype);
    uint8_t row[64 * sizeof(double)];

    for (uint64_t n = list->count; n > 1; n--) {
        uint64_t other = random_below(&t->random, n), index = list->indices[n - 1];
        list->indices[n - 1] = list->indices[other];
        list->indices[other] = index;
        memcpy(row, list->values + (n - 1) * bytes, bytes);
        memcpy(list->values + (n - 1) * bytes, list->values + other * bytes, bytes);
        memcpy(list->values + other * bytes, row, bytes);
    }
}

/* trainee_push_rows -- see the header. The sum of two numbers does not depend on which comes first. */
int trainee_push_rows(struct trainee *t, uint32_t i, uint64_t now)
{
    const struct shape_variable *v = &t->shape->variable[i];
    struct contribution_part *part = &t->open->parts[i];
    size_t bytes = v->width * plain_bytes(v->gradient_dtype);
    struct maker_list list = {.indices = malloc((v->rows_max + 2) * sizeof(*list.indices)),
                              .values = malloc((v->rows_max + 2) * bytes)};
    int status = -STEPGATE_ENOMEM;

    for (uint64_t r = 0; list.indices != NULL && list.values != NULL && r < part->rows; r++) {
        if (list.count + part->rows - r < v->rows_max && random_chance(&t->random, 100)) {
            maker_split(t, v, part, r, &list);
            continue;
        }
        memcpy(list.values + list.count * bytes, (const uint8_t *)part->values + r * bytes, bytes);
        list.indices[list.count++] = part->indices[r];
    }
    if (list.indices != NULL && list.values != NULL) {
        maker_shuffle(t, v, &list);
        t->counts.rows += list.count;
        status = session_push_rows(t->model, i, list.indices, list.count, list.values, now);
    }
    free(list.indices);
    free(list.values);
    return status;
}
