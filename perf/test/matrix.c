/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matrix -- the way between each host and each server, one cell after the other so that none disturbs another: to find the slow link, or the
 * host with the bad cable. A host measures its row; another process has each host do so in turn, and puts the rows together.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "perf/child.h"
#include "perf/clock.h"
#include "perf/command.h"
#include "perf/grid.h"
#include "perf/server.h"
#include "perf/test/table.h"
#include "perf/test/transfer.h"

#define MATRIX_TRIES 5 /* a server may not know yet that its last client has left */
#define MATRIX_PAUSE_NS 100000000
#define MATRIX_SOON_NS UINT64_C(1000000000)
#define MATRIX_PING 8 /* bytes of the write whose latency is told */
#define MATRIX_OUTPUT (1 << 20)
#define MATRIX_SPARE_S 1.0 /* of the deadline, for the report */

/* No title: on the screen there are tables instead. */
static const struct report_column matrix_columns[] = {
    {"host", NULL, 0, 0},
    {"server", NULL, 0, 0},
    {"size_bytes", NULL, 1, 0},
    {"write_bw_bytes_per_s", NULL, 1, 0},
    {"read_bw_bytes_per_s", NULL, 1, 0},
    {"lat_ns_p50", NULL, 1, 0},
    {"lat_ns_p99", NULL, 1, 0},
    {"share", NULL, 1, 0},
    {"verdict", NULL, 0, 0},
    {"reason", NULL, 0, 0},
};

/* matrix_defaults -- as of the tests of one connection that moves large messages. */
static void matrix_defaults(struct settings *s)
{
    transfer_bw_defaults(s);
    s->shards = 2;
}

/* matrix_connect -- to one server, which may be busy for a moment. 0 or -1. */
static int matrix_connect(struct wire *wire, const struct settings *s)
{
    const struct timespec pause = {.tv_nsec = MATRIX_PAUSE_NS};
    uint64_t half = s->size.value[0] > MATRIX_PING ? s->size.value[0] : MATRIX_PING;

    for (int i = 1;; i++) {
        uint64_t begin = perf_clock_now();
        if (wire_client(wire, s, half) == 0)
            return 0;
        if (i == MATRIX_TRIES || perf_clock_now() - begin > MATRIX_SOON_NS)
            return -1;
        nanosleep(&pause, NULL);
    }
}

/* matrix_measure -- the three figures, over a wire that is open. 0; 1: wrong data; -1: the wire failed. */
static int matrix_measure(struct trial *t, struct grid_cell *cell)
{
    int bad;

    t->size = MATRIX_PING;
    if (trial_measure(t, transfer_ping) != 0)
        return -1;
    cell->median = histogram_percentile(&t->histogram, 0.5) / 2;
    cell->percentile = histogram_percentile(&t->histogram, 0.99) / 2;
    t->size = t->settings->size.value[0];
    if (trial_measure(t, transfer_write_flow) != 0)
        return -1;
    cell->write = window_mean(&t->window);
    if ((bad = transfer_verify(t, false)) != 0)
        return bad;
    if (trial_measure(t, transfer_read_flow) != 0)
        return -1;
    cell->read = window_mean(&t->window);
    return transfer_verify(t, true);
}

/* matrix_cell -- from here to one server. */
static void matrix_cell(const struct settings *settings, const char *server, struct report *report,
                        struct grid_cell *cell)
{
    static struct trial t;
    struct settings s = *settings;
    int bad;

    s.server = server;
    t = (struct trial){.settings = &s, .report = report};
    if (matrix_connect(&t.wire, &s) == 0) {
        trial_place(report, t.wire.transport->name, t.wire.can.device, &t.wire.can.path);
        bad = matrix_measure(&t, cell);
        if (bad > 0)
            (void)wire_wrong(&t.wire, "the bytes of the last message are wrong");
        (void)wire_close(&t.wire);
    } else {
        bad = -1;
    }
    if (bad != 0)
        snprintf(cell->reason, sizeof(cell->reason), "%.255s",
                 t.wire.text[0] != '\0' ? t.wire.text : "the connection failed");
}

/* matrix_add -- to a text of limited length. */
__attribute__((format(printf, 3, 4))) static void matrix_add(char *text, size_t bytes, const char *format,
                                                             ...)
{
    size_t length = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + length, bytes - length, format, arguments);
    va_end(arguments);
}

/* matrix_command -- what has a host measure its row. -1: too long. */
static int matrix_command(const struct settings *s, const char *launch, const struct grid_names *servers,
                          const char *host, double seconds, char *out, size_t bytes)
{
    out[0] = '\0';
    for (const char *c = launch; *c != '\0'; c++) {
        bool name = c[0] == '%' && c[1] == 'h';
        matrix_add(out, bytes, "%.*s", name ? GRID_NAME : 1, name ? host : c);
        c += name;
    }
    matrix_add(out, bytes, " matrix --json - --transport %s --bind %s -s %llu -t %llu --warmup %llu",
               s->transport, s->bind, (unsigned long long)s->size.value[0], (unsigned long long)s->depth,
               (unsigned long long)s->warmup);
    if (s->duration > 0)
        matrix_add(out, bytes, " -D %.6f", s->duration);
    else
        matrix_add(out, bytes, " -n %llu", (unsigned long long)s->iterations);
    if (s->device != NULL)
        matrix_add(out, bytes, " --device %s", s->device);
    if (s->address != NULL)
        matrix_add(out, bytes, " --address %s", s->address);
    if (s->port != 0)
        matrix_add(out, bytes, " --port %llu", (unsigned long long)s->port);
    matrix_add(out, bytes, " --deadline %.3f --servers ", seconds > 1 ? seconds : 1);
    for (size_t i = 0; i < servers->count; i++)
        matrix_add(out, bytes, "%s%s", i > 0 ? "," : "", servers->name[i]);
    return strlen(out) + 1 < bytes ? 0 : -1;
}

/* matrix_last_line -- what a program said last; "": nothing. */
static const char *matrix_last_line(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    const char *line = strrchr(text, '\n');
    return line != NULL ? line + 1 : text;
}

/* matrix_number -- of a row; -1: it has none. */
static double matrix_number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    return json_is_number(value) ? json_number_value(value) : -1;
}

/* matrix_take -- the row that a host has printed, among other words. 0, or -1: there is none. */
static int matrix_take(struct grid *grid, size_t host, const char *text)
{
    const char *from = strncmp(text, "{\n", 2) == 0 ? text : strstr(text, "\n{\n");
    json_t *result = from != NULL ? json_loads(from, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const json_t *rows = json_object_get(result, "rows"), *row;
    int status = json_array_size(rows) == grid->servers.count ? 0 : -1;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        if (status != 0)
            break;
        struct grid_cell *cell = grid_at(grid, host, i);
        const char *reason = json_string_value(json_object_get(row, "reason"));
        cell->write = matrix_number(row, "write_bw_bytes_per_s");
        cell->read = matrix_number(row, "read_bw_bytes_per_s");
        cell->median = matrix_number(row, "lat_ns_p50");
        cell->percentile = matrix_number(row, "lat_ns_p99");
        if (reason == NULL && !(cell->write > 0 && cell->read > 0))
            reason = "the host told no figures";
        snprintf(cell->reason, sizeof(cell->reason), "%.255s", reason != NULL ? reason : "");
    }
    json_decref(result);
    return status;
}

/* matrix_host -- one host's row, in `seconds` at most. */
static void matrix_host(const struct settings *s, const char *launch, struct grid *grid, size_t host,
                        double seconds)
{
    static char text[MATRIX_OUTPUT], line[GRID_MOST * GRID_NAME + 4096];
    const char *argv[] = {"/bin/sh", "-c", line, NULL}, *reason;
    uint64_t begin = perf_clock_now();
    struct command command = {.fd = -1};
    char own[GRID_REASON];

    text[0] = '\0';
    int status =
        matrix_command(s, launch, &grid->servers, grid->hosts.name[host], seconds, line, sizeof(line));
    if (status == 0)
        status = command_start(&command, argv) == 0 ? command_end(&command, seconds, text, sizeof(text)) : -1;
    if (status >= 0 && matrix_take(grid, host, text) == 0)
        return;
    reason = matrix_last_line(text);
    if (status >= 0 && (double)(perf_clock_now() - begin) / 1e9 >= seconds)
        snprintf(own, sizeof(own), "%s did not answer in %.0f s", grid->hosts.name[host], seconds);
    else if (reason[0] != '\0')
        snprintf(own, sizeof(own), "%.255s", reason);
    else if (status < 0)
        snprintf(own, sizeof(own), "its command is too long, or /bin/sh could not be started");
    else
        snprintf(own, sizeof(own), "the command ended with status %d and said nothing", status);
    for (size_t i = 0; i < grid->servers.count; i++)
        memcpy(grid_at(grid, host, i)->reason, own, sizeof(own));
}

/* matrix_hosts -- all rows, one after the other; each has its share of the time that is left. */
static void matrix_hosts(const struct settings *s, const char *launch, struct grid *grid)
{
    uint64_t begin = perf_clock_now();

    for (size_t i = 0; i < grid->hosts.count; i++) {
        double gone = (double)(perf_clock_now() - begin) / 1e9;
        double seconds = (s->deadline - MATRIX_SPARE_S - gone) / (double)(grid->hosts.count - i);
        matrix_host(s, launch, grid, i, seconds > 0.5 ? seconds : 0.5);
    }
}

/* matrix_rows -- a row of the report for each cell. */
static void matrix_rows(const struct grid *grid, const struct settings *s, struct report *report)
{
    report_columns(report, matrix_columns, sizeof(matrix_columns) / sizeof(matrix_columns[0]));
    for (size_t i = 0; i < grid->hosts.count * grid->servers.count; i++) {
        const struct grid_cell *cell = &grid->cells[i];
        bool measured = cell->reason[0] == '\0';
        report_text(report, "host", grid->hosts.name[i / grid->servers.count]);
        report_text(report, "server", grid->servers.name[i % grid->servers.count]);
        report_number(report, "size_bytes", (double)s->size.value[0]);
        report_number(report, "write_bw_bytes_per_s", measured ? cell->write : -1);
        report_number(report, "read_bw_bytes_per_s", measured ? cell->read : -1);
        report_number(report, "lat_ns_p50", measured ? cell->median : -1);
        report_number(report, "lat_ns_p99", measured ? cell->percentile : -1);
        report_number(report, "share", measured ? cell->share : -1);
        report_text(report, "verdict", !measured ? "empty" : cell->slow ? "slow" : "good");
        if (!measured)
            report_text(report, "reason", cell->reason);
        report_row(report);
    }
}

/* matrix_notes -- what is wrong, and where: the cells, and the hosts and servers that have nothing else. */
static void matrix_notes(const struct grid *grid, double least, struct report *report)
{
    report_note(report, "medians: write %.3f GB/s, read %.3f GB/s, latency %.2f us; * is below %g of one",
                grid->write_median / 1e9, grid->read_median / 1e9, grid->lat_median / 1e3, least);
    for (size_t i = 0; i < grid->hosts.count * grid->servers.count; i++) {
        const struct grid_cell *cell = &grid->cells[i];
        const char *host = grid->hosts.name[i / grid->servers.count],
                   *server = grid->servers.name[i % grid->servers.count];
        if (cell->reason[0] != '\0')
            report_note(report, "empty: %s to %s: %s", host, server, cell->reason);
        else if (cell->slow)
            report_note(report, "slow: %s to %s has %.2f of the median", host, server, cell->share);
    }
    for (size_t i = 0; i < grid->hosts.count; i++)
        if (grid_host_slow(grid, i))
            report_note(report, "every cell of host %s is slow or empty", grid->hosts.name[i]);
    for (size_t i = 0; i < grid->servers.count; i++)
        if (grid_server_slow(grid, i))
            report_note(report, "every cell of server %s is slow or empty", grid->servers.name[i]);
}

/* matrix_tell -- tables, verdict, rows. */
static enum test_end matrix_tell(struct grid *grid, const struct settings *s, double least,
                                 struct report *report, char *text, size_t bytes)
{
    size_t all = grid->hosts.count * grid->servers.count, bad = grid_judge(grid, least);

    grid_print(grid, GRID_WRITE, least, report_screen(report));
    grid_print(grid, GRID_READ, least, report_screen(report));
    grid_print(grid, GRID_LATENCY, least, report_screen(report));
    matrix_notes(grid, least, report);
    matrix_rows(grid, s, report);
    if (bad == 0)
        return TEST_OK;
    snprintf(text, bytes, "%zu of %zu cells are slow or empty", bad, all);
    return TEST_FAILED;
}

/* matrix_serve -- the other end of many; without --deadline there is none. */
static enum test_end matrix_serve(const struct settings *s, char *text, size_t bytes)
{
    static struct wire wire;
    const struct itimerval none = {.it_value = {.tv_sec = 0}};

    if ((s->given & SETTINGS_BIT(SETTINGS_DEADLINE)) == 0)
        setitimer(ITIMER_REAL, &none, NULL);
    (void)server_stay(&wire, s, -1);
    snprintf(text, bytes, "%s", wire.text);
    return TEST_REQUEUE;
}

/* matrix_live -- a server that is made here. */
static void matrix_live(void *context, int pipe)
{
    static struct wire wire;

    (void)server_stay(&wire, context, pipe);
    _exit(1);
}

/* matrix_own -- servers on this machine; their processes end with this one. 0 or -1. */
static int matrix_own(struct settings *s, struct grid_names *servers, char *text, size_t bytes)
{
    servers->count = (size_t)s->shards;
    for (size_t i = 0; i < servers->count; i++) {
        char line[WIRE_TEXT];
        if (child_new(matrix_live, s, line, sizeof(line)) < 0 || strlen(line) >= GRID_NAME ||
            !grid_plain(line)) {
            snprintf(text, bytes, "a server does not listen: %.900s", line);
            return -1;
        }
        snprintf(servers->name[i], GRID_NAME, "%.79s", line);
    }
    return 0;
}

/* matrix_number_of -- of --hosts, if it is a number; 0: it is not. */
static size_t matrix_number_of(const char *hosts)
{
    return hosts[0] != '0' && strlen(hosts) < 4 && strspn(hosts, "0123456789") == strlen(hosts)
               ? (size_t)atoi(hosts)
               : 0;
}

/* matrix_given -- is it on the command line? */
static bool matrix_given(const struct settings *s, enum settings_option option)
{
    return (s->given & SETTINGS_BIT(option)) != 0;
}

/* matrix_refuse -- what has no effect here. */
static const char *matrix_refuse(const struct settings *s, double least)
{
    const uint64_t listens = SETTINGS_BIT(SETTINGS_SERVE) | SETTINGS_BIT(SETTINGS_TRANSPORT) |
                             SETTINGS_BIT(SETTINGS_ADDRESS) | SETTINGS_BIT(SETTINGS_DEVICE) |
                             SETTINGS_BIT(SETTINGS_PORT) | SETTINGS_BIT(SETTINGS_BIND) |
                             SETTINGS_BIT(SETTINGS_DEPTH) | SETTINGS_BIT(SETTINGS_DEADLINE);

    if (s->serve && (s->given & ~listens) != 0)
        return "--serve takes only --transport --address --device --port --bind --tx-depth --deadline: the "
               "options of who measures hold";
    if (s->serve)
        return NULL;
    if (s->size.count != 1)
        return "-s (--size) takes one number here";
    if (!(least > 0 && least <= 1))
        return "--least takes a share of the median, more than 0 and at most 1";
    if ((s->device != NULL && !grid_plain(s->device)) || (s->address != NULL && !grid_plain(s->address)) ||
        !grid_plain(s->bind) || !grid_plain(s->transport))
        return "--device, --address, --bind and --transport take letters, digits and . _ : , @ - here";
    if (s->servers != NULL && matrix_given(s, SETTINGS_SHARDS))
        return "--shards has no effect with --servers: leave it out";
    if (s->servers != NULL && s->hosts != NULL && s->address != NULL)
        return "--address is another one on each host: leave it out, or give --device";
    if (s->launch != NULL && (s->servers == NULL || s->hosts == NULL))
        return "--launch has no effect without --servers and --hosts that are names: leave it out";
    if (s->servers == NULL && strcmp(s->transport, "verbs") == 0 && s->address == NULL)
        return "over verbs give --servers, or --address, an address of the device: both ends are on this "
               "host";
    if (s->servers == NULL && matrix_given(s, SETTINGS_PORT))
        return "-p (--port) has no effect where both ends are on this host: leave it out";
    return NULL;
}

/* matrix_named -- rows and columns as they are named or counted; `launch`: what begins a row elsewhere, "": this process has one of its own. 0 or -1. */
static int matrix_named(struct settings *s, struct grid_names *hosts, struct grid_names *servers,
                        char *launch, size_t room, char *text, size_t bytes)
{
    const char *rows = s->hosts != NULL ? s->hosts : "2";
    size_t number = matrix_number_of(rows);

    launch[0] = '\0';
    if (s->servers != NULL) {
        if (grid_split(s->servers, servers) != 0 ||
            (s->hosts != NULL && (number > 0 || grid_split(rows, hosts) != 0))) {
            snprintf(text, bytes,
                     "--servers and --hosts beside it take up to %d names, separated by commas: HOST:PORT, "
                     "and HOST",
                     GRID_MOST);
            return -1;
        }
        if (s->hosts != NULL)
            snprintf(launch, room, "%s", s->launch != NULL ? s->launch : "ssh %h stepgate-perf");
        else if (gethostname(hosts->name[0], GRID_NAME - 1) == 0)
            hosts->count = 1;
        return 0;
    }
    if (number == 0 || number > GRID_MOST) {
        snprintf(text, bytes, "--hosts takes a number from 1 to %d, or names with --servers", GRID_MOST);
        return -1;
    }
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || strchr(self, '\'') != NULL) {
        snprintf(text, bytes, "cannot tell where this program lies");
        return -1;
    }
    snprintf(launch, room, "'%s'", self);
    hosts->count = number;
    for (size_t i = 0; i < number; i++)
        snprintf(hosts->name[i], GRID_NAME, "host-%zu", i);
    return matrix_own(s, servers, text, bytes);
}

/* matrix_run -- serves, measures its own row, or has hosts measure theirs. */
static enum test_end matrix_run(const struct settings *given, struct report *report, char *text, size_t bytes)
{
    static struct grid_names hosts, servers;
    struct settings s = *given;
    double least = 0.8;
    char *end = (char *)"", launch[8192];

    if (s.least != NULL)
        least = strtod(s.least, &end);
    const char *refused = matrix_refuse(&s, *end == '\0' ? least : 0);
    if (refused != NULL) {
        snprintf(text, bytes, "%s", refused);
        return TEST_REFUSED;
    }
    if (s.serve)
        return matrix_serve(&s, text, bytes);
    if (matrix_named(&s, &hosts, &servers, launch, sizeof(launch), text, bytes) != 0)
        return TEST_REFUSED;
    struct grid *grid = grid_new(&hosts, &servers);
    if (grid == NULL) {
        snprintf(text, bytes, "no memory for the table");
        return TEST_FAILED;
    }
    report_condition(report, "transport", json_string(s.transport));
    if (launch[0] != '\0')
        matrix_hosts(&s, launch, grid);
    for (size_t i = 0; launch[0] == '\0' && i < servers.count; i++)
        matrix_cell(&s, servers.name[i], report, grid_at(grid, 0, i));
    enum test_end told = matrix_tell(grid, &s, least, report, text, bytes);
    grid_delete(&grid);
    return told;
}

const struct perf_test test_matrix = {
    .name = "matrix",
    .purpose = "the way from each host to each parameter server: which link, or whose cable, is slow",
    .takes = TRIAL_TAKES | SETTINGS_BIT(SETTINGS_SIZE) | SETTINGS_BIT(SETTINGS_DEPTH) |
             SETTINGS_BIT(SETTINGS_SHARDS) | SETTINGS_BIT(SETTINGS_SERVE) | SETTINGS_BIT(SETTINGS_SERVERS) |
             SETTINGS_BIT(SETTINGS_HOSTS) | SETTINGS_BIT(SETTINGS_LAUNCH) | SETTINGS_BIT(SETTINGS_LEAST),
    .reads =
        "Start it with --serve on each host that would have a parameter server. With --servers alone it "
        "measures from this host; with\n"
        "--hosts, too, it has each of them do so, one after the other, by --launch (ssh %h "
        "stepgate-perf). Without --servers the ends\n"
        "are --hosts and --shards processes on this machine. write: towards the server, as a push; read: "
        "as a pull; lat: of a write of\n"
        "8 bytes, half of a round trip, the median. A cell whose write or read is less than --least (0.8) "
        "of the median of all cells is\n"
        "slow; one that could not be measured is empty. Status 1: there is such a cell. Latency is told, "
        "not judged.",
    .defaults = matrix_defaults,
    .run = matrix_run,
};
