/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rewind -- a job that goes back to a checkpoint, since a ps was lost (lost_ps=rewind). Its session has failed, and another one takes its place under the same
 * handles: it joins, declares the same models, and gets what the checkpoint has. All with the job's lock held.
 *
 *   NONE -> (begin) -> TELLS: every ps that is still connected knows -> JOINS: with another session -> COMMITS: all models -> NONE
 *
 * Until its own begin every model's calls give EREWOUND. Whoever trains another model of the job meanwhile may still look at buffers of the session that failed:
 * its memory stays until every model has begun anew.
 */
#ifndef WORKER_API_REWIND_H
#define WORKER_API_REWIND_H

#include "worker/session/session.h"

struct stepgate_job;
struct stepgate_model;

enum rewind_state { REWIND_NONE = 0, REWIND_TELLS = 1, REWIND_JOINS = 2, REWIND_COMMITS = 3 };

/* A model of the session that failed. */
struct rewind_model {
    struct model *declared; /* lent by one session to the next */
    struct session_memory *attached
        [2]; /* [variables] each, by enum stepgate_use - 1; neither address nor dma-buf: the library's */
};

struct rewind {
    bool on;      /* lost_ps=rewind, and no observer */
    bool over;    /* it cannot: what has failed now has failed for good */
    int state;    /* enum rewind_state */
    bool tells;   /* one that is new tells every ps before it joins anew */
    unsigned row; /* so often in a row, without a step in between */
    uint64_t until;
    struct stepgate_error cause; /* of the latest */
    struct rewind_model *models; /* [count], unless the state is NONE */
    size_t count;
    struct session **past; /* [past_count]: those whose memory is still looked at */
    size_t past_count;
    struct stepgate_job_stats stats; /* of all sessions that were */
};

/* rewind_look -- of a model: 0, or EREWOUND where begin must be called first. */
int rewind_look(struct stepgate_model *model);
/* rewind_verdict -- what a call on the job returns for the status of the session: EREWOUND for a failure after which the job goes back. */
int rewind_verdict(struct stepgate_job *job, int status);
/* rewind_under_way -- 0, or EREWOUND: for calls of the job itself. */
int rewind_under_way(struct stepgate_job *job);
/* rewind_try -- one move; from NONE only where the session has failed so. 0: the session is sound, or failed for good. Errors: EAGAIN. */
int rewind_try(struct stepgate_job *job, uint64_t now);
/*
 * rewind_rejoin -- a ps was lost while this worker, which is new, still joins or commits its first model: the others go back, and it comes with them. What the call
 * returns for `status`: EAGAIN where another session has taken the place of the one that failed, and joins.
 */
int rewind_rejoin(struct stepgate_job *job, int status, uint64_t now);
/* rewind_mends -- has the session failed in a way that the next commit mends? Declarations go on meanwhile. */
bool rewind_mends(const struct stepgate_job *job);
/* rewind_attend -- between the program's calls: moves on, and wakes whoever waits for the job's descriptor when a deadline here is over. */
void rewind_attend(struct stepgate_job *job, uint64_t now);
/* rewind_begun -- a model has begun a step: 1 if it is the first one since the job went back. */
int rewind_begun(struct stepgate_model *model);
/* rewind_deadline -- when rewind_try must be called at the latest. */
uint64_t rewind_deadline(const struct stepgate_job *job);
/* rewind_keep -- a worker's own initial values (aux), which it may need again. Errors: ENOMEM. */
int rewind_keep(struct stepgate_model *model, uint32_t variable, const void *data, uint64_t bytes);
/* rewind_forget -- what it kept of a model. */
void rewind_forget(struct stepgate_model *model);
/* rewind_stats -- the counters, of the sessions that were, too; NULL: this session will have been. */
void rewind_stats(struct stepgate_job *job, struct stepgate_job_stats *stats);
/* rewind_end -- the job is deleted; before its session. */
void rewind_end(struct stepgate_job *job);

#endif
