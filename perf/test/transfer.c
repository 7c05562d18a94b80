/* SPDX-License-Identifier: BSD-3-Clause */
/* write_lat, read_lat, notify_lat, write_bw, read_bw -- what the transport moves, through the contract alone, without what stepgate does with it. */
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/test/table.h"
#include "perf/test/transfer.h"

#define TRANSFER_SEED 7
#define TRANSFER_CONNECTIONS                                                                                 \
    "With -q the connections between the two processes take turns; each has -t operations under way, and "   \
    "iterations and bytes are those of\n"                                                                    \
    "all together.\n"

/* transfer_bw_defaults -- see transfer.h. */
void transfer_bw_defaults(struct settings *s)
{
    trial_defaults(s);
    s->size = (struct settings_list){{65536}, 1};
    s->iterations = 5000;
    s->warmup = 100;
    s->cq_moderation = 16;
    s->qps = 1;
}

/* transfer_ping -- see transfer.h. */
int transfer_ping(struct trial *t, const struct stint *stint, bool measured)
{
    struct wire *wire = &t->wire;
    struct wire_order order = {.what = WIRE_PING, .size = t->size};
    volatile uint8_t *last = wire_inbound(wire) + t->size - 1;

    *last = 0;
    if (wire_ask(wire, &order) != 0)
        return -1;
    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now();
        wire_outbound(wire)[t->size - 1] = (uint8_t)(i % 255 + 1);
        if (wire_write(wire, 0, t->size, i % 16 == 15 ? STEPGATE_POST_COMPLETE : 0) != 0)
            return -1;
        for (unsigned looks = 0; *last != (uint8_t)(i % 255 + 1); looks++)
            if (looks % 64 == 63 && wire_progress(wire) < 0)
                return -1;
        if (measured)
            histogram_add(&t->histogram, perf_clock_now() - begin);
    }
    return 0;
}

/* transfer_notify -- one notify each way. */
static int transfer_notify(struct trial *t, const struct stint *stint, bool measured)
{
    struct wire *wire = &t->wire;
    struct wire_order order = {.what = WIRE_NOTIFY};

    if (wire_ask(wire, &order) != 0)
        return -1;
    uint64_t from = wire->notifies;
    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now();
        if (wire_notify(wire, (uint32_t)i) != 0)
            return -1;
        while (wire->notifies <= from + i)
            if (wire_progress(wire) < 0)
                return -1;
        if (measured)
            histogram_add(&t->histogram, perf_clock_now() - begin);
    }
    return 0;
}

/* transfer_fetch -- one read at a time. */
static int transfer_fetch(struct trial *t, const struct stint *stint, bool measured)
{
    struct wire *wire = &t->wire;

    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now(), before = wire->completed;
        if (wire_read(wire, 0, t->size, 0) != 0)
            return -1;
        while (wire->completed == before)
            if (wire_progress(wire) < 0)
                return -1;
        if (measured)
            histogram_add(&t->histogram, perf_clock_now() - begin);
    }
    return 0;
}

/* What a flow is made of. */
struct transfer_flow {
    struct trial *trial;
    uint64_t each; /* operations to a completion */
    bool measured, write;
};

/* transfer_each -- operations to a completion: no more than are under way at once, or none would ever come. A read has one always. */
static uint64_t transfer_each(const struct settings *s, bool write)
{
    uint64_t each = write ? s->cq_moderation : 1;

    return each < s->depth ? each : s->depth;
}

/* transfer_lost -- one of the connections failed: its text is the trial's. */
static int transfer_lost(struct trial *t, const struct wire *wire)
{
    return wire_wrong(&t->wire, wire->text);
}

/* transfer_count -- a connection's completions that came since the last look are bytes moved; every each'th write has one. */
static void transfer_count(const struct transfer_flow *flow, struct wire *wire)
{
    struct trial *t = flow->trial;
    uint64_t fresh = wire->completed - wire->seen;

    if (fresh == 0 || !flow->measured)
        return;
    wire->seen = wire->completed;
    window_add(&t->window, perf_clock_now(), fresh * flow->each * t->size);
}

/* transfer_post -- operation `number` of a connection, from 0, once its window has room. */
static int transfer_post(const struct transfer_flow *flow, struct wire *wire, uint64_t number)
{
    const struct trial *t = flow->trial;
    unsigned more = (number + 1) % t->settings->post_list != 0 ? STEPGATE_POST_MORE : 0;
    unsigned last = (number + 1) % flow->each == 0 ? STEPGATE_POST_COMPLETE : 0;

    while (number - (wire->completed - wire->first) * flow->each >= t->settings->depth)
        if (wire_progress(wire) < 0)
            return transfer_lost(flow->trial, wire);
    int status = flow->write ? wire_write(wire, 0, t->size, last | more) : wire_read(wire, 0, t->size, more);
    if (status != 0)
        return transfer_lost(flow->trial, wire);
    transfer_count(flow, wire);
    return 0;
}

/* transfer_drain -- until all `posted` operations are done. A poll posts what was held back. */
static int transfer_drain(const struct transfer_flow *flow, uint64_t posted)
{
    struct trial *t = flow->trial;

    for (;;) {
        t->completions = 0;
        for (uint32_t c = 0; c < wire_count(&t->wire); c++) {
            struct wire *wire = wire_at(&t->wire, c);
            transfer_count(flow, wire);
            t->completions += wire->completed - wire->first;
        }
        if (t->completions * flow->each >= posted)
            return 0;
        if (wire_progress(&t->wire) < 0)
            return -1;
    }
}

/* transfer_confirm -- every connection's answer comes behind its last byte; all are asked before the first one is waited for. */
static int transfer_confirm(struct trial *t)
{
    const struct wire_order order = {.what = WIRE_IDLE};

    for (uint32_t c = 0; c < wire_count(&t->wire); c++) {
        struct wire *wire = wire_at(&t->wire, c);
        wire->heard = false;
        if (wire_tell(wire, &order) != 0)
            return transfer_lost(t, wire);
    }
    for (uint32_t c = 0; c < wire_count(&t->wire); c++) {
        struct wire *wire = wire_at(&t->wire, c);
        if (wire_await(wire, &wire->heard, "the server does not answer") != 0)
            return transfer_lost(t, wire);
    }
    return 0;
}

/* transfer_flow -- `depth` operations under way on each connection, which take turns, until all are done; the last writes' arrival is confirmed by the peer. */
static int transfer_flow(struct trial *t, const struct stint *stint, bool measured, bool write)
{
    const struct transfer_flow flow = {t, transfer_each(t->settings, write), measured, write};
    uint32_t connections = wire_count(&t->wire), turn = 0;
    uint64_t i = 0, rounds = 0;

    for (uint32_t c = 0; c < connections; c++) {
        struct wire *wire = wire_at(&t->wire, c);
        wire->first = wire->seen = wire->completed;
    }
    window_begin(&t->window, perf_clock_now());
    for (; stint_goes_on(stint, i, flow.each * connections); i++) {
        if (transfer_post(&flow, wire_at(&t->wire, turn), rounds) != 0)
            return -1;
        if (++turn == connections) {
            turn = 0;
            rounds++;
        }
    }
    if (transfer_drain(&flow, i) != 0 || (write && transfer_confirm(t) != 0))
        return -1;
    if (measured)
        window_add(&t->window, perf_clock_now(), 0);
    t->iterations = i;
    return 0;
}

/* transfer_write_flow -- see transfer.h. */
int transfer_write_flow(struct trial *t, const struct stint *stint, bool measured)
{
    return transfer_flow(t, stint, measured, true);
}

/* transfer_read_flow -- see transfer.h. */
int transfer_read_flow(struct trial *t, const struct stint *stint, bool measured)
{
    return transfer_flow(t, stint, measured, false);
}

/* transfer_verify_one -- a last message, whole, at the other end of a write or at this end of a read. 0, 1: its bytes are wrong, or -1. */
static int transfer_verify_one(struct wire *wire, uint64_t size, uint64_t seed, bool read)
{
    struct wire_order order = {.what = read ? WIRE_FILL : WIRE_CHECK, .size = size, .seed = seed};
    uint64_t before = wire->completed;

    if (read) {
        memset(wire_outbound(wire), 0, size);
        if (wire_ask(wire, &order) != 0 || wire_read(wire, 0, size, 0) != 0)
            return -1;
        while (wire->completed == before)
            if (wire_progress(wire) < 0)
                return -1;
        return wire_holds(wire_outbound(wire), size, seed) ? 0 : 1;
    }
    wire_fill(wire_outbound(wire), size, seed);
    if (wire_write(wire, 0, size, 0) != 0 || wire_ask(wire, &order) != 0)
        return -1;
    return order.good != 0 ? 0 : 1;
}

/* transfer_verify -- see transfer.h; over every connection, with bytes of its own. */
int transfer_verify(struct trial *t, bool read)
{
    int status = 0;

    for (uint32_t c = 0; status == 0 && c < wire_count(&t->wire); c++) {
        struct wire *wire = wire_at(&t->wire, c);
        status = transfer_verify_one(wire, t->size, TRANSFER_SEED + t->size + ((uint64_t)c << 32), read);
        if (status < 0)
            (void)transfer_lost(t, wire);
    }
    return status;
}

struct transfer_kind {
    trial_loop loop;
    bool bandwidth, read, notify;
    double share; /* of a round trip that is told */
};

/* transfer_row -- what was measured. */
static void transfer_row(struct trial *t, const struct transfer_kind *kind)
{
    if (!kind->notify)
        report_number(t->report, "size_bytes", (double)t->size);
    if (kind->bandwidth) {
        report_number(t->report, "connections_count", (double)wire_count(&t->wire));
        report_number(t->report, "iterations", (double)t->iterations);
        report_bandwidth(t->report, &t->window, t->size);
        report_number(t->report, "completions_count", (double)t->completions);
    } else {
        report_latency(t->report, &t->histogram, kind->share);
    }
    trial_cpu(t);
    report_row(t->report);
}

/* transfer_case -- one size. */
static enum test_end transfer_case(struct trial *t, const struct transfer_kind *kind)
{
    int good = trial_measure(t, kind->loop);

    if (good == 0 && !kind->notify)
        good = transfer_verify(t, kind->read);
    if (good < 0)
        return trial_lost(t);
    if (good > 0) {
        snprintf(t->text, t->bytes, "the bytes of the last message of %llu are wrong",
                 (unsigned long long)t->size);
        return TEST_FAILED;
    }
    transfer_row(t, kind);
    return TEST_OK;
}

/* transfer_columns -- of a kind. */
static void transfer_columns(struct report *report, const struct transfer_kind *kind)
{
    static const struct report_column size = {"size_bytes", "bytes", 1, 0},
                                      connections = {"connections_count", "conns", 1, 0},
                                      iterations = {"iterations", "iters", 1, 0},
                                      completions = {"completions_count", "completions", 1, 0};

    if (!kind->notify)
        report_columns(report, &size, 1);
    if (kind->bandwidth) {
        report_columns(report, &connections, 1);
        report_columns(report, &iterations, 1);
        report_columns(report, report_bandwidth_columns, report_bandwidth_column_count);
        report_columns(report, &completions, 1);
    } else {
        report_columns(report, report_latency_columns, report_latency_column_count);
    }
    report_columns(report, &trial_cpu_column, 1);
}

/* transfer_cases -- every size. */
static enum test_end transfer_cases(struct trial *t, const void *what)
{
    const struct transfer_kind *kind = what;
    const struct settings_list sizes = settings_sizes(t->settings);
    enum test_end end = TEST_OK;

    transfer_columns(t->report, kind);
    for (size_t i = 0; end == TEST_OK && i < (kind->notify ? 1 : sizes.count); i++) {
        t->size = sizes.value[i];
        end = transfer_case(t, kind);
    }
    if (end == TEST_OK)
        report_note(t->report, "%s%s",
                    kind->bandwidth    ? "until the peer has confirmed the last byte"
                    : kind->share == 1 ? "round trips"
                                       : "half of round trips",
                    kind->notify ? "" : ", data verified");
    return end;
}

#define TRANSFER_KIND(name, ...)                                                                             \
    static enum test_end name##_run(const struct settings *s, struct report *report, char *text,             \
                                    size_t bytes)                                                            \
    {                                                                                                        \
        static const struct transfer_kind kind = __VA_ARGS__;                                                \
        return trial_run(s, trial_largest(s), transfer_cases, &kind, report, text, bytes);                   \
    }
TRANSFER_KIND(write_lat, {transfer_ping, false, false, false, 0.5})
TRANSFER_KIND(notify_lat, {transfer_notify, false, false, true, 0.5})
TRANSFER_KIND(read_lat, {transfer_fetch, false, true, false, 1})
TRANSFER_KIND(write_bw, {transfer_write_flow, true, false, false, 1})
TRANSFER_KIND(read_bw, {transfer_read_flow, true, true, false, 1})

const struct perf_test test_write_lat = {.name = "write_lat",
                                         .purpose =
                                             "one-sided write, seen by its last byte: half of a round trip",
                                         .takes = TRIAL_TAKES | TRIAL_SIZES | SETTINGS_BIT(SETTINGS_INLINE),
                                         .takes_server = true,
                                         .reads = TRIAL_WHERE,
                                         .defaults = trial_defaults,
                                         .run = write_lat_run};
const struct perf_test test_notify_lat = {.name = "notify_lat",
                                          .purpose = "notify, seen as an event: half of a round trip",
                                          .takes = TRIAL_TAKES,
                                          .takes_server = true,
                                          .reads = TRIAL_WHERE,
                                          .defaults = trial_defaults,
                                          .run = notify_lat_run};
const struct perf_test test_read_lat = {.name = "read_lat",
                                        .purpose =
                                            "one-sided read, one at a time: from the post to the completion",
                                        .takes = TRIAL_TAKES | TRIAL_SIZES,
                                        .takes_server = true,
                                        .reads = TRIAL_WHERE,
                                        .defaults = trial_defaults,
                                        .run = read_lat_run};
const struct perf_test test_write_bw = {
    .name = "write_bw",
    .purpose = "one-sided writes, many under way, until the peer has confirmed the last byte",
    .takes = TRIAL_TAKES | TRIAL_SIZES | SETTINGS_BIT(SETTINGS_DEPTH) | SETTINGS_BIT(SETTINGS_POST_LIST) |
             SETTINGS_BIT(SETTINGS_CQ_MODERATION) | SETTINGS_BIT(SETTINGS_INLINE) |
             SETTINGS_BIT(SETTINGS_QPS),
    .takes_server = true,
    .reads = TRANSFER_CONNECTIONS TRIAL_WHERE,
    .defaults = transfer_bw_defaults,
    .run = write_bw_run};
const struct perf_test test_read_bw = {.name = "read_bw",
                                       .purpose = "one-sided reads, many under way",
                                       .takes = TRIAL_TAKES | TRIAL_SIZES | SETTINGS_BIT(SETTINGS_DEPTH) |
                                                SETTINGS_BIT(SETTINGS_POST_LIST) | SETTINGS_BIT(SETTINGS_QPS),
                                       .takes_server = true,
                                       .reads = TRANSFER_CONNECTIONS TRIAL_WHERE,
                                       .defaults = transfer_bw_defaults,
                                       .run = read_bw_run};
