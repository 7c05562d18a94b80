/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "transport/base/error.h"

#define CHECKPOINT_PROBE ".stepgate-probe-" /* hidden: no model's folder begins with a point */

/* checkpoint_probe_path -- the file of a token, and of whoever has seen it. */
static int checkpoint_probe_path(char path[PATH_MAX], const char *dir, const char *token, const char *behind)
{
    char name[NAME_FILE_BYTES];

    snprintf(name, sizeof(name), CHECKPOINT_PROBE "%s%s", token, behind);
    return checkpoint_path(path, dir, name);
}

/* checkpoint_token -- a new one. */
static void checkpoint_token(char token[CHECKPOINT_TOKEN_BYTES])
{
    unsigned char bytes[(CHECKPOINT_TOKEN_BYTES - 1) / 2];

    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(token, CHECKPOINT_TOKEN_BYTES, bytes, sizeof(bytes));
}

/* checkpoint_touch -- an empty file of a new name. */
static int checkpoint_touch(const char *dir, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0 && close(fd) == 0)
        return 0;
    int os_errno = errno;
    if (fd >= 0)
        unlink(path);
    if (os_errno == ENOENT || os_errno == ENOTDIR)
        return checkpoint_no_folder(dir, os_errno);
    return error_set(STEPGATE_ESYSTEM, os_errno, "give a folder that the user of the ps may write to",
                     "checkpoints cannot be written to %s", dir);
}

/* checkpoint_probe -- see checkpoint.h. */
int checkpoint_probe(const char *dir, char token[CHECKPOINT_TOKEN_BYTES])
{
    char path[PATH_MAX], one[CHECKPOINT_TOKEN_BYTES];

    checkpoint_token(one);
    int status = checkpoint_probe_path(path, dir, one, "");
    if (status == 0)
        status = checkpoint_touch(dir, path);
    if (status == 0)
        memcpy(token, one, sizeof(one));
    return status;
}

/* checkpoint_probe_end -- see checkpoint.h. */
void checkpoint_probe_end(const char *dir, const char *token)
{
    char path[PATH_MAX];

    if (checkpoint_probe_path(path, dir, token, "") == 0)
        unlink(path);
}

/* checkpoint_probe_sweep -- see checkpoint.h. */
void checkpoint_probe_sweep(const char *dir)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;
    char path[PATH_MAX];

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strncmp(entry->d_name, CHECKPOINT_PROBE, sizeof(CHECKPOINT_PROBE) - 1) == 0 &&
            checkpoint_path(path, dir, entry->d_name) == 0)
            unlink(path);
    if (folder != NULL)
        closedir(folder);
}

/* checkpoint_probe_seen -- see checkpoint.h. */
int checkpoint_probe_seen(const char *dir, const char *token)
{
    char path[PATH_MAX], own[CHECKPOINT_TOKEN_BYTES + 1] = "-";
    struct stat at;

    if (strlen(token) != CHECKPOINT_TOKEN_BYTES - 1 ||
        strspn(token, "0123456789abcdef") != CHECKPOINT_TOKEN_BYTES - 1)
        return error_set(STEPGATE_EINVAL, 0, "", "`%.40s` is no token of a folder", token);
    if (stat(dir, &at) != 0)
        return checkpoint_no_folder(dir, errno);
    int status = checkpoint_probe_path(path, dir, token, "");
    if (status == 0 && stat(path, &at) != 0)
        return error_set(
            STEPGATE_ENOENT, 0, "give all ps one folder, on a file system that their hosts share",
            "the folder %s is not that of the first ps: a file that it made is not seen here", dir);
    checkpoint_token(own + 1);
    if (status == 0)
        status = checkpoint_probe_path(path, dir, token, own);
    if (status == 0)
        status = checkpoint_touch(dir, path);
    if (status == 0)
        unlink(path);
    return status;
}
