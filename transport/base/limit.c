/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/limit.h"

#include <sys/resource.h>

/* limit_raise_descriptors -- a limit that cannot be raised stays. */
void limit_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}
