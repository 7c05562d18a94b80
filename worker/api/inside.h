/* SPDX-License-Identifier: BSD-3-Clause */
/* inside -- what the files of the public calls share. */
#ifndef WORKER_API_INSIDE_H
#define WORKER_API_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "transport/base/knob.h"
#include "transport/base/origin.h"
#include "transport/wait/patience.h"
#include "worker/api/rewind.h"
#include "worker/session/session.h"

struct job_route {
    struct stepgate_fabric *fabric;
    struct stepgate_queue *queue;
    struct stepgate_domain *domain;
};

struct stepgate_job {
    struct origin origin; /* the process that joined: a forked child must not touch anything */
    struct knobs knobs;
    struct proof_secret secret;
    struct job_route routes[SESSION_ROUTES_MAX];
    unsigned route_count;
    struct session *session; /* another one when the job goes back to a checkpoint; guarded by lock */
    struct rewind rewind;    /* guarded by lock, but `on`, which stays */
    pthread_mutex_t lock;    /* guards the session and everything on its queues */
    bool lock_there;
    int epoll_fd, wake_fd; /* what a wait sleeps on: the queues, and an eventfd for interrupts */
    int loop_fd, tell_fd;  /* what the program sleeps on: epoll_fd, and an eventfd for those told EAGAIN */
    bool tried;            /* somebody was told EAGAIN; guarded by lock, like tried_at */
    uint64_t tried_at;     /* session_changes by then */
    atomic_int
        interrupted; /* set by stepgate_job_interrupt, taken by the wait (relaxed: the eventfd orders) */
    int sleepers;    /* threads asleep in a wait; guarded by lock */
    pthread_t service;
    bool service_runs;
    atomic_bool
        service_stop; /* release store before the eventfd is written; acquire load after it was read */
    int service_fd;
    struct patience patience; /* of all its waits; guarded by lock */
    struct stepgate_model *models;
    uint64_t wait_ns;
};

struct stepgate_model {
    struct stepgate_job *job;
    /* Set under the job's lock; read without it by the model's own thread: what it was before stays until this model has begun anew. */
    _Atomic(struct session_model *) session;
    bool committed; /* or attached; the model's own thread's */
    bool
        back; /* the job goes back to a checkpoint, and this model has not begun since; guarded by the job's lock */
    void **own; /* [own_count]: initial values of aux variables, NULL: none */
    size_t own_count;
    struct stepgate_model *next;
};

/* One attempt of a call: 0, -STEPGATE_EAGAIN, or an error; called with the job's lock held. */
typedef int wait_attempt(void *context, uint64_t now);

/*
 * wait_until -- repeats the attempt until it is done or its time is over. ms: 0 once, < 0 until fallback_ms (itself < 0: no deadline).
 * `what` completes the text of a time-out.
 */
int wait_until(struct stepgate_job *job, int ms, int64_t fallback_ms, int timeout_code, const char *what,
               wait_attempt *attempt, void *context);

/*
 * model_wait -- wait_until for a call on a model, which gives EREWOUND where the job goes back to a checkpoint.
 */
int model_wait(struct stepgate_model *model, int ms, int64_t fallback_ms, int timeout_code, const char *what,
               wait_attempt *attempt, void *context);

/* job_check -- NULL and fork. */
int job_check(const struct stepgate_job *job);
/* job_failure -- the job's first failure as this thread's error, or 0; takes the lock. */
int job_failure(struct stepgate_job *job);
/* model_check -- NULL, fork, and the variable's number (-1: none is asked for). */
int model_check(const struct stepgate_model *model, int id);
/* model_enter -- takes the job's lock for a call on a model that does not wait; after an error, EREWOUND, it is not taken. */
int model_enter(struct stepgate_model *model);
/* model_leave -- gives it back; returns the status of the call, as the caller is to see it. */
int model_leave(struct stepgate_model *model, int status);
/* job_observes -- is this process to read only? */
bool job_observes(const struct knobs *knobs);
/* job_session -- a session as the knobs say, over the job's routes; again: in the place of one that has failed. */
int job_session(struct stepgate_job *job, bool again, uint64_t now, struct session **out);
/* job_lock, job_unlock -- around every use of the session. Unlock tells those who sleep on the job's descriptor what this use has seen. */
void job_lock(struct stepgate_job *job);
void job_unlock(struct stepgate_job *job);
/* job_tell -- makes the job's descriptor readable until the next try. */
void job_tell(struct stepgate_job *job);
/* service_start, service_stop -- the thread that keeps heartbeats going while the program computes. */
int service_start(struct stepgate_job *job);
void service_stop(struct stepgate_job *job);

#endif
