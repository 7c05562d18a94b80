/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/knob.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/base/hosts.h"
#include "transport/base/registry.h"

#define KIB INT64_C(1024)
#define GIB (INT64_C(1) << 30)
#define TIB (INT64_C(1) << 40)

/* Names of one row: "a_b" gives STEPGATE_A_B and --a-b; spelled out, so that a search finds them.
 */
static const struct knob_row knob_table[] = {
    {"ps_hosts", "STEPGATE_PS_HOSTS", "--ps-hosts", "", "",
     "addresses of all ps in order, host:port,host:port; -:0 for one not known here", KNOB_HOSTS, 0, 0, false,
     NULL},
    {"worker_hosts", "STEPGATE_WORKER_HOSTS", "--worker-hosts", "", "",
     "hosts of all workers in order, with or without port; only their number counts", KNOB_NAMES, 0, 0, false,
     NULL},
    {"workers", "STEPGATE_WORKERS", "--workers", "", "", "number of workers, instead of worker-hosts",
     KNOB_INT, 1, HOSTS_MAX, false, NULL},
    {"job_name", "STEPGATE_JOB_NAME", "--job-name", "", "",
     "what this process is, for programs that can be either", KNOB_CHOICE, 0, 0, false, "ps|worker|observer"},
    {"task_index", "STEPGATE_TASK_INDEX", "--task-index", "", "0",
     "rank of this process among the ps or workers; a worker must have one", KNOB_INT, 0, HOSTS_MAX - 1,
     false, NULL},
    {"transport", "STEPGATE_TRANSPORT", "--transport", "", "auto",
     "how bytes move; auto is shm on one host and verbs between hosts", KNOB_TRANSPORT, 0, 0, false,
     "auto|shm|verbs"},
    {"device", "STEPGATE_DEVICE", "--device", "", "",
     "RDMA device to use, for example mlx5_0; default: the one that has the address", KNOB_TEXT, 0, 0, false,
     NULL},
    {"listen", "STEPGATE_LISTEN", "--listen", "", "",
     "address a ps listens on; no port or port 0 takes a free one; default: its entry of ps-hosts",
     KNOB_ADDRESS, 0, 0, false, NULL},
    {"address_file", "STEPGATE_ADDRESS_FILE", "--address-file", "", "",
     "file a ps writes the address it listens on to", KNOB_TEXT, 0, 0, false, NULL},
    {"secret_file", "STEPGATE_SECRET_FILE", "--secret-file", "", "",
     "file with the secret of the job (16 to 64 bytes), readable by its owner only", KNOB_TEXT, 0, 0, false,
     NULL},
    {"record_sets", "STEPGATE_RECORD_SETS", "--record-sets", "", "",
     "file that ps 0 writes, update=strict only: the contributors of each step", KNOB_TEXT, 0, 0, false,
     NULL},
    {"replay_sets", "STEPGATE_REPLAY_SETS", "--replay-sets", "", "",
     "whole file that --record-sets wrote, of the same models, R and T: each step takes the contributors "
     "named there",
     KNOB_TEXT, 0, 0, false, NULL},
    {"checkpoint", "STEPGATE_CHECKPOINT", "--checkpoint", "", "",
     "folder, the same for all ps, that they write checkpoints to, and go on from", KNOB_TEXT, 0, 0, false,
     NULL},
    {"checkpoint_steps", "STEPGATE_CHECKPOINT_STEPS", "--checkpoint-steps", "", "0",
     "a checkpoint of each step that is a multiple of this; 0: none", KNOB_INT, 0, INT32_MAX, false, NULL},
    {"checkpoint_seconds", "STEPGATE_CHECKPOINT_SECONDS", "--checkpoint-seconds", "s", "0",
     "a checkpoint when the last one is so many seconds old; 0: none", KNOB_INT, 0, INT32_MAX, false, NULL},
    {"keep", "STEPGATE_KEEP", "--keep", "", "3", "how many checkpoints of a model are kept", KNOB_INT, 1,
     INT32_MAX, false, NULL},
    {"resume", "STEPGATE_RESUME", "--resume", "", "on",
     "go on from the newest checkpoint in the folder; off (--no-resume): begin anew, in a folder without any",
     KNOB_BOOL, 0, 1, false, NULL},
    {"insecure", "STEPGATE_INSECURE", "--insecure", "", "off", "listen beyond this host without a secret",
     KNOB_BOOL, 0, 1, false, NULL},
    {"job", "STEPGATE_JOB", "--job", "", "stepgate", "name of the job; processes of another job are refused",
     KNOB_TEXT, 0, 0, false, NULL},
    {"join_timeout", "STEPGATE_JOIN_TIMEOUT", "--join-timeout", "ms", "120s",
     "how long to wait until everybody is there", KNOB_TIME, 0, INT32_MAX, true, NULL},
    {"liveness", "STEPGATE_LIVENESS", "--liveness", "ms", "10s",
     "a peer that is silent for this long is lost; off for debuggers", KNOB_TIME, 100, INT32_MAX, true, NULL},
    {"reconnect", "STEPGATE_RECONNECT", "--reconnect", "", "3",
     "how often in a row connections that break while both ends live are made anew, each time within "
     "liveness; 0: never",
     KNOB_INT, 0, 1000, false, NULL},
    {"lost_worker", "STEPGATE_LOST_WORKER", "--lost-worker", "", "fail",
     "what a ps does, with update=strict, when fewer workers are left than a step takes contributions of: "
     "end the job, wait until "
     "lost ones come back under their ranks, or shrink R to those that are left",
     KNOB_CHOICE, 0, 0, false, "fail|wait|shrink"}, /* as enum mode_lost */
    {"start_workers", "STEPGATE_START_WORKERS", "--start-workers", "", "0",
     "so many workers will do for ps 0 to begin, with update=strict, worker 0 among them; the others may "
     "come "
     "late, under their ranks, and lost_worker says what a step that lacks them does; 0: all",
     KNOB_INT, 0, HOSTS_MAX, false, NULL},
    {"start_after", "STEPGATE_START_AFTER", "--start-after", "ms", "10s",
     "start_workers: begin when nobody else has come for so long", KNOB_TIME, 1, INT32_MAX, false, NULL},
    {"return_timeout", "STEPGATE_RETURN_TIMEOUT", "--return-timeout", "ms", "120s",
     "how long lost_worker=wait waits for a worker; step_timeout counts meanwhile", KNOB_TIME, 0, INT32_MAX,
     true, NULL},
    {"lost_ps", "STEPGATE_LOST_PS", "--lost-ps", "", "fail",
     "what the loss of a ps does: fail ends the job; rewind waits until it is started again, and goes back "
     "to the newest checkpoint; the same for ps and workers",
     KNOB_CHOICE, 0, 0, false, "fail|rewind"},
    {"stall_report", "STEPGATE_STALL_REPORT", "--stall-report", "ms", "30s",
     "report who is waited for when a step takes this long", KNOB_TIME, 1, INT32_MAX, true, NULL},
    {"step_timeout", "STEPGATE_STEP_TIMEOUT", "--step-timeout", "ms", "off",
     "fail when a step takes this long", KNOB_TIME, 1, INT32_MAX, true, NULL},
    {"close_timeout", "STEPGATE_CLOSE_TIMEOUT", "--close-timeout", "ms", "5s", "how long closing may take",
     KNOB_TIME, 0, INT32_MAX, false, NULL},
    {"peer_timeout", "STEPGATE_PEER_TIMEOUT", "--peer-timeout", "ms", "10s",
     "a peer whose adapter does not acknowledge for this long is lost", KNOB_TIME, 10, INT32_MAX, false,
     NULL},
    {"wait", "STEPGATE_WAIT", "--wait", "", "adaptive", "how to wait for events", KNOB_CHOICE, 0, 0, false,
     "spin|adaptive|sleep"},
    {"service", "STEPGATE_SERVICE", "--service", "", "on",
     "a thread that sends heartbeats while the program computes; off: call _progress", KNOB_BOOL, 0, 1, false,
     NULL},
    {"lanes", "STEPGATE_LANES", "--lanes", "", "1", "threads of a ps that sum and apply", KNOB_INT, 1, 64,
     false, NULL},
    {"kernels", "STEPGATE_KERNELS", "--kernels", "", "auto",
     "processor instructions that a ps sums and applies with; all give the same bits", KNOB_CHOICE, 0, 0,
     false, "auto|plain|avx2|avx512"},
    {"sum_ahead", "STEPGATE_SUM_AHEAD", "--sum-ahead", "", "auto",
     "whether a ps sums gradients that are there while others are on their way, for the memory of one more "
     "copy of the parameters; auto: over a network, from three "
     "workers on",
     KNOB_CHOICE, 0, 0, false, "off|on|auto"}, /* as enum shard_ahead */
    {"chunk_bytes", "STEPGATE_CHUNK_BYTES", "--chunk-bytes", "bytes", "1MiB",
     "largest piece that is posted at once", KNOB_SIZE, 4 * KIB, GIB, false, NULL},
    {"cut_bytes", "STEPGATE_CUT_BYTES", "--cut-bytes", "bytes", "256MiB",
     "variables larger than this are cut across the ps", KNOB_SIZE, KIB, TIB, false, NULL},
    {"group_bytes", "STEPGATE_GROUP_BYTES", "--group-bytes", "bytes", "1MiB",
     "parameters become readable in groups of about this size, at most 8 of them per ps", KNOB_SIZE, KIB, TIB,
     false, NULL},
    {"bind", "STEPGATE_BIND", "--bind", "", "auto",
     "processors for the threads of a ps: auto is cores of their own beside the RDMA device, node:N beside "
     "that "
     "NUMA node; none; or a list such as 0-3,8",
     KNOB_TEXT, 0, 0, false, NULL},
    {"log", "STEPGATE_LOG", "--log", "", "info", "log lines of this level and above", KNOB_CHOICE, 0, 0,
     false, "error|warn|info|debug"},
};

#define KNOB_ROWS (sizeof(knob_table) / sizeof(knob_table[0]))

_Static_assert(KNOB_ROWS <= KNOBS_MAX, "every row has a value");

/* knob_row -- row `index`. */
const struct knob_row *knob_row(size_t index)
{
    return index < KNOB_ROWS ? &knob_table[index] : NULL;
}

/* knob_letter -- a character of a name, with `-` and `_` alike. */
static char knob_letter(char c)
{
    return c == '-' ? '_' : c;
}

/* knob_row_find -- the row of a name. */
const struct knob_row *knob_row_find(const char *name, size_t n)
{
    for (size_t i = 0; i < KNOB_ROWS; i++) {
        size_t same = 0;
        while (same < n && knob_table[i].name[same] != '\0' &&
               knob_table[i].name[same] == knob_letter(name[same]))
            same++;
        if (same == n && knob_table[i].name[same] == '\0')
            return &knob_table[i];
    }
    return NULL;
}

/* knob_least -- the least of three. */
static size_t knob_least(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return c < least ? c : least;
}

/* knob_distance -- letters to insert, delete or replace to make one name of the other
 * (Levenshtein). */
static size_t knob_distance(const char *a, size_t n, const char *b)
{
    size_t row[33]; /* names longer than that are near to none */
    size_t m = strlen(b);

    if (m >= sizeof(row) / sizeof(row[0]))
        return SIZE_MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            size_t replace = diagonal + (knob_letter(a[i - 1]) != b[j - 1]);
            row[j] = knob_least(above + 1, row[j - 1] + 1, replace);
            diagonal = above;
        }
    }
    return row[m];
}

/* knob_row_nearest -- the row whose name differs least, if that is by a third of its letters at the
 * most. */
const struct knob_row *knob_row_nearest(const char *name, size_t n)
{
    const struct knob_row *nearest = NULL;
    size_t least = SIZE_MAX;

    if (n > 64)
        return NULL;
    for (size_t i = 0; i < KNOB_ROWS; i++) {
        size_t distance = knob_distance(name, n, knob_table[i].name);
        if (distance < least) {
            least = distance;
            nearest = &knob_table[i];
        }
    }
    size_t near = n / 3 > 1 ? n / 3 : 1;
    return least <= near ? nearest : NULL;
}

/* knob_digits -- a decimal number at the start of text; *end behind it. False: no digit, or too
 * large. */
static bool knob_digits(const char *text, int64_t *number, const char **end)
{
    int64_t n = 0;
    const char *c = text;

    for (; isdigit((unsigned char)*c); c++) {
        if (n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (*c - '0');
    }
    *number = n;
    *end = c;
    return c != text;
}

struct knob_suffix {
    const char *text;
    int64_t factor;
};

static const struct knob_suffix knob_time_suffixes[] = {{"", 1},        {"ms", 1},      {"s", 1000},
                                                        {"min", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct knob_suffix knob_size_suffixes[] = {
    {"", 1},           {"B", 1},   {"k", KIB},   {"K", KIB}, {"KiB", KIB}, {"M", KIB *KIB},
    {"MiB", KIB *KIB}, {"G", GIB}, {"GiB", GIB}, {"T", TIB}, {"TiB", TIB}, {NULL, 0}};

/* knob_measure -- a number with a suffix (one space before it is allowed). */
static bool knob_measure(const char *text, const struct knob_suffix *suffixes, int64_t *number)
{
    int64_t n;
    const char *end;

    if (!knob_digits(text, &n, &end))
        return false;
    if (*end == ' ')
        end++;
    for (const struct knob_suffix *s = suffixes; s->text != NULL; s++)
        if (strcmp(end, s->text) == 0) {
            if (n > INT64_MAX / s->factor)
                return false;
            *number = n * s->factor;
            return true;
        }
    return false;
}

/* knob_word -- the place of a whole text among words separated by |; -1 if it is none of them. */
static int knob_word(const char *words, const char *text)
{
    size_t n = strlen(text);
    const char *at = words;

    for (int i = 0;; i++) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, text, n) == 0)
            return i;
        if (at[length] == '\0')
            return -1;
        at += length + 1;
    }
}

/* knob_parse -- the number that a text means to a row; false: not allowed. Hosts and addresses are
 * looked at elsewhere. */
static bool knob_parse(const struct knob_row *row, const char *text, int64_t *number)
{
    const char *end;
    int64_t n = 0;

    switch (row->kind) {
    case KNOB_TEXT:
    case KNOB_HOSTS:
    case KNOB_NAMES:
    case KNOB_ADDRESS: *number = 0; return true;
    case KNOB_BOOL: {
        int place = knob_word("off|on|false|true|no|yes|0|1", text);
        *number = place & 1;
        return place >= 0;
    }
    case KNOB_CHOICE: *number = knob_word(row->choices, text); return *number >= 0;
    case KNOB_TRANSPORT: {
        int place = registry_place(text);
        *number = place >= 0 ? KNOB_TRANSPORT_OTHERS + place : knob_word(row->choices, text);
        return *number >= 0;
    }
    case KNOB_INT:
        if (!knob_digits(text, &n, &end) || *end != '\0')
            return false;
        break;
    case KNOB_TIME:
        if (row->off && knob_word("off|none|-1", text) >= 0) {
            *number = -1;
            return true;
        }
        if (!knob_measure(text, knob_time_suffixes, &n))
            return false;
        break;
    case KNOB_SIZE:
        if (!knob_measure(text, knob_size_suffixes, &n))
            return false;
        break;
    }
    *number = n;
    return n >= row->low && n <= row->high;
}

/* knob_allowed -- what a row allows, as a remedy. */
static void knob_allowed(const struct knob_row *row, char *out, size_t bytes)
{
    switch (row->kind) {
    case KNOB_BOOL: snprintf(out, bytes, "give on or off"); break;
    case KNOB_TRANSPORT:
    case KNOB_CHOICE: snprintf(out, bytes, "give one of %s", row->choices); break;
    case KNOB_TIME:
        snprintf(out, bytes, "give a time such as 500ms, 10s or 2min, from %" PRId64 " to %" PRId64 " ms%s",
                 row->low, row->high, row->off ? ", or off" : "");
        break;
    case KNOB_SIZE:
        snprintf(out, bytes,
                 "give a size such as 4096, 64KiB or 256MiB, from %" PRId64 " to %" PRId64 " bytes", row->low,
                 row->high);
        break;
    default: snprintf(out, bytes, "give a whole number from %" PRId64 " to %" PRId64, row->low, row->high);
    }
}

/* knob_check_hosts -- whether a list or an address is well formed; sets the error if not. *text may be replaced by one in *entry. */
static int knob_check_hosts(const struct knob_row *row, const char **text, struct hosts_entry *entry)
{
    struct hosts hosts;
    int code;

    if ((*text)[0] == '\0')
        return 0;
    if (row->kind == KNOB_ADDRESS) {
        code = hosts_parse_listen(row->name, *text, entry);
        if (code == 0)
            *text = entry->address; /* with its port */
        return code;
    }
    code = row->kind == KNOB_NAMES ? hosts_parse_names(row->name, *text, &hosts)
                                   : hosts_parse(row->name, *text, &hosts);
    if (code == 0)
        hosts_clear(&hosts);
    return code;
}

/* knobs_init -- all at their defaults. */
void knobs_init(struct knobs *knobs)
{
    *knobs = (struct knobs){.log = {.level = LOG_INFO}};
    for (size_t i = 0; i < KNOB_ROWS; i++) {
        const struct knob_row *row = &knob_table[i];
        bool none = row->fallback[0] == '\0';
        if (none || !knob_parse(row, row->fallback, &knobs->values[i].number))
            knobs->values[i].number = row->kind == KNOB_CHOICE ? -1 : 0;
    }
}

/* knobs_clear -- frees the texts. */
void knobs_clear(struct knobs *knobs)
{
    for (size_t i = 0; i < KNOB_ROWS; i++)
        free(knobs->values[i].text);
    knobs_init(knobs);
}

/* knobs_copy -- with texts of its own. */
int knobs_copy(const struct knobs *from, struct knobs *to)
{
    struct knobs copy = *from;

    for (size_t i = 0; i < KNOB_ROWS; i++)
        copy.values[i].text = NULL;
    for (size_t i = 0; i < KNOB_ROWS; i++) {
        if (from->values[i].text == NULL)
            continue;
        copy.values[i].text = strdup(from->values[i].text);
        if (copy.values[i].text == NULL) {
            knobs_clear(&copy);
            return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a copy of the knobs");
        }
    }
    *to = copy;
    return 0;
}

/* knob_unknown -- the error for a name that is in no row. */
int knob_unknown(const char *name)
{
    const struct knob_row *nearest = knob_row_nearest(name, strlen(name));
    char remedy[96];

    if (nearest != NULL)
        snprintf(remedy, sizeof(remedy), "the nearest is %s", nearest->name);
    else
        snprintf(remedy, sizeof(remedy), "--help lists them");
    return error_set(STEPGATE_ENOENT, 0, remedy, "there is no knob '%.64s'", name);
}

/* knob_set -- checks and stores. */
int knob_set(struct knobs *knobs, const char *name, const char *text)
{
    const struct knob_row *row = knob_row_find(name, strlen(name));
    struct hosts_entry entry;
    int64_t number = 0;

    if (row == NULL)
        return knob_unknown(name);
    if (row->kind == KNOB_HOSTS || row->kind == KNOB_NAMES || row->kind == KNOB_ADDRESS) {
        int code = knob_check_hosts(row, &text, &entry);
        if (code < 0)
            return code;
    }
    if (!knob_parse(row, text, &number)) {
        char allowed[160];
        knob_allowed(row, allowed, sizeof(allowed));
        return error_set(STEPGATE_EINVAL, 0, allowed, "%s: '%.128s' is not allowed", row->name, text);
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for the value of %s", row->name);
    struct knob_value *value = &knobs->values[row - knob_table];
    free(value->text);
    *value = (struct knob_value){.text = copy, .number = number};
    if (strcmp(row->name, "log") == 0)
        knobs->log.level = (int)number + LOG_ERROR;
    return 0;
}

/* knob_value -- the value of a name; *row gets its row. NULL: no such name. */
static const struct knob_value *knob_value(const struct knobs *knobs, const char *name,
                                           const struct knob_row **row)
{
    *row = knob_row_find(name, strlen(name));
    return *row != NULL ? &knobs->values[*row - knob_table] : NULL;
}

/* knob_number -- the number of a name. */
static int64_t knob_number(const struct knobs *knobs, const char *name)
{
    const struct knob_row *row;
    const struct knob_value *value = knob_value(knobs, name, &row);

    return value != NULL ? value->number : 0;
}

/* knob_text -- the value as text. */
const char *knob_text(const struct knobs *knobs, const char *name)
{
    const struct knob_row *row;
    const struct knob_value *value = knob_value(knobs, name, &row);

    if (value == NULL)
        return NULL;
    return value->text != NULL ? value->text : row->fallback;
}

/* knob_int -- a number or the place of a choice. */
int knob_int(const struct knobs *knobs, const char *name)
{
    return (int)knob_number(knobs, name);
}

/* knob_bool -- a switch. */
bool knob_bool(const struct knobs *knobs, const char *name)
{
    return knob_number(knobs, name) != 0;
}

/* knob_time_ms -- a time. */
int64_t knob_time_ms(const struct knobs *knobs, const char *name)
{
    return knob_number(knobs, name);
}

/* knob_bytes -- a size. */
uint64_t knob_bytes(const struct knobs *knobs, const char *name)
{
    return (uint64_t)knob_number(knobs, name);
}

/* knob_given -- whether it was set. */
bool knob_given(const struct knobs *knobs, const char *name)
{
    const struct knob_row *row;
    const struct knob_value *value = knob_value(knobs, name, &row);

    return value != NULL && value->text != NULL && value->text[0] != '\0';
}

/* knobs_workers -- the number of workers. */
int knobs_workers(const struct knobs *knobs)
{
    struct hosts hosts;
    int given = knob_int(knobs, "workers");

    if (!knob_given(knobs, "worker_hosts")) {
        if (given > 0)
            return given;
        return error_set(STEPGATE_EINVAL, 0, "give --workers N, or --worker-hosts with their addresses",
                         "the number of workers is not known");
    }
    int code = hosts_parse_names("worker_hosts", knob_text(knobs, "worker_hosts"), &hosts);
    if (code < 0)
        return code;
    int listed = (int)hosts.count;
    hosts_clear(&hosts);
    if (given > 0 && given != listed)
        return error_set(STEPGATE_EINVAL, 0, "give only one of the two",
                         "worker_hosts names %d workers, workers says %d", listed, given);
    return listed;
}
