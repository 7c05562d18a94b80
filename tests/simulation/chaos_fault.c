/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos_fault -- what goes wrong in a chaos, when, and who is started again after it. */
#include "tests/simulation/chaos_inside.h"
#include "worker/session/inside.h"

#define FAULT_WAIT_NS (CLOCK_MS / 2)
#define FAULT_SHORT_MS 300              /* what nobody is given up for */
#define FAULT_LONG_MS 1500              /* what somebody is given up for, at least, */
#define FAULT_LONGER_MS 3000            /* and at most so much more */
#define FAULT_NOTICED_NS (5 * CLOCK_MS) /* until everybody knows of an accident */
#define FAULT_RESTART_MS 2500           /* until a process is started again, at most */

/* fault_kind -- of one fault. What somebody is given up for asks for a job that knows how to go on. */
static int fault_kind(const struct chaos *chaos, struct random_source *random)
{
    static const int any[] = {CHAOS_KILL_WORKER, CHAOS_KILL_WORKER, CHAOS_KILL_WORKER,   CHAOS_KILL_PS,
                              CHAOS_KILL_PS,     CHAOS_KILL_PS,     CHAOS_FREEZE_WORKER, CHAOS_FREEZE_PS,
                              CHAOS_PAUSE,       CHAOS_PART,        CHAOS_PART,          CHAOS_BREAK};
    int kind = any[random_below(random, sizeof(any) / sizeof(any[0]))];

    if ((kind == CHAOS_KILL_PS || kind == CHAOS_FREEZE_PS) && !chaos->rewinds)
        return random_chance(random, 100) ? kind : CHAOS_KILL_WORKER;
    if (kind == CHAOS_FREEZE_WORKER && chaos->lost == CHAOS_LOST_FAIL)
        return CHAOS_KILL_WORKER; /* who was given up still reads, and where the others go on without it what it reads is gone */
    return kind;
}

/* chaos_fault_plan -- see the header. */
void chaos_fault_plan(struct chaos *chaos)
{
    struct random_source *random = &chaos->random;

    chaos->fault_count = random_chance(random, 60) ? 0 : 1 + (uint32_t)random_below(random, CHAOS_FAULTS_MAX);
    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        struct chaos_fault *fault = &chaos->faults[i];
        bool lasts = chaos->lost == CHAOS_LOST_WAIT && random_chance(random, 400);
        *fault = (struct chaos_fault){
            .kind = fault_kind(chaos, random),
            .after = random_below(random, (uint64_t)chaos->shape.steps) * (i + 1) / 2,
            .wait = random_below(random, random_chance(random, 100) ? 100 * FAULT_WAIT_NS : FAULT_WAIT_NS),
            .due = CLOCK_NEVER,
            .arrow = random_chance(random, 600) ? (int)random_below(random, CHAOS_ARROWS) : -1,
            .rank = (uint32_t)random_below(random, chaos->shape.workers),
            .ps = (uint32_t)random_below(random, chaos->shards),
            .leader = random_chance(random, 400),
            .returns = chaos->exact && (chaos->lost != CHAOS_LOST_SHRINK || random_chance(random, 600)),
            .ends = CLOCK_NEVER};
        if (fault->arrow >= 0 && fault->arrow != CHAOS_ORDERED && fault->arrow != CHAOS_APPLYING)
            fault->ps = 0; /* nobody else is there */
        fault->lasts = (fault->kind == CHAOS_FREEZE_WORKER || fault->kind == CHAOS_FREEZE_PS ||
                                (fault->kind == CHAOS_PART && lasts)
                            ? FAULT_LONG_MS + random_below(random, FAULT_LONGER_MS)
                            : 1 + random_below(random, FAULT_SHORT_MS)) *
                       CLOCK_MS;
    }
    chaos->restarts_left = 3 * chaos->fault_count;
}

/* fault_there -- workers of other ranks that are at work. */
static uint32_t fault_there(const struct chaos *chaos, uint32_t but)
{
    uint32_t there = 0;

    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        there += w != but && chaos->worker[w]->job != NULL && chaos_acts(chaos->worker[w]->node) &&
                 chaos->worker[w]->begun;
    return there;
}

/* fault_loses -- a worker goes: can the job do without, until it is back? */
static bool fault_loses(struct chaos *chaos, const struct chaos_fault *fault)
{
    const struct shape *shape = &chaos->shape;
    uint32_t there = fault_there(chaos, fault->rank), needed = 1;

    if (shape->mode == SHAPE_FEWER && chaos->lost == CHAOS_LOST_FAIL)
        needed = shape->replicas;
    if (chaos->lost == CHAOS_LOST_WAIT && chaos->exact)
        return true;
    if (shape->mode == SHAPE_TF || (chaos->lost == CHAOS_LOST_FAIL && shape_lockstep(shape)))
        chaos->may_fail = true; /* tf: its tokens are gone, too */
    return there >= needed;
}

/* fault_restart -- so much later. */
static uint64_t fault_restart(struct chaos *chaos, uint64_t now)
{
    return now + random_below(&chaos->random, FAULT_RESTART_MS * CLOCK_MS);
}

/* fault_kill_worker -- see chaos_fault_kind. */
static void fault_kill_worker(struct chaos *chaos, const struct chaos_fault *fault, uint64_t now)
{
    struct chaos_worker *worker = chaos->worker[fault->rank];

    if (worker->job == NULL || !fault_loses(chaos, fault))
        return;
    world_kill(worker->node);
    chaos_worker_clear(worker);
    chaos->counts->killed_workers++;
    chaos->gone = chaos->gone || !fault->returns;
    if (fault->returns && chaos->start_at[fault->rank] == CLOCK_NEVER)
        chaos->start_at[fault->rank] = fault_restart(chaos, now);
}

/* fault_kill_ps -- it may be in the midst of a call. */
static void fault_kill_ps(struct chaos *chaos, const struct chaos_fault *fault, uint64_t now)
{
    struct chaos_ps *ps = &chaos->ps[fault->ps];

    if (ps->shard == NULL || ps->over || world_node_killed(ps->node))
        return;
    world_kill(ps->node);
    chaos->counts->killed_ps++;
    chaos->counts->killed_leaders += ps->number == 0;
    if (!chaos->rewinds) {
        chaos->may_fail = true;
        return;
    }
    ps->rewinds = 0;
    ps->again = false;
    ps->start_at = fault_restart(chaos, now);
}

/* fault_freeze -- a process stands still; who is given up may find another in its place. */
static void fault_freeze(struct chaos_fault *fault, struct world_node *node, uint64_t now)
{
    if (!chaos_acts(node))
        return;
    world_freeze(node);
    fault->one = node;
    fault->ends = now + fault->lasts;
}

/* fault_freeze_worker -- so long that it is given up. */
static void fault_freeze_worker(struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    struct chaos_worker *worker = chaos->worker[fault->rank];

    if (worker->job == NULL || chaos_worker_over(worker) || !fault_loses(chaos, fault))
        return;
    fault_freeze(fault, worker->node, now);
    chaos->counts->frozen_workers += fault->one != NULL;
    if (fault->one != NULL && random_chance(&chaos->random, 800) &&
        chaos->start_at[fault->rank] == CLOCK_NEVER) {
        chaos->start_at[fault->rank] =
            now + CHAOS_LIVENESS_MS * CLOCK_MS + random_below(&chaos->random, FAULT_RESTART_MS * CLOCK_MS);
        chaos->counts->replaced_workers++;
        chaos->gone = true; /* where both go back, each may find its rank taken on some ps by the other */
    }
}

/* fault_freeze_ps -- the same of a ps. */
static void fault_freeze_ps(struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    fault_freeze(fault, chaos->ps[fault->ps].node, now);
    chaos->counts->frozen_ps += fault->one != NULL;
    chaos->may_fail = chaos->may_fail || (fault->one != NULL && !chaos->rewinds);
}

/* fault_pause -- any process, for a moment. */
static void fault_pause(struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    struct world_node *node = fault->leader ? chaos->ps[fault->ps].node : chaos->worker[fault->rank]->node;

    fault_freeze(fault, node, now);
    chaos->counts->short_freezes += fault->one != NULL;
}

/* fault_part -- two processes hear nothing of each other. */
static void fault_part(struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    bool lasts = fault->lasts >= FAULT_LONG_MS * CLOCK_MS;

    if (fault->ps == 0)
        fault->leader = false;
    fault->one = chaos->ps[fault->ps].node;
    fault->other = fault->leader ? chaos->ps[0].node : chaos->worker[fault->rank]->node;
    world_partition(fault->one, fault->other);
    fault->ends = now + fault->lasts;
    chaos->counts->long_partitions += lasts;
    chaos->counts->short_partitions += !lasts;
    chaos->may_fail = chaos->may_fail || (lasts && fault->leader && !chaos->rewinds);
}

/* fault_break -- one connection between a worker and a ps, at its active end. */
static void fault_break(struct chaos *chaos, const struct chaos_fault *fault)
{
    struct chaos_worker *worker = chaos->worker[fault->rank];

    if (worker->job == NULL || !chaos_acts(worker->node))
        return;
    struct session_shard *shard = &worker->job->session->shards[fault->ps];
    struct link *link = &shard->control.link;
    uint32_t lane = (uint32_t)random_below(&chaos->random, chaos->lanes);
    if (shard->welcome && random_chance(&chaos->random, 600))
        link = random_chance(&chaos->random, 500) ? &shard->push[lane].link : &shard->pull[lane].link;
    if (link->endpoint == NULL || link->state == LINK_CONNECTING)
        return;
    world_disconnect(link->endpoint);
    chaos->counts->broken++;
    if (!chaos->rebuilds && chaos->lost != CHAOS_LOST_WAIT)
        chaos->may_fail = true;
}

/* fault_happens -- now. Nothing does once somebody has begun to leave: such a job may end well or not. */
static void fault_happens(struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    fault->done = true;
    if (chaos->ends)
        return;
    chaos->accident_at = now;
    switch (fault->kind) {
    case CHAOS_KILL_WORKER: fault_kill_worker(chaos, fault, now); break;
    case CHAOS_KILL_PS: fault_kill_ps(chaos, fault, now); break;
    case CHAOS_FREEZE_WORKER: fault_freeze_worker(chaos, fault, now); break;
    case CHAOS_FREEZE_PS: fault_freeze_ps(chaos, fault, now); break;
    case CHAOS_PAUSE: fault_pause(chaos, fault, now); break;
    case CHAOS_PART: fault_part(chaos, fault, now); break;
    default: fault_break(chaos, fault); break;
    }
}

/* fault_alone -- must it wait until the job has got over the one before? Whoever is lost while all come together again is waited for by nobody. */
static bool fault_alone(const struct chaos_fault *fault)
{
    return fault->kind == CHAOS_KILL_WORKER || fault->kind == CHAOS_FREEZE_WORKER ||
           fault->kind == CHAOS_FREEZE_PS || fault->lasts >= FAULT_LONG_MS * CLOCK_MS;
}

/* fault_ready -- is it this fault's turn? The clock of those that have a time begins then. */
static bool fault_ready(const struct chaos *chaos, struct chaos_fault *fault, uint64_t now)
{
    if (fault->done || !chaos->ran || chaos->decided < fault->after)
        return false;
    if (fault_alone(fault) && !chaos_runs(chaos))
        return false;
    if (fault->due == CLOCK_NEVER)
        fault->due = now + fault->wait;
    return now >= fault->due;
}

/* chaos_fault_arrow -- see the header. */
void chaos_fault_arrow(struct chaos *chaos, int arrow, const struct shard *shard)
{
    uint64_t now = world_now_ns(chaos->world);

    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        struct chaos_fault *fault = &chaos->faults[i];
        if (fault->kind != CHAOS_KILL_PS || fault->arrow != arrow || !fault_ready(chaos, fault, now) ||
            chaos->ps[fault->ps].shard != shard)
            continue;
        fault_happens(chaos, fault, now);
        chaos->counts->arrows[arrow] += world_node_killed(chaos->ps[fault->ps].node);
    }
}

/* fault_ends -- everything goes on. */
static void fault_ends(struct chaos *chaos, struct chaos_fault *fault)
{
    fault->ends = CLOCK_NEVER;
    if (fault->other != NULL) {
        world_heal(fault->one, fault->other);
        return;
    }
    if (world_node_killed(fault->one))
        return;
    world_thaw(fault->one);
    chaos->counts->woken_workers += fault->kind == CHAOS_FREEZE_WORKER;
}

/* fault_first -- has there been no more than one accident, of which nobody's process need end? What befalls a ps no worker ends for, where jobs go back. */
static bool fault_first(const struct chaos *chaos, bool of_worker)
{
    uint32_t done = 0;
    bool harmless = true;

    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        int kind = chaos->faults[i].kind;
        done += chaos->faults[i].done;
        if (chaos->faults[i].done)
            harmless = kind == CHAOS_KILL_PS || kind == CHAOS_FREEZE_PS || kind == CHAOS_PAUSE;
    }
    return done <= 1 && (!of_worker || harmless);
}

/* fault_supervise -- who has failed is started again, as a launcher does. */
static void fault_supervise(struct chaos *chaos, uint64_t now)
{
    chaos->may_fail = chaos->may_fail || (chaos->gone && chaos->back);
    for (uint32_t w = 0; w < chaos->shape.workers; w++) {
        struct chaos_worker *worker = chaos->worker[w];
        if (worker->state == CHAOS_FAILED && !chaos->may_fail && chaos->restarts_left > 0 &&
            chaos->start_at[w] == CLOCK_NEVER && chaos->exact && !chaos->ends) {
            if (fault_first(chaos, true))
                chaos_wrong(chaos, "after one accident worker %u ended with %d: %s", w, worker->error.code,
                            worker->error.text);
            chaos->restarts_left--;
            chaos->start_at[w] = fault_restart(chaos, now);
        }
        if (now < chaos->start_at[w])
            continue;
        if (chaos_worker_start(chaos, w) != 0) {
            struct stepgate_error error;
            error_save(&error);
            chaos_wrong(chaos, "worker %u cannot be started again: %s", w, error.text);
        }
    }
    for (uint32_t s = 0; s < chaos->shards; s++) {
        struct chaos_ps *ps = &chaos->ps[s];
        if (world_node_killed(ps->node) && ps->shard != NULL)
            chaos_ps_clear(ps, random_chance(&chaos->random, 500));
        if (!ps->over || ps->status == 0 || chaos->may_fail || chaos->ends || chaos->restarts_left == 0)
            continue;
        if (fault_first(chaos, false))
            chaos_wrong(chaos, "after one accident ps %u ended with %d: %s", s, ps->status, ps->error.text);
        chaos->restarts_left--;
        chaos->counts->ps_failed++;
        chaos_ps_clear(ps, false);
        world_kill(ps->node); /* its process has ended */
        ps->over = false;
        ps->again = false;
        ps->start_at = fault_restart(chaos, now);
    }
}

/* chaos_fault_move -- see the header. */
void chaos_fault_move(struct chaos *chaos, uint64_t now)
{
    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        struct chaos_fault *fault = &chaos->faults[i];
        if (fault_ready(chaos, fault, now) && (fault->kind != CHAOS_KILL_PS || fault->arrow < 0))
            fault_happens(chaos, fault, now);
        if (now >= fault->ends)
            fault_ends(chaos, fault);
    }
    fault_supervise(chaos, now);
}

/* chaos_fault_last -- see the header. */
void chaos_fault_last(struct chaos *chaos)
{
    uint64_t now = world_now_ns(chaos->world);

    chaos->ends = true;
    if (!chaos_runs(chaos) || now < chaos->accident_at + FAULT_NOTICED_NS) /* somebody is lost already */
        chaos->may_fail = true;
    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        const struct chaos_fault *fault = &chaos->faults[i];
        bool lasts = fault->ends != CLOCK_NEVER && fault->lasts >= FAULT_LONG_MS * CLOCK_MS,
             cuts = fault->kind == CHAOS_BREAK && fault->done && !chaos->rebuilds;
        if (lasts || cuts)
            chaos->may_fail = true;
    }
}

/* chaos_fault_deadline -- see the header. */
uint64_t chaos_fault_deadline(const struct chaos *chaos)
{
    uint64_t earliest = CLOCK_NEVER;

    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        const struct chaos_fault *fault = &chaos->faults[i];
        bool arrow = fault->kind == CHAOS_KILL_PS && fault->arrow >= 0;
        if (!fault->done && !arrow && fault->due < earliest)
            earliest = fault->due;
        if (fault->ends < earliest)
            earliest = fault->ends;
    }
    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        if (chaos->start_at[w] < earliest)
            earliest = chaos->start_at[w];
    return earliest;
}
