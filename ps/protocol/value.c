/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/protocol/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

#define VALUE_PLAIN 1e16 /* whole numbers below it are written in full */

/* value_at -- the field. */
static const void *value_at(const struct value *value, const void *object)
{
    return (const uint8_t *)object + value->offset;
}

/* value_bytes -- the size of the field, and of its packed form except a choice's and a flag's: they take one byte. */
static size_t value_bytes(const struct value *value)
{
    switch (value->kind) {
    case VALUE_CHOICE: return sizeof(int);
    case VALUE_FLAG: return sizeof(bool);
    case VALUE_U32: return 4;
    default: return 8;
    }
}

/* value_get -- the field as a number. */
double value_get(const struct value *value, const void *object)
{
    const void *at = value_at(value, object);

    switch (value->kind) {
    case VALUE_CHOICE: return *(const int *)at;
    case VALUE_FLAG: return *(const bool *)at;
    case VALUE_U32: return *(const uint32_t *)at;
    case VALUE_I64: return (double)*(const int64_t *)at;
    case VALUE_U64: return (double)*(const uint64_t *)at;
    default: return *(const double *)at;
    }
}

/* value_put -- the field from a number. */
void value_put(const struct value *value, void *object, double number)
{
    void *at = (uint8_t *)object + value->offset;

    switch (value->kind) {
    case VALUE_CHOICE: *(int *)at = (int)number; return;
    case VALUE_FLAG: *(bool *)at = number != 0; return;
    case VALUE_U32: *(uint32_t *)at = (uint32_t)number; return;
    case VALUE_I64: *(int64_t *)at = (int64_t)number; return;
    case VALUE_U64: *(uint64_t *)at = (uint64_t)number; return;
    default: *(double *)at = number;
    }
}

/* value_word_count -- how many words there are. */
static int value_word_count(const char *const *words)
{
    int count = 0;

    while (words[count] != NULL)
        count++;
    return count;
}

/* value_read_word -- a choice or a flag. */
static int value_read_word(const struct value *value, void *object, const char *text)
{
    char list[200] = "use ";
    int count = value_word_count(value->words);

    for (int i = 0; i < count; i++)
        if (strcmp(text, value->words[i]) == 0) {
            value_put(value, object, value->kind == VALUE_CHOICE ? i + 1 : i);
            return 0;
        }
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", value->words[i],
                 i + 2 < count    ? ", "
                 : i + 2 == count ? " or "
                                  : "");
    }
    return error_set(STEPGATE_EINVAL, 0, list, "%s `%s` is unknown", value->name, text);
}

/* value_in_range -- is the number one that the field may hold? NaN is not. */
static bool value_in_range(const struct value *value, double number)
{
    if (value->below)
        return number >= value->low && (double)(float)number < value->high;
    return number >= value->low && number <= value->high;
}

/* value_limit -- a limit in plain digits if it is a whole number: 1.67772e+07 is none that anybody could give. */
static const char *value_limit(double limit, char *text, size_t size)
{
    snprintf(text, size, limit == floor(limit) && fabs(limit) < VALUE_PLAIN ? "%.0f" : "%g", limit);
    return text;
}

/* value_vanishes -- a number that is on, but in f32, which counts, is off. */
static bool value_vanishes(const struct value *value, double number)
{
    return value->off && value->kind == VALUE_F64 && number != 0 && (float)number == 0;
}

/* value_read -- the field from a text. */
int value_read(const struct value *value, void *object, const char *text)
{
    char *end, low[32], high[32];

    if (value->kind == VALUE_CHOICE || value->kind == VALUE_FLAG)
        return value_read_word(value, object, text);
    errno = 0;
    double number = strtod(text, &end);
    bool tiny = errno == ERANGE && fabs(number) < 1; /* what strtod could not hold either */
    if (end == text || *end != 0 || (errno == ERANGE && !tiny) || !value_in_range(value, number))
        return error_set(STEPGATE_EINVAL, 0, "", "%s: `%s` is not a number from %s to %s%s", value->name,
                         text, value_limit(value->low, low, sizeof(low)), value->below ? "below " : "",
                         value_limit(value->high, high, sizeof(high)));
    if (tiny || value_vanishes(value, number))
        return error_set(STEPGATE_EINVAL, 0, "use 0, or a greater number",
                         "%s: `%s` is too near to 0 for a 32-bit float", value->name, text);
    if (value->kind != VALUE_F64 && number != floor(number))
        return error_set(STEPGATE_EINVAL, 0, "", "%s: `%s` is not a whole number", value->name, text);
    value_put(value, object, number);
    return 0;
}

/* value_sound -- may the field hold what it holds? */
bool value_sound(const struct value *value, const void *object)
{
    double number = value_get(value, object);

    if (value->kind == VALUE_CHOICE)
        return number >= 1 && number <= value_word_count(value->words);
    if (value->kind == VALUE_FLAG)
        return true; /* value_unpack lets nothing but 0 and 1 in */
    return value_in_range(value, number) && !value_vanishes(value, number);
}

/* value_same -- bit for bit. */
bool value_same(const struct value *value, const void *first, const void *other)
{
    return memcmp(value_at(value, first), value_at(value, other), value_bytes(value)) == 0;
}

/* value_digits -- a number with as many digits as tell it from every other. */
static void value_digits(double number, char text[VALUE_TEXT_BYTES])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, VALUE_TEXT_BYTES, "%.*g", digits, number);
        double back = strtod(text, NULL);
        if (back == number)
            return;
    }
}

/* value_text -- words a field. */
void value_text(const struct value *value, const void *object, char text[VALUE_TEXT_BYTES])
{
    double number = value_get(value, object);

    switch (value->kind) {
    case VALUE_CHOICE: snprintf(text, VALUE_TEXT_BYTES, "%s", value_word(value->words, (int)number)); return;
    case VALUE_FLAG: snprintf(text, VALUE_TEXT_BYTES, "%s", value->words[number != 0]); return;
    case VALUE_F64: value_digits(number, text); return;
    default: snprintf(text, VALUE_TEXT_BYTES, "%.0f", number);
    }
}

/* value_pack -- appends the field. */
void value_pack(const struct value *value, const void *object, struct bytes_writer *w)
{
    uint32_t bits32;
    uint64_t bits64;

    if (value->kind == VALUE_CHOICE || value->kind == VALUE_FLAG) {
        bytes_put_u8(w, (uint8_t)value_get(value, object));
    } else if (value_bytes(value) == 4) {
        memcpy(&bits32, value_at(value, object), sizeof(bits32));
        bytes_put_u32(w, bits32);
    } else {
        memcpy(&bits64, value_at(value, object), sizeof(bits64));
        bytes_put_u64(w, bits64);
    }
}

/* value_unpack -- takes the field; a flag that is neither counts as missing. */
void value_unpack(const struct value *value, void *object, struct bytes_reader *r)
{
    uint8_t *at = (uint8_t *)object + value->offset;

    if (value->kind == VALUE_CHOICE || value->kind == VALUE_FLAG) {
        uint8_t number = bytes_get_u8(r);
        r->underflow = r->underflow || (value->kind == VALUE_FLAG && number > 1);
        value_put(value, object, number);
    } else if (value_bytes(value) == 4) {
        uint32_t bits = bytes_get_u32(r);
        memcpy(at, &bits, sizeof(bits));
    } else {
        uint64_t bits = bytes_get_u64(r);
        memcpy(at, &bits, sizeof(bits));
    }
}

/* value_word -- the word of a number. */
const char *value_word(const char *const *words, int number)
{
    return number >= 1 && number <= value_word_count(words) ? words[number - 1] : "?";
}
