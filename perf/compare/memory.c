/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory -- the ps's kernels as a share of what memory gives in the same run: the best of read, copy, triad and add, ordinary or non-temporal, with
 * the same threads and the same kind of pages. All kernels take turns, round by round; of each the best pass counts, as in STREAM. And so whole steps of a job.
 */
#include <stdio.h>
#include <string.h>

#include "perf/compare/table.h"
#include "perf/job.h"
#include "perf/kernels.h"

#define MEMORY_GOAL 0.9
#define MEMORY_STEP_GOAL 0.8
#define MEMORY_WORKERS 2
#define MEMORY_STEP_TURNS 3
#define MEMORY_STEPS 12
#define MEMORY_STEPS_WARMUP 3
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

/* memory_reference -- the best of the streams; which one, and all of them in words. */
static double memory_reference(const struct kernels *k, const struct stream_kernel *streams,
                               const struct memory_best *best, const char **fastest, char *all, size_t bytes)
{
    double reference = 0;
    size_t listed = 0;

    for (size_t i = 0; streams[i].name != NULL; i++) {
        double rate = streams[i].bytes * (double)k->n / (double)best->stream[i];
        listed += (size_t)snprintf(all + listed, bytes - listed, "%s%s %.1f", i == 0 ? "" : ", ",
                                   streams[i].name, rate);
        *fastest = rate > reference ? streams[i].name : *fastest;
        reference = rate > reference ? rate : reference;
    }
    return reference;
}

/* memory_note -- what ours was compared with. */
static void memory_note(struct report *report, const char *what, uint64_t threads, const char *fastest,
                        const char *all)
{
    report_note(report, "reference of %s with %llu thread%s: %s; GB/s of all: %s", what,
                (unsigned long long)threads, threads == 1 ? "" : "s", fastest, all);
}

/*
 * memory_bound -- what reads alone allow: a kernel that reads r of the b bytes that it moves can't be faster than b / r of the rate of reading, however little its
 * stores cost. As a share of the reference, for each number of slots.
 */
static void memory_bound(const struct kernels *k, const struct stream_kernel *streams,
                         const struct settings *s, uint64_t threads, const struct memory_best *best,
                         double reference, struct report *report)
{
    char all[256] = "";
    size_t read = 0, listed = 0;

    while (strcmp(streams[read].name, "read") != 0)
        read++;
    double rate = streams[read].bytes * (double)k->n / (double)best->stream[read];
    for (size_t j = 0; j < s->slots.count; j++) {
        double slots = (double)s->slots.value[j], share[2];
        for (int what = 0; what < 2; what++) {
            double bytes = kernels_bytes(k, (enum kernels_what)what, s->slots.value[j]);
            double written = what == KERNELS_AGGREGATE ? 1 : 1 + (double)k->rule->slots;
            share[what] = bytes / (bytes - written * sizeof(float)) * rate / reference;
        }
        int n = snprintf(all + listed, sizeof(all) - listed, "%s%g slots %.2f and %.2f", j == 0 ? "" : ", ",
                         slots, share[0], share[1]);
        if (n < 0 || (size_t)n >= sizeof(all) - listed)
            break;
        listed += (size_t)n;
    }
    report_note(report, "reads alone allow aggregate and apply with %llu thread%s these ratios: %s",
                (unsigned long long)threads, threads == 1 ? "" : "s", all);
}

/* memory_threads -- one number of threads: a line for the reference, a row for each kernel and number of slots. */
static size_t memory_threads(struct kernels *k, struct team *team, const struct stream_kernel *streams,
                             const struct settings *s, uint64_t threads, struct report *report)
{
    static const char *const names[2] = {"aggregate", "apply"};
    struct memory_best best = {0};
    const char *fastest = "";
    size_t missed = 0;
    char all[256];

    for (uint64_t round = 0; round < s->rounds; round++)
        memory_round(k, team, streams, s, &best);
    double reference = memory_reference(k, streams, &best, &fastest, all, sizeof(all));
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
    memory_note(report, "kernels", threads, fastest, all);
    memory_bound(k, streams, s, threads, &best, reference, report);
    return missed;
}

/* memory_plan -- whole steps with as many lanes as threads; workers leave their gradients as they are, for their writing is not the ps's. */
static struct job_plan memory_plan(const struct settings *s, uint64_t parameters, uint64_t threads)
{
    struct job_plan plan = job_plan_of(s, MEMORY_WORKERS, parameters);

    plan.transport = "shm";
    plan.wait = "adaptive";
    plan.shards = 1;
    plan.variables = 1;
    plan.lanes = threads;
    plan.warmup = MEMORY_STEPS_WARMUP;
    plan.iterations = MEMORY_STEPS;
    plan.rewrite = false;
    return plan;
}

/*
 * memory_stream_all -- the streams over memory that processes share, with threads that are there only meanwhile: they hold this thread to a processor, and with it every
 * process of a job that it starts.
 */
static enum test_end memory_stream_all(struct kernels *k, const struct stream_kernel *streams,
                                       const struct settings *s, uint64_t threads, struct memory_best *best,
                                       char *text, size_t bytes)
{
    struct team *team;

    if (team_new((unsigned)threads, s->bind, &team, text, bytes) != 0)
        return TEST_REFUSED;
    for (uint64_t round = 0; round < s->rounds; round++)
        for (size_t i = 0; streams[i].name != NULL; i++)
            memory_least(&best->stream[i], kernels_stream(k, team, &streams[i]));
    team_delete(&team);
    return TEST_OK;
}

/*
 * memory_step -- whole steps, in turns with the streams: of the steps the best median counts. k: any arrays on pages that processes share. A model that a cache can
 * hold has no goal.
 */
static enum test_end memory_step(struct kernels *k, const struct stream_kernel *streams,
                                 const struct settings *s, uint64_t threads, struct report *report,
                                 size_t *missed, char *text, size_t bytes)
{
    static struct job_result result;
    const struct job_plan plan = memory_plan(s, k->n, threads);
    struct memory_best best = {0};
    uint64_t median = 0;
    const char *fastest = "";
    char all[256], name[64];

    for (int turn = 0; turn < MEMORY_STEP_TURNS; turn++) {
        if (job_measure(&plan, &result, text, bytes) != 0)
            return TEST_FAILED;
        memory_least(&median, (uint64_t)histogram_percentile(&result.step, 0.5));
        enum test_end end = memory_stream_all(k, streams, s, threads, &best, text, bytes);
        if (end != TEST_OK)
            return end;
    }
    double reference = memory_reference(k, streams, &best, &fastest, all, sizeof(all));
    double rate = kernels_bytes(k, KERNELS_APPLY, MEMORY_WORKERS) * (double)k->n / (double)median;
    snprintf(name, sizeof(name), "step %d workers, %llu lane%s", MEMORY_WORKERS, (unsigned long long)threads,
             threads == 1 ? "" : "s");
    *missed += !compare_row(report, name, rate, reference, "GB/s", rate / reference,
                            k->stream_stores ? MEMORY_STEP_GOAL : 0);
    memory_note(report, "steps", threads, fastest, all);
    return TEST_OK;
}

/* memory_team -- the kernels with one number of threads. */
static enum test_end memory_team(struct kernels *k, const struct stream_kernel *streams,
                                 const struct settings *s, uint64_t threads, struct report *report,
                                 size_t *missed, char *text, size_t bytes)
{
    struct team *team;

    if (team_new((unsigned)threads, s->bind, &team, text, bytes) != 0)
        return TEST_REFUSED;
    *missed += memory_threads(k, team, streams, s, threads, report);
    team_delete(&team);
    return TEST_OK;
}

/* memory_part -- the kernels, or whole steps, of one size with every number of threads. */
static enum test_end memory_part(bool steps, const struct stream_kernel *streams, const struct settings *s,
                                 uint64_t parameters, struct report *report, size_t *missed, char *text,
                                 size_t bytes)
{
    struct kernels kernels;
    enum test_end end = TEST_OK;
    uint64_t most = 1;

    for (size_t i = 0; !steps && i < s->slots.count; i++)
        most = s->slots.value[i] > most ? s->slots.value[i] : most;
    if (kernels_new(&kernels, s->optimizer, s->kernels, most, parameters,
                    steps ? MEMORY_SHARED : memory_pages_of(s->pages), text, bytes) != 0)
        return TEST_REFUSED;
    for (size_t t = 0; end == TEST_OK && t < s->threads.count; t++)
        end = steps ? memory_step(&kernels, streams, s, s->threads.value[t], report, missed, text, bytes)
                    : memory_team(&kernels, streams, s, s->threads.value[t], report, missed, text, bytes);
    kernels_free(&kernels);
    return end;
}

/* memory_run -- see the top. */
static enum test_end memory_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    const struct stream_kernel *streams = memory_streams(s->kernels);
    enum test_end end = TEST_OK;
    size_t missed = 0;

    if (streams == NULL) {
        snprintf(text, bytes, "this processor has no %s: give --kernels auto", s->kernels);
        return TEST_REFUSED;
    }
    compare_columns(report);
    for (size_t p = 0; end == TEST_OK && p < s->parameters.count; p++)
        for (int steps = 0; end == TEST_OK && steps < 2; steps++)
            end = memory_part(steps != 0, streams, s, s->parameters.value[p], report, &missed, text, bytes);
    if (end != TEST_OK)
        return end;
    return compare_end(missed, s->parameters.count * s->threads.count * (2 * s->slots.count + 1), text,
                       bytes);
}

const struct perf_test compare_memory = {
    .name = "memory",
    .purpose =
        "the ps's kernels and whole steps, and the best of read, copy, triad and add on the same memory",
    .takes = SETTINGS_BIT(SETTINGS_SLOTS) | SETTINGS_BIT(SETTINGS_THREADS) |
             SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_OPTIMIZER) |
             SETTINGS_BIT(SETTINGS_KERNELS) | SETTINGS_BIT(SETTINGS_PAGES) | SETTINGS_BIT(SETTINGS_BIND) |
             SETTINGS_BIT(SETTINGS_ROUNDS),
    .reads = "Bytes are those that a kernel has to move, as in aggregate and apply. step: a job over shm "
             "whose workers leave their "
             "gradients as they are;\nits reference is taken on memory that processes share. A core reads no "
             "faster than "
             "the stream \"read\", however little its stores cost:\nwhat that allows is said beside the "
             "rows, and a goal above it "
             "is out of this machine's reach.",
    .defaults = memory_defaults,
    .run = memory_run,
};
