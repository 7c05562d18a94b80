/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "ps/checkpoint/damage.h"
#include "transport/base/error.h"

#define CHECKPOINT_HEX_BYTES (2 * TENSORS_DIGEST_BYTES + 1)

/* checkpoint_check_length -- see checkpoint_inside.h. */
int checkpoint_check_length(const char *path, uint64_t bytes)
{
    struct stat at;

    if (stat(path, &at) != 0 && errno == ENOENT)
        return damage_error(path, "it is not there");
    if (stat(path, &at) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, "", "%s cannot be read", path);
    if ((uint64_t)at.st_size != bytes)
        return damage_error(path, "it has %" PRIu64 " bytes, and had %" PRIu64, (uint64_t)at.st_size, bytes);
    return 0;
}

/* checkpoint_check_digest -- of one file. */
static int checkpoint_check_digest(const char *path, const struct manifest_file *file)
{
    uint8_t digest[TENSORS_DIGEST_BYTES];
    char is[CHECKPOINT_HEX_BYTES], was[CHECKPOINT_HEX_BYTES];
    int status = tensors_digest(path, digest, NULL);

    if (status != 0 || memcmp(digest, file->digest, sizeof(digest)) == 0)
        return status;
    sodium_bin2hex(is, sizeof(is), digest, sizeof(digest));
    sodium_bin2hex(was, sizeof(was), file->digest, sizeof(file->digest));
    return damage_error(path, "its SHA-256 is %.16s..., and was %.16s...", is, was);
}

/* checkpoint_check_digests -- of each file, before anybody reads in it. */
static int checkpoint_check_digests(const char *folder)
{
    struct manifest m;
    char path[PATH_MAX];
    int status = manifest_read(folder, &m);

    if (status != 0)
        return status;
    for (size_t i = 0; status == 0 && i < m.file_count; i++) {
        status = checkpoint_path(path, folder, m.files[i].name);
        if (status == 0)
            status = checkpoint_check_length(path, m.files[i].bytes);
        if (status == 0)
            status = checkpoint_check_digest(path, &m.files[i]);
    }
    manifest_clear(&m);
    return status;
}

/* checkpoint_check_variable -- is it there in whole? What workers have of their own is there for those who were. */
static int checkpoint_check_variable(const struct checkpoint *c, const char *folder,
                                     const struct model_variable *v)
{
    char name[NAME_TENSOR_BYTES];

    if (v->kind == STEPGATE_AUX)
        return 0;
    name_parameters(v->name, name);
    const struct checkpoint_tensor *t = checkpoint_find(c, name);
    if (t == NULL)
        return damage_error(folder, "%.200s is missing", name);
    if (t->dtype != v->dtype || t->rank != v->rank || memcmp(t->dims, v->dims, sizeof(t->dims)) != 0)
        return damage_error(folder, "%.200s has another dtype or shape than the model says", name);
    return 0;
}

/* checkpoint_check_model -- every variable of the description is there. */
static int checkpoint_check_model(const struct checkpoint *c, const char *folder)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct model *model;
    int status = model_unpack(m->description, m->description_bytes, &model);

    if (status == -STEPGATE_EPROTOCOL)
        return damage_error(folder, "the manifest's description of the model is none");
    if (status != 0)
        return status;
    if (strcmp(model->name, m->model) != 0)
        status = damage_error(folder, "the manifest is of model %.100s, and describes %.100s", m->model,
                              model->name);
    for (size_t i = 0; status == 0 && i < model->count; i++)
        status = checkpoint_check_variable(c, folder, &model->variables[i]);
    model_delete(&model);
    return status;
}

/* checkpoint_verify -- see checkpoint.h. */
int checkpoint_verify(const char *folder, bool deep)
{
    struct checkpoint *c;
    int status = deep ? checkpoint_check_digests(folder) : 0;

    if (status == 0)
        status = checkpoint_open(folder, &c);
    if (status != 0)
        return status;
    status = checkpoint_check_model(c, folder);
    checkpoint_close(&c);
    return status;
}
