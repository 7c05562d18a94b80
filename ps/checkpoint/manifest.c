/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/manifest.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/checkpoint/manifest_inside.h"
#include "transport/base/error.h"

/* manifest_no_memory -- the error. */
static int manifest_no_memory(void)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the manifest of a checkpoint");
}

/* manifest_room -- the list with room for one more than count; NULL: no memory, and it is as it was. */
static void *manifest_room(void *list, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return list;
    size_t room = count > 0 ? 2 * count : 1; /* full: room is the next power of two */
    return room <= SIZE_MAX / size ? realloc(list, room * size) : NULL;
}

/* manifest_word -- copies a word that fits. */
static bool manifest_word(char out[MANIFEST_WORD_BYTES], const char *word)
{
    size_t length = strlen(word);

    if (length == 0 || length >= MANIFEST_WORD_BYTES)
        return false;
    memcpy(out, word, length + 1);
    return true;
}

/* manifest_long -- the error for a word. */
static int manifest_long(const char *word)
{
    return error_set(STEPGATE_EINVAL, 0, "", "`%.80s` in a manifest is empty or longer than %d characters",
                     word, MANIFEST_WORD_BYTES - 1);
}

/* manifest_describe -- see manifest.h. */
int manifest_describe(struct manifest *m, const struct model *model)
{
    struct manifest one = {.format = MANIFEST_FORMAT};
    int status = model_pack(model, &one.description, &one.description_bytes);

    if (status != 0)
        return status;
    memcpy(one.model, model->name, sizeof(one.model));
    crypto_hash_sha256(one.fingerprint, one.description, one.description_bytes);
    *m = one;
    return 0;
}

/* manifest_add_word -- a key with its value, in either list. */
static int manifest_add_word(struct manifest_key **list, size_t *count, uint64_t step, const char *key,
                             const char *value)
{
    struct manifest_key one = {.step = step};

    if (!manifest_word(one.key, key))
        return manifest_long(key);
    if (!manifest_word(one.value, value))
        return manifest_long(value);
    struct manifest_key *more = manifest_room(*list, *count, sizeof(*more));
    if (more == NULL)
        return manifest_no_memory();
    *list = more;
    more[(*count)++] = one;
    return 0;
}

/* manifest_add_key -- see manifest.h. */
int manifest_add_key(struct manifest *m, const char *key, const char *value)
{
    return manifest_add_word(&m->keys, &m->key_count, 0, key, value);
}

/* manifest_add_change -- see manifest.h. */
int manifest_add_change(struct manifest *m, uint64_t step, const char *key, const char *value)
{
    return manifest_add_word(&m->changes, &m->change_count, step, key, value);
}

/* manifest_add_number -- see manifest.h. */
int manifest_add_number(struct manifest *m, uint32_t rank, const char *name, uint64_t bits)
{
    struct manifest_number one = {.rank = rank, .bits = bits};

    if (!manifest_word(one.name, name))
        return manifest_long(name);
    struct manifest_number *more = manifest_room(m->numbers, m->number_count, sizeof(*more));
    if (more == NULL)
        return manifest_no_memory();
    m->numbers = more;
    more[m->number_count++] = one;
    return 0;
}

/* manifest_add_file -- see manifest.h. */
int manifest_add_file(struct manifest *m, const struct manifest_file *file)
{
    struct manifest_file *more = manifest_room(m->files, m->file_count, sizeof(*more));

    if (more == NULL)
        return manifest_no_memory();
    m->files = more;
    more[m->file_count++] = *file;
    return 0;
}

/* manifest_add_set -- see manifest.h. */
int manifest_add_set(struct manifest *m, uint64_t step, const uint32_t *ranks, uint32_t count)
{
    uint32_t *copy = calloc((size_t)count + 1, sizeof(*copy));
    struct manifest_set *more = copy == NULL ? NULL : manifest_room(m->sets, m->set_count, sizeof(*more));

    if (more == NULL) {
        free(copy);
        return manifest_no_memory();
    }
    if (count > 0)
        memcpy(copy, ranks, count * sizeof(*copy));
    m->sets = more;
    more[m->set_count++] = (struct manifest_set){step, count, copy};
    return 0;
}

/* manifest_number -- see manifest.h. */
int manifest_number(const struct manifest *m, uint32_t rank, const char *name, uint64_t *bits)
{
    for (size_t i = 0; i < m->number_count; i++)
        if (m->numbers[i].rank == rank && strcmp(m->numbers[i].name, name) == 0) {
            *bits = m->numbers[i].bits;
            return 1;
        }
    return 0;
}

/* manifest_check_files -- one of each shard, in order, under the name that it must have. */
static const char *manifest_check_files(const struct manifest *m)
{
    char name[NAME_FILE_BYTES];

    if (m->shards == 0 || m->file_count != m->shards)
        return "it does not have one file of each shard";
    for (uint32_t i = 0; i < m->shards; i++) {
        name_shard(i, m->shards, name);
        if (strcmp(m->files[i].name, name) != 0)
            return "a file does not have its shard's name";
        if (m->files[i].bytes > INT64_MAX)
            return "a file is too long";
    }
    return NULL;
}

/* manifest_check -- see manifest_inside.h. */
const char *manifest_check(const struct manifest *m)
{
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];

    if (m->model[0] == 0)
        return "the model has no name";
    if (m->step > INT64_MAX)
        return "the step is too large";
    if (m->workers == 0)
        return "it has no workers";
    crypto_hash_sha256(fingerprint, m->description, m->description_bytes);
    if (m->description_bytes == 0 || memcmp(fingerprint, m->fingerprint, sizeof(fingerprint)) != 0)
        return "the fingerprint is not that of the description";
    for (size_t i = 0; i < m->change_count; i++)
        if (m->changes[i].step > INT64_MAX)
            return "the step of a change is too large";
    for (size_t i = 0; i < m->number_count; i++)
        if (m->numbers[i].rank != MANIFEST_NO_RANK && m->numbers[i].rank >= m->workers)
            return "a number is of a rank that is none";
    for (size_t i = 0; i < m->set_count; i++) {
        if (m->sets[i].step > INT64_MAX)
            return "the step of a set is too large";
        for (uint32_t k = 0; k < m->sets[i].count; k++)
            if (m->sets[i].ranks[k] >= m->workers)
                return "a set has a rank that is none";
    }
    return manifest_check_files(m);
}

/* manifest_clear -- see manifest.h. */
void manifest_clear(struct manifest *m)
{
    for (size_t i = 0; i < m->set_count; i++)
        free(m->sets[i].ranks);
    free(m->sets);
    free(m->files);
    free(m->numbers);
    free(m->changes);
    free(m->keys);
    free(m->description);
    memset(m, 0, sizeof(*m));
}
