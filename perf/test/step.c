/* SPDX-License-Identifier: BSD-3-Clause */
/* step -- whole steps of a job in processes of its own: from one token to the next at worker 0, and what bytes and processor time they cost. */
#include <stdio.h>
#include <string.h>

#include "perf/job.h"
#include "perf/test/table.h"
#include "perf/trial.h"

static const struct report_column step_columns[] = {
    {"workers_count", "workers", 1, 0},
    {"shards_count", "ps", 1, 0},
    {"lanes_count", "lanes", 1, 0},
    {"parameters_count", "Mparam", 1e6, 3},
    {"variables_count", "variables", 1, 0},
    {"bw_bytes_per_s", "ps GB/s", 1e9, 2},
    {"steps_per_s", "steps/s", 1, 1},
    {"ps_cpu_ns_per_worker_byte", "ps ns/w/MB", 1e-6, 1},
    {"pushed_bytes_per_step", "pushed MB", 1e6, 3},
    {"pulled_bytes_per_step", "pulled MB", 1e6, 3},
    {"copied_bytes_per_step", "copied MB", 1e6, 3},
};

/* step_defaults -- one ps and two workers. */
static void step_defaults(struct settings *s)
{
    s->transport = "shm";
    s->optimizer = "momentum";
    s->wait = "adaptive";
    s->bind = "auto";
    s->workers = (struct settings_list){{2}, 1};
    s->parameters = (struct settings_list){{1000, 100000, 1000000, 25600000}, 4};
    s->shards = 1;
    s->lanes = 1;
    s->variables = 1;
    s->iterations = 100;
    s->warmup = 10;
    s->rewrite = true;
}

/* step_row -- one job. */
static void step_row(const struct job_plan *plan, const struct job_result *r, unsigned state,
                     struct report *report)
{
    double bytes = 4.0 * (double)plan->parameters, all = (double)(r->all_steps > 0 ? r->all_steps : 1);
    double moved = (double)(plan->workers + 2 + 2 * state) * bytes, seconds = (double)r->elapsed_ns / 1e9;

    report_number(report, "workers_count", (double)plan->workers);
    report_number(report, "shards_count", (double)plan->shards);
    report_number(report, "lanes_count", (double)plan->lanes);
    report_number(report, "parameters_count", (double)plan->parameters);
    report_number(report, "variables_count", (double)plan->variables);
    report_number(report, "bw_bytes_per_s", moved * 1e9 / histogram_percentile(&r->step, 0.5));
    report_number(report, "steps_per_s", (double)r->steps / seconds);
    report_number(report, "ps_cpu_ns_per_worker_byte",
                  (double)r->ps_cpu_ns / ((double)r->steps * (double)plan->workers * bytes));
    report_number(report, "worker_cpu_ns_per_step", (double)r->worker_cpu_ns / (double)r->steps);
    report_number(report, "pushed_bytes_per_step", (double)r->bytes_pushed / all);
    report_number(report, "pulled_bytes_per_step", (double)r->bytes_pulled / all);
    report_number(report, "copied_bytes_per_step", (double)r->bytes_copied / all);
    report_latency(report, &r->step, 1);
    report_row(report);
}

/* step_state -- arrays of state of an optimizer. */
static unsigned step_state(const char *optimizer)
{
    static const char *const one[] = {"momentum", "nesterov", "adagrad"}, *const two[] = {"rmsprop", "adam",
                                                                                          "adamw"};

    for (size_t i = 0; i < 3; i++) {
        if (strcmp(optimizer, one[i]) == 0)
            return 1;
        if (strcmp(optimizer, two[i]) == 0)
            return 2;
    }
    return 0;
}

/* step_place -- transport, device, path and time-outs; counters: what the device had counted before the first job's steps. */
static void step_place(const struct job_result *r, json_t *counters, struct report *report)
{
    trial_place(report, r->transport, r->can.device, &r->can.path);
    report_condition(report, "reads_in_flight", json_integer(r->can.reads_in_flight));
    trial_port(report, &r->can, "", counters);
    trial_software(report, r->can.device);
}

/* step_jobs -- every number of workers and parameters; *counters: the device's, before the first one's steps. */
static enum test_end step_jobs(const struct settings *s, struct job_result *result, json_t **counters,
                               struct report *report, char *text, size_t bytes)
{
    for (size_t w = 0; w < s->workers.count; w++)
        for (size_t p = 0; p < s->parameters.count; p++) {
            struct job_plan plan = job_plan_of(s, s->workers.value[w], s->parameters.value[p]);
            if (job_measure(&plan, result, text, bytes) != 0)
                return TEST_FAILED;
            step_row(&plan, result, step_state(plan.optimizer), report);
            if (*counters == NULL)
                *counters = json_loads(result->counters, 0, NULL);
        }
    report_note(report, "gradients are %s in every step; parameters at the end: %s",
                s->rewrite ? "written anew" : "left as they are",
                strcmp(s->optimizer, "momentum") == 0 || strcmp(s->optimizer, "sgd") == 0
                    ? "equal to the bit to a plain loop's"
                    : "not compared");
    return TEST_OK;
}

/* step_run -- all jobs, and under what conditions. */
static enum test_end step_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static struct job_result result;
    json_t *counters = NULL;

    report_columns(report, step_columns, sizeof(step_columns) / sizeof(step_columns[0]));
    report_columns(report, report_latency_columns, report_latency_column_count);
    enum test_end end = step_jobs(s, &result, &counters, report, text, bytes);
    if (result.steps > 0)
        step_place(&result, counters, report);
    return end;
}

const struct perf_test test_step = {
    .name = "step",
    .purpose = "whole steps of a job: ps and workers in processes of their own",
    .takes = SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) |
             SETTINGS_BIT(SETTINGS_WORKERS) | SETTINGS_BIT(SETTINGS_SHARDS) | SETTINGS_BIT(SETTINGS_LANES) |
             SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_VARIABLES) |
             SETTINGS_BIT(SETTINGS_OPTIMIZER) | SETTINGS_BIT(SETTINGS_WAIT) | SETTINGS_BIT(SETTINGS_BIND) |
             SETTINGS_BIT(SETTINGS_REWRITE) | SETTINGS_BIT(SETTINGS_ITERATIONS) |
             SETTINGS_BIT(SETTINGS_DURATION) | SETTINGS_BIT(SETTINGS_WARMUP),
    .reads = "ps GB/s: (workers + 2 + 2 * state arrays) * 4 bytes of each parameter, over the median step. "
             "ps ns/w/MB: processor time of the\n"
             "ps for each worker and 10^6 gradient bytes. pushed, pulled and copied: bytes of worker 0 in a "
             "step that were handed to the\n"
             "transport or into a slot, moved to it, and copied by its processor.",
    .defaults = step_defaults,
    .run = step_run,
};
