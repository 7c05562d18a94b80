/* SPDX-License-Identifier: BSD-3-Clause */
/* What was measured in the course of a run, for the picture. */
#ifndef FASHION_HISTORY_H
#define FASHION_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* history_point -- one measurement */
struct history_point {
    uint64_t step;
    double seconds;
    double loss;     /* mean over the images this process computed since the point before */
    double accuracy; /* on the test images; negative = not measured here */
};

struct history {
    struct history_point *points;
    size_t count;
    size_t room;
};

/* history_add -- append a point; -1 without memory */
int history_add(struct history *history, const struct history_point *point);

/* history_cut -- forget the points behind a step */
void history_cut(struct history *history, uint64_t step);

/* history_clear -- free the points */
void history_clear(struct history *history);

#endif
