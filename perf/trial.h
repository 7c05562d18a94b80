/* SPDX-License-Identifier: BSD-3-Clause */
/* trial -- the cases of a test over one wire: opens it, says under what conditions, runs each case after its warm-up, closes it. Or is its server. */
#ifndef PERF_TRIAL_H
#define PERF_TRIAL_H

#include "perf/histogram.h"
#include "perf/stint.h"
#include "perf/test.h"
#include "perf/window.h"
#include "perf/wire.h"

struct trial {
    const struct settings *settings;
    struct report *report;
    char *text; /* what went wrong, for the user */
    size_t bytes;
    struct wire wire;
    uint64_t size; /* of the case */
    /* what a loop fills */
    struct histogram histogram;
    struct window window;
    uint64_t iterations, completions, cpu_ns, elapsed_ns;
};

/* A case's iterations; `measured`: histogram or window are to be filled. 0 or -1 with `text` in the wire. */
typedef int (*trial_loop)(struct trial *trial, const struct stint *stint, bool measured);
/* All cases of a test, over a wire that is open. */
typedef enum test_end (*trial_cases)(struct trial *trial, const void *kind);

/* trial_run -- the whole test, as perf_test.run; half: bytes that its cases need at most in each half of the wire's memory. */
enum test_end trial_run(const struct settings *settings, uint64_t half, trial_cases cases, const void *kind,
                        struct report *report, char *text, size_t bytes);
/* trial_serves -- is this process to be the other end, started by hand? A test that has none says TRIAL_HERE. */
bool trial_serves(const struct settings *settings);
#define TRIAL_HERE "over verbs give --address, an address of the device: both ends are on this host"
/* trial_place -- transport and device among the conditions; path: of a connection, or NULL. */
void trial_place(struct report *report, const char *transport, const char *device,
                 const struct stepgate_path *path);
/* trial_port -- below the rows: a connection's port in one line, with `more` behind it, and what its device has counted since `before`, which is taken
 * over; NULL: that is not known. Nothing where there is no RDMA device. */
void trial_port(struct report *report, const struct stepgate_capabilities *can, const char *more,
                json_t *before);
/* trial_software -- a line that says of a software device that it is one. */
void trial_software(struct report *report, const char *device);
/* trial_measure -- warms a loop up, then measures it. 0 or -1. */
int trial_measure(struct trial *trial, trial_loop loop);
/* trial_cpu -- fills the column of processor time. */
extern const struct report_column trial_cpu_column;
void trial_cpu(struct trial *trial);
/* trial_lost -- the wire's text becomes that of the test. */
enum test_end trial_lost(struct trial *trial);
/* trial_largest -- of the sizes asked for. */
uint64_t trial_largest(const struct settings *settings);

/* Options of every such test, and of those that go through sizes. */
#define TRIAL_TAKES                                                                                          \
    (SETTINGS_BIT(SETTINGS_TRANSPORT) | SETTINGS_BIT(SETTINGS_ADDRESS) | SETTINGS_BIT(SETTINGS_DEVICE) |     \
     SETTINGS_BIT(SETTINGS_ITERATIONS) | SETTINGS_BIT(SETTINGS_DURATION) | SETTINGS_BIT(SETTINGS_WARMUP) |   \
     SETTINGS_BIT(SETTINGS_BIND) | SETTINGS_BIT(SETTINGS_PORT))
#define TRIAL_SIZES (SETTINGS_BIT(SETTINGS_SIZE) | SETTINGS_BIT(SETTINGS_ALL) | SETTINGS_BIT(SETTINGS_PLOT))
#define TRIAL_WHERE                                                                                          \
    "Over shm, and over verbs with --address, both ends are on this host. Otherwise start it without "       \
    "SERVER on one host, and with the\n"                                                                     \
    "address of that one as SERVER on the other; the client's options hold."

/* trial_defaults -- over shm, small messages, as many iterations as perftest has. */
void trial_defaults(struct settings *settings);

#endif
