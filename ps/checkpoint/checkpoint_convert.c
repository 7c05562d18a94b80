/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "transport/base/error.h"

/* What reads an array for its new file. */
struct checkpoint_source {
    const struct checkpoint *checkpoint;
    const struct checkpoint_tensor *tensor;
    uint32_t shard; /* where it goes */
};

/* checkpoint_source_read -- some of its bytes. */
static int checkpoint_source_read(void *context, uint64_t first, size_t bytes, void *out)
{
    const struct checkpoint_source *s = context;
    size_t size = model_dtype_bytes(s->tensor->dtype);

    return checkpoint_read(s->checkpoint, s->tensor->name, s->tensor->dtype, first / size, bytes / size, out);
}

/* checkpoint_compare_sources -- the largest first, else by name. */
static int checkpoint_compare_sources(const void *a, const void *b)
{
    const struct checkpoint_source *x = a, *y = b;

    if (x->tensor->bytes != y->tensor->bytes)
        return x->tensor->bytes > y->tensor->bytes ? -1 : 1;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* checkpoint_share_out -- each to the shard that has the fewest bytes so far. */
static int checkpoint_share_out(const struct checkpoint *c, uint32_t shards,
                                struct checkpoint_source *sources)
{
    size_t count = checkpoint_count(c);
    uint64_t *load = calloc(shards, sizeof(*load));

    if (load == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for %u shards", shards);
    for (size_t i = 0; i < count; i++)
        sources[i] = (struct checkpoint_source){c, checkpoint_at(c, i), 0};
    qsort(sources, count, sizeof(*sources), checkpoint_compare_sources);
    for (size_t i = 0; i < count; i++) {
        uint32_t best = 0;
        for (uint32_t s = 1; s < shards; s++)
            if (load[s] < load[best])
                best = s;
        sources[i].shard = best;
        load[best] += sources[i].tensor->bytes;
    }
    free(load);
    return 0;
}

/* checkpoint_convert_shard -- one new file. */
static int checkpoint_convert_shard(const char *folder, const struct manifest *m, uint32_t shard,
                                    struct checkpoint_source *sources, size_t count,
                                    struct tensors_entry *entries, struct manifest_file *file)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_tensor *t = sources[i].tensor;
        if (sources[i].shard != shard)
            continue;
        struct tensors_entry *e = &entries[used++];
        *e = (struct tensors_entry){.dtype = t->dtype,
                                    .rank = t->rank,
                                    .bytes = t->bytes,
                                    .read = checkpoint_source_read,
                                    .context = &sources[i]};
        memcpy(e->name, t->name, strlen(t->name) + 1);
        memcpy(e->dims, t->dims, sizeof(e->dims));
    }
    return checkpoint_write_shard(folder, m->model, m->step, shard, m->shards, entries, used, file);
}

/* checkpoint_convert_all -- all new files, and the manifest, which is *m with these files. */
static int checkpoint_convert_all(const struct checkpoint *c, const char *folder, struct manifest *m)
{
    size_t count = checkpoint_count(c);
    struct checkpoint_source *sources = calloc(count + 1, sizeof(*sources));
    struct tensors_entry *entries = calloc(count + 1, sizeof(*entries));
    struct manifest_file file;
    int status = 0;

    if (sources == NULL || entries == NULL)
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu arrays", count);
    if (status == 0)
        status = checkpoint_share_out(c, m->shards, sources);
    for (uint32_t s = 0; status == 0 && s < m->shards; s++) {
        status = checkpoint_convert_shard(folder, m, s, sources, count, entries, &file);
        if (status == 0)
            status = manifest_add_file(m, &file);
    }
    if (status == 0)
        status = checkpoint_finish(folder, m);
    free(entries);
    free(sources);
    return status;
}

/* checkpoint_convert_begin -- the folder, which must not hold a checkpoint already: it could be the one that is read. */
static int checkpoint_convert_begin(const struct manifest *m, const char *dir, char folder[PATH_MAX])
{
    char model[NAME_FILE_BYTES], step[NAME_FILE_BYTES], whole[PATH_MAX], manifest[PATH_MAX];

    name_model(m->model, model);
    name_step(m->step, step);
    int status = checkpoint_path(whole, dir, model);
    if (status == 0)
        status = checkpoint_path(folder, whole, step);
    if (status == 0)
        status = checkpoint_path(manifest, folder, NAME_MANIFEST);
    if (status == 0 && access(manifest, F_OK) == 0)
        return error_set(STEPGATE_EALREADY, 0, "give another folder", "%s is there already", manifest);
    if (status == 0 && mkdir(dir, 0700) != 0 && errno != EEXIST)
        return error_set(STEPGATE_ESYSTEM, errno, "give a folder within one that may be written to",
                         "the folder %s could not be made", dir);
    return status == 0 ? checkpoint_begin(dir, m->model, m->step, folder) : status;
}

/* checkpoint_convert -- see checkpoint.h. */
int checkpoint_convert(const char *folder, uint32_t shards, const char *dir, char out[PATH_MAX])
{
    struct checkpoint *c;
    char made[PATH_MAX];
    int status = shards == 0 ? error_set(STEPGATE_EINVAL, 0, "give 1 or more", "0 shards hold nothing") : 0;

    if (status == 0)
        status = checkpoint_verify(folder, true); /* what is damaged would look sound with new digests */
    if (status == 0)
        status = checkpoint_open(folder, &c);
    if (status != 0)
        return status;
    struct manifest m = *checkpoint_manifest(c); /* its lists are c's, but for the files */
    m.shards = shards;
    m.files = NULL;
    m.file_count = 0;
    m.written = 0;
    status = checkpoint_convert_begin(&m, dir, made);
    if (status == 0)
        status = checkpoint_convert_all(c, made, &m);
    free(m.files);
    checkpoint_close(&c);
    if (status == 0)
        memcpy(out, made, strlen(made) + 1);
    return status;
}
