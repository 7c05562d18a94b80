/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session -- the worker's side of a job as a state machine: it is told the time, posts through the contract, and never blocks, sleeps or
 * reads a clock. Calls named _try return 0 when done, -STEPGATE_EAGAIN when they must be repeated after session_progress, or an
 * error. One thread at a time.
 */
#ifndef WORKER_SESSION_SESSION_H
#define WORKER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/protocol/link.h"
#include "stepgate/step.h"
#include "transport/base/clock.h"
#include "transport/base/log.h"
#include "transport/base/random.h"

#define SESSION_ROUTES_MAX 2

/* One way to reach the shards: a queue and a domain of one fabric. */
struct session_route {
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
};

/* Memory of the caller's: an address, or a part of a dma-buf, which no processor touches. */
struct session_memory {
    void *address;
    bool dmabuf;
    struct stepgate_dmabuf part;
};

struct session_config {
    bool observer; /* reads and is not counted; its rank is 0 */
    uint32_t rank, workers, shards;
    const char *const *addresses;                    /* [shards]; copied */
    struct session_route routes[SESSION_ROUTES_MAX]; /* tried in this order; queue NULL: none */
    const char *job;
    struct proof_secret secret;
    uint64_t incarnation;
    uint64_t chunk_bytes;                 /* largest piece that is posted at once; 0: 1 MiB */
    int64_t join_timeout_ms, liveness_ms; /* liveness 0: off */
    uint32_t reconnect; /* how often in a row the connections to a ps may break and be made anew; 0: never */
    bool
        again; /* the job goes back to a checkpoint: a ps that has yet to notice, or to come back, is waited for, whatever it says */
    struct log_sink log;
};

struct session;
struct session_model;

int session_new(const struct session_config *config, uint64_t now, struct session **out);
/* session_delete -- bounded; deletes models and links, not the routes. */
void session_delete(struct session **session);
/* session_progress -- polls the queues, moves everything on. Returns 1 if something happened, 0 if not. The job's failure is in session_error. */
int session_progress(struct session *session, uint64_t now);
/* session_changes -- how often session_progress has found something: whoever was told -STEPGATE_EAGAIN before the latest may be done. */
uint64_t session_changes(const struct session *session);
/* session_deadline -- when session_progress must be called at the latest. */
uint64_t session_deadline(const struct session *session);
/* session_rebuilds -- are connections made anew, or has one ended that may have to be? They are expected soon, and session_progress must be called without delay. */
bool session_rebuilds(const struct session *session);
/* session_fail -- this thread's last error ends the job, unless it is over already. */
void session_fail(struct session *session);
/* session_error -- 0, or the negative code of the job's first failure, which becomes the thread's last error. */
int session_error(const struct session *session);
/* session_failure -- the first failure, or NULL. */
const struct stepgate_error *session_failure(const struct session *session);

int session_join_try(struct session *session, uint64_t now);
int session_leave_try(struct session *session, uint64_t now);
int session_barrier_try(struct session *session, uint64_t now);
/* session_waits_for -- words who the session waits for (for time-out messages). */
void session_waits_for(const struct session *session, uint64_t now, char *text, size_t size);
/* session_transport -- "shm", "verbs", "shm+verbs": what the control links use. */
const char *session_transport(const struct session *session);
/* session_capabilities -- of the control link to shard 0; out->size set by the caller. Errors: EPEER (it is down). */
int session_capabilities(const struct session *session, struct stepgate_capabilities *out);
void session_stats(const struct session *session, struct stepgate_job_stats *stats);
uint32_t session_lanes(const struct session *session);

/* Where a job goes back to a checkpoint, one session takes the place of another. */
/* session_all_know -- it has failed: has every ps that is still connected said so, too? */
bool session_all_know(const struct session *session);
/* session_hang_up -- closes all connections; buffers, and what was mapped, stay until session_delete. */
void session_hang_up(struct session *session);
/* session_leaves -- has it begun to say good-bye? */
bool session_leaves(const struct session *session);
/* session_fail_rather -- like session_fail; this failure takes the place of another one. */
void session_fail_rather(struct session *session);
/* session_model_at -- the model of that place, from 0; NULL behind the last. */
struct session_model *session_model_at(const struct session *session, size_t index);
uint32_t session_model_number(const struct session_model *model);
/* session_model_lend -- what it declares; lent: it outlives the session. */
struct model *session_model_lend(struct session_model *model, bool lent);
/* session_model_again -- the next model, as another session has lent it. */
int session_model_again(struct session *session, struct model *declared, struct session_model **out);
/* session_attached -- the caller's buffer of a variable; false: there is none. */
bool session_attached(const struct session_model *model, uint32_t variable, int use,
                      struct session_memory *out);

/* session_model_new -- takes the declared model over; it must be declared in the same order everywhere. */
int session_model_new(struct session *session, const char *name, struct session_model **out);
struct model *session_model_declared(struct session_model *model);
int session_model_initialize(struct session_model *model, uint32_t variable, const void *data,
                             uint64_t bytes);
/* session_model_initial -- what it was given, as long as the model is not committed; NULL: nothing, or it is not kept any more. */
const void *session_model_initial(const struct session_model *model, uint32_t variable);
int session_commit_try(struct session_model *model, uint64_t now, struct stepgate_model_info *info);
bool session_model_committed(const struct session_model *model);
/* session_model_declaring -- may it be added to? Not once the commit has started. */
bool session_model_declaring(const struct session_model *model);

int session_begin_try(struct session_model *model, uint64_t now, struct stepgate_step_info *info);
/* session_pull_try -- variable or STEPGATE_ALL. */
int session_pull_try(struct session_model *model, int variable, uint64_t now, uint64_t *step_read);
/* session_pull_rows_try -- chosen rows of a variable, into memory of the caller's, which stays the same until it is done. */
int session_pull_rows_try(struct session_model *model, uint32_t variable, const uint64_t *indices,
                          uint64_t count, void *out, uint64_t now, uint64_t *step_read);
/* session_pulled -- the steps that the last pull of a variable (or those of all) has read. */
int session_pulled(struct session_model *model, int variable, uint64_t *lowest, uint64_t *highest);
int session_push(struct session_model *model, uint32_t variable, uint64_t now);
int session_push_rows(struct session_model *model, uint32_t variable, const uint64_t *indices, uint64_t count,
                      const void *values, uint64_t now);
int session_absent(struct session_model *model, uint32_t variable, uint64_t now);
int session_finish(struct session_model *model, double weight, uint64_t now);

int session_gradient(struct session_model *model, uint32_t variable, void **pointer);
int session_parameter(struct session_model *model, uint32_t variable, const void **pointer);
int session_attach(struct session_model *model, uint32_t variable, int use,
                   const struct session_memory *memory, uint64_t bytes);
int session_detach(struct session_model *model, uint32_t variable, int use);
int session_is_idle(struct session_model *model, uint32_t variable);

/* session_observes -- is this an observer's? */
bool session_observes(const struct session *session);
/* session_need_observer -- ESTATE for a worker, which declares its models. */
int session_need_observer(const struct session *session);
/* session_observe -- the model of that name, to be learned from the ps; the one of an earlier call if there was one. */
int session_observe(struct session *session, const char *name, struct session_model **out);
int session_observe_try(struct session_model *model, uint64_t now);

/* session_tune -- a hyper-parameter changes at a step; only worker 0 may say so. */
int session_tune(struct session_model *model, const char *key, const char *value, uint64_t from_step,
                 uint64_t now);
/* session_slot_name -- of optimizer slot `index`; NULL behind the last. */
const char *session_slot_name(const struct session_model *model, unsigned index);
/* session_slot_power -- 0 or 1: the name of a power that adam has as a slot of the model; -1: another one. */
int session_slot_power(const struct session_model *model, const char *name);

/* What became of a worker's contributions, and adam's powers, all as of one step. */
struct session_count {
    uint64_t step, accepted, stale, non_finite, empty;
    float powers[2];
};
/* session_counts_try -- asks the leader. Whoever gives up says so with session_counts_cancel. */
int session_counts_try(struct session_model *model, uint32_t rank, uint64_t now, struct session_count *out);
void session_counts_cancel(struct session_model *model);

/*
 * session_checkpoint_try -- asks the leader for a checkpoint; *step is that of it. Whoever gives up says so with session_checkpoint_cancel. Errors: EAGAIN, and those
 * that the ps met with.
 */
int session_checkpoint_try(struct session_model *model, uint64_t now, uint64_t *step);
void session_checkpoint_cancel(struct session_model *model);

/* What a snapshot is of. */
enum session_what { SESSION_PARAMETERS = 1, SESSION_AVERAGES = 2, SESSION_SLOT = 3 /* and up */ };
/* session_snapshot_check -- can that be copied of these variables? Errors: EINVAL, ENOENT, ESTATE. */
int session_snapshot_check(const struct session_model *model, uint32_t what, const int *ids, size_t count);
/* session_snapshot_bytes -- how much of it a variable has. */
uint64_t session_snapshot_bytes(const struct session_model *model, uint32_t what, uint32_t variable);
/*
 * session_snapshot_try -- copies of variables as of one exact step; what was checked before. Another request takes the place of one that is not
 * done. Whoever gives up says so with session_snapshot_cancel. Errors: EAGAIN, ENOMEM.
 */
int session_snapshot_try(struct session_model *model, uint32_t what, const int *ids, size_t count,
                         void *const *out, uint64_t now, uint64_t *step);
void session_snapshot_cancel(struct session_model *model, uint64_t now);

#endif
