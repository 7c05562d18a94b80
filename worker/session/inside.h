/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the session share: its structs. Nobody outside this folder includes it. */
#ifndef WORKER_SESSION_INSIDE_H
#define WORKER_SESSION_INSIDE_H

#include "ps/protocol/plan.h"
#include "ps/protocol/slot.h"
#include "worker/session/session.h"

enum session_tag { SESSION_CONTROL = 0, SESSION_PUSH = 1, SESSION_PULL = 2 };

/* A link with what is needed to try again while joining. */
struct session_connection {
    struct link link; /* link.owner: the session_shard, link.tag: enum session_tag + 4 * lane */
    uint64_t retry_at;
    unsigned attempts;
};

struct session_shard {
    struct session *session;
    uint32_t number;
    char address[STEPGATE_ADDRESS_BYTES];
    unsigned route; /* index into routes of the control link; the lanes use the same */
    bool welcome, left, leave_sent;
    char why[160]; /* what the last attempt to connect met with */
    struct session_connection control;
    struct session_connection *push, *pull; /* [lanes], from WELCOME on */
};

struct session {
    uint32_t rank, workers, shard_count, lanes;
    uint64_t group_bytes, cut_bytes, chunk_bytes;
    struct session_shard *shards;
    struct session_route routes[SESSION_ROUTES_MAX];
    unsigned route_count;
    struct hello hello;
    struct proof_secret secret;
    int64_t liveness_ms, join_timeout_ms;
    uint64_t join_started, join_report_at, join_deadline;
    bool joined, leaving, left;
    uint64_t barrier_sequence, barrier_over;
    bool barrier_sent;
    struct log_sink log;
    struct random_source random;
    struct stepgate_error failure;
    bool failed, told; /* told: the ps know why */
    struct stepgate_error
        suspect;            /* a lane's link went down: the control link is given a moment to say why */
    uint64_t suspect_until; /* CLOCK_NEVER: no suspicion */
    struct session_model **models;
    size_t model_count;
    uint64_t changes;
    struct link_batch batch;
    struct stepgate_job_stats stats;
};

/* The part of a variable that lies in one span, at most one chunk of it: the unit of pushing and pulling. */
struct session_segment {
    uint32_t variable, shard;
    uint16_t lane, group;
    uint64_t first;  /* byte within the variable */
    uint64_t offset; /* byte within the arena */
    uint64_t bytes;
};

enum session_span_state { SPAN_FILLING = 0, SPAN_HEADER = 1, SPAN_NOTIFY = 2, SPAN_SENT = 3 };

struct session_span {
    uint32_t segments; /* that lie in it; 0: a gap, announced but never written */
    uint32_t unsent;   /* segments not yet out in this step */
    uint8_t state;     /* enum session_span_state */
    uint64_t bytes;
    uint64_t ready_next; /* newest step announced by the lane + 1; 0: none */
};

struct session_place {
    struct stepgate_remote *slots, *parameters;
    struct stepgate_descriptor slots_descriptor, parameters_descriptor;
    uint64_t slot_arena, slot_headers; /* offsets within the slots' remote */
    uint64_t parity[2];                /* offsets within the parameters' remote */
    bool slots_told, parameters_told;
    struct session_span spans[PLAN_GROUPS_MAX][PLAN_LANES_MAX];
};

struct session_variable {
    uint32_t first_segment, segments;
    uint8_t *gradient;        /* the library's buffer: in the slot, or local memory */
    uint8_t *parameter_local; /* local memory, NULL where the value is mapped in place */
    uint64_t local_offset;    /* within the model's local memory */
    void *caller_gradient, *caller_parameter;
    struct stepgate_region *caller_gradient_region[SESSION_ROUTES_MAX];
    struct stepgate_region *caller_parameter_region[SESSION_ROUTES_MAX];
    bool pushed, absent;             /* in the open step */
    uint64_t pushed_next;            /* step of the newest push + 1; 0: never */
    uint64_t pulled_next;            /* step whose value is readable + 1; 0: none */
    uint64_t pulling_next;           /* step being pulled + 1 */
    uint32_t pull_posted, pull_done; /* segments of the pull under way */
};

enum session_model_state { MODEL_DECLARED = 0, MODEL_TOLD = 1, MODEL_PLACED = 2, MODEL_COMMITTED = 3 };

struct session_model {
    struct session *session;
    uint32_t number;
    struct model *model;
    struct plan *plan;
    int state;      /* enum session_model_state */
    void **initial; /* [initial_count], malloc'ed, NULL: zeros */
    size_t initial_count;
    struct session_variable *variables;
    struct session_segment *segments;
    uint32_t segment_count;
    uint32_t *pending; /* segments to be sent, in order of pushing */
    uint32_t pending_count;
    struct session_place *places; /* [shards] */
    uint32_t spans_total, spans_sent;
    uint8_t *local_gradients, *local_parameters; /* where slots are not mapped, or a variable is cut */
    uint64_t local_bytes;
    struct stepgate_region *local_gradient_region[SESSION_ROUTES_MAX];
    struct stepgate_region *local_parameter_region[SESSION_ROUTES_MAX];
    bool in_place;
    int slot_kind; /* what is being pushed now */
    bool token_there;
    uint64_t token_step, token_verdict_step;
    int token_verdict;
    bool begun, open, finishing, sealed;
    uint64_t step;     /* open or last begun */
    uint32_t unpushed; /* variables of the open step neither pushed nor absent */
    double weight;
};

/* session_model_message -- a message about a model has arrived from a shard. */
void session_model_message(struct session *session, struct session_shard *shard,
                           const struct message *message, uint64_t now);
/* session_model_notify -- a lane says that a span is ready. */
void session_model_notify(struct session *session, struct session_shard *shard, uint32_t lane,
                          uint32_t value);
/* session_model_completion -- a read has finished. */
void session_model_completion(struct session *session, uint64_t context, int status);
/* session_model_progress -- sends what can be sent. Returns 1 if something was. */
int session_model_progress(struct session_model *model, uint64_t now);
void session_model_delete(struct session_model **model);
/* session_transfer_begin -- resets the spans for the pushes of a step (or of the initial values). */
void session_transfer_begin(struct session_model *model, int slot_kind);
/* session_transfer_queue -- queues the segments of a variable. */
void session_transfer_queue(struct session_model *model, uint32_t variable);
/* session_mapped -- is the slot memory of this shard mapped here? */
static inline bool session_mapped(const struct session_place *place)
{
    return place->slots->mapped != NULL && place->parameters->mapped != NULL;
}

#endif
