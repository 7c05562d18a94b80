/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job -- ps and workers over the simulated transport, in one thread: a test drives the workers' sessions in turn. Everything follows from the seed.
 */
#ifndef TESTS_UNIT_WORKER_SESSION_JOB_H
#define TESTS_UNIT_WORKER_SESSION_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/lane/lane.h"
#include "ps/shard/shard.h"
#include "transport/base/error.h"
#include "transport/base/random.h"
#include "transport/simulated/world.h"
#include "worker/session/inside.h"

#define JOB_SHARDS_MAX 3
#define JOB_LANES_MAX 3
#define JOB_WORKERS_MAX 4
#define JOB_ROUNDS 2000000 /* until a wait has failed */

struct job_ps {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[JOB_LANES_MAX];
    struct mailbox mailbox;
    struct lane *lanes[JOB_LANES_MAX];
    struct shard *shard;
};

struct job_worker {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct session *session;
    struct session_model *model;
    bool gone;
};

struct job {
    uint32_t shards, lanes, workers;
    bool mapped;
    uint32_t reconnect; /* of connections that break; 0: never */
    uint64_t group_bytes, cut_bytes, chunk_bytes;
    struct random_source random;
    struct world *world;
    struct proof_secret secret;
    char addresses[JOB_SHARDS_MAX][16];
    struct job_ps ps[JOB_SHARDS_MAX];
    struct job_worker worker[JOB_WORKERS_MAX];
};

/* good -- the call succeeds; if not, its error is shown. */
#define good(call) job_expect((call), 0, "", #call, __FILE__, __LINE__)
/* refused -- the call fails with the code, and the error's text has the word in it. */
#define refused(code, word, call) job_expect((call), -(code), word, #call, __FILE__, __LINE__)

/* job_expect -- what good and refused do. */
static inline void job_expect(int got, int expected, const char *word, const char *call, const char *file,
                              int line)
{
    struct stepgate_error error;

    error_save(&error);
    if ((got == expected || (expected == 0 && got > 0)) && (word[0] == 0 || strstr(error.text, word) != NULL))
        return;
    print_error("%s: %d, not %d%s%s\n  last error: %s\n", call, got, expected, word[0] != 0 ? " with " : "",
                word, error.text);
    _fail(file, line);
}

/* own -- memory of this process, to be attached. */
#define own(pointer) (&(const struct session_memory){.address = (pointer)})

/* job_now -- virtual time. */
static inline uint64_t job_now(const struct job *j)
{
    return world_now_ns(j->world);
}

/* job_ps_up -- a shard and its lanes. */
static inline void job_ps_up(struct job *j, uint32_t s)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    struct job_ps *ps = &j->ps[s];
    char name[24];

    snprintf(name, sizeof(name), "ps%u", s);
    snprintf(j->addresses[s], sizeof(j->addresses[s]), "ps%u:70", s);
    good(world_node_new(j->world, name, &ps->node));
    struct stepgate_fabric_options options = {.size = sizeof(options), .world = ps->node};
    mailbox_init(&ps->mailbox);
    good(transport->fabric_open(&options, &ps->fabric));
    good(transport->queue_new(ps->fabric, 64, &ps->queue));
    for (uint32_t l = 0; l < j->lanes; l++) {
        good(transport->queue_new(ps->fabric, 64, &ps->lane_queues[l]));
        const struct lane_config lane = {.number = l,
                                         .workers = j->workers,
                                         .shard = s,
                                         .shards = j->shards,
                                         .queues = {ps->lane_queues[l]},
                                         .job = hello_job_hash("job"),
                                         .incarnation = 100 + s,
                                         .secret = &j->secret,
                                         .to_shard = &ps->mailbox};
        good(lane_new(&lane, &ps->lanes[l]));
    }
    const struct shard_config config = {.number = s,
                                        .shards = j->shards,
                                        .workers = j->workers,
                                        .lanes = j->lanes,
                                        .listen = j->addresses[s],
                                        .leader = j->addresses[0],
                                        .fabrics = {{ps->fabric, ps->queue}},
                                        .lane_list = ps->lanes,
                                        .mailbox = &ps->mailbox,
                                        .job = "job",
                                        .secret = &j->secret,
                                        .incarnation = 100 + s,
                                        .group_bytes = j->group_bytes,
                                        .cut_bytes = j->cut_bytes,
                                        .join_timeout_ms = 2000,
                                        .liveness_ms = 1000,
                                        .reconnect = j->reconnect};
    good(shard_new(&config, job_now(j), &ps->shard));
}

/* job_worker_up -- a session that has not joined. */
static inline void job_worker_up(struct job *j, uint32_t w)
{
    const struct stepgate_transport_v1 *transport = simulated_transport();
    struct job_worker *worker = &j->worker[w];
    const char *addresses[JOB_SHARDS_MAX];
    char name[24];

    snprintf(name, sizeof(name), "worker%u", w);
    good(world_node_new(j->world, name, &worker->node));
    struct stepgate_fabric_options options = {.size = sizeof(options), .world = worker->node};
    good(transport->fabric_open(&options, &worker->fabric));
    good(transport->queue_new(worker->fabric, 64, &worker->queue));
    good(transport->domain_new(worker->fabric, &worker->domain));
    for (uint32_t s = 0; s < j->shards; s++)
        addresses[s] = j->addresses[s];
    const struct session_config config = {.rank = w,
                                          .workers = j->workers,
                                          .shards = j->shards,
                                          .addresses = addresses,
                                          .routes = {{worker->queue, worker->domain}},
                                          .job = "job",
                                          .secret = j->secret,
                                          .incarnation = 1000 + w,
                                          .chunk_bytes = j->chunk_bytes,
                                          .join_timeout_ms = 2000,
                                          .liveness_ms = 1000,
                                          .reconnect = j->reconnect};
    good(session_new(&config, job_now(j), &worker->session));
}

/* job_round -- every actor once, some left out. */
static inline int job_round(struct job *j, bool all)
{
    int busy = 0;

    for (uint32_t s = 0; s < j->shards; s++) {
        int status;
        if ((all || random_chance(&j->random, 600)) && !shard_finished(j->ps[s].shard, &status))
            busy |= shard_progress(j->ps[s].shard, job_now(j));
        for (uint32_t l = 0; l < j->lanes; l++)
            if (all || random_chance(&j->random, 600))
                busy |= lane_progress(j->ps[s].lanes[l], job_now(j));
    }
    for (uint32_t w = 0; w < j->workers; w++)
        if (!j->worker[w].gone && (all || random_chance(&j->random, 600)))
            busy |= session_progress(j->worker[w].session, job_now(j));
    return busy;
}

/* job_timer -- when the next actor wants to act. */
static inline uint64_t job_timer(const struct job *j)
{
    uint64_t earliest = CLOCK_NEVER;

    for (uint32_t s = 0; s < j->shards; s++) {
        uint64_t one = shard_deadline(j->ps[s].shard);
        earliest = one < earliest ? one : earliest;
    }
    for (uint32_t w = 0; w < j->workers; w++) {
        uint64_t one = j->worker[w].gone ? CLOCK_NEVER : session_deadline(j->worker[w].session);
        earliest = one < earliest ? one : earliest;
    }
    return earliest;
}

/* job_move -- lets a little happen. */
static inline void job_move(struct job *j)
{
    int busy = job_round(j, false);

    if (!busy)
        busy = job_round(j, true);
    uint64_t due = world_next_time(j->world), timer = job_timer(j), now = job_now(j);
    if (busy && random_chance(&j->random, 300))
        return;
    if (busy && due > timer) { /* a timer must not be missed for an event that is far away */
        world_advance(j->world, CLOCK_MS / 100);
    } else if (due <= timer) {
        if (world_step(j->world) == 0)
            world_advance(j->world, CLOCK_MS / 100);
    } else {
        world_advance(j->world, timer > now ? timer - now : 1);
    }
}

/* JOB_AWAIT -- repeats a call until it is not EAGAIN; the others move meanwhile. */
#define JOB_AWAIT(j, status, call)                                                                           \
    do {                                                                                                     \
        uint32_t rounds_ = 0;                                                                                \
        while (((status) = (call)) == -STEPGATE_EAGAIN) {                                                    \
            if (++rounds_ > JOB_ROUNDS)                                                                      \
                fail_msg("%s never ends", #call);                                                            \
            job_move(j);                                                                                     \
        }                                                                                                    \
    } while (0)
/* awaited -- the call succeeds, sooner or later. */
#define awaited(j, call)                                                                                     \
    do {                                                                                                     \
        int status_;                                                                                         \
        JOB_AWAIT(j, status_, call);                                                                         \
        job_expect(status_, 0, "", #call, __FILE__, __LINE__);                                               \
    } while (0)

/* job_up -- everybody has joined, and has an empty model. */
static inline void job_up(struct job *j, uint64_t seed)
{
    struct world_options options;

    random_seed(&j->random, seed);
    world_options_default(&options, seed);
    options.mapped = j->mapped;
    good(world_new(&options, &j->world));
    j->secret.bytes = 16;
    for (uint32_t s = 0; s < j->shards; s++)
        job_ps_up(j, s);
    for (uint32_t w = 0; w < j->workers; w++)
        job_worker_up(j, w);
    for (uint32_t w = 0; w < j->workers; w++)
        awaited(j, session_join_try(j->worker[w].session, job_now(j)));
    for (uint32_t w = 0; w < j->workers; w++)
        good(session_model_new(j->worker[w].session, "m", &j->worker[w].model));
}

/* job_variable -- on every worker. */
static inline void job_variable(struct job *j, const char *name, int kind, int dtype, uint64_t rows,
                                uint64_t width)
{
    const uint64_t dims[] = {rows, width};

    for (uint32_t w = 0; w < j->workers; w++)
        good(model_add(session_model_declared(j->worker[w].model), name, kind, dtype, 2, dims));
}

/* job_set -- a key of the model on every worker. */
static inline void job_set(struct job *j, const char *key, const char *text)
{
    for (uint32_t w = 0; w < j->workers; w++)
        good(model_set(session_model_declared(j->worker[w].model), key, text));
}

/* job_option -- of a variable on every worker. */
static inline void job_option(struct job *j, uint32_t v, const char *key, const char *text)
{
    for (uint32_t w = 0; w < j->workers; w++)
        good(model_variable_set(session_model_declared(j->worker[w].model), v, key, text));
}

/* job_commit -- of everybody. */
static inline void job_commit(struct job *j)
{
    bool done[JOB_WORKERS_MAX] = {false};
    uint32_t left = j->workers;

    for (uint32_t rounds = 0; left > 0; rounds++) {
        assert_true(rounds < JOB_ROUNDS);
        for (uint32_t w = 0; w < j->workers; w++) {
            int status = done[w] ? 0 : session_commit_try(j->worker[w].model, job_now(j), NULL);
            if (status != -STEPGATE_EAGAIN)
                job_expect(status, 0, "", "commit", __FILE__, __LINE__);
            left -= !done[w] && status == 0;
            done[w] = done[w] || status == 0;
        }
        job_move(j);
    }
}

/* job_down -- deletes everything; nothing of the transport may be left. */
static inline void job_down(struct job *j)
{
    for (uint32_t w = 0; w < j->workers; w++) {
        struct job_worker *worker = &j->worker[w];
        session_delete(&worker->session);
        worker->domain->transport->domain_delete(&worker->domain);
        worker->queue->transport->queue_delete(&worker->queue);
        worker->fabric->transport->fabric_delete(&worker->fabric);
    }
    for (uint32_t s = 0; s < j->shards; s++) {
        struct job_ps *ps = &j->ps[s];
        for (uint32_t l = 0; l < j->lanes; l++)
            lane_delete(&ps->lanes[l]);
        shard_delete(&ps->shard);
        for (uint32_t l = 0; l < j->lanes; l++)
            ps->lane_queues[l]->transport->queue_delete(&ps->lane_queues[l]);
        ps->queue->transport->queue_delete(&ps->queue);
        ps->fabric->transport->fabric_delete(&ps->fabric);
        mailbox_clear(&ps->mailbox);
    }
    assert_int_equal(world_objects(j->world), 0);
    world_delete(&j->world);
}

#endif
