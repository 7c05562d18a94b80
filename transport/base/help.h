/* SPDX-License-Identifier: BSD-3-Clause */
/* help -- the knob table as text for --help. */
#ifndef TRANSPORT_BASE_HELP_H
#define TRANSPORT_BASE_HELP_H

#include <stdio.h>

#include "transport/base/knob.h"

/* help_value -- what stands for a value in the help of a row: "LIST", "TIME", "on|off", ... */
const char *help_value(const struct knob_row *row);

/* help_write_knobs -- one flag a line with its default, then what to know about all of them; without: names to leave out, ending with NULL,
 * or NULL. */
void help_write_knobs(FILE *stream, const char *const *without);

/* help_begin -- before anything is printed: room for all of it, so that whoever flushes stdout at the end learns why it cannot be written. */
void help_begin(void);

#endif
