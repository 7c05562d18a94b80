/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/campaign.h"

#include <stdio.h>

#include "tests/simulation/chaos.h"

/* campaign_print -- see the header. */
uint64_t campaign_print(const struct campaign_floor *floors, size_t count, uint64_t jobs, bool judge)
{
    uint64_t below = 0;

    for (size_t i = 0; i < count; i++) {
        bool low = judge && floors[i].jobs > 0 && floors[i].count < jobs / floors[i].jobs;
        printf("events: %-28s %10llu%s\n", floors[i].name, (unsigned long long)floors[i].count,
               low ? "  BELOW ITS FLOOR" : "");
        below += low;
    }
    return below;
}

/* campaign_chaos -- see the header. */
uint64_t campaign_chaos(const struct chaos_counts *c, bool judge)
{
    const struct campaign_floor floors[] = {
        {"jobs finished", c->finished, 2},
        {"jobs finished after faults", c->finished_after, 2},
        {"jobs that failed", c->failed, 0},
        {"jobs strict, R = T", c->modes[SHAPE_EQUAL], 5},
        {"jobs strict, R < T", c->modes[SHAPE_FEWER], 8},
        {"jobs strict, R > T", c->modes[SHAPE_MORE], 15},
        {"jobs in tf mode", c->modes[SHAPE_TF], 8},
        {"jobs in async mode", c->modes[SHAPE_ASYNC], 15},
        {"jobs in bounded mode", c->modes[SHAPE_BOUNDED], 15},
        {"jobs with lost_worker=wait", c->policies[CHAOS_LOST_WAIT], 4},
        {"jobs with lost_worker=shrink", c->policies[CHAOS_LOST_SHRINK], 12},
        {"jobs with lost_worker=fail", c->policies[CHAOS_LOST_FAIL], 12},
        {"jobs with lost_ps=rewind", c->rewinding, 2},
        {"jobs of several shards", c->several_shards, 3},
        {"workers killed", c->killed_workers, 3},
        {"workers that came back", c->workers_back, 10},
        {"workers frozen for long", c->frozen_workers, 40},
        {"workers replaced meanwhile", c->replaced_workers, 60},
        {"workers that woke too late", c->woken_workers, 40},
        {"processes that stood still", c->short_freezes, 20},
        {"ps killed", c->killed_ps, 6},
        {"leaders killed", c->killed_leaders, 8},
        {"ps killed: counted", c->arrows[CHAOS_COUNTED], 80},
        {"ps killed: decided", c->arrows[CHAOS_DECIDED], 80},
        {"ps killed: ordered", c->arrows[CHAOS_ORDERED], 80},
        {"ps killed: applying", c->arrows[CHAOS_APPLYING], 80},
        {"ps killed: applied", c->arrows[CHAOS_APPLIED], 80},
        {"ps killed: told", c->arrows[CHAOS_TOLD], 80},
        {"ps frozen for long", c->frozen_ps, 40},
        {"ps started again", c->ps_again, 5},
        {"ps that failed before", c->ps_failed, 0},
        {"ps that went back", c->ps_back, 5},
        {"begins that were rewound", c->rewound_begins, 2},
        {"short partitions", c->short_partitions, 10},
        {"long partitions", c->long_partitions, 40},
        {"connections broken", c->broken, 16},
        {"repeated commits", c->repeated_commits, 2},
        {"repeated tokens", c->repeated_tokens, 2},
        {"checkpoints", c->checkpoints, 1},
        {"parts read again", c->restores, 3},
        {"steps", c->steps, 1},
        {"steps taken again", c->again, 5},
        {"steps of others when again", c->other_sets, 40},
        {"steps of fewer than T", c->shrunk_steps, 3},
        {"pulls compared", c->pulls, 1},
        {"states compared", c->arrays, 1},
    };

    return CAMPAIGN_PRINT(floors, c->jobs, judge);
}
