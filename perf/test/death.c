/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_death -- a peer's process is killed: how long until the transport says so. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/child.h"
#include "perf/clock.h"
#include "perf/test/table.h"
#include "perf/trial.h"

#define DEATH_PATIENCE_NS UINT64_C(60000000000)
#define DEATH_BYTES 65536

/* death_defaults -- each iteration makes a process and a connection. */
static void death_defaults(struct settings *s)
{
    trial_defaults(s);
    s->depth = 16;
    s->iterations = 20;
}

/* death_busy -- some writes are under way: the peer's end is in the middle of them. 0, or -1: the news is there. */
static int death_busy(struct wire *wire, uint64_t depth, uint64_t *posted)
{
    if (*posted - wire->completed >= depth)
        return 0;
    ++*posted;
    return wire_write(wire, 0, DEATH_BYTES, STEPGATE_POST_COMPLETE);
}

/* death_await -- nanoseconds from the kill to the news; 0: none came. */
static uint64_t death_await(struct wire *wire, const struct settings *s, bool busy)
{
    uint64_t posted = wire->completed, begin = perf_clock_now();

    kill(wire->peer, SIGKILL);
    for (;;) {
        if ((busy && death_busy(wire, s->depth, &posted) != 0) || wire_progress(wire) < 0)
            return perf_clock_now() - begin;
        if (perf_clock_now() - begin > DEATH_PATIENCE_NS)
            return 0;
        sched_yield(); /* the system may need this processor to clean up behind the process */
    }
}

struct death {
    const struct settings *settings;
    bool busy;
};

/* death_live -- a process that connects, kills its peer, and tells how long it took and over which device: no process that has opened a device
 * makes others. */
static void death_live(void *context, int pipe)
{
    static struct wire wire;
    const struct death *death = context;
    char line[1 + WIRE_TEXT];

    if (wire_client(&wire, death->settings, DEATH_BYTES) != 0) {
        snprintf(line, sizeof(line), "!%s", wire.text);
    } else {
        for (uint64_t i = 0; death->busy && i < death->settings->depth; i++)
            (void)wire_write(&wire, 0, DEATH_BYTES, STEPGATE_POST_COMPLETE);
        snprintf(line, sizeof(line), "%llu %s",
                 (unsigned long long)death_await(&wire, death->settings, death->busy), wire.can.device);
        (void)wire_close(&wire); /* its status is that of a process that was killed */
    }
    ssize_t ignored = write(pipe, line, strlen(line));
    (void)ignored;
    _exit(0);
}

/* death_once -- one peer. */
static enum test_end death_once(const struct death *death, struct histogram *histogram, struct report *report,
                                char *text, size_t bytes)
{
    char line[WIRE_TEXT], *end;
    pid_t child = child_new(death_live, (void *)death, line, sizeof(line));

    if (child < 0) {
        snprintf(text, bytes, "%s", line);
        return TEST_REQUEUE;
    }
    (void)child_end(&child);
    uint64_t took = strtoull(line, &end, 10);
    if (took == 0) {
        snprintf(text, bytes, "a peer that was killed is not reported within a minute");
        return TEST_FAILED;
    }
    trial_place(report, death->settings->transport, end + strspn(end, " "), NULL);
    histogram_add(histogram, took);
    return TEST_OK;
}

/* death_case -- idle or busy. */
static enum test_end death_case(const struct death *death, struct report *report, char *text, size_t bytes)
{
    static struct histogram histogram;
    const struct stint stint = stint_measured(death->settings);
    enum test_end end = TEST_OK;

    histogram_clear(&histogram);
    for (uint64_t i = 0; end == TEST_OK && stint_goes_on(&stint, i, 1); i++)
        end = death_once(death, &histogram, report, text, bytes);
    if (end != TEST_OK)
        return end;
    report_text(report, "case", death->busy ? "writes under way" : "idle");
    report_latency(report, &histogram, 1);
    report_row(report);
    return TEST_OK;
}

/* death_run -- both. */
static enum test_end death_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static const struct report_column what = {"case", "connection", 0, 0};

    if (trial_serves(s)) {
        snprintf(text, bytes, "%s", TRIAL_HERE);
        return TEST_REFUSED;
    }
    report_columns(report, &what, 1);
    report_columns(report, report_latency_columns, report_latency_column_count);
    enum test_end end = death_case(&(struct death){s, false}, report, text, bytes);
    if (end == TEST_OK)
        end = death_case(&(struct death){s, true}, report, text, bytes);
    if (end == TEST_OK)
        report_note(report,
                    "from kill -9 of the peer's process to a failed operation or the end of the connection");
    return end;
}

const struct perf_test test_peer_death = {
    .name = "peer_death",
    .purpose = "a peer's process is killed: how long until the transport says so",
    .takes = SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) |
             SETTINGS_BIT(SETTINGS_DEVICE) | SETTINGS_BIT(SETTINGS_BIND) | SETTINGS_BIT(SETTINGS_DEPTH) |
             SETTINGS_BIT(SETTINGS_ITERATIONS) | SETTINGS_BIT(SETTINGS_DURATION),
    .reads =
        "Each iteration makes a process, connects and kills it. A host that is gone says nothing: that is "
        "for the time-outs of the device and\n"
        "for --liveness. --tx-depth: writes of 64 KiB under way in the second case.",
    .defaults = death_defaults,
    .run = death_run,
};
