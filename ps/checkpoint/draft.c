/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/checkpoint/draft.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ps/checkpoint/name.h"
#include "transport/base/error.h"

#define DRAFT_BLOCK (8u << 20) /* bytes that are hashed and written at a time */

/* draft_folder -- the folder in which a file lies. */
static void draft_folder(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    snprintf(folder, PATH_MAX, "%.*s", length, slash == NULL ? "." : path);
}

/* draft_remedy -- what to do about an errno. */
static const char *draft_remedy(int os_errno)
{
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT: return "free space there, keep fewer checkpoints, or give another folder";
    case EFBIG: return "raise the limit of a file's size: ulimit -f unlimited";
    case EROFS:
    case EACCES:
    case EPERM: return "give a folder that this user may write to";
    case ENOENT:
    case ENOTDIR: return "give a folder that is there, and stays there";
    default: return "look at the disk and the system's log, or give another folder";
    }
}

/* draft_fail -- the draft is given up for this reason. */
static int draft_fail(struct draft *draft, const char *tried, int os_errno)
{
    char folder[PATH_MAX];
    struct statvfs at;

    draft_drop(draft); /* first, so that what is free is free without it */
    draft_folder(draft->path, folder);
    if (statvfs(folder, &at) == 0)
        return error_set(STEPGATE_ESYSTEM, os_errno, draft_remedy(os_errno),
                         "%s (%" PRIu64 " bytes, %" PRIu64 " are free there) could not be %s", draft->path,
                         draft->needed, (uint64_t)at.f_bavail * at.f_frsize, tried);
    return error_set(STEPGATE_ESYSTEM, os_errno, draft_remedy(os_errno),
                     "%s (%" PRIu64 " bytes) could not be %s", draft->path, draft->needed, tried);
}

/* draft_reserve -- takes the room, where that can be done, so that a full disk is found before anything is written; returns the errno. */
static int draft_reserve(const struct draft *draft)
{
    struct rlimit limit;

    if (draft->needed > INT64_MAX)
        return EFBIG;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        draft->needed > limit.rlim_cur)
        return EFBIG; /* said before the system says it by a signal */
    if (draft->needed == 0 || fallocate(draft->fd, 0, 0, (off_t)draft->needed) == 0)
        return 0;
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : 0;
}

/* draft_open -- see draft.h. */
int draft_open(struct draft *draft, const char *path, uint64_t bytes)
{
    size_t length = strlen(path);

    *draft = (struct draft){.fd = -1, .needed = bytes};
    if (length + sizeof(NAME_DRAFT) > sizeof(draft->part))
        return error_set(STEPGATE_ESYSTEM, ENAMETOOLONG, "give a folder with a shorter name",
                         "%.100s... cannot be written", path);
    memcpy(draft->path, path, length + 1);
    memcpy(draft->part, path, length);
    memcpy(draft->part + length, NAME_DRAFT, sizeof(NAME_DRAFT));
    crypto_hash_sha256_init(&draft->hash);
    unlink(draft->part); /* of an earlier try; never written to, for it may be a link of somebody else */
    draft->fd = open(draft->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (draft->fd < 0)
        return draft_fail(draft, "created", errno);
    int os_errno = draft_reserve(draft);
    return os_errno != 0 ? draft_fail(draft, "given its room", os_errno) : 0;
}

/* draft_write -- all of it; returns the errno. */
static int draft_write(struct draft *draft, const unsigned char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(draft->fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? EIO : errno;
        data += n;
        bytes -= (size_t)n;
        draft->done += (uint64_t)n;
    }
    return 0;
}

/* draft_put -- see draft.h. */
int draft_put(struct draft *draft, const void *data, size_t bytes)
{
    const unsigned char *from = data;

    while (bytes > 0) {
        char tried[64];
        size_t n = bytes < DRAFT_BLOCK ? bytes : DRAFT_BLOCK;
        crypto_hash_sha256_update(&draft->hash, from, n);
        int os_errno = draft_write(draft, from, n);
        snprintf(tried, sizeof(tried), "written from byte %" PRIu64 " on", draft->done);
        if (os_errno != 0)
            return draft_fail(draft, tried, os_errno);
        from += n;
        bytes -= n;
    }
    return 0;
}

/* draft_commit -- see draft.h. */
int draft_commit(struct draft *draft, uint8_t digest[crypto_hash_sha256_BYTES])
{
    char folder[PATH_MAX];
    int fd = draft->fd;

    assert(draft->done == draft->needed);
    if (fsync(fd) != 0)
        return draft_fail(draft, "brought to the disk", errno);
    draft->fd = -1;
    if (close(fd) != 0)
        return draft_fail(draft, "closed", errno);
    if (rename(draft->part, draft->path) != 0)
        return draft_fail(draft, "put in its place", errno);
    draft->part[0] = 0;
    draft_folder(draft->path, folder);
    int status = draft_sync_folder(folder);
    if (status == 0 && digest != NULL)
        crypto_hash_sha256_final(&draft->hash, digest);
    return status;
}

/* draft_drop -- see draft.h. */
void draft_drop(struct draft *draft)
{
    if (draft->fd >= 0)
        close(draft->fd);
    draft->fd = -1;
    if (draft->part[0] != 0)
        unlink(draft->part);
    draft->part[0] = 0;
}

/* draft_sync_folder -- see draft.h. */
int draft_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int os_errno = fd < 0 || fsync(fd) != 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    if (os_errno == 0 || os_errno == EINVAL || os_errno == ENOTSUP) /* some file systems have nothing to do */
        return 0;
    return error_set(STEPGATE_ESYSTEM, os_errno, draft_remedy(os_errno),
                     "the folder %s could not be brought to the disk", folder);
}
