/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/available.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* available_number -- the number in a file; UINT64_MAX: there is none ("max"). */
static uint64_t available_number(const char *path)
{
    unsigned long long number;
    FILE *file = fopen(path, "re");
    int got = file != NULL ? fscanf(file, "%llu", &number) : 0;

    if (file != NULL)
        fclose(file);
    return got == 1 ? (uint64_t)number : UINT64_MAX;
}

/* available_reclaimable -- what a control group counts as used and gives back when it is asked: pages of files that nobody has written lately. */
static uint64_t available_reclaimable(const char *path)
{
    unsigned long long bytes = 0;
    char line[128];
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "inactive_file %llu", &bytes) == 1)
            break;
    fclose(file);
    return (uint64_t)bytes;
}

/* available_group -- in one control group; UINT64_MAX: no limit. */
static uint64_t available_group(const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/memory.max", folder);
    uint64_t most = available_number(path);
    if (most == UINT64_MAX)
        return most;
    snprintf(path, sizeof(path), "%s/memory.current", folder);
    uint64_t used = available_number(path);
    if (used == UINT64_MAX)
        return UINT64_MAX;
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    uint64_t back = available_reclaimable(path);
    used = used > back ? used - back : 0;
    return most > used ? most - used : 0;
}

/* available_groups -- the least of this process's control group and those around it. */
static uint64_t available_groups(const char *root)
{
    char path[PATH_MAX / 2], folder[PATH_MAX - 32], line[PATH_MAX / 2] = "";
    uint64_t least = UINT64_MAX;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return least;
    while (fgets(line, sizeof(line), file) != NULL && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0')
        return least;
    for (char *end = line + strlen(line);; *end = '\0') {
        snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup%s", root, line + 3);
        uint64_t here = available_group(folder);
        least = here < least ? here : least;
        end = strrchr(line + 3, '/');
        if (end == NULL)
            return least;
    }
}

/* available_memory_in -- see available.h. */
uint64_t available_memory_in(const char *root)
{
    unsigned long long kib;
    char line[PATH_MAX];
    uint64_t machine = UINT64_MAX, groups = available_groups(root);

    snprintf(line, sizeof(line), "%s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    if (file == NULL)
        return groups;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            machine = (uint64_t)kib << 10;
    fclose(file);
    return machine < groups ? machine : groups;
}

/* available_memory -- see available.h. */
uint64_t available_memory(void)
{
    return available_memory_in("");
}
