/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ps/checkpoint/draft.h"
#include "ps/checkpoint/manifest_inside.h"
#include "transport/base/error.h"

/* manifest_append -- at the end of a list; no memory for either makes the list NULL. */
static void manifest_append(json_t **list, json_t *one)
{
    if (*list != NULL && one != NULL && json_array_append_new(*list, one) == 0)
        return;
    if (*list == NULL)
        json_decref(one);
    json_decref(*list);
    *list = NULL;
}

/* manifest_keys -- {KEY: VALUE, ...}. */
static json_t *manifest_keys(const struct manifest *m)
{
    json_t *object = json_object();

    for (size_t i = 0; object != NULL && i < m->key_count; i++)
        if (json_object_set_new(object, m->keys[i].key, json_string(m->keys[i].value)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

/* manifest_changes -- [{"step": N, "key": KEY, "value": VALUE}, ...]. */
static json_t *manifest_changes(const struct manifest *m)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < m->change_count; i++)
        manifest_append(&list, json_pack("{s:I, s:s, s:s}", "step", (json_int_t)m->changes[i].step, "key",
                                         m->changes[i].key, "value", m->changes[i].value));
    return list;
}

/* manifest_numbers -- [{"rank": R, "name": NAME, "bits": HEX}, ...], the model's own without a rank. */
static json_t *manifest_numbers(const struct manifest *m)
{
    json_t *list = json_array();
    char bits[2 * sizeof(uint64_t) + 1];

    for (size_t i = 0; list != NULL && i < m->number_count; i++) {
        const struct manifest_number *n = &m->numbers[i];
        snprintf(bits, sizeof(bits), "%016" PRIx64, n->bits);
        json_t *one = n->rank == MANIFEST_NO_RANK ? json_pack("{s:s, s:s}", "name", n->name, "bits", bits)
                                                  : json_pack("{s:I, s:s, s:s}", "rank", (json_int_t)n->rank,
                                                              "name", n->name, "bits", bits);
        manifest_append(&list, one);
    }
    return list;
}

/* manifest_files -- [{"name": NAME, "bytes": N, "sha256": HEX}, ...]. */
static json_t *manifest_files(const struct manifest *m)
{
    json_t *list = json_array();
    char hex[MANIFEST_HEX_BYTES];

    for (size_t i = 0; list != NULL && i < m->file_count; i++) {
        sodium_bin2hex(hex, sizeof(hex), m->files[i].digest, TENSORS_DIGEST_BYTES);
        manifest_append(&list, json_pack("{s:s, s:I, s:s}", "name", m->files[i].name, "bytes",
                                         (json_int_t)m->files[i].bytes, "sha256", hex));
    }
    return list;
}

/* manifest_sets -- [{"step": N, "ranks": [R, ...]}, ...]. */
static json_t *manifest_sets(const struct manifest *m)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < m->set_count; i++) {
        json_t *ranks = json_array();
        for (uint32_t k = 0; ranks != NULL && k < m->sets[i].count; k++)
            manifest_append(&ranks, json_integer((json_int_t)m->sets[i].ranks[k]));
        manifest_append(&list, ranks == NULL ? NULL
                                             : json_pack("{s:I, s:o}", "step", (json_int_t)m->sets[i].step,
                                                         "ranks", ranks));
    }
    return list;
}

/* manifest_object -- all but the hash; NULL: no memory, or a text that is not UTF-8. */
static json_t *manifest_object(const struct manifest *m)
{
    char model[NAME_TENSOR_BYTES], fingerprint[MANIFEST_HEX_BYTES];
    size_t room = sodium_base64_encoded_len(m->description_bytes, sodium_base64_VARIANT_ORIGINAL);
    char *description = malloc(room);

    if (description == NULL)
        return NULL;
    sodium_bin2base64(description, room, m->description, m->description_bytes,
                      sodium_base64_VARIANT_ORIGINAL);
    sodium_bin2hex(fingerprint, sizeof(fingerprint), m->fingerprint, sizeof(m->fingerprint));
    name_encode(m->model, model, sizeof(model));
    json_t *object = json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "format",
                               (json_int_t)MANIFEST_FORMAT, "model", model, "step", (json_int_t)m->step,
                               "shards", (json_int_t)m->shards, "workers", (json_int_t)m->workers, "written",
                               (json_int_t)(m->written != 0 ? m->written : (int64_t)time(NULL)),
                               "fingerprint", fingerprint, "description", description, "keys",
                               manifest_keys(m), "changes", manifest_changes(m), "numbers",
                               manifest_numbers(m), "files", manifest_files(m), "sets", manifest_sets(m));
    free(description);
    return object;
}

/* manifest_text -- the whole file; malloc'ed, NULL as above. */
static char *manifest_text(const struct manifest *m)
{
    unsigned char digest[TENSORS_DIGEST_BYTES];
    char hex[MANIFEST_HEX_BYTES];
    json_t *object = manifest_object(m);
    char *all = object != NULL ? json_dumps(object, JSON_INDENT(1)) : NULL;

    json_decref(object);
    size_t length = all != NULL ? strlen(all) - strlen("\n}") : 0;
    char *text = all != NULL ? malloc(length + MANIFEST_TAIL_BYTES + 1) : NULL;
    if (text != NULL) {
        memcpy(text, all, length);
        crypto_hash_sha256(digest, (const unsigned char *)text, length);
        sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
        snprintf(text + length, MANIFEST_TAIL_BYTES + 1, MANIFEST_TAIL_BEFORE "%s" MANIFEST_TAIL_BEHIND, hex);
    }
    free(all);
    return text;
}

/* manifest_put -- the file. */
static int manifest_put(const char *path, const char *text)
{
    struct draft draft;
    size_t length = strlen(text);
    int status = draft_open(&draft, path, length);

    if (status == 0)
        status = draft_put(&draft, text, length);
    if (status == 0)
        status = draft_commit(&draft, NULL);
    return status;
}

/* manifest_write -- see manifest.h. */
int manifest_write(const char *folder, const struct manifest *m)
{
    char path[PATH_MAX];
    const char *wrong = manifest_check(m);
    int length = snprintf(path, sizeof(path), "%s/" NAME_MANIFEST, folder);

    if (wrong != NULL || length < 0 || (size_t)length >= sizeof(path))
        return error_set(STEPGATE_EINVAL, 0, "", "the manifest of %.100s in %.200s cannot be written: %s",
                         m->model, folder, wrong != NULL ? wrong : "the name is too long");
    char *text = manifest_text(m);
    if (text == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "",
                         "no memory for the manifest in %s, or a text in it is not UTF-8", folder);
    int status = manifest_put(path, text);
    free(text);
    return status;
}
