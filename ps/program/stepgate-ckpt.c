/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-ckpt -- lists, checks, shows and converts the checkpoints of a folder. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ps/checkpoint/checkpoint.h"
#include "ps/optimizer/number.h"
#include "stepgate/stepgate.h"
#include "transport/base/error.h"
#include "transport/base/exit_status.h"
#include "transport/base/streams.h"

#define CKPT_BLOCK 65536u /* elements that are looked at at a time */
#define CKPT_SHARDS_MAX 10000u
#define CKPT_SHAPE_BYTES 200

/* What the command line says. */
struct ckpt {
    const char *dir, *out; /* out: of convert */
    const char *model;     /* NULL: the only one */
    bool has_step, json, quick;
    uint64_t step, shards; /* shards 0: not given */
};

/* What is to be said of the values of an array; the numbers are of the finite ones. */
struct ckpt_values {
    uint64_t count, non_finite;
    double low, high, mean, norm;
};

/* A command: takes what letters stand for: m --model, s --step, j --json, q --quick, n --shards, o OUT. */
struct ckpt_command {
    const char *name, *takes;
    int (*run)(const struct ckpt *);
};

static const char *const ckpt_states[] = {[CHECKPOINT_COMPLETE] = "complete",
                                          [CHECKPOINT_PARTIAL] = "partial",
                                          [CHECKPOINT_DAMAGED] = "damaged",
                                          [CHECKPOINT_FOREIGN] = "foreign"};

/* ckpt_help -- of the whole program. */
static void ckpt_help(void)
{
    puts("usage: stepgate-ckpt list DIR [--model M] [--json]\n"
         "       stepgate-ckpt verify DIR [--model M] [--step N] [--quick] [--json]\n"
         "       stepgate-ckpt print DIR [--model M] [--step N] [--json]\n"
         "       stepgate-ckpt convert DIR OUT --shards S [--model M] [--step N]\n\n"
         "Works on the checkpoints in the folder DIR, which are safetensors files with a manifest beside "
         "them.\n\n"
         "  list       one line for each: model, step, shards, bytes, age, and whether it is complete, or "
         "why not\n"
         "  verify     reads all of them, or that of --step, and compares them with their SHA-256. Partial "
         "ones, which were not\n"
         "             written to the end, are told; without --step they are no failure while there is a "
         "complete one\n"
         "  print      hyper-parameters and arrays of the newest complete one, or of --step: type, shape, "
         "and least, largest, mean and\n"
         "             norm of what is finite\n"
         "  convert    writes the newest complete one, or that of --step, to S files below the folder OUT\n\n"
         "  --model M  of this model; needed where there are several, except by list and verify\n"
         "  --step N   the checkpoint of this step\n"
         "  --shards S number of files, 1 to 10000\n"
         "  --quick    verify reads no values: manifest, lengths and headers only\n"
         "  --json     for programs\n"
         "  --version  the version, and nothing else\n\n"
         "Exit status: 0, 1 a checkpoint is not sound, or it could not be done, 2 usage.");
}

/* ckpt_say -- a line to stderr; returns the status to exit with. */
static int ckpt_say(int status, const char *text)
{
    char line[1024];

    snprintf(line, sizeof(line), "%s", text);
    error_one_line(line);
    fprintf(stderr, "stepgate-ckpt: %s\n", line);
    return status;
}

/* ckpt_fail -- the last error with its remedy. */
static int ckpt_fail(int code)
{
    char line[1024];

    exit_status_line(code, line, sizeof(line));
    return ckpt_say(EXIT_STATUS_PERMANENT, line);
}

/* ckpt_json -- prints an object and lets it go. */
static int ckpt_json(json_t *value)
{
    if (value == NULL || json_dumpf(value, stdout, JSON_INDENT(1)) != 0) {
        json_decref(value);
        return ckpt_say(EXIT_STATUS_PERMANENT, "no memory for the result, or nowhere to write it");
    }
    putchar('\n');
    json_decref(value);
    return EXIT_STATUS_OK;
}

/* ckpt_text -- a text that may hold anything; JSON wants UTF-8. */
static json_t *ckpt_text(const char *text)
{
    char encoded[3 * sizeof(((struct checkpoint_entry *)NULL)->why) + 1];
    json_t *value = json_string(text);

    if (value != NULL)
        return value;
    name_encode(text, encoded, sizeof(encoded));
    return json_string(encoded);
}

/* ckpt_real -- a number of JSON, null where there is none. */
static json_t *ckpt_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* ckpt_shown -- a name for a line of text: one line, whatever is in it. */
static const char *ckpt_shown(const char *name, char out[NAME_TENSOR_BYTES])
{
    snprintf(out, NAME_TENSOR_BYTES, "%s", name);
    error_one_line(out);
    return out;
}

/* ckpt_amount -- bytes in words. */
static void ckpt_amount(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double amount = (double)bytes;
    size_t unit = 0;

    for (; amount >= 1024 && unit < 5; unit++)
        amount /= 1024;
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
}

/* ckpt_age -- in words. */
static void ckpt_age(int64_t written, char out[32])
{
    int64_t seconds = (int64_t)time(NULL) - written;

    if (seconds < 120)
        snprintf(out, 32, "%" PRId64 " s", seconds > 0 ? seconds : 0);
    else if (seconds < 120 * 60)
        snprintf(out, 32, "%" PRId64 " min", seconds / 60);
    else if (seconds < 48 * 3600)
        snprintf(out, 32, "%" PRId64 " h", seconds / 3600);
    else
        snprintf(out, 32, "%" PRId64 " days", seconds / 86400);
}

/* ckpt_entry -- one of a list, as JSON. */
static json_t *ckpt_entry(const struct checkpoint_entry *e, const char *state, const char *why)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:s, s:o, s:o}", "model", ckpt_text(e->model), "step",
                     (json_int_t)e->step, "shards", (json_int_t)e->shards, "bytes", (json_int_t)e->bytes,
                     "written", (json_int_t)e->written, "state", state, "why", ckpt_text(why), "folder",
                     ckpt_text(e->folder));
}

/* ckpt_width -- of the longest model's name. */
static int ckpt_width(const struct checkpoint_list *list)
{
    size_t width = strlen("model");

    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->entries[i].model) > width)
            width = strlen(list->entries[i].model);
    return (int)width;
}

/* ckpt_list_text -- a table. */
static void ckpt_list_text(const struct checkpoint_list *list)
{
    int width = ckpt_width(list);
    char model[NAME_TENSOR_BYTES], amount[32], age[32], shards[16];

    printf("%-*s %12s %6s %10s %9s  %s\n", width, "model", "step", "shards", "bytes", "age", "state");
    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *e = &list->entries[i];
        ckpt_amount(e->bytes, amount);
        ckpt_age(e->written, age);
        snprintf(shards, sizeof(shards), e->shards > 0 ? "%u" : "-", e->shards);
        printf("%-*s %12" PRIu64 " %6s %10s %9s  %s%s%s\n", width, ckpt_shown(e->model, model), e->step,
               shards, amount, age, ckpt_states[e->state], e->why[0] != 0 ? ": " : "", e->why);
    }
}

/* ckpt_list -- the command. */
static int ckpt_list(const struct ckpt *args)
{
    struct checkpoint_list list;
    int status = checkpoint_list(args->dir, args->model, &list);

    if (status != 0)
        return ckpt_fail(status);
    if (args->json) {
        json_t *all = json_array();
        for (size_t i = 0; i < list.count; i++)
            json_array_append_new(
                all, ckpt_entry(&list.entries[i], ckpt_states[list.entries[i].state], list.entries[i].why));
        status = ckpt_json(all);
    } else {
        ckpt_list_text(&list);
    }
    checkpoint_list_clear(&list);
    return status;
}

/* ckpt_verify_one -- of a list: what is to be said of it; returns whether it is sound. */
static bool ckpt_verify_one(const struct ckpt *args, const struct checkpoint_entry *e, const char **state,
                            char why[1024])
{
    *state = ckpt_states[e->state];
    snprintf(why, 1024, "%s", e->why);
    if (e->state != CHECKPOINT_COMPLETE)
        return false;
    int code = checkpoint_verify(e->folder, !args->quick);
    *state = code == 0 ? "sound" : "damaged";
    if (code != 0)
        exit_status_line(code, why, 1024);
    return code == 0;
}

/* ckpt_verify_list -- all, or the one of a step; returns the exit status. */
static int ckpt_verify_list(const struct ckpt *args, const struct checkpoint_list *list, json_t *all)
{
    size_t looked_at = 0, sound = 0, bad = 0;
    char why[1024], model[NAME_TENSOR_BYTES];
    const char *state;

    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *e = &list->entries[i];
        if (args->has_step && e->step != args->step)
            continue;
        looked_at++;
        if (ckpt_verify_one(args, e, &state, why))
            sound++;
        else if (args->has_step || e->state != CHECKPOINT_PARTIAL)
            bad++;
        if (all != NULL) {
            json_array_append_new(all, ckpt_entry(e, state, why));
            continue;
        }
        printf("%s step %" PRIu64 ": %s%s%s\n", ckpt_shown(e->model, model), e->step, state,
               why[0] != 0 ? ": " : "", why);
        fflush(stdout); /* each may take long */
    }
    if (looked_at == 0)
        return ckpt_say(EXIT_STATUS_PERMANENT,
                        "there is no such checkpoint in the folder: stepgate-ckpt list "
                        "shows what there is");
    return bad == 0 && sound > 0 ? EXIT_STATUS_OK : EXIT_STATUS_PERMANENT;
}

/* ckpt_verify -- the command. */
static int ckpt_verify(const struct ckpt *args)
{
    struct checkpoint_list list;
    json_t *all = args->json ? json_array() : NULL;
    int code = checkpoint_list(args->dir, args->model, &list);

    if (code != 0) {
        json_decref(all);
        return ckpt_fail(code);
    }
    int status = ckpt_verify_list(args, &list, all);
    checkpoint_list_clear(&list);
    if (args->json && ckpt_json(all) != EXIT_STATUS_OK)
        status = EXIT_STATUS_PERMANENT;
    return status;
}

/* ckpt_pick -- the complete one of the step, or the newest; NULL, with the reason. */
static const struct checkpoint_entry *ckpt_pick(const struct ckpt *args, const struct checkpoint_list *list,
                                                char *why, size_t size)
{
    const struct checkpoint_entry *refused = NULL;

    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *e = &list->entries[i];
        if (strcmp(e->model, list->entries[0].model) != 0) {
            snprintf(why, size, "there are models %s and %s in %s: give --model", list->entries[0].model,
                     e->model, args->dir);
            return NULL;
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_entry *e = &list->entries[i];
        if (args->has_step && e->step != args->step)
            continue;
        if (e->state == CHECKPOINT_COMPLETE)
            return e;
        if (refused == NULL)
            refused = e;
    }
    if (refused != NULL)
        snprintf(why, size, "step %" PRIu64 " is not complete: %s: give another --step", refused->step,
                 refused->why);
    else
        snprintf(why, size, "there is no such checkpoint in %s: stepgate-ckpt list shows what there is",
                 args->dir);
    return NULL;
}

/* ckpt_choose -- the folder of the checkpoint that is meant; returns the exit status so far. */
static int ckpt_choose(const struct ckpt *args, char folder[PATH_MAX])
{
    struct checkpoint_list list;
    char why[1024];
    int code = checkpoint_list(args->dir, args->model, &list);

    if (code != 0)
        return ckpt_fail(code);
    const struct checkpoint_entry *e = ckpt_pick(args, &list, why, sizeof(why));
    if (e != NULL)
        memcpy(folder, e->folder, PATH_MAX);
    checkpoint_list_clear(&list);
    return e != NULL ? EXIT_STATUS_OK : ckpt_say(EXIT_STATUS_PERMANENT, why);
}

/* ckpt_add_values -- some elements of an array more. */
static void ckpt_add_values(struct ckpt_values *v, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double one = values[i];
        if (!isfinite(one)) {
            v->non_finite++;
            continue;
        }
        v->low = v->count == 0 || one < v->low ? one : v->low;
        v->high = v->count == 0 || one > v->high ? one : v->high;
        v->mean += one; /* the sum, so far */
        v->norm += one * one;
        v->count++;
    }
}

/* ckpt_look -- at all values of an array. */
static int ckpt_look(const struct checkpoint *c, const struct checkpoint_tensor *t, struct ckpt_values *v)
{
    void *block = malloc(CKPT_BLOCK * sizeof(double));
    double *values = malloc(CKPT_BLOCK * sizeof(double));
    int status = 0;

    memset(v, 0, sizeof(*v));
    if (block == NULL || values == NULL)
        status = error_set(STEPGATE_ENOMEM, 0, "", "no memory to look at %.200s", t->name);
    for (uint64_t first = 0; status == 0 && first < t->elements; first += CKPT_BLOCK) {
        size_t n = t->elements - first < CKPT_BLOCK ? (size_t)(t->elements - first) : CKPT_BLOCK;
        status = checkpoint_read(c, t->name, t->dtype, first, n, block);
        if (status != 0)
            break;
        number_widen_f64(t->dtype, block, values, n);
        ckpt_add_values(v, values, n);
    }
    free(block);
    free(values);
    if (v->count == 0)
        v->low = v->high = NAN;
    v->mean /= (double)v->count; /* NaN where there is none */
    v->norm = v->count > 0 ? sqrt(v->norm) : NAN;
    return status;
}

/* ckpt_shape -- [3, 4]. */
static void ckpt_shape(const struct checkpoint_tensor *t, char out[CKPT_SHAPE_BYTES])
{
    size_t used = (size_t)snprintf(out, CKPT_SHAPE_BYTES, "[");

    for (int d = 0; d < t->rank && used < CKPT_SHAPE_BYTES; d++)
        used += (size_t)snprintf(out + used, CKPT_SHAPE_BYTES - used, "%s%" PRIu64, d > 0 ? ", " : "",
                                 t->dims[d]);
    if (used < CKPT_SHAPE_BYTES)
        snprintf(out + used, CKPT_SHAPE_BYTES - used, "]");
}

/* ckpt_tensor -- an array as JSON. */
static json_t *ckpt_tensor(const struct checkpoint_tensor *t, const struct ckpt_values *v)
{
    json_t *shape = json_array();

    for (int d = 0; d < t->rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->dims[d]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "name", t->name, "dtype",
                     tensors_dtype_name(t->dtype), "shape", shape, "min", ckpt_real(v->low), "max",
                     ckpt_real(v->high), "mean", ckpt_real(v->mean), "norm", ckpt_real(v->norm), "non_finite",
                     (json_int_t)v->non_finite);
}

/* ckpt_manifest -- what is no array, as JSON. */
static json_t *ckpt_manifest(const struct manifest *m, const char *folder)
{
    json_t *keys = json_object(), *changes = json_array(), *numbers = json_array();
    char bits[24];

    for (size_t i = 0; i < m->key_count; i++)
        json_object_set_new(keys, m->keys[i].key, json_string(m->keys[i].value));
    for (size_t i = 0; i < m->change_count; i++)
        json_array_append_new(changes, json_pack("{s:I, s:s, s:s}", "step", (json_int_t)m->changes[i].step,
                                                 "key", m->changes[i].key, "value", m->changes[i].value));
    for (size_t i = 0; i < m->number_count; i++) {
        const struct manifest_number *n = &m->numbers[i];
        snprintf(bits, sizeof(bits), "0x%" PRIx64, n->bits);
        json_array_append_new(
            numbers, json_pack("{s:o, s:s, s:s}", "rank",
                               n->rank == MANIFEST_NO_RANK ? json_null() : json_integer((json_int_t)n->rank),
                               "name", n->name, "bits", bits));
    }
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I}", "model", ckpt_text(m->model),
                     "folder", ckpt_text(folder), "step", (json_int_t)m->step, "shards",
                     (json_int_t)m->shards, "workers", (json_int_t)m->workers, "written",
                     (json_int_t)m->written, "keys", keys, "changes", changes, "numbers", numbers, "sets",
                     (json_int_t)m->set_count);
}

/* ckpt_print_json -- everything. */
static int ckpt_print_json(const struct checkpoint *c, const char *folder)
{
    json_t *all = ckpt_manifest(checkpoint_manifest(c), folder), *tensors = json_array();
    struct ckpt_values v;

    for (size_t i = 0; i < checkpoint_count(c); i++) {
        int code = ckpt_look(c, checkpoint_at(c, i), &v);
        if (code != 0) {
            json_decref(tensors);
            json_decref(all);
            return ckpt_fail(code);
        }
        json_array_append_new(tensors, ckpt_tensor(checkpoint_at(c, i), &v));
    }
    json_object_set_new(all, "tensors", tensors);
    return ckpt_json(all);
}

/* ckpt_print_manifest -- what is no array. */
static void ckpt_print_manifest(const struct manifest *m, const char *folder)
{
    char model[NAME_TENSOR_BYTES], place[PATH_MAX], when[32] = "?";
    time_t written = (time_t)m->written;
    struct tm at;

    if (gmtime_r(&written, &at) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &at);
    memcpy(place, folder, strlen(folder) + 1);
    error_one_line(place);
    printf("model %s, step %" PRIu64 ", %u shards, %u workers, written %s\nfolder %s\n",
           ckpt_shown(m->model, model), m->step, m->shards, m->workers, when, place);
    for (size_t i = 0; i < m->key_count; i++)
        printf("key %s %s\n", m->keys[i].key, m->keys[i].value);
    for (size_t i = 0; i < m->change_count; i++)
        printf("change %s %s from step %" PRIu64 " on\n", m->changes[i].key, m->changes[i].value,
               m->changes[i].step);
    for (size_t i = 0; i < m->number_count; i++) {
        const struct manifest_number *n = &m->numbers[i];
        if (n->rank == MANIFEST_NO_RANK)
            printf("number %s 0x%" PRIx64 "\n", n->name, n->bits);
        else
            printf("number %s of worker %u: %" PRIu64 "\n", n->name, n->rank, n->bits);
    }
    if (m->set_count > 0)
        printf("sets of contributors of %zu steps\n", m->set_count);
}

/* ckpt_print_text -- everything, line by line. */
static int ckpt_print_text(const struct checkpoint *c, const char *folder)
{
    size_t width = strlen("array");
    char name[NAME_TENSOR_BYTES], shape[CKPT_SHAPE_BYTES];
    struct ckpt_values v;

    ckpt_print_manifest(checkpoint_manifest(c), folder);
    for (size_t i = 0; i < checkpoint_count(c); i++)
        if (strlen(checkpoint_at(c, i)->name) > width)
            width = strlen(checkpoint_at(c, i)->name);
    printf("%-*s %-5s %-16s %12s %12s %12s %12s\n", (int)width, "array", "type", "shape", "min", "max",
           "mean", "norm");
    for (size_t i = 0; i < checkpoint_count(c); i++) {
        const struct checkpoint_tensor *t = checkpoint_at(c, i);
        int code = ckpt_look(c, t, &v);
        if (code != 0)
            return ckpt_fail(code);
        ckpt_shape(t, shape);
        printf("%-*s %-5s %-16s %12.5g %12.5g %12.5g %12.5g", (int)width, ckpt_shown(t->name, name),
               tensors_dtype_name(t->dtype), shape, v.low, v.high, v.mean, v.norm);
        if (v.non_finite > 0)
            printf("  %" PRIu64 " not finite", v.non_finite);
        putchar('\n');
    }
    return EXIT_STATUS_OK;
}

/* ckpt_print -- the command. */
static int ckpt_print(const struct ckpt *args)
{
    struct checkpoint *c;
    char folder[PATH_MAX];
    int status = ckpt_choose(args, folder);

    if (status != EXIT_STATUS_OK)
        return status;
    int code = checkpoint_open(folder, &c);
    if (code != 0)
        return ckpt_fail(code);
    status = args->json ? ckpt_print_json(c, folder) : ckpt_print_text(c, folder);
    checkpoint_close(&c);
    return status;
}

/* ckpt_convert -- the command. */
static int ckpt_convert(const struct ckpt *args)
{
    char folder[PATH_MAX], out[PATH_MAX];

    if (args->shards == 0)
        return ckpt_say(EXIT_STATUS_USAGE, "convert needs a number of files: give --shards S");
    int status = ckpt_choose(args, folder);
    if (status != EXIT_STATUS_OK)
        return status;
    int code = checkpoint_convert(folder, (uint32_t)args->shards, args->out, out);
    if (code != 0)
        return ckpt_fail(code);
    error_one_line(out);
    printf("%s\n", out);
    return EXIT_STATUS_OK;
}

static const struct ckpt_command ckpt_commands[] = {{"list", "mj", ckpt_list},
                                                    {"verify", "msjq", ckpt_verify},
                                                    {"print", "msj", ckpt_print},
                                                    {"convert", "msno", ckpt_convert}};

/* The options: their letter, and where the value goes. */
static const struct {
    const char *name;
    char letter;
    bool valued;
} ckpt_options[] = {{"--model", 'm', true},
                    {"--step", 's', true},
                    {"--json", 'j', false},
                    {"--quick", 'q', false},
                    {"--shards", 'n', true}};

/* ckpt_number -- a whole number; false: it is none, or out of range. */
static bool ckpt_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;

    if (text[0] == 0 || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18)
        return false;
    for (; *text != 0; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    *out = number;
    return number >= least && number <= most;
}

/* ckpt_take -- an option with its value; returns the exit status so far. */
static int ckpt_take(struct ckpt *args, char letter, const char *value)
{
    char line[256];

    switch (letter) {
    case 'm': args->model = value; break;
    case 'j': args->json = true; break;
    case 'q': args->quick = true; break;
    case 's':
        args->has_step = true;
        if (!ckpt_number(value, 0, INT64_MAX, &args->step)) {
            snprintf(line, sizeof(line), "--step %.64s: give a whole number", value);
            return ckpt_say(EXIT_STATUS_USAGE, line);
        }
        break;
    default:
        if (!ckpt_number(value, 1, CKPT_SHARDS_MAX, &args->shards)) {
            snprintf(line, sizeof(line), "--shards %.64s: give a whole number from 1 to %u", value,
                     CKPT_SHARDS_MAX);
            return ckpt_say(EXIT_STATUS_USAGE, line);
        }
    }
    return EXIT_STATUS_OK;
}

/* ckpt_option -- the argument at *i, which begins with --; returns the exit status so far. */
static int ckpt_option(struct ckpt *args, const struct ckpt_command *command, int argc, char **argv, int *i)
{
    char line[256];
    size_t length = strcspn(argv[*i], "=");

    for (size_t o = 0; o < sizeof(ckpt_options) / sizeof(ckpt_options[0]); o++) {
        const char *name = ckpt_options[o].name, *value = NULL;
        if (strlen(name) != length || strncmp(argv[*i], name, length) != 0 ||
            strchr(command->takes, ckpt_options[o].letter) == NULL)
            continue;
        if (argv[*i][length] == '=')
            value = argv[*i] + length + 1;
        if (ckpt_options[o].valued && value == NULL && *i + 1 < argc)
            value = argv[++*i];
        if (ckpt_options[o].valued == (value != NULL))
            return ckpt_take(args, ckpt_options[o].letter, value);
        snprintf(line, sizeof(line), "%s %s", name,
                 ckpt_options[o].valued ? "needs a value: --help tells which"
                                        : "takes no value: leave it out");
        return ckpt_say(EXIT_STATUS_USAGE, line);
    }
    snprintf(line, sizeof(line), "unknown argument %.100s of %s: --help lists all", argv[*i], command->name);
    return ckpt_say(EXIT_STATUS_USAGE, line);
}

/* ckpt_read -- the command line behind the command; returns the exit status so far. */
static int ckpt_read(struct ckpt *args, const struct ckpt_command *command, int argc, char **argv)
{
    char line[256];
    bool takes_out = strchr(command->takes, 'o') != NULL;
    int status = EXIT_STATUS_OK;

    for (int i = 0; status == EXIT_STATUS_OK && i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            status = ckpt_option(args, command, argc, argv, &i);
        } else if (args->dir == NULL) {
            args->dir = argv[i];
        } else if (takes_out && args->out == NULL) {
            args->out = argv[i];
        } else {
            snprintf(line, sizeof(line), "unknown argument %.100s of %s: --help lists all", argv[i],
                     command->name);
            status = ckpt_say(EXIT_STATUS_USAGE, line);
        }
    }
    if (status != EXIT_STATUS_OK || (args->dir != NULL && (!takes_out || args->out != NULL)))
        return status;
    snprintf(line, sizeof(line), "%s needs a folder%s: --help tells which", command->name,
             args->dir == NULL ? "" : " to write to");
    return ckpt_say(EXIT_STATUS_USAGE, line);
}

/* ckpt_run -- the command of argv[1]. */
static int ckpt_run(int argc, char **argv)
{
    struct ckpt args = {.dir = NULL};
    char line[256];

    if (argc < 2)
        return ckpt_say(EXIT_STATUS_USAGE,
                        "there is nothing to do: give list, verify, print or convert; --help says more");
    for (size_t i = 0; i < sizeof(ckpt_commands) / sizeof(ckpt_commands[0]); i++)
        if (strcmp(argv[1], ckpt_commands[i].name) == 0) {
            int status = ckpt_read(&args, &ckpt_commands[i], argc - 2, argv + 2);
            return status == EXIT_STATUS_OK ? ckpt_commands[i].run(&args) : status;
        }
    snprintf(line, sizeof(line),
             "unknown argument %.100s: give list, verify, print or convert; --help says more", argv[1]);
    return ckpt_say(EXIT_STATUS_USAGE, line);
}

/* main -- see ckpt_help. */
int main(int argc, char **argv)
{
    streams_ensure();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            ckpt_help();
            return streams_finish("stepgate-ckpt", EXIT_STATUS_OK);
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("stepgate-ckpt %s\n", stepgate_version());
            return streams_finish("stepgate-ckpt", EXIT_STATUS_OK);
        }
    }
    return streams_finish("stepgate-ckpt", ckpt_run(argc, argv));
}
