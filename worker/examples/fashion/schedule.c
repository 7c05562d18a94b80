/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/schedule.h"

#include <math.h>
#include <string.h>

#include "worker/examples/fashion/text.h"

/* schedule_name -- as the command line and the result call it */
const char *schedule_name(enum schedule_shape shape)
{
    static const char *const names[] = {
        [SCHEDULE_LINEAR] = "linear",
        [SCHEDULE_CONSTANT] = "constant",
        [SCHEDULE_EXPONENTIAL] = "exponential",
        [SCHEDULE_COSINE] = "cosine",
    };
    return names[shape];
}

/* schedule_read_rest -- what follows the name of a shape; NULL for nothing */
static bool schedule_read_rest(const char *text, struct schedule *schedule)
{
    char field[TEXT_FIELD_BYTES];
    switch (schedule->shape) {
    case SCHEDULE_LINEAR:
    case SCHEDULE_CONSTANT: return text == NULL;
    case SCHEDULE_COSINE:
        return text == NULL || (text_field(&text, field) && text_number(field, &schedule->end) &&
                                fabs(schedule->end) <= 1e6 && text == NULL);
    case SCHEDULE_EXPONENTIAL:
        if (!text_field(&text, field) || !text_number(field, &schedule->factor) || schedule->factor < 0.0 ||
            schedule->factor > 1e6 || !text_field(&text, field) || !text_count(field, &schedule->steps) ||
            schedule->steps == 0)
            return false;
        schedule->staircase = text != NULL;
        return text == NULL || strcmp(text, "staircase") == 0;
    }
    return false;
}

/* schedule_read -- the shape from a text */
bool schedule_read(const char *text, struct schedule *schedule)
{
    char name[TEXT_FIELD_BYTES];
    struct schedule read = {.rate = schedule->rate, .warmup = schedule->warmup, .steps = schedule->steps};
    if (!text_field(&text, name))
        return false;
    for (int shape = SCHEDULE_LINEAR; shape <= SCHEDULE_COSINE; shape++) {
        read.shape = (enum schedule_shape)shape;
        if (strcmp(name, schedule_name(read.shape)) == 0) {
            if (!schedule_read_rest(text, &read))
                return false;
            *schedule = read;
            return true;
        }
    }
    return false;
}

/* schedule_exact -- of one step, in double */
static double schedule_exact(const struct schedule *schedule, uint64_t step)
{
    const double pi = 3.14159265358979323846;
    double k = (double)step, n = (double)schedule->steps;
    double above = schedule->rate - schedule->end;
    if (step < schedule->warmup)
        return schedule->rate * (k + 1.0) / (double)schedule->warmup;
    switch (schedule->shape) {
    case SCHEDULE_CONSTANT: return schedule->rate;
    case SCHEDULE_LINEAR: return k < n ? schedule->end + above * (1.0 - k / n) : schedule->end;
    case SCHEDULE_EXPONENTIAL:
        return schedule->rate * pow(schedule->factor, schedule->staircase ? floor(k / n) : k / n);
    case SCHEDULE_COSINE: return schedule->end + above * 0.5 * (1.0 + cos(pi * ((k < n ? k : n) / n)));
    }
    return schedule->rate;
}

/* schedule_rate -- of one step: computed in double, rounded to f32 once */
float schedule_rate(const struct schedule *schedule, uint64_t step)
{
    return (float)schedule_exact(schedule, step);
}
