/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory -- the ps's kernels as a share of what memory gives in the same run: the best of read, copy, triad and add, ordinary or non-temporal, with
 * the same threads and the same kind of pages. All kernels take turns, round by round; of each the best pass counts, as in STREAM.
 */
#include <stdio.h>
#include <string.h>

#include "perf/compare/table.h"
#include "perf/kernels.h"

#define MEMORY_GOAL 0.9
#define MEMORY_STREAMS_MAX 8

/* memory_defaults -- the sizes that the goal is stated for. */
static void memory_defaults(struct settings *s)
{
    s->slots = (struct settings_list){{2, 4, 8}, 3};
    s->threads = (struct settings_list){{1, 2}, 2};
    s->parameters = (struct settings_list){{25600000}, 1};
    s->optimizer = "momentum";
    s->kernels = "auto";
    s->pages = "huge";
    s->bind = "auto";
    s->rounds = 15;
}

/* memory_streams -- the widest kernels that the processor has, or the kind that was asked for; NULL: it has it not. */
static const struct stream_kernel *memory_streams(const char *kind)
{
    static const char *const kinds[] = {"avx512", "avx2", "plain"};

    if (strcmp(kind, "auto") != 0)
        return stream_kernels(kind);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (stream_kernels(kinds[i]) != NULL)
            return stream_kernels(kinds[i]);
    return NULL;
}

struct memory_best {
    uint64_t stream[MEMORY_STREAMS_MAX], kernel[2][SETTINGS_LIST_MAX];
};

/* memory_least -- keeps the smaller. */
static void memory_least(uint64_t *best, uint64_t time)
{
    *best = *best == 0 || time < *best ? time : *best;
}

/* memory_round -- each kernel once, in turn. */
static void memory_round(struct kernels *k, struct team *team, const struct stream_kernel *streams,
                         const struct settings *s, struct memory_best *best)
{
    for (size_t i = 0; streams[i].name != NULL; i++) {
        memory_least(&best->stream[i], kernels_stream(k, team, &streams[i]));
        for (size_t j = 0; j < s->slots.count; j++)
            if (j % 4 == i % 4) /* spread between the streams */
                for (int what = 0; what < 2; what++)
                    memory_least(&best->kernel[what][j],
                                 kernels_run(k, team, (enum kernels_what)what, s->slots.value[j]));
    }
}

/* memory_threads -- one number of threads: a line for the reference, a row for each kernel and number of slots. */
static size_t memory_threads(struct kernels *k, struct team *team, const struct stream_kernel *streams,
                             const struct settings *s, uint64_t threads, struct report *report)
{
    static const char *const names[2] = {"aggregate", "apply"};
    struct memory_best best = {0};
    size_t missed = 0, fastest = 0;
    double reference = 0;
    char all[256];
    size_t listed = 0;

    for (uint64_t round = 0; round < s->rounds; round++)
        memory_round(k, team, streams, s, &best);
    for (size_t i = 0; streams[i].name != NULL; i++) {
        double rate = streams[i].bytes * (double)k->n / (double)best.stream[i];
        listed += (size_t)snprintf(all + listed, sizeof(all) - listed, "%s%s %.1f", i == 0 ? "" : ", ",
                                   streams[i].name, rate);
        fastest = rate > reference ? i : fastest;
        reference = rate > reference ? rate : reference;
    }
    for (int what = 0; what < 2; what++)
        for (size_t j = 0; j < s->slots.count; j++) {
            double rate = kernels_bytes(k, (enum kernels_what)what, s->slots.value[j]) * (double)k->n /
                          (double)best.kernel[what][j];
            char name[64];
            snprintf(name, sizeof(name), "%s %llu slots, %llu thread%s", names[what],
                     (unsigned long long)s->slots.value[j], (unsigned long long)threads,
                     threads == 1 ? "" : "s");
            missed += !compare_row(report, name, rate, reference, "GB/s", rate / reference, MEMORY_GOAL);
        }
    report_note(report, "reference with %llu thread%s: %s; GB/s of all: %s", (unsigned long long)threads,
                threads == 1 ? "" : "s", streams[fastest].name, all);
    return missed;
}

/* memory_run -- see the top. */
static enum test_end memory_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    const struct stream_kernel *streams = memory_streams(s->kernels);
    size_t missed = 0, rows = 0;
    uint64_t most = 0;

    if (streams == NULL) {
        snprintf(text, bytes, "this processor has no %s: give --kernels auto", s->kernels);
        return TEST_REFUSED;
    }
    for (size_t i = 0; i < s->slots.count; i++)
        most = s->slots.value[i] > most ? s->slots.value[i] : most;
    compare_columns(report);
    for (size_t p = 0; p < s->parameters.count; p++) {
        struct kernels kernels;
        if (kernels_new(&kernels, s->optimizer, s->kernels, most, s->parameters.value[p], s->pages[0] == 'h',
                        text, bytes) != 0)
            return TEST_REFUSED;
        for (size_t t = 0; t < s->threads.count; t++) {
            struct team *team;
            if (team_new((unsigned)s->threads.value[t], s->bind, &team, text, bytes) != 0) {
                kernels_free(&kernels);
                return TEST_REFUSED;
            }
            missed += memory_threads(&kernels, team, streams, s, s->threads.value[t], report);
            rows += 2 * s->slots.count;
            team_delete(&team);
        }
        kernels_free(&kernels);
    }
    return compare_end(missed, rows, text, bytes);
}

const struct perf_test compare_memory = {
    .name = "memory",
    .purpose = "the ps's kernels, and the best of read, copy, triad and add on the same memory",
    .takes = SETTINGS_BIT(SETTINGS_SLOTS) | SETTINGS_BIT(SETTINGS_THREADS) |
             SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_OPTIMIZER) |
             SETTINGS_BIT(SETTINGS_KERNELS) | SETTINGS_BIT(SETTINGS_PAGES) | SETTINGS_BIT(SETTINGS_BIND) |
             SETTINGS_BIT(SETTINGS_ROUNDS),
    .reads = "Bytes are those that a kernel has to move, as in aggregate and apply.",
    .defaults = memory_defaults,
    .run = memory_run,
};
