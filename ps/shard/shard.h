/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shard -- one ps: its members, the models it holds a part of, and, on shard 0, the leader that decides. A state machine: it is told the
 * time, posts through the contract, and never blocks, sleeps or reads a clock. It shares boards and mailboxes with its lanes, which may
 * run in other threads.
 */
#ifndef PS_SHARD_SHARD_H
#define PS_SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/lane/lane.h"
#include "ps/mode/mode.h"
#include "ps/shard/archive.h"
#include "transport/base/log.h"

/* One way to be reached: a fabric with the shard's queue on it and the address to listen at. */
struct shard_fabric {
    struct stepgate_fabric *fabric; /* NULL: none */
    struct stepgate_queue *queue;
};

struct model;

/* Whether lanes sum what has arrived of a step while the rest of it is under way. Bits do not depend on it. */
enum shard_ahead {
    SHARD_AHEAD_OFF = 0,
    SHARD_AHEAD_ON =
        1, /* where every step has one contribution of each of at least two workers, and they are counted as they are */
    SHARD_AHEAD_AUTO =
        2 /* there, with at least three workers of which one comes over a network: it is slower than memory */
};

struct shard_config {
    uint32_t number, shards, workers, lanes;
    const char *listen;                            /* "host:port" */
    const char *leader;                            /* address of shard 0; unused on shard 0 */
    struct shard_fabric fabrics[LANE_FABRICS_MAX]; /* the first one allocates the parameters */
    struct lane **lane_list; /* [lanes]; made before, deleted after the shard's end by the caller */
    struct mailbox *mailbox; /* the one lanes write to */
    void (*wake_lane)(void *context, uint32_t lane); /* NULL: not needed */
    void *wake_context;
    const char *job;
    const struct proof_secret *secret;
    uint64_t incarnation;
    uint64_t group_bytes, cut_bytes;
    enum optimizer_kind kernels;
    enum shard_ahead ahead;
    uint64_t cache_bytes; /* parameters beyond it are written past the caches; 0: none are */
    int64_t join_timeout_ms, liveness_ms, close_timeout_ms, stall_report_ms, step_timeout_ms; /* <= 0: none */
    int lost;                  /* enum mode_lost: what becomes of a job in strict mode that loses workers */
    int64_t return_timeout_ms; /* how long one is waited for; <= 0: for ever */
    uint32_t start_workers;    /* so many will do for the job to begin, worker 0 among them; 0: all of them */
    int64_t start_after_ms;    /* ... if nobody else has come for so long; <= 0: never */
    uint32_t
        reconnect; /* how often in a row the connections of a peer may break and be made anew; 0: never */
    uint64_t (*memory_available)(void); /* NULL: not looked at */
    uint64_t (*memory_lockable)(
        void); /* what may be registered where workers come over a network; NULL: not looked at */
    /* Runs work(what) in a thread of its own and then has shard_progress called; all such work is over before shard_delete. 0, or an error. NULL: what takes long
     * is done in between, and nobody hears of this ps meanwhile. */
    int (*aside)(void *context, void (*work)(void *what), void *what);
    void *aside_context;
    /* On shard 0: whether a model may be recorded or replayed at all; where the contributors of each committed step of strict mode go (an error ends the job; the
     * ranks may be changed), and where, with R < T, they come from again; NULL: nowhere. */
    int (*declare)(void *context, const struct model *model, const uint8_t *fingerprint);
    int (*record)(void *context, const char *model, uint64_t step, uint32_t *ranks, uint32_t count);
    bool (*replay)(void *context, const char *model, uint64_t step, const uint32_t **ranks, uint32_t *count);
    void *sets_context;
    const struct archive *archive; /* where checkpoints go; NULL: there are none */
    bool
        rewinds; /* the job may go back to a checkpoint when a ps is lost: there is one from the first step on, and who still belongs to the job that was is waited for */
    bool again;  /* this ps has gone back: the initial values will not come again */
    struct log_sink log;
};

struct shard_stats {
    uint64_t steps, commits, duplicate_commits, memory_promised, memory_registered;
    uint32_t connected;
    uint64_t reconnects; /* of workers whose connections had broken */
};

struct shard;

/* shard_new -- listens. Errors: EBUSY, EADDRESS, ENODEVICE, ENOMEM. */
int shard_new(const struct shard_config *config, uint64_t now, struct shard **out);
/* shard_delete -- after its lanes were deleted: their links hold endpoints in the shard's domains. */
void shard_delete(struct shard **shard);
/* shard_address -- where it listens, with the real port. */
const char *shard_address(const struct shard *shard);
/* shard_progress -- one round. Returns 1 if anything was done. */
int shard_progress(struct shard *shard, uint64_t now);
/* shard_deadline -- when it must be called again at the latest. */
uint64_t shard_deadline(const struct shard *shard);
/* shard_finished -- the job is over here: *status 0, or a negative code that becomes the thread's last error. */
bool shard_finished(const struct shard *shard, int *status);
/* shard_stop -- ends the job for everyone: an abort that says this ps was stopped. Where there is an archive a checkpoint is written before, if that does not take long.
 * false: it has failed already, and ends for that. */
bool shard_stop(struct shard *shard, uint64_t now);
/* shard_can_rewind -- it has failed: may the job go back to a checkpoint, or, where no model is in training yet, begin as it came? Not if somebody has left it, or of its models only some are in training. */
bool shard_can_rewind(const struct shard *shard);
/* shard_has_trained -- is there something that was trained, here or before the job went back? Else it begins as it came. */
bool shard_has_trained(const struct shard *shard);
void shard_stats(const struct shard *shard, struct shard_stats *out);
/* shard_parameters -- for tests: the arena of the newest step of a model, NULL if there is none; its length and step. */
const void *shard_parameters(const struct shard *shard, uint32_t model, uint64_t *bytes, uint64_t *step);

#endif
