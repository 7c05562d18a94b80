/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the shard share: its structs. Nobody outside this folder includes it. */
#ifndef PS_SHARD_INSIDE_H
#define PS_SHARD_INSIDE_H

#include <stdatomic.h>

#include "ps/mode/mode.h"
#include "ps/optimizer/hyper.h"
#include "ps/protocol/model.h"
#include "ps/shard/shard.h"

#define SHARD_OBSERVERS_MAX LANE_OBSERVERS_MAX

enum shard_tag { SHARD_MEMBER = 0, SHARD_PEER = 1, SHARD_LEADER = 2, SHARD_OBSERVER = 3 };

static_assert(OPTIMIZER_HYPER_WORDS == MESSAGE_HYPER, "the numbers of a step travel as they are");

/* A worker of the job. */
struct shard_member {
    struct link control; /* tag: SHARD_MEMBER + 4 * rank */
    unsigned fabric;
    struct stepgate_domain *domain; /* its own: its slots, its control and push connections */
    bool up, left, lost;
    bool leaving; /* it said good-bye, and waits for the answer */
    uint64_t barrier;
    uint64_t up_since;
    /* its connections broke, and it is expected to make them anew (rebuild.c) */
    bool broken;
    bool fails;       /* it said that the job has failed: it will not come back */
    uint32_t holding; /* lanes that have not let go of the old ones yet */
    uint32_t breaks;  /* so often in a row */
    uint64_t broken_at, return_by;
    struct stepgate_error cause; /* why its connections broke, or it was lost */
    /* it was lost, and the job goes on (absence.c) */
    bool open;                   /* nothing of it is left here: it may come back */
    uint32_t forgetting;         /* lanes that have not let go of it yet */
    uint64_t incarnation;        /* that is there, or was last; 0: none */
    uint64_t past;               /* the one that was given up last; 0: none */
    uint64_t rival, rival_since; /* the incarnation that wants to come under its rank while it is there */
    bool late;                   /* the job began without it, and it has not come since (late.c) */
    bool expected;               /* it is waited for */
    bool newcomer;               /* it came back, and has not contributed yet: if it fails, it fails alone */
    uint64_t expected_until;     /* so long; CLOCK_NEVER: for ever */
    uint64_t met; /* the barrier that was over when it came back: it counts its own from there */
};

/* Another shard, on the leader. */
struct shard_peer {
    struct link link; /* tag: SHARD_PEER + 4 * shard */
    bool done;        /* it said that its workers have left */
    bool up;
    bool knows; /* that the job has failed: it need not be waited for */
};

/* What a worker said of a contribution of its. */
struct shard_seal {
    uint64_t next; /* sequence + 1; 0: none */
    uint64_t step;
    double weight, norm;
    bool finite;
    uint8_t *absent; /* tf: a bit for each variable; NULL in other modes */
};

/* A worker's part in a model. */
struct shard_share {
    bool checked, matched, told;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct shard_seal *seals; /* [2 * depth], by sequence: a worker may be one step ahead of this shard */
    uint8_t *absent;          /* tf: the bitmaps of the seals */
    uint64_t sealed_next;     /* newest sequence sealed + 1 */
    uint64_t reported_next;   /* newest sequence reported + 1 */
    bool sealed_initial;
    bool late;   /* the model was placed without it */
    bool forget; /* the leader wants it forgotten */
    uint64_t
        begins; /* number of its first contribution: that of a worker that came back is beyond those before */
    struct stepgate_region *region;
    bool again;     /* to be told anew where its slots are: it may have missed it */
    uint8_t *parts; /* a model that is coming in, part by part */
    uint64_t parts_total, parts_there;
    bool asked;
};

/* A hyper-parameter that changes at a step. */
struct shard_tune {
    uint64_t step;
    char key[MESSAGE_TEXT_BYTES], value[MESSAGE_TEXT_BYTES];
};

/* Those that wait for their step, in the order in which they were given. */
struct shard_tunes {
    struct shard_tune *list; /* [count] */
    size_t count;
};

/* An arena that nobody but this ps sees. */
struct shard_memory {
    void *address;
    uint64_t bytes;
};

enum shard_keeping { KEEPING_NOTHING = 0, KEEPING_COPY = 1, KEEPING_WRITE = 2, KEEPING_READ = 3 };

/* What this shard does about checkpoints of a model: one thing at a time. */
struct shard_checkpoint {
    int keeping;            /* enum shard_keeping */
    uint64_t step;          /* of it */
    struct board_copy copy; /* where the lanes copy to */
    struct archive_piece *pieces;
    size_t piece_count, piece_room;
    atomic_bool over; /* what went on aside is: release there, acquire in shard_checkpoint_progress */
    int status;
    struct stepgate_error error;
    struct archive_receipt receipt;
    bool wanted; /* the leader wants that a checkpoint is read, once there is memory for it */
    uint64_t wanted_step;
    bool restored; /* one was read, of `step` */
};

enum leader_final { FINAL_NONE = 0, FINAL_WANTED = 1, FINAL_MAKING = 2, FINAL_DONE = 3 };

/* What the leader does about checkpoints of a model. */
struct leader_checkpoint {
    bool making; /* one is on its way: of `step` */
    uint64_t step, taken_at, started;
    struct archive_state state;
    struct archive_receipt *receipts; /* [shards] */
    bool *answered;                   /* the same: it is written there, or cannot be */
    uint32_t missing;
    bool failed;
    struct stepgate_error error; /* why */
    bool completing;             /* aside: every part is kept */
    atomic_bool over;            /* that is over: release there, acquire in leader_checkpoint_progress */
    int status;
    bool first;         /* no worker has a token before this one is over */
    bool wanted;        /* another one, once this one is over */
    bool left_out;      /* that one was left out is said */
    uint64_t have_next; /* step of the newest one that is complete + 1 */
    uint64_t *asked;    /* [workers]: id of a worker's request + 1; 0: none */
    bool *served;       /* [workers]: by the one that is on its way */
    int final;          /* enum leader_final: of the one before the job is stopped */
};

/* How the leader begins a model where it was left. */
struct leader_restore {
    bool on;      /* nothing may begin yet */
    bool finding; /* aside */
    bool reading; /* on every shard */
    atomic_bool over;
    int status;
    uint64_t below; /* checkpoints from that step on have been refused; UINT64_MAX: none */
    uint32_t missing;
    bool failed;
    bool there; /* there was one */
    struct stepgate_error error;
    struct archive_state state;
};

enum shard_phase { PHASE_DECLARED = 0, PHASE_INITIAL = 1, PHASE_RUNNING = 2 };

struct shard_model {
    struct shard *shard;
    uint32_t number;
    int phase; /* enum shard_phase */
    bool
        placing; /* its memory is being got aside: nothing else touches board, parameters, memory and regions */
    atomic_bool placed; /* that is over: release there, acquire in shard_progress */
    int place_status;
    struct stepgate_error place_error;
    struct model *model;
    struct plan *plan;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];
    struct shard_share *shares; /* [workers] */
    struct board board;
    struct stepgate_region *parameters[LANE_FABRICS_MAX];
    uint64_t parity_offset[2], words_offset;
    struct shard_memory *memory; /* private arenas */
    size_t memory_count;
    uint64_t memory_total, memory_got, memory_said; /* bytes: needed, there, there when it was said last */
    uint32_t depth;
    uint32_t again;         /* shares that are to be told anew */
    bool ahead;             /* lanes sum what has arrived of a step that is not complete */
    bool together;          /* contributions are reported to the leader a whole step at a time */
    struct message *orders; /* from the leader, in order, not carried out yet: [order_room], a ring */
    size_t order_first, order_count, order_room;
    struct message current; /* the order that is with the lanes */
    uint64_t next_commit;   /* the step that may be committed next */
    double accumulated;     /* tf: the weights in the accumulators */
    struct shard_tunes tunes;
    struct shard_checkpoint checkpoint;
    uint8_t *description; /* packed, as it was declared: for checkpoints */
    size_t description_bytes;
    uint64_t first; /* step with which it began here: contributions are counted from there */
    uint64_t seen_arrivals;
    bool look;           /* something changed: look whether the step is complete */
    bool complete_sent;  /* for the step (or the initial values) awaited now */
    bool ordered;        /* an order is with the lanes */
    uint64_t step;       /* awaited now; parameters of this step are there */
    uint64_t step_since; /* when it began */
    uint64_t report_at;
    uint64_t late_at; /* when a step that some have contributed to has lasted too long */
    /* leader: the step + 1 (0: none) that was awaited when the newest contribution for nothing came, and when the first such came */
    uint64_t waste_next, waste_since;
    uint64_t waste_report_at;
};

/* On how many shards a contribution is complete. */
struct leader_tally {
    uint64_t next; /* its sequence + 1 */
    uint32_t shards;
};

enum leader_absence_state {
    ABSENCE_NONE = 0,
    ABSENCE_HELD = 1,       /* lost, and the step that is awaited may still take what it gave */
    ABSENCE_FORGETTING = 2, /* every shard is told to forget it */
    ABSENCE_AWAY = 3        /* all have: it may come back */
};

enum leader_heard { HEARD_FORGOT = 1, HEARD_BACK = 2 };

/* A worker that is lost, as far as a model is concerned. */
struct leader_absence {
    int state;             /* enum leader_absence_state */
    uint64_t incarnation;  /* that was lost */
    uint64_t next;         /* another one that was lost while that was being forgotten; 0: none */
    uint32_t forgot, back; /* shards that have forgotten it, and on which another one is back since */
    uint64_t begins;       /* number of the next contribution of its rank */
    bool over;             /* somebody came back, and has a token */
};

/* What the leader knows of a model. */
/* Who contributed to the last steps, for checkpoints; where every step takes everybody's contributions nobody asks. */
struct leader_sets {
    struct archive_set *ring; /* [ARCHIVE_SETS_MAX], NULL: not kept; a step lies at its number modulo that */
    uint32_t *ranks;          /* of all sets, `most` for each */
    uint32_t most;
    uint64_t first, next; /* steps that are kept: from first to below next */
};

struct leader_model {
    _Atomic uint64_t step; /* moved by one compare-and-swap per step */
    bool initial_done;
    struct mode *mode;       /* from the placement on */
    uint64_t *complete_next; /* [shards] newest step complete there + 1, where whole steps are reported */
    uint64_t *applied_next;  /* [shards] newest step applied there + 1 */
    struct leader_tally *tallies;    /* [workers * 2 * depth] */
    uint64_t *contributed;           /* [workers] newest sequence that the mode knows + 1 */
    bool *leaving;                   /* [workers] left, but what it sealed is not all here yet */
    struct leader_absence *absences; /* [workers] */
    uint8_t *heard;  /* [workers][shards] bits of enum leader_heard: what each shard has said of an absence */
    uint32_t absent; /* of those, how many are not ABSENCE_NONE */
    bool *complete_initial, *applied_initial;
    struct optimizer_powers powers;
    struct model
        numbers; /* what steps are decided with: the lanes' copy follows with their orders. Its variables are the shard's */
    struct shard_tunes tunes; /* waiting for their step to be decided */
    struct shard_tunes tuned; /* that hold by now: of each key the newest */
    struct leader_checkpoint checkpoint;
    struct leader_restore restore;
    struct leader_sets sets;
    uint32_t *contributors, contributor_room; /* of the step that is recorded */
    bool measuring;                           /* the commit that is held waits for the norm of its mean */
    uint32_t measured;                        /* shards that have said theirs */
    struct exact_sum norm;                    /* of those */
    struct message held;
    uint64_t commits;
};

/* A process that reads and is not counted. */
struct shard_observer {
    struct link control; /* tag: SHARD_OBSERVER + 4 * its place */
    unsigned fabric;
    bool up;
    bool closing;                  /* its connection is closed once no event of it can be in hand */
    bool watches[SLOT_MODELS_MAX]; /* models whose parameters it was granted */
    uint64_t incarnation;
};

/* What a reader gets its copies of one model in: one after the other, in the same memory. */
struct shard_snapshot {
    struct shard_snapshot *next;
    uint64_t incarnation; /* whose */
    uint32_t model;
    struct stepgate_region *region; /* from the first copy on */
    uint64_t offset;                /* of the copy within it */
    bool asked;                     /* leader: a copy is asked for, and not done with */
    bool making;                    /* it is on its way through the orders */
    bool waiting;          /* leader: another one is wanted behind that, which nobody wants any more */
    bool gone;             /* its reader is */
    bool dropping;         /* lane 0 is asked to forget it */
    struct message wanted; /* leader: the newest that was asked for */
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
    struct shard_observer observers[SHARD_OBSERVERS_MAX];
    struct shard_snapshot *snapshots;
    struct link leader; /* on the others */
    unsigned leader_fabric, leader_attempts;
    uint64_t leader_retry_at;
    bool leader_up, done_sent;
    bool leader_knows;                           /* that the job has failed, too */
    struct shard_model *models[SLOT_MODELS_MAX]; /* by number; NULL: nobody has spoken of it */
    uint32_t model_end;                          /* behind the highest number spoken of */
    uint64_t met;                                /* the barrier that was over last */
    struct leader_model *leads[SLOT_MODELS_MAX];
    uint64_t started, join_deadline, join_report_at, attend_at;
    uint64_t stood_ms,
        stood_until; /* this process was stopped so long; who is lost until then is lost for that */
    uint64_t
        late_at; /* leader: when the job begins without those who have not come; CLOCK_NEVER: it waits for them */
    bool gathered;
    uint32_t broken;         /* workers that are expected back */
    struct link_batch batch; /* events in hand */
    bool ending;             /* nothing new is begun: last words are flushed */
    bool finished;
    uint64_t end_deadline;
    uint64_t observers_until; /* how long they may take to hear of the end */
    bool parting;             /* it is to end as soon as a checkpoint is written, or at parting_until */
    uint32_t parting_ps;      /* which ps was stopped */
    uint64_t parting_until;
    bool failed;
    bool lingers; /* somebody may still come: it is told, until end_deadline */
    struct stepgate_error failure;
    struct shard_stats stats;
};

/* member: who is there */
void shard_request(struct shard *shard, unsigned fabric, const struct stepgate_event *event, uint64_t now);
void shard_member_message(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_member_down(struct shard *shard, uint32_t rank, const struct stepgate_error *why,
                       enum link_end end, uint64_t now);
/* shard_member_gone -- a worker is lost, and the others go on without it. */
void shard_member_gone(struct shard *shard, uint32_t rank, uint64_t incarnation,
                       const struct stepgate_error *why, uint64_t now);
/* absence: a worker that is lost while the job goes on */
/* shard_absence_spares -- may the job go on without this worker, which is marked as lost? */
bool shard_absence_spares(const struct shard *shard, uint32_t rank);
/* shard_absence_returns -- could a lost worker come back? Only where contributions are reported one by one, in strict mode. */
bool shard_absence_returns(const struct shard *shard);
/* shard_absence_expected -- is the job waiting for this lost worker? */
bool shard_absence_expected(const struct shard *shard, uint32_t rank);
/* shard_absence_begin -- the worker is lost, and the job goes on. */
void shard_absence_begin(struct shard *shard, uint32_t rank, const struct stepgate_error *why, uint64_t now);
/* shard_absence_words -- what becomes of the job now. */
void shard_absence_words(const struct shard *shard, uint32_t rank, char *text, size_t size);
/* shard_absence_first -- what the contributions of the next one under a rank are counted from, where so many of it are known. */
uint64_t shard_absence_first(uint64_t contributed, uint32_t depth);
/* shard_absence_let_go -- its connections end, here and, as soon as it is forgotten, in the lanes: then another one may come under its rank. */
void shard_absence_let_go(struct shard *shard, uint32_t rank, uint64_t now);
/* shard_absence_forget -- the order to do so, in its place; shard_absence_forgot: one more lane has. */
void shard_absence_forget(struct shard_model *model, const struct message *message, uint64_t now);
void shard_absence_forgot(struct shard *shard, uint32_t rank, uint64_t now);
/* shard_absence_admits -- 0, or the reason why this control connection is refused. */
int shard_absence_admits(struct shard *shard, const struct hello *theirs, uint64_t now);
/* shard_absence_up -- who came under a rank that was open has proved itself. */
void shard_absence_up(struct shard *shard, uint32_t rank);
/* shard_absence_check -- it says what its model looks like, of one that is in training. */
void shard_absence_check(struct shard_model *model, uint32_t rank, const struct message *message,
                         uint64_t now);
/* leader_absence_begin -- a worker is lost, perhaps not for the first time. */
void leader_absence_begin(struct shard *shard, uint32_t rank, uint64_t incarnation, uint64_t now);
/* leader_absence_look -- something was decided: who may be forgotten, or begin? */
void leader_absence_look(struct shard_model *model, uint64_t now);
/* leader_absence_answer -- FORGOT or BACK of a shard. */
void leader_absence_answer(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
/* shard_absence_watch -- who was expected in vain? */
void shard_absence_watch(struct shard *shard, uint64_t now);
uint64_t shard_absence_deadline(const struct shard *shard);

/* late: workers that are not there when the job begins */
/* leader_late_watch -- so many workers are there, and every ps: does the job begin without the others now? */
void leader_late_watch(struct shard *shard, uint32_t there, uint64_t now);
/* shard_late -- the leader says that the job begins without this worker. */
void shard_late(struct shard *shard, uint32_t rank, uint64_t now);
/* shard_late_some -- is there one that has not come yet? */
bool shard_late_some(const struct shard *shard);
/* shard_late_admits -- may one that comes late be let in now? */
bool shard_late_admits(const struct shard *shard);
/* shard_late_place -- a model is about to be placed without them. Errors: EINVAL (a mode in which nobody comes late). */
int shard_late_place(struct shard_model *model);
/* leader_late_place, leader_late_mode -- the same, as far as steps are concerned. */
void leader_late_place(struct shard_model *model);
int leader_late_mode(struct shard_model *model);

void shard_watch_gathering(struct shard *shard, uint64_t now);
void shard_watch_leaving(struct shard *shard, uint64_t now);
/* shard_abort -- the job has failed, for the reason that is this thread's last error: everyone is told, then this shard ends. */
void shard_abort(struct shard *shard, uint64_t now);
/* shard_post -- link_send, which the shard attends to until the message is out. */
int shard_post(struct shard *shard, struct link *link, const struct message *message, uint64_t now);
/* shard_send -- to a worker; a link that is down is the business of its DISCONNECTED event. */
void shard_send(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);

/* rebuild: a worker whose connections broke while both ends live */
/* shard_rebuild_begin -- one of them broke; false: it is not waited for. */
bool shard_rebuild_begin(struct shard *shard, uint32_t rank, const struct stepgate_error *why,
                         enum link_end end, uint64_t now);
/* shard_rebuild_again -- an attempt to come back failed. */
void shard_rebuild_again(struct shard *shard, uint32_t rank);
/* shard_rebuild_is_back -- does the hello belong to a member that is here, and so can only want its connections anew? */
bool shard_rebuild_is_back(const struct shard *shard, const struct hello *theirs);
/* shard_rebuild_accept -- its control connection. Returns the reason to refuse it, 0: it was accepted. */
int shard_rebuild_accept(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                         const struct stepgate_event *event, const struct hello *theirs, uint64_t now);
/* shard_rebuild_end -- it is back, or no longer expected to be. */
void shard_rebuild_end(struct shard *shard, uint32_t rank);
/* shard_rebuild_over -- it has proved itself. */
void shard_rebuild_over(struct shard *shard, uint32_t rank, uint64_t now);
/* shard_rebuild_held -- a lane has let go of its connections. */
void shard_rebuild_held(struct shard *shard, uint32_t rank);
/* shard_rebuild_watch -- who has not come back in time is lost. */
void shard_rebuild_watch(struct shard *shard, uint64_t now);
/* shard_rebuild_deadline -- when that must be looked at. */
uint64_t shard_rebuild_deadline(const struct shard *shard);

/* shard_welcome -- what whoever has proved itself is told. */
void shard_welcome(const struct shard *shard, struct message *out);
/* shard_unproven -- a connection that has yet to prove itself, and has not taken too long yet. */
bool shard_unproven(const struct link *link, uint64_t now);

/* observer: who reads and is not counted */
int shard_accept_observer(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                          const struct stepgate_event *event, const struct hello *theirs, uint64_t now);
int shard_accept_view(struct shard *shard, unsigned fabric, struct stepgate_request *request,
                      const struct stepgate_event *event, const struct hello *theirs);
void shard_observer_up(struct shard *shard, uint32_t number, uint64_t now);
void shard_observer_down(struct shard *shard, uint32_t number);
/* shard_observers_tell -- why this shard ends. */
void shard_observers_tell(struct shard *shard, const struct stepgate_error *why, uint64_t now);
/* shard_observers_listen -- is somebody there who is still to hear of the end? Not for long. */
bool shard_observers_listen(const struct shard *shard, uint64_t now);
/* shard_observers_sweep -- closes the connections of those that are gone; not while events are in hand. */
void shard_observers_sweep(struct shard *shard);
void shard_observer_message(struct shard *shard, uint32_t number, const struct message *message,
                            uint64_t now);

/* snapshot: copies as of one exact step, for readers */
/* shard_snapshot_ask -- somebody wants one. Errors: EPROTOCOL. */
int shard_snapshot_ask(struct shard *shard, uint64_t incarnation, const struct message *message,
                       uint64_t now);
bool shard_snapshot_begin(struct shard_model *model, const struct message *take, uint64_t now);
void shard_snapshot_made(struct shard_model *model, const struct message *take, uint64_t now);
void shard_snapshot_done(struct shard *shard, uint64_t incarnation, const struct message *message);
void shard_snapshots_drop(struct shard *shard, uint64_t incarnation);
void shard_snapshot_dropped(struct shard *shard, struct stepgate_region *region);
void shard_snapshots_delete(struct shard *shard);

/* checkpoint: this shard's part of checkpoints, written and read */
/* shard_checkpoint_room -- memory for a copy of everything. Errors: ENOMEM. */
int shard_checkpoint_room(struct shard_model *model);
/* shard_checkpoint_bytes -- how much that is; 0: no checkpoints are made. */
uint64_t shard_checkpoint_bytes(const struct shard_model *model);
/* shard_checkpoint_begin -- the leader wants one of this very step: where the lanes copy to. False: it cannot be, and the job has failed. */
bool shard_checkpoint_begin(struct shard_model *model, const struct message *take, uint64_t now);
/* shard_checkpoint_copied -- the lanes have. */
void shard_checkpoint_copied(struct shard_model *model, uint64_t now);
/* shard_checkpoint_restore -- the leader wants that one is read. */
void shard_checkpoint_restore(struct shard_model *model, const struct message *restore, uint64_t now);
/* shard_checkpoint_aux -- what a worker had of its own goes back to it. */
void shard_checkpoint_aux(struct shard_model *model, uint32_t rank, uint64_t now);
/* shard_checkpoint_progress -- what went on aside. Returns 1 if something is over. */
int shard_checkpoint_progress(struct shard_model *model, uint64_t now);
/* shard_checkpoints_busy -- is one on its way, so that the job must not end yet? */
bool shard_checkpoints_busy(const struct shard *shard);
void shard_checkpoint_delete(struct shard_model *model);

/* keeper: the leader's part */
int leader_checkpoint_new(struct shard *shard, struct leader_model *lead);
void leader_checkpoint_delete(struct leader_model *lead);
/* leader_checkpoint_progress -- what went on aside, what is due. Returns 1 if something happened. */
int leader_checkpoint_progress(struct shard_model *model, uint64_t now);
/* leader_checkpoint_first -- the model may begin with its first step: where the job may have to go back, there is to be something to go back to. */
void leader_checkpoint_first(struct shard_model *model, uint64_t now);
/* leader_first_look -- first tokens, unless the first checkpoint is still on its way. */
void leader_first_look(struct shard_model *model, uint64_t now);
/* leader_checkpoint_due -- a step was committed. */
void leader_checkpoint_due(struct shard_model *model, uint64_t now);
/* leader_checkpoint_ask -- a worker wants one. */
void leader_checkpoint_ask(struct shard *shard, uint32_t rank, const struct message *ask, uint64_t now);
/* leader_checkpoint_answer -- WRITTEN, FAILED or RESTORED of a shard. */
void leader_checkpoint_answer(struct shard *shard, uint32_t from, const struct message *message,
                              uint64_t now);
/* leader_checkpoint_gone -- a shard is done, and answers nothing any more. */
void leader_checkpoint_gone(struct shard *shard, uint32_t from, uint64_t now);
/* leader_checkpoint_probe -- tells the others where checkpoints go; shard_checkpoint_probe: looks whether that is here, too. */
void leader_checkpoint_probe(struct shard *shard, uint32_t to, uint64_t now);
void shard_checkpoint_probe(struct shard *shard, const struct message *probe, uint64_t now);
/* leader_part -- that ps is stopped: a checkpoint of every model first. */
void leader_part(struct shard *shard, uint32_t stopped, uint64_t now);
/* shard_parting -- is it over? */
void shard_parting(struct shard *shard, uint64_t now);

/* place: how a model comes in and gets its memory */
/* shard_model_get -- the model of that number, made when it is first spoken of; NULL: there is no memory, and the job has failed. */
struct shard_model *shard_model_get(struct shard *shard, uint32_t number, uint64_t now);
/* shard_place_private -- an arena that nobody but this ps sees, zeroed. Errors: ENOMEM. */
int shard_place_private(struct shard_model *model, uint64_t bytes, uint8_t **out);
/* shard_place_look -- everybody may have checked the same model, or is not waited for: then it is placed. */
int shard_place_look(struct shard_model *model, uint64_t now);
/* shard_place_slot -- a worker's gradient memory, in its own domain. */
int shard_place_slot(struct shard_model *model, uint32_t rank);
void shard_model_part(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_model_check(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_model_delete(struct shard_model **model);
/* shard_place_over -- memory that was got aside is there, or will never be. Returns 1 if it was so. */
int shard_place_over(struct shard_model *model, uint64_t now);
/* shard_place_tell -- lane 0 tells a worker where the parameters are. Errors: ENOMEM. */
int shard_place_tell(struct shard_model *model, uint32_t rank);
/* shard_place_retry -- grants that an endpoint did not take before. */
void shard_place_retry(struct shard_model *model, uint64_t now);

/* gate: seals, arrivals, complete */
void shard_seal(struct shard *shard, uint32_t rank, const struct message *message, uint64_t now);
void shard_gate(struct shard_model *model, uint64_t now);
/* shard_gate_has_all -- is everything here that a worker has sealed? */
bool shard_gate_has_all(const struct shard_model *model, uint32_t rank);
/* shard_seal_of -- what a worker said of that contribution; NULL if it is not among the newest. */
const struct shard_seal *shard_seal_of(const struct shard_model *model, uint32_t rank, uint64_t sequence);

/* order: what the leader wants done, in its order, one at a time with the lanes */
void shard_order(struct shard *shard, const struct message *message, uint64_t now);
/* shard_order_progress -- takes note of what the lanes have done, gives them the next. */
void shard_order_progress(struct shard_model *model, uint64_t now);
/* shard_tunes_keep -- a hyper-parameter that is to change. Errors: ENOMEM. */
int shard_tunes_keep(struct shard_tunes *tunes, const struct message *message);
/* shard_tunes_room -- for so many more that are taken: shard_tunes_take makes none. Errors: ENOMEM. */
int shard_tunes_room(struct shard_tunes *taken, size_t more);
/* shard_tunes_take -- sets what holds from `step` on; what cannot be set is said, once, where there is a sink. What was set goes to `taken`, unless that is NULL. */
void shard_tunes_take(struct shard_tunes *tunes, struct model *model, uint64_t step,
                      struct shard_tunes *taken, const struct log_sink *log);

/* watch: who is waited for, and how long */
void shard_watch(struct shard_model *model, uint64_t now);
/* shard_watch_again -- a step begins. */
void shard_watch_again(struct shard_model *model, uint64_t now);
/* shard_watch_late -- a step that is not complete has begun to be waited for. */
void shard_watch_late(struct shard_model *model, uint64_t now);
/* shard_departed -- somebody contributes to a step to which a worker that left gave nothing: the job has failed. */
bool shard_departed(struct shard_model *model, uint64_t now);
void shard_gate_declared(struct shard_model *model, uint64_t now);

/* waste: contributions that count for nothing */
/* shard_waste_watch -- one more contribution has come in, on the leader: for how long have all counted for nothing? */
void shard_waste_watch(struct shard_model *model, uint64_t now);
/* shard_waste_words -- on the leader: how many have counted for nothing (ever, or since the last step), why, and whose; returns how many. */
uint64_t shard_waste_words(const struct shard_model *model, bool ever, char *text, size_t size);

/* leader: decides */
int leader_model_new(struct shard *shard, uint32_t model);
void leader_model_delete(struct leader_model **model);
void leader_complete(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
void leader_applied(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
/* leader_send -- from any shard to the leader: a function call on shard 0. */
void leader_send(struct shard *shard, const struct message *message, uint64_t now);
void leader_barrier(struct shard *shard, uint64_t now);
/* leader_place -- the model is known: its mode decides from here on. */
int leader_place(struct shard_model *model);
/* leader_sets_new -- for a model whose steps decide who contributes, where there are checkpoints. Errors: ENOMEM. */
int leader_sets_new(const struct shard_model *model, struct leader_sets *sets);
void leader_sets_delete(struct leader_sets *sets);
/* leader_sets_keep -- of one more step; the oldest goes. */
void leader_sets_keep(struct leader_sets *sets, uint64_t step, const uint32_t *ranks, uint32_t count);
/* leader_sets_give -- all that are kept, for a checkpoint; leader_sets_take: of one. */
int leader_sets_give(const struct leader_sets *sets, struct archive_state *state);
void leader_sets_take(struct leader_sets *sets, const struct archive_state *state);
/* leader_carry_out -- what the mode has decided, until a commit must wait for its norm. */
void leader_carry_out(struct shard *shard, struct shard_model *model, uint64_t now);
/* leader_step -- a step is decided; with a global norm to clip by, its mean is measured first. */
void leader_step(struct shard_model *model, const struct mode_decision *decision, uint64_t now);
/* leader_fail -- the mode cannot go on: says why, and ends the job. */
void leader_fail(struct shard *shard, const struct shard_model *model, const struct mode_decision *decision,
                 uint64_t now);
/* leader_norm -- a shard has measured its part of the mean. */
void leader_norm(struct shard *shard, uint32_t from, const struct message *message, uint64_t now);
/* leader_gone -- a worker left, or was lost where the job goes on without it. */
void leader_gone(struct shard *shard, uint32_t rank, uint64_t now);
/* leader_token_back -- lets a worker that came back into the step that is awaited; its contributions are counted from `begins` on. */
void leader_token_back(struct shard *shard, struct shard_model *model, uint32_t rank, uint64_t begins,
                       uint64_t now);
/* leader_rest -- a worker waits in a barrier: it must not hold back those it waits for. */
void leader_rest(struct shard *shard, uint32_t rank, uint64_t now);
void leader_tune(struct shard *shard, const struct message *message, uint64_t now);
/* leader_spread -- to every shard, this one last. */
void leader_spread(struct shard *shard, const struct message *message, uint64_t now);
/* leader_initial_look -- does the first step begin? Once everything is where it belongs, on every shard. */
void leader_initial_look(struct shard_model *model, uint64_t now);
/* leader_mode -- a mode that begins at this step, for the workers that are there. */
int leader_mode(struct shard_model *model, uint64_t step);
/* leader_counts -- answers MESSAGE_COUNTS_ASK. */
void leader_counts(const struct shard *shard, const struct message *ask, struct message *answer);

/* shard_sequence -- of a worker's first contribution to a step, where each gives `quota` of them to every step. */
static inline uint64_t shard_sequence(const struct shard_model *model, uint64_t step, uint32_t quota)
{
    return (step - model->first) * quota;
}

#endif
