/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/damage.h"

#include <stdarg.h>
#include <stdio.h>

#include "transport/base/error.h"

/* damage_error -- see damage.h. */
int damage_error(const char *path, const char *format, ...)
{
    char text[320];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return error_set(STEPGATE_EPROTOCOL, 0, "use another checkpoint: this one is not as it was written",
                     "%s is damaged: %s", path, text);
}
