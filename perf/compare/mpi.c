/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi -- a synchronous step over shm against all-reduce over Open MPI plus local momentum, in turns. Open MPI is given what makes it fast: buckets (of several sizes the
 * best one is taken for each case), updates between them, huge pages, and the two settings of malloc without which page faults make it ten times slower.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/command.h"
#include "perf/compare/table.h"
#include "perf/job.h"

#define MPI_ROUNDS_MAX 64
#define MPI_ARGUMENTS 48
#define MPI_TEXT 4096

/* The goals: of as many workers as ranks, with 1 lane and with 2; of as many processes as ranks. */
static const struct mpi_case {
    uint64_t parameters, iterations;
    double same_workers[2], same_processes;
} mpi_cases[] = {
    {1000, 2000, {0, 0}, 1},
    {100000, 400, {1.5, 1.5}, 3},
    {1000000, 100, {2.5, 2.5}, 5},
    {25600000, 8, {1.25, 1.6}, 3},
};
/* Elements of a bucket: everything at once, DDP's 25 MiB, and pieces that stay in a cache. */
static const uint64_t mpi_buckets[] = {UINT64_C(1) << 30, 6553600, 1048576, 262144};
#define MPI_BUCKETS (sizeof(mpi_buckets) / sizeof(mpi_buckets[0]))

/* mpi_defaults -- the cases of the goals. */
static void mpi_defaults(struct settings *s)
{
    s->transport = "shm";
    s->optimizer = "momentum";
    s->wait = "adaptive";
    s->bind = "auto";
    s->shards = 1;
    s->variables = 1;
    s->rounds = 5;
    s->warmup = 3;
    s->rewrite = true;
    s->parameters = (struct settings_list){{1000, 100000, 1000000, 25600000}, 4};
}

/* mpi_run -- one run of the all-reduce: its median step in nanoseconds. */
static int mpi_run(const char *program, uint64_t ranks, const struct mpi_case *c, uint64_t bucket,
                   const struct settings *s, double *median, char *text, size_t bytes)
{
    char n[5][24], count[24];
    const uint64_t numbers[4] = {c->parameters, c->iterations, s->warmup, bucket};
    const char *argv[MPI_ARGUMENTS] = {"mpirun",
                                       "-n",
                                       count,
                                       "--oversubscribe",
                                       "--bind-to",
                                       "none",
                                       "--mca",
                                       "btl",
                                       "self,vader",
                                       "-x",
                                       "MALLOC_MMAP_MAX_=0",
                                       "-x",
                                       "MALLOC_TRIM_THRESHOLD_=8589934592"};
    size_t argc = 13;
    struct command command;
    char said[MPI_TEXT];
    unsigned long long p50 = 0, least = 0, steps = 0;

    snprintf(count, sizeof(count), "%llu", (unsigned long long)ranks);
    if (geteuid() == 0)
        argv[argc++] = "--allow-run-as-root";
    argv[argc++] = program;
    for (int i = 0; i < 4; i++) {
        snprintf(n[i], sizeof(n[i]), "%llu", (unsigned long long)numbers[i]);
        argv[argc++] = n[i];
    }
    argv[argc++] = s->rewrite ? "1" : "0";
    int error = command_start(&command, argv);
    if (error != 0) {
        snprintf(text, bytes, "cannot start mpirun (%s): packaging/install compare", strerror(error));
        return -1;
    }
    int status = command_end(&command, s->deadline, said, sizeof(said));
    const char *line = strstr(said, "allreduce ");
    if (status != 0 || line == NULL || sscanf(line, "allreduce %llu %llu %llu", &p50, &least, &steps) != 3) {
        snprintf(text, bytes, "mpirun failed: %.200s", said);
        return -1;
    }
    *median = (double)p50;
    return 0;
}

/* mpi_bucket -- the best one for a case: each is tried once; buckets beyond the model are the same as everything at once. */
static int mpi_bucket(const char *program, uint64_t ranks, const struct mpi_case *c, const struct settings *s,
                      uint64_t *best, char *text, size_t bytes)
{
    double least = 0;

    for (size_t i = 0; i < MPI_BUCKETS; i++) {
        double median;
        if (i > 0 && mpi_buckets[i] >= c->parameters)
            continue;
        if (mpi_run(program, ranks, c, mpi_buckets[i], s, &median, text, bytes) != 0)
            return -1;
        if (least == 0 || median < least) {
            least = median;
            *best = mpi_buckets[i];
        }
    }
    return 0;
}

/* mpi_ours -- one job: its median step. */
static int mpi_ours(const struct settings *s, const struct mpi_case *c, uint64_t lanes, double *median,
                    char *text, size_t bytes)
{
    static struct job_result result;
    struct job_plan plan = job_plan_of(s, 2, c->parameters);

    plan.lanes = lanes;
    plan.iterations = c->iterations;
    if (job_measure(&plan, &result, text, bytes) != 0)
        return -1;
    *median = histogram_percentile(&result.step, 0.5);
    return 0;
}

/* mpi_case -- all rounds of one size: ours with 1 and 2 lanes, theirs with 2 and 3 ranks, in turns. */
static int mpi_case_rows(const char *program, const struct settings *s, const struct mpi_case *c,
                         struct report *report, size_t *missed, size_t *rows, char *text, size_t bytes)
{
    double ours[2][MPI_ROUNDS_MAX], theirs[2][MPI_ROUNDS_MAX];
    uint64_t bucket[2] = {0, 0};
    size_t rounds = s->rounds < MPI_ROUNDS_MAX ? (size_t)s->rounds : MPI_ROUNDS_MAX;

    for (uint64_t k = 0; k < 2; k++)
        if (mpi_bucket(program, 2 + k, c, s, &bucket[k], text, bytes) != 0)
            return -1;
    for (size_t r = 0; r < rounds; r++)
        for (uint64_t k = 0; k < 2; k++)
            if (mpi_ours(s, c, 1 + k, &ours[k][r], text, bytes) != 0 ||
                mpi_run(program, 2 + k, c, bucket[k], s, &theirs[k][r], text, bytes) != 0)
                return -1;
    double our[2] = {compare_median(ours[0], rounds), compare_median(ours[1], rounds)};
    double their[2] = {compare_median(theirs[0], rounds), compare_median(theirs[1], rounds)};
    const double goals[3] = {c->same_workers[0], c->same_workers[1], c->same_processes};
    for (size_t i = 0; i < 3; i++) {
        char name[80];
        size_t lane = i == 1, rank = i == 2;
        snprintf(name, sizeof(name), "%llu parameters, 2 workers, %zu lane%s, %zu ranks",
                 (unsigned long long)c->parameters, lane + 1, lane == 0 ? "" : "s", rank + 2);
        *missed += !compare_row(report, name, our[lane] / 1e3, their[rank] / 1e3, "us a step",
                                their[rank] / our[lane], goals[i]);
        ++*rows;
    }
    return 0;
}

/* mpi_compare_run -- see the top. */
static enum test_end mpi_compare_run(const struct settings *s, struct report *report, char *text,
                                     size_t bytes)
{
    char program[4096];
    size_t missed = 0, rows = 0;

    if (command_beside("stepgate-perf-allreduce", program, sizeof(program)) != 0) {
        snprintf(text, bytes,
                 "Open MPI was not there when this was built: packaging/install compare, then build again");
        return TEST_REFUSED;
    }
    compare_columns(report);
    for (size_t i = 0; i < sizeof(mpi_cases) / sizeof(mpi_cases[0]); i++)
        for (size_t p = 0; p < s->parameters.count; p++)
            if (s->parameters.value[p] == mpi_cases[i].parameters &&
                mpi_case_rows(program, s, &mpi_cases[i], report, &missed, &rows, text, bytes) != 0)
                return TEST_FAILED;
    if (rows == 0) {
        snprintf(text, bytes,
                 "there are goals for 1000, 100k, 1M and 25.6M parameters only: give some of these");
        return TEST_REFUSED;
    }
    report_note(report, "medians of %llu rounds, in turns; gradients are %s in every step, on both sides",
                (unsigned long long)s->rounds, s->rewrite ? "written anew" : "left as they are");
    return compare_end(missed, rows, text, bytes);
}

const struct perf_test compare_mpi = {
    .name = "mpi",
    .purpose = "a step over shm, and all-reduce over Open MPI plus local momentum",
    .takes = SETTINGS_BIT(SETTINGS_PARAMETERS) | SETTINGS_BIT(SETTINGS_WAIT) | SETTINGS_BIT(SETTINGS_BIND) |
             SETTINGS_BIT(SETTINGS_REWRITE) | SETTINGS_BIT(SETTINGS_WARMUP) | SETTINGS_BIT(SETTINGS_ROUNDS),
    .reads =
        "One ps and two workers against as many ranks as workers, and against as many ranks as processes.",
    .defaults = mpi_defaults,
    .run = mpi_compare_run,
};
