/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ps/checkpoint/draft.h"
#include "ps/checkpoint/tensors.h"
#include "ps/protocol/model.h"
#include "transport/base/bytes.h"
#include "transport/base/error.h"

#define TENSORS_ALIGN 8u /* of the header, and so of the arrays */

/* tensors_no_memory -- the error. */
static int tensors_no_memory(const char *path)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory to write %s", path);
}

/* tensors_check -- does an entry fit itself? */
static int tensors_check(const char *path, const struct tensors_entry *e)
{
    uint64_t size = model_dtype_bytes(e->dtype), bytes = size;
    bool sound = size > 0 && e->rank >= 0 && e->rank <= STEPGATE_RANK_MAX &&
                 memchr(e->name, 0, sizeof(e->name)) != NULL && e->name[0] != 0 &&
                 strcmp(e->name, "__metadata__") != 0;

    for (int i = 0; sound && i < e->rank; i++) {
        sound = e->dims[i] > 0 && e->dims[i] <= (uint64_t)INT64_MAX / bytes;
        bytes *= sound ? e->dims[i] : 0;
    }
    if (sound && bytes == e->bytes && (e->data != NULL || e->read != NULL))
        return 0;
    return error_set(STEPGATE_EINVAL, 0, "", "%s: array %.100s does not fit its own dtype, shape or bytes",
                     path, e->name);
}

/* tensors_describe -- the JSON of an array that lies from first on; NULL: no memory. */
static json_t *tensors_describe(const struct tensors_entry *e, uint64_t first)
{
    json_t *shape = json_array();

    for (int i = 0; shape != NULL && i < e->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)e->dims[i])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    if (shape == NULL)
        return NULL;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensors_dtype_name(e->dtype), "shape", shape,
                     "data_offsets", (json_int_t)first, (json_int_t)(first + e->bytes));
}

/* tensors_put_metadata -- the pairs of texts. */
static int tensors_put_metadata(json_t *header, const char *path, const struct tensors_pair *metadata,
                                size_t pairs)
{
    json_t *object = json_object();

    if (object == NULL || (pairs > 0 && json_object_set(header, "__metadata__", object) != 0)) {
        json_decref(object);
        return tensors_no_memory(path);
    }
    for (size_t i = 0; i < pairs; i++)
        if (json_object_set_new(object, metadata[i].key, json_string(metadata[i].value)) != 0) {
            json_decref(object);
            return error_set(STEPGATE_EINVAL, 0, "", "%s: the metadata %.40s is not UTF-8", path,
                             metadata[i].key);
        }
    json_decref(object);
    return 0;
}

/* tensors_order -- large elements first, else as given, so that every array is aligned. */
static void tensors_order(const struct tensors_entry *entries, size_t count, size_t *order)
{
    size_t used = 0;

    for (size_t size = 8; size >= 1; size /= 2)
        for (size_t i = 0; i < count; i++)
            if (model_dtype_bytes(entries[i].dtype) == size)
                order[used++] = i;
}

/* tensors_put_entries -- all arrays in order; *end is the bytes of them. */
static int tensors_put_entries(json_t *header, const char *path, const struct tensors_entry *entries,
                               const size_t *order, size_t count, uint64_t *end)
{
    uint64_t first = 0;

    for (size_t i = 0; i < count; i++) {
        const struct tensors_entry *e = &entries[order[i]];
        if (json_object_get(header, e->name) != NULL)
            return error_set(STEPGATE_EINVAL, 0, "", "%s: array %.100s is there twice", path, e->name);
        if (e->bytes > (uint64_t)INT64_MAX - first)
            return error_set(STEPGATE_EINVAL, 0, "", "%s: the arrays are too large", path);
        json_t *one = tensors_describe(e, first);
        if (one == NULL)
            return tensors_no_memory(path);
        if (json_object_set_new(header, e->name, one) != 0)
            return error_set(STEPGATE_EINVAL, 0, "", "%s: the name of array %.100s is not UTF-8", path,
                             e->name);
        first += e->bytes;
    }
    *end = first;
    return 0;
}

/* tensors_pad -- the header's length and text as they begin the file; malloc'ed. */
static int tensors_pad(const json_t *header, const char *path, uint8_t **out, size_t *size)
{
    char *text = json_dumps(header, JSON_COMPACT);
    size_t length = text != NULL ? strlen(text) : 0,
           padded = (length + TENSORS_ALIGN - 1) / TENSORS_ALIGN * TENSORS_ALIGN;
    uint8_t *bytes = text != NULL ? malloc(sizeof(uint64_t) + padded) : NULL;

    if (bytes == NULL) {
        free(text);
        return tensors_no_memory(path);
    }
    struct bytes_writer w = {bytes, sizeof(uint64_t) + padded, 0, false};
    bytes_put_u64(&w, padded);
    bytes_put(&w, text, length);
    memset(bytes + w.used, ' ', padded - length);
    free(text);
    if (padded > TENSORS_HEADER_MAX) {
        free(bytes);
        return error_set(STEPGATE_EINVAL, 0, "use more shards", "%s: a header of %zu bytes is longer than %u",
                         path, padded, TENSORS_HEADER_MAX);
    }
    *out = bytes;
    *size = w.size;
    return 0;
}

/* tensors_header -- how the file begins, and the bytes of the arrays behind that. */
static int tensors_header(const char *path, const struct tensors_entry *entries, const size_t *order,
                          size_t count, const struct tensors_pair *metadata, size_t pairs, uint8_t **out,
                          size_t *size, uint64_t *arrays)
{
    json_t *header = json_object();

    if (header == NULL)
        return tensors_no_memory(path);
    int status = tensors_put_metadata(header, path, metadata, pairs);
    if (status == 0)
        status = tensors_put_entries(header, path, entries, order, count, arrays);
    if (status == 0)
        status = tensors_pad(header, path, out, size);
    json_decref(header);
    return status;
}

/* tensors_put_read -- an array that is read block by block. */
static int tensors_put_read(struct draft *draft, const struct tensors_entry *e)
{
    size_t room = e->bytes < TENSORS_BLOCK ? (size_t)e->bytes : TENSORS_BLOCK;
    uint8_t *block = malloc(room);
    int status = 0;

    if (block == NULL)
        return tensors_no_memory(draft->path);
    for (uint64_t first = 0; status == 0 && first < e->bytes; first += room) {
        size_t n = e->bytes - first < room ? (size_t)(e->bytes - first) : room;
        status = e->read(e->context, first, n, block);
        if (status == 0)
            status = draft_put(draft, block, n);
    }
    free(block);
    return status;
}

/* tensors_put_all -- header and arrays into the draft. */
static int tensors_put_all(struct draft *draft, const uint8_t *header, size_t size,
                           const struct tensors_entry *entries, const size_t *order, size_t count)
{
    int status = draft_put(draft, header, size);

    for (size_t i = 0; status == 0 && i < count; i++) {
        const struct tensors_entry *e = &entries[order[i]];
        status = e->data != NULL ? draft_put(draft, e->data, (size_t)e->bytes) : tensors_put_read(draft, e);
    }
    return status;
}

/* tensors_put_file -- everything is checked: the file itself. */
static int tensors_put_file(const char *path, const uint8_t *header, size_t size, uint64_t arrays,
                            const struct tensors_entry *entries, const size_t *order, size_t count,
                            uint8_t digest[TENSORS_DIGEST_BYTES])
{
    struct draft draft;
    int status = draft_open(&draft, path, size + arrays);

    if (status != 0)
        return status;
    status = tensors_put_all(&draft, header, size, entries, order, count);
    if (status != 0) {
        draft_drop(&draft);
        return status;
    }
    return draft_commit(&draft, digest);
}

/* tensors_write -- see tensors.h. */
int tensors_write(const char *path, const struct tensors_entry *entries, size_t count,
                  const struct tensors_pair *metadata, size_t pairs, uint8_t digest[TENSORS_DIGEST_BYTES],
                  uint64_t *bytes)
{
    size_t *order = calloc(count + 1, sizeof(*order)), size = 0;
    uint8_t *header = NULL;
    uint64_t arrays = 0;
    int status = order == NULL ? tensors_no_memory(path) : 0;

    for (size_t i = 0; status == 0 && i < count; i++)
        status = tensors_check(path, &entries[i]);
    if (status == 0) {
        tensors_order(entries, count, order);
        status = tensors_header(path, entries, order, count, metadata, pairs, &header, &size, &arrays);
    }
    if (status == 0)
        status = tensors_put_file(path, header, size, arrays, entries, order, count, digest);
    if (status == 0 && bytes != NULL)
        *bytes = size + arrays;
    free(header);
    free(order);
    return status;
}
