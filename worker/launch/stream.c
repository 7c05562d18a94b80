/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_LINE_MAX 65536u /* a longer line is cut */

/* stream_end_line -- the line is complete. */
static void stream_end_line(struct stream *stream)
{
    const char *line = stream->used > 0 ? stream->line : "";

    if (stream->taken == NULL || !stream->taken(stream->context, line, stream->used))
        sink_line(stream->sink, stream->label, line, stream->used);
    stream->used = 0;
    stream->rewriting = false;
}

/* stream_put -- appends a character to the line. */
static void stream_put(struct stream *stream, char c)
{
    if (stream->used == stream->size) {
        size_t size = stream->size > 0 ? stream->size * 2 : 256;
        char *larger = size <= STREAM_LINE_MAX ? realloc(stream->line, size) : NULL;
        if (larger != NULL) {
            stream->line = larger;
            stream->size = size;
        } else if (stream->size > 0) {
            stream_end_line(stream);
        } else {
            return;
        }
    }
    stream->line[stream->used++] = c;
}

/* stream_take -- the next character. A carriage return means: forget this line, unless it belongs to the newline behind it. */
static void stream_take(struct stream *stream, char c)
{
    bool returned = stream->returned;

    stream->returned = c == '\r';
    if (c == '\n') {
        stream_end_line(stream);
        return;
    }
    if (returned) {
        stream->used = 0;
        stream->rewriting = true;
    }
    if (c != '\r')
        stream_put(stream, c);
}

/* stream_read -- a piece; a poll tells if there is more. */
bool stream_read(struct stream *stream)
{
    char piece[8192];
    ssize_t n = read(stream->fd, piece, sizeof(piece));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) { /* the master of a terminal says EIO at its end */
        stream_close(stream);
        return false;
    }
    for (ssize_t i = 0; i < n; i++)
        stream_take(stream, piece[i]);
    if (stream->live && stream->rewriting && stream->used > 0)
        sink_progress(stream->sink, stream->label, stream->line, stream->used);
    return true;
}

/* stream_close -- the end. */
void stream_close(struct stream *stream)
{
    if (stream->fd < 0)
        return;
    if (stream->used > 0)
        stream_end_line(stream);
    close(stream->fd);
    free(stream->line);
    stream->fd = -1;
    stream->line = NULL;
    stream->used = stream->size = 0;
    stream->returned = stream->rewriting = false;
}
