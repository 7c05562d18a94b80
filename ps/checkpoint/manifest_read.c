/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/checkpoint/damage.h"
#include "ps/checkpoint/manifest_inside.h"
#include "transport/base/error.h"

/* A file that is read. */
struct manifest_reader {
    const char *path;
    char *text;
    size_t length;
    struct manifest *m;
};

/* manifest_no_memory -- the error. */
static int manifest_no_memory(const char *path)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory to read %s", path);
}

/* manifest_unpack -- json_unpack_ex that knows every member and says what is wrong. */
static int manifest_unpack(const char *path, json_t *object, const char *format, ...)
{
    json_error_t error;
    va_list list;

    va_start(list, format);
    int failed = json_vunpack_ex(object, &error, JSON_STRICT, format, list);
    va_end(list);
    return failed != 0 ? damage_error(path, "%.150s", error.text) : 0;
}

/* manifest_range -- a whole number that fits. */
static bool manifest_range(json_int_t number, uint64_t most)
{
    return number >= 0 && (uint64_t)number <= most;
}

/* manifest_hex -- exactly `bytes` bytes as hexadecimal digits. */
static bool manifest_hex(const char *text, uint8_t *out, size_t bytes)
{
    size_t length;

    return strlen(text) == 2 * bytes &&
           sodium_hex2bin(out, bytes, text, 2 * bytes, NULL, &length, NULL) == 0 && length == bytes;
}

/* manifest_take_description -- from base64. */
static int manifest_take_description(struct manifest_reader *r, const char *text)
{
    size_t length = strlen(text);

    r->m->description = malloc(length + 1);
    if (r->m->description == NULL)
        return manifest_no_memory(r->path);
    if (sodium_base642bin(r->m->description, length + 1, text, length, NULL, &r->m->description_bytes, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0)
        return damage_error(r->path, "the description is not base64");
    return 0;
}

/* manifest_take_keys -- {KEY: VALUE, ...}. */
static int manifest_take_keys(struct manifest_reader *r, json_t *object)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return damage_error(r->path, "keys is no object");
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return damage_error(r->path, "key %.60s has no text", key);
        int status = manifest_add_key(r->m, key, json_string_value(value));
        if (status != 0)
            return status == -STEPGATE_ENOMEM ? status : damage_error(r->path, "key %.60s is too long", key);
    }
    return 0;
}

/* manifest_take_change -- one change to come. */
static int manifest_take_change(struct manifest_reader *r, json_t *one)
{
    json_int_t step;
    const char *key, *value;
    int status =
        manifest_unpack(r->path, one, "{s:I, s:s, s:s}", "step", &step, "key", &key, "value", &value);

    if (status != 0)
        return status;
    if (!manifest_range(step, INT64_MAX))
        return damage_error(r->path, "a change has no step");
    status = manifest_add_change(r->m, (uint64_t)step, key, value);
    return status == 0 || status == -STEPGATE_ENOMEM
               ? status
               : damage_error(r->path, "change of %.60s is too long", key);
}

/* manifest_take_number -- one number of the leader's. */
static int manifest_take_number(struct manifest_reader *r, json_t *one)
{
    json_int_t rank = MANIFEST_NO_RANK;
    const char *name, *hex;
    uint8_t bytes[sizeof(uint64_t)];
    uint64_t bits = 0;
    int status = manifest_unpack(r->path, one, "{s?I, s:s, s:s}", "rank", &rank, "name", &name, "bits", &hex);

    if (status != 0)
        return status;
    if (!manifest_range(rank, MANIFEST_NO_RANK) || !manifest_hex(hex, bytes, sizeof(bytes)))
        return damage_error(r->path, "number %.60s is not of a rank and 16 hexadecimal digits", name);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bits = bits << 8 | bytes[i];
    status = manifest_add_number(r->m, (uint32_t)rank, name, bits);
    return status == 0 || status == -STEPGATE_ENOMEM
               ? status
               : damage_error(r->path, "number %.60s is too long", name);
}

/* manifest_take_file -- one file of a shard. */
static int manifest_take_file(struct manifest_reader *r, json_t *one)
{
    struct manifest_file file = {.bytes = 0};
    json_int_t bytes;
    const char *name, *hex;
    int status =
        manifest_unpack(r->path, one, "{s:s, s:I, s:s}", "name", &name, "bytes", &bytes, "sha256", &hex);

    if (status != 0)
        return status;
    if (strlen(name) >= sizeof(file.name) || !manifest_range(bytes, INT64_MAX) ||
        !manifest_hex(hex, file.digest, sizeof(file.digest)))
        return damage_error(r->path, "file %.60s is not of a name, bytes and a SHA-256", name);
    snprintf(file.name, sizeof(file.name), "%s", name);
    file.bytes = (uint64_t)bytes;
    return manifest_add_file(r->m, &file);
}

/* manifest_take_set -- who contributed to one step. */
static int manifest_take_set(struct manifest_reader *r, json_t *one)
{
    json_int_t step;
    json_t *list;
    int status = manifest_unpack(r->path, one, "{s:I, s:o}", "step", &step, "ranks", &list);

    if (status != 0)
        return status;
    size_t count = json_array_size(list);
    if (!json_is_array(list) || !manifest_range(step, INT64_MAX) || count > UINT32_MAX)
        return damage_error(r->path, "a set is not of a step and ranks");
    uint32_t *ranks = calloc(count + 1, sizeof(*ranks));
    if (ranks == NULL)
        return manifest_no_memory(r->path);
    for (size_t i = 0; status == 0 && i < count; i++) {
        const json_t *rank = json_array_get(list, i);
        if (!json_is_integer(rank) || !manifest_range(json_integer_value(rank), UINT32_MAX))
            status = damage_error(r->path, "the set of step %lld has a rank that is none", (long long)step);
        ranks[i] = (uint32_t)json_integer_value(rank);
    }
    if (status == 0)
        status = manifest_add_set(r->m, (uint64_t)step, ranks, (uint32_t)count);
    free(ranks);
    return status;
}

/* manifest_take_list -- each one of a list. */
static int manifest_take_list(struct manifest_reader *r, const char *name, json_t *list,
                              int (*take)(struct manifest_reader *, json_t *))
{
    int status = 0;

    if (!json_is_array(list))
        return damage_error(r->path, "%s is no list", name);
    for (size_t i = 0; status == 0 && i < json_array_size(list); i++)
        status = take(r, json_array_get(list, i));
    return status;
}

/* manifest_take_head -- what is no list. */
static int manifest_take_head(struct manifest_reader *r, const char *model, const json_int_t numbers[4],
                              const char *fingerprint, const char *description)
{
    struct manifest *m = r->m;

    if (!name_decode(model, m->model, sizeof(m->model)))
        return damage_error(r->path, "the model's name is none");
    if (!manifest_range(numbers[0], INT64_MAX) || !manifest_range(numbers[1], UINT32_MAX) ||
        !manifest_range(numbers[2], UINT32_MAX) || !manifest_range(numbers[3], INT64_MAX))
        return damage_error(r->path, "step, shards, workers or written is out of range");
    if (!manifest_hex(fingerprint, m->fingerprint, sizeof(m->fingerprint)))
        return damage_error(r->path, "the fingerprint is not a SHA-256");
    m->format = MANIFEST_FORMAT;
    m->step = (uint64_t)numbers[0];
    m->shards = (uint32_t)numbers[1];
    m->workers = (uint32_t)numbers[2];
    m->written = numbers[3];
    return manifest_take_description(r, description);
}

/* manifest_take -- the whole object. */
static int manifest_take(struct manifest_reader *r, json_t *object)
{
    json_int_t format, numbers[4];
    const char *model, *fingerprint, *description, *hash;
    json_t *keys, *lists[4];
    int status = manifest_unpack(
        r->path, object, "{s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "format",
        &format, "model", &model, "step", &numbers[0], "shards", &numbers[1], "workers", &numbers[2],
        "written", &numbers[3], "fingerprint", &fingerprint, "description", &description, "keys", &keys,
        "changes", &lists[0], "numbers", &lists[1], "files", &lists[2], "sets", &lists[3], "sha256", &hash);

    if (status == 0)
        status = manifest_take_head(r, model, numbers, fingerprint, description);
    if (status == 0)
        status = manifest_take_keys(r, keys);
    if (status == 0)
        status = manifest_take_list(r, "changes", lists[0], manifest_take_change);
    if (status == 0)
        status = manifest_take_list(r, "numbers", lists[1], manifest_take_number);
    if (status == 0)
        status = manifest_take_list(r, "files", lists[2], manifest_take_file);
    if (status == 0)
        status = manifest_take_list(r, "sets", lists[3], manifest_take_set);
    const char *wrong = status == 0 ? manifest_check(r->m) : NULL;
    return wrong != NULL ? damage_error(r->path, "%s", wrong) : status;
}

/* manifest_check_tail -- the last line is the hash of all before it. */
static int manifest_check_tail(const struct manifest_reader *r)
{
    unsigned char digest[TENSORS_DIGEST_BYTES];
    char hex[MANIFEST_HEX_BYTES], tail[MANIFEST_TAIL_BYTES + 1];

    if (r->length < MANIFEST_TAIL_BYTES)
        return damage_error(r->path, "it is too short");
    size_t length = r->length - MANIFEST_TAIL_BYTES;
    crypto_hash_sha256(digest, (const unsigned char *)r->text, length);
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    snprintf(tail, sizeof(tail), MANIFEST_TAIL_BEFORE "%s" MANIFEST_TAIL_BEHIND, hex);
    if (memcmp(r->text + length, tail, MANIFEST_TAIL_BYTES) != 0)
        return damage_error(r->path, "its last line is not the SHA-256 of those above it, %.16s...", hex);
    return 0;
}

/* manifest_parse -- the text: the format first, since another one may have everything else elsewhere. */
static int manifest_parse(struct manifest_reader *r)
{
    json_error_t error;
    json_t *object = json_loadb(r->text, r->length, JSON_REJECT_DUPLICATES, &error);
    const json_t *format = json_object_get(object, "format");
    int status = 0;

    if (object == NULL)
        return damage_error(r->path, "line %d: %.150s", error.line, error.text);
    if (!json_is_integer(format))
        status = damage_error(r->path, "it has no format");
    else if (json_integer_value(format) != MANIFEST_FORMAT)
        status = error_set(STEPGATE_EVERSION, 0, "use the version of stepgate that wrote it",
                           "%s is in format %lld, this version reads format %d", r->path,
                           (long long)json_integer_value(format), MANIFEST_FORMAT);
    if (status == 0)
        status = manifest_check_tail(r);
    if (status == 0)
        status = manifest_take(r, object);
    json_decref(object);
    return status;
}

/* manifest_load_open -- the text of an open file. */
static int manifest_load_open(struct manifest_reader *r, int fd)
{
    struct stat at;

    if (fstat(fd, &at) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, "", "%s cannot be read", r->path);
    if (!S_ISREG(at.st_mode) || at.st_size > MANIFEST_BYTES_MAX)
        return damage_error(r->path, "it is no file, or longer than %u bytes", MANIFEST_BYTES_MAX);
    size_t size = (size_t)at.st_size;
    r->text = malloc(size + 1);
    if (r->text == NULL)
        return manifest_no_memory(r->path);
    while (r->length < size) {
        ssize_t n = read(fd, r->text + r->length, size - r->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(STEPGATE_ESYSTEM, errno, "look at the disk and the system's log",
                             "%s cannot be read", r->path);
        if (n == 0)
            break;
        r->length += (size_t)n;
    }
    return 0;
}

/* manifest_load -- the text. */
static int manifest_load(struct manifest_reader *r)
{
    int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && errno == ENOENT)
        return error_set(STEPGATE_ENOENT, 0, "", "there is no %s", r->path);
    if (fd < 0)
        return error_set(STEPGATE_ESYSTEM, errno, "", "%s cannot be read", r->path);
    int status = manifest_load_open(r, fd);
    close(fd);
    return status;
}

/* manifest_read -- see manifest.h. */
int manifest_read(const char *folder, struct manifest *out)
{
    char path[PATH_MAX];
    struct manifest m = {.format = 0};
    struct manifest_reader r = {.path = path, .m = &m};
    int length = snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, folder);

    if (length < 0 || (size_t)length >= sizeof(path))
        return error_set(STEPGATE_ESYSTEM, ENAMETOOLONG, "", "%.200s... cannot be read", folder);
    int status = manifest_load(&r);
    if (status == 0)
        status = manifest_parse(&r);
    free(r.text);
    if (status != 0) {
        manifest_clear(&m);
        return status;
    }
    *out = m;
    return 0;
}
