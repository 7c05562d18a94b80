/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scaling -- steps over shm against what they would be if cost grew with bytes alone: a model four times as large, models below it, many variables instead of one, many workers instead of few. Everything
 * is run in turns, round by round; medians of the rounds count.
 *
 *   size         step(N) against 4 * step(N / 4)
 *   below        step(n) against a + b n, with a = step(1000) and b = step(N) / N
 *   variables    step(N / 10 in variables of 1000 elements) against step(N / 10 in one variable)
 *   workers      processor time of the ps for each worker and byte: many workers against few, of models of N / 25
 */
#include <stdio.h>
#include <stdlib.h>

#include "perf/compare/table.h"
#include "perf/job.h"

#define SCALING_ROUNDS_MAX 64
#define SCALING_SMALLEST 1000 /* parameters, and elements of a variable where there are many */
#define SCALING_WORKERS 2
/* The bounds that ours may be of theirs. */
#define SCALING_SIZE 1.1
#define SCALING_BELOW 1.05 /* what medians are apart for no reason */
#define SCALING_VARIABLES 1.3
#define SCALING_CPU 1.15

/* The jobs, in the order in which a round runs them. */
enum scaling_job {
    SCALING_LARGEST,
    SCALING_QUARTER,
    SCALING_TENTH, /* of the largest, and so on down to SCALING_SMALLEST */
    SCALING_HUNDREDTH,
    SCALING_THOUSANDTH,
    SCALING_LEAST,
    SCALING_MANY_VARIABLES,
    SCALING_FEW,
    SCALING_MANY,
    SCALING_JOBS
};

struct scaling {
    const struct settings *settings;
    uint64_t largest;
    struct job_plan plan[SCALING_JOBS];
    double step[SCALING_JOBS][SCALING_ROUNDS_MAX], cpu[SCALING_JOBS][SCALING_ROUNDS_MAX];
    size_t rounds, rows, missed;
};

/* scaling_defaults -- the sizes of the goals. */
static void scaling_defaults(struct settings *s)
{
    s->transport = "shm";
    s->optimizer = "momentum";
    s->wait = "adaptive";
    s->bind = "auto";
    s->shards = 1;
    s->lanes = 1;
    s->variables = 1;
    s->rounds = 3;
    s->warmup = 3;
    s->rewrite = true;
    s->parameters = (struct settings_list){{100000000}, 1};
    s->workers = (struct settings_list){{4, 64}, 2};
}

/* scaling_iterations -- about as long for each size. */
static uint64_t scaling_iterations(uint64_t parameters, uint64_t workers)
{
    uint64_t n = UINT64_C(400000000) / (parameters * workers + 1);

    return n < 5 ? 5 : n > 500 ? 500 : n;
}

/* scaling_plan -- all jobs. */
static void scaling_plan(struct scaling *s)
{
    uint64_t n = s->largest, few = s->settings->workers.value[0], many = s->settings->workers.value[1];
    const uint64_t sizes[SCALING_JOBS] = {n,      n / 4,  n / 10, n / 100, n / 1000, SCALING_SMALLEST,
                                          n / 10, n / 25, n / 25};

    for (int j = 0; j < SCALING_JOBS; j++) {
        uint64_t workers = j == SCALING_FEW ? few : j == SCALING_MANY ? many : SCALING_WORKERS;
        s->plan[j] = job_plan_of(s->settings, workers, sizes[j]);
        s->plan[j].iterations = scaling_iterations(sizes[j], workers);
    }
    s->plan[SCALING_MANY_VARIABLES].variables = n / 10 / SCALING_SMALLEST;
}

/* scaling_run_job -- one job of one round. */
static int scaling_run_job(struct scaling *s, int job, size_t round, char *text, size_t bytes)
{
    static struct job_result result;
    const struct job_plan *plan = &s->plan[job];

    if (job_measure(plan, &result, text, bytes) != 0)
        return -1;
    s->step[job][round] = histogram_percentile(&result.step, 0.5);
    s->cpu[job][round] = (double)result.ps_cpu_ns /
                         ((double)result.steps * (double)plan->workers * 4 * (double)plan->parameters);
    return 0;
}

/* scaling_row -- ours may be so many times theirs. */
static void scaling_row(struct scaling *s, struct report *report, const char *name, double ours,
                        double theirs, const char *unit, double bound)
{
    s->missed += !compare_row(report, name, ours, theirs, unit, theirs / ours, 1 / bound);
    s->rows++;
}

/* scaling_sizes -- four times as much, and everything below. */
static void scaling_sizes(struct scaling *s, struct report *report, const double *step)
{
    double n = (double)s->largest, a = step[SCALING_LEAST], b = step[SCALING_LARGEST] / n;
    char name[96];

    snprintf(name, sizeof(name), "%gM parameters, 4 x %gM", n / 1e6, n / 4e6);
    scaling_row(s, report, name, step[SCALING_LARGEST] / 1e3, 4 * step[SCALING_QUARTER] / 1e3, "us a step",
                SCALING_SIZE);
    for (int j = SCALING_QUARTER; j <= SCALING_THOUSANDTH; j++) {
        double size = (double)s->plan[j].parameters;
        snprintf(name, sizeof(name), "%gM parameters, a + b n", size / 1e6);
        scaling_row(s, report, name, step[j] / 1e3, (a + b * size) / 1e3, "us a step", SCALING_BELOW);
    }
}

/* scaling_rows -- all that was found. */
static void scaling_rows(struct scaling *s, struct report *report)
{
    double step[SCALING_JOBS], cpu[SCALING_JOBS];
    char name[96];

    for (int j = 0; j < SCALING_JOBS; j++) {
        step[j] = compare_median(s->step[j], s->rounds);
        cpu[j] = compare_median(s->cpu[j], s->rounds);
    }
    scaling_sizes(s, report, step);
    snprintf(name, sizeof(name), "%llu variables, 1",
             (unsigned long long)s->plan[SCALING_MANY_VARIABLES].variables);
    scaling_row(s, report, name, step[SCALING_MANY_VARIABLES] / 1e3, step[SCALING_TENTH] / 1e3, "us a step",
                SCALING_VARIABLES);
    snprintf(name, sizeof(name), "%llu workers, %llu", (unsigned long long)s->plan[SCALING_MANY].workers,
             (unsigned long long)s->plan[SCALING_FEW].workers);
    scaling_row(s, report, name, cpu[SCALING_MANY] * 1e6, cpu[SCALING_FEW] * 1e6, "ps ns/w/MB", SCALING_CPU);
}

/* scaling_run -- see the top. */
static enum test_end scaling_run(const struct settings *settings, struct report *report, char *text,
                                 size_t bytes)
{
    static struct scaling s;

    s = (struct scaling){.settings = settings, .largest = settings->parameters.value[0]};
    s.rounds = settings->rounds < SCALING_ROUNDS_MAX ? (size_t)settings->rounds : SCALING_ROUNDS_MAX;
    if (settings->parameters.count != 1 || s.largest < 1000 * SCALING_SMALLEST ||
        settings->workers.count != 2 || settings->workers.value[0] >= settings->workers.value[1]) {
        snprintf(text, bytes,
                 "--parameters takes one number here, at least 1M, and --workers two, few and many: 4,64");
        return TEST_REFUSED;
    }
    scaling_plan(&s);
    compare_columns(report);
    for (size_t r = 0; r < s.rounds; r++)
        for (int j = 0; j < SCALING_JOBS; j++)
            if (scaling_run_job(&s, j, r, text, bytes) != 0)
                return TEST_FAILED;
    scaling_rows(&s, report);
    report_note(
        report,
        "%d workers, but for the last row, whose models have %gM parameters each; medians of %zu rounds, in "
        "turns",
        SCALING_WORKERS, (double)s.plan[SCALING_FEW].parameters / 1e6, s.rounds);
    return compare_end(s.missed, s.rows, text, bytes);
}

const struct perf_test compare_scaling = {
    .name = "scaling",
    .purpose =
        "large models, many variables and many workers, and what they would cost if bytes alone counted",
    .takes = SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_WORKERS) |
             SETTINGS_BIT(SETTINGS_WAIT) | SETTINGS_BIT(SETTINGS_BIND) | SETTINGS_BIT(SETTINGS_LANES) |
             SETTINGS_BIT(SETTINGS_REWRITE) | SETTINGS_BIT(SETTINGS_WARMUP) | SETTINGS_BIT(SETTINGS_ROUNDS),
    .reads = "theirs: what ours would be. --parameters is the largest model, --workers few and many. Of the "
             "largest, "
             "a ps holds 6 times its bytes.",
    .defaults = scaling_defaults,
    .run = scaling_run,
};
