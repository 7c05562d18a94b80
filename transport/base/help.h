/* SPDX-License-Identifier: BSD-3-Clause */
/* help -- the knob table as text for --help. */
#ifndef TRANSPORT_BASE_HELP_H
#define TRANSPORT_BASE_HELP_H

#include <stdio.h>

/* help_write_knobs -- one flag a line with its default, then what to know about all of them. */
void help_write_knobs(FILE *stream);

#endif
