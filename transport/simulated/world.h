/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world -- the simulated transport: any number of processes ("nodes") inside one thread, and a seeded scheduler that decides when
 * each byte, notify and message arrives. Everything that happens follows from the seed and the calls made: no clock, no address and
 * no thread has a part in it, so a seed replays a run exactly (world_trace_hash).
 *
 * What a world does to its users, each within the contract of stepgate/transport.h:
 *   - a write lands in pieces, in any order, interleaved with other writes of its endpoint that touch other bytes, and reads its
 *     source as late as the contract allows; its completion may come before or long after the bytes have landed;
 *   - a read copies its pieces at different times (torn) and is ordered with nothing;
 *   - connections overtake each other, deliveries are delayed, posts meet full queues, polls return less than there is;
 *   - what a killed or deleted endpoint had in flight lands up to a random point and no further; it may land after DISCONNECTED,
 *     as long as the receiving endpoint was not deleted.
 *
 * A driver alternates between running its actors and world_step(); when a timer of an actor is due before world_next_time() it
 * calls world_advance() instead.
 */
#ifndef TRANSPORT_SIMULATED_WORLD_H
#define TRANSPORT_SIMULATED_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepgate/transport.h"

struct world;

/* A process. stepgate_fabric_options.world points to it. Owned by the world; a node that was killed stays as a memory. */
struct world_node {
    struct world *world;
    uint32_t index; /* 0, 1, ... in order of creation */
};

struct world_options {
    uint64_t seed;
    bool mapped;    /* remotes are mapped pointers, as over shared memory; callers' memory is refused then */
    uint32_t depth; /* writes and reads in flight per endpoint, and as many notifies and messages */
    uint32_t inline_bytes;   /* >= 64 */
    uint32_t message_bytes;  /* >= 1024 */
    uint64_t piece_bytes;    /* reported to callers */
    uint64_t latency_min_ns; /* of an ordinary delivery */
    uint64_t latency_max_ns;
    uint64_t
        link_bytes_per_s; /* of each node's port to the network, each way: bytes take time, and wait for each other; 0: they do not */
    uint64_t delay_max_ns;    /* of a delayed one, added */
    unsigned delay_per_mille; /* deliveries that are delayed */
    unsigned
        reorder_per_mille;     /* deliveries whose latency is drawn from four times the range, from zero on */
    unsigned split_per_mille;  /* writes that land in pieces */
    unsigned tear_per_mille;   /* reads that are torn; none when mapped */
    unsigned early_per_mille;  /* writes that complete without regard to their landing */
    unsigned eagain_per_mille; /* posts refused although there is room, while something is in flight */
    void (*trace)(void *context, const char *line); /* NULL: none; one line of words per event */
    void *trace_context;
};

/* How often each kind of event happened, for campaigns with floors. */
struct world_counts {
    uint64_t steps;                             /* deliveries performed */
    uint64_t writes, reads, notifies, messages; /* posted */
    uint64_t delays;                            /* deliveries that were delayed */
    uint64_t reorders;          /* deliveries that came after a later posted one of another connection */
    uint64_t split_writes;      /* writes that landed in more than one piece */
    uint64_t torn_reads;        /* reads copied in more than one piece */
    uint64_t early_completions; /* writes completed without regard to their landing */
    uint64_t eagains;           /* posts answered -STEPGATE_EAGAIN */
    uint64_t connects, refused_connects;              /* attempts; attempts that ended without a connection */
    uint64_t kills, freezes, partitions, disconnects; /* faults ordered through the functions below */
    uint64_t dropped;         /* deliveries that found their target gone, or were cut off with their sender */
    uint64_t access_refusals; /* deliveries outside a grant: each broke its connection */
    uint64_t
        passive_first; /* posts of an accepting side before the active side's first arrival: wrong on iWARP */
};

/* world_options_default -- a lively world: everything happens, nothing too often. */
void world_options_default(struct world_options *options, uint64_t seed);

/* world_new -- an empty world. Errors: EINVAL, ENOMEM. */
int world_new(const struct world_options *options, struct world **out);
/* world_delete -- frees the world with every object that is left in it. Sets NULL, safe on NULL. */
void world_delete(struct world **world);

/* world_node_new -- a process on the host `name`. Several nodes may share a name: a restarted process is a new node. */
int world_node_new(struct world *world, const char *name, struct world_node **out);

/* simulated_transport -- the table of functions. A listener's address is "NAME:PORT" with the name of its node. */
const struct stepgate_transport_v1 *simulated_transport(void);

/* world_now_ns -- virtual time. */
uint64_t world_now_ns(const struct world *world);
/* world_step -- performs the next delivery, moving time on to it. Returns 1, or 0 when nothing is pending. */
int world_step(struct world *world);
/* world_next_time -- when the next delivery is due; CLOCK_NEVER (UINT64_MAX) when nothing is pending. */
uint64_t world_next_time(struct world *world);
/* world_advance -- lets `ns` pass, performing what becomes due meanwhile. */
void world_advance(struct world *world, uint64_t ns);

/* world_kill -- the process dies: peers see DISCONNECTED after a short while; of what it had in flight some still lands. Its
 * objects may be deleted afterwards, or left to world_delete. Calls on them fail or do nothing. */
void world_kill(struct world_node *node);
/* world_freeze -- the process stops; by the seed, either it alone (its device goes on) or its whole host. The driver must not
 * run a frozen node's actors. */
void world_freeze(struct world_node *node);
void world_thaw(struct world_node *node);
/* world_partition -- nothing passes between two nodes until world_heal; what is in flight waits, and its sender gives up after the
 * peer_timeout_ms of its fabric. */
void world_partition(struct world_node *a, struct world_node *b);
void world_heal(struct world_node *a, struct world_node *b);
/* world_disconnect -- breaks one connection; both sides notice, each in its own time. */
void world_disconnect(struct stepgate_endpoint *endpoint);

/* world_node_killed, world_node_frozen -- the state of a node. */
bool world_node_killed(const struct world_node *node);
bool world_node_frozen(const struct world_node *node);

/* world_counters -- what happened so far. */
void world_counters(const struct world *world, struct world_counts *out);
/* world_objects -- fabrics, domains, regions, queues, listeners, requests, endpoints and remotes of live nodes that are not deleted. */
uint32_t world_objects(const struct world *world);
/* world_trace_hash -- FNV-1a over every event so far: two runs with equal hashes went the same way. */
uint64_t world_trace_hash(const struct world *world);

#endif
