/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each step. */
#ifndef FASHION_SCHEDULE_H
#define FASHION_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum schedule_shape {
    SCHEDULE_LINEAR,      /* end + (rate - end) * (1 - k / steps); from `steps` on end */
    SCHEDULE_CONSTANT,    /* rate */
    SCHEDULE_EXPONENTIAL, /* rate * factor^(k / steps), or with the stairs factor^floor(k / steps) */
    SCHEDULE_COSINE       /* end + (rate - end) * 0.5 * (1 + cos(pi * min(k, steps) / steps)) */
};

struct schedule {
    enum schedule_shape shape;
    double rate;     /* that all of them start from */
    uint64_t steps;  /* linear, cosine: of the whole run; exponential: from one factor to the next */
    double end;      /* linear, cosine */
    double factor;   /* exponential */
    bool staircase;  /* exponential */
    uint64_t warmup; /* in a step k below it, the rate is rate * (k + 1) / warmup */
};

/* schedule_name -- as the command line and the result call it */
const char *schedule_name(enum schedule_shape shape);

/* schedule_read -- the shape from constant, linear, exponential:FACTOR:STEPS[:staircase] or cosine[:END]; false:
 * it is something else. Rate and warm-up stay, and so do the steps but of exponential. */
bool schedule_read(const char *text, struct schedule *schedule);

/* schedule_rate -- of one step: computed in double, rounded to f32 once */
float schedule_rate(const struct schedule *schedule, uint64_t step);

#endif
