/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ddp -- steps of a network in PyTorch with the wrapper, against those of DistributedDataParallel over gloo. Both train in the same processes, with the same loop, in turns:
 * stepgate-perf-ddp is what one worker does.
 */
#include <stdio.h>
#include <string.h>

#include "perf/command.h"
#include "perf/compare/table.h"

#define DDP_PATH 4096
#define DDP_TEXT 16384
#define DDP_WORKER "stepgate-perf-ddp"
#define DDP_REFUSED 2 /* its status where Python lacks something */
#define DDP_GOAL 1.0

/* ddp_defaults -- the case of the goal, and a small one. */
static void ddp_defaults(struct settings *s)
{
    s->parameters = (struct settings_list){{25000000, 1000000}, 2};
    s->workers = (struct settings_list){{2}, 1};
    s->lanes = 1;
    s->iterations = 10;
    s->rounds = 5;
    s->warmup = 3;
}

/* ddp_say -- what a worker says of itself, else the end of what was printed. */
static void ddp_say(const char *said, char *text, size_t bytes)
{
    const char *line = strstr(said, DDP_WORKER ": ");

    if (line == NULL)
        line = strlen(said) > 300 ? said + strlen(said) - 300 : said;
    snprintf(text, bytes, "%.*s", (int)strcspn(line, "\n"), line);
}

/* ddp_case -- one job of so many workers, and its row. */
static enum test_end ddp_case(const struct settings *s, uint64_t workers, uint64_t parameters,
                              struct report *report, size_t *missed, char *text, size_t bytes)
{
    enum { WORKERS, LANES, PARAMETERS, ROUNDS, STEPS, WARMUP, NUMBERS };
    const uint64_t numbers[NUMBERS] = {workers, s->lanes, parameters, s->rounds, s->iterations, s->warmup};
    char run[DDP_PATH], worker[DDP_PATH], n[NUMBERS][24], timeout[24], name[80];
    static char said[DDP_TEXT];
    unsigned long long count = 0, ours = 0, theirs = 0;
    struct command command;

    if (command_beside("stepgate-run", run, sizeof(run)) != 0 ||
        command_beside(DDP_WORKER, worker, sizeof(worker)) != 0) {
        snprintf(text, bytes,
                 "stepgate-run and " DDP_WORKER " are not beside this program: build or install all of it");
        return TEST_REFUSED;
    }
    for (int i = 0; i < NUMBERS; i++)
        snprintf(n[i], sizeof(n[i]), "%llu", (unsigned long long)numbers[i]);
    snprintf(timeout, sizeof(timeout), "%g", s->deadline);
    /* Not bound: DDP has no ps whose processors it would have to spare. */
    const char *argv[] = {run,       "--ps",        "1",      "--workers",    n[WORKERS],    "--lanes",
                          n[LANES],  "--transport", "shm",    "--bind",       "none",        "--log",
                          "error",   "--",          worker,   "--parameters", n[PARAMETERS], "--rounds",
                          n[ROUNDS], "--steps",     n[STEPS], "--warmup",     n[WARMUP],     "--timeout",
                          timeout,   NULL};
    int error = command_start(&command, argv);
    if (error != 0) {
        snprintf(text, bytes, "cannot start stepgate-run (%s)", strerror(error));
        return TEST_FAILED;
    }
    int status = command_end(&command, s->deadline, said, sizeof(said));
    const char *line = strstr(said, "ddp ");
    if (status != 0 || line == NULL || sscanf(line, "ddp %llu %llu %llu", &count, &ours, &theirs) != 3) {
        ddp_say(said, text, bytes);
        return status == DDP_REFUSED ? TEST_REFUSED : TEST_FAILED;
    }
    snprintf(name, sizeof(name), "%llu parameters, %llu worker%s", count, (unsigned long long)workers,
             workers == 1 ? "" : "s");
    *missed += !compare_row(report, name, (double)ours / 1e3, (double)theirs / 1e3, "us a step",
                            (double)theirs / (double)ours, DDP_GOAL);
    return TEST_OK;
}

/* ddp_run -- see the top. */
static enum test_end ddp_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    size_t missed = 0;

    compare_columns(report);
    for (size_t w = 0; w < s->workers.count; w++)
        for (size_t p = 0; p < s->parameters.count; p++) {
            enum test_end end =
                ddp_case(s, s->workers.value[w], s->parameters.value[p], report, &missed, text, bytes);
            if (end != TEST_OK)
                return end;
        }
    report_note(report,
                "medians of %llu steps of each, in turns of %llu, of worker 0; 6 linear layers, 4 samples, "
                "SGD with momentum; "
                "both end with the same loss; stepgate has one process more, its ps",
                (unsigned long long)(s->rounds * s->iterations), (unsigned long long)s->iterations);
    return compare_end(missed, s->workers.count * s->parameters.count, text, bytes);
}

const struct perf_test compare_ddp = {
    .name = "ddp",
    .purpose = "a training step in PyTorch with the wrapper, and with DistributedDataParallel over gloo",
    .takes = SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_WORKERS) |
             SETTINGS_BIT(SETTINGS_LANES) | SETTINGS_BIT(SETTINGS_ITERATIONS) |
             SETTINGS_BIT(SETTINGS_WARMUP) | SETTINGS_BIT(SETTINGS_ROUNDS),
    .reads = "The same network, loop and processes for both. It needs PyTorch: packaging/install python.",
    .defaults = ddp_defaults,
    .run = ddp_run,
};
