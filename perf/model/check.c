/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/model/check.h"

#include <math.h>
#include <stdio.h>

#include "perf/job.h"
#include "perf/model/cost.h"
#include "perf/model/fleet.h"
#include "perf/model/machine.h"

#define CHECK_COMPUTE_S 1e-3

/* Jobs in virtual time; processors cost nothing there, so that M is infinite. */
static const struct check_job {
    const char *straggler;
    uint32_t workers, replicas, shards, lanes;
    uint64_t parameters, steps, latency_ns, link_bytes_per_s;
    double bound; /* of the error, as a share */
} check_jobs[] = {
    {"none", 1, 1, 1, 1, 100000, 8, 2000, 1000000000, 0.05},
    {"none", 4, 4, 1, 1, 100000, 8, 2000, 1000000000, 0.05},
    {"none", 4, 4, 2, 2, 100000, 8, 2000, 12500000000, 0.05},
    {"none", 16, 16, 4, 1, 100000, 8, 50000, 1000000000, 0.05},
    {"none", 64, 64, 2, 1, 50000, 6, 2000, 1000000000, 0.05},
    {"none", 16, 15, 1, 1, 100000, 8, 2000, 12500000000, 0.1},
    {"exp:1ms", 16, 16, 1, 1, 4000, 400, 2000, 12500000000, 0.05},
    {"normal:2ms:500us", 64, 64, 2, 1, 4000, 100, 2000, 12500000000, 0.05},
    {"pareto:1ms:3", 16, 16, 1, 1, 4000, 400, 2000, 12500000000, 0.15},
    {"exp:1ms", 16, 14, 1, 1, 4000, 400, 2000, 12500000000, 0.1},
    {"exp:1ms", 64, 60, 1, 1, 4000, 200, 2000, 12500000000, 0.1},
    {"pareto:1ms:3", 16, 14, 1, 1, 4000, 400, 2000, 12500000000, 0.35},
};

static const struct report_column check_columns[] = {
    {"case", "case", 0, 0},
    {"workers_count", "workers", 1, 0},
    {"replicas_count", "R", 1, 0},
    {"shards_count", "ps", 1, 0},
    {"parameters_count", "Mparam", 1e6, 3},
    {"predicted_ns", "predicted us", 1e3, 1},
    {"step_ns", "step us", 1e3, 1},
    {"error_percent", "error %", 1, 1},
    {"bound_percent", "bound %", 1, 0},
};

/* check_draw -- how long a worker computes in a step: the same in every run. */
static uint64_t check_draw(void *context, uint32_t worker, uint64_t step)
{
    const struct straggler *straggler = context;
    uint64_t x = (step * 65537 + worker + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (uint64_t)((CHECK_COMPUTE_S + straggler_quantile(straggler, (double)(x >> 11) * 0x1p-53)) * 1e9);
}

/* check_row -- bound 0: none, for information. Returns whether it is kept. */
static bool check_row(struct report *report, const char *name, const struct cost_job *job, double predicted_s,
                      double step_ns, double bound)
{
    double error = fabs(predicted_s * 1e9 - step_ns) / step_ns;

    report_text(report, "case", name);
    report_number(report, "workers_count", (double)job->workers);
    report_number(report, "replicas_count", (double)job->replicas);
    report_number(report, "shards_count", (double)job->shards);
    report_number(report, "parameters_count", (double)job->parameters);
    report_number(report, "predicted_ns", predicted_s * 1e9);
    report_number(report, "step_ns", step_ns);
    report_number(report, "error_percent", 100 * error);
    report_number(report, "bound_percent", bound > 0 ? 100 * bound : -1);
    report_row(report);
    return bound <= 0 || error <= bound;
}

/* check_virtual -- one job in virtual time. Negative: it failed; else whether its prediction keeps its bound. */
static int check_virtual(const struct check_job *j, struct report *report, char *text, size_t bytes)
{
    struct cost_job job = {.workers = j->workers,
                           .replicas = j->replicas,
                           .shards = j->shards,
                           .parameters = j->parameters,
                           .state = 1,
                           .compute_s = CHECK_COMPUTE_S};
    const struct cost_machine machine = {.link_bytes_per_s = (double)j->link_bytes_per_s,
                                         .latency_s = (double)j->latency_ns / 1e9};
    struct fleet_result result;
    char name[80];

    if (straggler_parse(j->straggler, &job.straggler, text, bytes) != 0)
        return -1;
    const struct fleet_plan plan = {.workers = j->workers,
                                    .replicas = j->replicas,
                                    .shards = j->shards,
                                    .lanes = j->lanes,
                                    .parameters = j->parameters,
                                    .warmup = j->steps / 4,
                                    .steps = j->steps,
                                    .latency_ns = j->latency_ns,
                                    .link_bytes_per_s = j->link_bytes_per_s,
                                    .compute_ns = check_draw,
                                    .context = &job.straggler};
    if (fleet_run(&plan, &result, text, bytes) != 0)
        return -1;
    snprintf(name, sizeof(name), "virtual, %s", j->straggler);
    return check_row(report, name, &job, cost_step(&machine, &job).all, result.step_ns, j->bound) ? 1 : 0;
}

/* check_measured -- one job on this machine, over shared memory. */
static int check_measured(const struct settings *s, uint64_t workers, uint64_t parameters,
                          struct report *report, char *text, size_t bytes)
{
    static struct job_result result;
    const struct cost_job job = {
        .workers = workers, .replicas = workers, .shards = 1, .parameters = parameters, .state = 1};
    struct job_plan plan = job_plan_of(s, workers, parameters);
    struct cost_machine machine;

    plan.shards = 1;
    if (machine_measure(plan.lanes, parameters, &machine, text, bytes) != 0 ||
        job_measure(&plan, &result, text, bytes) != 0)
        return -1;
    check_row(report, "measured, shared memory", &job, cost_step(&machine, &job).all,
              histogram_percentile(&result.step, 0.5), 0);
    return 0;
}

/* check_run -- see check.h. */
enum test_end check_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static const uint64_t parameters[] = {100000, 1000000};
    const size_t jobs = sizeof(check_jobs) / sizeof(check_jobs[0]);
    size_t missed = 0;

    report_columns(report, check_columns, sizeof(check_columns) / sizeof(check_columns[0]));
    for (size_t i = 0; i < jobs; i++) {
        int kept = check_virtual(&check_jobs[i], report, text, bytes);
        if (kept < 0)
            return TEST_FAILED;
        missed += kept == 0;
    }
    for (uint64_t workers = 1; workers <= 2; workers++)
        for (size_t p = 0; p < sizeof(parameters) / sizeof(parameters[0]); p++)
            if (check_measured(s, workers, parameters[p], report, text, bytes) != 0)
                return TEST_FAILED;
    report_note(report,
                "virtual: whole jobs over a simulated network, where processors cost nothing; each worker "
                "computes 1 ms and its straggler's time.");
    report_note(report,
                "measured: medians of jobs on this machine; memory bandwidth at the same size and latency "
                "were measured just before.");
    if (missed == 0)
        return TEST_OK;
    snprintf(text, bytes, "%zu of %zu predictions are farther from virtual time than their bound", missed,
             jobs);
    return TEST_FAILED;
}
