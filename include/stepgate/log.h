/* SPDX-License-Identifier: BSD-3-Clause */
/* LOG -- where the library's lines go: to a function of the program's, or nowhere. */
#ifndef STEPGATE_LOG_H
#define STEPGATE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "stepgate/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum stepgate_log_level {
    STEPGATE_LOG_ERROR = 1,
    STEPGATE_LOG_WARN = 2,
    STEPGATE_LOG_INFO = 3,
    STEPGATE_LOG_DEBUG = 4
};

/*
 * A log function gets one line without newline. It may be called from the service thread, and from several threads at once; it must not
 * call the library.
 */
typedef void stepgate_log_function(void *context, int level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
