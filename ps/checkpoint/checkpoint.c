/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "ps/checkpoint/damage.h"
#include "transport/base/error.h"

/* An array of a file, which holds rows of a variable. */
struct checkpoint_piece {
    char *whole; /* the variable's name */
    bool cut;    /* it is a piece of it */
    uint64_t first_row, first_element;
    uint32_t file;
    const struct tensors_found *found;
};

/* A variable and its pieces. */
struct checkpoint_index {
    struct checkpoint_tensor tensor;
    size_t first, count; /* range in pieces */
};

struct checkpoint {
    char *folder;
    struct manifest manifest;
    struct tensors_file **files; /* of each shard */
    struct checkpoint_piece *pieces;
    struct checkpoint_index *tensors;
    size_t piece_count, count;
};

/* checkpoint_path -- see checkpoint_inside.h. */
int checkpoint_path(char out[PATH_MAX], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);

    if (length >= 0 && length < PATH_MAX)
        return 0;
    return error_set(STEPGATE_EINVAL, 0, "give a folder with a shorter name",
                     "the name %.200s.../%.100s is too long", folder, name);
}

/* checkpoint_no_memory -- the error. */
static int checkpoint_no_memory(const char *folder)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the checkpoint in %s", folder);
}

/* checkpoint_compare_pieces -- by variable and row. */
static int checkpoint_compare_pieces(const void *a, const void *b)
{
    const struct checkpoint_piece *x = a, *y = b;
    int order = strcmp(x->whole, y->whole);

    if (order != 0)
        return order;
    return x->first_row != y->first_row ? (x->first_row < y->first_row ? -1 : 1) : (int)x->cut - (int)y->cut;
}

/* checkpoint_check_metadata -- does a file say of itself what it is? One of another step may have the same length. */
static int checkpoint_check_metadata(const struct tensors_file *file, const char *path,
                                     const struct manifest *m, uint32_t shard)
{
    char step[24], number[24];
    const char *says_step = tensors_metadata(file, "step"), *says_shard = tensors_metadata(file, "shard");

    snprintf(step, sizeof(step), "%" PRIu64, m->step);
    snprintf(number, sizeof(number), "%" PRIu32, shard);
    if (says_step == NULL || strcmp(says_step, step) != 0)
        return damage_error(path, "it says it is of step %.24s, not %s", says_step != NULL ? says_step : "-",
                            step);
    if (says_shard == NULL || strcmp(says_shard, number) != 0)
        return damage_error(path, "it says it is of shard %.24s, not %s",
                            says_shard != NULL ? says_shard : "-", number);
    return 0;
}

/* checkpoint_open_files -- all of them; their arrays are counted. */
static int checkpoint_open_files(struct checkpoint *c)
{
    const struct manifest *m = &c->manifest;
    char path[PATH_MAX];
    int status = 0;

    c->files = calloc(m->shards, sizeof(struct tensors_file *));
    if (c->files == NULL)
        return checkpoint_no_memory(c->folder);
    for (uint32_t i = 0; status == 0 && i < m->shards; i++) {
        status = checkpoint_path(path, c->folder, m->files[i].name);
        if (status == 0)
            status = checkpoint_check_length(path, m->files[i].bytes);
        if (status == 0)
            status = tensors_open(path, &c->files[i]);
        if (status == 0)
            status = checkpoint_check_metadata(c->files[i], path, m, i);
        if (status == 0)
            c->piece_count += tensors_count(c->files[i]);
    }
    return status;
}

/* checkpoint_list_pieces -- of all files, by variable and row. */
static int checkpoint_list_pieces(struct checkpoint *c)
{
    char whole[NAME_TENSOR_BYTES];
    size_t used = 0;

    c->pieces = calloc(c->piece_count + 1, sizeof(*c->pieces));
    c->tensors = calloc(c->piece_count + 1, sizeof(*c->tensors));
    if (c->pieces == NULL || c->tensors == NULL)
        return checkpoint_no_memory(c->folder);
    for (uint32_t f = 0; f < c->manifest.shards; f++)
        for (size_t i = 0; i < tensors_count(c->files[f]); i++) {
            struct checkpoint_piece *p = &c->pieces[used++];
            *p = (struct checkpoint_piece){.file = f, .found = tensors_at(c->files[f], i)};
            p->cut = name_split(p->found->name, whole, &p->first_row);
            p->whole = strdup(whole);
            if (p->whole == NULL)
                return checkpoint_no_memory(c->folder);
        }
    qsort(c->pieces, c->piece_count, sizeof(*c->pieces), checkpoint_compare_pieces);
    return 0;
}

/* checkpoint_fits -- is a piece the next one of a variable, of which there are so many rows so far? */
static bool checkpoint_fits(const struct checkpoint_tensor *t, const struct checkpoint_piece *p,
                            uint64_t rows)
{
    const struct tensors_found *found = p->found;

    return p->cut && p->first_row == rows && found->dtype == t->dtype && found->rank == t->rank &&
           t->rank > 0 &&
           memcmp(found->dims + 1, t->dims + 1, ((size_t)t->rank - 1) * sizeof(*t->dims)) == 0 &&
           rows <= (uint64_t)INT64_MAX - found->dims[0] && found->bytes <= (uint64_t)INT64_MAX - t->bytes;
}

/* checkpoint_join -- a variable from its pieces, from the number first on; returns how many there are, or an error. */
static int checkpoint_join(const struct checkpoint *c, size_t first, struct checkpoint_index *out)
{
    struct checkpoint_piece *p = &c->pieces[first];
    const struct tensors_found *found = p->found;
    struct checkpoint_tensor *t = &out->tensor;
    uint64_t rows = 0;

    *out = (struct checkpoint_index){.first = first};
    *t = (struct checkpoint_tensor){.name = p->whole, .dtype = found->dtype, .rank = found->rank};
    memcpy(t->dims, found->dims, sizeof(t->dims));
    for (size_t i = first; i < c->piece_count && strcmp(c->pieces[i].whole, t->name) == 0; i++, p++) {
        bool alone = i == first && !p->cut;
        if (!alone && !checkpoint_fits(t, p, rows))
            return damage_error(c->folder, "the pieces of %.200s do not fit together at row %" PRIu64,
                                t->name, rows);
        p->first_element = t->elements;
        t->elements += p->found->elements;
        t->bytes += p->found->bytes;
        rows = alone ? UINT64_MAX : rows + p->found->dims[0]; /* no piece comes behind a whole one */
        out->count++;
    }
    if (c->pieces[first].cut)
        t->dims[0] = rows;
    return 0;
}

/* checkpoint_build -- the variables. */
static int checkpoint_build(struct checkpoint *c)
{
    int status = checkpoint_open_files(c);

    if (status == 0)
        status = checkpoint_list_pieces(c);
    for (size_t i = 0; status == 0 && i < c->piece_count; i += c->tensors[c->count++].count)
        status = checkpoint_join(c, i, &c->tensors[c->count]);
    return status;
}

/* checkpoint_open -- see checkpoint.h. */
int checkpoint_open(const char *folder, struct checkpoint **out)
{
    struct checkpoint *c = calloc(1, sizeof(*c));

    if (c == NULL || (c->folder = strdup(folder)) == NULL) {
        free(c);
        return checkpoint_no_memory(folder);
    }
    int status = manifest_read(folder, &c->manifest);
    if (status == 0)
        status = checkpoint_build(c);
    if (status != 0) {
        checkpoint_close(&c);
        return status;
    }
    *out = c;
    return 0;
}

/* checkpoint_close -- see checkpoint.h. */
void checkpoint_close(struct checkpoint **out)
{
    struct checkpoint *c = *out;

    if (c == NULL)
        return;
    for (size_t i = 0; c->pieces != NULL && i < c->piece_count; i++)
        free(c->pieces[i].whole);
    for (uint32_t i = 0; c->files != NULL && i < c->manifest.shards; i++)
        tensors_close(&c->files[i]);
    free(c->pieces);
    free(c->tensors);
    free(c->files);
    manifest_clear(&c->manifest);
    free(c->folder);
    free(c);
    *out = NULL;
}

/* checkpoint_manifest -- see checkpoint.h. */
const struct manifest *checkpoint_manifest(const struct checkpoint *c)
{
    return &c->manifest;
}

/* checkpoint_count -- see checkpoint.h. */
size_t checkpoint_count(const struct checkpoint *c)
{
    return c->count;
}

/* checkpoint_at -- see checkpoint.h. */
const struct checkpoint_tensor *checkpoint_at(const struct checkpoint *c, size_t number)
{
    return &c->tensors[number].tensor;
}

/* checkpoint_look -- by name. */
static const struct checkpoint_index *checkpoint_look(const struct checkpoint *c, const char *name)
{
    size_t low = 0, high = c->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(c->tensors[middle].tensor.name, name);
        if (order == 0)
            return &c->tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* checkpoint_find -- see checkpoint.h. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
    const struct checkpoint_index *index = checkpoint_look(c, name);

    return index != NULL ? &index->tensor : NULL;
}

/* checkpoint_gather -- what lies in the pieces of a variable; the range is within it. */
static int checkpoint_gather(const struct checkpoint *c, const struct checkpoint_index *index, uint64_t first,
                             uint64_t elements, char *out)
{
    size_t size = model_dtype_bytes(index->tensor.dtype);
    int status = 0;

    for (size_t i = index->first; status == 0 && elements > 0 && i < index->first + index->count; i++) {
        const struct checkpoint_piece *p = &c->pieces[i];
        uint64_t end = p->first_element + p->found->elements, n = end > first ? end - first : 0;
        if (n > elements)
            n = elements;
        if (n == 0)
            continue;
        status = tensors_read(c->files[p->file], p->found, (first - p->first_element) * size, n * size, out);
        out += n * size;
        first += n;
        elements -= n;
    }
    return status;
}

/* checkpoint_read -- see checkpoint.h. */
int checkpoint_read(const struct checkpoint *c, const char *name, int dtype, uint64_t first,
                    uint64_t elements, void *out)
{
    const struct checkpoint_index *index = checkpoint_look(c, name);

    if (index == NULL)
        return error_set(STEPGATE_ENOENT, 0, "use a checkpoint of this model",
                         "the checkpoint in %s has no %.200s", c->folder, name);
    if (index->tensor.dtype != dtype)
        return error_set(STEPGATE_EINVAL, 0, "use a checkpoint of this model",
                         "the checkpoint in %s: %.200s is of %s, not of %s", c->folder, name,
                         tensors_dtype_name(index->tensor.dtype), tensors_dtype_name(dtype));
    if (first > index->tensor.elements || elements > index->tensor.elements - first)
        return error_set(STEPGATE_EINVAL, 0, "use a checkpoint of this model",
                         "the checkpoint in %s: %.200s has %" PRIu64 " elements, not %" PRIu64
                         " from %" PRIu64 " on",
                         c->folder, name, index->tensor.elements, elements, first);
    return checkpoint_gather(c, index, first, elements, out);
}
