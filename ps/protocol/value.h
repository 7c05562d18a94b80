/* SPDX-License-Identifier: BSD-3-Clause */
/* value -- one field of a struct that a text sets: how it is read, worded, compared, checked and packed. Keys and options are values. */
#ifndef PS_PROTOCOL_VALUE_H
#define PS_PROTOCOL_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/base/bytes.h"

enum value_kind {
    VALUE_CHOICE = 1, /* int: one of the words, the first is 1 */
    VALUE_FLAG,       /* bool: one of two words, the first is false */
    VALUE_U32,        /* whole numbers */
    VALUE_I64,
    VALUE_U64,
    VALUE_F64
};

#define VALUE_NUMBER_MAX 1e30 /* fits f32 */
#define VALUE_WHOLE_MAX 9e15  /* fits the whole numbers of a double */
#define VALUE_TEXT_BYTES 64   /* any value in words */

struct value {
    const char *name;
    enum value_kind kind;
    size_t offset;            /* of the field in its struct */
    const char *const *words; /* of a choice or flag, ended by NULL */
    double low, high;         /* of a number */
    bool below;               /* a number is below high, in f32 too */
    bool off;                 /* 0 or no is as good as absent */
};

/* value_get -- the field as a number: a choice's is that of its word. */
double value_get(const struct value *value, const void *object);
/* value_put -- the field from a number that value_get could give. */
void value_put(const struct value *value, void *object, double number);
/* value_read -- the field from a text. Errors: EINVAL, with what may be said; the object is then as it was. */
int value_read(const struct value *value, void *object, const char *text);
/* value_sound -- may the field hold what it holds? */
bool value_sound(const struct value *value, const void *object);
/* value_same -- are the fields of two objects equal, bit for bit? */
bool value_same(const struct value *value, const void *first, const void *other);
/* value_text -- words a field, with as many digits as tell it from every other. */
void value_text(const struct value *value, const void *object, char text[VALUE_TEXT_BYTES]);
/* value_pack -- appends the field; value_unpack takes it, without a check. */
void value_pack(const struct value *value, const void *object, struct bytes_writer *w);
void value_unpack(const struct value *value, void *object, struct bytes_reader *r);
/* value_word -- the word of a number, "?" if it has none. */
const char *value_word(const char *const *words, int number);

#endif
