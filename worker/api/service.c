/* SPDX-License-Identifier: BSD-3-Clause */
/* service -- the thread that keeps heartbeats and events going while the program computes. It calls no user code but the log function. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "worker/api/inside.h"

#define SERVICE_MS_MAX 250
#define SERVICE_MS_REBUILD 1 /* a ps does not wait long for those whose connections were closed */

/* service_run -- wakes a few times per second; whoever holds the lock or sleeps in a wait does the work already. */
static void *service_run(void *context)
{
    struct stepgate_job *job = context;
    int64_t liveness = knob_time_ms(&job->knobs, "liveness");
    int ms = liveness > 0 && liveness / 8 < SERVICE_MS_MAX ? (int)(liveness / 8) + 1 : SERVICE_MS_MAX;
    struct pollfd fd = {.fd = job->service_fd, .events = POLLIN};

    for (int next = ms;;) {
        poll(&fd, 1, next);
        next = ms;
        if (atomic_load_explicit(&job->service_stop, memory_order_acquire)) /* pairs with service_stop */
            return NULL;
        if (pthread_mutex_trylock(&job->lock) != 0)
            continue;
        if (job->sleepers == 0) {
            session_progress(job->session, clock_now());
            rewind_attend(job, clock_now());
        }
        if (session_rebuilds(job->session))
            next = SERVICE_MS_REBUILD;
        job_unlock(job);
    }
}

/* service_start -- signals of the program are not for this thread. */
int service_start(struct stepgate_job *job)
{
    sigset_t all, before;

    job->service_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->service_fd < 0)
        return error_set(STEPGATE_ESYSTEM, errno, "raise the limit of open files",
                         "no eventfd for the service thread");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&job->service, NULL, service_run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0)
        return error_set(STEPGATE_ESYSTEM, status, "service=off does without", "no service thread");
    job->service_runs = true;
    return 0;
}

/* service_stop -- bounded: the thread never waits for a lock. */
void service_stop(struct stepgate_job *job)
{
    if (job->service_runs) {
        uint64_t one = 1;
        atomic_store_explicit(&job->service_stop, true, memory_order_release); /* pairs with service_run */
        while (write(job->service_fd, &one, sizeof(one)) < 0 && errno == EINTR)
            continue;
        pthread_join(job->service, NULL);
        job->service_runs = false;
    }
    if (job->service_fd >= 0)
        close(job->service_fd);
    job->service_fd = -1;
}
