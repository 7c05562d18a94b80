/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perftest -- what the transport moves over verbs against perftest's programs on the same device, in turns. perftest varies by 15 % on software devices and
 * at times prints 0.00, which is discarded and counted: medians are compared.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf/command.h"
#include "perf/compare/table.h"

#define PERFTEST_ROUNDS_MAX 64
#define PERFTEST_TEXT 65536
#define PERFTEST_SECONDS 60.0 /* no run takes so long */
#define PERFTEST_TRIES 20     /* of a client until its server listens */

/* The goals: a share of the bandwidth; a latency of at most 1.05 times theirs. */
static const struct perftest_case {
    const char *ours, *theirs, *size, *key;
    uint64_t iterations;
    bool bandwidth;
    double goal;
} perftest_cases[] = {
    {"write_bw", "ib_write_bw", "65536", "bw_bytes_per_s", 500, true, 0.97},
    {"write_bw", "ib_write_bw", "1048576", "bw_bytes_per_s", 50, true, 0.97},
    {"read_bw", "ib_read_bw", "65536", "bw_bytes_per_s", 500, true, 0.97},
    {"read_bw", "ib_read_bw", "1048576", "bw_bytes_per_s", 50, true, 0.97},
    {"write_lat", "ib_write_lat", "2", "lat_ns_p50", 2000, false, 1 / 1.05},
    {"notify_lat", "ib_send_lat", "2", "lat_ns_p50", 2000, false, 1 / 1.05},
};
#define PERFTEST_CASES (sizeof(perftest_cases) / sizeof(perftest_cases[0]))

/* Both sides' values of the rounds. */
struct perftest_values {
    double value[PERFTEST_ROUNDS_MAX];
    size_t count, discarded;
};

/* perftest_defaults -- medians of seven. */
static void perftest_defaults(struct settings *s)
{
    s->rounds = 7;
    s->warmup = 50;
}

/* perftest_rest -- a server needs some time to listen. */
static void perftest_rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

/* perftest_ours -- one run of this program's own test; *device: on what. */
static int perftest_ours(const struct settings *s, const struct perftest_case *c, char *device, size_t room,
                         double *value, char *text, size_t bytes)
{
    static char said[PERFTEST_TEXT];
    char iterations[24], warmup[24];
    const char *argv[24] = {"/proc/self/exe", c->ours,    "--transport", "verbs",
                            "--address",      s->address, "-n",          iterations,
                            "--warmup",       warmup,     "--json",      "-"};
    size_t argc = 12;
    struct command command;
    json_error_t error;

    snprintf(iterations, sizeof(iterations), "%llu", (unsigned long long)c->iterations);
    snprintf(warmup, sizeof(warmup), "%llu", (unsigned long long)s->warmup);
    if (strcmp(c->ours, "notify_lat") != 0) {
        argv[argc++] = "-s";
        argv[argc++] = c->size;
    }
    if (command_start(&command, argv) != 0) {
        snprintf(text, bytes, "cannot start stepgate-perf once more");
        return -1;
    }
    int status = command_end(&command, PERFTEST_SECONDS, said, sizeof(said));
    const char *object = strchr(said, '{');
    json_t *result =
        status == 0 && object != NULL ? json_loads(object, JSON_DISABLE_EOF_CHECK, &error) : NULL;
    const json_t *row = json_array_get(json_object_get(result, "rows"), 0),
                 *at = json_object_get(row, c->key);
    const char *name = json_string_value(json_object_get(json_object_get(result, "conditions"), "device"));
    if (json_is_number(at) && name != NULL) {
        *value = json_number_value(at);
        snprintf(device, room, "%s", name);
    } else {
        snprintf(text, bytes, "%s failed: %.300s", c->ours, said);
        status = -1;
    }
    json_decref(result);
    return status == 0 ? 0 : -1;
}

/* perftest_column -- a number in the line that begins with the size; NAN: there is no such line. */
static double perftest_column(const char *said, const char *size, unsigned column)
{
    for (const char *line = said; line != NULL; line = strchr(line, '\n')) {
        char copy[512], *rest = NULL;
        line += *line == '\n';
        snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
        const char *word = strtok_r(copy, " \t", &rest);
        if (word == NULL || strcmp(word, size) != 0)
            continue;
        for (unsigned i = 1; word != NULL && i < column; i++)
            word = strtok_r(NULL, " \t", &rest);
        if (word != NULL)
            return strtod(word, NULL);
    }
    return NAN;
}

/* perftest_theirs -- one run: a server and a client. NAN: nothing that can be used. */
static int perftest_theirs(const struct settings *s, const struct perftest_case *c, const char *device,
                           double *value, char *text, size_t bytes)
{
    static char said[PERFTEST_TEXT], served[PERFTEST_TEXT];
    char iterations[24], port[24];
    static unsigned runs;
    const char *argv[] = {c->theirs, "-R",       "-F", "-d", device, "-s", c->size,
                          "-n",      iterations, "-p", port, NULL,   NULL};
    struct command server, client;
    int status = -1;

    snprintf(iterations, sizeof(iterations), "%llu", (unsigned long long)c->iterations);
    snprintf(port, sizeof(port), "%u", 18600 + runs++ % 1000);
    int error = command_start(&server, argv);
    if (error != 0) {
        snprintf(text, bytes, "cannot start %s (%s): packaging/install compare", c->theirs, strerror(error));
        return -1;
    }
    argv[sizeof(argv) / sizeof(argv[0]) - 2] = s->address;
    for (int i = 0; i < PERFTEST_TRIES && status != 0; i++) {
        perftest_rest();
        if (command_start(&client, argv) == 0)
            status = command_end(&client, PERFTEST_SECONDS, said, sizeof(said));
    }
    if (status != 0) {
        command_stop(&server);
        snprintf(text, bytes, "%s failed: %.300s", c->theirs, said);
        return -1;
    }
    (void)command_end(&server, 5, served, sizeof(served));
    /* BW average in MiB/s; t_typical in microseconds. */
    double number = perftest_column(said, c->size, c->bandwidth ? 4 : 5);
    *value = number > 0 ? number * (c->bandwidth ? 1048576.0 : 1000.0) : NAN;
    return 0;
}

/* perftest_add -- counts what cannot be used. */
static void perftest_add(struct perftest_values *values, double value)
{
    if (isnan(value))
        values->discarded++;
    else
        values->value[values->count++] = value;
}

/* perftest_case_row -- all rounds of one case. Negative: an error; else whether the goal is missed. */
static int perftest_case_row(const struct settings *s, const struct perftest_case *c, char *device,
                             size_t room, struct report *report, size_t *discarded, char *text, size_t bytes)
{
    struct perftest_values ours = {.count = 0}, theirs = {.count = 0};
    char name[64];

    for (uint64_t r = 0; r < s->rounds && r < PERFTEST_ROUNDS_MAX; r++) {
        double our, their;
        if (perftest_ours(s, c, device, room, &our, text, bytes) != 0 ||
            perftest_theirs(s, c, device, &their, text, bytes) != 0)
            return -1;
        perftest_add(&ours, our);
        perftest_add(&theirs, their);
    }
    *discarded += theirs.discarded;
    if (theirs.count == 0) {
        snprintf(text, bytes, "%s printed no number that can be used", c->theirs);
        return -1;
    }
    double our = compare_median(ours.value, ours.count), their = compare_median(theirs.value, theirs.count);
    snprintf(name, sizeof(name), "%s %s, %s bytes", c->ours, c->theirs, c->size);
    return !compare_row(report, name, our / (c->bandwidth ? 1e6 : 1e3), their / (c->bandwidth ? 1e6 : 1e3),
                        c->bandwidth ? "MB/s" : "us", c->bandwidth ? our / their : their / our, c->goal);
}

/* perftest_run -- see the top. */
static enum test_end perftest_run(const struct settings *s, struct report *report, char *text, size_t bytes)
{
    char device[64] = "";
    size_t missed = 0, discarded = 0;

    if (s->address == NULL) {
        snprintf(text, bytes,
                 "give --address, that of an RDMA device of this machine; where there is none: "
                 "tests/testbed/guest --device "
                 "rxe -- %s",
                 "bash -c 'build/bin/stepgate-perf compare perftest --address $STEPGATE_RXE_ADDRESS'");
        return TEST_REFUSED;
    }
    compare_columns(report);
    for (size_t i = 0; i < PERFTEST_CASES; i++) {
        int miss =
            perftest_case_row(s, &perftest_cases[i], device, sizeof(device), report, &discarded, text, bytes);
        if (miss < 0)
            return TEST_FAILED;
        missed += (size_t)miss;
    }
    report_condition(report, "device", json_string(device));
    report_note(
        report,
        "%s: medians of %llu rounds, in turns; %zu of perftest's runs gave no number and are left out",
        device, (unsigned long long)s->rounds, discarded);
    return compare_end(missed, PERFTEST_CASES, text, bytes);
}

const struct perf_test compare_perftest = {
    .name = "perftest",
    .purpose = "the transport over verbs, and ib_write_bw, ib_read_bw, ib_write_lat, ib_send_lat",
    .takes = SETTINGS_BIT(SETTINGS_ADDRESS) | SETTINGS_BIT(SETTINGS_ROUNDS) | SETTINGS_BIT(SETTINGS_WARMUP),
    .reads = "Both ends are on this host, on the device that has the address. It needs perftest: "
             "packaging/install compare.",
    .defaults = perftest_defaults,
    .run = perftest_run,
};
