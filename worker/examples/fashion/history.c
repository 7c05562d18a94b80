/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/history.h"

#include <stdlib.h>

/* history_add -- append a point; -1 without memory */
int history_add(struct history *history, const struct history_point *point)
{
    if (history->count == history->room) {
        size_t room = history->room * 2 + 64;
        struct history_point *points = realloc(history->points, room * sizeof *points);
        if (points == NULL)
            return -1;
        history->points = points;
        history->room = room;
    }
    history->points[history->count++] = *point;
    return 0;
}

/* history_cut -- forget the points behind a step */
void history_cut(struct history *history, uint64_t step)
{
    while (history->count > 0 && history->points[history->count - 1].step > step)
        history->count--;
}

/* history_clear -- free the points */
void history_clear(struct history *history)
{
    free(history->points);
    *history = (struct history){0};
}
