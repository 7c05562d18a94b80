/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sink -- an output of the launcher that never blocks it: what the reader does not take yet is kept, up to a mark at which the
 * launcher stops to read from its children.
 */
#ifndef WORKER_LAUNCH_SINK_H
#define WORKER_LAUNCH_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct sink {
    int fd;
    bool terminal; /* a line that is still open may be rewritten */
    bool broken;   /* the reader went away, or there is no room or memory: what comes is dropped */
    int os_errno;  /* why it is broken */
    bool open;     /* the cursor stands behind an unfinished line */
    char *data;
    size_t used, size;
};

/* sink_init -- fd stays the caller's. */
void sink_init(struct sink *sink, int fd);
/* sink_clear -- frees what was not written. */
void sink_clear(struct sink *sink);

/* sink_line -- a label (may be "") and a line; one newline is added. */
void sink_line(struct sink *sink, const char *label, const char *text, size_t n);
/* sink_progress -- the same without newline, in the place of the line that is open; only for a terminal. */
void sink_progress(struct sink *sink, const char *label, const char *text, size_t n);

/* sink_is_full -- whether to stop reading from children for now. */
bool sink_is_full(const struct sink *sink);
/* sink_flush -- writes what can be written without blocking: call when poll says so, or in any case when `force` (may block). */
void sink_flush(struct sink *sink, bool force);

#endif
