/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

#include "transport/base/error.h"

/* signals_take -- see signals.h. */
int signals_take(int *fd)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, hang_up;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&set, numbers[i]);
    sigaction(SIGPIPE, &ignore, NULL);
    if (sigaction(SIGHUP, NULL, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN)
        sigdelset(&set, SIGHUP); /* nohup */
    sigprocmask(SIG_BLOCK, &set, NULL);
    *fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (*fd < 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot take signals");
    return 0;
}

/* signals_release -- see signals.h. */
void signals_release(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
