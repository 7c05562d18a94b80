/* SPDX-License-Identifier: BSD-3-Clause */
/* stream -- cuts what a child writes into lines and hands them to a sink with the child's label. */
#ifndef WORKER_LAUNCH_STREAM_H
#define WORKER_LAUNCH_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/launch/sink.h"

struct stream {
    int fd; /* non-blocking; -1: at its end */
    struct sink *sink;
    const char *label;
    bool live;      /* its unfinished lines are shown in place, as far as they began with a carriage return */
    bool returned;  /* the last character was a carriage return */
    bool rewriting; /* the line being put together began with one */
    char *line;
    size_t used, size;
    /* taken -- sees each line first; true: it is not shown. NULL: nobody. */
    bool (*taken)(void *context, const char *line, size_t n);
    void *context;
};

/* stream_read -- takes what is there. False: the stream is at its end, and closed. */
bool stream_read(struct stream *stream);
/* stream_close -- hands on a last line without newline, closes, frees. */
void stream_close(struct stream *stream);

#endif
