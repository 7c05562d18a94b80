/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* log_line -- formats one line and hands it on. */
void log_line(const struct log_sink *sink, int level, const char *format, ...)
{
    char line[1024];
    va_list arguments;

    if (sink == NULL || sink->function == NULL || level > sink->level)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    sink->function(sink->context, level, line);
}
