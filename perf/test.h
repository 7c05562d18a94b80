/* SPDX-License-Identifier: BSD-3-Clause */
/* test -- one thing that stepgate-perf measures: its name, the options that have an effect on it, and how it runs. */
#ifndef PERF_TEST_H
#define PERF_TEST_H

#include "perf/report.h"
#include "perf/settings.h"

/* How a run ended; the exit status of the program. */
enum test_end {
    TEST_OK = 0,
    TEST_FAILED = 1,  /* it could not be measured, data was wrong, or a goal was missed */
    TEST_REFUSED = 2, /* the settings do not fit together, or the machine: nothing was measured */
    TEST_REQUEUE = 75 /* a peer was lost or late */
};

struct perf_test {
    const char *name, *purpose;
    uint64_t takes;    /* options beside SETTINGS_COMMON */
    bool takes_server; /* a client is given its server's address */
    const char *reads; /* more for --help: what the columns mean; "": nothing */
    void (*defaults)(struct settings *settings);
    /* Fills the report. Not TEST_OK: one line in `text`. */
    enum test_end (*run)(const struct settings *settings, struct report *report, char *text, size_t bytes);
};

#endif
