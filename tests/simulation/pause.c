/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pause -- a process, worker or ps, that stands still for a while, and two of them that hear nothing of each other for as long: always less than what a silent peer
 * is given, so that the job must end as if nothing had happened.
 */
#include "tests/simulation/inside.h"
#include "transport/base/clock.h"

#define PAUSE_JOBS_PER_MILLE 400
#define PAUSE_MOST 2 /* in a job: together, and with a heartbeat that was due, shorter than liveness */
#define PAUSE_NS (200 * CLOCK_MS) /* of one, at most */
#define PAUSE_BEFORE_NS CLOCK_MS  /* until the first, and from one to the next, at most */

/* play_plan_pauses -- see inside.h. */
void play_plan_pauses(struct play *play)
{
    struct play_pause *pause = &play->pause;
    bool harmless =
        play->fault == PLAY_NOTHING || play->fault == PLAY_LEAVE || play->fault == PLAY_DISCONNECT;

    random_seed(&pause->random, play->shape.seed ^ UINT64_C(0x7061757365));
    pause->next_at = pause->until = CLOCK_NEVER;
    if (!harmless || !random_chance(&pause->random, PAUSE_JOBS_PER_MILLE))
        return;
    pause->left = 1 + (uint32_t)random_below(&pause->random, PAUSE_MOST);
    pause->next_at = random_below(&pause->random, PAUSE_BEFORE_NS);
}

/* pause_freeze -- one process stands still. */
static void pause_freeze(struct play *play, bool ps)
{
    struct play_pause *pause = &play->pause;
    struct world_node *node = ps ? play->ps[random_below(&pause->random, play->shards)].node
                                 : play->worker[random_below(&pause->random, play->shape.workers)].node;

    pause->one = node;
    pause->other = NULL;
    world_freeze(node);
    play->counts->paused_ps += ps;
    play->counts->paused_workers += !ps;
}

/* pause_part -- a ps, and a worker or the leader. */
static void pause_part(struct play *play)
{
    struct play_pause *pause = &play->pause;
    uint32_t s = (uint32_t)random_below(&pause->random, play->shards);
    bool leader = s != 0 && random_chance(&pause->random, 500);

    pause->one = play->ps[s].node;
    pause->other =
        leader ? play->ps[0].node : play->worker[random_below(&pause->random, play->shape.workers)].node;
    world_partition(pause->one, pause->other);
    play->counts->parted_ps += leader;
    play->counts->parted_workers += !leader;
}

/* pause_end -- everything goes on. */
static void pause_end(struct play *play, uint64_t now)
{
    struct play_pause *pause = &play->pause;

    if (pause->other == NULL)
        world_thaw(pause->one);
    else
        world_heal(pause->one, pause->other);
    pause->until = CLOCK_NEVER;
    play->counts->pauses_over++;
    if (--pause->left > 0)
        pause->next_at = now + 1 + random_below(&pause->random, PAUSE_BEFORE_NS);
}

/* play_pause -- see inside.h. */
void play_pause(struct play *play, uint64_t now)
{
    struct play_pause *pause = &play->pause;

    if (now >= pause->until)
        pause_end(play, now);
    if (now < pause->next_at)
        return;
    pause->next_at = CLOCK_NEVER;
    pause->until = now + 1 + random_below(&pause->random, PAUSE_NS);
    if (random_chance(&pause->random, 500))
        pause_part(play);
    else
        pause_freeze(play, random_chance(&pause->random, 500));
}
