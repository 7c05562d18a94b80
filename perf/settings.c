/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/settings.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum settings_kind {
    SETTINGS_FLAG,
    SETTINGS_SWITCH,
    SETTINGS_NUMBER,
    SETTINGS_SECONDS,
    SETTINGS_TEXT,
    SETTINGS_NUMBERS
};

struct settings_row {
    char letter; /* 0: none */
    const char *name, *value, *help;
    enum settings_kind kind;
    size_t offset;
    uint64_t least, most;
};

#define ROW(member) offsetof(struct settings, member)
/* In the order of enum settings_option. */
static const struct settings_row settings_table[SETTINGS_OPTIONS] = {
    {'d', "device", "NAME", "RDMA device", SETTINGS_TEXT, ROW(device), 0, 0},
    {'i', "ib-port", "N", "port of the device", SETTINGS_NUMBER, ROW(ib_port), 1, 255},
    {'s', "size", "SIZES", "bytes of a message; several, separated by commas, one after the other",
     SETTINGS_NUMBERS, ROW(size), 1, UINT64_C(1) << 30},
    {'a', "all", "", "all sizes from 2 to 8 MiB, each twice the one before", SETTINGS_FLAG, ROW(all), 0, 0},
    {'n', "iters", "N", "iterations of each case", SETTINGS_NUMBER, ROW(iterations), 1,
     UINT64_C(1000000000000)},
    {'D', "duration", "SECONDS", "time of each case, instead of iterations", SETTINGS_SECONDS, ROW(duration),
     0, 86400},
    {'q', "qp", "N", "connections between the two processes, used in turn", SETTINGS_NUMBER, ROW(qps), 1,
     1024},
    {'t', "tx-depth", "N", "operations under way", SETTINGS_NUMBER, ROW(depth), 1, 16384},
    {'Q', "cq-mod", "N", "operations to a completion, no more than -t", SETTINGS_NUMBER, ROW(cq_moderation),
     1, 1024},
    {'l', "post-list", "N", "operations handed to the device in one call", SETTINGS_NUMBER, ROW(post_list), 1,
     1024},
    {'I', "inline-size", "BYTES", "messages up to this size travel in the request", SETTINGS_NUMBER,
     ROW(inline_bytes), 0, 4096},
    {'p', "port", "N", "where the server listens", SETTINGS_NUMBER, ROW(port), 0, 65535},
    {0, "warmup", "N", "iterations before those that are measured", SETTINGS_NUMBER, ROW(warmup), 0,
     UINT64_C(1000000000)},
    {0, "transport", "shm|verbs", "what moves the bytes", SETTINGS_TEXT, ROW(transport), 0, 0},
    {0, "address", "HOST", "own address on the device's network (verbs)", SETTINGS_TEXT, ROW(address), 0, 0},
    {0, "threads", "LIST", "threads that work; several numbers, separated by commas", SETTINGS_NUMBERS,
     ROW(threads), 1, 1024},
    {0, "slots", "LIST", "contributions that are summed", SETTINGS_NUMBERS, ROW(slots), 1, 64},
    {0, "parameters", "LIST", "f32 elements of the model; 25600000, 25.6M and 100k are understood",
     SETTINGS_NUMBERS, ROW(parameters), 1, UINT64_C(1) << 40},
    {0, "variables", "N", "variables of the model, of equal size", SETTINGS_NUMBER, ROW(variables), 1,
     1000000},
    {0, "optimizer", "NAME", "rule that is applied", SETTINGS_TEXT, ROW(optimizer), 0, 0},
    {0, "workers", "LIST", "workers of the job", SETTINGS_NUMBERS, ROW(workers), 1, 4096},
    {0, "shards", "N", "parameter servers", SETTINGS_NUMBER, ROW(shards), 1, 64},
    {0, "lanes", "N", "threads of each parameter server that sum and apply", SETTINGS_NUMBER, ROW(lanes), 1,
     64},
    {0, "wait", "spin|adaptive|sleep", "how processes wait for each other", SETTINGS_TEXT, ROW(wait), 0, 0},
    {0, "bind", "auto|none|node:N|LIST", "processors of the threads that work", SETTINGS_TEXT, ROW(bind), 0,
     0},
    {0, "rewrite", "on|off", "workers write their gradients anew in every step", SETTINGS_SWITCH,
     ROW(rewrite), 0, 0},
    {0, "kernels", "auto|plain|avx2|avx512", "processor instructions of the kernels", SETTINGS_TEXT,
     ROW(kernels), 0, 0},
    {0, "pages", "huge|small", "kind of pages of the memory that is measured", SETTINGS_TEXT, ROW(pages), 0,
     0},
    {0, "rounds", "N", "times that each case is run, in turns with what it is compared with", SETTINGS_NUMBER,
     ROW(rounds), 1, 10000},
    {0, "memory-bandwidth", "BYTES", "of the memory of one host, bytes per second; 20G is understood",
     SETTINGS_NUMBER, ROW(memory_bandwidth), 1000, UINT64_C(1000000000000000)},
    {0, "link-bandwidth", "BYTES", "of a host's port, each way, bytes per second; 100 Gbit/s is 12.5G",
     SETTINGS_NUMBER, ROW(link_bandwidth), 1000, UINT64_C(1000000000000000)},
    {0, "latency", "NS", "of a message one way, nanoseconds", SETTINGS_NUMBER, ROW(latency), 1,
     UINT64_C(10000000000)},
    {0, "compute", "SECONDS", "time that a worker computes in a step; 20ms is understood", SETTINGS_SECONDS,
     ROW(compute), 0, 86400},
    {0, "straggler", "none|exp:MEAN|normal:MEAN:SD|pareto:MEAN:SHAPE",
     "what is added to it at random; 5ms is understood", SETTINGS_TEXT, ROW(straggler), 0, 0},
    {0, "backup", "PERCENT", "of the workers, rounded up, that a step with backup workers does not wait for",
     SETTINGS_NUMBER, ROW(backup), 1, 99},
    {0, "measure", "",
     "memory bandwidth and latency are those of this machine, measured first; all is over "
     "shared memory",
     SETTINGS_FLAG, ROW(measure), 0, 0},
    {0, "check", "", "predictions against simulated jobs in virtual time, and against jobs on this machine",
     SETTINGS_FLAG, ROW(check), 0, 0},
    {0, "serve", "", "be what others measure the way to, until a signal ends it", SETTINGS_FLAG, ROW(serve),
     0, 0},
    {0, "servers", "HOST:PORT,...", "where the others serve; without a port it is that of --port",
     SETTINGS_TEXT, ROW(servers), 0, 0},
    {0, "hosts", "N|HOST,...", "rows of the table: processes on this machine, or with --servers hosts",
     SETTINGS_TEXT, ROW(hosts), 0, 0},
    {0, "launch", "COMMAND", "shell command that begins stepgate-perf on host %h; its arguments follow",
     SETTINGS_TEXT, ROW(launch), 0, 0},
    {0, "least", "SHARE", "of the median of all cells; one below it is slow", SETTINGS_TEXT, ROW(least), 0,
     0},
    {0, "deadline", "SECONDS", "the whole command ends with an error after this time", SETTINGS_SECONDS,
     ROW(deadline), 1, 864000},
    {0, "json", "FILE", "the result as one JSON object; - is standard output", SETTINGS_TEXT, ROW(json), 0,
     0},
    {0, "csv", "FILE", "the rows as CSV; - is standard output", SETTINGS_TEXT, ROW(csv), 0, 0},
    {0, "plot", "FILE",
     "a picture of the sizes gone through, or of the machine; its name ends in .png or .svg", SETTINGS_TEXT,
     ROW(plot), 0, 0},
};

/* settings_row_name -- "-s" or "--slots", for messages. */
static const char *settings_row_name(const struct settings_row *row, char *out, size_t bytes)
{
    if (row->letter != 0)
        snprintf(out, bytes, "-%c (--%s)", row->letter, row->name);
    else
        snprintf(out, bytes, "--%s", row->name);
    return out;
}

/* settings_unit -- the factor of what follows a number; 0: unknown. */
static double settings_unit(const char *unit)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},    {"k", 1e3},       {"K", 1e3},       {"M", 1e6},
                 {"G", 1e9}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].factor;
    return 0;
}

/* settings_number -- "4096", "64KiB", "25.6M", up to `length` characters; whole numbers only. */
static int settings_number(const char *text, size_t length, uint64_t *out)
{
    char copy[48], *end;

    if (length == 0 || length >= sizeof(copy) || !isdigit((unsigned char)text[0]))
        return -1;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    double number = strtod(copy, &end), factor = settings_unit(end);
    if (factor == 0 || strspn(copy, "0123456789.") != (size_t)(end - copy))
        return -1; /* neither hexadecimal nor with an exponent */
    number *= factor;
    if (errno != 0 || !(number < 9e15) || number != floor(number))
        return -1;
    *out = (uint64_t)number;
    return 0;
}

/* settings_numbers -- "2,4,8". */
static int settings_numbers(const struct settings_row *row, const char *text, struct settings_list *out)
{
    struct settings_list list = {.count = 0};

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        uint64_t number;
        if (list.count == SETTINGS_LIST_MAX || settings_number(at, length, &number) != 0 ||
            number < row->least || number > row->most)
            return -1;
        list.value[list.count++] = number;
        at += length;
        if (*at == '\0')
            break;
    }
    *out = list;
    return 0;
}

/* settings_seconds -- "5", "0.5", "5s", "2min". */
static int settings_seconds(const struct settings_row *row, const char *text, double *out)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || !(seconds >= 0))
        return -1;
    if (strcmp(end, "min") == 0)
        seconds *= 60;
    else if (strcmp(end, "ms") == 0)
        seconds /= 1000;
    else if (*end != '\0' && strcmp(end, "s") != 0)
        return -1;
    if (!(seconds > 0) || seconds < (double)row->least || seconds > (double)row->most)
        return -1;
    *out = seconds;
    return 0;
}

/* settings_take -- one option's value. */
static int settings_take(struct settings *settings, const struct settings_row *row, const char *text)
{
    void *at = (char *)settings + row->offset;
    uint64_t number;

    switch (row->kind) {
    case SETTINGS_FLAG: *(bool *)at = true; return 0;
    case SETTINGS_SWITCH:
        if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
            return -1;
        *(bool *)at = strcmp(text, "on") == 0;
        return 0;
    case SETTINGS_NUMBER:
        if (settings_number(text, strlen(text), &number) != 0 || number < row->least || number > row->most)
            return -1;
        *(uint64_t *)at = number;
        return 0;
    case SETTINGS_SECONDS: return settings_seconds(row, text, at);
    case SETTINGS_NUMBERS: return settings_numbers(row, text, at);
    case SETTINGS_TEXT: *(const char **)at = text; return text[0] == '\0' ? -1 : 0;
    }
    return -1;
}

/* settings_find -- the row of "-s", "-s4096", "--size" or "--size=4096"; *value: what is attached, or NULL. */
static const struct settings_row *settings_find(const char *argument, const char **value)
{
    *value = NULL;
    for (size_t i = 0; i < SETTINGS_OPTIONS; i++) {
        const struct settings_row *row = &settings_table[i];
        size_t length = strlen(row->name);
        if (argument[1] != '-') {
            if (row->letter == 0 || argument[1] != row->letter)
                continue;
            *value = argument[2] != '\0' ? argument + 2 : NULL;
            return row;
        }
        if (strncmp(argument + 2, row->name, length) != 0)
            continue;
        if (argument[2 + length] == '=')
            *value = argument + 3 + length;
        else if (argument[2 + length] != '\0')
            continue;
        return row;
    }
    return NULL;
}

/* settings_refuse -- an option that has no effect on this test. */
static int settings_refuse(const struct settings_row *row, const char *test, uint64_t takes, char *text,
                           size_t bytes)
{
    char name[64];
    int length = snprintf(text, bytes, "%s has no effect on %s: leave it out; %s takes",
                          settings_row_name(row, name, sizeof(name)), test, test);

    for (size_t i = 0; i < SETTINGS_OPTIONS; i++)
        if ((takes & SETTINGS_BIT(i)) != 0 && length >= 0 && (size_t)length < bytes)
            length += snprintf(text + length, bytes - (size_t)length, " --%s", settings_table[i].name);
    return -1;
}

/* settings_given -- is the option on the command line? */
static bool settings_given(const struct settings *settings, enum settings_option option)
{
    return (settings->given & SETTINGS_BIT(option)) != 0;
}

/* settings_agree -- no two options take each other's effect away. */
static int settings_agree(const struct settings *settings, char *text, size_t bytes)
{
    bool shm = settings->transport != NULL && strcmp(settings->transport, "shm") == 0;

    if (settings_given(settings, SETTINGS_ITERATIONS) && settings_given(settings, SETTINGS_DURATION))
        snprintf(text, bytes, "-n (--iters) and -D (--duration) say the same: give one of them");
    else if (settings_given(settings, SETTINGS_SIZE) && settings_given(settings, SETTINGS_ALL))
        snprintf(text, bytes, "-s (--size) and -a (--all) say the same: give one of them");
    else if (shm && settings_given(settings, SETTINGS_DEVICE))
        snprintf(text, bytes,
                 "-d (--device) has no effect over shm: leave it out, or give --transport verbs");
    else if (shm && settings_given(settings, SETTINGS_POST_LIST))
        snprintf(text, bytes,
                 "-l (--post-list) has no effect over shm: leave it out, or give --transport verbs");
    else if (settings_given(settings, SETTINGS_PORT) && settings->server == NULL && !settings->serve &&
             settings->servers == NULL && (shm || settings->address != NULL))
        snprintf(text, bytes, "-p (--port) has no effect where both ends are on this host: leave it out");
    else
        return 0;
    return -1;
}

/* settings_parse -- see settings.h. */
int settings_parse(struct settings *settings, const char *test, uint64_t takes, bool takes_server, int argc,
                   char **argv, char *text, size_t bytes)
{
    char name[64];

    for (int i = 0; i < argc; i++) {
        const char *value;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (!takes_server || settings->server != NULL) {
                snprintf(text, bytes, "%s is one argument too many for %s: see stepgate-perf %s --help",
                         argv[i], test, test);
                return -1;
            }
            settings->server = argv[i];
            continue;
        }
        const struct settings_row *row = settings_find(argv[i], &value);
        if (row == NULL) {
            snprintf(text, bytes, "%s is not an option: see stepgate-perf %s --help", argv[i], test);
            return -1;
        }
        uint64_t bit = SETTINGS_BIT((size_t)(row - settings_table));
        if ((takes & bit) == 0)
            return settings_refuse(row, test, takes, text, bytes);
        if (row->kind != SETTINGS_FLAG && value == NULL)
            value = ++i < argc ? argv[i] : "";
        else if (row->kind == SETTINGS_FLAG && value != NULL)
            value = NULL, row = NULL;
        if (row == NULL || settings_take(settings, row, value) != 0) {
            snprintf(text, bytes, "%s does not take %s",
                     row != NULL ? settings_row_name(row, name, sizeof(name)) : argv[i],
                     row != NULL && value != NULL && value[0] != '\0' ? value : "this");
            if (row != NULL && row->most != 0)
                snprintf(text + strlen(text), bytes - strlen(text), ": give %s from %llu to %llu", row->value,
                         (unsigned long long)row->least, (unsigned long long)row->most);
            else if (row != NULL)
                snprintf(text + strlen(text), bytes - strlen(text), ": give %s", row->value);
            return -1;
        }
        settings->given |= bit;
    }
    return settings_agree(settings, text, bytes);
}

/* settings_help -- see settings.h. */
void settings_help(FILE *stream, uint64_t takes)
{
    for (size_t i = 0; i < SETTINGS_OPTIONS; i++) {
        const struct settings_row *row = &settings_table[i];
        char flag[80];
        if ((takes & SETTINGS_BIT(i)) == 0)
            continue;
        if (row->letter != 0)
            snprintf(flag, sizeof(flag), "-%c, --%s %s", row->letter, row->name, row->value);
        else
            snprintf(flag, sizeof(flag), "    --%s %s", row->name, row->value);
        fprintf(stream, "  %-36s %s\n", flag, row->help);
    }
}

/* settings_sizes -- see settings.h. */
struct settings_list settings_sizes(const struct settings *settings)
{
    struct settings_list list = {.count = 0};

    if (!settings->all)
        return settings->size;
    for (uint64_t size = 2; size <= UINT64_C(1) << 23; size *= 2)
        list.value[list.count++] = size;
    return list;
}

/* settings_value -- one option as JSON; NULL: it is not set. */
static json_t *settings_value(const struct settings *settings, const struct settings_row *row)
{
    const void *at = (const char *)settings + row->offset;
    const struct settings_list *list = at;
    json_t *array;

    switch (row->kind) {
    case SETTINGS_FLAG:
    case SETTINGS_SWITCH: return json_boolean(*(const bool *)at);
    case SETTINGS_NUMBER: return json_integer((json_int_t) * (const uint64_t *)at);
    case SETTINGS_SECONDS: return *(const double *)at > 0 ? json_real(*(const double *)at) : NULL;
    case SETTINGS_TEXT:
        return *(const char *const *)at != NULL ? json_string(*(const char *const *)at) : NULL;
    case SETTINGS_NUMBERS: break;
    }
    if (list->count == 0)
        return NULL;
    array = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, json_integer((json_int_t)list->value[i]));
    return array;
}

/* settings_object -- see settings.h. */
json_t *settings_object(const struct settings *settings, uint64_t takes)
{
    json_t *object = json_object();

    for (size_t i = 0; i < SETTINGS_OPTIONS; i++) {
        char key[64];
        json_t *value = (takes & SETTINGS_BIT(i)) != 0 ? settings_value(settings, &settings_table[i]) : NULL;
        if (value == NULL)
            continue;
        snprintf(key, sizeof(key), "%s", settings_table[i].name);
        for (char *c = key; *c != '\0'; c++)
            *c = *c == '-' ? '_' : *c;
        json_object_set_new(object, key, value);
    }
    return object;
}
