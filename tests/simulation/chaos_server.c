/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos_server -- a ps of a chaos: its process, as a server has it, which may go back to a checkpoint and may be started again. */
#include <stdio.h>
#include <string.h>

#include "ps/protocol/rewind.h"
#include "tests/simulation/chaos_inside.h"

#define SERVER_RETRY_MS 50       /* until an address that is still in use is tried again */
#define SERVER_ASIDE_NS CLOCK_MS /* that work aside takes, at most; seldom 40 times that */

/* server_aside -- what takes long is done later. */
static int server_aside(void *context, void (*work)(void *what), void *what)
{
    struct chaos_ps *ps = context;
    struct chaos *chaos = ps->chaos;
    uint64_t ns =
        random_below(&chaos->work, random_chance(&chaos->work, 50) ? 40 * SERVER_ASIDE_NS : SERVER_ASIDE_NS);

    if (ps->aside_count == CHAOS_ASIDES_MAX)
        return error_set(STEPGATE_ENOMEM, 0, "", "too much goes on aside");
    ps->asides[ps->aside_count++] =
        (struct chaos_aside){.work = work, .what = what, .at = world_now_ns(chaos->world) + ns};
    return 0;
}

/* server_asides -- those whose time has come, or all. Returns 1 if one was done. */
static int server_asides(struct chaos_ps *ps, bool all)
{
    uint64_t now = world_now_ns(ps->chaos->world);
    int done = 0;

    for (uint32_t i = 0; i < ps->aside_count;) {
        struct chaos_aside aside = ps->asides[i];
        if (!all && now < aside.at) {
            i++;
            continue;
        }
        ps->asides[i] = ps->asides[--ps->aside_count];
        aside.work(aside.what);
        done = 1;
    }
    return done;
}

/* server_lane -- with its queue. */
static int server_lane(struct chaos_ps *ps, uint32_t l, uint64_t incarnation)
{
    struct chaos *chaos = ps->chaos;
    int status = simulated_transport()->queue_new(ps->fabric, 64, &ps->lane_queues[l]);
    const struct lane_config config = {.number = l,
                                       .workers = chaos->shape.workers,
                                       .shard = ps->number,
                                       .shards = chaos->shards,
                                       .queues = {ps->lane_queues[l]},
                                       .job = hello_job_hash("chaos"),
                                       .incarnation = incarnation,
                                       .secret = &chaos->secret,
                                       .to_shard = &ps->mailbox};

    return status != 0 ? status : lane_new(&config, &ps->lanes[l]);
}

/* server_shard -- once its lanes are there. */
static int server_shard(struct chaos_ps *ps, uint64_t incarnation, bool again)
{
    static const int lost[CHAOS_LOSTS] = {MODE_LOST_FAIL, MODE_LOST_WAIT, MODE_LOST_SHRINK};
    struct chaos *chaos = ps->chaos;
    const struct shard_config config = {.number = ps->number,
                                        .shards = chaos->shards,
                                        .workers = chaos->shape.workers,
                                        .lanes = chaos->lanes,
                                        .listen = ps->address,
                                        .leader = ps->number != 0 ? chaos->ps[0].address : NULL,
                                        .fabrics = {{ps->fabric, ps->queue}},
                                        .lane_list = ps->lanes,
                                        .mailbox = &ps->mailbox,
                                        .aside = server_aside,
                                        .aside_context = ps,
                                        .job = "chaos",
                                        .secret = &chaos->secret,
                                        .incarnation = incarnation,
                                        .group_bytes = chaos->group_bytes,
                                        .cut_bytes = chaos->cut_bytes,
                                        .kernels = (enum optimizer_kind)optimizer_kind_of("auto"),
                                        .ahead =
                                            chaos->shape.seed / 2 % 2 == 0 ? SHARD_AHEAD_ON : SHARD_AHEAD_OFF,
                                        .join_timeout_ms = CHAOS_JOIN_MS,
                                        .liveness_ms = CHAOS_LIVENESS_MS,
                                        .close_timeout_ms = 500,
                                        .lost = lost[chaos->lost],
                                        .return_timeout_ms = CHAOS_RETURN_MS,
                                        .reconnect = chaos->rebuilds ? 3 : 0,
                                        .archive = &chaos->store.archive,
                                        .rewinds = chaos->rewinds,
                                        .again = again,
                                        .log = {chaos_say, ps->node, LOG_WARN}};

    return shard_new(&config, world_now_ns(chaos->world), &ps->shard);
}

/* chaos_ps_start -- see the header. */
int chaos_ps_start(struct chaos_ps *ps, bool again)
{
    struct chaos *chaos = ps->chaos;
    uint64_t incarnation = ++chaos->incarnations;
    char name[32];

    snprintf(name, sizeof(name), "ps%u", ps->number);
    mailbox_init(&ps->mailbox);
    memset(ps->seen, 0, sizeof(ps->seen));
    ps->start_at = CLOCK_NEVER;
    int status = again ? 0 : world_node_new(chaos->world, name, &ps->node);
    if (status == 0)
        status = chaos_fabric(ps->node, &ps->fabric);
    if (status == 0)
        status = simulated_transport()->queue_new(ps->fabric, 64, &ps->queue);
    for (uint32_t l = 0; status == 0 && l < chaos->lanes; l++)
        status = server_lane(ps, l, incarnation);
    if (status == 0)
        status = server_shard(ps, incarnation, again);
    if (ps->number == 0) {
        chaos->leads = false;
        chaos->lives++;
    }
    return status;
}

/* chaos_ps_clear -- see the header. */
void chaos_ps_clear(struct chaos_ps *ps, bool dies)
{
    if (dies)
        ps->aside_count = 0;
    server_asides(ps, true);
    for (uint32_t l = 0; l < CHAOS_LANES_MAX; l++)
        lane_delete(&ps->lanes[l]);
    shard_delete(&ps->shard);
    for (uint32_t l = 0; l < CHAOS_LANES_MAX; l++)
        if (ps->lane_queues[l] != NULL)
            ps->lane_queues[l]->transport->queue_delete(&ps->lane_queues[l]);
    if (ps->queue != NULL)
        ps->queue->transport->queue_delete(&ps->queue);
    if (ps->fabric == NULL)
        return;
    ps->fabric->transport->fabric_delete(&ps->fabric);
    mailbox_clear(&ps->mailbox);
}

/* server_goes_back -- has it failed for the loss of another ps, and not too often? */
static bool server_goes_back(struct chaos_ps *ps)
{
    struct shard_stats stats;

    if (ps->status == 0 || !rewind_for(&ps->error) || !ps->chaos->rewinds || !shard_can_rewind(ps->shard))
        return false;
    shard_stats(ps->shard, &stats);
    if (stats.steps > 0)
        ps->rewinds = 0;
    return ++ps->rewinds <= REWINDS_IN_A_ROW;
}

/* server_ends -- for good, or to begin again where the one before listened. */
static void server_ends(struct chaos_ps *ps)
{
    struct chaos *chaos = ps->chaos;

    if (ps->status != 0)
        error_save(&ps->error);
    if (!server_goes_back(ps)) {
        ps->over = true;
        if (chaos->trace != NULL)
            fprintf(chaos->trace, "%llu ps%u ends with %d: %s\n",
                    (unsigned long long)world_now_ns(chaos->world), ps->number, ps->status,
                    ps->status != 0 ? ps->error.text : "");
        return;
    }
    chaos_ps_clear(ps, false);
    chaos->counts->ps_back++;
    ps->again = true;
    ps->start_at = world_now_ns(chaos->world);
}

/* server_start -- again: what is in use is tried later. */
static void server_start(struct chaos_ps *ps)
{
    struct chaos *chaos = ps->chaos;
    bool again = ps->again;

    ps->again = false;
    if (!again)
        chaos->counts->ps_again++;
    int status = chaos_ps_start(ps, again);
    if (status == 0)
        return;
    chaos_ps_clear(ps, false);
    if (status != -STEPGATE_EBUSY) {
        error_save(&ps->error);
        chaos_wrong(chaos, "ps %u cannot be started again: %s", ps->number, ps->error.text);
    }
    ps->again = true;
    ps->start_at = clock_after(world_now_ns(chaos->world), SERVER_RETRY_MS);
}

/* chaos_ps_move -- see the header. */
int chaos_ps_move(struct chaos_ps *ps, uint32_t part)
{
    uint64_t now = world_now_ns(ps->chaos->world);

    if (ps->start_at <= now && part == 0 && (ps->again ? chaos_acts(ps->node) : true)) {
        server_start(ps);
        return 1;
    }
    if (ps->shard == NULL || ps->over || !chaos_acts(ps->node))
        return 0;
    if (part > 0)
        return lane_progress(ps->lanes[part - 1], now);
    int busy = server_asides(ps, false);
    busy |= shard_progress(ps->shard, now);
    if (ps->shard != NULL && !world_node_killed(ps->node) && shard_finished(ps->shard, &ps->status)) {
        server_ends(ps);
        busy = 1;
    }
    return busy;
}

/* chaos_ps_deadline -- see the header. */
uint64_t chaos_ps_deadline(const struct chaos_ps *ps)
{
    uint64_t earliest = ps->start_at;

    if (ps->shard == NULL || ps->over || !chaos_acts(ps->node))
        return earliest;
    uint64_t one = shard_deadline(ps->shard);
    earliest = one < earliest ? one : earliest;
    for (uint32_t i = 0; i < ps->aside_count; i++)
        earliest = ps->asides[i].at < earliest ? ps->asides[i].at : earliest;
    for (uint32_t l = 0; l < ps->chaos->lanes; l++) {
        one = lane_deadline(ps->lanes[l]);
        earliest = one < earliest ? one : earliest;
    }
    return earliest;
}
