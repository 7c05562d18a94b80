/* SPDX-License-Identifier: BSD-3-Clause */
/* aggregate, apply -- the ps's pass over memory, without any network: the mean of some contributions, and the mean with the optimizer's rule. */
#include <stdio.h>

#include "perf/kernels.h"
#include "perf/test/table.h"

static const struct report_column aggregate_columns[] = {
    {"slots_count", "slots", 1, 0},          {"threads_count", "threads", 1, 0},
    {"parameters_count", "Mparam", 1e6, 2},  {"moved_bytes", "MB moved", 1e6, 1},
    {"bw_bytes_per_s", "best GB/s", 1e9, 2},
};

/* aggregate_defaults -- 25.6 M parameters and momentum, as a large image network has them. */
static void aggregate_defaults(struct settings *s)
{
    s->slots = (struct settings_list){{2, 4, 8}, 3};
    s->threads = (struct settings_list){{1}, 1};
    s->parameters = (struct settings_list){{25600000}, 1};
    s->optimizer = "momentum";
    s->kernels = "auto";
    s->pages = "huge";
    s->bind = "auto";
    s->iterations = 20;
    s->warmup = 2;
}

/* aggregate_case -- one row. */
static enum test_end aggregate_case(struct kernels *k, struct team *team, enum kernels_what what,
                                    const struct settings *s, uint64_t slots, uint64_t threads,
                                    struct report *report, char *text, size_t bytes)
{
    struct histogram histogram;
    double moved = kernels_bytes(k, what, slots) * (double)k->n;

    histogram_clear(&histogram);
    for (uint64_t i = 0; i < s->warmup; i++)
        (void)kernels_run(k, team, what, slots);
    for (uint64_t i = 0; i < s->iterations; i++)
        histogram_add(&histogram, kernels_run(k, team, what, slots));
    if (kernels_check(k, team, what, slots, text, bytes) != 0)
        return TEST_FAILED;
    report_number(report, "slots_count", (double)slots);
    report_number(report, "threads_count", (double)threads);
    report_number(report, "parameters_count", (double)k->n);
    report_number(report, "moved_bytes", moved);
    report_number(report, "bw_bytes_per_s", moved * 1e9 / (double)histogram.min);
    report_latency(report, &histogram, 1);
    report_row(report);
    return TEST_OK;
}

/* aggregate_run_what -- every number of parameters, threads and slots. */
static enum test_end aggregate_run_what(enum kernels_what what, const struct settings *s,
                                        struct report *report, char *text, size_t bytes)
{
    enum test_end end = TEST_OK;
    uint64_t most = 0;

    for (size_t i = 0; i < s->slots.count; i++)
        most = s->slots.value[i] > most ? s->slots.value[i] : most;
    report_columns(report, aggregate_columns, sizeof(aggregate_columns) / sizeof(aggregate_columns[0]));
    report_columns(report, report_latency_columns, report_latency_column_count);
    for (size_t p = 0; end == TEST_OK && p < s->parameters.count; p++) {
        struct kernels kernels;
        if (kernels_new(&kernels, s->optimizer, s->kernels, most, s->parameters.value[p],
                        memory_pages_of(s->pages), text, bytes) != 0)
            return TEST_REFUSED;
        for (size_t t = 0; end == TEST_OK && t < s->threads.count; t++) {
            struct team *team = NULL;
            if (team_new((unsigned)s->threads.value[t], s->bind, &team, text, bytes) != 0)
                end = TEST_REFUSED;
            for (size_t i = 0; end == TEST_OK && i < s->slots.count; i++)
                end = aggregate_case(&kernels, team, what, s, s->slots.value[i], s->threads.value[t], report,
                                     text, bytes);
            team_delete(&team);
        }
        kernels_free(&kernels);
    }
    if (end == TEST_OK)
        report_note(report, "data: compared with plain loops, equal to the bit; best: of %llu passes",
                    (unsigned long long)s->iterations);
    return end;
}

/* aggregate_run -- the mean alone. */
static enum test_end aggregate_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    return aggregate_run_what(KERNELS_AGGREGATE, s, report, text, bytes);
}

/* apply_run -- the mean and the rule. */
static enum test_end apply_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    return aggregate_run_what(KERNELS_APPLY, s, report, text, bytes);
}

#define AGGREGATE_TAKES                                                                                      \
    (SETTINGS_BIT(SETTINGS_SLOTS) | SETTINGS_BIT(SETTINGS_THREADS) | SETTINGS_BIT(SETTINGS_PARAMETERS) |     \
     SETTINGS_BIT(SETTINGS_PAGES) | SETTINGS_BIT(SETTINGS_KERNELS) | SETTINGS_BIT(SETTINGS_BIND) |           \
     SETTINGS_BIT(SETTINGS_ITERATIONS) | SETTINGS_BIT(SETTINGS_WARMUP))

const struct perf_test test_aggregate = {
    .name = "aggregate",
    .purpose = "the mean of the slots of some workers, on processors alone",
    .takes = AGGREGATE_TAKES,
    .reads = "Moved is what a pass has to move: (slots + 1) * 4 bytes an element.",
    .defaults = aggregate_defaults,
    .run = aggregate_run,
};

const struct perf_test test_apply = {
    .name = "apply",
    .purpose = "the mean and the optimizer's rule in one pass, on processors alone",
    .takes = AGGREGATE_TAKES | SETTINGS_BIT(SETTINGS_OPTIMIZER),
    .reads = "Moved is what a pass has to move: (slots + 2 + 2 * state arrays of the optimizer) * 4 bytes an "
             "element.",
    .defaults = aggregate_defaults,
    .run = apply_run,
};
