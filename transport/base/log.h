/* SPDX-License-Identifier: BSD-3-Clause */
/* log -- lines for the program's log function; the library itself never writes to a stream. */
#ifndef TRANSPORT_BASE_LOG_H
#define TRANSPORT_BASE_LOG_H

enum log_level { LOG_ERROR = 1, LOG_WARN = 2, LOG_INFO = 3, LOG_DEBUG = 4 };

/* One destination; a copy may be kept. function NULL: nowhere. It may be called from the service thread. */
struct log_sink {
    void (*function)(void *context, int level, const char *line);
    void *context;
    int level; /* lines above it are dropped */
};

/* log_line -- formats one line (no newline) and hands it on. */
void log_line(const struct log_sink *sink, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
