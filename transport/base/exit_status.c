/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/exit_status.h"

#include <stdio.h>
#include <string.h>

#include "stepgate/error.h"
#include "transport/base/error.h"
#include "transport/base/knob.h"

/* stepgate_exit_status -- the status for a code. */
int stepgate_exit_status(int code)
{
    int positive = code < 0 ? -code : code;

    switch (positive) {
    case STEPGATE_OK: return EXIT_STATUS_OK;
    case STEPGATE_ETIMEOUT:
    case STEPGATE_EREWOUND:
    case STEPGATE_EJOIN:
    case STEPGATE_ELOST:
    case STEPGATE_ESTEPTIME:
    case STEPGATE_EPEER:
    case STEPGATE_EREFUSED:
    case STEPGATE_EUNREACHABLE:
    case STEPGATE_EDEVICE: return EXIT_STATUS_REQUEUE;
    default:
        return EXIT_STATUS_PERMANENT; /* of peers and devices too: another version, job or secret,
                                         no such device */
    }
}

/* exit_status_line -- what happened and what to do, in one line. */
void exit_status_line(int code, char *out, size_t bytes)
{
    struct stepgate_error error = {.size = sizeof(error)};
    int positive = code < 0 ? -code : code;

    if (stepgate_error_last(&error) < 0 || error.code != positive || error.text[0] == '\0')
        snprintf(out, bytes, "%s", stepgate_strerror(code));
    else if (error.remedy[0] == '\0')
        snprintf(out, bytes, "%s", error.text);
    else
        snprintf(out, bytes, "%s: %s", error.text, error.remedy);
}

/* exit_status_unknown -- an argument that nobody took. */
void exit_status_unknown(const char *argument, char *out, size_t bytes)
{
    const struct knob_row *nearest = NULL;

    if (strncmp(argument, "--", 2) == 0)
        nearest = knob_row_nearest(argument + 2, strcspn(argument + 2, "="));
    if (nearest != NULL)
        snprintf(out, bytes, "unknown argument %s: the nearest is %s, --help lists all", argument,
                 nearest->flag);
    else
        snprintf(out, bytes, "unknown argument %s: --help lists the flags", argument);
    error_one_line(out);
}
