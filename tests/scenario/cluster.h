/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster -- a whole job in one process and one thread, on the transport of one's choice: shards with their lanes, and workers, moved
 * round robin. A worker asks for its next token by itself; everything else it does when it is told to. Between two orders the driver lets
 * everybody go on until nothing moves any more, so that an order of acts is an order of contributions.
 */
#ifndef TESTS_SCENARIO_CLUSTER_H
#define TESTS_SCENARIO_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/mode/mode.h"
#include "ps/shard/shard.h"
#include "tests/scenario/store.h"
#include "transport/base/random.h"
#include "transport/simulated/world.h"
#include "worker/session/session.h"

#define CLUSTER_SHARDS_MAX 3
#define CLUSTER_LANES_MAX 3
#define CLUSTER_WORKERS_MAX 10
#define CLUSTER_VARIABLES_MAX 4
#define CLUSTER_VALUES_MAX 16 /* that a test names of one variable */
#define CLUSTER_SETS_MAX 64
#define CLUSTER_ADDRESS_BYTES 64
#define CLUSTER_ASIDES_MAX 8

/* What jobs are made on. */
struct ground {
    const struct stepgate_transport_v1 *transport;
    const char *host; /* where shards listen; unused in a world */
    bool simulated, soft, mapped;
    uint64_t seed;
    uint64_t steps; /* that jobs on this ground have taken */
    char why[640];  /* why the scenario has failed */
};

/* A variable; what is 0 or NULL: trained, f32, one element, no options, zeros. More elements than initial values: they repeat. */
struct cluster_variable {
    const char *name;
    int kind, dtype;
    uint64_t dims[2];
    const char *options; /* "key=value key=value" */
    uint32_t initial_count;
    double initial[CLUSTER_VALUES_MAX];
};

/* A job; what is 0: one. */
struct cluster_job {
    uint32_t shards, lanes, workers;
    const char
        *keys; /* "key=value key=value"; learning_rate is 2 unless it is set or there is no optimizer */
    struct cluster_variable variables[CLUSTER_VARIABLES_MAX];
    uint64_t cut_bytes, group_bytes; /* 0: large */
    int64_t step_timeout_ms;         /* 0: none */
    int64_t stall_report_ms;         /* 0: none */
    int lost;                        /* enum mode_lost */
    int64_t return_ms;               /* how long a lost worker is waited for; 0: long */
    bool blind;                      /* workers push without pulling first */
    uint64_t (*memory)(void);        /* that each ps finds; NULL: enough */
    uint64_t (*lockable)(void);      /* of it */
    struct store *store;             /* where checkpoints go; NULL: there are none */
    const uint32_t *replay;          /* sets as a job has recorded them, by step: bits of ranks; NULL: none */
};

/* What a worker pushes of a variable: repeated if there are more elements. Sparse: rows, one value per element. */
struct cluster_gradient {
    bool absent;
    uint32_t count;
    double values[CLUSTER_VALUES_MAX];
    uint32_t rows;
    uint64_t indices[CLUSTER_VALUES_MAX];
};

enum cluster_state {
    CLUSTER_AWAY,  /* it left, or was lost */
    CLUSTER_JOINS, /* it is back, and joins */
    CLUSTER_COMMITS,
    CLUSTER_WAITS,
    CLUSTER_HAS_TOKEN,
    CLUSTER_PULLS,
    CLUSTER_FAILED
};

struct cluster_pull {
    bool unchecked;
    uint64_t lowest, highest;
    double *values; /* [elements] */
};

struct cluster_worker {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
    struct session *session;
    struct session_model *model;
    uint32_t lives;                   /* so often it has come back */
    int state;                        /* enum cluster_state */
    uint32_t pulling;                 /* 0: all together, then sparse variables by name */
    int error;                        /* the negative code it failed with */
    char text[512];                   /* of it */
    double weight;                    /* of what it pushes; 0: it abandons */
    struct stepgate_model_info start; /* what commit said */
    struct stepgate_step_info info;   /* of the newest token */
    struct cluster_gradient gradients[CLUSTER_VARIABLES_MAX];
    struct cluster_pull pulls[CLUSTER_VARIABLES_MAX];
};

struct cluster_ps {
    struct world_node *node;
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue, *lane_queues[CLUSTER_LANES_MAX];
    struct lane *lanes[CLUSTER_LANES_MAX];
    struct mailbox mailbox;
    struct shard *shard;
    bool over;
    int status;
    void (*asides[CLUSTER_ASIDES_MAX])(void *); /* what goes on aside, and has not begun */
    void *aside_of[CLUSTER_ASIDES_MAX];
    uint32_t aside_count;
    uint64_t recorded; /* steps whose values are in the history + 1 */
    char address[CLUSTER_ADDRESS_BYTES];
};

/* The values of a variable after so many steps. */
struct cluster_history {
    double *values[CLUSTER_VARIABLES_MAX];
};

struct cluster {
    struct ground *ground;
    struct cluster_job job;
    struct random_source random;
    struct world *world;
    struct proof_secret secret;
    uint32_t shards, lanes, workers, variables;
    uint64_t elements[CLUSTER_VARIABLES_MAX];
    struct cluster_ps ps[CLUSTER_SHARDS_MAX];
    struct cluster_worker worker[CLUSTER_WORKERS_MAX];
    struct cluster_history *history; /* [history_count] by step */
    uint64_t history_count;
    uint64_t busy_at;
    unsigned quiet_rounds; /* in a row in which nobody did anything */
    /* sets that the leader recorded, by step */
    uint32_t sets[CLUSTER_SETS_MAX];         /* bits of ranks */
    uint32_t set_ranks[CLUSTER_WORKERS_MAX]; /* of the one that is replayed */
    uint64_t set_count;
    char said[512]; /* the newest warning of a ps */
};

/* cluster_fail -- notes why a scenario has failed; returns -1. */
int cluster_fail(struct ground *ground, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* cluster_open -- the job is there: everybody has joined, committed, and has its first token. Returns 0, or -1 (ground->why). */
int cluster_open(struct ground *ground, const struct cluster_job *job, struct cluster **out);
/* cluster_refused -- the model of that job is refused by its workers, with that code and word. */
int cluster_refused(struct ground *ground, const struct cluster_job *job, int code, const char *word);
/* cluster_close -- everybody that is there leaves, the shards end well, everything is deleted and nothing is left. */
int cluster_close(struct cluster **cluster);
/* cluster_drop -- deletes everything in whatever state it is. Sets NULL, safe on NULL. */
void cluster_drop(struct cluster **cluster);

/* cluster_settle -- everybody goes on until nothing moves; every value that was pulled is then compared with the history. */
int cluster_settle(struct cluster *cluster);
/* cluster_let -- this much time passes. */
int cluster_let(struct cluster *cluster, int ms);
/* cluster_patience -- is it worth looking again? Where time is real. *until is 0 at first. */
bool cluster_patience(struct cluster *cluster, uint64_t *until);
/* cluster_await_end -- until the job has failed for a worker: what a connection's end means may take a moment. */
void cluster_await_end(struct cluster *cluster, uint32_t worker);
/* cluster_start -- a worker that has a token runs a step: pulls, pushes, finishes. It needs time for it. */
int cluster_start(struct cluster *cluster, uint32_t worker);
/* cluster_run -- the same, and everybody settles. */
int cluster_run(struct cluster *cluster, uint32_t worker);
/* cluster_leave -- a worker says good-bye, and everybody settles. */
int cluster_leave(struct cluster *cluster, uint32_t worker);
/* cluster_lose -- a worker dies, and everybody settles. */
int cluster_lose(struct cluster *cluster, uint32_t worker);
/* cluster_kill -- the same, and nobody takes note yet. */
void cluster_kill(struct cluster *cluster, uint32_t worker);
/* cluster_pass -- everybody goes on a little; whoever waits for a timer gets there, no further than `until`. */
void cluster_pass(struct cluster *cluster, uint64_t until);
/* cluster_return_begin -- it is started again; it joins by itself. */
int cluster_return_begin(struct cluster *cluster, uint32_t worker);
/* cluster_return -- it is started again, declares the same model, and everybody settles. */
int cluster_return(struct cluster *cluster, uint32_t worker);

/* cluster_gradient, cluster_rows, cluster_absent -- what a worker pushes from now on. */
void cluster_gradient(struct cluster *cluster, uint32_t worker, uint32_t variable, uint32_t count,
                      const double *values);
void cluster_rows(struct cluster *cluster, uint32_t worker, uint32_t variable, uint32_t rows,
                  const uint64_t *indices, uint32_t count, const double *values);
void cluster_absent(struct cluster *cluster, uint32_t worker, uint32_t variable);
/* cluster_push_rows -- the worker pushes such rows now, in the step that it has a token for; returns the session's answer. */
int cluster_push_rows(struct cluster *cluster, uint32_t worker, uint32_t variable, uint32_t rows,
                      const uint64_t *indices, uint32_t count, const double *values);

/* cluster_now -- of the world, or of the clock. */
uint64_t cluster_now(const struct cluster *cluster);
/* cluster_gs -- the step of every shard; UINT64_MAX: they differ. */
uint64_t cluster_gs(const struct cluster *cluster);
/* cluster_value, cluster_slot, cluster_average -- an element as the shards have it now. Averages and slots: as they are computed with. */
double cluster_value(const struct cluster *cluster, uint32_t variable, uint64_t element);
double cluster_slot(const struct cluster *cluster, uint32_t variable, unsigned slot, uint64_t element);
double cluster_average(const struct cluster *cluster, uint32_t variable, uint64_t element);
/* cluster_pulled -- an element as a worker has pulled it last. */
double cluster_pulled(const struct cluster *cluster, uint32_t worker, uint32_t variable, uint64_t element);
/* cluster_counts -- what the leader has counted of a worker. */
struct mode_counts cluster_counts(const struct cluster *cluster, uint32_t worker);

#endif
