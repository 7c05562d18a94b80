/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/name.h"

#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepgate/model.h"

#define NAME_HASH_BYTES 8 /* of a model's name that is too long for a folder */
#define NAME_STEP "step-"
#define NAME_STEP_DIGITS 20
#define NAME_SHARD "shard-"
#define NAME_SUFFIX ".safetensors"

static_assert(3 * STEPGATE_NAME_BYTES + 96 < NAME_TENSOR_BYTES,
              "any variable's name fits, with group, slot and row");

/* name_utf8_length -- bytes of the character that begins here; 0: it is not UTF-8 as JSON wants it. */
static size_t name_utf8_length(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = text[0];
    size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

    if (length == 1)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    uint32_t code = first & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

/* name_is_utf8 -- all of it. */
static bool name_is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != 0) {
        size_t length = name_utf8_length(at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

/* name_put -- one byte as it is or as %XX; nothing beyond size. */
static size_t name_put(unsigned char byte, bool as_it_is, char *out, size_t used, size_t size)
{
    int n = as_it_is ? snprintf(out + used, size - used, "%c", byte)
                     : snprintf(out + used, size - used, "%%%02X", byte);

    return used + (size_t)n < size ? used + (size_t)n : size - 1;
}

/* name_encode -- see name.h. */
void name_encode(const char *name, char *out, size_t size)
{
    bool utf8 = name_is_utf8(name);
    size_t used = 0;

    out[0] = 0;
    for (const char *c = name; *c != 0; c++) {
        unsigned char byte = (unsigned char)*c;
        bool plain = byte < 0x80 ? byte >= 0x20 && byte != 0x7f && byte != '%' && byte != '#' : utf8;
        used = name_put(byte, plain, out, used, size);
    }
}

/* name_hex -- the value of a digit; -1: it is none. */
static int name_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* name_decode -- see name.h. */
bool name_decode(const char *text, char *out, size_t size)
{
    size_t used = 0;

    for (const char *c = text; *c != 0; c++) {
        if (used + 1 >= size)
            return false;
        if (*c != '%') {
            out[used++] = *c;
            continue;
        }
        int high = name_hex(c[1]), low = high < 0 ? -1 : name_hex(c[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        out[used++] = (char)(high << 4 | low);
        c += 2;
    }
    out[used] = 0;
    return true;
}

/* name_grouped -- GROUP/VARIABLE. */
static void name_grouped(const char *group, const char *variable, char out[NAME_TENSOR_BYTES])
{
    size_t used = (size_t)snprintf(out, NAME_TENSOR_BYTES, "%.80s/", group);

    name_encode(variable, out + used, NAME_TENSOR_BYTES - used);
}

/* name_parameters -- see name.h. */
void name_parameters(const char *variable, char out[NAME_TENSOR_BYTES])
{
    name_grouped("parameters", variable, out);
}

/* name_averages -- see name.h. */
void name_averages(const char *variable, char out[NAME_TENSOR_BYTES])
{
    name_grouped("averages", variable, out);
}

/* name_masters -- see name.h. */
void name_masters(const char *variable, char out[NAME_TENSOR_BYTES])
{
    name_grouped("masters", variable, out);
}

/* name_slots -- see name.h. */
void name_slots(const char *slot, const char *variable, char out[NAME_TENSOR_BYTES])
{
    char group[80];

    snprintf(group, sizeof(group), "slots/%.64s", slot);
    name_grouped(group, variable, out);
}

/* name_aux -- see name.h. */
void name_aux(uint32_t rank, const char *variable, char out[NAME_TENSOR_BYTES])
{
    char group[32];

    snprintf(group, sizeof(group), "aux/%" PRIu32, rank);
    name_grouped(group, variable, out);
}

/* name_piece -- see name.h. */
void name_piece(const char *whole, uint64_t first_row, char out[NAME_TENSOR_BYTES])
{
    size_t length = strnlen(whole, NAME_TENSOR_BYTES - 1);

    memmove(out, whole, length);
    snprintf(out + length, NAME_TENSOR_BYTES - length, "#%" PRIu64, first_row);
}

/* name_digits -- a number of digits alone, without leading zeros; false: it is none. */
static bool name_digits(const char *text, uint64_t *out)
{
    size_t count = strspn(text, "0123456789");
    uint64_t number = 0;

    if (count == 0 || text[count] != 0 || (text[0] == '0' && count > 1))
        return false;
    for (; *text != 0; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

/* name_split -- see name.h. */
bool name_split(const char *tensor, char whole[NAME_TENSOR_BYTES], uint64_t *first_row)
{
    const char *mark = strrchr(tensor, '#');
    bool piece = mark != NULL && name_digits(mark + 1, first_row);

    size_t length = piece ? (size_t)(mark - tensor) : strlen(tensor);

    if (length >= NAME_TENSOR_BYTES)
        length = NAME_TENSOR_BYTES - 1;
    memmove(whole, tensor, length);
    whole[length] = 0;
    if (!piece)
        *first_row = 0;
    return piece;
}

/* name_model -- see name.h. */
void name_model(const char *model, char out[NAME_FILE_BYTES])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    char whole[3 * STEPGATE_NAME_BYTES + 1];
    unsigned char hash[crypto_hash_sha256_BYTES];
    char hex[2 * NAME_HASH_BYTES + 1];
    size_t used = 0;

    whole[0] = 0;
    for (const char *c = model; *c != 0;
         c++) /* no name begins with a point: it would be hidden, or lead elsewhere */
        used = name_put((unsigned char)*c, strchr(plain, *c) != NULL && (*c != '.' || c > model), whole, used,
                        sizeof(whole));
    if (used < NAME_FILE_BYTES) {
        memcpy(out, whole, used + 1);
        return;
    }
    crypto_hash_sha256(hash, (const unsigned char *)model, strlen(model));
    sodium_bin2hex(hex, sizeof(hex), hash, NAME_HASH_BYTES);
    snprintf(out, NAME_FILE_BYTES, "%.200s%%~%s", whole, hex); /* %~ is nothing that is made above */
}

/* name_model_read -- see name.h. */
void name_model_read(const char *folder, char *model, size_t size)
{
    if (!name_decode(folder, model, size))
        snprintf(model, size, "%s", folder);
}

/* name_step -- see name.h. */
void name_step(uint64_t step, char out[NAME_FILE_BYTES])
{
    snprintf(out, NAME_FILE_BYTES, NAME_STEP "%0*" PRIu64, NAME_STEP_DIGITS, step);
}

/* name_step_read -- see name.h. */
bool name_step_read(const char *folder, uint64_t *step)
{
    const char *digits = folder + sizeof(NAME_STEP) - 1;

    if (strncmp(folder, NAME_STEP, sizeof(NAME_STEP) - 1) != 0 || strlen(digits) != NAME_STEP_DIGITS)
        return false;
    while (digits[0] == '0' && digits[1] != 0)
        digits++;
    return name_digits(digits, step);
}

/* name_shard -- see name.h. */
void name_shard(uint32_t shard, uint32_t shards, char out[NAME_FILE_BYTES])
{
    snprintf(out, NAME_FILE_BYTES, NAME_SHARD "%" PRIu32 "-of-%" PRIu32 NAME_SUFFIX, shard, shards);
}

/* name_is_shard -- see name.h. */
bool name_is_shard(const char *file)
{
    unsigned long shard, shards;
    int used = 0;

    if (sscanf(file, NAME_SHARD "%9lu-of-%9lu" NAME_SUFFIX "%n", &shard, &shards, &used) != 2 || used == 0)
        return false;
    return file[used] == 0 || strcmp(file + used, NAME_DRAFT) == 0;
}
