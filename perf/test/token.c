/* SPDX-License-Identifier: BSD-3-Clause */
/* token_rtt -- one small word each way as a worker and its ps exchange them, beside two cache lines that the same processes hand to each other. */
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/lane.h"
#include "perf/test/table.h"
#include "perf/trial.h"
#include "transport/place/cpus.h"

#define TOKEN_GOAL 2.0
#define TOKEN_TURNS 20 /* of the wire and of the lines: the machine's moods meet both */

static const struct report_column token_columns[] = {
    {"case", "there / back", 0, 0}, {"pingpong_ns", "lines us", 1e3, 3}, {"ratio", "ratio", 1, 2},
    {"goal", "goal", 1, 2},         {"verdict", "verdict", 0, 0},
};

struct token_kind {
    const char *name;
    uint32_t order;
    int (*exchange)(struct wire *wire, uint64_t i);
};

/* token_notify -- a notify there, a notify back. */
static int token_notify(struct wire *wire, uint64_t i)
{
    uint64_t from = wire->notifies;

    if (wire_notify(wire, (uint32_t)i) != 0)
        return -1;
    while (wire->notifies == from)
        if (wire_progress(wire) < 0)
            return -1;
    return 0;
}

/* token_full -- header and notify there, a token back. */
static int token_full(struct wire *wire, uint64_t i)
{
    return lane_header(wire, i, 0) == 0 ? lane_token(wire, i) : -1;
}

static const struct token_kind token_kinds[] = {
    {"notify / notify", WIRE_NOTIFY, token_notify},
    {"header+notify / token", WIRE_TOKEN, token_full},
};

/* token_turn -- some round trips of a kind. */
static int token_turn(struct trial *t, const struct token_kind *kind, const struct stint *stint,
                      struct histogram *histogram)
{
    struct wire_order order = {.what = kind->order};

    if (wire_ask(&t->wire, &order) != 0)
        return -1;
    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now();
        if (kind->exchange(&t->wire, i) != 0)
            return -1;
        if (histogram != NULL)
            histogram_add(histogram, perf_clock_now() - begin);
    }
    return 0;
}

/* token_lines -- as many of the lines. */
static int token_lines(struct trial *t, uint64_t iterations, struct histogram *histogram)
{
    struct wire_order order = {.what = WIRE_LINES}, idle = {.what = WIRE_IDLE};

    if (wire_ask(&t->wire, &order) != 0)
        return -1;
    lines_ping(t->wire.lines, iterations, histogram);
    lines_stop(t->wire.lines);
    return wire_ask(&t->wire, &idle);
}

/* token_measure -- the kind and the lines in turns. */
static int token_measure(struct trial *t, const struct token_kind *kind, bool beside, struct histogram *lines)
{
    const struct stint warmup = stint_warmup(t->settings);

    histogram_clear(&t->histogram);
    histogram_clear(lines);
    if (token_turn(t, kind, &warmup, NULL) != 0)
        return -1;
    for (int turn = 0; turn < TOKEN_TURNS; turn++) {
        struct settings part = *t->settings;
        part.iterations = (part.iterations + TOKEN_TURNS - 1) / TOKEN_TURNS;
        part.duration /= TOKEN_TURNS;
        const struct stint stint = stint_measured(&part);
        uint64_t before = t->histogram.count;
        if (token_turn(t, kind, &stint, &t->histogram) != 0 ||
            (beside && token_lines(t, t->histogram.count - before, lines) != 0))
            return -1;
    }
    return 0;
}

/* token_row -- one kind; *missed is set if its goal is. */
static void token_row(struct trial *t, const struct token_kind *kind, const struct histogram *lines,
                      bool *missed)
{
    double median = histogram_percentile(&t->histogram, 0.5), least = histogram_percentile(lines, 0.5);

    report_text(t->report, "case", kind->name);
    report_latency(t->report, &t->histogram, 1);
    if (lines->count > 0) {
        report_number(t->report, "pingpong_ns", least);
        report_number(t->report, "ratio", median / least);
        report_number(t->report, "goal", TOKEN_GOAL);
        report_text(t->report, "verdict", median / least <= TOKEN_GOAL ? "reached" : "missed");
        *missed = *missed || median / least > TOKEN_GOAL;
    }
    report_row(t->report);
}

/* token_cases -- both kinds. */
static enum test_end token_cases(struct trial *t, const void *unused)
{
    static struct histogram lines;
    bool beside = strcmp(t->wire.transport->name, "shm") == 0 && t->wire.lines != NULL, missed = false;

    (void)unused;
    report_columns(t->report, token_columns, 1);
    report_columns(t->report, report_latency_columns, report_latency_column_count);
    report_columns(t->report, token_columns + 1, beside ? 4 : 0);
    t->wire.takes_messages = true;
    for (size_t i = 0; i < sizeof(token_kinds) / sizeof(token_kinds[0]); i++) {
        if (token_measure(t, &token_kinds[i], beside, &lines) != 0)
            return trial_lost(t);
        token_row(t, &token_kinds[i], &lines, &missed);
    }
    report_note(t->report, "round trips%s", beside ? "; lines: the same processes, in turns" : "");
    if (!missed)
        return TEST_OK;
    snprintf(t->text, t->bytes, "a round trip takes more than %g times that of two cache lines", TOKEN_GOAL);
    return TEST_FAILED;
}

/* token_run -- both ends spin: without a processor for each, the scheduler would be measured. */
static enum test_end token_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    if (cpus_allowed() < 2 && s->server == NULL && (strcmp(s->transport, "shm") == 0 || s->address != NULL)) {
        snprintf(text, bytes, "two processes that spin need 2 processors, and this one may use 1");
        return TEST_REFUSED;
    }
    return trial_run(s, LANE_ARENA, token_cases, NULL, report, text, bytes);
}

const struct perf_test test_token_rtt = {
    .name = "token_rtt",
    .purpose = "round trip of a word, as worker and ps exchange them",
    .takes = TRIAL_TAKES,
    .takes_server = true,
    .reads =
        "notify / notify: a contribution is there, parameters may be read. header+notify / token: what a "
        "lane needs of a contribution, and\n"
        "what lets a worker into its next step, packed and unpacked. lines, over shm: two cache lines that "
        "the same processes write in turn;\n"
        "ratio: of the medians; goal: the ratio is not to be more, or the exit status is 1.\n" TRIAL_WHERE,
    .defaults = trial_defaults,
    .run = token_run,
};
