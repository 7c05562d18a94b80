/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/job.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/hosts.h"
#include "transport/base/registry.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"
#include "worker/api/inside.h"

/* job_check -- NULL and fork. */
int job_check(const struct stepgate_job *job)
{
    if (job == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "the job is NULL");
    if (!origin_is_here(&job->origin))
        return error_set(STEPGATE_EFORKED, 0, "join again in the child, or leave the job to the parent",
                         "the job belongs to process %d", (int)job->origin.process);
    return 0;
}

/* job_lock -- around every use of the session. */
void job_lock(struct stepgate_job *job)
{
    pthread_mutex_lock(&job->lock);
}

/* job_tell -- an eventfd that is full is readable as well. */
void job_tell(struct stepgate_job *job)
{
    uint64_t one = 1;

    while (write(job->tell_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

/* job_unlock -- the other end. */
void job_unlock(struct stepgate_job *job)
{
    if (job->tried && session_changes(job->session) != job->tried_at) {
        job->tried = false;
        job_tell(job);
    }
    pthread_mutex_unlock(&job->lock);
}

/* job_failure -- see inside.h. */
int job_failure(struct stepgate_job *job)
{
    job_lock(job);
    int status = rewind_mends(job) ? 0 : rewind_verdict(job, session_error(job->session));
    job_unlock(job);
    return status;
}

/* job_watch -- adds a descriptor to an epoll of the job's. */
static int job_watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0)
        return 0;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, "", "cannot watch a descriptor");
    return 0;
}

/* job_open_route -- opens a transport with one queue and one domain. */
static int job_open_route(struct stepgate_job *job, const struct stepgate_transport_v1 *transport,
                          const struct hosts *ps)
{
    struct job_route *route = &job->routes[job->route_count];
    const char *device = knob_text(&job->knobs, "device");
    int64_t peer = knob_time_ms(&job->knobs, "peer_timeout");
    struct stepgate_fabric_options options = {.size = sizeof(options)};

    options.device = device != NULL && device[0] != 0 ? device : NULL;
    options.peer = ps->entries[0].address;
    options.peer_timeout_ms = peer > 0 ? (int)peer : 0;
    options.vector = (uint32_t)knob_int(&job->knobs, "task_index"); /* workers of one host begin apart */
    int status = transport->fabric_open(&options, &route->fabric);
    if (status != 0)
        return status;
    status = transport->queue_new(route->fabric, (uint32_t)ps->count * 16u, &route->queue);
    if (status != 0)
        goto delete_fabric;
    status = transport->domain_new(route->fabric, &route->domain);
    if (status != 0)
        goto delete_queue;
    status = job_watch(job->epoll_fd, transport->queue_fd(route->queue));
    if (status != 0)
        goto delete_domain;
    job->route_count++;
    return 0;

delete_domain:
    transport->domain_delete(&route->domain);
delete_queue:
    transport->queue_delete(&route->queue);
delete_fabric:
    transport->fabric_delete(&route->fabric);
    return status;
}

/* job_alone -- only shm, though a ps may be on another host: said now, since all else would look like a ps that never comes. Returns 0. */
static int job_alone(struct stepgate_job *job, const struct hosts *ps)
{
    struct stepgate_error error;

    error_save(&error);
    for (size_t s = 0; s < ps->count; s++)
        if (!hosts_is_loopback(ps->entries[s].address)) {
            log_line(&job->knobs.log, LOG_WARN,
                     "transport auto is shm alone here, since %s: a ps on another host cannot be reached",
                     error.text);
            break;
        }
    return 0;
}

/* job_open_routes -- as the knob `transport` says. Verbs that was asked for is never replaced. */
static int job_open_routes(struct stepgate_job *job, const struct hosts *ps)
{
    int choice = knob_int(&job->knobs, "transport");
    int status = 0;

    if (choice >= KNOB_TRANSPORT_OTHERS)
        return job_open_route(job, registry_at(choice - KNOB_TRANSPORT_OTHERS), ps);
    if (choice != KNOB_TRANSPORT_VERBS)
        status = job_open_route(job, shm_transport(), ps);
    if (status == 0 && choice != KNOB_TRANSPORT_SHM) {
        status = job_open_route(job, verbs_transport(), ps);
        if (choice == KNOB_TRANSPORT_AUTO && (status == -STEPGATE_ENODEVICE || status == -STEPGATE_EADDRESS ||
                                              status == -STEPGATE_EUNREACHABLE))
            status = job_alone(job, ps); /* a machine without a device: shm is what there is */
    }
    return status;
}

/* job_observes -- see inside.h. */
bool job_observes(const struct knobs *knobs)
{
    return knob_int(knobs, "job_name") == KNOB_ROLE_OBSERVER;
}

/* job_need -- what a worker must be told; an observer has no rank. */
static int job_need(const struct knobs *knobs, const struct hosts *ps, int *workers, int *rank)
{
    if (knob_int(knobs, "job_name") == KNOB_ROLE_PS)
        return error_set(STEPGATE_EINVAL, 0,
                         "give this program --job-name worker; a ps is started with stepgate-ps",
                         "this program joins as a worker, but job_name says ps");
    if (ps->count == 0)
        return error_set(STEPGATE_EINVAL, 0,
                         "give --ps-hosts host:port[,host:port...], or start it with stepgate-run",
                         "no ps is named");
    for (size_t s = 0; s < ps->count; s++)
        if (!ps->entries[s].known || ps->entries[s].port == 0)
            return error_set(STEPGATE_EINVAL, 0, "give host:port of every ps",
                             "the address of ps %zu is not known", s);
    *workers = knobs_workers(knobs);
    if (*workers < 0)
        return *workers;
    *rank = 0;
    if (job_observes(knobs))
        return 0;
    if (!knob_given(knobs, "task_index"))
        return error_set(STEPGATE_EINVAL, 0, "give --task-index 0 .. number of workers - 1",
                         "this worker has no rank");
    *rank = knob_int(knobs, "task_index");
    if (*rank >= *workers)
        return error_set(STEPGATE_EINVAL, 0, "give --task-index 0 .. number of workers - 1",
                         "this worker has rank %d, but there %s %d worker%s", *rank,
                         *workers == 1 ? "is" : "are", *workers, *workers == 1 ? "" : "s");
    return 0;
}

/* job_tune_wait -- spinning helps only where the peers have CPUs of their own. */
static void job_tune_wait(struct stepgate_job *job)
{
    cpu_set_t set;
    int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    job->patience =
        (struct patience){.mode = (enum patience_mode)knob_int(&job->knobs, "wait"), .spare = cpus > 2};
}

/* job_open -- secret and routes from the knobs. */
static int job_open(struct stepgate_job *job)
{
    struct hosts ps = {0};
    const char *text = knob_text(&job->knobs, "ps_hosts"), *secret = knob_text(&job->knobs, "secret_file");
    int workers, rank;
    int status = hosts_parse("ps_hosts", text != NULL ? text : "", &ps);

    if (status != 0)
        return status;
    status = job_need(&job->knobs, &ps, &workers, &rank);
    if (status == 0 && secret != NULL && secret[0] != 0)
        status = proof_load(secret, &job->secret);
    if (status == 0)
        status = job_open_routes(job, &ps);
    hosts_clear(&ps);
    job->rewind.on = knob_int(&job->knobs, "lost_ps") == KNOB_LOST_PS_REWIND && !job_observes(&job->knobs);
    return status;
}

/* job_session -- see inside.h. */
int job_session(struct stepgate_job *job, bool again, uint64_t now, struct session **out)
{
    struct hosts ps = {0};
    const char *text = knob_text(&job->knobs, "ps_hosts");
    const char **addresses = NULL;
    int workers = 0, rank = 0;
    int status = hosts_parse("ps_hosts", text != NULL ? text : "", &ps);

    if (status != 0)
        return status;
    status = job_need(&job->knobs, &ps, &workers, &rank);
    if (status != 0)
        goto clear_hosts;
    addresses = calloc(ps.count, sizeof(*addresses));
    if (addresses == NULL) {
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for %zu addresses", ps.count);
        goto clear_hosts;
    }
    for (size_t s = 0; s < ps.count; s++)
        addresses[s] = ps.entries[s].address;
    int64_t liveness = knob_time_ms(&job->knobs, "liveness");
    struct session_config config = {.observer = job_observes(&job->knobs),
                                    .rank = (uint32_t)rank,
                                    .workers = (uint32_t)workers,
                                    .shards = (uint32_t)ps.count,
                                    .addresses = addresses,
                                    .job = knob_text(&job->knobs, "job"),
                                    .secret = job->secret,
                                    .chunk_bytes = knob_bytes(&job->knobs, "chunk_bytes"),
                                    .join_timeout_ms = knob_time_ms(&job->knobs, "join_timeout"),
                                    .liveness_ms = liveness > 0 ? liveness : 0,
                                    .reconnect = (uint32_t)knob_int(&job->knobs, "reconnect"),
                                    .again = again,
                                    .log = job->knobs.log};
    proof_random(&config.incarnation, sizeof(config.incarnation));
    for (unsigned r = 0; r < job->route_count; r++)
        config.routes[r] = (struct session_route){job->routes[r].queue, job->routes[r].domain};
    status = session_new(&config, now, out);
clear_hosts:
    free(addresses);
    hosts_clear(&ps);
    return status;
}

/* job_new -- everything but the join itself. */
static int job_new(const struct stepgate_options *options, struct stepgate_job **out)
{
    struct stepgate_job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for a job");
    origin_here(&job->origin);
    job->epoll_fd = job->wake_fd = job->loop_fd = job->tell_fd = job->service_fd = -1;
    int status = knobs_copy(stepgate_options_knobs(options), &job->knobs);
    if (status != 0) {
        origin_clear(&job->origin);
        free(job);
        return status;
    }
    pthread_mutex_init(&job->lock, NULL);
    job->lock_there = true;
    job_tune_wait(job);
    job->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    job->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    job->loop_fd = epoll_create1(EPOLL_CLOEXEC);
    job->tell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->epoll_fd < 0 || job->wake_fd < 0 || job->loop_fd < 0 || job->tell_fd < 0)
        status =
            error_set(STEPGATE_ESYSTEM, errno, "raise the limit of open files", "no descriptors for the job");
    if (status == 0)
        status = job_watch(job->epoll_fd, job->wake_fd);
    if (status == 0)
        status = job_watch(job->loop_fd, job->tell_fd);
    if (status == 0)
        status = job_watch(job->loop_fd, job->epoll_fd);
    if (status == 0)
        status = job_open(job);
    if (status == 0)
        status = job_session(job, false, clock_now(), &job->session);
    if (status == 0 && knob_bool(&job->knobs, "service"))
        status = service_start(job);
    if (status != 0) {
        stepgate_job_delete(&job);
        return status;
    }
    *out = job;
    return 0;
}

/* job_join_attempt -- one look at the join. */
static int job_join_attempt(void *context, uint64_t now)
{
    struct stepgate_job *job = context;

    return rewind_rejoin(job, session_join_try(job->session, now), now);
}

/* stepgate_job_join -- see job.h. */
int stepgate_job_join(const struct stepgate_options *options, int ms, struct stepgate_job **out)
{
    if (options == NULL || out == NULL)
        return error_set(STEPGATE_EINVAL, 0, "", "options and job must not be NULL");
    struct stepgate_job *job = *out;
    bool fresh = job == NULL;
    int status = fresh ? job_new(options, &job) : job_check(job);
    if (status != 0)
        return status;
    status = wait_until(job, ms, knob_time_ms(&job->knobs, "join_timeout"), STEPGATE_EJOIN, "join",
                        job_join_attempt, job);
    if (status == 0 || (status == -STEPGATE_EAGAIN && ms == 0)) {
        *out = job;
    } else if (fresh) {
        struct stepgate_error error;
        error_save(&error);
        stepgate_job_delete(&job);
        error_restore(&error);
    }
    return status;
}

/* stepgate_job_delete -- in a forked child only this process's memory is let go: the parent's connections live on. */
void stepgate_job_delete(struct stepgate_job **out)
{
    if (out == NULL || *out == NULL)
        return;
    struct stepgate_job *job = *out;
    *out = NULL;
    if (!origin_is_here(&job->origin))
        return; /* the child has no threads and shares every descriptor: touching any would hurt the parent */
    service_stop(job);
    rewind_end(job);
    session_delete(&job->session);
    while (job->models != NULL) {
        struct stepgate_model *model = job->models;
        job->models = model->next;
        rewind_forget(model);
        free(model);
    }
    for (unsigned r = 0; r < job->route_count; r++) {
        struct job_route *route = &job->routes[r];
        const struct stepgate_transport_v1 *transport = route->fabric->transport;
        transport->domain_delete(&route->domain);
        transport->queue_delete(&route->queue);
        transport->fabric_delete(&route->fabric);
    }
    const int fds[] = {job->loop_fd, job->tell_fd, job->epoll_fd, job->wake_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (job->lock_there)
        pthread_mutex_destroy(&job->lock);
    knobs_clear(&job->knobs);
    explicit_bzero(&job->secret, sizeof(job->secret));
    origin_clear(&job->origin);
    free(job);
}

/* stepgate_job_role -- of this process. */
int stepgate_job_role(const struct stepgate_job *job)
{
    if (job == NULL)
        return -STEPGATE_EINVAL;
    return job_observes(&job->knobs) ? STEPGATE_ROLE_OBSERVER : STEPGATE_ROLE_WORKER;
}

/* stepgate_job_rank -- 0 .. size-1; an observer's is -1. */
int stepgate_job_rank(const struct stepgate_job *job)
{
    if (job == NULL)
        return -STEPGATE_EINVAL;
    return job_observes(&job->knobs) ? -1 : knob_int(&job->knobs, "task_index");
}

/* stepgate_job_size -- T. */
int stepgate_job_size(const struct stepgate_job *job)
{
    return job != NULL ? knobs_workers(&job->knobs) : -STEPGATE_EINVAL;
}

/* stepgate_job_servers -- the number of ps. */
int stepgate_job_servers(const struct stepgate_job *job)
{
    struct hosts ps;

    if (job == NULL || hosts_parse("ps_hosts", knob_text(&job->knobs, "ps_hosts"), &ps) != 0)
        return -STEPGATE_EINVAL;
    int count = (int)ps.count;
    hosts_clear(&ps);
    return count;
}

/* stepgate_job_transport -- in use, in words. */
const char *stepgate_job_transport(const struct stepgate_job *job)
{
    if (job_check(job) != 0)
        return "";
    struct stepgate_job *mutable_job = (struct stepgate_job *)(uintptr_t)job;
    job_lock(mutable_job);
    const char *name = session_transport(job->session);
    job_unlock(mutable_job);
    return name;
}

/* stepgate_job_fd -- for event loops. */
int stepgate_job_fd(struct stepgate_job *job)
{
    int status = job_check(job);

    return status != 0 ? status : job->loop_fd;
}

/* stepgate_job_progress -- for service=off. */
int stepgate_job_progress(struct stepgate_job *job)
{
    int status = job_check(job);

    if (status != 0)
        return status;
    job_lock(job);
    session_progress(job->session, clock_now());
    status = rewind_verdict(job, session_error(job->session));
    if (!knob_bool(&job->knobs, "service"))
        rewind_attend(job, clock_now()); /* there is no thread that does */
    job_unlock(job);
    return status;
}

/* stepgate_job_interrupt -- only an atomic store and a write: safe in a signal handler. */
void stepgate_job_interrupt(struct stepgate_job *job)
{
    uint64_t one = 1;
    int saved = errno;

    if (job == NULL || !origin_is_here(&job->origin))
        return;
    atomic_store_explicit(&job->interrupted, 1,
                          memory_order_relaxed); /* the write below orders it before the wake-up */
    if (write(job->wake_fd, &one, sizeof(one)) < 0)
        errno = saved; /* full: the reader is awake anyway */
    errno = saved;
}

/* job_barrier_attempt -- one look at the barrier. */
static int job_barrier_attempt(void *context, uint64_t now)
{
    struct stepgate_job *job = context;
    int status = rewind_under_way(job);

    return status != 0 ? status : session_barrier_try(job->session, now);
}

/* stepgate_job_barrier -- every worker comes here. */
int stepgate_job_barrier(struct stepgate_job *job, int ms)
{
    int status = job_check(job);

    return status != 0 ? status
                       : wait_until(job, ms, knob_time_ms(&job->knobs, "join_timeout"), STEPGATE_ETIMEOUT,
                                    "barrier", job_barrier_attempt, job);
}

/* job_leave_attempt -- one look at the good-bye. */
static int job_leave_attempt(void *context, uint64_t now)
{
    struct stepgate_job *job = context;
    int status = rewind_under_way(job);

    return status != 0 ? status : session_leave_try(job->session, now);
}

/* stepgate_job_leave -- says good-bye to every ps. */
int stepgate_job_leave(struct stepgate_job *job, int ms)
{
    int status = job_check(job);

    return status != 0 ? status
                       : wait_until(job, ms, knob_time_ms(&job->knobs, "close_timeout"), STEPGATE_ETIMEOUT,
                                    "answer to the good-bye", job_leave_attempt, job);
}

/* stepgate_job_error -- the first failure of the job. */
int stepgate_job_error(const struct stepgate_job *job, struct stepgate_error *error)
{
    int status = job_check(job);

    if (status != 0)
        return status;
    if (error == NULL || error->size < sizeof(*error))
        return -STEPGATE_EINVAL;
    struct stepgate_job *mutable_job = (struct stepgate_job *)(uintptr_t)job;
    job_lock(mutable_job);
    const struct stepgate_error *failure = session_failure(job->session);
    int code = 0;
    if (failure != NULL && rewind_under_way(mutable_job) == 0) {
        size_t size = error->size;
        *error = *failure;
        error->size = size;
        code = -failure->code;
    }
    job_unlock(mutable_job);
    return code;
}

/* stepgate_job_stats -- counters since the join. */
int stepgate_job_stats(const struct stepgate_job *job, struct stepgate_job_stats *stats)
{
    int status = job_check(job);

    if (status != 0)
        return status;
    if (stats == NULL || stats->size < sizeof(*stats))
        return error_set(STEPGATE_EINVAL, 0, "set stats.size", "stats is NULL or its size is too small");
    struct stepgate_job *mutable_job = (struct stepgate_job *)(uintptr_t)job;
    job_lock(mutable_job);
    size_t size = stats->size;
    rewind_stats(mutable_job, stats);
    stats->size = size;
    stats->wait_ns = job->wait_ns;
    job_unlock(mutable_job);
    return 0;
}
