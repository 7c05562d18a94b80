/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/condition.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "perf/clock.h"
#include "stepgate/version.h"
#include "transport/place/cpus.h"

/* condition_file -- the first line of a small file, or null. */
static json_t *condition_file(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "re");
    json_t *text = NULL;

    if (file == NULL)
        return json_null();
    if (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        text = json_string(line);
    }
    fclose(file);
    return text != NULL ? text : json_null();
}

/* condition_field -- the value of the first line of a file that begins with `name`, as text behind its colon; or null. */
static json_t *condition_field(const char *path, const char *name)
{
    char line[512];
    FILE *file = fopen(path, "re");
    json_t *text = NULL;

    if (file == NULL)
        return json_null();
    while (text == NULL && fgets(line, sizeof(line), file) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        text = json_string(colon + 1 + strspn(colon + 1, " \t"));
    }
    fclose(file);
    return text != NULL ? text : json_null();
}

/* condition_choice -- the word in brackets of a file such as "always [madvise] never". */
static json_t *condition_choice(const char *path)
{
    json_t *line = condition_file(path);
    const char *text = json_string_value(line), *from = text != NULL ? strchr(text, '[') : NULL;
    const char *to = from != NULL ? strchr(from, ']') : NULL;

    if (to == NULL)
        return line;
    json_t *word = json_stringn(from + 1, (size_t)(to - from - 1));
    json_decref(line);
    return word;
}

/* condition_cpus -- the processors that this process may run on, as "0-3,8". */
static json_t *condition_cpus(void)
{
    char list[1024] = "";
    size_t length = 0;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return json_null();
    for (unsigned i = 0; i < CPU_SETSIZE && length < sizeof(list) - 16; i++) {
        if (!CPU_ISSET(i, &set))
            continue;
        unsigned last = i;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        length += (size_t)snprintf(list + length, sizeof(list) - length, last > i ? "%s%u-%u" : "%s%u",
                                   length > 0 ? "," : "", i, last);
        i = last;
    }
    return json_string(list);
}

/* condition_nodes -- NUMA nodes with memory. */
static json_int_t condition_nodes(void)
{
    char path[64];
    json_int_t nodes = 0;

    for (int i = 0; i < 1024; i++) {
        snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", i);
        nodes += access(path, F_OK) == 0;
    }
    return nodes > 0 ? nodes : 1;
}

/* condition_new -- see condition.h. */
json_t *condition_new(void)
{
    json_t *c = json_object();
    char now[32];
    time_t seconds = time(NULL);
    struct tm utc;
    struct utsname name;

    if (c == NULL)
        return NULL;
    strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    json_object_set_new(c, "time_utc", json_string(now));
    json_object_set_new(c, "stepgate", json_string(stepgate_version()));
    json_object_set_new(c, "compiler", json_string(__VERSION__));
    if (uname(&name) == 0) {
        json_object_set_new(c, "kernel", json_string(name.release));
        json_object_set_new(c, "architecture", json_string(name.machine));
    }
    json_object_set_new(c, "processor", condition_field("/proc/cpuinfo", "model name"));
    json_object_set_new(c, "processors_online", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(c, "processors_allowed", condition_cpus());
    json_object_set_new(c, "processors_usable", json_integer(cpus_allowed()));
    json_object_set_new(c, "governor",
                        condition_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    json_object_set_new(c, "numa_nodes", json_integer(condition_nodes()));
    json_object_set_new(c, "last_level_cache_bytes", json_integer(sysconf(_SC_LEVEL3_CACHE_SIZE)));
    json_object_set_new(c, "memory_bytes",
                        json_integer((json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
    json_object_set_new(c, "huge_pages", condition_choice("/sys/kernel/mm/transparent_hugepage/enabled"));
    json_object_set_new(c, "huge_pages_shared",
                        condition_choice("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
    json_object_set_new(c, "load_before", condition_file("/proc/loadavg"));
    json_object_set_new(c, "clock", json_string("CLOCK_MONOTONIC_RAW"));
    json_object_set_new(c, "clock_overhead_ns", json_real(perf_clock_overhead()));
    return c;
}

/* condition_line -- see condition.h. */
void condition_line(const json_t *c, char *out, size_t bytes)
{
    const char *processor = json_string_value(json_object_get(c, "processor"));
    const char *allowed = json_string_value(json_object_get(c, "processors_allowed"));
    const char *kernel = json_string_value(json_object_get(c, "kernel"));
    json_int_t usable = json_integer_value(json_object_get(c, "processors_usable"));
    json_int_t nodes = json_integer_value(json_object_get(c, "numa_nodes"));

    snprintf(out, bytes, "%s, %lld processor%s (%s), %lld NUMA node%s, kernel %s",
             processor != NULL ? processor : "unknown processor", (long long)usable, usable == 1 ? "" : "s",
             allowed != NULL ? allowed : "?", (long long)nodes, nodes == 1 ? "" : "s",
             kernel != NULL ? kernel : "?");
}
