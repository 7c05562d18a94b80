/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/checkpoint/damage.h"
#include "ps/protocol/model.h"
#include "transport/base/bytes.h"
#include "transport/base/error.h"

struct tensors_file {
    char *path;
    int fd;
    json_t *header; /* names and metadata live in it */
    struct tensors_found *found;
    size_t count, *by_name; /* by_name: numbers of found */
};

static const char *const tensors_dtypes[] = {
    [STEPGATE_F32] = "F32", [STEPGATE_F64] = "F64", [STEPGATE_F16] = "F16", [STEPGATE_BF16] = "BF16"};

/* tensors_dtype_name -- see tensors.h. */
const char *tensors_dtype_name(int dtype)
{
    return dtype >= STEPGATE_F32 && dtype <= STEPGATE_BF16 ? tensors_dtypes[dtype] : "?";
}

/* tensors_dtype -- see tensors.h. */
int tensors_dtype(const char *name)
{
    for (int dtype = STEPGATE_F32; dtype <= STEPGATE_BF16; dtype++)
        if (strcmp(tensors_dtypes[dtype], name) == 0)
            return dtype;
    return 0;
}

/* tensors_no_memory -- the error. */
static int tensors_no_memory(const char *path)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory to read %s", path);
}

/* tensors_open_file -- a regular file and its length; nothing that could make the caller wait. */
static int tensors_open_file(const char *path, int *out, uint64_t *size)
{
    struct stat at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &at) != 0) {
        int os_errno = errno;
        if (fd >= 0)
            close(fd);
        return error_set(STEPGATE_ESYSTEM, os_errno, "", "%s cannot be read", path);
    }
    if (!S_ISREG(at.st_mode)) {
        close(fd);
        return damage_error(path, "it is no file");
    }
    *out = fd;
    *size = (uint64_t)at.st_size;
    return 0;
}

/* tensors_take -- bytes of an open file from a place on. */
static int tensors_take(int fd, const char *path, uint64_t first, uint64_t bytes, void *out)
{
    uint8_t *to = out;

    while (bytes > 0) {
        size_t most = bytes < (UINT64_C(1) << 30) ? (size_t)bytes : (size_t)1 << 30;
        ssize_t n = pread(fd, to, most, (off_t)first);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(STEPGATE_ESYSTEM, errno, "look at the disk and the system's log",
                             "%s cannot be read at byte %" PRIu64, path, first);
        if (n == 0)
            return damage_error(path, "it ends at byte %" PRIu64 ", where more was", first);
        to += n;
        first += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

/* tensors_whole -- a whole number >= 0 of JSON. */
static bool tensors_whole(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* tensors_parse_shape -- dims, and elements as their product; false: it is no shape of what can be in a file. */
static bool tensors_parse_shape(const json_t *shape, struct tensors_found *found)
{
    size_t rank = json_array_size(shape);

    if (!json_is_array(shape) || rank > STEPGATE_RANK_MAX)
        return false;
    found->rank = (int)rank;
    found->elements = 1;
    for (size_t i = 0; i < rank; i++) {
        if (!tensors_whole(json_array_get(shape, i), &found->dims[i]) || found->dims[i] == 0 ||
            found->dims[i] > (uint64_t)INT64_MAX / found->elements)
            return false;
        found->elements *= found->dims[i];
    }
    return true;
}

/* tensors_parse -- one array of the header; arrays is the bytes of all of them, start the byte at which they begin. */
static int tensors_parse(const char *path, const char *name, const json_t *value, uint64_t start,
                         uint64_t arrays, struct tensors_found *found)
{
    const json_t *dtype = json_object_get(value, "dtype"), *offsets = json_object_get(value, "data_offsets");
    uint64_t begin, end;

    *found = (struct tensors_found){.name = name};
    if (name[0] == 0 || strlen(name) >= NAME_TENSOR_BYTES)
        return damage_error(path, "array `%.60s` has an empty or too long name", name);
    if (json_object_size(value) != 3 || !json_is_string(dtype))
        return damage_error(path, "array `%.100s` is not described by dtype, shape and data_offsets alone",
                            name);
    found->dtype = tensors_dtype(json_string_value(dtype));
    if (found->dtype == 0)
        return damage_error(path, "array `%.100s` has dtype %.20s, which is not known here", name,
                            json_string_value(dtype));
    if (!tensors_parse_shape(json_object_get(value, "shape"), found))
        return damage_error(path, "array `%.100s` has a shape that is none", name);
    if (json_array_size(offsets) != 2 || !tensors_whole(json_array_get(offsets, 0), &begin) ||
        !tensors_whole(json_array_get(offsets, 1), &end) || begin > end || end > arrays)
        return damage_error(path, "array `%.100s` does not lie within the file", name);
    size_t size = model_dtype_bytes(found->dtype);
    found->bytes = end - begin;
    if (found->elements > (uint64_t)INT64_MAX / size || found->elements * size != found->bytes)
        return damage_error(path,
                            "array `%.100s` has %" PRIu64 " bytes, its shape is of %" PRIu64 " elements",
                            name, found->bytes, found->elements);
    found->offset = start + begin;
    return 0;
}

/* tensors_parse_metadata -- texts by key, and nothing else. */
static int tensors_parse_metadata(const char *path, json_t *value)
{
    const char *key;
    json_t *text;

    if (!json_is_object(value))
        return damage_error(path, "__metadata__ is no object");
    json_object_foreach(value, key, text) if (!json_is_string(text)) return damage_error(
        path, "__metadata__ `%.60s` is no text", key);
    return 0;
}

/* tensors_compare_offset -- as they lie. */
static int tensors_compare_offset(const void *a, const void *b)
{
    const struct tensors_found *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* tensors_compare_name -- numbers of arrays by their names. */
static int tensors_compare_name(const void *a, const void *b, void *context)
{
    const struct tensors_file *file = context;

    return strcmp(file->found[*(const size_t *)a].name, file->found[*(const size_t *)b].name);
}

/* tensors_check_places -- one behind the other, up to the end of the file. */
static int tensors_check_places(const struct tensors_file *file, uint64_t start, uint64_t arrays)
{
    uint64_t next = start;

    for (size_t i = 0; i < file->count; i++) {
        const struct tensors_found *found = &file->found[i];
        if (found->offset != next)
            return damage_error(file->path, "array `%.100s` %s", found->name,
                                found->offset < next ? "lies over another one" : "has a hole before it");
        next += found->bytes;
    }
    if (next != start + arrays)
        return damage_error(file->path, "%" PRIu64 " bytes are behind the last array", start + arrays - next);
    return 0;
}

/* tensors_index -- arrays from the header. */
static int tensors_index(struct tensors_file *file, uint64_t start, uint64_t arrays)
{
    size_t room = json_object_size(file->header) + 1;
    const char *name;
    json_t *value;
    int status = 0;

    file->found = calloc(room, sizeof(*file->found));
    file->by_name = calloc(room, sizeof(*file->by_name));
    if (file->found == NULL || file->by_name == NULL)
        return tensors_no_memory(file->path);
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            status = tensors_parse_metadata(file->path, value);
        else
            status = tensors_parse(file->path, name, value, start, arrays, &file->found[file->count++]);
        if (status != 0)
            return status;
    }
    qsort(file->found, file->count, sizeof(*file->found), tensors_compare_offset);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = i;
    qsort_r(file->by_name, file->count, sizeof(*file->by_name), tensors_compare_name, file);
    return tensors_check_places(file, start, arrays);
}

/* tensors_load -- the header of an open file. */
static int tensors_load(struct tensors_file *file, uint64_t size)
{
    uint8_t head[sizeof(uint64_t)];
    json_error_t error;

    if (size < sizeof(head))
        return damage_error(file->path, "it has %" PRIu64 " bytes, too few for any", size);
    int status = tensors_take(file->fd, file->path, 0, sizeof(head), head);
    if (status != 0)
        return status;
    struct bytes_reader r = {head, sizeof(head), 0, false};
    uint64_t length = bytes_get_u64(&r);
    if (length > TENSORS_HEADER_MAX || length > size - sizeof(head))
        return damage_error(file->path, "its header would have %" PRIu64 " bytes, the file has %" PRIu64,
                            length, size);
    char *text = malloc((size_t)length + 1);
    if (text == NULL)
        return tensors_no_memory(file->path);
    status = tensors_take(file->fd, file->path, sizeof(head), length, text);
    if (status == 0)
        file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (status != 0)
        return status;
    if (!json_is_object(file->header))
        return damage_error(file->path, "its header is no JSON object: %.100s at byte %d",
                            file->header == NULL ? error.text : "another value",
                            file->header == NULL ? error.position : 0);
    return tensors_index(file, sizeof(head) + length, size - sizeof(head) - length);
}

/* tensors_open -- see tensors.h. */
int tensors_open(const char *path, struct tensors_file **out)
{
    struct tensors_file *file = calloc(1, sizeof(*file));
    uint64_t size = 0;

    if (file == NULL || (file->path = strdup(path)) == NULL) {
        free(file);
        return tensors_no_memory(path);
    }
    file->fd = -1;
    int status = tensors_open_file(path, &file->fd, &size);
    if (status == 0)
        status = tensors_load(file, size);
    if (status != 0) {
        tensors_close(&file);
        return status;
    }
    *out = file;
    return 0;
}

/* tensors_close -- see tensors.h. */
void tensors_close(struct tensors_file **out)
{
    struct tensors_file *file = *out;

    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    json_decref(file->header);
    free(file->found);
    free(file->by_name);
    free(file->path);
    free(file);
    *out = NULL;
}

/* tensors_count -- see tensors.h. */
size_t tensors_count(const struct tensors_file *file)
{
    return file->count;
}

/* tensors_at -- see tensors.h. */
const struct tensors_found *tensors_at(const struct tensors_file *file, size_t number)
{
    return &file->found[number];
}

/* tensors_find -- see tensors.h. */
const struct tensors_found *tensors_find(const struct tensors_file *file, const char *name)
{
    size_t low = 0, high = file->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct tensors_found *found = &file->found[file->by_name[middle]];
        int order = strcmp(found->name, name);
        if (order == 0)
            return found;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* tensors_metadata -- see tensors.h. */
const char *tensors_metadata(const struct tensors_file *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

/* tensors_read -- see tensors.h. */
int tensors_read(const struct tensors_file *file, const struct tensors_found *found, uint64_t first,
                 uint64_t bytes, void *out)
{
    if (first > found->bytes || bytes > found->bytes - first)
        return error_set(STEPGATE_EINVAL, 0, "",
                         "%s: %" PRIu64 " bytes from byte %" PRIu64 " on are beyond array %.100s", file->path,
                         bytes, first, found->name);
    return tensors_take(file->fd, file->path, found->offset + first, bytes, out);
}

/* tensors_hash -- all bytes of an open file, up to the length that it had. */
static int tensors_hash(int fd, const char *path, uint64_t size, uint8_t digest[TENSORS_DIGEST_BYTES])
{
    crypto_hash_sha256_state hash;
    uint8_t *block = malloc(TENSORS_BLOCK);
    int status = 0;

    if (block == NULL)
        return tensors_no_memory(path);
    crypto_hash_sha256_init(&hash);
    for (uint64_t first = 0; status == 0 && first < size; first += TENSORS_BLOCK) {
        uint64_t n = size - first < TENSORS_BLOCK ? size - first : TENSORS_BLOCK;
        status = tensors_take(fd, path, first, n, block);
        if (status == 0)
            crypto_hash_sha256_update(&hash, block, n);
    }
    free(block);
    if (status == 0)
        crypto_hash_sha256_final(&hash, digest);
    return status;
}

/* tensors_digest -- see tensors.h. */
int tensors_digest(const char *path, uint8_t digest[TENSORS_DIGEST_BYTES], uint64_t *bytes)
{
    uint64_t size;
    int fd, status = tensors_open_file(path, &fd, &size);

    if (status != 0)
        return status;
    status = tensors_hash(fd, path, size, digest);
    close(fd);
    if (status == 0 && bytes != NULL)
        *bytes = size;
    return status;
}
