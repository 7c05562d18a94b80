/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/cpus.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* cpus_in_affinity -- processors in the affinity mask; 1 if it cannot be read. */
static unsigned cpus_in_affinity(void)
{
    for (int n = 1024; n <= 1 << 20; n *= 2) { /* the kernel refuses a mask smaller than its own */
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        size_t size = CPU_ALLOC_SIZE((size_t)n);
        if (set == NULL)
            return 1;
        int status = sched_getaffinity(0, size, set);
        int os_errno = errno;
        int count = status == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
        if (status != 0 && os_errno != EINVAL)
            return 1;
    }
    return 1;
}

/* cpus_of_quota -- a line of cpu.max. */
unsigned cpus_of_quota(const char *line)
{
    uint64_t quota, period;

    if (sscanf(line, "%" SCNu64 " %" SCNu64, &quota, &period) != 2 || period == 0)
        return 0;
    uint64_t whole = quota / period;
    return whole < 1 ? 1 : whole > UINT32_MAX ? UINT32_MAX : (unsigned)whole;
}

/* cpus_in_group -- what the control group allows; 0: no limit. Inside a container its own group is
 * the root that is seen. */
static unsigned cpus_in_group(void)
{
    char line[64] = "";
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");

    if (file == NULL)
        return 0;
    const char *read = fgets(line, sizeof(line), file);
    fclose(file);
    return read != NULL ? cpus_of_quota(line) : 0;
}

/* cpus_allowed -- the smaller of the two. */
unsigned cpus_allowed(void)
{
    unsigned affinity = cpus_in_affinity();
    unsigned quota = cpus_in_group();

    return quota > 0 && quota < affinity ? quota : affinity;
}

/* cpus_text -- runs of neighbours. */
void cpus_text(const unsigned *cpus, unsigned count, char *out, size_t bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        unsigned first = i;
        char run[32];
        while (i + 1 < count && cpus[i + 1] == cpus[i] + 1)
            i++;
        int n = snprintf(run, sizeof(run), i > first ? "%s%u-%u" : "%s%u", first > 0 ? "," : "", cpus[first],
                         cpus[i]);
        if (used + (size_t)n + sizeof("...") > bytes) {
            snprintf(out + used, bytes - used, "...");
            return;
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s", run);
    }
}
