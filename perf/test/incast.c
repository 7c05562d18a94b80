/* SPDX-License-Identifier: BSD-3-Clause */
/* incast -- many workers push into the slots of one server at once: what they get together, and how evenly. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/child.h"
#include "perf/clock.h"
#include "perf/hub.h"
#include "perf/lane.h"
#include "perf/test/table.h"
#include "perf/trial.h"
#include "transport/place/cpus.h"

#define INCAST_WORKERS_MAX 64
#define INCAST_PATIENCE_NS UINT64_C(60000000000) /* for everybody to be there */

static const struct report_column incast_columns[] = {
    {"workers_count", "workers", 1, 0},
    {"size_bytes", "bytes", 1, 0},
    {"bw_bytes_per_s", "total GB/s", 1e9, 3},
    {"worker_bw_bytes_per_s_min", "least/w", 1e9, 3},
    {"worker_bw_bytes_per_s_mean", "mean/w", 1e9, 3},
    {"worker_bw_bytes_per_s_max", "most/w", 1e9, 3},
    {"fairness", "least/most", 1, 3},
};

/* One worker's part of what all share. */
struct incast_seat {
    uint64_t begin, end, bytes;
    struct histogram histogram;
    char text[WIRE_TEXT]; /* its error; "": none */
};

/* In memory that the workers share with the server. Each word is stored with release and loaded with acquire by the other side. */
struct incast_board {
    _Atomic uint32_t ready;           /* workers that are warm */
    _Atomic uint32_t go;              /* all are: 1 begin, 2 give up */
    _Atomic uint32_t failed;          /* workers that are not coming */
    char device[64], text[WIRE_TEXT]; /* of the server; its error, "": none */
    struct incast_seat seat[INCAST_WORKERS_MAX];
};

/* What every process of a case knows; rank is a worker's own. */
struct incast {
    const struct settings *settings;
    struct incast_board *board;
    char address[WIRE_TEXT]; /* of the server */
    uint64_t size;
    uint32_t workers, rank;
    bool yields;
};

/* incast_wait -- until a word of the board is not 0. */
static uint32_t incast_wait(const _Atomic uint32_t *word)
{
    uint32_t value;

    while ((value = atomic_load_explicit(word, memory_order_acquire)) == 0)
        sched_yield();
    return value;
}

/* incast_push -- one contribution after the other. */
static int incast_push(const struct incast *w, struct wire *wire, const struct stint *stint,
                       uint64_t *sequence, bool measured)
{
    struct incast_seat *seat = &w->board->seat[w->rank];

    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now();
        if (lane_push(wire, (*sequence)++, w->size) != 0)
            return -1;
        seat->end = perf_clock_now();
        if (!measured)
            continue;
        histogram_add(&seat->histogram, seat->end - begin);
        seat->bytes += w->size;
    }
    return 0;
}

/* incast_verify -- are the bytes of the last contribution in the slot? */
static int incast_verify(const struct incast *w, struct wire *wire)
{
    struct wire_order check = {
        .what = WIRE_CHECK, .offset = LANE_ARENA, .size = w->size, .seed = w->rank + 1};

    if (wire_ask(wire, &check) != 0)
        return -1;
    return check.good != 0 ? 0 : wire_wrong(wire, "the bytes of the last contribution are wrong");
}

/* incast_work -- a worker over its wire. */
static int incast_work(const struct incast *w, struct wire *wire)
{
    struct incast_seat *seat = &w->board->seat[w->rank];
    const struct stint warmup = stint_warmup(w->settings);
    uint64_t sequence = 0;

    wire->yields = w->yields;
    wire_fill(wire_outbound(wire) + LANE_ARENA, w->size, w->rank + 1);
    if (incast_push(w, wire, &warmup, &sequence, false) != 0)
        return -1;
    atomic_fetch_add_explicit(&w->board->ready, 1, memory_order_release);
    if (incast_wait(&w->board->go) != 1)
        return wire_wrong(wire, "the server has given up");
    seat->begin = perf_clock_now();
    const struct stint measured = stint_measured(w->settings);
    if (incast_push(w, wire, &measured, &sequence, true) != 0)
        return -1;
    return incast_verify(w, wire);
}

/* incast_live -- a worker's process. */
static void incast_live(void *context, int pipe)
{
    static struct wire wire;
    const struct incast *w = context;
    struct settings own = *w->settings;

    close(pipe);
    own.server = w->address;
    int status = wire_client(&wire, &own, LANE_ARENA + w->size);
    if (status == 0) {
        status = incast_work(w, &wire);
        snprintf(w->board->seat[w->rank].text, WIRE_TEXT, "%s", status == 0 ? "" : wire.text);
        (void)wire_close(&wire);
    } else {
        snprintf(w->board->seat[w->rank].text, WIRE_TEXT, "%s", wire.text);
    }
    if (status != 0)
        atomic_fetch_add_explicit(&w->board->failed, 1, memory_order_release);
    _exit(status == 0 ? 0 : 1);
}

/* incast_serve -- until all workers have left; they begin together. 0 or -1 with `text` in the hub's wire. */
static int incast_serve(const struct incast *w, struct hub *hub)
{
    uint64_t begin = perf_clock_now();
    bool begun = false;

    while (hub->gone < w->workers) {
        if (hub_progress(hub) != 0)
            return -1;
        if (atomic_load_explicit(&w->board->failed, memory_order_acquire) > 0)
            return wire_wrong(&hub->wire, "a worker failed");
        if (begun)
            continue;
        begun = atomic_load_explicit(&w->board->ready, memory_order_acquire) == w->workers;
        if (begun)
            atomic_store_explicit(&w->board->go, 1, memory_order_release);
        else if (perf_clock_now() - begin > INCAST_PATIENCE_NS)
            return wire_wrong(&hub->wire, "not all workers came");
    }
    return 0;
}

/* incast_host -- the server's process: its address goes through the pipe, an error, too, behind a `!`. No process that has opened a device makes others. */
static void incast_host(void *context, int pipe)
{
    static struct hub hub;
    const struct incast *w = context;
    char line[1 + WIRE_TEXT] = "";

    hub.wire.yields = w->yields;
    int status = hub_new(&hub, w->settings, w->workers, line, STEPGATE_ADDRESS_BYTES);
    if (status != 0)
        snprintf(line, sizeof(line), "!%s", hub.wire.text);
    else
        snprintf(w->board->device, sizeof(w->board->device), "%s", hub.wire.fabric->device);
    if (write(pipe, line, strlen(line)) < 0)
        status = -1;
    close(pipe);
    if (status == 0 && (status = incast_serve(w, &hub)) != 0) {
        snprintf(w->board->text, sizeof(w->board->text), "%s", hub.wire.text);
        atomic_store_explicit(&w->board->go, 2, memory_order_release);
    }
    hub_free(&hub);
    _exit(status == 0 ? 0 : 1);
}

/* incast_row -- what the seats hold. */
static void incast_row(const struct incast_board *board, uint32_t workers, uint64_t size,
                       struct report *report)
{
    static struct histogram all;
    uint64_t begin = UINT64_MAX, end = 0, bytes = 0;
    double least = 0, most = 0, sum = 0;

    histogram_clear(&all);
    for (uint32_t i = 0; i < workers; i++) {
        const struct incast_seat *seat = &board->seat[i];
        double rate = (double)seat->bytes * 1e9 / (double)(seat->end - seat->begin);
        begin = seat->begin < begin ? seat->begin : begin;
        end = seat->end > end ? seat->end : end;
        bytes += seat->bytes;
        least = i == 0 || rate < least ? rate : least;
        most = rate > most ? rate : most;
        sum += rate;
        histogram_merge(&all, &seat->histogram);
    }
    report_number(report, "workers_count", workers);
    report_number(report, "size_bytes", (double)size);
    report_number(report, "bw_bytes_per_s", (double)bytes * 1e9 / (double)(end - begin));
    report_number(report, "worker_bw_bytes_per_s_min", least);
    report_number(report, "worker_bw_bytes_per_s_mean", sum / workers);
    report_number(report, "worker_bw_bytes_per_s_max", most);
    report_number(report, "fairness", least / most);
    report_latency(report, &all, 1);
    report_row(report);
}

/* incast_start -- the server's process, child[0], and those of the workers. 0, or -1 with one line in `text`. */
static int incast_start(struct incast *w, pid_t *child, char *text, size_t bytes)
{
    char line[WIRE_TEXT];

    child[0] = child_new(incast_host, w, w->address, sizeof(w->address));
    if (child[0] < 0) {
        snprintf(text, bytes, "%s", w->address);
        return -1;
    }
    for (w->rank = 0; w->rank < w->workers; w->rank++) {
        histogram_clear(&w->board->seat[w->rank].histogram);
        child[1 + w->rank] = child_new(incast_live, w, line, sizeof(line));
        if (child[1 + w->rank] < 0) {
            snprintf(text, bytes, "%s", line);
            atomic_fetch_add_explicit(&w->board->failed, 1, memory_order_release);
            return -1;
        }
    }
    return 0;
}

/* incast_end -- everybody has ended. 0, or -1 with one line in `text`: the first worker's that has one, else the server's. */
static int incast_end(const struct incast *w, pid_t *child, char *text, size_t bytes)
{
    int status = 0;

    for (uint32_t i = 0; i <= w->workers; i++)
        status |= child_wait(&child[i]);
    for (uint32_t i = 0; i < w->workers && text[0] == '\0'; i++)
        if (w->board->seat[i].text[0] != '\0')
            snprintf(text, bytes, "worker %u: %s", i, w->board->seat[i].text);
    if (text[0] == '\0' && status != 0)
        snprintf(text, bytes, "%s", w->board->text[0] != '\0' ? w->board->text : "a process died");
    return status == 0 ? 0 : -1;
}

/* incast_case -- so many workers, a size. */
static enum test_end incast_case(struct incast *w, struct report *report, char *text, size_t bytes)
{
    pid_t child[1 + INCAST_WORKERS_MAX] = {0};

    memset(w->board, 0, sizeof(*w->board));
    int status = incast_start(w, child, text, bytes);
    if (incast_end(w, child, text, bytes) != 0 || status != 0)
        return TEST_REQUEUE;
    trial_place(report, w->settings->transport, w->board->device, NULL);
    incast_row(w->board, w->workers, w->size, report);
    return TEST_OK;
}

/* incast_refused -- can it be measured at all? */
static bool incast_refused(const struct settings *s, char *text, size_t bytes)
{
    if (trial_serves(s))
        snprintf(text, bytes, "%s", TRIAL_HERE);
    for (size_t w = 0; w < s->workers.count; w++)
        if (s->workers.value[w] > INCAST_WORKERS_MAX)
            snprintf(text, bytes, "--workers is at most %d here", INCAST_WORKERS_MAX);
    return text[0] != '\0';
}

/* incast_each -- every number of workers and size. */
static enum test_end incast_each(struct incast *w, struct report *report, char *text, size_t bytes)
{
    const struct settings_list workers = w->settings->workers, sizes = settings_sizes(w->settings);
    enum test_end end = TEST_OK;

    for (size_t n = 0; end == TEST_OK && n < workers.count; n++)
        for (size_t i = 0; end == TEST_OK && i < sizes.count; i++) {
            w->size = sizes.value[i];
            w->workers = (uint32_t)workers.value[n];
            w->yields = w->workers + 1 > cpus_allowed();
            end = incast_case(w, report, text, bytes);
        }
    return end;
}

/* incast_run -- see the top. */
static enum test_end incast_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    if (incast_refused(s, text, bytes))
        return TEST_REFUSED;
    struct incast like = {
        .settings = s,
        .board = mmap(NULL, sizeof(*like.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (like.board == MAP_FAILED) {
        snprintf(text, bytes, "no memory for the workers");
        return TEST_FAILED;
    }
    report_columns(report, incast_columns, sizeof(incast_columns) / sizeof(incast_columns[0]));
    report_columns(report, report_latency_columns, report_latency_column_count);
    enum test_end end = incast_each(&like, report, text, bytes);
    munmap(like.board, sizeof(*like.board));
    if (end == TEST_OK)
        report_note(report,
                    "each worker pushes one contribution at a time, until it is confirmed; data verified");
    if (end == TEST_OK && like.yields)
        report_note(report, "processes share %u processors, and yield to each other", cpus_allowed());
    return end;
}

/* incast_defaults -- two, four and eight workers. */
static void incast_defaults(struct settings *s)
{
    trial_defaults(s);
    s->bind = "none";
    s->workers = (struct settings_list){{2, 4, 8}, 3};
    s->size = (struct settings_list){{1048576}, 1};
    s->iterations = 100;
    s->warmup = 5;
}

const struct perf_test test_incast = {
    .name = "incast",
    .purpose = "many workers push into one server at once: together, and how evenly",
    .takes = SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) |
             SETTINGS_BIT(SETTINGS_DEVICE) | SETTINGS_BIT(SETTINGS_ITERATIONS) |
             SETTINGS_BIT(SETTINGS_DURATION) | SETTINGS_BIT(SETTINGS_WARMUP) |
             SETTINGS_BIT(SETTINGS_WORKERS) | SETTINGS_BIT(SETTINGS_SIZE) | SETTINGS_BIT(SETTINGS_ALL),
    .reads =
        "Each worker is a process, pushes as slot_push does, into memory of its own in the server. -n: "
        "contributions of each worker; total GB/s:\n"
        "from the first begin to the last end; /w: of a worker, in GB/s, over its own time; least/most: 1 "
        "is even.",
    .defaults = incast_defaults,
    .run = incast_run,
};
