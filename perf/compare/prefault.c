/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prefault -- how fast memory for a job gets its pages, against mappings with MAP_POPULATE made by as many threads at once, in turns; of each the best round counts.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/clock.h"
#include "perf/compare/table.h"
#include "perf/team.h"
#include "perf/wire.h"
#include "transport/base/available.h"
#include "transport/base/pages.h"

#define PREFAULT_GOAL 0.9
#define PREFAULT_THREADS_MAX 16

/* What the threads of the other side map. */
struct prefault_maps {
    uint64_t bytes; /* of each thread */
    int flags;
    void *map[PREFAULT_THREADS_MAX];
};

/* prefault_defaults -- as large as the slots of a large model. */
static void prefault_defaults(struct settings *s)
{
    s->transport = "shm";
    s->bind = "auto";
    s->size = (struct settings_list){{UINT64_C(1) << 30}, 1};
    s->rounds = 5;
}

/* prefault_populate -- one thread's part. */
static void prefault_populate(void *context, unsigned index, unsigned count)
{
    struct prefault_maps *maps = context;

    (void)count;
    maps->map[index] =
        mmap(NULL, maps->bytes, PROT_READ | PROT_WRITE, maps->flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

/* prefault_theirs -- nanoseconds; 0: the memory was not to be had. */
static uint64_t prefault_theirs(struct team *team, unsigned threads, uint64_t size, int flags)
{
    struct prefault_maps maps = {.bytes = size / threads, .flags = flags};
    uint64_t ns = team_run(team, prefault_populate, &maps);

    for (unsigned i = 0; i < threads; i++) {
        if (maps.map[i] == MAP_FAILED)
            ns = 0;
        else
            munmap(maps.map[i], maps.bytes);
    }
    return ns;
}

/* prefault_shared -- a region over shm, as slots and parameters are. */
static uint64_t prefault_shared(struct wire *wire, uint64_t size)
{
    const struct stepgate_region_options options = {
        .size = sizeof(options), .access = STEPGATE_ACCESS_READ, .length = size};
    struct stepgate_region *region = NULL;
    uint64_t begin = perf_clock_now();
    int status = wire->transport->region_new(wire->domain, &options, &region);
    uint64_t ns = perf_clock_now() - begin;

    wire->transport->region_delete(&region);
    return status == 0 ? ns : 0;
}

/* prefault_private -- as an optimizer's slots are, and what is registered over verbs. */
static uint64_t prefault_private(uint64_t size)
{
    uint64_t length, begin = perf_clock_now();
    void *memory = pages_map(size, &length);
    uint64_t ns = perf_clock_now() - begin;

    if (memory == NULL)
        return 0;
    munmap(memory, length);
    return ns;
}

/* prefault_row -- both kinds of memory in turn. Negative: there is not so much; else whether the goal is missed. */
static int prefault_row(const struct settings *s, struct wire *wire, struct team *team, unsigned threads,
                        uint64_t size, bool shared, struct report *report)
{
    uint64_t ours = UINT64_MAX, theirs = UINT64_MAX;
    char name[96];

    for (uint64_t r = 0; r < s->rounds; r++) {
        uint64_t our = shared ? prefault_shared(wire, size) : prefault_private(size);
        uint64_t their = prefault_theirs(team, threads, size, shared ? MAP_SHARED : MAP_PRIVATE);
        if (our == 0 || their == 0)
            return -1;
        ours = our < ours ? our : ours;
        theirs = their < theirs ? their : theirs;
    }
    snprintf(name, sizeof(name), "%s memory, %llu MiB, %u thread%s", shared ? "shared" : "private",
             (unsigned long long)(size >> 20), threads, threads == 1 ? "" : "s");
    return !compare_row(report, name, (double)size / (double)ours, (double)size / (double)theirs, "GB/s",
                        (double)theirs / (double)ours, PREFAULT_GOAL);
}

/* prefault_size -- both rows of a size. */
static int prefault_size(const struct settings *s, struct wire *wire, uint64_t size, size_t *missed,
                         struct report *report, char *text, size_t bytes)
{
    unsigned threads = pages_touch_threads(size);
    uint64_t there = available_memory();
    struct team *team;
    int status = 0;

    if (size > there / 2) {
        snprintf(text, bytes,
                 "%llu MiB are more than half of the %llu MiB that are available: give a smaller --size",
                 (unsigned long long)(size >> 20), (unsigned long long)(there >> 20));
        return -1;
    }
    if (team_new(threads, s->bind, &team, text, bytes) != 0)
        return -1;
    for (int shared = 1; status >= 0 && shared >= 0; shared--) {
        status = prefault_row(s, wire, team, threads, size, shared != 0, report);
        *missed += status > 0;
    }
    team_delete(&team);
    if (status < 0)
        snprintf(text, bytes, "%llu MiB of memory were not to be had", (unsigned long long)(size >> 20));
    return status < 0 ? -1 : 0;
}

/* prefault_run -- see the top. */
static enum test_end prefault_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static struct wire wire;
    size_t missed = 0;

    compare_columns(report);
    if (wire_open(&wire, s, 1) != 0) {
        snprintf(text, bytes, "%s", wire.text);
        return TEST_FAILED;
    }
    int status = 0;
    for (size_t i = 0; status == 0 && i < s->size.count; i++)
        status = prefault_size(s, &wire, s->size.value[i], &missed, report, text, bytes);
    wire_free(&wire);
    return status != 0 ? TEST_REFUSED : compare_end(missed, 2 * s->size.count, text, bytes);
}

const struct perf_test compare_prefault = {
    .name = "prefault",
    .purpose = "memory of a job that gets its pages, and MAP_POPULATE with as many threads",
    .takes = SETTINGS_BIT(SETTINGS_SIZE) | SETTINGS_BIT(SETTINGS_ROUNDS) | SETTINGS_BIT(SETTINGS_BIND),
    .reads = "Private memory is given transparent huge pages where there are any, which MAP_POPULATE cannot "
             "ask for.",
    .defaults = prefault_defaults,
    .run = prefault_run,
};
