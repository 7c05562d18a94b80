/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/base/error.h"

/* shm_doorbell_new -- an eventfd. */
int shm_doorbell_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd >= 0)
        return fd;
    if (errno == EMFILE || errno == ENFILE)
        return error_set(STEPGATE_ELIMIT, errno, "raise the limit: ulimit -n", "cannot make a doorbell");
    return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot make a doorbell");
}

/* shm_doorbell_check -- only procfs tells what kind of anonymous file a descriptor is. */
int shm_doorbell_check(int fd)
{
    static const char kind[] = "anon_inode:[eventfd]";
    char path[32], target[sizeof(kind) + 1];
    int flags = fcntl(fd, F_GETFL);

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = flags < 0 ? -1 : readlink(path, target, sizeof(target));
    if (length < 0)
        return error_set(STEPGATE_ESYSTEM, errno, "mount /proc", "cannot look at a descriptor of the peer's");
    if ((flags & O_NONBLOCK) == 0 || length != (ssize_t)(sizeof(kind) - 1) ||
        memcmp(target, kind, sizeof(kind) - 1) != 0)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the peer sent something else than a doorbell");
    return 0;
}

/* shm_doorbell_ring -- EAGAIN means that it rings already. */
void shm_doorbell_ring(int fd)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t written = write(fd, &one, sizeof(one));

    (void)written;
    errno = saved;
}

/* shm_doorbell_clear -- EAGAIN means that it is quiet. */
void shm_doorbell_clear(int fd)
{
    uint64_t count;
    ssize_t taken = read(fd, &count, sizeof(count));

    (void)taken;
}
