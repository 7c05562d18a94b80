/* SPDX-License-Identifier: BSD-3-Clause */
/* rewind -- what ps and workers agree on where a job may go back to a checkpoint, since a ps was lost. */
#ifndef PS_PROTOCOL_REWIND_H
#define PS_PROTOCOL_REWIND_H

#include <stdbool.h>

#include "stepgate/error.h"

/* How often in a row, without a step in between: a ps that dies again and again does so for a reason. */
#define REWINDS_IN_A_ROW 3

/* rewind_for -- is that a failure after which the job may go back? A ps is lost; a worker that is lost is another matter. */
static inline bool rewind_for(const struct stepgate_error *error)
{
    return error->code == STEPGATE_ELOST && error->role == STEPGATE_ROLE_PS;
}

#endif
