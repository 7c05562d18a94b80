/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_LINKS = 40 }; /* as many as the kernel follows */

/* output_follow -- put in the place of a link what it names; -1 = it is no link */
static int output_follow(char target[PATH_MAX])
{
    char link[PATH_MAX];
    char joined[PATH_MAX];
    ssize_t n = readlink(target, link, sizeof link - 1);
    if (n < 0)
        return errno == EINVAL || errno == ENOENT ? -1 : errno;
    link[n] = '\0';
    const char *slash = link[0] == '/' ? NULL : strrchr(target, '/');
    int folder = slash != NULL ? (int)(slash + 1 - target) : 0;
    int length = snprintf(joined, sizeof joined, "%.*s%s", folder, target, link);
    if (length < 0 || (size_t)length >= sizeof joined)
        return ENAMETOOLONG;
    memcpy(target, joined, (size_t)length + 1);
    return 0;
}

/* output_find -- where the file is to be, and how it gets there */
static int output_find(struct output *output, const char *path)
{
    struct stat at;
    struct stat behind;
    bool exists = stat(path, &at) == 0;
    int code = 0;
    if (exists && S_ISDIR(at.st_mode))
        return EISDIR;
    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    memcpy(output->target, path, strlen(path) + 1);
    output->moved = !exists || S_ISREG(at.st_mode);
    for (int i = 0; output->moved && code == 0; i++)
        code = i < OUTPUT_LINKS ? output_follow(output->target) : ELOOP;
    if (code > 0)
        return code;
    /* A link of /proc may name what no name leads to. */
    if (output->moved && exists)
        output->moved =
            stat(output->target, &behind) == 0 && behind.st_dev == at.st_dev && behind.st_ino == at.st_ino;
    int length = snprintf(output->draft, sizeof output->draft, "%s.%ld", output->target, (long)getpid());
    return length < 0 || (size_t)length >= sizeof output->draft ? ENAMETOOLONG : 0;
}

/* output_open_found -- the draft, or the thing itself */
static int output_open_found(struct output *output, const char *path)
{
    int fd;
    if (output->moved) {
        unlink(output->draft); /* never written to: it may be somebody else's link */
        fd = open(output->draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } else {
        fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    }
    if (fd < 0)
        return errno;
    output->file = fdopen(fd, "w");
    if (output->file != NULL)
        return 0;
    int code = errno;
    close(fd);
    if (output->moved)
        unlink(output->draft);
    return code;
}

/* output_open -- begin */
int output_open(struct output *output, const char *path)
{
    int code = output_find(output, path);
    return code != 0 ? code : output_open_found(output, path);
}

/* output_close -- end */
int output_close(struct output *output, bool whole)
{
    int code = 0;
    errno = 0;
    if (fflush(output->file) != 0)
        code = errno;
    else if (ferror(output->file))
        code = EIO;
    if (fclose(output->file) != 0 && code == 0)
        code = errno;
    output->file = NULL;
    if (!output->moved)
        return code;
    if (code == 0 && whole && rename(output->draft, output->target) < 0)
        code = errno;
    if (code != 0 || !whole)
        unlink(output->draft);
    return code;
}

/* output_try -- a FIFO is not opened, for its reader would find it at its end */
int output_try(const char *path)
{
    struct output output;
    int code = output_find(&output, path);
    if (code != 0)
        return code;
    if (!output.moved)
        return access(path, W_OK) == 0 ? 0 : errno;
    code = output_open_found(&output, path);
    return code != 0 ? code : output_close(&output, false);
}
