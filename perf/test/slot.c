/* SPDX-License-Identifier: BSD-3-Clause */
/* slot_push, param_pull -- a gradient on its way into a slot until the lane has taken it; parameters on their way to a worker. */
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "perf/lane.h"
#include "perf/test/table.h"
#include "perf/trial.h"

#define SLOT_SEED 11

/* slot_defaults -- 64 KiB and 4 MiB. */
static void slot_defaults(struct settings *s)
{
    trial_defaults(s);
    s->size = (struct settings_list){{65536, 4194304}, 2};
    s->iterations = 200;
    s->warmup = 5;
}

/* slot_loop -- one operation after the other. */
static int slot_loop(struct trial *t, const struct stint *stint, bool measured,
                     int (*operation)(struct wire *wire, uint64_t number, uint64_t bytes), uint64_t step)
{
    window_begin(&t->window, perf_clock_now());
    for (uint64_t i = 0; stint_goes_on(stint, i, 1); i++) {
        uint64_t begin = perf_clock_now();
        if (operation(&t->wire, step != 0 ? step : i, t->size) != 0)
            return -1;
        uint64_t now = perf_clock_now();
        if (!measured)
            continue;
        histogram_add(&t->histogram, now - begin);
        window_add(&t->window, now, t->size);
    }
    return 0;
}

/* slot_push -- contributions. */
static int slot_push(struct trial *t, const struct stint *stint, bool measured)
{
    struct wire_order order = {.what = WIRE_SLOT};

    return wire_ask(&t->wire, &order) == 0 ? slot_loop(t, stint, measured, lane_push, 0) : -1;
}

/* slot_pull -- of one step. */
static int slot_pull(struct trial *t, const struct stint *stint, bool measured)
{
    return slot_loop(t, stint, measured, lane_pull, SLOT_SEED);
}

struct slot_kind {
    trial_loop loop;
    bool pull;
};

/* slot_prepare -- a pattern where the bytes come from. 0 or -1. */
static int slot_prepare(struct trial *t, bool pull)
{
    struct wire_order fill = {
        .what = WIRE_FILL, .offset = LANE_ARENA, .size = t->size, .seed = SLOT_SEED + t->size};
    struct wire_order words = {.what = WIRE_WORDS, .seed = SLOT_SEED};

    if (pull)
        return wire_ask(&t->wire, &fill) == 0 ? wire_ask(&t->wire, &words) : -1;
    wire_fill(wire_outbound(&t->wire) + LANE_ARENA, t->size, SLOT_SEED + t->size);
    return 0;
}

/* slot_verify -- is it where they went to? 0, 1 if not, or -1. */
static int slot_verify(struct trial *t, bool pull)
{
    struct wire_order check = {
        .what = WIRE_CHECK, .offset = LANE_ARENA, .size = t->size, .seed = SLOT_SEED + t->size};

    if (pull)
        return wire_holds(wire_outbound(&t->wire) + LANE_ARENA, t->size, check.seed) ? 0 : 1;
    return wire_ask(&t->wire, &check) != 0 ? -1 : check.good != 0 ? 0 : 1;
}

/* slot_cases -- every size. */
static enum test_end slot_cases(struct trial *t, const void *what)
{
    static const struct report_column size = {"size_bytes", "bytes", 1, 0};
    const struct slot_kind *kind = what;
    const struct settings_list sizes = settings_sizes(t->settings);

    report_columns(t->report, &size, 1);
    report_columns(t->report, report_bandwidth_columns, 4);
    report_columns(t->report, report_latency_columns, report_latency_column_count);
    report_columns(t->report, &trial_cpu_column, 1);
    for (size_t i = 0; i < sizes.count; i++) {
        t->size = sizes.value[i];
        int good = slot_prepare(t, kind->pull) == 0 && trial_measure(t, kind->loop) == 0
                       ? slot_verify(t, kind->pull)
                       : -1;
        if (good < 0)
            return trial_lost(t);
        if (good > 0) {
            snprintf(t->text, t->bytes, "the bytes of the last one of %llu are wrong",
                     (unsigned long long)t->size);
            return TEST_FAILED;
        }
        report_number(t->report, "size_bytes", (double)t->size);
        report_bandwidth(t->report, &t->window, t->size);
        report_latency(t->report, &t->histogram, 1);
        trial_cpu(t);
        report_row(t->report);
    }
    report_note(t->report, "%s, one at a time, data verified",
                kind->pull ? "from the first look at the words to the last one"
                           : "until the lane has confirmed the contribution");
    return TEST_OK;
}

/* slot_push_run -- a test. */
static enum test_end slot_push_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static const struct slot_kind kind = {slot_push, false};

    return trial_run(s, LANE_ARENA + trial_largest(s), slot_cases, &kind, report, text, bytes);
}

/* param_pull_run -- a test. */
static enum test_end param_pull_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    static const struct slot_kind kind = {slot_pull, true};

    return trial_run(s, LANE_ARENA + trial_largest(s), slot_cases, &kind, report, text, bytes);
}

#define SLOT_CHUNKS                                                                                          \
    "Chunks of 1 MiB, the default of --chunk-bytes. Over shm a job with the library's own buffers moves "    \
    "nothing of this: gradients are\n"                                                                       \
    "written into their slots, and parameters are mapped; here they are copied by the transport.\n"

const struct perf_test test_slot_push = {
    .name = "slot_push",
    .purpose = "a gradient into its slot: chunks, header, notify, until the lane confirms",
    .takes = TRIAL_TAKES | TRIAL_SIZES,
    .takes_server = true,
    .reads = SLOT_CHUNKS TRIAL_WHERE,
    .defaults = slot_defaults,
    .run = slot_push_run,
};

const struct perf_test test_param_pull = {
    .name = "param_pull",
    .purpose = "parameters to a worker: the words of the lane, chunks, the words again",
    .takes = TRIAL_TAKES | TRIAL_SIZES,
    .takes_server = true,
    .reads = SLOT_CHUNKS TRIAL_WHERE,
    .defaults = slot_defaults,
    .run = param_pull_run,
};
