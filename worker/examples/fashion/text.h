/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in arguments, and arguments in parts: exponential:0.94:1000. */
#ifndef FASHION_TEXT_H
#define FASHION_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_FIELD_BYTES = 40 };

/* text_number -- a whole text as a finite number */
bool text_number(const char *text, double *out);

/* text_count -- a whole text as a whole number, of digits or like 1e3 */
bool text_count(const char *text, uint64_t *out);

/* text_field -- what stands before the next colon, or the rest; *text moves on behind it, to NULL at the
 * end. False: no field is left, or it is empty or far too long. */
bool text_field(const char **text, char field[TEXT_FIELD_BYTES]);

#endif
