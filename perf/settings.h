/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings -- what a test is asked to do. perftest's letters where they mean the same. One table holds every option; each test names those
 * that have an effect on it, and any other is refused.
 */
#ifndef PERF_SETTINGS_H
#define PERF_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SETTINGS_LIST_MAX 32

/* One bit for each option, in the order of the table in settings.c. */
enum settings_option {
    SETTINGS_DEVICE,
    SETTINGS_IB_PORT,
    SETTINGS_SIZE,
    SETTINGS_ALL,
    SETTINGS_ITERATIONS,
    SETTINGS_DURATION,
    SETTINGS_QPS,
    SETTINGS_DEPTH,
    SETTINGS_CQ_MODERATION,
    SETTINGS_POST_LIST,
    SETTINGS_INLINE,
    SETTINGS_PORT,
    SETTINGS_WARMUP,
    SETTINGS_TRANSPORT,
    SETTINGS_ADDRESS,
    SETTINGS_THREADS,
    SETTINGS_SLOTS,
    SETTINGS_PARAMETERS,
    SETTINGS_VARIABLES,
    SETTINGS_OPTIMIZER,
    SETTINGS_WORKERS,
    SETTINGS_SHARDS,
    SETTINGS_LANES,
    SETTINGS_WAIT,
    SETTINGS_BIND,
    SETTINGS_REWRITE,
    SETTINGS_KERNELS,
    SETTINGS_PAGES,
    SETTINGS_ROUNDS,
    SETTINGS_MEMORY_BANDWIDTH,
    SETTINGS_LINK_BANDWIDTH,
    SETTINGS_LATENCY,
    SETTINGS_COMPUTE,
    SETTINGS_STRAGGLER,
    SETTINGS_BACKUP,
    SETTINGS_MEASURE,
    SETTINGS_CHECK,
    SETTINGS_SERVE,
    SETTINGS_SERVERS,
    SETTINGS_HOSTS,
    SETTINGS_LAUNCH,
    SETTINGS_LEAST,
    SETTINGS_DEADLINE,
    SETTINGS_JSON,
    SETTINGS_CSV,
    SETTINGS_PLOT,
    SETTINGS_OPTIONS
};
#define SETTINGS_BIT(option) (UINT64_C(1) << (option))
/* What every test takes. */
#define SETTINGS_COMMON                                                                                      \
    (SETTINGS_BIT(SETTINGS_DEADLINE) | SETTINGS_BIT(SETTINGS_JSON) | SETTINGS_BIT(SETTINGS_CSV))

struct settings_list {
    uint64_t value[SETTINGS_LIST_MAX];
    size_t count;
};

struct settings {
    uint64_t given; /* bits of the options on the command line */
    const char *device, *transport, *address, *optimizer, *wait, *bind, *kernels, *pages, *json, *csv, *plot,
        *straggler, *servers, *hosts, *launch, *least;
    struct settings_list size, slots, parameters, workers, threads;
    uint64_t ib_port, iterations, qps, depth, cq_moderation, post_list, inline_bytes, port, warmup, variables,
        shards, lanes, rounds, memory_bandwidth, link_bandwidth, latency, backup;
    double duration, deadline, compute; /* seconds; duration 0: count iterations */
    bool all, rewrite, measure, check, serve;
    const char *server; /* what follows the options: the server of a client; NULL: none */
};

/*
 * settings_parse -- arguments behind the test's name. `settings` comes filled with the test's defaults. 0, or -1 with one line in `text`: what
 * is wrong, and what would be right.
 */
int settings_parse(struct settings *settings, const char *test, uint64_t takes, bool takes_server, int argc,
                   char **argv, char *text, size_t bytes);
/* settings_help -- the options among `takes`, one a line. */
void settings_help(FILE *stream, uint64_t takes);
/* settings_sizes -- the sizes to go through: those given, or with --all 2 to 2^23. */
struct settings_list settings_sizes(const struct settings *settings);

/* settings_object -- every option among `takes` that is set, by its long name with `_` for `-`; lists as arrays. */
json_t *settings_object(const struct settings *settings, uint64_t takes);

#endif
