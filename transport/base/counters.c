/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/counters.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS_PATH 768

/* counters_one -- the number in a file; false: it cannot be read. */
static bool counters_one(const char *path, uint64_t *out)
{
    char line[64];
    FILE *file = fopen(path, "re");
    bool there = file != NULL && fgets(line, sizeof(line), file) != NULL;

    if (file != NULL)
        fclose(file);
    if (there)
        *out = strtoull(line, NULL, 10);
    return there;
}

/* counters_read -- see counters.h. */
void counters_read(const char *sys, const char *device, unsigned port, struct counters *out)
{
    char folder[COUNTERS_PATH / 2], path[COUNTERS_PATH];
    const struct dirent *entry;

    out->count = 0;
    snprintf(folder, sizeof(folder), "%.200s/%.64s/ports/%u/hw_counters", sys, device, port);
    DIR *list = opendir(folder);
    while (list != NULL && out->count < COUNTERS_MAX && (entry = readdir(list)) != NULL) {
        struct counter *counter = &out->list[out->count];
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lifespan") == 0 ||
            strlen(entry->d_name) >= sizeof(counter->name))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        strcpy(counter->name, entry->d_name);
        out->count += counters_one(path, &counter->value);
    }
    if (list != NULL)
        closedir(list);
}

/* counters_of_trouble -- by its name, of which every driver has others. */
static bool counters_of_trouble(const char *name)
{
    static const char *const parts[] = {"retr", "rnr",     "seq",  "time", "err",
                                        "nak",  "discard", "drop", "dup",  "down"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strstr(name, parts[i]) != NULL)
            return true;
    return false;
}

/* counters_before -- a counter's value then. */
static uint64_t counters_before(const struct counters *before, const char *name)
{
    for (size_t i = 0; i < before->count; i++)
        if (strcmp(before->list[i].name, name) == 0)
            return before->list[i].value;
    return 0;
}

/* counters_trouble -- see counters.h. */
void counters_trouble(const struct counters *before, const struct counters *after, char *out, size_t bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < after->count; i++) {
        const struct counter *counter = &after->list[i];
        uint64_t then = counters_before(before, counter->name);
        if (counter->value <= then || !counters_of_trouble(counter->name))
            continue;
        int n = snprintf(out + used, bytes - used, "%s%s %llu", used > 0 ? ", " : "", counter->name,
                         (unsigned long long)(counter->value - then));
        if (n < 0 || (size_t)n >= bytes - used) {
            out[used] = '\0'; /* whole ones only */
            return;
        }
        used += (size_t)n;
    }
}
