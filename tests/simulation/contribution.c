/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/contribution.h"

#include <math.h>
#include <stdlib.h>

#include "tests/simulation/plain.h"

/* contribution_new -- see the header. */
struct contribution *contribution_new(struct contribution_log *log, uint32_t rank, uint64_t step)
{
    if (log->count == log->room) {
        size_t room = log->room > 0 ? 2 * log->room : 16;
        struct contribution **more = realloc(log->list, room * sizeof(*more));
        if (more == NULL)
            return NULL;
        log->list = more;
        log->room = room;
    }
    struct contribution *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->rank = rank;
    c->sequence = log->count;
    c->step = step;
    log->list[log->count++] = c;
    return c;
}

/* contribution_at -- see the header. */
struct contribution *contribution_at(const struct contribution_log *log, uint64_t sequence)
{
    return sequence < log->count ? log->list[sequence] : NULL;
}

/* contribution_last -- see the header. */
struct contribution *contribution_last(const struct contribution_log *log)
{
    return log->count > 0 ? log->list[log->count - 1] : NULL;
}

/* contribution_clear -- frees. */
void contribution_clear(struct contribution_log *log, uint32_t variables)
{
    for (size_t i = 0; i < log->count; i++) {
        for (uint32_t v = 0; v < variables; v++) {
            free(log->list[i]->parts[v].indices);
            free(log->list[i]->parts[v].values);
        }
        free(log->list[i]);
    }
    free(log->list);
    *log = (struct contribution_log){0};
}

/* contribution_numbers -- how many numbers a part has. */
static uint64_t contribution_numbers(const struct shape_variable *v, const struct contribution_part *part)
{
    if (!part->pushed || part->absent)
        return 0;
    return v->kind == STEPGATE_SPARSE ? part->rows * v->width : v->elements;
}

/* contribution_finite -- see the header. What is frozen is not sent, and what is private hurts nobody. */
bool contribution_finite(const struct shape *shape, const struct contribution *c)
{
    for (uint32_t i = 0; i < shape->variables; i++) {
        const struct shape_variable *v = &shape->variable[i];
        uint64_t n = v->frozen || v->kind == STEPGATE_AUX ? 0 : contribution_numbers(v, &c->parts[i]);
        for (uint64_t e = 0; e < n; e++)
            if (!isfinite(plain_get(v->gradient_dtype, c->parts[i].values, e)))
                return false;
    }
    return true;
}

/* contribution_norm -- of one part: block by block, of rows row by row. */
static double contribution_norm(const struct shape_variable *v, const struct contribution_part *part)
{
    uint64_t n = contribution_numbers(v, part), unit = v->kind == STEPGATE_SPARSE ? v->width : n;
    double numbers[PLAIN_BLOCK], norm = 0;

    for (uint64_t first = 0; first < n; first += unit)
        for (uint64_t i = 0; i < unit; i += PLAIN_BLOCK) {
            uint64_t count = unit - i < PLAIN_BLOCK ? unit - i : PLAIN_BLOCK;
            for (uint64_t e = 0; e < count; e++)
                numbers[e] = plain_get(v->gradient_dtype, part->values, first + i + e);
            norm += plain_norm(numbers, count);
        }
    return norm;
}

/* contribution_factor -- see the header. */
double contribution_factor(const struct shape *shape, const struct contribution *c)
{
    double squares = 0, scale = 1;

    for (uint32_t i = 0; shape->clip_norm > 0 && i < shape->variables; i++)
        if (shape_moves(&shape->variable[i]))
            squares += contribution_norm(&shape->variable[i], &c->parts[i]);
    if (shape->clip_norm > 0 && sqrt(squares) > shape->clip_norm)
        scale = shape->clip_norm / sqrt(squares);
    return c->weight * scale;
}
