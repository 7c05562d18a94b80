/* SPDX-License-Identifier: BSD-3-Clause */
/* project -- what steps of jobs of any size would cost, by the formulas of perf/model/cost.h: ps, ps with backup workers, and ring all-reduce. */
#include <stdio.h>
#include <string.h>

#include "perf/model/check.h"
#include "perf/model/cost.h"
#include "perf/model/machine.h"
#include "perf/test/table.h"

static const struct report_column project_columns[] = {
    {"algorithm", "algorithm", 0, 0},       {"workers_count", "workers", 1, 0},
    {"replicas_count", "R", 1, 0},          {"shards_count", "ps", 1, 0},
    {"parameters_count", "Mparam", 1e6, 3}, {"compute_ns", "compute ms", 1e6, 3},
    {"push_ns", "push ms", 1e6, 3},         {"apply_ns", "apply ms", 1e6, 3},
    {"token_ns", "token ms", 1e6, 3},       {"pull_ns", "pull ms", 1e6, 3},
    {"step_ns", "step ms", 1e6, 3},         {"contributions_per_s", "contrib/s", 1, 1},
};

/* project_defaults -- 100 Gbit/s, a model of ResNet-50's size. */
static void project_defaults(struct settings *s)
{
    s->transport = "shm"; /* of the jobs of --check */
    s->wait = "adaptive";
    s->bind = "auto";
    s->optimizer = "momentum";
    s->straggler = "exp:2ms";
    s->workers = (struct settings_list){{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}, 13};
    s->parameters = (struct settings_list){{25600000}, 1};
    s->shards = 4;
    s->lanes = 1;
    s->variables = 1;
    s->iterations = 100;
    s->warmup = 10;
    s->rewrite = true;
    s->memory_bandwidth = UINT64_C(20000000000);
    s->link_bandwidth = UINT64_C(12500000000);
    s->latency = 2000;
    s->compute = 0.02;
    s->backup = 5;
}

/* project_state -- arrays of state of an optimizer; negative: unknown. */
static int project_state(const char *optimizer)
{
    static const struct {
        const char *name;
        int arrays;
    } states[] = {{"sgd", 0},     {"none", 0},    {"momentum", 1}, {"nesterov", 1},
                  {"adagrad", 1}, {"rmsprop", 2}, {"adam", 2},     {"adamw", 2}};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (strcmp(states[i].name, optimizer) == 0)
            return states[i].arrays;
    return -1;
}

/* project_row -- one job. */
static void project_row(struct report *report, const char *algorithm, const struct cost_machine *machine,
                        const struct cost_job *job)
{
    struct cost_step step = cost_step(machine, job);

    report_text(report, "algorithm", algorithm);
    report_number(report, "workers_count", (double)job->workers);
    report_number(report, "replicas_count", (double)job->replicas);
    report_number(report, "shards_count", job->kind == COST_PS ? (double)job->shards : 0);
    report_number(report, "parameters_count", (double)job->parameters);
    report_number(report, "compute_ns", step.compute * 1e9);
    report_number(report, "push_ns", step.push * 1e9);
    report_number(report, "apply_ns", step.apply * 1e9);
    report_number(report, "token_ns", step.token * 1e9);
    report_number(report, "pull_ns", step.pull * 1e9);
    report_number(report, "step_ns", step.all * 1e9);
    report_number(report, "contributions_per_s", (double)job->replicas / step.all);
    report_row(report);
}

/* project_rows -- all three ways of one size. */
static void project_rows(struct report *report, const struct settings *s, const struct cost_machine *machine,
                         const struct cost_job *equal)
{
    uint64_t backup = (equal->workers * s->backup + 99) / 100;
    struct cost_job fewer = *equal, ring = *equal;

    project_row(report, "ps", machine, equal);
    if (backup < equal->workers) {
        fewer.replicas -= backup;
        project_row(report, "ps, backup workers", machine, &fewer);
    }
    ring.kind = COST_ALLREDUCE;
    project_row(report, "ring all-reduce", machine, &ring);
}

/* project_largest -- of the models. */
static uint64_t project_largest(const struct settings *s)
{
    uint64_t most = 0;

    for (size_t p = 0; p < s->parameters.count; p++)
        most = s->parameters.value[p] > most ? s->parameters.value[p] : most;
    return most;
}

/* project_machine -- given, or measured; told in a note. */
static int project_machine(const struct settings *s, struct report *report, struct cost_machine *machine,
                           char *text, size_t bytes)
{
    *machine = (struct cost_machine){.memory_bytes_per_s = (double)s->memory_bandwidth,
                                     .link_bytes_per_s = (double)s->link_bandwidth,
                                     .latency_s = (double)s->latency / 1e9};
    if (s->measure && machine_measure(s->lanes, project_largest(s), machine, text, bytes) != 0)
        return -1;
    report_condition(report, "memory_bytes_per_s", json_real(machine->memory_bytes_per_s));
    report_condition(report, "latency_ns", json_real(machine->latency_s * 1e9));
    if (s->measure)
        report_note(
            report,
            "measured now: memory %.2f GB/s, notify over shared memory %.2f us one way; everybody is on "
            "this machine, and moves bytes by its memory",
            machine->memory_bytes_per_s / 1e9, machine->latency_s * 1e6);
    else
        report_note(report,
                    "given: memory %.2f GB/s and port %.2f GB/s of each host, latency %.2f us one way; ps on "
                    "hosts of their own",
                    machine->memory_bytes_per_s / 1e9, machine->link_bytes_per_s / 1e9,
                    machine->latency_s * 1e6);
    return 0;
}

/* project_run -- every number of workers and parameters, or the check. */
static enum test_end project_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    struct cost_job job = {.kind = COST_PS, .shards = s->shards, .compute_s = s->compute};
    struct cost_machine machine;
    int state = project_state(s->optimizer);

    if (s->check)
        return check_run(s, report, text, bytes);
    if (state < 0) {
        snprintf(text, bytes,
                 "%s is no optimizer: sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, none",
                 s->optimizer);
        return TEST_REFUSED;
    }
    job.state = (unsigned)state;
    if (straggler_parse(s->straggler, &job.straggler, text, bytes) != 0)
        return TEST_REFUSED;
    report_columns(report, project_columns, sizeof(project_columns) / sizeof(project_columns[0]));
    if (project_machine(s, report, &machine, text, bytes) != 0)
        return TEST_FAILED;
    for (size_t p = 0; p < s->parameters.count; p++)
        for (size_t w = 0; w < s->workers.count; w++) {
            job.workers = job.replicas = s->workers.value[w];
            job.parameters = s->parameters.value[p];
            project_rows(report, s, &machine, &job);
        }
    report_note(report, "formulas and what they leave out: perf/model/cost.h; how wrong they are: --check");
    return TEST_OK;
}

const struct perf_test test_project = {
    .name = "project",
    .purpose = "what a step of a job of any size would cost, by formulas from a few figures",
    .takes = SETTINGS_BIT(SETTINGS_WORKERS) | SETTINGS_BIT(SETTINGS_SHARDS) | SETTINGS_BIT(SETTINGS_LANES) |
             SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_OPTIMIZER) |
             SETTINGS_BIT(SETTINGS_MEMORY_BANDWIDTH) | SETTINGS_BIT(SETTINGS_LINK_BANDWIDTH) |
             SETTINGS_BIT(SETTINGS_LATENCY) | SETTINGS_BIT(SETTINGS_COMPUTE) |
             SETTINGS_BIT(SETTINGS_STRAGGLER) | SETTINGS_BIT(SETTINGS_BACKUP) |
             SETTINGS_BIT(SETTINGS_MEASURE) | SETTINGS_BIT(SETTINGS_CHECK) | SETTINGS_BIT(SETTINGS_PLOT),
    .reads =
        "Measures nothing, but with --measure. compute: with stragglers, until as many are ready as a step "
        "waits for. push: all gradients to the ps, or the\n"
        "first round of the ring. apply: sum and optimizer. token: what ps and workers tell each other. "
        "pull: "
        "parameters, or the second round. contrib/s: the\n"
        "contributions of all steps of a second. --plot: steps over workers. With --check all other options "
        "but --lanes are left alone.",
    .defaults = project_defaults,
    .run = project_run,
};
