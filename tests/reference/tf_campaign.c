/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stepgate-tf-model -- random schedules of pushes, applied steps and dying workers: the tf mode and the accumulators against tf_model.
 * A failing seed replays exactly.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/mode/accumulator.h"
#include "ps/mode/mode.h"
#include "ps/protocol/model.h"
#include "stepgate/step.h"
#include "tests/reference/tf_model.h"
#include "transport/base/random.h"

#define CAMPAIGN_SEEDS 10000
#define CAMPAIGN_FIRST 1
#define CAMPAIGN_RANK_MAX 6 /* R, T */
#define CAMPAIGN_EVENTS 80
#define CAMPAIGN_SHOWN 10 /* failures that are told */

/* What happened in all schedules together: a campaign in which something never happens proves nothing about it. */
struct campaign_counts {
    uint64_t steps, larger, counted, dropped, empty, gone, stuck, late_takes;
};

/* A worker as the job under test has it. */
struct job_worker {
    bool gone, waits, answered;
    int fate;
    uint64_t local_step, sequence;
};

/* One schedule: the job under test, and the model of it. */
struct job {
    uint64_t seed;
    struct random_source random;
    struct tf_model model;
    struct mode *mode;
    struct accumulator *dense, *sparse;
    double rate, value[TF_MODEL_DENSE], table[TF_MODEL_ROWS][TF_MODEL_WIDTH];
    struct job_worker worker[TF_MODEL_WORKERS];
    struct tf_model_gradient gradient; /* of the push that is going on */
    bool applying, stuck, trace;
    unsigned abandon_per_mille, gone_per_mille, applied_per_mille; /* events of this schedule */
    const char *wrong;                                             /* NULL: all is well */
    struct campaign_counts *counts;
};

/* job_wrong -- the first thing that is wrong. */
static void job_wrong(struct job *job, const char *what)
{
    if (job->wrong == NULL)
        job->wrong = what;
}

/* job_accumulators -- one dense, one sparse, a take of R waiting in each. */
static bool job_accumulators(struct job *job)
{
    struct accumulator_settings settings = {
        .dtype = STEPGATE_F64, .shape = {.rank = 1, .dims = {TF_MODEL_DENSE}}, .step = job->model.step};
    uint64_t ticket;

    if (accumulator_new(&settings, &job->dense) != 0)
        return false;
    settings.sparse = true;
    settings.shape = (struct accumulator_shape){.rank = 2, .dims = {TF_MODEL_ROWS, TF_MODEL_WIDTH}};
    return accumulator_new(&settings, &job->sparse) == 0 &&
           accumulator_take(job->dense, job->model.replicas, &ticket) == 0 &&
           accumulator_take(job->sparse, job->model.replicas, &ticket) == 0;
}

/* job_start -- draws R, T, tokens and the step it starts at. */
static bool job_start(struct job *job)
{
    int replicas = 1 + (int)random_below(&job->random, CAMPAIGN_RANK_MAX);
    int workers = 1 + (int)random_below(&job->random, CAMPAIGN_RANK_MAX);
    int least = replicas > workers ? replicas - workers : 0;
    int tokens = least + (int)random_below(&job->random, (uint64_t)(replicas - least + 3));
    uint64_t step = random_below(&job->random, 3);

    job->rate = random_chance(&job->random, 500) ? 2 : 0.1;
    tf_model_start(&job->model, replicas, workers, tokens, step, job->rate);
    /* the reference's number serves all who wait at once: with fewer it shows who is first */
    if (random_chance(&job->random, 300))
        job->model.tokens_per_step =
            1 + (int)random_below(&job->random, (uint64_t)job->model.tokens_per_step);
    const struct mode_settings settings = {.update = MODEL_TF,
                                           .non_finite = MODEL_PROPAGATE,
                                           .workers = (uint32_t)workers,
                                           .replicas = (uint32_t)replicas,
                                           .tokens_per_step = (uint32_t)job->model.tokens_per_step,
                                           .initial_tokens = (uint64_t)tokens,
                                           .step = step};
    for (int w = 0; w < workers; w++)
        job->worker[w].local_step = step;
    return mode_new(&settings, &job->mode) == 0 && job_accumulators(job);
}

/* job_number -- neither round nor large. */
static double job_number(struct job *job)
{
    return ((double)random_below(&job->random, 2001) - 1000) / 70;
}

/* job_draw -- a gradient. */
static void job_draw(struct job *job)
{
    struct tf_model_gradient *g = &job->gradient;

    memset(g, 0, sizeof(*g));
    g->abandoned = random_chance(&job->random, job->abandon_per_mille);
    for (int i = 0; i < TF_MODEL_DENSE; i++)
        g->dense[i] = job_number(job);
    for (int r = 0; r < TF_MODEL_ROWS; r++) {
        if (random_chance(&job->random, 500))
            continue;
        int at = (int)random_below(&job->random, (uint64_t)g->rows + 1); /* in any order */
        g->index[g->rows] = g->index[at];
        g->index[at] = r;
        g->rows++;
    }
    for (int r = 0; r < g->rows; r++)
        for (int i = 0; i < TF_MODEL_WIDTH; i++)
            g->row[r][i] = job_number(job);
}

/* job_accumulate -- the gradient of the push into both accumulators, which must (not) accept it. */
static void job_accumulate(struct job *job, uint32_t rank, int accepted)
{
    const struct tf_model_gradient *g = &job->gradient;
    const struct accumulator_shape shape = {.rank = 1, .dims = {TF_MODEL_DENSE}};
    struct accumulator_sparse sparse = {
        .index_bits = 32,
        .indices = g->index,
        .index_shape = {.rank = 1, .dims = {(uint64_t)g->rows}},
        .values = g->row,
        .value_shape = {.rank = 2, .dims = {(uint64_t)g->rows, TF_MODEL_WIDTH}}};
    uint64_t step = job->worker[rank].local_step;

    if (accumulator_push(job->dense, step, &shape, g->dense) != accepted ||
        accumulator_push_sparse(job->sparse, step, &sparse) != accepted)
        job_wrong(job, "an accumulator and the mode differ on a push");
}

/* job_commit -- takes the means and applies SGD. */
static void job_commit(struct job *job, const struct mode_decision *d)
{
    struct accumulator_taken dense, sparse;

    job->applying = true;
    if (accumulator_fetch(job->dense, &dense) != 1) {
        job_wrong(job, "the mode takes a step that the dense accumulator does not give");
        return;
    }
    if (accumulator_fetch(job->sparse, &sparse) != 1) {
        accumulator_taken_free(&dense);
        job_wrong(job, "the mode takes a step that the sparse accumulator does not give");
        return;
    }
    if (dense.count != d->count || sparse.count != d->count || d->set != NULL)
        job_wrong(job, "the mode and the accumulators count differently");
    for (int i = 0; i < TF_MODEL_DENSE; i++)
        job->value[i] -= job->rate * ((const double *)dense.values)[i];
    for (uint64_t r = 0; r < sparse.shape.dims[0]; r++)
        for (uint64_t i = 0; i < TF_MODEL_WIDTH; i++)
            job->table[sparse.indices[r]][i] -=
                job->rate * ((const double *)sparse.values)[r * TF_MODEL_WIDTH + i];
    job->counts->steps++;
    job->counts->larger += d->count > (uint32_t)job->model.replicas;
    accumulator_taken_free(&dense);
    accumulator_taken_free(&sparse);
}

/* job_token -- a worker goes on. */
static void job_token(struct job *job, const struct mode_decision *d)
{
    struct job_worker *worker = &job->worker[d->rank];
    static const int fates[] = {[STEPGATE_VERDICT_APPLIED] = TF_MODEL_COUNTED,
                                [STEPGATE_VERDICT_STALE] = TF_MODEL_DROPPED,
                                [STEPGATE_VERDICT_EMPTY] = TF_MODEL_EMPTY};

    if (!worker->waits || worker->gone || d->sequence + 1 != worker->sequence)
        job_wrong(job, "a token for somebody who waits for none");
    if (d->verdict < STEPGATE_VERDICT_APPLIED || d->verdict > STEPGATE_VERDICT_STALE) {
        job_wrong(job, "a verdict that cannot be");
        return;
    }
    worker->fate = fates[d->verdict];
    worker->waits = false;
    worker->answered = true;
    worker->local_step = d->step;
}

/* job_decisions -- carries out what the mode has decided. */
static void job_decisions(struct job *job)
{
    struct mode_decision d;

    while (mode_decide(job->mode, &d) == 1) {
        if (job->trace)
            printf("    decision %d rank %u sequence %llu step %llu count %u verdict %d\n", d.kind, d.rank,
                   (unsigned long long)d.sequence, (unsigned long long)d.step, d.count, d.verdict);
        switch (d.kind) {
        case MODE_ACCUMULATE: job_accumulate(job, d.rank, 1); break;
        case MODE_RELEASE:
            if (!job->gradient.abandoned)
                job_accumulate(job, d.rank, 0);
            break;
        case MODE_COMMIT: job_commit(job, &d); break;
        case MODE_TOKEN: job_token(job, &d); break;
        default: job->stuck = d.failure == MODE_FAIL_STUCK; break;
        }
    }
}

/* job_push -- to the model and to the job. */
static void job_push(struct job *job, int rank)
{
    struct job_worker *worker = &job->worker[rank];

    job_draw(job);
    if (job->trace)
        printf("  push of %d at step %llu%s\n", rank, (unsigned long long)worker->local_step,
               job->gradient.abandoned ? ", abandoned" : "");
    tf_model_push(&job->model, rank, &job->gradient);
    const struct mode_contribution c = {.rank = (uint32_t)rank,
                                        .sequence = worker->sequence++,
                                        .step = worker->local_step,
                                        .weight = job->gradient.abandoned ? 0 : 1,
                                        .finite = true};
    worker->waits = true;
    if (mode_contribute(job->mode, &c) != 0)
        job_wrong(job, "the mode refuses a push");
    job_decisions(job);
}

/* job_applied -- the step that was taken is applied: the next take waits. */
static void job_applied(struct job *job)
{
    uint64_t ticket;

    if (job->trace)
        printf("  applied\n");
    job->counts->late_takes += job->model.count >= job->model.replicas;
    tf_model_applied(&job->model);
    job->applying = false;
    if (accumulator_take(job->dense, job->model.replicas, &ticket) != 0 ||
        accumulator_take(job->sparse, job->model.replicas, &ticket) != 0 ||
        mode_applied(job->mode, mode_step(job->mode) - 1) != 0)
        job_wrong(job, "the next take is refused");
    job_decisions(job);
}

/* job_gone -- a worker dies. */
static void job_gone(struct job *job, int rank)
{
    if (job->trace)
        printf("  %d is gone\n", rank);
    job->counts->gone++;
    tf_model_gone(&job->model, rank);
    job->worker[rank].gone = true;
    job->worker[rank].waits = false;
    if (mode_gone(job->mode, (uint32_t)rank, false) != 0)
        job_wrong(job, "the mode refuses that a worker is gone");
    job_decisions(job);
}

/* job_pick -- a worker that is there, and (if it must) does not wait; -1: there is none. */
static int job_pick(struct job *job, bool free)
{
    int picked = -1;
    uint64_t seen = 0;

    for (int w = 0; w < job->model.workers; w++)
        if (!job->worker[w].gone && !(free && job->worker[w].waits) &&
            random_below(&job->random, ++seen) == 0)
            picked = w;
    return picked;
}

/* job_compare_worker -- is a worker where the model has it? */
static void job_compare_worker(struct job *job, int rank)
{
    const struct tf_model_worker *expected = &job->model.worker[rank];
    const struct job_worker *worker = &job->worker[rank];
    struct mode_counts counts;

    mode_counts(job->mode, (uint32_t)rank, &counts);
    if (worker->waits != expected->waits)
        job_wrong(job, "another worker waits");
    if (!worker->gone && worker->local_step != expected->local_step)
        job_wrong(job, "a token gives another step");
    if (worker->answered && !worker->waits && !worker->gone && worker->fate != expected->fate)
        job_wrong(job, "a verdict differs");
    if (counts.accepted != expected->counted || counts.stale != expected->dropped ||
        counts.empty != expected->empty || counts.non_finite != 0)
        job_wrong(job, "a worker's counters differ");
}

/* job_compare -- are values, steps and workers those of the model? */
static void job_compare(struct job *job)
{
    const struct tf_model *model = &job->model;

    if (mode_step(job->mode) != model->step || accumulator_step(job->dense) != model->step ||
        accumulator_step(job->sparse) != model->step)
        job_wrong(job, "the step differs");
    if (accumulator_count(job->dense) != (uint64_t)model->count ||
        accumulator_count(job->sparse) != (uint64_t)model->count)
        job_wrong(job, "another number of contributions is accumulated");
    for (int i = 0; i < TF_MODEL_DENSE; i++)
        if (job->value[i] != model->dense[i])
            job_wrong(job, "a dense value differs");
    for (int r = 0; r < TF_MODEL_ROWS; r++)
        for (int i = 0; i < TF_MODEL_WIDTH; i++)
            if (job->table[r][i] != model->table[r][i])
                job_wrong(job, "a sparse value differs");
    for (int w = 0; w < model->workers; w++)
        job_compare_worker(job, w);
    if (job->applying != model->applying)
        job_wrong(job, "a step is taken by one of both");
    if (job->stuck != tf_model_is_stuck(model))
        job_wrong(job, "one of both is stuck");
}

/* job_event -- one event of the schedule; false: nothing can happen any more. */
static bool job_event(struct job *job)
{
    int rank = job_pick(job, true);

    if (job->applying && (rank < 0 || random_chance(&job->random, job->applied_per_mille)))
        job_applied(job);
    else if (random_chance(&job->random, job->gone_per_mille) && job_pick(job, false) >= 0)
        job_gone(job, job_pick(job, false));
    else if (rank >= 0)
        job_push(job, rank);
    else
        return false;
    job_compare(job);
    return !job->stuck && job->wrong == NULL;
}

/* job_play -- a whole schedule; NULL: as the model has it. */
static const char *job_play(uint64_t seed, bool trace, struct campaign_counts *counts)
{
    struct job job = {.seed = seed, .trace = trace, .counts = counts};

    random_seed(&job.random, seed);
    if (!job_start(&job))
        job_wrong(&job, "it does not start");
    job.abandon_per_mille = random_chance(&job.random, 700) ? 0 : 40;
    job.gone_per_mille = random_chance(&job.random, 500) ? 0 : 30;
    job.applied_per_mille = 100 + 300 * (unsigned)random_below(&job.random, 4);
    if (trace)
        printf("R %d, T %d, %d initial tokens, step %llu\n", job.model.replicas, job.model.workers,
               job.model.last_token, (unsigned long long)job.model.step);
    for (int i = 0; i < CAMPAIGN_EVENTS && job.wrong == NULL && job_event(&job); i++)
        ;
    for (int w = 0; w < job.model.workers; w++) {
        counts->counted += job.model.worker[w].counted;
        counts->dropped += job.model.worker[w].dropped;
        counts->empty += job.model.worker[w].empty;
    }
    counts->stuck += job.stuck;
    mode_delete(&job.mode);
    accumulator_delete(&job.dense);
    accumulator_delete(&job.sparse);
    return job.wrong;
}

/* campaign_usage -- how to call it. */
static int campaign_usage(FILE *out, int status)
{
    fprintf(out, "usage: stepgate-tf-model [--seeds N] [--first S]   N schedules from seed S on\n"
                 "       stepgate-tf-model --seed S                 one schedule again, with every event\n");
    return status;
}

/* campaign_parse -- the command line. */
static bool campaign_parse(int argc, char **argv, uint64_t *seeds, uint64_t *first, bool *one)
{
    for (int i = 1; i < argc; i += 2) {
        *one = *one || strcmp(argv[i], "--seed") == 0;
        uint64_t *target = strcmp(argv[i], "--seeds") == 0                                     ? seeds
                           : strcmp(argv[i], "--first") == 0 || strcmp(argv[i], "--seed") == 0 ? first
                                                                                               : NULL;
        char *end = NULL;
        errno = 0;
        if (target != NULL && i + 1 < argc)
            *target = strtoull(argv[i + 1], &end, 0);
        if (end == NULL || *end != 0 || errno != 0)
            return false;
    }
    return true;
}

/* campaign_missing -- how many kinds of event never happened. */
static uint64_t campaign_missing(const struct campaign_counts *c)
{
    return (uint64_t)((c->steps == 0) + (c->larger == 0) + (c->late_takes == 0) + (c->counted == 0) +
                      (c->dropped == 0) + (c->empty == 0) + (c->gone == 0) + (c->stuck == 0));
}

int main(int argc, char **argv)
{
    uint64_t seeds = CAMPAIGN_SEEDS, first = CAMPAIGN_FIRST, failed = 0;
    struct campaign_counts counts = {0};
    bool one = false;

    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return campaign_usage(stdout, 0);
    if (!campaign_parse(argc, argv, &seeds, &first, &one))
        return campaign_usage(stderr, 2);
    seeds = one ? 1 : seeds;
    printf("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)(first + seeds - 1));
    for (uint64_t seed = first; seed - first < seeds; seed++) {
        const char *wrong = job_play(seed, one, &counts);
        if (wrong != NULL && failed++ < CAMPAIGN_SHOWN)
            printf("seed %llu: %s\n", (unsigned long long)seed, wrong);
    }
    printf("%llu steps, %llu of more than R; %llu late takes; %llu accumulated, %llu stale, %llu empty; "
           "%llu workers gone, %llu jobs stuck\n",
           (unsigned long long)counts.steps, (unsigned long long)counts.larger,
           (unsigned long long)counts.late_takes, (unsigned long long)counts.counted,
           (unsigned long long)counts.dropped, (unsigned long long)counts.empty,
           (unsigned long long)counts.gone, (unsigned long long)counts.stuck);
    if (seeds >= CAMPAIGN_SEEDS && campaign_missing(&counts) > 0) {
        printf("something never happened\n");
        failed++;
    }
    printf("%llu passed, %llu failed\n", (unsigned long long)(seeds >= failed ? seeds - failed : 0),
           (unsigned long long)failed);
    return failed > 0;
}
