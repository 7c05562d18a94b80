/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-simulation -- whole jobs, with faults, from seeds, in one thread. A failing seed replays exactly. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/campaign.h"
#include "tests/simulation/chaos.h"
#include "tests/simulation/play.h"

#define CAMPAIGN_CHAOS SHAPE_MODES /* a mode of its own, of jobs of any */
#define CAMPAIGN_JUDGED 500        /* in fewer jobs nobody expects everything to happen */

struct campaign {
    uint64_t seeds, first;
    bool one, trace;
    int mode;            /* enum shape_mode; -1: any; CAMPAIGN_CHAOS */
    uint64_t stop_after; /* failures */
};

/* campaign_usage -- how to call it. */
static int campaign_usage(FILE *out, int status)
{
    fprintf(out,
            "usage: stepgate-simulation [--mode M] [--seeds N] [--first S] [--stop-after F]   N jobs "
            "from seed S on\n"
            "       stepgate-simulation [--mode M] --seed S [--trace]                        one job "
            "again, with every "
            "event\n"
            "modes: equal, fewer, more (strict, R = T, R < T, R > T), async, bounded; tf: small jobs, "
            "values by tests/reference/tf_model, too; chaos: any of them, in which processes die and are "
            "started again, and jobs go back to checkpoints\n");
    return status;
}

/* campaign_name -- of a mode, as the command line has it. */
static const char *campaign_name(int mode)
{
    return mode == CAMPAIGN_CHAOS ? "chaos" : shape_mode_name(mode);
}

/* campaign_mode -- by name. */
static int campaign_mode(const char *name, int *out)
{
    for (int m = 0; m <= CAMPAIGN_CHAOS; m++)
        if (strcmp(name, campaign_name(m)) == 0) {
            *out = m;
            return 0;
        }
    return -1;
}

/* campaign_parse -- the command line. */
static int campaign_parse(int argc, char **argv, struct campaign *campaign)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *target = NULL;
        if (strcmp(argv[i], "--seeds") == 0)
            target = &campaign->seeds;
        else if (strcmp(argv[i], "--first") == 0)
            target = &campaign->first;
        else if (strcmp(argv[i], "--stop-after") == 0)
            target = &campaign->stop_after;
        else if (strcmp(argv[i], "--seed") == 0)
            target = &campaign->first, campaign->one = true, campaign->seeds = 1;
        else if (strcmp(argv[i], "--trace") == 0)
            campaign->trace = true;
        else if (strcmp(argv[i], "--mode") != 0 || i + 1 >= argc ||
                 campaign_mode(argv[++i], &campaign->mode) != 0)
            return -1;
        if (target != NULL) {
            char *end = NULL;
            errno = 0;
            if (i + 1 < argc)
                *target = strtoull(argv[++i], &end, 0);
            if (end == NULL || *end != 0 || errno != 0)
                return -1;
        }
    }
    return 0;
}

/* campaign_always -- what happens in every campaign. */
static uint64_t campaign_always(const struct play_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"jobs finished", c->finished, 3},
        {"workers killed", c->killed_workers, 25},
        {"workers left early", c->left, 30},
        {"contributions applied", c->applied, 1},
        {"contributions abandoned", c->empty, 10},
        {"steps", c->steps, 1},
        {"rows pushed", c->rows, 1},
        {"rows in two parts", c->split_rows, 10},
        {"pulls of rows", c->pulls_of_rows, 3},
        {"pulls of all", c->pulls_of_all, 1},
        {"pauses", c->sleeps, 1},
        {"late notifies", c->late_notifies, 5},
        {"repeated commits", c->repeated_commits, 10},
        {"repeated tokens", c->repeated_tokens, 10},
        {"jobs of several shards", c->several_shards, 3},
        {"jobs of several lanes", c->several_lanes, 3},
        {"cuts of variables", c->cut_variables, 10},
        {"jobs with mapped slots", c->mapped, 6},
        {"workers with own buffers", c->callers, 4},
        {"delays", c->world.delays, 1},
        {"reorders", c->world.reorders, 1},
        {"split writes", c->world.split_writes, 1},
        {"torn reads", c->world.torn_reads, 1},
        {"refused posts", c->world.eagains, 1},
    };

    return CAMPAIGN_PRINT(floors, c->jobs, judge);
}

/* campaign_modes -- what depends on the mode. */
static uint64_t campaign_modes(const struct play_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"jobs strict, R = T", c->modes[SHAPE_EQUAL], 5},
        {"jobs strict, R < T", c->modes[SHAPE_FEWER], 8},
        {"jobs strict, R > T", c->modes[SHAPE_MORE], 15},
        {"jobs in tf mode", c->modes[SHAPE_TF], 8},
        {"jobs in async mode", c->modes[SHAPE_ASYNC], 15},
        {"jobs in bounded mode", c->modes[SHAPE_BOUNDED], 15},
        {"contributions stale", c->stale, 2},
        {"steps of more than R", c->larger, 0},
        {"tokens held back", c->held, 5},
        {"pulls of several steps", c->mixed_pulls, 100},
        {"pulls of a newer step", c->newer_pulls, 2},
        {"torn pulls repeated", c->pull_retries, 20},
        {"jobs that went on without one", c->spared, 40},
        {"jobs that shrank", c->shrunk, 100},
        {"jobs that nobody could finish", c->failed_gone, 300},
        {"jobs in which all waited", c->failed_stuck, 60},
    };

    return CAMPAIGN_PRINT(floors, c->jobs, judge);
}

/* campaign_kinds -- what the jobs were of, and what else went wrong. */
static uint64_t campaign_kinds(const struct play_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"jobs failed after a fault", c->failed_jobs, 6},
        {"ps killed", c->killed_ps, 25},
        {"workers frozen", c->frozen, 15},
        {"workers thawed", c->thawed, 40},
        {"workers that woke too late", c->woken, 40},
        {"partitions", c->partitions, 25},
        {"workers that stood still", c->paused_workers, 20},
        {"ps that stood still", c->paused_ps, 20},
        {"workers cut off for a while", c->parted_workers, 15},
        {"ps cut off for a while", c->parted_ps, 60},
        {"pauses that ended", c->pauses_over, 6},
        {"stale notifies seen", c->stale_notifies, 1},
        {"disconnects", c->disconnects, 25},
        {"connections broken on top", c->broken, 2},
        {"connections made anew", c->rebuilt, 2},
        {"jobs with connections anew", c->rebuilt_jobs, 6},
        {"refused connects", c->world.refused_connects, 100},
        {"policy drop", c->policies[MODEL_DROP], 10},
        {"policy fail", c->policies[MODEL_FAIL], 10},
        {"policy skip", c->policies[MODEL_SKIP], 10},
        {"numbers not finite", c->bad, 5},
        {"contributions dropped", c->dropped, 15},
        {"contributions skipped", c->skipped, 10},
        {"steps that change nothing", c->carried, 10},
        {"jobs failed by a NaN", c->failed_non_finite, 150},
        {"sgd", c->optimizers[MODEL_SGD], 10},
        {"momentum", c->optimizers[MODEL_MOMENTUM], 20},
        {"nesterov", c->optimizers[MODEL_NESTEROV], 20},
        {"adagrad", c->optimizers[MODEL_ADAGRAD], 20},
        {"rmsprop", c->optimizers[MODEL_RMSPROP], 10},
        {"adam", c->optimizers[MODEL_ADAM], 10},
        {"adamw", c->optimizers[MODEL_ADAMW], 20},
        {"no optimizer", c->optimizers[MODEL_NONE], 20},
        {"formulas of PyTorch", c->torch, 5},
        {"jobs with averages", c->averages, 5},
        {"jobs with clipped values", c->clipped_values, 10},
        {"jobs with clipped gradients", c->clipped_contributions, 10},
        {"means clipped by their norm", c->clipped_norms, 10},
        {"jobs with weights", c->weighted, 5},
        {"absent gradients", c->absent, 2},
        {"f64 variables", c->wide, 5},
        {"16-bit variables", c->narrow, 3},
        {"gradients of another type", c->other_gradients, 5},
        {"frozen variables", c->frozen_variables, 10},
        {"sparse variables", c->sparse, 5},
        {"assigned variables", c->assigned, 10},
        {"aux variables", c->aux, 10},
        {"states compared", c->compared_states, 1},
        {"waits for a buffer", c->waits, 5},
    };

    return CAMPAIGN_PRINT(floors, c->jobs, judge);
}

/* campaign_tf -- what a campaign of small jobs in tf mode must have seen. */
static uint64_t campaign_tf(const struct play_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"contributions stale", c->stale, 1},
        {"steps of more than R", c->larger, 0},
        {"pulls of a newer step", c->newer_pulls, 2},
        {"torn pulls repeated", c->pull_retries, 0},
        {"jobs that went on without one", c->spared, 8},
        {"jobs in which all waited", c->failed_stuck, 60},
    };

    return CAMPAIGN_PRINT(floors, c->jobs, judge);
}

/* What all jobs had of each kind of event. */
struct campaign_counts {
    struct play_counts play;
    struct chaos_counts chaos;
};

/* campaign_job -- one job. */
static bool campaign_job(const struct campaign *campaign, uint64_t seed, FILE *trace,
                         struct campaign_counts *counts, uint64_t *hash, char *why, size_t size)
{
    const struct play_options options = {
        .mode = campaign->mode, .small = campaign->mode == SHAPE_TF, .trace = trace};

    if (campaign->mode == CAMPAIGN_CHAOS)
        return chaos_seed(seed, -1, trace, &counts->chaos, hash, why, size) == 0;
    return play_seed(seed, &options, &counts->play, hash, why, size) == 0;
}

/* campaign_seed -- one job; every fiftieth again, which must go exactly the same way. */
static bool campaign_seed(const struct campaign *campaign, uint64_t seed, struct campaign_counts *counts,
                          uint64_t *hash, char *why, size_t size)
{
    struct campaign_counts ignored;
    uint64_t again = 0;
    bool ok = campaign_job(campaign, seed, campaign->trace ? stdout : NULL, counts, hash, why, size);

    if (!ok || seed % 50 != 0)
        return ok;
    memset(&ignored, 0, sizeof(ignored));
    ok = campaign_job(campaign, seed, NULL, &ignored, &again, why, size) && again == *hash;
    if (!ok && again != *hash)
        snprintf(why, size, "the replay went another way");
    return ok;
}

/* campaign_end -- what there was. */
static uint64_t campaign_end(const struct campaign *campaign, const struct campaign_counts *all)
{
    const struct play_counts *counts = &all->play;
    bool judge = campaign->seeds >= CAMPAIGN_JUDGED;

    if (campaign->mode == CAMPAIGN_CHAOS)
        return campaign_chaos(&all->chaos, judge);
    uint64_t below = campaign_always(counts, judge);

    if (campaign->mode == SHAPE_TF)
        return below + campaign_tf(counts, judge);
    below += campaign_modes(counts, judge && campaign->mode < 0);
    return below + campaign_kinds(counts, judge && campaign->mode < 0);
}

int main(int argc, char **argv)
{
    struct campaign campaign = {.seeds = 1000, .first = 1, .mode = -1, .stop_after = UINT64_MAX};
    struct campaign_counts counts;
    uint64_t passed = 0, failed = 0, hash = 0;
    char why[600];

    memset(&counts, 0, sizeof(counts));
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return campaign_usage(stdout, 0);
    if (campaign_parse(argc, argv, &campaign) != 0)
        return campaign_usage(stderr, 2);
    printf("campaign: %llu jobs from seed %llu\n", (unsigned long long)campaign.seeds,
           (unsigned long long)campaign.first);
    for (uint64_t seed = campaign.first;
         seed - campaign.first < campaign.seeds && failed < campaign.stop_after; seed++) {
        if (campaign_seed(&campaign, seed, &counts, &hash, why, sizeof(why))) {
            passed++;
            continue;
        }
        failed++;
        printf("seed: %llu FAILED: %s\n      again: stepgate-simulation%s%s --seed %llu --trace\n",
               (unsigned long long)seed, why, campaign.mode >= 0 ? " --mode " : "",
               campaign.mode >= 0 ? campaign_name(campaign.mode) : "", (unsigned long long)seed);
        fflush(stdout);
    }
    if (campaign.one)
        printf("trace: %016llx\n", (unsigned long long)hash);
    else
        failed += campaign_end(&campaign, &counts);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0;
}
