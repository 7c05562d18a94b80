/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ps/checkpoint/checkpoint_inside.h"
#include "transport/base/error.h"

#define CHECKPOINT_LOCK ".stepgate-lock" /* hidden: no model's folder begins with a point */

/* checkpoint_held -- the error that names who has the folder: the holder has written it there. */
static int checkpoint_held(const char *dir, int fd)
{
    char who[256] = "";
    ssize_t length = pread(fd, who, sizeof(who) - 1, 0);

    who[length > 0 ? strcspn(who, "\n") : 0] = 0;
    return error_set(STEPGATE_EBUSY, 0, "give each job a folder of its own, or end the other one",
                     "the folder %.200s is in use: %s", dir, who[0] != 0 ? who : "by another job");
}

/* checkpoint_lock -- see checkpoint.h. */
int checkpoint_lock(const char *dir, const char *who, int *out)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX], line[256];
    int status = checkpoint_path(path, dir, CHECKPOINT_LOCK);

    if (status != 0)
        return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return checkpoint_no_folder(dir, errno);
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno == EAGAIN || errno == EACCES) {
            status = checkpoint_held(dir, fd);
            close(fd);
            return status;
        }
        close(fd); /* there are file systems without locks */
        *out = -1;
        return 0;
    }
    snprintf(line, sizeof(line), "%s\n", who);
    ssize_t named = ftruncate(fd, 0) == 0 ? pwrite(fd, line, strlen(line), 0) : -1;
    (void)named; /* a full disk takes the name of the holder, not the lock */
    *out = fd;
    return 0;
}

/* checkpoint_unlock -- see checkpoint.h. */
void checkpoint_unlock(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
