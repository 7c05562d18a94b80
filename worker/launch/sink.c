/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SINK_FULL (256u * 1024u)
#define SINK_CLEAR_LINE "\r\033[K"

/* sink_init -- empty. */
void sink_init(struct sink *sink, int fd)
{
    *sink = (struct sink){.fd = fd, .terminal = isatty(fd) == 1};
}

/* sink_clear -- frees. */
void sink_clear(struct sink *sink)
{
    free(sink->data);
    sink->data = NULL;
    sink->used = sink->size = 0;
}

/* sink_put -- appends. */
static void sink_put(struct sink *sink, const char *data, size_t n)
{
    if (sink->broken || n == 0)
        return;
    if (n > sink->size - sink->used) {
        size_t size = sink->size > 0 ? sink->size : 4096;
        while (size - sink->used < n)
            size *= 2;
        char *larger = realloc(sink->data, size);
        if (larger == NULL) {
            sink->broken = true;
            sink->os_errno = ENOMEM;
            return;
        }
        sink->data = larger;
        sink->size = size;
    }
    memcpy(sink->data + sink->used, data, n);
    sink->used += n;
}

/* sink_label -- a program that names itself so already is not named twice. */
static void sink_label(struct sink *sink, const char *label, const char *text, size_t n)
{
    size_t length = strlen(label);

    if (n < length || memcmp(text, label, length) != 0)
        sink_put(sink, label, length);
}

/* sink_line -- a whole line. */
void sink_line(struct sink *sink, const char *label, const char *text, size_t n)
{
    if (sink->open)
        sink_put(sink, SINK_CLEAR_LINE, sizeof(SINK_CLEAR_LINE) - 1);
    sink->open = false;
    sink_label(sink, label, text, n);
    sink_put(sink, text, n);
    sink_put(sink, "\n", 1);
}

/* sink_progress -- a line that will be rewritten. */
void sink_progress(struct sink *sink, const char *label, const char *text, size_t n)
{
    sink_put(sink, SINK_CLEAR_LINE, sizeof(SINK_CLEAR_LINE) - 1);
    sink_label(sink, label, text, n);
    sink_put(sink, text, n);
    sink->open = true;
}

/* sink_is_full -- the mark. */
bool sink_is_full(const struct sink *sink)
{
    return sink->used >= SINK_FULL && !sink->broken;
}

/* sink_flush -- in pieces that a pipe takes at once when poll calls it writable. */
void sink_flush(struct sink *sink, bool force)
{
    size_t done = 0;

    while (done < sink->used && !sink->broken) {
        struct pollfd writable = {.fd = sink->fd, .events = POLLOUT};
        if (!force && (poll(&writable, 1, 0) <= 0 || (writable.revents & (POLLOUT | POLLERR)) == 0))
            break;
        size_t piece = sink->used - done < PIPE_BUF ? sink->used - done : PIPE_BUF;
        ssize_t n = write(sink->fd, sink->data + done, piece);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN && !force)
            break;
        else if (errno == EAGAIN) /* somebody made the file non-blocking: wait here instead */
            poll(&writable, 1, 100);
        else if (errno != EINTR) {
            sink->broken = true;
            sink->os_errno = errno;
        }
    }
    if (sink->broken)
        done = sink->used;
    if (done > 0)
        memmove(sink->data, sink->data + done, sink->used - done);
    sink->used -= done;
}
