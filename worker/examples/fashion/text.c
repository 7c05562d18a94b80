/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* text_number -- a whole text as a finite number */
bool text_number(const char *text, double *out)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number))
        return false;
    *out = number;
    return true;
}

/* text_count -- a whole text as a whole number */
bool text_count(const char *text, uint64_t *out)
{
    double number;
    if (!isdigit((unsigned char)text[0]) || !text_number(text, &number) || number != floor(number) ||
        number > 9e15)
        return false;
    *out = (uint64_t)number;
    return true;
}

/* text_field -- what stands before the next colon, or the rest */
bool text_field(const char **text, char field[TEXT_FIELD_BYTES])
{
    if (*text == NULL)
        return false;
    size_t length = strcspn(*text, ":");
    if (length == 0 || length >= TEXT_FIELD_BYTES)
        return false;
    memcpy(field, *text, length);
    field[length] = '\0';
    *text = (*text)[length] == ':' ? *text + length + 1 : NULL;
    return true;
}
