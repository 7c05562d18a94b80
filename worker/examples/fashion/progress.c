/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const double progress_rewrite_seconds = 0.2;
static const double progress_line_seconds = 5.0;

/* progress_resolve -- what AUTO means here */
static enum progress_style progress_resolve(enum progress_style style)
{
    if (style != PROGRESS_AUTO)
        return style;
    return isatty(STDOUT_FILENO) ? PROGRESS_REWRITE : PROGRESS_LINES;
}

/* progress_start -- begin to measure */
void progress_start(struct progress *progress, enum progress_style style, uint64_t step, uint64_t steps,
                    double now)
{
    *progress = (struct progress){
        .style = progress_resolve(style), .steps = steps, .shown = now, .begun = now, .begun_step = step};
}

/* progress_show -- write the line if it is time to; accuracy < 0 = not known yet */
void progress_show(struct progress *progress, uint64_t step, double loss, double accuracy,
                   double images_per_step, double now)
{
    double pause = progress->style == PROGRESS_REWRITE ? progress_rewrite_seconds : progress_line_seconds;
    bool last = step >= progress->steps;
    if (progress->style == PROGRESS_NONE || (now - progress->shown < pause && !last))
        return;
    progress->shown = now;

    double done = (double)(step - progress->begun_step);
    double spent = now - progress->begun;
    double rate = spent > 0.0 ? done / spent : 0.0;
    double left = rate > 0.0 && !last ? (double)(progress->steps - step) / rate : 0.0;
    char known[32] = "";
    if (accuracy >= 0.0)
        snprintf(known, sizeof known, "  accuracy %.4f", accuracy);
    printf("%sstep %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.0f images/s  %.0f s left%s",
           progress->style == PROGRESS_REWRITE ? "\r" : "", step, progress->steps, loss, known,
           rate * images_per_step, left, progress->style == PROGRESS_REWRITE ? "\033[K" : "\n");
    fflush(stdout);
}

/* progress_note -- a line of its own, in one piece */
void progress_note(enum progress_style style, const char *line)
{
    printf("%s%s\n", progress_resolve(style) == PROGRESS_REWRITE ? "\r\033[K" : "", line);
    fflush(stdout);
}

/* progress_end -- leave the cursor on a fresh line */
void progress_end(struct progress *progress)
{
    if (progress->style == PROGRESS_REWRITE)
        printf("\n");
    fflush(stdout);
}
