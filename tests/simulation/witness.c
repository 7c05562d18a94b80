/* SPDX-License-Identifier: BSD-3-Clause */
/* witness -- what a trainee reads and is told, against the reference and what was decided. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/simulation/plain.h"
#include "tests/simulation/trainee.h"
#include "worker/session/inside.h"

/* trainee_wrong -- see the header. */
void trainee_wrong(struct trainee *t, const char *format, ...)
{
    va_list arguments;
    size_t used;

    if (t->wrong[0] != 0)
        return;
    used = (size_t)snprintf(t->wrong, sizeof(t->wrong), "worker %u: ", t->rank);
    va_start(arguments, format);
    vsnprintf(t->wrong + used, sizeof(t->wrong) - used, format, arguments);
    va_end(arguments);
}

/* witness_frame -- what was published of a variable after so many updates; NULL: that step was never taken. */
static const uint8_t *witness_frame(const struct trainee *t, uint32_t variable, uint64_t step)
{
    return step <= t->reference->step ? t->reference->frames[step].values[variable] : NULL;
}

/* witness_is -- are bytes of a variable those of a step? */
static bool witness_is(const struct trainee *t, uint32_t variable, uint64_t step, const uint8_t *value,
                       uint64_t first, uint64_t bytes)
{
    const struct shape_variable *v = &t->shape->variable[variable];
    const uint8_t *frame = witness_frame(t, variable, step);

    return frame != NULL &&
           plain_equal(v->dtype, value + first, frame + first, bytes / plain_bytes(v->dtype));
}

/* witness_each -- each segment is of one step between the lowest and the highest. */
static bool witness_each(const struct trainee *t, uint32_t variable, const uint8_t *value, uint64_t lowest,
                         uint64_t highest)
{
    const struct session_variable *v = &t->model->variables[variable];

    for (uint32_t i = 0; i < v->segments; i++) {
        const struct session_segment *segment = &t->model->segments[v->first_segment + i];
        uint64_t step = lowest;
        while (step <= highest && !witness_is(t, variable, step, value, segment->first, segment->bytes))
            step++;
        if (step > highest)
            return false;
    }
    return true;
}

/* witness_alone -- async, bounded: the steps that it read. */
static bool witness_alone(struct trainee *t, uint32_t variable, const uint8_t *value)
{
    uint64_t lowest, highest;

    if (session_pulled(t->model, (int)variable, &lowest, &highest) != 0)
        return false;
    if (lowest < t->step || highest > t->reference->step)
        trainee_wrong(t, "pulled steps %llu to %llu of variable %u in step %llu", (unsigned long long)lowest,
                      (unsigned long long)highest, variable, (unsigned long long)t->step);
    t->counts.mixed_pulls += lowest != highest;
    t->counts.newer_pulls += highest > t->step;
    return witness_each(t, variable, value, lowest, highest);
}

/* trainee_check -- see the header. */
void trainee_check(struct trainee *t, uint32_t variable, uint64_t step_read)
{
    const struct shape_variable *v = &t->shape->variable[variable];
    uint64_t bytes = v->elements * plain_bytes(v->dtype);
    const void *value;
    bool right;

    if (session_parameter(t->model, variable, &value) != 0) {
        trainee_wrong(t, "no value of variable %u after its pull", variable);
        return;
    }
    if (v->kind == STEPGATE_AUX) {
        right = memcmp(value, t->private[variable], bytes) == 0;
    } else if (shape_alone(t->shape)) {
        right = witness_alone(t, variable, value);
    } else {
        if (step_read < t->step || (shape_lockstep(t->shape) && step_read != t->step))
            trainee_wrong(t, "pulled step %llu in step %llu", (unsigned long long)step_read,
                          (unsigned long long)t->step);
        t->counts.newer_pulls += step_read > t->step;
        right = witness_is(t, variable, step_read, value, 0, bytes);
    }
    if (!right)
        trainee_wrong(t, "read other bits of variable %u in step %llu, said to be of step %llu", variable,
                      (unsigned long long)t->step, (unsigned long long)step_read);
}

/* trainee_check_rows -- see the header. Where steps may be mixed, each row is of one of them. */
void trainee_check_rows(struct trainee *t, uint64_t step_read)
{
    const struct shape_variable *v = &t->shape->variable[t->rows_of];
    uint64_t row = v->width * plain_bytes(v->dtype);
    uint64_t highest = shape_alone(t->shape) ? t->reference->step : step_read;

    if (step_read < t->step || (shape_lockstep(t->shape) && step_read != t->step))
        trainee_wrong(t, "pulled rows of step %llu in step %llu", (unsigned long long)step_read,
                      (unsigned long long)t->step);
    for (uint64_t i = 0; i < t->rows; i++) {
        uint64_t step = step_read;
        for (; step <= highest; step++) {
            const uint8_t *frame = witness_frame(t, t->rows_of, step);
            if (frame != NULL &&
                plain_equal(v->dtype, t->rows_out + i * row, frame + t->indices[i] * row, v->width))
                break;
        }
        if (step > highest)
            trainee_wrong(t, "read other bits of row %llu of variable %u, said to be of step %llu",
                          (unsigned long long)t->indices[i], t->rows_of, (unsigned long long)step_read);
    }
}

/* witness_verdict -- does it fit what became of the contribution? */
static bool witness_verdict(const struct trainee *t, const struct contribution *c, int verdict, uint64_t step)
{
    bool in = t->shape->mode == SHAPE_TF ? c->taken && c->taken_step == step
                                         : reference_has(t->reference, step, c->rank, c->sequence);

    switch (verdict) {
    case STEPGATE_VERDICT_APPLIED: return in;
    case STEPGATE_VERDICT_SKIPPED: return t->shape->mode == SHAPE_TF || !in;
    default: return !c->taken && step == c->step;
    }
}

/* trainee_check_told -- see the header. */
void trainee_check_told(struct trainee *t, const struct stepgate_step_info *info)
{
    const struct contribution *last = contribution_last(t->log);
    uint32_t quota = shape_quota(t->shape, t->rank);

    if (last == NULL || t->log->count % quota != 0) { /* nothing to be told, or the step has more to come */
        if (info->verdict != STEPGATE_VERDICT_NONE || info->step != t->log->count / quota)
            trainee_wrong(t, "began step %llu with verdict %d", (unsigned long long)info->step,
                          info->verdict);
        return;
    }
    const struct contribution_answer *answer = &last->answer;
    if (answer->times != 1 || info->verdict != answer->verdict ||
        info->verdict_step != answer->verdict_step || info->staleness != answer->staleness ||
        info->step != answer->step)
        trainee_wrong(t,
                      "told verdict %d of step %llu, step %llu, for contribution %llu; decided %u times: "
                      "verdict %d of step %llu, step %llu",
                      info->verdict, (unsigned long long)info->verdict_step, (unsigned long long)info->step,
                      (unsigned long long)last->sequence, answer->times, answer->verdict,
                      (unsigned long long)answer->verdict_step, (unsigned long long)answer->step);
    if (!witness_verdict(t, last, info->verdict, info->verdict_step))
        trainee_wrong(t, "told verdict %d of step %llu for contribution %llu, which is not what became of it",
                      info->verdict, (unsigned long long)info->verdict_step,
                      (unsigned long long)last->sequence);
    if (shape_lockstep(t->shape) && info->step != t->log->count / quota)
        trainee_wrong(t, "began step %llu after %zu contributions", (unsigned long long)info->step,
                      t->log->count);
    bool shrunk = t->shape->shrinks && info->replicas_to_aggregate > 0 &&
                  info->replicas_to_aggregate < t->shape->replicas;
    if ((info->replicas_to_aggregate != t->shape->replicas && !shrunk) || info->total_num_replicas == 0 ||
        info->total_num_replicas > t->shape->workers)
        trainee_wrong(t, "R is said to be %u, T %u", info->replicas_to_aggregate, info->total_num_replicas);
}
