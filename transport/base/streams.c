/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/base/exit_status.h"

/* streams_ensure -- a new descriptor gets the lowest free number. */
void streams_ensure(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
    sigaction(SIGXFSZ, &ignore, NULL);
}

/* streams_finish -- an error of an earlier write is remembered by the stream, though not which it was. */
int streams_finish(const char *program, int status)
{
    bool lost = ferror(stdout) != 0;

    errno = 0;
    lost = fflush(stdout) != 0 || lost;
    if (!lost || status != EXIT_STATUS_OK)
        return status;
    fprintf(stderr, "%s: cannot write the output%s%s: give it a place that takes it\n", program,
            errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    return EXIT_STATUS_PERMANENT;
}
