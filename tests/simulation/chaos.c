/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/chaos.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/chaos_inside.h"

#define CHAOS_LIMIT_NS (UINT64_C(120000) * CLOCK_MS) /* no job outlives this much virtual time */
#define CHAOS_ROUNDS 4000000
#define CHAOS_IDLE_NS                                                                                        \
    1000 /* of a round in which somebody waits to try again, and twice that in each that follows, up to 64 times */

struct chaos *chaos_played;

uint64_t __real_clock_now(void);
uint64_t __wrap_clock_now(void);
void __real_proof_random(void *data, size_t bytes);
void __wrap_proof_random(void *data, size_t bytes);

/* clock_now -- the world's, for those that read a clock. */
uint64_t __wrap_clock_now(void)
{
    return chaos_played != NULL ? world_now_ns(chaos_played->world) : __real_clock_now();
}

/* proof_random -- from the seed. */
void __wrap_proof_random(void *data, size_t bytes)
{
    if (chaos_played == NULL) {
        __real_proof_random(data, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = (uint8_t)random_next(&chaos_played->entropy);
}

/* chaos_wrong -- see inside.h. */
void chaos_wrong(struct chaos *chaos, const char *format, ...)
{
    va_list arguments;

    if (chaos->wrong[0] != 0)
        return;
    va_start(arguments, format);
    vsnprintf(chaos->wrong, sizeof(chaos->wrong), format, arguments);
    va_end(arguments);
}

/* chaos_acts -- see inside.h. */
bool chaos_acts(const struct world_node *node)
{
    return !world_node_killed(node) && !world_node_frozen(node);
}

/* chaos_say -- see inside.h. */
void chaos_say(void *context, int level, const char *line)
{
    const struct world_node *node = context;

    if (chaos_played != NULL && chaos_played->trace != NULL)
        fprintf(chaos_played->trace, "%llu node %u says (%d): %s\n",
                (unsigned long long)world_now_ns(chaos_played->world), node->index, level, line);
}

/* chaos_fabric -- see inside.h. */
int chaos_fabric(struct world_node *node, struct stepgate_fabric **out)
{
    const struct stepgate_fabric_options options = {
        .size = sizeof(options), .peer_timeout_ms = 2000, .connect_timeout_ms = 1000, .world = node};

    return simulated_transport()->fabric_open(&options, out);
}

/* chaos_see_lane -- see inside.h. */
void chaos_see_lane(const struct board *board, uint32_t lane, const void *apply)
{
    for (uint32_t s = 0; s < chaos_played->shards; s++) {
        struct shard *shard = chaos_played->ps[s].shard;
        if (shard != NULL && shard->models[0] != NULL && board == &shard->models[0]->board)
            chaos_played->ps[s].seen[lane] = (struct chaos_lane){.apply = apply, .board = board};
    }
}

/* chaos_see_apply -- see inside.h. */
void chaos_see_apply(const void *apply)
{
    for (uint32_t s = 0; s < chaos_played->shards; s++)
        for (uint32_t l = 0; l < chaos_played->lanes; l++)
            if (chaos_played->ps[s].seen[l].apply == apply) {
                chaos_oracle_ordered(chaos_played, s, &chaos_played->ps[s].seen[l]);
                chaos_fault_arrow(chaos_played, CHAOS_APPLYING, chaos_played->ps[s].shard);
            }
}

/* chaos_draw_crowd -- from 2 to 6 workers. */
static void chaos_draw_crowd(struct chaos *chaos)
{
    struct shape *shape = &chaos->shape;
    uint32_t more = (uint32_t)random_below(&chaos->random, 3);

    if (shape->workers == 1)
        more++;
    shape->workers += more;
    if (shape->mode == SHAPE_EQUAL || shape->mode == SHAPE_MORE)
        shape->replicas += more;
}

/* chaos_draw -- what the job is, on how much it runs, and how it takes losses. */
static void chaos_draw(struct chaos *chaos, int mode)
{
    static const int policies[] = {CHAOS_LOST_WAIT, CHAOS_LOST_WAIT, CHAOS_LOST_WAIT, CHAOS_LOST_SHRINK,
                                   CHAOS_LOST_FAIL};
    struct random_source *random = &chaos->random;
    struct shape *shape = &chaos->shape;

    shape_draw(shape, random, mode, false);
    chaos_draw_crowd(chaos);
    shape->steps += (uint32_t)random_below(random, 6);
    if (shape->non_finite == MODEL_FAIL) /* such a job ends by itself */
        shape->non_finite = MODEL_PROPAGATE;
    chaos->exact = shape->mode < SHAPE_TF;
    chaos->may_fail = shape->mode == SHAPE_TF; /* tokens may run out */
    chaos->lost = policies[random_below(random, sizeof(policies) / sizeof(policies[0]))];
    if (!chaos->exact)
        chaos->lost = CHAOS_LOST_FAIL;
    shape->shrinks = chaos->exact && chaos->lost == CHAOS_LOST_SHRINK;
    chaos->fixed = shape_lockstep(shape) && chaos->lost != CHAOS_LOST_SHRINK;
    chaos->rewinds = random_chance(random, 700);
    chaos->rebuilds = random_chance(random, 600);
    chaos->shards = 1 + (uint32_t)random_below(random, CHAOS_SHARDS_MAX);
    chaos->lanes = 1 + (uint32_t)random_below(random, CHAOS_LANES_MAX);
    chaos->group_bytes =
        random_chance(random, 600) ? UINT64_C(4096) << random_below(random, 3) : UINT64_C(1) << 20;
    chaos->cut_bytes = random_chance(random, 500) ? 20000 : UINT64_C(1) << 28;
    chaos->chunk_bytes = UINT64_C(4096) << (2 * random_below(random, 5));
    chaos->secret.bytes = 32;
    for (size_t i = 0; i < chaos->secret.bytes; i++)
        chaos->secret.data[i] = (uint8_t)random_next(random);
    random_seed(&chaos->work, random_next(random));
    random_seed(&chaos->entropy, random_next(random));
    store_start(&chaos->store, 1 + random_below(random, 4));
    chaos_fault_plan(chaos);
}

/* chaos_set_up -- everything there is before anybody moves. */
static int chaos_set_up(struct chaos *chaos)
{
    int status = chaos_oracle_start(chaos);

    for (uint32_t s = 0; s < chaos->shards; s++) {
        chaos->ps[s] = (struct chaos_ps){.chaos = chaos, .number = s, .start_at = CLOCK_NEVER};
        snprintf(chaos->ps[s].address, CHAOS_ADDRESS_BYTES, "ps%u:%u", s, 7000 + s);
    }
    for (uint32_t s = 0; status == 0 && s < chaos->shards; s++)
        status = chaos_ps_start(&chaos->ps[s], false);
    for (uint32_t w = 0; status == 0 && w < chaos->shape.workers; w++)
        status = chaos_worker_start(chaos, w);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        chaos_wrong(chaos, "the job could not be set up: %d %s", status, error.text);
    }
    return status;
}

/* chaos_runs -- see inside.h. */
bool chaos_runs(const struct chaos *chaos)
{
    if (chaos->rewinds && store_newest(&chaos->store) == UINT64_MAX)
        return false;
    for (uint32_t s = 0; s < chaos->shards; s++) {
        const struct shard *shard = chaos->ps[s].shard;
        if (shard == NULL || shard->models[0] == NULL || shard->models[0]->phase != PHASE_RUNNING)
            return false;
    }
    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        if (!chaos->worker[w]->begun)
            return false;
    return true;
}

/* chaos_round -- every actor once, in a random order, some left out. Returns 1 if any did something. */
static int chaos_round(struct chaos *chaos, bool all)
{
    uint32_t parts = 1 + chaos->lanes, actors = chaos->shards * parts + chaos->process_count;
    uint32_t start = (uint32_t)random_below(&chaos->random, actors);
    int busy = 0;

    for (uint32_t i = 0; i < actors; i++) {
        uint32_t a = (start + i) % actors;
        if (!all && random_chance(&chaos->random, 350))
            continue;
        if (a >= chaos->shards * parts)
            busy |= chaos_worker_move(&chaos->processes[a - chaos->shards * parts]);
        else
            busy |= chaos_ps_move(&chaos->ps[a / parts], a % parts);
    }
    return busy;
}

/* chaos_earliest -- when the next actor or plan wants to act. */
static uint64_t chaos_earliest(const struct chaos *chaos)
{
    uint64_t earliest = chaos_fault_deadline(chaos);

    for (uint32_t s = 0; s < chaos->shards; s++) {
        uint64_t one = chaos_ps_deadline(&chaos->ps[s]);
        earliest = one < earliest ? one : earliest;
    }
    for (uint32_t p = 0; p < chaos->process_count; p++) {
        uint64_t one = chaos_worker_deadline(&chaos->processes[p]);
        earliest = one < earliest ? one : earliest;
    }
    return earliest;
}

/* chaos_is_over -- everybody that can still act, or will again, has ended. */
static bool chaos_is_over(const struct chaos *chaos)
{
    for (uint32_t i = 0; i < chaos->fault_count; i++)
        if (chaos->faults[i].ends != CLOCK_NEVER)
            return false;
    for (uint32_t s = 0; s < chaos->shards; s++) {
        const struct chaos_ps *ps = &chaos->ps[s];
        if (ps->start_at != CLOCK_NEVER || (ps->shard != NULL && !ps->over && chaos_acts(ps->node)))
            return false;
    }
    for (uint32_t p = 0; p < chaos->process_count; p++)
        if (chaos->processes[p].job != NULL && chaos_acts(chaos->processes[p].node))
            return false;
    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        if (chaos->start_at[w] != CLOCK_NEVER)
            return false;
    return true;
}

/* chaos_stuck -- words who still waits. */
static void chaos_stuck(struct chaos *chaos)
{
    char who[400] = "";
    size_t used = 0;

    for (uint32_t s = 0; s < chaos->shards && used < sizeof(who); s++) {
        const struct shard *shard = chaos->ps[s].shard;
        if (shard != NULL && !chaos->ps[s].over)
            used += (size_t)snprintf(who + used, sizeof(who) - used, " ps%u(step %llu)", s,
                                     shard->models[0] != NULL ? (unsigned long long)shard->models[0]->step
                                                              : 0ull);
    }
    for (uint32_t p = 0; p < chaos->process_count && used < sizeof(who); p++) {
        const struct chaos_worker *worker = &chaos->processes[p];
        if (worker->job != NULL)
            used += (size_t)snprintf(who + used, sizeof(who) - used, " worker%u(state %d, step %llu%s)",
                                     worker->rank, worker->state, (unsigned long long)worker->step,
                                     worker->replaced ? ", replaced" : "");
    }
    chaos_wrong(chaos, "a wait did not end within %llu ms of virtual time:%s",
                (unsigned long long)(world_now_ns(chaos->world) / CLOCK_MS), who);
}

/* chaos_sleep -- nobody has anything to do, or nothing that can't wait: time passes. */
static bool chaos_sleep(struct chaos *chaos, bool busy)
{
    uint64_t due = world_next_time(chaos->world), timer = chaos_earliest(chaos),
             now = world_now_ns(chaos->world);

    chaos->idle_rounds = busy ? 0 : chaos->idle_rounds + 1;
    if (busy && (random_chance(&chaos->random, 300) || due > now + CLOCK_MS / 10))
        return true; /* processors are fast: nobody sleeps through a time-out with work before him */
    if (due <= timer || busy) {
        if (world_step(chaos->world) == 0 && !busy)
            world_advance(chaos->world, CLOCK_MS);
    } else if (timer == CLOCK_NEVER) {
        return false;
    } else {
        unsigned times = chaos->idle_rounds < 6 ? chaos->idle_rounds : 6;
        world_advance(chaos->world, timer > now ? timer - now : (uint64_t)CHAOS_IDLE_NS << times);
    }
    return true;
}

/* chaos_run -- until everybody has ended. */
static void chaos_run(struct chaos *chaos)
{
    for (uint64_t round = 0; chaos->wrong[0] == 0 && !chaos_is_over(chaos); round++) {
        uint64_t now = world_now_ns(chaos->world);
        if (now > CHAOS_LIMIT_NS || round > CHAOS_ROUNDS) {
            chaos_stuck(chaos);
            return;
        }
        chaos->ran = chaos->ran || chaos_runs(chaos);
        chaos_fault_move(chaos, now);
        chaos_repeat(chaos, now);
        int busy = chaos_round(chaos, false);
        if (!busy)
            busy = chaos_round(chaos, true);
        if (!chaos_is_over(chaos) && !chaos_sleep(chaos, busy)) {
            chaos_stuck(chaos);
            return;
        }
    }
}

/* chaos_complete -- has the job come to its end? */
static bool chaos_complete(const struct chaos *chaos)
{
    for (uint32_t s = 0; s < chaos->shards; s++)
        if (chaos->ps[s].shard == NULL || !chaos->ps[s].over || chaos->ps[s].status != 0)
            return false;
    for (uint32_t w = 0; w < chaos->shape.workers; w++)
        if (chaos->worker[w]->state == CHAOS_DONE)
            return true;
    return false;
}

/* chaos_may_miss -- was the worker lost, and did the others come to their end without it? Then whoever is started in its place finds nobody. */
static bool chaos_may_miss(const struct chaos *chaos, const struct chaos_worker *worker)
{
    int code = worker->error.code < 0 ? -worker->error.code : worker->error.code;

    return chaos_complete(chaos) && (world_node_killed(worker->node) || code == STEPGATE_ELOST ||
                                     code == STEPGATE_EJOIN || code == STEPGATE_EENDED);
}

/* chaos_judge -- how everybody ended. */
static void chaos_judge(struct chaos *chaos)
{
    bool complete = chaos_complete(chaos);

    for (uint32_t s = 0; s < chaos->shards && !chaos->may_fail; s++)
        if (!complete && chaos->ps[s].over && chaos->ps[s].status != 0)
            chaos_wrong(chaos, "ps %u ended with %d: %s", s, chaos->ps[s].status, chaos->ps[s].error.text);
    for (uint32_t w = 0; w < chaos->shape.workers && !chaos->may_fail; w++)
        if (chaos->worker[w]->state != CHAOS_DONE && !chaos_may_miss(chaos, chaos->worker[w]))
            chaos_wrong(chaos, "worker %u ended with %d: %s", w, chaos->worker[w]->error.code,
                        chaos->worker[w]->error.text);
    if (!complete && !chaos->may_fail)
        chaos_wrong(chaos, "the job has not come to its end");
    if (complete)
        chaos_oracle_judge(chaos);
}

/* chaos_count -- what there was. */
static void chaos_count(struct chaos *chaos)
{
    struct chaos_counts *counts = chaos->counts;
    struct world_counts one;
    uint64_t *to = (uint64_t *)(void *)&counts->world;
    const uint64_t *from = (const uint64_t *)(const void *)&one;
    bool complete = chaos_complete(chaos), faults = false;

    for (uint32_t i = 0; i < chaos->fault_count; i++)
        faults = faults || chaos->faults[i].done;
    counts->jobs++;
    counts->modes[chaos->shape.mode]++;
    counts->policies[chaos->lost] += chaos->exact;
    counts->several_shards += chaos->shards > 1;
    counts->rewinding += chaos->rewinds;
    counts->finished += complete;
    counts->finished_after += complete && faults;
    counts->failed += !complete;
    counts->checkpoints += chaos->store.completed;
    counts->restores += chaos->store.loaded;
    world_counters(chaos->world, &one);
    for (size_t i = 0; i < sizeof(one) / sizeof(uint64_t); i++)
        to[i] += from[i];
}

/* chaos_describe -- what kind of job it was: the end of a trace. */
static void chaos_describe(const struct chaos *chaos, FILE *out)
{
    static const char *const kinds[] = {"kill worker", "kill ps", "freeze worker", "freeze ps",
                                        "pause",       "part",    "break"};
    static const char *const losts[] = {"fail", "wait", "shrink"};
    const struct shape *shape = &chaos->shape;

    fprintf(out,
            "job: mode %s, R %u, T %u, steps %u, %u ps, %u lanes, lost worker %s, lost ps %s, reconnects %d, "
            "checkpoint every %llu steps, non-finite %d\n",
            shape_mode_name(shape->mode), shape->replicas, shape->workers, shape->steps, chaos->shards,
            chaos->lanes, losts[chaos->lost], chaos->rewinds ? "rewind" : "fail", chaos->rebuilds,
            (unsigned long long)chaos->store.archive.every_steps, shape->non_finite);
    for (uint32_t i = 0; i < chaos->fault_count; i++) {
        const struct chaos_fault *f = &chaos->faults[i];
        fprintf(out, "fault: %s%s, worker %u, ps %u, after %llu steps, arrow %d, lasts %llu ms, %s\n",
                kinds[f->kind], f->leader ? " (leader)" : "", f->rank, f->ps, (unsigned long long)f->after,
                f->arrow, (unsigned long long)(f->lasts / CLOCK_MS), f->done ? "done" : "not done");
    }
}

/* chaos_tear_down -- everything goes, and nothing of the transport is left. */
static void chaos_tear_down(struct chaos *chaos)
{
    for (uint32_t p = 0; p < chaos->process_count; p++)
        chaos_worker_clear(&chaos->processes[p]);
    for (uint32_t s = 0; s < chaos->shards; s++)
        chaos_ps_clear(&chaos->ps[s], false);
    if (chaos->world != NULL && world_objects(chaos->world) != 0)
        chaos_wrong(chaos, "%u objects of the transport were left behind", world_objects(chaos->world));
    chaos_oracle_clear(chaos);
    store_clear(&chaos->store);
    world_delete(&chaos->world);
}

/* chaos_trace -- a line of the world's. */
static void chaos_trace(void *context, const char *line)
{
    fprintf(context, "%s\n", line);
}

/* chaos_seed -- see chaos.h. */
int chaos_seed(uint64_t seed, int mode, FILE *trace, struct chaos_counts *counts, uint64_t *hash, char *why,
               size_t size)
{
    struct chaos *chaos = calloc(1, sizeof(*chaos));
    struct world_options options;

    snprintf(why, size, "no memory");
    if (chaos == NULL)
        return -1;
    chaos->counts = counts;
    chaos->trace = trace;
    for (uint32_t w = 0; w < SHAPE_WORKERS_MAX; w++)
        chaos->start_at[w] = CLOCK_NEVER;
    random_seed(&chaos->random, seed ^ UINT64_C(0x6368616f73));
    chaos_draw(chaos, mode);
    world_options_default(&options, random_next(&chaos->random));
    options.mapped = random_chance(&chaos->random, 400);
    options.trace = trace != NULL ? chaos_trace : NULL;
    options.trace_context = trace;
    if (world_new(&options, &chaos->world) == 0) {
        chaos_played = chaos;
        if (chaos_set_up(chaos) == 0)
            chaos_run(chaos);
        if (chaos->wrong[0] == 0)
            chaos_judge(chaos);
        chaos_count(chaos);
        if (trace != NULL)
            chaos_describe(chaos, trace);
        *hash = world_trace_hash(chaos->world);
    } else {
        chaos_wrong(chaos, "no memory for a world");
    }
    chaos_tear_down(chaos);
    chaos_played = NULL;
    snprintf(why, size, "%s", chaos->wrong);
    int status = chaos->wrong[0] != 0 ? -1 : 0;
    free(chaos);
    return status;
}
