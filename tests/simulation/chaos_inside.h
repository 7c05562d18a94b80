/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos_inside -- what the files of a chaos share: its structs. */
#ifndef TESTS_SIMULATION_CHAOS_INSIDE_H
#define TESTS_SIMULATION_CHAOS_INSIDE_H

#include "ps/shard/inside.h"
#include "tests/scenario/store.h"
#include "tests/simulation/chaos.h"
#include "tests/simulation/maker.h"
#include "tests/simulation/reference.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

#define CHAOS_SHARDS_MAX 3
#define CHAOS_LANES_MAX 2
#define CHAOS_ADDRESS_BYTES 32
#define CHAOS_ASIDES_MAX 8
#define CHAOS_FAULTS_MAX 4
#define CHAOS_PROCESSES_MAX 24 /* of workers, one after the other */
#define CHAOS_STEPS_MAX STORE_STEPS_MAX
#define CHAOS_LIVENESS_MS 1000
#define CHAOS_JOIN_MS 15000
#define CHAOS_RETURN_MS 20000

enum chaos_fault_kind {
    CHAOS_KILL_WORKER,
    CHAOS_KILL_PS,
    CHAOS_FREEZE_WORKER, /* so long that it is given up */
    CHAOS_FREEZE_PS,     /* the same */
    CHAOS_PAUSE,         /* a process, for less than that */
    CHAOS_PART, /* two processes hear nothing of each other: for less, or so long that one is given up */
    CHAOS_BREAK /* connections of a worker */
};

/* What goes wrong. */
struct chaos_fault {
    int kind; /* enum chaos_fault_kind */
    bool done;
    uint64_t after;     /* steps that were decided, by whomever; then, `wait` later */
    uint64_t wait, due; /* due CLOCK_NEVER: not yet known */
    int arrow;          /* enum chaos_arrow; -1: by time alone */
    uint32_t rank, ps;
    bool leader;    /* CHAOS_PART: between the ps and the leader */
    bool returns;   /* CHAOS_KILL_WORKER: it is started again */
    uint64_t lasts; /* of what ends */
    uint64_t ends;  /* CLOCK_NEVER: it is not under way */
    struct world_node *one, *other;
};

/* What a lane was seen doing. */
struct chaos_lane {
    const void *apply; /* its struct apply, by which it is known */
    const struct board *board;
    bool begun;
    uint64_t next; /* step that it must apply next */
};

struct chaos_aside {
    void (*work)(void *what);
    void *what;
    uint64_t at;
};

/* A ps, process after process. */
struct chaos_ps {
    struct chaos *chaos;
    uint32_t number;
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[CHAOS_LANES_MAX];
    struct lane *lanes[CHAOS_LANES_MAX];
    struct mailbox mailbox;
    struct shard *shard; /* NULL: there is none just now */
    bool over;           /* it has ended for good */
    int status;
    struct stepgate_error error;
    uint64_t start_at; /* CLOCK_NEVER: it is not started again */
    bool again;        /* then: in the same process, which goes back */
    unsigned rewinds;  /* in a row, without a step in between */
    struct chaos_aside asides[CHAOS_ASIDES_MAX];
    uint32_t aside_count;
    struct chaos_lane seen[CHAOS_LANES_MAX];
    char address[CHAOS_ADDRESS_BYTES];
};

enum chaos_state {
    CHAOS_JOINS,
    CHAOS_COMMITS,
    CHAOS_BEGINS,
    CHAOS_PULLS,
    CHAOS_PUSHES,
    CHAOS_MEETS,
    CHAOS_LEAVES,
    CHAOS_DONE,
    CHAOS_FAILED
};

/* A process of a worker. */
struct chaos_worker {
    struct chaos *chaos;
    uint32_t rank;
    struct world_node *node;
    struct stepgate_options *options;
    struct stepgate_job *job; /* NULL: the process is gone */
    struct stepgate_model *model;
    int state; /* enum chaos_state */
    struct stepgate_error error;
    bool replaced; /* another one was started under its rank */
    bool callers;  /* uses buffers of its own */
    void *own_gradient[SHAPE_VARIABLES_MAX], *own_parameter[SHAPE_VARIABLES_MAX];
    bool begun;    /* some step */
    uint64_t step; /* the newest one that it has begun */
    uint32_t round;
    uint64_t begins;
    uint64_t life; /* of the leader that it began under: what it hears of another one may be void */
    bool told;     /* something is to be told of the contribution before */
    bool done;     /* pulls for the last time */
    bool all;      /* pulls everything at once, first */
    uint32_t next, order[SHAPE_VARIABLES_MAX];
    struct contribution open;
    bool opened;
    uint64_t pause_until;
    unsigned slow_per_mille;
};

/* Who made a step. */
struct chaos_step {
    uint32_t ranks; /* bits */
    bool carries;   /* nobody's was applied */
};

/* What a leader has said, in which of its lives (a commit), or to which process (a token); whose 0: nothing. */
struct chaos_said {
    struct message message;
    uint64_t whose;
};

struct chaos {
    struct random_source random, work,
        entropy; /* of the driver; of processes; what a process takes for random */
    struct shape shape;
    struct world *world;
    uint32_t shards, lanes;
    uint64_t group_bytes, cut_bytes, chunk_bytes;
    uint64_t incarnations;
    int lost;      /* enum chaos_lost */
    bool exact;    /* strict: what comes out is known */
    bool fixed;    /* membership is: every step takes everybody's contributions */
    bool rewinds;  /* ps that are lost come back, and the job with them */
    bool rebuilds; /* connections are made anew */
    struct store store;
    struct proof_secret secret;
    struct chaos_ps ps[CHAOS_SHARDS_MAX];
    struct chaos_worker processes[CHAOS_PROCESSES_MAX];
    uint32_t process_count;
    struct chaos_worker *worker[SHAPE_WORKERS_MAX]; /* the newest process of each rank */
    uint64_t start_at[SHAPE_WORKERS_MAX];           /* of the next one; CLOCK_NEVER: none */
    struct chaos_fault faults[CHAOS_FAULTS_MAX];
    uint32_t fault_count, restarts_left;
    bool ran;             /* every ps has begun to take steps */
    bool ends;            /* somebody has begun to leave */
    uint64_t accident_at; /* the newest one */
    bool may_fail;        /* the job need not come to its end */
    bool gone, back; /* some rank for good; the job went back to a checkpoint, for which it needs everybody */
    struct reference reference;
    struct contribution_log logs[SHAPE_WORKERS_MAX];
    struct chaos_step steps[CHAOS_STEPS_MAX];
    uint64_t decided;    /* decisions so far */
    bool leads;          /* the leader that there is has decided something */
    uint64_t lives;      /* of leaders */
    uint64_t leads_next; /* the step that it must decide next */
    struct chaos_said old_commit, token[SHAPE_WORKERS_MAX], old_token[SHAPE_WORKERS_MAX];
    unsigned idle_rounds;
    FILE *trace;
    char wrong[512];
    struct chaos_counts *counts;
};

/* The chaos that is played; NULL: none. */
extern struct chaos *chaos_played;

void chaos_wrong(struct chaos *chaos, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* chaos_acts -- does the process run? */
bool chaos_acts(const struct world_node *node);
/* chaos_say -- a line of a process, for the trace. */
void chaos_say(void *context, int level, const char *line);
/* chaos_fabric -- of a node. */
int chaos_fabric(struct world_node *node, struct stepgate_fabric **out);

/* chaos_runs -- has everybody begun to take steps, and is there something to go back to? */
bool chaos_runs(const struct chaos *chaos);

/* chaos_ps */
int chaos_ps_start(struct chaos_ps *ps, bool again);
/* chaos_ps_move -- part 0: the shard; lane part - 1. Returns 1 if something was done. */
int chaos_ps_move(struct chaos_ps *ps, uint32_t part);
/* chaos_ps_clear -- everything of its process. dies: what goes on aside is left undone. */
void chaos_ps_clear(struct chaos_ps *ps, bool dies);
uint64_t chaos_ps_deadline(const struct chaos_ps *ps);

/* chaos_worker */
int chaos_worker_start(struct chaos *chaos, uint32_t rank);
int chaos_worker_move(struct chaos_worker *worker);
void chaos_worker_clear(struct chaos_worker *worker);
uint64_t chaos_worker_deadline(const struct chaos_worker *worker);
bool chaos_worker_over(const struct chaos_worker *worker);

/* chaos_fault */
void chaos_fault_plan(struct chaos *chaos);
/* chaos_fault_move -- what is due. */
void chaos_fault_move(struct chaos *chaos, uint64_t now);
uint64_t chaos_fault_deadline(const struct chaos *chaos);
/* chaos_fault_last -- somebody begins to leave: from here on nobody goes back, and what is under way may end the job. */
void chaos_fault_last(struct chaos *chaos);
/* chaos_fault_arrow -- the commit has got there on that ps, which may die of it at once. */
void chaos_fault_arrow(struct chaos *chaos, int arrow, const struct shard *shard);

/* chaos_repeat: what is said again. */
void chaos_repeat(struct chaos *chaos, uint64_t now);
/* chaos_repeat_order, chaos_repeat_token -- it was said. */
void chaos_repeat_order(struct chaos *chaos, const struct shard *shard, const struct message *message);
void chaos_repeat_token(struct chaos *chaos, const struct shard *leader, uint32_t rank,
                        const struct message *message);

/* chaos_oracle: what must come out */
int chaos_oracle_start(struct chaos *chaos);
void chaos_oracle_clear(struct chaos *chaos);
/* chaos_oracle_weight, chaos_oracle_fill -- what a rank hands in, given what it has pulled of a variable: the same, whenever it is computed. list: NULL, or what is handed over
 * of a sparse variable. Errors: ENOMEM. */
double chaos_oracle_weight(const struct shape *shape, const struct contribution *contribution);
bool chaos_oracle_absent(const struct shape *shape, const struct contribution *contribution,
                         uint32_t variable);
int chaos_oracle_fill(const struct shape *shape, struct contribution *contribution, uint32_t variable,
                      const void *value, struct maker_list *list);
/* chaos_oracle_decided -- the leader has decided a step. */
void chaos_oracle_decided(struct chaos *chaos, const struct mode_decision *decision);
/* chaos_oracle_ordered -- a lane begins with an order. */
void chaos_oracle_ordered(struct chaos *chaos, uint32_t ps, struct chaos_lane *lane);
/* chaos_oracle_pulled -- are those the values of that step? */
void chaos_oracle_pulled(struct chaos *chaos, const struct chaos_worker *worker, uint32_t variable,
                         const void *value, uint64_t step);
/* chaos_oracle_told -- is that what became of the contribution before? */
void chaos_oracle_told(struct chaos *chaos, const struct chaos_worker *worker,
                       const struct stepgate_step_info *info);
/* chaos_oracle_judge -- it is over. */
void chaos_oracle_judge(struct chaos *chaos);

/* Called from where observe stands, while a chaos is played. */
void chaos_see_lane(const struct board *board, uint32_t lane, const void *apply);
void chaos_see_apply(const void *apply);

#endif
