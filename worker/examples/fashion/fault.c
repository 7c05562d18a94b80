/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/fault.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

/* fault_set -- record the first fault; later ones are its consequences */
int fault_set(struct fault *fault, int status, const char *format, ...)
{
    if (fault->status == FAULT_NONE) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(fault->text, sizeof fault->text, format, arguments);
        va_end(arguments);
        for (char *c = fault->text; *c != '\0'; c++)
            if (iscntrl((unsigned char)*c))
                *c = '?'; /* a name of a file or an argument may hold anything: a fault is one line */
        fault->status = status;
    }
    return -1;
}
