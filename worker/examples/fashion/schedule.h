/* SPDX-License-Identifier: BSD-3-Clause */
/* The learning rate of each step. */
#ifndef FASHION_SCHEDULE_H
#define FASHION_SCHEDULE_H

#include <stdint.h>

struct schedule {
    double rate;    /* of step 0 */
    uint64_t steps; /* the rate falls in a straight line and would reach 0 at this step; 0 = it stays */
};

/* schedule_rate -- of one step: computed in double, rounded to f32 once */
float schedule_rate(const struct schedule *schedule, uint64_t step);

#endif
