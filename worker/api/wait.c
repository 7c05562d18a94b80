/* SPDX-License-Identifier: BSD-3-Clause */
/* wait -- a blocking call is the non-blocking one plus this. */
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

#define WAIT_SHARED_MS                                                                                       \
    5 /* two threads asleep on one job look again that often: one may take the other's event */

/* wait_arm -- arms every queue; true when nothing is pending and sleep is safe. */
static bool wait_arm(struct stepgate_job *job)
{
    bool quiet = true;

    for (unsigned r = 0; r < job->route_count; r++)
        if (job->routes[r].queue->transport->queue_arm(job->routes[r].queue) != 0)
            quiet = false;
    return quiet;
}

/* wait_drain -- an eventfd is not readable any more; another thread may have been faster. */
static void wait_drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

/* wait_timeout -- milliseconds for epoll_wait until the nearest of two times, rounded up. */
static int wait_timeout(uint64_t now, uint64_t a, uint64_t b, bool shared)
{
    uint64_t until = a < b ? a : b;
    uint64_t ms = until == CLOCK_NEVER ? 60000 : until <= now ? 0 : (until - now + CLOCK_MS - 1) / CLOCK_MS;

    if (shared && ms > WAIT_SHARED_MS)
        ms = WAIT_SHARED_MS;
    return ms > 60000 ? 60000 : (int)ms;
}

/* wait_sleep -- sleeps until something may have happened; called and returns with the lock held. */
static void wait_sleep(struct stepgate_job *job, uint64_t now, uint64_t deadline)
{
    struct epoll_event events[4];

    if (!wait_arm(job))
        return;
    job->sleepers++;
    uint64_t a = session_deadline(job->session), b = rewind_deadline(job);
    int timeout = wait_timeout(now, deadline, a < b ? a : b, job->sleepers > 1);
    job_unlock(job);
    int n = epoll_wait(job->epoll_fd, events, 4, timeout);
    for (int i = 0; i < n; i++)
        if (events[i].data.fd == job->wake_fd)
            wait_drain(job->wake_fd);
    job_lock(job);
    job->sleepers--;
}

/* wait_yield -- others of this processor go first; called and returns with the lock held. */
static void wait_yield(struct stepgate_job *job, uint64_t now)
{
    job_unlock(job);
    sched_yield();
    uint64_t back = clock_now();
    job_lock(job);
    patience_gave(&job->patience, now, back);
}

/* wait_interrupted -- takes an interrupt. A try leaves it to the thread that sleeps, if there is one. */
static bool wait_interrupted(struct stepgate_job *job, bool once)
{
    if (once && job->sleepers > 0)
        return false;
    if (once)
        wait_drain(job->wake_fd);
    return atomic_exchange_explicit(&job->interrupted, 0, memory_order_relaxed) != 0;
}

/* wait_later -- somebody is told EAGAIN, and may sleep on the job's descriptor: it must tell what came since, also to those told before. */
static void wait_later(struct stepgate_job *job)
{
    bool quiet = wait_arm(job);
    uint64_t changes = session_changes(job->session);

    if (!quiet || (job->tried && changes != job->tried_at))
        job_tell(job);
    job->tried = true;
    job->tried_at = changes;
}

/* wait_until -- see inside.h. */
int wait_until(struct stepgate_job *job, int ms, int64_t fallback_ms, int timeout_code, const char *what,
               wait_attempt *attempt, void *context)
{
    uint64_t start = clock_now(), now = start, since = start;
    uint64_t deadline = clock_after(start, ms >= 0 ? ms : fallback_ms);
    int status, round = 0;

    job_lock(job);
    if (ms == 0)
        wait_drain(job->tell_fd); /* what was told by now is seen by the attempt */
    for (;; round++) {
        status = rewind_verdict(job, attempt(context, now));
        if (status != -STEPGATE_EAGAIN)
            break;
        if (wait_interrupted(job, ms == 0)) {
            status = error_set(STEPGATE_EINTR, 0, "", "the wait for %s was interrupted", what);
            break;
        }
        if (ms == 0) {
            wait_later(job);
            break;
        }
        now = clock_now();
        if (ms < 0 && job->rewind.state != REWIND_NONE)
            deadline = clock_after(now, fallback_ms); /* that has deadlines of its own */
        if (now >= deadline) {
            char whom[256];
            session_waits_for(job->session, clock_now(), whom, sizeof(whom));
            status =
                error_set(timeout_code, 0, "a longer time-out, or a look at the peers that are waited for",
                          "no %s within %llu ms; waiting for %s", what,
                          (unsigned long long)((now - start) / CLOCK_MS), whom);
            error_step(UINT64_MAX, (int64_t)((now - start) / CLOCK_MS));
            if (stepgate_error_class(timeout_code) == STEPGATE_CLASS_JOB)
                session_fail(job->session);
            break;
        }
        switch (patience_next(&job->patience, since, now)) {
        case PATIENCE_LOOKS: break;
        case PATIENCE_YIELDS: wait_yield(job, now); break;
        default:
            wait_sleep(job, now, deadline);
            since = clock_now();
            break;
        }
        now = clock_now();
    }
    if (round > 0)
        job->wait_ns += clock_now() - start;
    job_unlock(job);
    return status;
}

/* What a call on a model waits for. */
struct wait_model {
    struct stepgate_model *model;
    wait_attempt *attempt;
    void *context;
};

/* wait_model_attempt -- unless the job goes back to a checkpoint. */
static int wait_model_attempt(void *context, uint64_t now)
{
    struct wait_model *wait = context;
    int status = rewind_look(wait->model);

    return status != 0 ? status : wait->attempt(wait->context, now);
}

/* model_wait -- see inside.h. */
int model_wait(struct stepgate_model *model, int ms, int64_t fallback_ms, int timeout_code, const char *what,
               wait_attempt *attempt, void *context)
{
    struct wait_model wait = {model, attempt, context};

    return wait_until(model->job, ms, fallback_ms, timeout_code, what, wait_model_attempt, &wait);
}
