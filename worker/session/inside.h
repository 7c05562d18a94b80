/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the session share: its structs. Nobody outside this folder includes it. */
#ifndef WORKER_SESSION_INSIDE_H
#define WORKER_SESSION_INSIDE_H

#include "ps/protocol/plan.h"
#include "ps/protocol/slot.h"
#include "worker/session/pull.h"
#include "worker/session/rows.h"
#include "worker/session/session.h"

enum session_tag { SESSION_CONTROL = 0, SESSION_PUSH = 1, SESSION_PULL = 2 };

/* A link with what is needed to try again while joining. */
struct session_connection {
    struct link link;            /* link.owner: the session_shard, link.tag: enum session_tag + 4 * lane */
    uint64_t retry_at, tried_at; /* the next and the last attempt to connect */
    unsigned attempts;           /* that have failed */
};

struct session_shard {
    struct session *session;
    uint32_t number;
    char address[STEPGATE_ADDRESS_BYTES];
    unsigned route; /* index into routes of the control link; the lanes use the same */
    bool welcome, left, leave_sent;
    bool knows;    /* that the job has failed */
    char why[160]; /* what the last attempt to connect met with */
    /* a lane's link went down: the control link is given a moment to say why */
    bool suspected;
    uint64_t suspect_until;
    /* its connections broke, and are made anew (rebuild.c) */
    bool broken;
    unsigned breaks;   /* so often in a row */
    unsigned attempts; /* to reach it again */
    unsigned refusals; /* of those: nobody listened */
    uint64_t broken_at, rebuild_by, stands_since;
    struct stepgate_error cause;
    struct session_connection control;
    struct session_connection *push, *pull; /* [lanes], from WELCOME on */
};

struct session {
    bool observer; /* reads and is not counted */
    uint32_t rank, workers, shard_count, lanes;
    uint32_t push_lanes, pull_lanes; /* connections to each shard: all lanes; an observer's: none, and one */
    uint64_t group_bytes, cut_bytes, chunk_bytes;
    struct session_shard *shards;
    struct session_route routes[SESSION_ROUTES_MAX];
    unsigned route_count;
    struct hello hello;
    struct proof_secret secret;
    int64_t liveness_ms, join_timeout_ms;
    uint32_t reconnect; /* how often in a row the connections to a ps may break and be made anew; 0: never */
    uint64_t join_started, join_report_at, join_deadline;
    bool joined, leaving, left;
    bool again; /* a ps may still be of the job that was */
    uint64_t barrier_sequence, barrier_over;
    bool barrier_sent;
    struct log_sink log;
    struct random_source random;
    struct stepgate_error failure;
    bool failed, told; /* told: the ps know why */
    struct session_model **models;
    size_t model_count;
    struct session_model *finding; /* observer: the one that the leader is asked for */
    uint64_t changes;
    struct link_batch batch;
    struct stepgate_job_stats stats;
};

/* What is read of a variable in one span, at most one chunk of it: the unit of pulling, and of sending initial values. */
struct session_segment {
    uint32_t variable, shard;
    uint16_t lane, group;
    uint64_t first;  /* byte within the variable */
    uint64_t offset; /* byte within the parameter arena */
    uint64_t bytes;
    bool reading; /* lockstep: over a network, since the pull that is under way */
};

/* What a part is sent in, one after the other. */
enum session_section { SECTION_COUNT = 0, SECTION_VALUES = 1, SECTION_ROWS = 2, SECTION_END = 3 };

/* What is pushed of a variable in one span: a fragment of the plan, the unit of pushing. */
struct session_part {
    uint32_t variable, shard;
    uint16_t lane, group;
    uint64_t
        first; /* byte of its elements within a gradient; sparse: of its piece within the rows' local memory */
    uint64_t
        offset; /* byte within a slot arena: of its elements; where a count stands in front: of the count */
    uint64_t bytes;                        /* of its elements; 0: sparse, or nothing is ever sent */
    uint64_t first_row, end_row, rows_max; /* sparse: of its piece */
    /* of the contribution that is being sent */
    uint64_t count; /* what the line in front says */
    int section;    /* enum session_section */
    uint64_t sent;  /* bytes of the section */
    bool kept;      /* the caller's buffer was copied into the library's, from where it is sent */
};

enum session_span_state { SPAN_FILLING = 0, SPAN_HEADER = 1, SPAN_NOTIFY = 2, SPAN_SENT = 3 };

struct session_span {
    uint32_t parts;      /* that lie in it; 0: there is no such span */
    uint32_t segments;   /* the same of what is read */
    uint32_t unsent;     /* parts (of initial values: segments) not yet out */
    uint8_t state;       /* enum session_span_state */
    uint64_t bytes;      /* of a slot arena */
    uint64_t ready_next; /* newest step announced by the lane + 1; 0: none */
};

/* Contributions before `sending` that a shard is sent once more, one after the other, and how far the first of them is. */
struct session_again {
    uint32_t slots; /* bits: those that they lie in */
    uint32_t part;
    int section;   /* of that part */
    uint64_t sent; /* of that section */
    uint64_t span; /* to be told of, once every part is out */
};

struct session_place {
    struct stepgate_remote *slots, *parameters;
    struct stepgate_descriptor slots_descriptor, parameters_descriptor;
    uint64_t slot_arena, slot_headers; /* offsets within the slots' remote */
    uint64_t slot_stride;              /* from one slot arena to the next */
    uint64_t parity[2], words;         /* offsets within the parameters' remote */
    uint64_t released_next;            /* contributions below are done with here (tf, async, bounded) */
    struct session_again again;
    bool replays;               /* connections were made anew since the newest token */
    uint64_t replaying;         /* writes under way that were posted since */
    uint64_t fetching, copying; /* reads under way: of a fetch, of a snapshot */
    bool slots_told, parameters_told;
    struct session_span spans[PLAN_GROUPS_MAX][PLAN_LANES_MAX];
};

/* The contribution that wrote a slot. */
struct session_use {
    bool used;
    bool dropped;   /* its token said that it was never summed */
    bool abandoned; /* it counts for nothing, and need not be whole */
    uint64_t sequence, step;
};

struct session_variable {
    uint32_t first_segment, segments; /* in order of `first` */
    uint32_t first_part, parts;
    bool direct;   /* the library's gradient buffer is the slot itself */
    bool in_place; /* the value is read where the ps keeps it */
    bool rows_own; /* gradient was allocated for this variable alone */
    uint8_t *
        gradient; /* the library's buffer of slot 0. sparse: local memory with the pieces as in a slot, or NULL */
    uint64_t gradient_stride; /* to the one of the next slot */
    uint64_t gradient_offset; /* within one copy of the model's local gradients */
    uint8_t *value;        /* local memory of the value, NULL where it is read in place, or not needed yet */
    uint64_t value_offset; /* within the model's local values */
    bool value_own;        /* value was mapped for this variable alone */
    struct stepgate_region *value_region[SESSION_ROUTES_MAX]; /* of a value of its own */
    uint64_t initial_offset;                  /* within the model's initial values in registered memory */
    uint8_t *aux;                             /* aux: what this worker pushed last */
    void *caller_gradient, *caller_parameter; /* NULL: the library's. Of a dma-buf: nothing to look at */
    struct session_memory callers_own[2];     /* what was attached, by enum stepgate_use - 1 */
    struct stepgate_region *caller_gradient_region[SESSION_ROUTES_MAX];
    struct stepgate_region *caller_parameter_region[SESSION_ROUTES_MAX];
    bool pushed, absent;  /* in the open contribution */
    bool callers;         /* what was pushed lies in the caller's buffer */
    bool finite;          /* what was pushed is */
    double norm;          /* its sum of squares */
    uint64_t pushed_next; /* number of the newest contribution that it was pushed in + 1; 0: never */
    uint64_t writes_posted, writes_done; /* of the caller's gradient, where they are counted */
    uint64_t pulled_at;                  /* session_pull_key of the newest pull; 0: none */
    uint64_t lowest, highest;            /* steps that it read */
    uint64_t pulling_next;               /* lockstep: step being pulled + 1 */
    uint32_t pull_posted, pull_done;     /* lockstep: segments of the pull under way */
    bool pull_broken;                    /* some of them will never come */
};

enum session_model_state { MODEL_DECLARED = 0, MODEL_TOLD = 1, MODEL_PLACED = 2, MODEL_COMMITTED = 3 };

enum session_fetch_state { FETCH_NONE = 0, FETCH_LOOK = 1, FETCH_COPY = 2, FETCH_CHECK = 3 };

/* What a fetch is for: variables, or rows of one. */
struct session_want {
    int variable; /* or STEPGATE_ALL */
    bool rows;
    const uint64_t *indices;
    uint64_t count;
    void *out;
};

/* A verified read under way, and rows that are read in any mode (fetch.c). */
struct session_fetch {
    struct pull pull;
    struct session_want want;
    uint64_t key;                 /* session_pull_key that it belongs to */
    int state;                    /* enum session_fetch_state */
    bool whole;                   /* also what this begin has pulled already, in another step */
    size_t next;                  /* unit to be copied, or shard to be looked at */
    uint64_t posted, done;        /* reads */
    bool broken;                  /* some of them will never come: it begins again */
    uint64_t notices, wait_until; /* nothing was new: not again before a lane says something, or then */
    uint64_t newest;              /* step that was ever read whole */
    uint64_t lowest;              /* step that the last one read */
    uint64_t alarm;               /* when session_progress finds something to do here; CLOCK_NEVER */
    uint8_t *words;               /* what was read of words: lanes x struct slot_words per shard */
    uint8_t *rows;                /* rows on their way, where they cannot be read into the caller's memory */
    uint64_t rows_bytes;
    struct stepgate_region *words_region[SESSION_ROUTES_MAX], *rows_region[SESSION_ROUTES_MAX];
};

/* When nothing was found. */
struct session_look {
    uint64_t next;    /* the step, + 1; 0: never */
    uint64_t changes; /* session_changes */
};

/* Where a shard has a copy. */
struct session_copy {
    bool told;
    uint64_t step, offset; /* offset: of the copy, within the remote */
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote;
};

#define SNAPSHOT_BATCH 16

/* Bytes that are on their way into the scratch memory. */
struct session_snapshot_piece {
    uint8_t *target;
    uint64_t bytes;
};

/* A snapshot that is under way: what is wanted, and where it is (snapshot.c). */
struct session_snapshot {
    bool active, refused; /* refused: a shard cannot make it */
    uint64_t id;          /* of the newest one asked for */
    uint32_t what;        /* enum board_what */
    uint32_t *ids;        /* [count] */
    void **out;           /* the same */
    size_t count;
    struct session_copy *copies; /* [shards] */
    size_t at_variable, at_piece;
    uint64_t at_byte;      /* what is next */
    uint64_t posted, done; /* reads */
    uint8_t *scratch;
    struct stepgate_region *scratch_region[SESSION_ROUTES_MAX];
    struct session_snapshot_piece batch[SNAPSHOT_BATCH];
    size_t batch_count;
};

/* What the leader is asked about contributions. */
struct session_counts {
    bool wanted, there;
    uint32_t rank;
    uint64_t asked; /* questions that were not answered yet: the answer to the newest one counts */
    struct session_count value;
};

/* What the leader is asked to write. */
struct session_checkpoint {
    bool wanted, sent, there; /* sent: the request that was sent last is the one that is wanted */
    bool pending;             /* that one has no answer yet */
    uint64_t id, step;
    struct stepgate_error error; /* code 0: it is complete */
};

struct session_model {
    struct session *session;
    uint32_t number; /* the ps's; UINT32_MAX: an observer does not know it yet */
    struct model *model;
    bool lent; /* model outlives this */
    struct plan *plan;
    int state;      /* enum session_model_state */
    void **initial; /* [initial_count], malloc'ed, NULL: zeros */
    size_t initial_count;
    uint8_t *initial_local; /* the initial values in registered memory, until they are sent */
    uint64_t initial_bytes;
    struct stepgate_region *initial_region[SESSION_ROUTES_MAX];
    struct session_variable *variables;
    struct session_segment *segments;
    uint32_t segment_count;
    struct session_part *parts;
    uint32_t part_count;
    uint64_t *
        said; /* [depth][part_count]: count of each part, where a step has several contributions of this worker's; NULL */
    uint32_t *pending; /* parts (of initial values: segments) to be sent, in order of pushing */
    uint32_t pending_count;
    struct session_place *places; /* [shards] */
    uint32_t spans_total, spans_sent;
    uint8_t *local_gradients, *local_values; /* where slots are not mapped, or a variable is cut */
    uint64_t local_gradient_bytes, local_gradient_stride, local_value_bytes;
    struct stepgate_region *local_gradient_region[SESSION_ROUTES_MAX];
    struct stepgate_region *local_value_region[SESSION_ROUTES_MAX];
    bool in_place; /* every value is read in place */
    bool copied;   /* some gradient of the library's is copied into its slot */
    bool
        lockstep; /* model_lockstep: every step has all workers, so what was announced stays until this worker goes on */
    uint32_t depth, quota;
    struct rows rows;                /* those of the push under way */
    struct session_look pull_missed; /* lockstep: a pull of all variables */
    bool pull_refused;               /* a read of it was not taken */
    struct session_fetch fetch;
    uint64_t notices;  /* announcements of lanes so far */
    int slot_kind;     /* what is being pushed now */
    bool first_known;  /* the step with which the job begins: announcements are told from it on */
    uint32_t kept;     /* bits of enum message_kept, of the first token */
    bool running;      /* it was in training already: this worker came back */
    uint32_t aux_told; /* shards that have said all that the checkpoint had of this worker's own */
    bool token_there;
    uint64_t token_next; /* number of the contribution that the token answers + 1; 0: the commit's */
    uint64_t token_step, token_verdict_step, token_staleness;
    int token_verdict;
    uint32_t token_replicas, token_workers; /* R and T, as they are now */
    bool begun, open, finishing, sealed;
    uint64_t step;     /* open or last begun */
    uint64_t sequence; /* number of the open or the next contribution */
    uint64_t sending;  /* number of the open or the last one: the one that is on its way */
    uint32_t handed;   /* contributions to this step that were finished */
    struct session_use slots[SLOT_DEPTH_MAX]; /* what was written there last */
    struct session_use before;                /* what was in the slot of `sending` */
    uint32_t unpushed;                        /* variables of the open step neither pushed nor absent */
    uint32_t present;                         /* variables with a gradient in the open step */
    double weight;
    uint8_t *found; /* observer: the description that comes in */
    uint64_t found_total, found_there;
    bool found_all;
    uint64_t find_at; /* not to be asked for before */
    struct session_snapshot snapshot;
    struct session_counts counts;
    struct session_checkpoint checkpoint;
};

/* session_model_of -- the model of that number; NULL: there is none. */
struct session_model *session_model_of(const struct session *session, uint32_t number);
/* session_model_add -- a model of that name, to be declared or found. */
int session_model_add(struct session *session, const char *name, struct session_model **out);
/* session_need_worker -- what observers cannot do. */
int session_need_worker(const struct session *session, const char *what);
/* session_place_plan -- plans a model that is known, and cuts it into what is moved. */
int session_place_plan(struct session_model *model);
/* session_place_parameters -- takes over the parameters of a shard that has granted them. Errors: EAGAIN. */
int session_place_parameters(struct session_model *model, uint32_t shard);
/* session_fits -- does [offset, offset + bytes) end at `end` or before? The offset is a ps's word: no sum may wrap. */
static inline bool session_fits(uint64_t offset, uint64_t bytes, uint64_t end)
{
    return offset <= end && bytes <= end - offset;
}
/* session_observe_message -- a message for observers alone; false: it is not due. */
bool session_observe_message(struct session *session, const struct session_shard *shard,
                             const struct message *message, uint64_t now);
/* session_snapshot_message -- a shard has made its copy, or cannot. */
bool session_snapshot_message(struct session *session, const struct session_shard *shard,
                              const struct message *message);
void session_snapshot_delete(struct session_model *model);
/* session_checkpoint_message -- the leader's answer; false: nobody has asked. */
bool session_checkpoint_message(struct session *session, const struct message *message);
/* session_initial_aux -- a part of an aux variable as a checkpoint had it. Errors: EPROTOCOL, ENOMEM. */
int session_initial_aux(struct session_model *model, const struct message *message);
/* session_initial_there -- has everything come of what this worker had of its own? */
bool session_initial_there(const struct session_model *model);
/* session_transfer_first -- the job begins with this step: what lanes have announced already is of it or later ones. */
void session_transfer_first(struct session_model *model, uint64_t step);
/* session_counts_message -- the leader's answer. */
bool session_counts_message(struct session *session, const struct message *message);

/* session_model_message -- a message about a model has arrived from a shard. */
void session_model_message(struct session *session, struct session_shard *shard,
                           const struct message *message, uint64_t now);
/* session_model_notify -- a lane says that a span is ready. */
void session_model_notify(struct session *session, struct session_shard *shard, uint32_t lane,
                          uint32_t value);
/* session_model_completion -- a read or write to a shard has finished. */
void session_model_completion(struct session *session, const struct session_shard *shard, uint64_t context,
                              int status);
/* session_untouched -- lockstep: the bytes of the open step that were copied out of a mapping of this lane are those of the step. After pull_fence. */
bool session_untouched(const struct session_model *model, uint32_t shard, uint32_t lane);
/* session_pulls_break, session_fetch_break -- what is being read of a shard will not come: it is read again. */
void session_pulls_break(struct session_model *model, uint32_t shard);
void session_fetch_break(struct session_model *model, uint32_t shard);
/* session_snapshot_break -- the same of a snapshot: another one is asked for. */
void session_snapshot_break(struct session_model *model, uint32_t shard, uint64_t now);
/* session_transfer_again -- what a shard has not answered is sent to it once more. */
void session_transfer_again(struct session_model *model, uint32_t shard);
/* session_down -- a link went down. */
void session_down(struct session *session, struct session_shard *shard, struct session_connection *connection,
                  uint64_t now);
/* session_lost -- words that a shard is gone; `why` is the error of a link to it. */
void session_lost(struct session_shard *shard, const struct stepgate_error *why);
/* session_back_off -- when to try the next time; it takes longer the more often it was tried. */
uint64_t session_back_off(struct session *session, unsigned attempts, int64_t most_ms, uint64_t now);
/* session_missing -- words the shards that are not connected; returns how many are. */
uint32_t session_missing(const struct session *session, uint64_t now, char *text, size_t size);
/* session_is_up -- every link to a shard is up. */
bool session_is_up(const struct session *session, const struct session_shard *shard);
/* session_link_down -- the lane's link that is down; NULL: there is none. */
const struct link *session_link_down(const struct session *session, const struct session_shard *shard);
/* session_rebuild_begin -- the connections to a shard broke; false: they are not made anew. */
bool session_rebuild_begin(struct session *session, struct session_shard *shard, const struct link *link,
                           uint64_t now);
/* session_rebuild_again -- an attempt to make them anew failed. */
void session_rebuild_again(struct session *session, struct session_shard *shard,
                           struct session_connection *connection, uint64_t now);
/* session_rebuild_watch -- are they there, or is it too late? */
void session_rebuild_watch(struct session *session, struct session_shard *shard, uint64_t now);
/* session_rebuild_waits -- a lane's connection comes after that of control. */
static inline bool session_rebuild_waits(const struct session_shard *shard,
                                         const struct session_connection *connection)
{
    return shard->broken && connection != &shard->control && shard->control.link.state != LINK_UP;
}
/* session_model_progress -- sends what can be sent. Returns 1 if something was. */
int session_model_progress(struct session_model *model, uint64_t now);
void session_model_delete(struct session_model **model);
/* session_forget_memory -- what is known of an attached buffer, but for its registrations. */
void session_forget_memory(struct session_variable *v, int use);
/* session_register, session_register_memory -- memory for local use, on each route on which a shard is not mapped; registered ones are left. */
int session_register_memory(struct session_model *model, const struct session_memory *memory, uint64_t bytes,
                            struct stepgate_region *regions[SESSION_ROUTES_MAX]);
int session_register(struct session_model *model, void *memory, uint64_t bytes,
                     struct stepgate_region *regions[SESSION_ROUTES_MAX]);
void session_unregister(struct stepgate_region *regions[SESSION_ROUTES_MAX]);
/* session_memory_new -- where each variable's gradient and value lie. */
int session_memory_new(struct session_model *model);
/* session_memory_value -- makes memory for a value that has none yet. */
int session_memory_value(struct session_model *model, uint32_t variable);
/* session_memory_rows -- makes memory for the rows of a push that cannot be written into a slot at once. */
int session_memory_rows(struct session_model *model, uint32_t variable);
void session_memory_delete(struct session_model *model);
/* session_initial_new -- worker 0 queues all initial values; every worker keeps those of its aux variables. */
int session_initial_new(struct session_model *model);
/* session_initial_delete -- they have been applied, or the model is deleted. */
void session_initial_delete(struct session_model *model);
/* session_initial_source -- the value of a segment; NULL: zeros. */
const uint8_t *session_initial_source(const struct session_model *model,
                                      const struct session_segment *segment, uint64_t *offset);

/* session_transfer_leave -- another contribution begins: of the one before, what has yet to be sent again is sent beside it. */
void session_transfer_leave(struct session_model *model);
/* session_transfer_replays -- is anything under way that was sent again? The device may still read it, and write it over what is sent next. */
bool session_transfer_replays(const struct session_model *model);
/* session_transfer_begin -- resets the spans for the pushes of a step (or of the initial values). */
void session_transfer_begin(struct session_model *model, int slot_kind);
/* session_transfer_queue -- queues the parts of a variable. */
void session_transfer_queue(struct session_model *model, uint32_t variable);
/* session_span_of -- of a part. */
static inline struct session_span *session_span_of(const struct session_model *model,
                                                   const struct session_part *part)
{
    return &model->places[part->shard].spans[part->group][part->lane];
}
/* session_use_over -- is that contribution done with in this span of this shard, so that its bytes may be overwritten? */
bool session_use_over(const struct session_model *model, uint32_t shard, const struct session_span *span,
                      const struct session_use *use);
/* session_span_free -- may the slot of `sending` be written there? */
bool session_span_free(const struct session_model *model, uint32_t shard, const struct session_span *span);
/* session_gradient_of -- the library's buffer of a variable for that contribution. */
uint8_t *session_gradient_of(const struct session_model *model, uint32_t variable, uint64_t sequence);

/* session_pull_key -- tells pulls of different contributions apart; never 0. */
static inline uint64_t session_pull_key(const struct session_model *model)
{
    return model->sending + 1;
}
/* session_pull_aux -- an aux variable's value comes from this worker. */
int session_pull_aux(struct session_model *model, uint32_t variable);
/* session_fetch_try -- 0 when what is wanted was read. */
int session_fetch_try(struct session_model *model, const struct session_want *want, uint64_t now);
void session_fetch_delete(struct session_model *model);
void session_fetch_rows_delete(struct session_model *model);
/* session_value_region -- where a value that is read over a network goes to; *offset, within the value, becomes that within the region. */
struct stepgate_region *session_value_region(const struct session_model *model, uint32_t variable,
                                             unsigned route, uint64_t *offset);
/* session_pulls_all -- does STEPGATE_ALL include the variable? Not a table that would have to be moved. */
bool session_pulls_all(const struct session_model *model, uint32_t variable);
/* session_reading -- are reads under way into the memory of a variable's value? */
bool session_reading(const struct session_model *model, uint32_t variable);

/* What a completion belongs to. */
enum session_context_kind {
    CONTEXT_PULL = 1,
    CONTEXT_FETCH = 2,
    CONTEXT_WRITE = 3,
    CONTEXT_SNAPSHOT = 4,
    CONTEXT_REPLAY = 5
};
static inline uint64_t session_context(const struct session_model *model, int kind, uint32_t variable)
{
    return (uint64_t)model->number << 40 | (uint64_t)kind << 32 | variable;
}
/* session_mapped -- is the memory of this shard mapped here? Observers have no slots. */
static inline bool session_mapped(const struct session_place *place)
{
    return (place->slots == NULL || place->slots->mapped != NULL) && place->parameters->mapped != NULL;
}
/* session_endpoint_of -- of a link that is up; NULL: it is not, and what was to be posted must wait. */
static inline struct stepgate_endpoint *session_endpoint_of(const struct link *link)
{
    return link->state == LINK_UP ? link->endpoint : NULL;
}
/* session_pull_endpoint -- what is read of a lane is read over its own connection, if it has one; NULL: as above. */
static inline struct stepgate_endpoint *session_pull_endpoint(const struct session_shard *shard,
                                                              uint32_t lane)
{
    return session_endpoint_of(&shard->pull[lane < shard->session->pull_lanes ? lane : 0].link);
}
/* session_push_endpoint -- where its spans are sent to. */
static inline struct stepgate_endpoint *session_push_endpoint(const struct session_shard *shard,
                                                              uint32_t lane)
{
    return session_endpoint_of(&shard->push[lane].link);
}

#endif
