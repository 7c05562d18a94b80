/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "ps/checkpoint/draft.h"
#include "transport/base/error.h"

/* checkpoint_no_folder -- see checkpoint_inside.h. */
int checkpoint_no_folder(const char *dir, int os_errno)
{
    if (os_errno == ENOENT || os_errno == ENOTDIR)
        return error_set(STEPGATE_ENOENT, 0, "make it, or give another folder", "there is no folder %s", dir);
    return error_set(STEPGATE_ESYSTEM, os_errno, "give a folder that this user may use",
                     "the folder %s cannot be used", dir);
}

/* checkpoint_make_folder -- one that may be there already, on the disk within its own. */
static int checkpoint_make_folder(const char *within, const char *folder)
{
    if (mkdir(folder, 0700) == 0)
        return draft_sync_folder(within);
    if (errno == EEXIST)
        return 0;
    if (errno == ENOENT || errno == ENOTDIR)
        return checkpoint_no_folder(within, errno);
    return error_set(STEPGATE_ESYSTEM, errno,
                     errno == ENOSPC || errno == EDQUOT ? "free space there, or give another folder"
                                                        : "give a folder that this user may write to",
                     "the folder %s could not be made", folder);
}

/* checkpoint_begin -- see checkpoint.h. */
int checkpoint_begin(const char *dir, const char *model, uint64_t step, char folder[PATH_MAX])
{
    char name[NAME_FILE_BYTES], whole[PATH_MAX], here[PATH_MAX], manifest[PATH_MAX];

    name_model(model, name);
    int status = checkpoint_path(whole, dir, name);
    name_step(step, name);
    if (status == 0)
        status = checkpoint_path(here, whole, name);
    if (status == 0)
        status = checkpoint_path(manifest, here, NAME_MANIFEST);
    if (status == 0)
        status = checkpoint_make_folder(dir, whole);
    if (status == 0)
        status = checkpoint_make_folder(whole, here);
    if (status == 0 && unlink(manifest) == 0)
        status = draft_sync_folder(here);
    if (status == 0)
        memcpy(folder, here, PATH_MAX);
    return status;
}

/* checkpoint_give_up -- see checkpoint.h. */
void checkpoint_give_up(const char *folder)
{
    (void)rmdir(folder); /* it stays if something is in it, and is a partial one then */
}

/* checkpoint_write_shard -- see checkpoint.h. */
int checkpoint_write_shard(const char *folder, const char *model, uint64_t step, uint32_t shard,
                           uint32_t shards, const struct tensors_entry *entries, size_t count,
                           struct manifest_file *out)
{
    struct manifest_file file = {.bytes = 0};
    char path[PATH_MAX], name[NAME_TENSOR_BYTES], at[24], number[24], all[24];
    const struct tensors_pair metadata[] = {
        {"format", "stepgate 1"}, {"model", name}, {"step", at}, {"shard", number}, {"shards", all}};

    name_shard(shard, shards, file.name);
    int status = checkpoint_path(path, folder, file.name);
    if (status != 0)
        return status;
    name_encode(model, name, sizeof(name));
    snprintf(at, sizeof(at), "%" PRIu64, step);
    snprintf(number, sizeof(number), "%" PRIu32, shard);
    snprintf(all, sizeof(all), "%" PRIu32, shards);
    status = tensors_write(path, entries, count, metadata, sizeof(metadata) / sizeof(metadata[0]),
                           file.digest, &file.bytes);
    if (status == 0)
        *out = file;
    return status;
}

/* checkpoint_check_files -- what the manifest names is there, as long as it says. */
static int checkpoint_check_files(const char *folder, const struct manifest *m)
{
    char path[PATH_MAX];
    struct stat at;

    for (size_t i = 0; i < m->file_count; i++) {
        int status = checkpoint_path(path, folder, m->files[i].name);
        if (status != 0)
            return status;
        int os_errno = stat(path, &at) != 0 ? errno : 0;
        if (os_errno != 0 && os_errno != ENOENT && os_errno != ENOTDIR)
            return error_set(STEPGATE_ESYSTEM, os_errno, "", "%s cannot be read", path);
        if (os_errno != 0 || (uint64_t)at.st_size != m->files[i].bytes)
            return error_set(STEPGATE_ENOENT, 0,
                             "give all ps one folder, on a file system that their hosts share",
                             "%s, of %" PRIu64 " bytes, was written by ps %zu and is not seen here", path,
                             m->files[i].bytes, i);
    }
    return 0;
}

/* checkpoint_named -- is a file one of the manifest's? */
static bool checkpoint_named(const struct manifest *m, const char *name)
{
    unsigned shard;

    return sscanf(name, "shard-%u-", &shard) == 1 && shard < m->file_count &&
           strcmp(m->files[shard].name, name) == 0;
}

/* checkpoint_drop_shards -- see checkpoint_inside.h. */
int checkpoint_drop_shards(const char *folder, const struct manifest *m)
{
    DIR *files = opendir(folder);
    const struct dirent *one;
    int os_errno = files == NULL ? errno : 0;

    while (files != NULL && (one = readdir(files)) != NULL)
        if (name_is_shard(one->d_name) && (m == NULL || !checkpoint_named(m, one->d_name)) &&
            unlinkat(dirfd(files), one->d_name, 0) != 0 && errno != ENOENT && os_errno == 0)
            os_errno = errno;
    if (files != NULL)
        closedir(files);
    if (os_errno == 0 || os_errno == ENOENT)
        return 0;
    return error_set(STEPGATE_ESYSTEM, os_errno, "remove it by hand, or give another folder",
                     "files of %s could not be removed", folder);
}

/* checkpoint_finish -- see checkpoint.h. */
int checkpoint_finish(const char *folder, const struct manifest *m)
{
    int status = checkpoint_check_files(folder, m);

    if (status == 0)
        status = checkpoint_drop_shards(folder, m);
    if (status == 0)
        status = manifest_write(folder, m);
    return status;
}
