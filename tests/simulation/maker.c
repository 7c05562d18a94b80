/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/maker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stepgate/error.h"
#include "tests/simulation/plain.h"

/* maker_number -- one element of a gradient, as its dtype has it. */
static void maker_number(const struct shape_variable *v, uint64_t base, uint64_t element, const void *value,
                         void *out, uint64_t i)
{
    double noise = shape_unit((base + element) * UINT64_C(0x9e3779b97f4a7c15));
    double read = value != NULL ? plain_get(v->dtype, value, element) * 0.125 : 0;

    plain_put(v->gradient_dtype, out, i, plain_round(shape_wide(v), noise + read));
}

/* maker_rows -- which rows; each once, rising. */
static int maker_rows(const struct maker *m, const struct shape_variable *v, struct contribution_part *part)
{
    uint64_t some = random_below(m->random, v->rows_max + 1), chance = some * 1000 / v->rows + 1;

    part->indices = malloc((v->rows_max + 1) * sizeof(*part->indices));
    if (part->indices == NULL)
        return -1;
    for (uint64_t row = 0; row < v->rows && part->rows < some; row++)
        if (random_below(m->random, 1000) < chance)
            part->indices[part->rows++] = row;
    return 0;
}

/* maker_spoil -- something that is not finite, in any place. */
static bool maker_spoil(const struct maker *m, const struct shape_variable *v, struct contribution_part *part)
{
    const struct shape *shape = m->shape;
    uint64_t n = v->kind == STEPGATE_SPARSE ? part->rows * v->width : v->elements;

    if (n == 0 || shape->bad_per_mille == 0 ||
        !random_chance(m->random, shape->bad_per_mille / (unsigned)shape->variables + 1))
        return false;
    plain_put(v->gradient_dtype, part->values, random_below(m->random, n),
              random_chance(m->random, 600) ? (double)NAN : (double)INFINITY);
    return true;
}

/* maker_make -- see the header. */
int maker_make(const struct maker *m, uint32_t i, const void *value, bool *bad)
{
    const struct shape_variable *v = &m->shape->variable[i];
    struct contribution_part *part = &m->contribution->parts[i];
    uint64_t base = shape_mix(m->shape->seed, 4, m->contribution->rank, m->contribution->sequence, i);
    bool sparse = v->kind == STEPGATE_SPARSE;

    part->pushed = true;
    if (sparse && maker_rows(m, v, part) != 0)
        return -STEPGATE_ENOMEM;
    uint64_t n = sparse ? part->rows * v->width : v->elements;
    part->values = malloc(n * plain_bytes(v->gradient_dtype) + 1);
    if (part->values == NULL)
        return -STEPGATE_ENOMEM;
    for (uint64_t e = 0; e < n; e++)
        maker_number(v, base, sparse ? part->indices[e / v->width] * v->width + e % v->width : e, value,
                     part->values, e);
    *bad = maker_spoil(m, v, part);
    return 0;
}

/* maker_split -- a row in two parts, whose sum, rounded as it is when they are pushed, is what counts. Both are written behind the list. */
static void maker_split(const struct shape_variable *v, struct contribution_part *part, uint64_t row,
                        struct maker_list *list)
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
    list->split++;
}

/* maker_shuffle -- any order, but that two parts of a row stay in theirs: they are added in the order given. */
static void maker_shuffle(const struct maker *m, const struct shape_variable *v, struct maker_list *list)
{
    size_t bytes = v->width * plain_bytes(v->gradient_dtype);
    uint8_t row[64 * sizeof(double)];

    for (uint64_t n = list->count; n > 1; n--) {
        uint64_t other = random_below(m->random, n), index = list->indices[n - 1];
        list->indices[n - 1] = list->indices[other];
        list->indices[other] = index;
        memcpy(row, list->values + (n - 1) * bytes, bytes);
        memcpy(list->values + (n - 1) * bytes, list->values + other * bytes, bytes);
        memcpy(list->values + other * bytes, row, bytes);
    }
}

/* maker_list -- see the header. The sum of two numbers does not depend on which comes first. */
int maker_list(const struct maker *m, uint32_t i, struct maker_list *list)
{
    const struct shape_variable *v = &m->shape->variable[i];
    struct contribution_part *part = &m->contribution->parts[i];
    size_t bytes = v->width * plain_bytes(v->gradient_dtype);

    *list = (struct maker_list){.indices = malloc((v->rows_max + 2) * sizeof(*list->indices)),
                                .values = malloc((v->rows_max + 2) * bytes)};
    if (list->indices == NULL || list->values == NULL) {
        maker_list_clear(list);
        return -STEPGATE_ENOMEM;
    }
    for (uint64_t r = 0; r < part->rows; r++) {
        if (list->count + part->rows - r < v->rows_max && random_chance(m->random, 100)) {
            maker_split(v, part, r, list);
            continue;
        }
        memcpy(list->values + list->count * bytes, (const uint8_t *)part->values + r * bytes, bytes);
        list->indices[list->count++] = part->indices[r];
    }
    maker_shuffle(m, v, list);
    return 0;
}

/* maker_list_clear -- frees. */
void maker_list_clear(struct maker_list *list)
{
    free(list->indices);
    free(list->values);
    *list = (struct maker_list){0};
}
