/* SPDX-License-Identifier: BSD-3-Clause */
/* fault -- what goes wrong on purpose, and what is repeated although it was said before. */
#include "tests/simulation/inside.h"
#include "transport/base/clock.h"

#define FAULT_BREAKS_MAX 8
#define FAULT_BREAK_NS (CLOCK_MS / 2) /* between two of them, at most */
#define FAULT_WAIT_PER_MILLE 980      /* with R > T: to wait on for a worker between two contributions */
#define FAULT_SILENT_MS 2500 /* until who was given up wakes, at least: every peer's time for it is over */
#include "worker/session/inside.h"

/* fault_plan_policy -- what becomes of a job in strict mode that loses a worker. What is drawn here changes nothing else of the job. */
static void fault_plan_policy(struct play *play)
{
    struct random_source random;

    random_seed(&random, play->shape.seed ^ UINT64_C(0x706f6c6963));
    play->shape.shrinks = play->shape.mode < SHAPE_TF && random_chance(&random, 500);
}

/* play_plan_fault -- which, when, to whom. */
void play_plan_fault(struct play *play)
{
    struct random_source *random = &play->random;

    play->fault = random_chance(random, 400) ? PLAY_NOTHING : 1 + (int)random_below(random, PLAY_LEAVE);
    if (play->shape.small) /* the model knows deaths, and nothing else */
        play->fault = random_chance(random, 500)   ? PLAY_NOTHING
                      : random_chance(random, 600) ? PLAY_KILL_WORKER
                                                   : PLAY_LEAVE;
    play->fault_at =
        random_below(random, 5) == 0 ? random_below(random, 20 * CLOCK_MS) : random_below(random, CLOCK_MS);
    if (play->shape.small)
        play->fault_at = random_below(random, 3 * CLOCK_MS);
    bool dies = play->fault == PLAY_KILL_WORKER || play->fault == PLAY_FREEZE_WORKER;
    if (dies && random_chance(random, 600)) {
        play->fault_at = CLOCK_NEVER;
        play->fault_after = random_below(random, (uint64_t)play->shape.steps * play->shape.replicas);
    }
    if (dies)
        fault_plan_policy(play);
    play->fault_worker = (uint32_t)random_below(random, play->shape.workers);
    play->fault_ps = (uint32_t)random_below(random, play->shards);
}

/* play_fault_due -- see inside.h. */
bool play_fault_due(const struct play *play, uint64_t now)
{
    uint64_t made = 0;

    if (play->fault == PLAY_NOTHING || play->fault == PLAY_LEAVE || play->fault_done)
        return false;
    if (play->fault_at != CLOCK_NEVER)
        return now >= play->fault_at;
    for (uint32_t w = 0; w < play->shape.workers; w++)
        made += play->logs[w].count;
    return made >= play->fault_after && play_running(play);
}

/* play_given_up -- see inside.h. */
bool play_given_up(const struct play *play, uint32_t worker)
{
    return !play_alive(play->worker[worker].node) || (play->wakes_late && worker == play->fault_worker);
}

/* play_running -- see inside.h. */
bool play_running(const struct play *play)
{
    for (uint32_t s = 0; s < play->shards; s++)
        if (play->ps[s].shard->models[0] == NULL || play->ps[s].shard->models[0]->phase != PHASE_RUNNING)
            return false;
    return true;
}

/* fault_worker_dies -- the others go on where the mode can do without, or the job ends and says who it was. */
static void fault_worker_dies(struct play *play)
{
    const struct trainee *trainee = &play->worker[play->fault_worker].trainee;

    if (trainee_over(trainee))
        return;
    bool running = play_running(play);
    play->may_fail =
        !running || !shape_spares(&play->shape) || play->shape.workers == 1; /* somebody must be left */
    play->must_name = running && !shape_spares(&play->shape);
    play->counts->spared += !play->may_fail;
    play->counts->shrunk += !play->may_fail && play->shape.shrinks;
}

/* fault_link -- a connection between a worker and a ps that stands, at its active end; NULL: there is none. */
static struct link *fault_link(struct play *play, uint32_t w, uint32_t s, struct random_source *random)
{
    struct session *session = play->worker[w].trainee.session;

    if (session == NULL)
        return NULL;
    struct session_shard *shard = &session->shards[s];
    struct link *link = &shard->control.link;
    uint32_t lane = (uint32_t)random_below(random, play->lanes);
    if (shard->welcome && random_chance(random, 600))
        link = random_chance(random, 500) ? &shard->push[lane].link : &shard->pull[lane].link;
    return link->endpoint != NULL && link->state != LINK_CONNECTING ? link : NULL;
}

/* fault_breaks -- breaks it. */
static void fault_breaks(struct play *play, struct link *link)
{
    if (!play->rebuilds)
        play->may_fail = true;
    world_disconnect(link->endpoint);
}

/* fault_disconnect -- one connection breaks; the job goes on if it is made anew. */
static void fault_disconnect(struct play *play)
{
    struct link *link = fault_link(play, play->fault_worker, play->fault_ps, &play->random);

    if (link == NULL)
        return;
    fault_breaks(play, link);
    play->counts->disconnects++;
}

/*
 * play_plan_breaks -- see inside.h. Connections break in jobs in which nobody dies, so that every one of them must end as if nothing had happened. What is drawn here
 * changes nothing else of the job.
 */
void play_plan_breaks(struct play *play)
{
    random_seed(&play->breaks, play->shape.seed ^ UINT64_C(0x6272656b));
    play->rebuilds = random_chance(&play->breaks, 600);
    play->break_at = CLOCK_NEVER;
    bool harmless =
        play->fault == PLAY_NOTHING || play->fault == PLAY_LEAVE || play->fault == PLAY_DISCONNECT;
    if (!play->rebuilds || !harmless)
        return;
    play->breaks_left = (uint32_t)random_below(&play->breaks, FAULT_BREAKS_MAX + 1);
    if (play->breaks_left > 0)
        play->break_at = random_below(&play->breaks, FAULT_BREAK_NS);
}

/* fault_between -- has a worker handed in several contributions to a step that has not been decided? */
static bool fault_between(const struct play *play, uint32_t w)
{
    const struct session_model *model = play->worker[w].trainee.model;

    return model != NULL && model->state == MODEL_COMMITTED && model->sending > model->token_next;
}

/* play_break_connections -- see inside.h. Now and then several at once; with R > T most of them between two contributions to a step. */
void play_break_connections(struct play *play, uint64_t now)
{
    struct random_source *random = &play->breaks;

    while (play->breaks_left > 0 && now >= play->break_at) {
        uint32_t w = (uint32_t)random_below(random, play->shape.workers),
                 s = (uint32_t)random_below(random, play->shards);
        if (play->shape.mode == SHAPE_MORE && !fault_between(play, w) &&
            random_chance(random, FAULT_WAIT_PER_MILLE))
            return;
        struct link *link = fault_link(play, w, s, random);
        if (link != NULL) {
            fault_breaks(play, link);
            play->counts->broken++;
        }
        play->breaks_left--;
        if (random_chance(random, 700))
            play->break_at = now + 1 + random_below(random, FAULT_BREAK_NS);
    }
    if (play->breaks_left == 0)
        play->break_at = CLOCK_NEVER;
}

/* fault_plan_thaw -- whoever was given up may wake, and must find out. */
static void fault_plan_thaw(struct play *play, uint64_t now)
{
    struct random_source random;

    random_seed(&random, play->shape.seed ^ UINT64_C(0x77616b65));
    if (!random_chance(&random, 500))
        return;
    play->thaw_at = now + (FAULT_SILENT_MS + random_below(&random, FAULT_SILENT_MS)) * CLOCK_MS;
    play->wakes_late = true;
}

/* play_break -- the planned fault. */
void play_break(struct play *play, uint64_t now)
{
    struct play_worker *worker = &play->worker[play->fault_worker];
    struct play_ps *ps = &play->ps[play->fault_ps];

    play->fault_done = true;
    switch (play->fault) {
    case PLAY_KILL_WORKER:
        fault_worker_dies(play);
        world_kill(worker->node);
        play->counts->killed_workers++;
        break;
    case PLAY_FREEZE_WORKER:
        fault_worker_dies(play);
        world_freeze(worker->node);
        play->counts->frozen++;
        fault_plan_thaw(play, now);
        break;
    case PLAY_KILL_PS:
        play->may_fail = true;
        world_kill(ps->node);
        play->counts->killed_ps++;
        break;
    case PLAY_FREEZE_SHORT:
        world_freeze(worker->node);
        play->thaw_at = now + (1 + random_below(&play->random, 300)) * CLOCK_MS;
        play->counts->frozen++;
        break;
    case PLAY_PARTITION:
        play->may_fail = true;
        world_partition(worker->node, ps->node);
        play->counts->partitions++;
        break;
    case PLAY_DISCONNECT: fault_disconnect(play); break;
    default: break; /* PLAY_LEAVE is the trainee's own doing */
    }
}

/* play_thaw -- the end of a short freeze. */
void play_thaw(struct play *play, uint64_t now)
{
    if (play->thaw_at == 0 || now < play->thaw_at)
        return;
    world_thaw(play->worker[play->fault_worker].node);
    play->thaw_at = 0;
    play->counts->thawed += !play->wakes_late;
    play->counts->woken += play->wakes_late;
}

/* fault_sends -- is its newest contribution on its way? */
static bool fault_sends(const struct trainee *trainee)
{
    const struct contribution *last = contribution_last(trainee->log);

    return last != NULL && last->answer.times == 0 && trainee->state != TRAINEE_PULLING;
}

/* fault_notify -- one of the newest contribution that was sent as a whole, again; best while its slot is being written anew. */
static void fault_notify(struct play *play, uint32_t w, uint32_t s)
{
    struct trainee *trainee = &play->worker[w].trainee;
    struct session_model *model = trainee->model;
    uint32_t lane = (uint32_t)random_below(&play->random, play->lanes);
    struct link *push = &trainee->session->shards[s].push[lane].link;
    uint32_t group = (uint32_t)random_below(&play->random, model->plan->shard[s].groups);
    uint64_t sent = trainee->log->count - (trainee->open != NULL),
             back = fault_sends(trainee) ? model->depth : 0;
    const struct contribution *last = sent > back ? contribution_at(trainee->log, sent - back - 1) : NULL;

    if (push->state != LINK_UP || last == NULL || last->weight == 0 || last->answer.times == 0 ||
        model->plan->shard[s].spans[group][lane].fragments == 0)
        return;
    uint32_t value =
        slot_notify(model->number, (uint32_t)(last->sequence % model->depth), group, last->sequence);
    if (push->endpoint->transport->endpoint_notify(push->endpoint, value) == 0)
        play->counts->late_notifies++;
}

/* play_repeat -- see inside.h. */
void play_repeat(struct play *play, uint64_t now)
{
    uint32_t w = (uint32_t)random_below(&play->random, play->shape.workers),
             s = (uint32_t)random_below(&play->random, play->shards);
    const struct trainee *trainee = &play->worker[w].trainee;
    struct shard *leader = play->ps[0].shard;

    if (!play_alive(play->worker[w].node) || trainee_over(trainee) || trainee->model == NULL ||
        trainee->log->count == 0)
        return;
    if (fault_sends(trainee) ? random_chance(&play->random, 800) : random_chance(&play->random, 300)) {
        fault_notify(play, w, s);
        return;
    }
    if (!play_alive(play->ps[0].node) || !play_running(play) || leader->ending)
        return;
    if (s != 0 && random_chance(&play->random, 500)) {
        if (play->old_commit_there && link_send(&leader->peers[s].link, &play->old_commit, now) == 0)
            play->counts->repeated_commits++;
    } else if (play->worker[w].old_token.kind == MESSAGE_TOKEN) {
        shard_send(leader, w, &play->worker[w].old_token, now);
        play->counts->repeated_tokens++;
    }
}
