/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of a play share: its structs. */
#ifndef TESTS_SIMULATION_INSIDE_H
#define TESTS_SIMULATION_INSIDE_H

#include "ps/shard/inside.h"
#include "tests/simulation/play.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/trainee.h"

#define PLAY_SHARDS_MAX 3
#define PLAY_LANES_MAX 3
#define PLAY_ADDRESS_BYTES 32

enum play_fault {
    PLAY_NOTHING,
    PLAY_KILL_WORKER,
    PLAY_KILL_PS,
    PLAY_FREEZE_WORKER,
    PLAY_FREEZE_SHORT,
    PLAY_PARTITION,
    PLAY_DISCONNECT,
    PLAY_LEAVE
};

/* What a lane was seen doing. */
struct play_lane {
    const void *apply; /* its struct apply, by which it is known */
    const struct board *board;
    uint64_t steps, accumulated; /* begun so far */
};

struct play_ps {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[PLAY_LANES_MAX];
    struct lane *lanes[PLAY_LANES_MAX];
    struct mailbox mailbox;
    struct shard *shard;
    int status; /* once it is over */
    bool over;
    struct play *play;
    void (*aside)(void *what); /* work that is done aside, at that time; NULL: none */
    void *aside_what;
    uint64_t aside_at;
    struct play_lane seen[PLAY_LANES_MAX];
};

struct play_worker {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct trainee trainee;
    struct message last_token, old_token; /* kind 0: none yet */
};

/* What stands still for a while, and goes on. */
struct play_pause {
    struct random_source random;
    uint32_t left;                  /* those to come, and the one that is under way */
    uint64_t next_at, until;        /* CLOCK_NEVER: none is to begin; none is under way */
    struct world_node *one, *other; /* other NULL: one stands still; else they do not hear of each other */
};

struct play {
    struct random_source random;
    struct world *world;
    struct shape shape;
    struct reference reference;
    struct referee referee;
    struct contribution_log logs[SHAPE_WORKERS_MAX];
    uint32_t shards, lanes;
    uint64_t group_bytes, cut_bytes, chunk_bytes;
    uint32_t slow_ps;     /* whose actors come to their turn less often; >= shards: none */
    unsigned idle_rounds; /* in a row in which nobody did anything */
    struct proof_secret secret;
    struct play_ps ps[PLAY_SHARDS_MAX];
    char addresses[PLAY_SHARDS_MAX][PLAY_ADDRESS_BYTES];
    struct play_worker worker[SHAPE_WORKERS_MAX];
    int fault;
    bool wakes_late;            /* thaw_at is that of a worker that was given up */
    uint64_t fault_at, thaw_at; /* fault_at CLOCK_NEVER: by fault_after */
    uint64_t fault_after;       /* contributions of all, once every ps takes steps */
    uint32_t fault_worker, fault_ps;
    bool fault_done;
    bool rebuilds; /* connections that break are made anew */
    struct random_source breaks;
    uint32_t breaks_left; /* of connections */
    uint64_t break_at;
    struct play_pause pause;
    bool may_fail;                        /* the job may fail, or not */
    bool must_name;                       /* if it fails the fault's worker is to blame */
    struct reference_member *accumulates; /* tf: what was decided to be accumulated, in order */
    size_t accumulate_count, accumulate_room;
    struct message old_commit; /* of any step before the newest */
    bool old_commit_there;
    char wrong[512]; /* "": nothing */
    struct play_counts *counts;
};

/* play_alive -- does an actor of this node run? */
bool play_alive(const struct world_node *node);
/* play_given_up -- is the worker dead, or was it taken for dead so long that the others have ended or gone on without it? */
bool play_given_up(const struct play *play, uint32_t worker);
/* play_running -- has every ps begun to take steps? */
bool play_running(const struct play *play);
/* play_wrong -- the first thing that is wrong. */
void play_wrong(struct play *play, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fault: what goes wrong on purpose */
void play_plan_fault(struct play *play);
/* play_fault_due -- is it time? */
bool play_fault_due(const struct play *play, uint64_t now);
void play_break(struct play *play, uint64_t now);
/* play_plan_breaks -- which connections break, beside the fault. */
void play_plan_breaks(struct play *play);
/* play_break_connections -- those whose time has come. */
void play_break_connections(struct play *play, uint64_t now);
/* play_plan_pauses -- who stands still or is cut off for a while, in jobs in which nobody dies. What is drawn here changes nothing else of the job. */
void play_plan_pauses(struct play *play);
/* play_pause -- begins and ends them. */
void play_pause(struct play *play, uint64_t now);
void play_thaw(struct play *play, uint64_t now);
/* play_repeat -- late and repeated events that must change nothing: an old notify, an old commit, an old token. */
void play_repeat(struct play *play, uint64_t now);

/* observe: what comes to the leader, what it decides, and what the lanes begin, while a play is observed */
void observe_start(struct play *play);
void observe_end(void);

/* judge: what must hold at the end */
void play_judge(struct play *play);
void play_count(struct play *play);

#endif
