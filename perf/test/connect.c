/* SPDX-License-Identifier: BSD-3-Clause */
/* connect -- from the call to a connection that stands, and to one whose ends have proved to each other that they know the job's secret. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "perf/child.h"
#include "perf/clock.h"
#include "perf/server.h"
#include "perf/test/table.h"
#include "perf/trial.h"
#include "ps/protocol/link.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define CONNECT_LINKS 64 /* that the other end has at once: those whose clients have gone leave late */
#define CONNECT_EVENTS 16
#define CONNECT_PATIENCE_NS UINT64_C(30000000000)

struct connect {
    const struct settings *settings;
    struct wire wire; /* fabric, domain and queue; its endpoints are the links' */
    struct proof_secret secret;
    struct hello hello;
};

/* connect_hello -- as worker 0 and lane 0 introduce themselves. */
static struct hello connect_hello(int role)
{
    return (struct hello){.role = (uint8_t)role,
                          .purpose = HELLO_CONTROL,
                          .job = hello_job_hash("stepgate-perf"),
                          .workers = 1,
                          .shards = 1};
}

/* connect_vacant -- a link of the server that nobody has. NULL: none. */
static struct link *connect_vacant(struct link *links)
{
    for (int i = 0; i < CONNECT_LINKS; i++)
        if (links[i].state == LINK_NEW || links[i].state == LINK_DOWN)
            return &links[i];
    return NULL;
}

/* connect_answer -- one event at the server. */
static void connect_answer(struct connect *c, struct link *links, const struct stepgate_event *event)
{
    if (event->kind == STEPGATE_EVENT_REQUEST) {
        struct link *link = connect_vacant(links);
        if (link == NULL) {
            c->wire.transport->request_refuse(event->request, NULL, 0);
            return;
        }
        link_init(link, &c->secret, 0);
        if (link_accept(link, event->request, c->wire.queue, c->wire.domain, &c->hello, event->data,
                        event->length, clock_now()) != 0)
            link_close(link);
    } else if (event->endpoint != NULL) {
        struct link *link = event->endpoint->user;
        if (link_event(link, event, clock_now()) == LINK_WENT_DOWN)
            link_close(link);
    }
}

/* connect_serve -- accepts until it is killed. One event at a time, so that none of a link that was closed is left. */
static void connect_serve(struct connect *c)
{
    static struct link links[CONNECT_LINKS];
    struct stepgate_event event;
    int n;

    while ((n = c->wire.transport->queue_poll(c->wire.queue, &event, 1)) >= 0) {
        if (n > 0)
            connect_answer(c, links, &event);
        else
            sched_yield();
        for (int i = 0; i < CONNECT_LINKS; i++)
            if (links[i].state == LINK_UP || links[i].state == LINK_PROVING)
                (void)link_progress(&links[i], clock_now());
    }
}

/* connect_live -- the server's process: its address goes through the pipe, an error, too, behind a `!`. */
static void connect_live(void *context, int pipe)
{
    struct connect *c = context;
    char line[1 + WIRE_TEXT] = "";

    c->hello = connect_hello(STEPGATE_ROLE_PS);
    int status =
        wire_open(&c->wire, c->settings, CONNECT_LINKS) == 0 && wire_bind(&c->wire, c->settings, 1) == 0
            ? server_listen(&c->wire, c->settings, true, line, STEPGATE_ADDRESS_BYTES)
            : -1;
    if (status != 0)
        snprintf(line, sizeof(line), "!%s", c->wire.text);
    if (write(pipe, line, strlen(line)) < 0)
        status = -1;
    close(pipe);
    if (status == 0)
        connect_serve(c);
    _exit(1);
}

/* connect_once -- one connection; the histograms are NULL in the warm-up. 0 or -1 with this thread's error. */
static int connect_once(struct connect *c, const char *address, struct histogram *stands,
                        struct histogram *proved)
{
    static struct link link;
    uint64_t begin = perf_clock_now(), stood = 0, now = 0;
    int what = LINK_NOTHING;

    link_init(&link, &c->secret, 0);
    int status = link_connect(&link, c->wire.queue, c->wire.domain, address, &c->hello, clock_now());
    while (status == 0 && what != LINK_CAME_UP) {
        struct stepgate_event event;
        int n = c->wire.transport->queue_poll(c->wire.queue, &event, 1);
        if (n == 0)
            sched_yield(); /* the system does its part in the connecting */
        if (n > 0 && event.endpoint != NULL)
            what = link_event(&link, &event, clock_now());
        now = perf_clock_now();
        if (n > 0 && event.kind == STEPGATE_EVENT_CONNECTED)
            stood = now;
        if (n < 0 || what == LINK_WENT_DOWN)
            status = n < 0 ? n : error_restore(&link.error);
        else if (now - begin > CONNECT_PATIENCE_NS)
            status = error_set(STEPGATE_ETIMEOUT, 0, "", "no connection within 30 s");
        else if (link_progress(&link, clock_now()) == LINK_WENT_DOWN)
            status = error_restore(&link.error);
    }
    if (status == 0 && stands != NULL) {
        histogram_add(stands, stood - begin);
        histogram_add(proved, now - begin);
    }
    link_close(&link);
    return status;
}

/* connect_row -- one histogram. */
static void connect_row(struct report *report, const char *name, const struct histogram *histogram)
{
    report_text(report, "case", name);
    report_latency(report, histogram, 1);
    report_row(report);
}

/* connect_measure -- connections one after the other. */
static int connect_measure(struct connect *c, const char *address, struct report *report)
{
    static struct histogram stands, proved;
    const struct stint warmup = stint_warmup(c->settings);
    int status = 0;

    histogram_clear(&stands);
    histogram_clear(&proved);
    for (uint64_t i = 0; status == 0 && stint_goes_on(&warmup, i, 1); i++)
        status = connect_once(c, address, NULL, NULL);
    const struct stint stint = stint_measured(c->settings);
    for (uint64_t i = 0; status == 0 && stint_goes_on(&stint, i, 1); i++)
        status = connect_once(c, address, &stands, &proved);
    if (status != 0)
        return wire_fail(&c->wire, status, "connecting");
    trial_place(report, c->wire.transport->name, c->wire.fabric->device, NULL);
    connect_row(report, "it stands", &stands);
    connect_row(report, "both ends are proved", &proved);
    return 0;
}

/* connect_run -- see the top. */
static enum test_end connect_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static const struct report_column what = {"case", "from the call until", 0, 0};
    static struct connect c;
    char address[WIRE_TEXT];

    if (trial_serves(s)) {
        snprintf(text, bytes, "%s", TRIAL_HERE);
        return TEST_REFUSED;
    }
    c = (struct connect){.settings = s, .secret.bytes = 32};
    proof_random(c.secret.data, c.secret.bytes);
    pid_t server = child_new(connect_live, &c, address, sizeof(address));
    if (server < 0) {
        snprintf(text, bytes, "%s", address);
        return TEST_REQUEUE;
    }
    c.hello = connect_hello(STEPGATE_ROLE_WORKER);
    report_columns(report, &what, 1);
    report_columns(report, report_latency_columns, report_latency_column_count);
    int status = wire_open(&c.wire, s, 2) == 0 && wire_bind(&c.wire, s, 0) == 0
                     ? connect_measure(&c, address, report)
                     : -1;
    snprintf(text, bytes, "%s", c.wire.text);
    wire_free(&c.wire);
    kill(server, SIGKILL);
    (void)child_end(&server);
    if (status == 0)
        report_note(report, "one after the other, with hello, nonces and proofs as between worker and ps");
    return status == 0 ? TEST_OK : TEST_REQUEUE;
}

/* connect_defaults -- a device takes its time. */
static void connect_defaults(struct settings *s)
{
    trial_defaults(s);
    s->iterations = 100;
    s->warmup = 3;
}

const struct perf_test test_connect = {
    .name = "connect",
    .purpose = "from the call to a connection that stands, and is authenticated",
    .takes = SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) |
             SETTINGS_BIT(SETTINGS_DEVICE) | SETTINGS_BIT(SETTINGS_BIND) | SETTINGS_BIT(SETTINGS_ITERATIONS) |
             SETTINGS_BIT(SETTINGS_DURATION) | SETTINGS_BIT(SETTINGS_WARMUP),
    .reads =
        "Until it stands: the transport alone. Until both ends are proved: each has shown the other that it "
        "knows the secret of the job.",
    .defaults = connect_defaults,
    .run = connect_run,
};
