/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-simulation -- whole jobs, with faults, from seeds, in one thread. A failing seed replays exactly. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/play.h"

struct campaign {
    uint64_t seeds, first;
    bool one, trace, floors;
    uint64_t stop_after; /* failures */
};

/* A kind of event, how often it happened, and per how many jobs it must at least happen once. */
struct campaign_floor {
    const char *name;
    uint64_t count, jobs;
};

/* campaign_usage -- how to call it. */
static int campaign_usage(FILE *out, int status)
{
    fprintf(out,
            "usage: stepgate-simulation [--seeds N] [--first S] [--stop-after F]   N jobs from seed S on\n"
            "       stepgate-simulation --seed S [--trace]                        one job again, with every "
            "event\n");
    return status;
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
        else
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

/* campaign_floors -- prints how often each kind of event happened; returns how many stayed below their floor. */
static uint64_t campaign_floors(const struct play_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"jobs finished", c->finished, 3},
        {"jobs failed after a fault", c->failed_jobs, 6},
        {"workers killed", c->killed_workers, 25},
        {"ps killed", c->killed_ps, 25},
        {"workers frozen", c->frozen, 15},
        {"workers thawed", c->thawed, 40},
        {"partitions", c->partitions, 25},
        {"disconnects", c->disconnects, 25},
        {"late notifies", c->late_notifies, 5},
        {"repeated commits", c->repeated_commits, 10},
        {"repeated tokens", c->repeated_tokens, 10},
        {"stale notifies seen", c->stale, 5},
        {"jobs of several shards", c->several_shards, 3},
        {"jobs of several lanes", c->several_lanes, 3},
        {"cuts of variables", c->cut_variables, 10},
        {"jobs with mapped slots", c->mapped, 6},
        {"workers with own buffers", c->callers, 4},
        {"steps", c->steps, 1},
        {"delays", c->world.delays, 1},
        {"reorders", c->world.reorders, 1},
        {"split writes", c->world.split_writes, 1},
        {"torn reads", c->world.torn_reads, 1},
        {"refused posts", c->world.eagains, 1},
        {"refused connects", c->world.refused_connects, 100},
    };
    uint64_t below = 0;

    for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
        bool low = judge && floors[i].count < c->jobs / floors[i].jobs;
        printf("events: %-28s %10llu%s\n", floors[i].name, (unsigned long long)floors[i].count,
               low ? "  BELOW ITS FLOOR" : "");
        below += low;
    }
    return below;
}

int main(int argc, char **argv)
{
    struct campaign campaign = {.seeds = 1000, .first = 1, .stop_after = UINT64_MAX};
    struct play_counts counts;
    uint64_t passed = 0, failed = 0, hash = 0, again = 0;
    char why[512];

    memset(&counts, 0, sizeof(counts));
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return campaign_usage(stdout, 0);
    if (campaign_parse(argc, argv, &campaign) != 0)
        return campaign_usage(stderr, 2);
    printf("campaign: %llu jobs from seed %llu\n", (unsigned long long)campaign.seeds,
           (unsigned long long)campaign.first);
    for (uint64_t seed = campaign.first;
         seed - campaign.first < campaign.seeds && failed < campaign.stop_after; seed++) {
        bool ok = play_seed(seed, campaign.trace ? stdout : NULL, &counts, &hash, why, sizeof(why)) == 0;
        if (ok && seed % 50 == 0) { /* a replay must go exactly the same way */
            struct play_counts ignored;
            memset(&ignored, 0, sizeof(ignored));
            ok = play_seed(seed, NULL, &ignored, &again, why, sizeof(why)) == 0 && again == hash;
            if (!ok && again != hash)
                snprintf(why, sizeof(why), "the replay went another way");
        }
        if (ok) {
            passed++;
            continue;
        }
        failed++;
        printf("seed: %llu FAILED: %s\n      again: stepgate-simulation --seed %llu --trace\n",
               (unsigned long long)seed, why, (unsigned long long)seed);
        fflush(stdout);
    }
    if (campaign.one)
        printf("trace: %016llx\n", (unsigned long long)hash);
    else
        failed += campaign_floors(&counts, campaign.seeds >= 500);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0;
}
