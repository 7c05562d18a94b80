/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the shard share: its structs. Nobody outside this folder includes it. */
#ifndef PS_SHARD_INSIDE_H
#define PS_SHARD_INSIDE_H

#include "ps/protocol/model.h"
#include "ps/shard/shard.h"

enum shard_tag { SHARD_MEMBER = 0, SHARD_PEER = 1, SHARD_LEADER = 2 };

/* A worker of the job. */
struct shard_member {
    struct link control; /* tag: SHARD_MEMBER + 4 * rank */
    unsigned fabric;
    struct stepgate_domain *domain; /* its own: its slots, its control and push connections */
    bool up, left, lost;
    uint64_t barrier;
    uint64_t up_since;
};

/* Another shard, on the leader. */
struct shard_peer {
    struct link link; /* tag: SHARD_PEER + 4 * shard */
    bool done;        /* it said that its workers have left */
    bool up;
    bool knows; /* that the job has failed: it need not be waited for */
};

struct shard_seal {
    uint64_t next; /* step + 1; 0: none */
    double weight;
};

/* A worker's part in a model. */
struct shard_share {
    bool checked, matched, told;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct shard_seal seal[2]; /* by parity of the step: a worker may be one step ahead of this shard */
    bool sealed_initial;
    struct stepgate_region *region;
    uint8_t *parts; /* a model that is coming in, part by part */
    uint64_t parts_total, parts_there;
    bool asked;
};

enum shard_phase { PHASE_DECLARED = 0, PHASE_INITIAL = 1, PHASE_RUNNING = 2 };

struct shard_model {
    struct shard *shard;
    uint32_t number;
    int phase; /* enum shard_phase */
    struct model *model;
    struct plan *plan;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct shard_share *shares; /* [workers] */
    struct board board;
    struct stepgate_region *parameters[LANE_FABRICS_MAX];
    uint64_t parity_offset[2];
    uint64_t state_bytes;
    uint64_t seen_arrivals;
    bool look;           /* something changed: look whether the step is complete */
    bool complete_sent;  /* for the step (or the initial values) awaited now */
    bool ordered;        /* an order is with the lanes */
    uint64_t step;       /* awaited now; parameters of this step are there */
    uint64_t step_since; /* when it began */
    uint64_t report_at;
    uint64_t late_at; /* when a step that some have contributed to has lasted too long */
};

/* What the leader knows of a model. */
struct leader_model {
    _Atomic uint64_t step; /* moved by one compare-and-swap per step */
    bool initial_done;
    uint64_t *complete_next; /* [shards] newest step complete there + 1 (gradients) */
    bool *complete_initial, *applied_initial;
    uint64_t commits;
};

struct shard {
    struct shard_config config;
    struct hello hello;
    struct stepgate_listener *listeners[LANE_FABRICS_MAX];
    struct stepgate_domain *shared[LANE_FABRICS_MAX]; /* read-only parameters */
    char address[STEPGATE_ADDRESS_BYTES];
    char leader_address[STEPGATE_ADDRESS_BYTES];
    struct shard_member *members; /* [workers] */
    struct shard_peer *peers;     /* [shards], on the leader */
    struct link leader;           /* on the others */
    unsigned leader_fabric, leader_attempts;
    uint64_t leader_retry_at;
    bool leader_up, done_sent;
    bool leader_knows;                           /* that the job has failed, too */
    struct shard_model *models[SLOT_MODELS_MAX]; /* by number; NULL: nobody has spoken of it */
    uint32_t model_end;                          /* behind the highest number spoken of */
    struct leader_model *leads[SLOT_MODELS_MAX];
    uint64_t started, join_deadline, join_report_at, attend_at;
    bool gathered;
    bool ending; /* nothing new is begun: last words are flushed */
    bool finished;
    uint64_t end_deadline;
    bool failed;
    bool lingers; /* somebody may still come: it is told, until end_deadline */
    struct stepgate_error failure;
    struct shard_stats stats;
};

/* member: who is there */
void shard_request(struct shard *shard, unsigned fabric, const struct stepgate_event *event, uint64_t now);
void shard_member_message(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_member_down(struct shard *shard, uint32_t rank, const struct stepgate_error *why, uint64_t now);
void shard_watch_gathering(struct shard *shard, uint64_t now);
void shard_watch_leaving(struct shard *shard, uint64_t now);
/* shard_abort -- the job has failed, for the reason that is this thread's last error: everyone is told, then this shard ends. */
void shard_abort(struct shard *shard, uint64_t now);
/* shard_send -- to a worker; a link that is down is the business of its DISCONNECTED event. */
void shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);

/* place: how a model comes in and gets its memory */
void shard_model_part(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_model_check(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_model_delete(struct shard_model **model);
/* shard_place_retry -- grants that an endpoint did not take before. */
void shard_place_retry(struct shard_model *model, uint64_t now);

/* gate: arrivals, seals, complete, commit, applied */
void shard_seal(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_gate(struct shard_model *model, uint64_t now);
void shard_gate_declared(struct shard_model *model, uint64_t now);
void shard_commit(struct shard *shard, const struct message *commit, uint64_t now);

/* leader: decides */
int leader_model_new(struct shard *shard, uint32_t model);
void leader_model_delete(struct leader_model **model);
void leader_complete(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
void leader_applied(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
/* leader_send -- from any shard to the leader: a function call on shard 0. */
void leader_send(struct shard *shard, const struct message *message, uint64_t now);
void leader_barrier(struct shard *shard, uint64_t now);

#endif
