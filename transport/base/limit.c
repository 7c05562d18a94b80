/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/limit.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#define LIMIT_IPC_LOCK 14 /* of the capabilities: memory is locked without a limit */

/* limit_raise_descriptors -- a limit that cannot be raised stays. */
void limit_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* limit_of -- a soft limit. */
static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? (uint64_t)limit.rlim_cur
                                                                               : UINT64_MAX;
}

/* limit_descriptors -- see limit.h. */
uint64_t limit_descriptors(void)
{
    return limit_of(RLIMIT_NOFILE);
}

/* limit_unlocked -- has the process the capability? */
static bool limit_unlocked(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    unsigned long long effective = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
           sscanf(line, "CapEff: %llx", &effective) != 1)
        ;
    if (file != NULL)
        fclose(file);
    return (effective >> LIMIT_IPC_LOCK & 1u) != 0;
}

/* limit_lockable -- see limit.h. */
uint64_t limit_lockable(void)
{
    return limit_unlocked() ? UINT64_MAX : limit_of(RLIMIT_MEMLOCK);
}
