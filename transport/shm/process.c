/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/process.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* shm_process_open -- see process.h. */
int shm_process_open(int pid, bool *over)
{
    *over = false;
    if (pid <= 0 || pid == (int)getpid())
        return -1;
    int fd = pidfd_open(pid, 0);
    if (fd < 0) {
        *over = errno == ESRCH;
        return -1;
    }
    *over = shm_process_over(fd);
    return fd;
}

/* shm_process_over -- see process.h. */
bool shm_process_over(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
}
