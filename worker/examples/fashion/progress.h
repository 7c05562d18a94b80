/* SPDX-License-Identifier: BSD-3-Clause */
/* The line that tells a user how far the training is: rewritten in place on a terminal, else a new
 * line every few seconds, so that a log stays readable. */
#ifndef FASHION_PROGRESS_H
#define FASHION_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum progress_style {
    PROGRESS_AUTO,    /* as the output is a terminal or not */
    PROGRESS_REWRITE, /* in place */
    PROGRESS_LINES,
    PROGRESS_NONE
};

struct progress {
    enum progress_style style; /* after progress_start never AUTO */
    uint64_t steps;            /* in the whole run */
    double shown;              /* when the line was last written */
    double begun;
    uint64_t begun_step; /* not 0 where a run goes on from a checkpoint */
};

/* progress_start -- begin to measure; now in seconds, of any clock that never goes back */
void progress_start(struct progress *progress, enum progress_style style, uint64_t step, uint64_t steps,
                    double now);

/* progress_show -- write the line if it is time to; accuracy < 0 = not known yet */
void progress_show(struct progress *progress, uint64_t step, double loss, double accuracy,
                   double images_per_step, double now);

/* progress_note -- a line of its own, from any thread; it stays where the progress is rewritten in place, too */
void progress_note(enum progress_style style, const char *line);

/* progress_end -- leave the cursor on a fresh line */
void progress_end(struct progress *progress);

#endif
