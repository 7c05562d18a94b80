/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LINKS 40 /* as the kernel follows */

/* file_follow -- one link of the name in `target`; returns 0 when it has become another name, -1 when it is no link, or the errno. */
static int file_follow(char target[PATH_MAX])
{
    char link[PATH_MAX], joined[PATH_MAX];
    ssize_t n = readlink(target, link, sizeof(link) - 1);

    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? -1 : errno;
    link[n] = '\0';
    const char *slash = link[0] == '/' ? NULL : strrchr(target, '/');
    int folder = slash != NULL ? (int)(slash + 1 - target) : 0;
    int length = snprintf(joined, sizeof(joined), "%.*s%s", folder, target, link);
    if (length < 0 || (size_t)length >= sizeof(joined))
        return ENAMETOOLONG;
    memcpy(target, joined, (size_t)length + 1);
    return 0;
}

/* file_target -- the name behind all links, and whether it can be put there by a rename. */
static int file_target(const char *path, char target[PATH_MAX], bool *by_rename)
{
    struct stat at, behind;
    bool exists = stat(path, &at) == 0;
    int code = 0;

    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    memcpy(target, path, strlen(path) + 1);
    *by_rename = !exists || S_ISREG(at.st_mode);
    for (int i = 0; *by_rename && code == 0; i++)
        code = i < FILE_LINKS ? file_follow(target) : ELOOP;
    if (code > 0)
        return code;
    /* A link of /proc may name what no name leads to. */
    if (*by_rename && exists)
        *by_rename = stat(target, &behind) == 0 && behind.st_dev == at.st_dev && behind.st_ino == at.st_ino;
    return 0;
}

/* file_put -- into an open file, which is closed; a closing may fail too. */
static int file_put(int fd, const char *text)
{
    size_t length = strlen(text), done = 0;
    int os_errno = 0;

    while (done < length && os_errno == 0) {
        ssize_t n = write(fd, text + done, length - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            os_errno = n == 0 ? EIO : errno;
    }
    if (close(fd) != 0 && os_errno == 0)
        os_errno = errno;
    return os_errno;
}

/* file_write -- beside the target, then over it: a rename within a folder is atomic. */
int file_write(const char *path, const char *text)
{
    char target[PATH_MAX], draft[PATH_MAX];
    bool by_rename;
    int os_errno = file_target(path, target, &by_rename);

    if (os_errno != 0)
        return os_errno;
    if (!by_rename) {
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? errno : file_put(fd, text);
    }
    int length = snprintf(draft, sizeof(draft), "%s.%ld", target, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(draft))
        return ENAMETOOLONG;
    unlink(
        draft); /* of an earlier process with this number; never written to, for it may be a link of somebody else */
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    os_errno = file_put(fd, text);
    if (os_errno == 0 && rename(draft, target) != 0)
        os_errno = errno;
    if (os_errno != 0)
        unlink(draft);
    return os_errno;
}
