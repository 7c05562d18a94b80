/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/crew.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/exit_status.h"
#include "worker/launch/guard.h"
#include "worker/launch/member.h"
#include "worker/launch/restarts.h"
#include "worker/launch/seats.h"
#include "worker/launch/signals.h"
#include "worker/launch/sink.h"

#define CREW_GRACE_MS 2000 /* beyond what a process may take to close */
#define CREW_TELL_MS 1000  /* most jobs have ended by then, and say why themselves */
#define CREW_KEEP_MS 20000 /* as long as a ps tries to write its last checkpoint */
#define CREW_DRAIN_MS 500  /* for outputs that somebody outside the process groups holds open */

enum crew_phase { CREW_LEADER, CREW_SERVERS, CREW_WORKING };

struct crew {
    const struct crew_plan *plan;
    enum crew_phase phase;
    size_t count;
    struct member *members; /* the ps, then the workers */
    struct sink out, err_own, *err;
    struct guard guard;
    struct restarts restarts;
    int signals;  /* a signalfd */
    int stop;     /* the first signal that asked the launcher to end; 0: none */
    bool keeps;   /* the ps have a folder for checkpoints */
    bool keeping; /* they write the newest step, then they end, and the workers with them */
    int failed;   /* the member that the exit status is of; -1: none */
    int own;      /* exit status of the launcher's own failure */
    bool lost;    /* it is said that the output does not arrive */
    int64_t close_ms;
    uint64_t address_at; /* by then every ps has said its address */
    uint64_t tell_at;    /* when it is said who failed, if the others have not ended by then */
    uint64_t servers_at; /* when the ps get SIGTERM */
    uint64_t term_at;    /* when everybody does */
    uint64_t kill_at;
    uint64_t drain_at; /* when outputs are given up */
    struct pollfd *polled;
};

/* crew_is_server -- whether a member is a ps. */
static bool crew_is_server(const struct crew *crew, size_t index)
{
    return index < crew->plan->servers;
}

/* crew_say -- a line of the launcher's own. */
static void crew_say(struct crew *crew, const char *text)
{
    sink_line(crew->err, "stepgate-run: ", text, strlen(text));
}

/* crew_running -- how many members of a role are running. */
static unsigned crew_running(const struct crew *crew, bool servers)
{
    unsigned running = 0;

    for (size_t i = 0; i < crew->count; i++)
        running += crew_is_server(crew, i) == servers && child_is_running(&crew->members[i].child);
    return running;
}

/* crew_is_open -- the job runs and nothing has ended it. */
static bool crew_is_open(const struct crew *crew)
{
    return crew->stop == 0 && crew->failed < 0 && crew->own == EXIT_STATUS_OK;
}

/* crew_waits -- whether a member is going to be started again. */
static bool crew_waits(const struct crew *crew, size_t index)
{
    return crew_is_open(crew) && crew->members[index].start_at != CLOCK_NEVER;
}

/* crew_present -- how many members of a role are running or will be again. */
static unsigned crew_present(const struct crew *crew, bool servers)
{
    unsigned waiting = 0;

    for (size_t i = 0; i < crew->count; i++)
        waiting += crew_is_server(crew, i) == servers && crew_waits(crew, i);
    return waiting + crew_running(crew, servers);
}

/* crew_earlier -- sets a time unless an earlier one is set. */
static void crew_earlier(uint64_t *at, uint64_t when)
{
    if (when < *at)
        *at = when;
}

/* crew_signal -- to the members of a role; `told`: they are to end, so that how they end is not their fault. */
static void crew_signal(struct crew *crew, bool servers, int number, bool told)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct child *child = &crew->members[i].child;
        if (crew_is_server(crew, i) != servers || !child_is_running(child))
            continue;
        child->told = child->told || told;
        child_signal(child, number);
        if (number == SIGTERM)
            child_signal(child, SIGCONT); /* one that is stopped could not hear it */
    }
}

/* crew_kill -- everybody. */
static void crew_kill(struct crew *crew)
{
    crew_signal(crew, false, SIGKILL, true);
    crew_signal(crew, true, SIGKILL, true);
}

/* crew_end_soon -- everybody gets SIGTERM after some time, and SIGKILL later. */
static void crew_end_soon(struct crew *crew, uint64_t now, int64_t ms)
{
    crew_earlier(&crew->term_at, clock_after(now, ms));
}

/* crew_fail -- a failure of the launcher itself, with the last error of this thread. */
static void crew_fail(struct crew *crew, int code, uint64_t now)
{
    char line[1024];

    exit_status_line(code, line, sizeof(line));
    crew_say(crew, line);
    if (crew->own == EXIT_STATUS_OK)
        crew->own = stepgate_exit_status(code);
    crew_end_soon(crew, now, 0);
}

/* crew_hosts -- ps_hosts as far as it is known; NULL: no memory. The caller frees it. */
static char *crew_hosts(const struct crew *crew)
{
    size_t size = crew->plan->servers * (size_t)HOSTS_ADDRESS_BYTES + 1, used = 0;
    char *list = malloc(size);

    for (size_t i = 0; list != NULL && i < crew->plan->servers; i++) {
        const char *address = crew->members[i].address;
        int n = snprintf(list + used, size - used, "%s%s", i > 0 ? "," : "",
                         address[0] != '\0' ? address : "-:0");
        used += (size_t)n;
    }
    return list;
}

/* crew_start_member -- a ps or worker, also again. */
static int crew_start_member(struct crew *crew, size_t index)
{
    struct member *member = &crew->members[index];
    char *hosts = crew_hosts(crew);

    if (hosts == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for the list of ps");
    int code = member_start(member, crew->plan, hosts, &crew->out, crew->err);
    free(hosts);
    if (code == 0)
        guard_watch(&crew->guard, member->child.pid);
    return code;
}

/* crew_say_seats -- where workers sit, if they are put anywhere. */
static void crew_say_seats(struct crew *crew)
{
    char line[1024];

    seats_describe(crew->plan->seats, line, sizeof(line));
    if (line[0] != '\0')
        crew_say(crew, line);
}

/* crew_start -- the members from `first` up to `end`. */
static void crew_start(struct crew *crew, size_t first, size_t end, uint64_t now)
{
    for (size_t i = first; i < end; i++) {
        int code = crew_start_member(crew, i);
        if (code < 0) {
            crew_fail(crew, code, now);
            return;
        }
    }
}

/* crew_silent_server -- the first of the ps before `end` that has not said its address; -1: none. */
static int crew_silent_server(const struct crew *crew, size_t end)
{
    for (size_t i = 0; i < end; i++)
        if (crew->members[i].address[0] == '\0')
            return (int)i;
    return -1;
}

/* crew_advance -- starts whoever can start now. */
static void crew_advance(struct crew *crew, uint64_t now)
{
    size_t servers = crew->plan->servers;

    if (!crew_is_open(crew))
        return;
    if (crew->phase == CREW_LEADER && crew_silent_server(crew, 1) < 0) {
        crew->phase = CREW_SERVERS;
        crew_start(crew, 1, servers, now);
    }
    if (crew->phase == CREW_SERVERS && crew->own == EXIT_STATUS_OK && crew_silent_server(crew, servers) < 0) {
        crew->phase = CREW_WORKING;
        crew->address_at = CLOCK_NEVER;
        crew_say_seats(crew);
        crew_start(crew, servers, crew->count, now);
    }
}

/* crew_blame -- whether this failure takes the place of the one that counts so far. Losing a peer is mostly the echo of a failure. */
static bool crew_blame(const struct crew *crew, const struct child *child)
{
    if (crew->failed < 0)
        return true;
    return child_exit_status(&crew->members[crew->failed].child) == EXIT_STATUS_REQUEUE &&
           child_exit_status(child) != EXIT_STATUS_REQUEUE;
}

/* crew_say_of -- how a member has ended, and what follows. */
static void crew_say_of(struct crew *crew, const struct child *child, const char *follows)
{
    char line[320], words[160];

    child_describe(child, words, sizeof(words));
    snprintf(line, sizeof(line), "%s; %s", words, follows);
    crew_say(crew, line);
}

/* crew_restarts -- is this member, which has failed, started again? A ps is as long as there are workers for it. */
static bool crew_restarts(struct crew *crew, size_t index, uint64_t now)
{
    struct member *member = &crew->members[index];
    struct restarts *restarts = &crew->restarts;
    char follows[96];

    if (!crew_is_open(crew) || crew->phase != CREW_WORKING ||
        (member->server && crew_present(crew, false) == 0) || !restarts_take(restarts, &member->child))
        return false;
    snprintf(follows, sizeof(follows), "it is started again, restart %u of %u", restarts->used,
             restarts->most);
    crew_say_of(crew, &member->child, follows);
    child_sweep(&member->child); /* who would hold its port or its outputs */
    member->start_at = clock_after(now, restarts_pause_ms(member->restarts));
    return true;
}

/* crew_spares -- does the job go on without this worker? It does while another one runs, or has done well. */
static bool crew_spares(struct crew *crew, const struct child *child)
{
    for (size_t i = crew->plan->servers; crew->plan->spare && i < crew->count; i++) {
        const struct child *other = &crew->members[i].child;
        if (other == child || (child_failed(other) && !crew_waits(crew, i)))
            continue;
        crew_say_of(crew, child, "the others are left to go on");
        return true;
    }
    return false;
}

/* crew_give_up -- whoever waits to be started again will not be: how it ended counts after all. */
static void crew_give_up(struct crew *crew)
{
    for (size_t i = 0; i < crew->count; i++) {
        struct member *member = &crew->members[i];
        if (member->start_at == CLOCK_NEVER)
            continue;
        member->start_at = CLOCK_NEVER;
        if (crew_blame(crew, &member->child))
            crew->failed = (int)i;
    }
}

/* crew_on_end -- a member has ended. */
static void crew_on_end(struct crew *crew, size_t index, uint64_t now)
{
    struct child *child = &crew->members[index].child;
    bool server = crew_is_server(crew, index);
    /* After a signal for the launcher only the workers' ends count, for the ps lose them in the course of it. */
    bool unasked = crew->stop != 0 ? !server && !child->killed : !child->told;
    unasked = unasked && crew->stop != SIGPIPE; /* which nobody sent to the launcher */
    unasked = unasked && !crew->keeping;        /* the ps end the workers */
    bool early = server && crew->phase != CREW_WORKING;

    if (unasked && child_failed(child) && crew_restarts(crew, index, now))
        return;
    bool spared = unasked && !server && child_failed(child) && crew->failed < 0 && crew_spares(crew, child);

    if (unasked && !spared && (child_failed(child) || early) && crew_blame(crew, child))
        crew->failed = (int)index;
    if (crew->failed == (int)index)
        crew_earlier(&crew->tell_at, clock_after(now, CREW_TELL_MS));
    bool done = crew->phase == CREW_WORKING && crew_present(crew, false) == 0;
    if (crew->stop == 0 && (done || crew->failed >= 0))
        crew_give_up(crew);
    if (crew->failed >= 0)
        crew_end_soon(crew, now, early ? 0 : crew->close_ms + CREW_GRACE_MS);
    if (done)
        crew_earlier(&crew->servers_at,
                     clock_after(now, crew->stop != 0 && !crew->keeping ? 0 : CREW_GRACE_MS));
    if (crew->keeping && crew_running(crew, true) == 0) /* a worker that computes hears of it when it asks */
        crew_end_soon(crew, now, crew->close_ms + CREW_GRACE_MS);
}

/* crew_look -- who has ended. */
static void crew_look(struct crew *crew, uint64_t now)
{
    for (size_t i = 0; i < crew->count; i++)
        if (child_look(&crew->members[i].child))
            crew_on_end(crew, i, now);
}

/* crew_is_over -- nobody is left. */
static bool crew_is_over(const struct crew *crew)
{
    return crew_present(crew, true) + crew_present(crew, false) == 0;
}

/* crew_keep -- the ps are to write the newest step before they end the job. */
static void crew_keep(struct crew *crew, uint64_t now)
{
    crew->keeping = true;
    crew_signal(crew, true, SIGTERM, true);
    crew_end_soon(crew, now, CREW_KEEP_MS + crew->close_ms + CREW_GRACE_MS);
}

/* crew_stop -- a signal asks the launcher to end. */
static void crew_stop(struct crew *crew, int number, uint64_t now)
{
    if (crew->stop == SIGINT && number == SIGINT) {
        if (crew_is_over(crew)) /* only a reader that does not read is waited for */
            crew->out.broken = crew->err->broken = true;
        crew_kill(crew);
        return;
    }
    if (crew->stop == 0) {
        bool works = crew->phase == CREW_WORKING && crew_present(crew, false) > 0;
        crew->stop = number;
        if (number == SIGTERM && crew->keeps && works) {
            crew_keep(crew, now);
            return;
        }
    }
    crew_signal(crew, false, number == SIGPIPE ? SIGTERM : number, true);
    if (crew_running(crew, false) == 0)
        crew_earlier(&crew->servers_at, now);
    crew_end_soon(crew, now, crew->close_ms + CREW_GRACE_MS);
}

/* crew_on_signals -- takes them from the signalfd. */
static void crew_on_signals(struct crew *crew, uint64_t now)
{
    struct signalfd_siginfo info;

    while (read(crew->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            crew_look(crew, now);
        else if (number == SIGUSR1 || number == SIGUSR2)
            crew_signal(crew, false, number, false);
        else
            crew_stop(crew, number, now);
    }
}

/* crew_on_lost -- what the job writes is not taken: without a reader it ends; else it goes on, for what it computes may be worth more. */
static void crew_on_lost(struct crew *crew, uint64_t now)
{
    char line[256];

    if (crew->lost || crew->out.os_errno == 0) /* 0: an interrupt gave it up */
        return;
    crew->lost = true;
    if (crew->out.os_errno == EPIPE) {
        if (crew->stop == 0)
            crew_stop(crew, SIGPIPE, now);
        return;
    }
    snprintf(line, sizeof(line), "cannot write the job's output: %s: give it a place that takes it",
             strerror(crew->out.os_errno));
    crew_say(crew, line);
}

/* crew_tell -- in some modes of a job the others do not notice that a worker is gone: why they are stopped nonetheless is said before. */
static void crew_tell(struct crew *crew)
{
    const struct member *member = &crew->members[crew->failed];
    bool spares = !member->server && !crew->plan->spare;

    crew_say_of(crew, &member->child,
                spares ? "the others are stopped if they do not end by themselves (--spare-workers lets "
                         "them go on)"
                       : "the others are stopped if they do not end by themselves");
}

/* crew_on_time -- what is due by now. */
static void crew_on_time(struct crew *crew, uint64_t now)
{
    if (now >= crew->address_at) {
        crew->address_at = CLOCK_NEVER;
        int code = error_set(
            STEPGATE_EJOIN, 0, "look at its messages above; join-timeout sets how long to wait",
            "ps %d did not say in time where it listens", crew_silent_server(crew, crew->plan->servers));
        crew_fail(crew, code, now);
    }
    if (now >= crew->tell_at) {
        crew->tell_at = CLOCK_NEVER;
        if (crew->stop == 0 && crew_running(crew, false) > 0)
            crew_tell(crew);
    }
    if (now >= crew->servers_at || now >= crew->term_at) {
        crew_signal(crew, true, SIGTERM, true);
        crew->servers_at = CLOCK_NEVER;
        crew_earlier(&crew->kill_at, clock_after(now, crew->close_ms));
    }
    if (now >= crew->term_at) {
        crew_signal(crew, false, SIGTERM, true);
        crew->term_at = CLOCK_NEVER;
    }
    if (now >= crew->kill_at) {
        crew_kill(crew);
        crew->kill_at = CLOCK_NEVER;
    }
    if (crew->out.broken)
        crew_on_lost(crew, now);
    if (crew_is_over(crew) && crew->drain_at == CLOCK_NEVER) {
        for (size_t i = 0; i < crew->count; i++)
            child_sweep(&crew->members[i].child);
        crew->drain_at = clock_after(now, CREW_DRAIN_MS);
    }
}

/* crew_start_again -- when nothing of its last life is left to be said. */
static void crew_start_again(struct crew *crew, size_t index, uint64_t now)
{
    struct member *member = &crew->members[index];

    if (!member_is_drained(member, now >= clock_after(member->start_at, CREW_DRAIN_MS)))
        return;
    member->start_at = CLOCK_NEVER;
    member->restarts++;
    guard_forget(&crew->guard, member->child.pid);
    child_clear(&member->child);
    crew_start(crew, index, index + 1, now);
}

/* crew_revive -- starts again whoever has waited long enough. */
static void crew_revive(struct crew *crew, uint64_t now)
{
    for (size_t i = 0; i < crew->count; i++)
        if (crew_waits(crew, i) && now >= crew->members[i].start_at)
            crew_start_again(crew, i, now);
}

/* crew_timeout -- milliseconds until the next thing is due, rounded up; -1: nothing is. */
static int crew_timeout(const struct crew *crew, uint64_t now)
{
    uint64_t next = crew->address_at;

    crew_earlier(&next, crew->tell_at);
    crew_earlier(&next, crew->servers_at);
    crew_earlier(&next, crew->term_at);
    crew_earlier(&next, crew->kill_at);
    for (size_t i = 0; i < crew->count; i++) {
        uint64_t at = crew->members[i].start_at;
        if (crew_waits(crew, i))
            crew_earlier(&next, at > now ? at : clock_after(at, CREW_DRAIN_MS));
    }
    if (crew->drain_at > now) /* later than that only a reader of a full sink is waited for */
        crew_earlier(&next, crew->drain_at);
    if (next == CLOCK_NEVER)
        return -1;
    return next <= now ? 0 : (int)((next - now - 1) / CLOCK_MS + 1);
}

/* crew_poll_streams -- one entry per output that is open and may be read now; fills polled from `used` on, returns the number used. */
static nfds_t crew_poll_streams(struct crew *crew, nfds_t used, bool *open)
{
    for (size_t i = 0; i < 2 * crew->count; i++) {
        struct child *child = &crew->members[i / 2].child;
        struct stream *stream = i % 2 == 0 ? &child->out : &child->err;
        if (stream->fd < 0)
            continue;
        *open = true;
        crew->polled[used++] =
            (struct pollfd){.fd = sink_is_full(stream->sink) ? -1 : stream->fd, .events = POLLIN};
    }
    return used;
}

/* crew_read_streams -- those that poll found readable, in the same order as above. */
static void crew_read_streams(struct crew *crew, nfds_t at)
{
    for (size_t i = 0; i < 2 * crew->count; i++) {
        struct child *child = &crew->members[i / 2].child;
        struct stream *stream = i % 2 == 0 ? &child->out : &child->err;
        if (stream->fd >= 0 && crew->polled[at++].revents != 0)
            stream_read(stream);
    }
}

/* crew_turn -- waits for the next thing and deals with it; false: everything is done. */
static bool crew_turn(struct crew *crew)
{
    bool open = false;
    uint64_t now = clock_now();

    crew_on_time(crew, now);
    sink_flush(&crew->out, false);
    sink_flush(crew->err, false);
    crew_revive(crew, now);
    crew->polled[0] = (struct pollfd){.fd = crew->signals, .events = POLLIN};
    crew->polled[1] = (struct pollfd){.fd = crew->out.used > 0 ? crew->out.fd : -1, .events = POLLOUT};
    crew->polled[2] = (struct pollfd){.fd = crew->err->used > 0 ? crew->err->fd : -1, .events = POLLOUT};
    nfds_t used = crew_poll_streams(crew, 3, &open);
    if (crew->drain_at != CLOCK_NEVER && (!open || now >= crew->drain_at) && !sink_is_full(&crew->out) &&
        !sink_is_full(crew->err))
        return false;
    if (poll(crew->polled, used, crew_timeout(crew, now)) < 0) {
        if (errno != EINTR)
            crew_fail(crew, error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot wait for the job's processes"),
                      now);
        return errno == EINTR || !crew_is_over(crew);
    }
    now = clock_now();
    crew_read_streams(crew, 3);
    if (crew->polled[0].revents != 0)
        crew_on_signals(crew, now);
    crew_advance(crew, now);
    return true;
}

/* crew_status -- the exit status, with the line that says why it is not 0. */
static int crew_status(struct crew *crew)
{
    char line[256], words[160];

    if (crew->failed >= 0) {
        const struct child *child = &crew->members[crew->failed].child;
        int status = child_exit_status(child);
        child_describe(child, words, sizeof(words));
        if (crew->stop != 0)
            snprintf(line, sizeof(line), "stopped by signal %d (%s); %s", crew->stop, sigdescr_np(crew->stop),
                     words);
        else
            snprintf(line, sizeof(line), "failed: %s%s", words, status == 0 ? " before it listened" : "");
        crew_say(crew, line);
        return status != 0 ? status : EXIT_STATUS_PERMANENT;
    }
    if (crew->own != EXIT_STATUS_OK)
        return crew->own;
    bool cut = crew->stop == SIGPIPE || (crew->stop != 0 && crew->phase != CREW_WORKING);
    for (size_t i = crew->plan->servers; i < crew->count; i++)
        cut = cut || (crew->stop != 0 && child_failed(&crew->members[i].child));
    if (!cut)
        return EXIT_STATUS_OK;
    snprintf(line, sizeof(line), "stopped by signal %d (%s)", crew->stop, sigdescr_np(crew->stop));
    crew_say(crew, line);
    return 128 + crew->stop;
}

/* crew_init -- memory, outputs, signals, guard. */
static int crew_init(struct crew *crew, const struct crew_plan *plan)
{
    const char *folder = knob_text(plan->knobs, "checkpoint");

    *crew = (struct crew){.plan = plan,
                          .count = (size_t)plan->servers + plan->workers,
                          .restarts = {.most = plan->restarts},
                          .failed = -1,
                          .close_ms = knob_time_ms(plan->knobs, "close_timeout"),
                          .keeps = folder != NULL && folder[0] != '\0',
                          .tell_at = CLOCK_NEVER,
                          .servers_at = CLOCK_NEVER,
                          .term_at = CLOCK_NEVER,
                          .kill_at = CLOCK_NEVER,
                          .drain_at = CLOCK_NEVER};
    crew->address_at = clock_after(clock_now(), knob_time_ms(plan->knobs, "join_timeout"));
    sink_init(&crew->out, STDOUT_FILENO);
    sink_init(&crew->err_own, STDERR_FILENO);
    /* On one terminal both go through one sink, so that lines and a progress line that is open do not run into each other. */
    crew->err = crew->out.terminal && crew->err_own.terminal ? &crew->out : &crew->err_own;
    crew->members = calloc(crew->count, sizeof(*crew->members));
    crew->polled = calloc(3 + 2 * crew->count, sizeof(*crew->polled));
    if (crew->members == NULL || crew->polled == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for %zu processes", crew->count);
    for (size_t i = 0; i < crew->count; i++) {
        bool server = crew_is_server(crew, i);
        member_init(&crew->members[i], server, (unsigned)(server ? i : i - plan->servers));
    }
    int code = signals_take(&crew->signals);
    return code < 0 ? code : guard_start(&crew->guard);
}

/* crew_run -- see the top of crew.h. */
int crew_run(const struct crew_plan *plan)
{
    struct crew crew;
    int code = crew_init(&crew, plan);
    int status;

    if (code < 0) {
        crew_fail(&crew, code, clock_now());
        status = crew.own;
    } else {
        crew_start(&crew, 0, 1, clock_now());
        while (crew_turn(&crew))
            continue;
        for (size_t i = 0; i < crew.count; i++)
            child_clear(&crew.members[i].child);
        guard_release(&crew.guard);
        status = crew_status(&crew);
    }
    signals_release(); /* a reader that does not read may be waited for below, but not against a Ctrl-C */
    sink_flush(&crew.out, true);
    if (crew.out.broken)
        crew_on_lost(&crew, clock_now());
    if (crew.out.broken && status == EXIT_STATUS_OK)
        status = crew.stop != 0 ? 128 + crew.stop : EXIT_STATUS_PERMANENT;
    sink_flush(crew.err, true);
    sink_clear(&crew.out);
    sink_clear(&crew.err_own);
    free(crew.members);
    free(crew.polled);
    return status;
}
