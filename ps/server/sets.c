/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/sets.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/protocol/model.h"
#include "transport/base/error.h"

#define SETS_FORMAT 1
#define SETS_HEX_BYTES (2 * crypto_hash_sha256_BYTES + 1)
#define SETS_TEXT_BYTES 160 /* of a set in an error */

static_assert(MODEL_FINGERPRINT_BYTES == crypto_hash_sha256_BYTES, "a fingerprint has the room of a hash");

/* What tells a model from another one. */
struct sets_model {
    char name[STEPGATE_NAME_BYTES], update[16];
    uint32_t replicas;
    char fingerprint[SETS_HEX_BYTES];
};

/* The models of a file. */
struct sets_models {
    struct sets_model *list;
    size_t count;
};

/* One recorded step. */
struct sets_line {
    const char *model; /* its name in the list, or in a key */
    size_t owner;      /* place in the list */
    uint64_t step;
    size_t number; /* of the line */
    uint32_t count, *ranks;
};

struct sets {
    uint32_t workers;
    FILE *record;
    char *record_name, *replay_name;
    int failed; /* errno of the first write that did not work */
    crypto_hash_sha256_state hash;
    struct sets_models recorded, known; /* of the file that is written, of the file that is read */
    bool replays;
    struct sets_line *lines; /* ordered by (model, step) */
    size_t count;
};

/* What a file is read with. */
struct sets_reader {
    struct sets *sets;
    const char *name;
    crypto_hash_sha256_state hash;
    size_t number; /* of the line */
    bool ended;
};

static const char sets_remedy[] = "give a whole file that --record-sets wrote";

/* sets_compare -- by model and step. */
static int sets_compare(const void *a, const void *b)
{
    const struct sets_line *x = a, *y = b;
    int order = strcmp(x->model, y->model);

    return order != 0 ? order : x->step < y->step ? -1 : x->step > y->step;
}

/* sets_compare_all -- the same, and by line. */
static int sets_compare_all(const void *a, const void *b)
{
    const struct sets_line *x = a, *y = b;
    int order = sets_compare(a, b);

    return order != 0 ? order : x->number < y->number ? -1 : x->number > y->number;
}

/* sets_no_memory -- the error. */
static int sets_no_memory(void)
{
    return error_set(STEPGATE_ENOMEM, 0, "", "no memory for sets");
}

/* sets_find -- a model by its name; NULL: there is none. */
static const struct sets_model *sets_find(const struct sets_models *models, const char *name)
{
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->list[i].name, name) == 0)
            return &models->list[i];
    return NULL;
}

/* sets_keep -- one more model of a file. */
static int sets_keep(struct sets_models *models, const struct sets_model *model)
{
    struct sets_model *more = realloc(models->list, (models->count + 1) * sizeof(*more));

    if (more == NULL)
        return sets_no_memory();
    models->list = more;
    models->list[models->count++] = *model;
    return 0;
}

/* sets_number -- a decimal number up to `most` and the character behind it; NULL: there is none. */
static const char *sets_number(const char *text, uint64_t most, char behind, uint64_t *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || number > most || *end != behind)
        return NULL;
    *out = number;
    return end + 1;
}

/* sets_ranks -- `0,2,5` or `-`; NULL behind it, or where it is wrong. */
static const char *sets_ranks(const char *text, uint32_t workers, struct sets_line *line)
{
    if (*text == '-')
        return text[1] == ' ' ? text + 2 : NULL;
    for (;;) {
        char *end;
        if (*text < '0' || *text > '9')
            return NULL;
        unsigned long rank = strtoul(text, &end, 10);
        if (rank >= workers || (line->count > 0 && rank <= line->ranks[line->count - 1]))
            return NULL;
        line->ranks[line->count++] = (uint32_t)rank;
        text = end + 1;
        if (*end == ' ')
            return text;
        if (*end != ',')
            return NULL;
    }
}

/* sets_parse -- one line of a step. Errors: EINVAL, ENOMEM. */
static int sets_parse(const struct sets *sets, const char *text, struct sets_line *line)
{
    *line = (struct sets_line){.ranks = calloc(sets->workers, sizeof(uint32_t))};
    if (line->ranks == NULL)
        return -STEPGATE_ENOMEM;
    const char *name = sets_number(text, UINT64_MAX, ' ', &line->step);
    name = name != NULL ? sets_ranks(name, sets->workers, line) : NULL;
    const struct sets_model *model = name != NULL ? sets_find(&sets->known, name) : NULL;
    if (model == NULL || line->count > model->replicas) {
        free(line->ranks);
        return -STEPGATE_EINVAL;
    }
    line->owner = (size_t)(model - sets->known.list);
    return 0;
}

/* sets_read_step -- a line of a step. */
static int sets_read_step(struct sets_reader *r, const char *text)
{
    struct sets *sets = r->sets;
    struct sets_line *more = sets->lines;

    if ((sets->count & (sets->count - 1)) == 0) /* full: room is the next power of two */
        more = realloc(sets->lines, (sets->count > 0 ? 2 * sets->count : 1) * sizeof(*more));
    if (more == NULL)
        return sets_no_memory();
    sets->lines = more;
    int status = sets_parse(sets, text, &sets->lines[sets->count]);
    if (status == -STEPGATE_EINVAL)
        return error_set(
            STEPGATE_EINVAL, 0, sets_remedy,
            "%s, line %zu: `%.60s` is not STEP RANK,RANK,... MODEL with ranks below %u and a model "
            "that is named above it",
            r->name, r->number, text, sets->workers);
    if (status != 0)
        return sets_no_memory();
    sets->lines[sets->count++].number = r->number;
    return 0;
}

/* sets_read_head -- the first line: the format, and T. */
static int sets_read_head(const struct sets_reader *r, const char *text)
{
    static const char magic[] = "stepgate-sets ";
    uint64_t format, workers;
    const char *rest = strncmp(text, magic, sizeof(magic) - 1) == 0 ? text + sizeof(magic) - 1 : NULL;

    rest = rest != NULL ? sets_number(rest, UINT64_MAX, ' ', &format) : NULL;
    if (rest == NULL)
        return error_set(STEPGATE_EINVAL, 0, sets_remedy,
                         "%s, line 1: `%.60s` is not the head of recorded sets", r->name, text);
    if (format != SETS_FORMAT)
        return error_set(STEPGATE_EINVAL, 0, "replay with the version of stepgate that recorded",
                         "%s, line 1: it is in format %" PRIu64 ", this version reads format %d", r->name,
                         format, SETS_FORMAT);
    rest = strncmp(rest, "workers ", 8) == 0 ? sets_number(rest + 8, UINT32_MAX, 0, &workers) : NULL;
    if (rest == NULL)
        return error_set(STEPGATE_EINVAL, 0, sets_remedy, "%s, line 1: `%.60s` does not end with workers T",
                         r->name, text);
    if (workers != r->sets->workers)
        return error_set(STEPGATE_EINVAL, 0, "replay with as many workers as were recorded",
                         "%s, line 1: the sets are of a job of %" PRIu64 " workers, this one has %u", r->name,
                         workers, r->sets->workers);
    return 0;
}

/* sets_word -- copies up to the next space; NULL: it is empty or too long. */
static const char *sets_word(const char *text, char *out, size_t size)
{
    size_t length = strcspn(text, " ");

    if (length == 0 || length >= size || text[length] == 0)
        return NULL;
    memcpy(out, text, length);
    out[length] = 0;
    return text + length + 1;
}

/* sets_read_model -- `UPDATE R FINGERPRINT NAME`. */
static int sets_read_model(const struct sets_reader *r, const char *text)
{
    struct sets_model model = {.replicas = 0};
    uint64_t replicas = 0;
    const char *rest = sets_word(text, model.update, sizeof(model.update));

    rest = rest != NULL ? sets_number(rest, UINT32_MAX, ' ', &replicas) : NULL;
    rest = rest != NULL ? sets_word(rest, model.fingerprint, sizeof(model.fingerprint)) : NULL;
    if (rest == NULL || strlen(model.fingerprint) != SETS_HEX_BYTES - 1 || replicas == 0 || *rest == 0 ||
        strlen(rest) >= sizeof(model.name) || sets_find(&r->sets->known, rest) != NULL)
        return error_set(STEPGATE_EINVAL, 0, sets_remedy,
                         "%s, line %zu: `%.60s` is not UPDATE R FINGERPRINT NAME of a model that is new",
                         r->name, r->number, text);
    model.replicas = (uint32_t)replicas;
    memcpy(model.name, rest, strlen(rest));
    return sets_keep(&r->sets->known, &model);
}

/* sets_hex -- what was hashed so far. */
static void sets_hex(const crypto_hash_sha256_state *hash, char text[SETS_HEX_BYTES])
{
    crypto_hash_sha256_state copy = *hash;
    unsigned char bytes[crypto_hash_sha256_BYTES];

    crypto_hash_sha256_final(&copy, bytes);
    sodium_bin2hex(text, SETS_HEX_BYTES, bytes, sizeof(bytes));
}

/* sets_read_end -- the last line: all above it is as it was written. */
static int sets_read_end(struct sets_reader *r, const char *text)
{
    char hash[SETS_HEX_BYTES];

    sets_hex(&r->hash, hash);
    if (strcmp(text, hash) != 0)
        return error_set(STEPGATE_EINVAL, 0, sets_remedy,
                         "%s, line %zu: it is damaged: the lines above have the hash %.16s, not %.16s",
                         r->name, r->number, hash, text);
    r->ended = true;
    return 0;
}

/* sets_read_line -- any line. */
static int sets_read_line(struct sets_reader *r, const char *text)
{
    if (r->ended)
        return error_set(STEPGATE_EINVAL, 0, sets_remedy, "%s, line %zu: it is behind the end", r->name,
                         r->number);
    if (r->number == 1)
        return sets_read_head(r, text);
    if (strncmp(text, "model ", 6) == 0)
        return sets_read_model(r, text + 6);
    if (strncmp(text, "end ", 4) == 0)
        return sets_read_end(r, text + 4);
    return sets_read_step(r, text);
}

/* sets_sort -- by model and step. No step has two sets. */
static int sets_sort(const struct sets *sets, const char *name)
{
    for (size_t i = 0; i < sets->count; i++) /* the list of models does not move any more */
        sets->lines[i].model = sets->known.list[sets->lines[i].owner].name;
    if (sets->count > 0)
        qsort(sets->lines, sets->count, sizeof(*sets->lines), sets_compare_all);
    for (size_t i = 1; i < sets->count; i++) {
        const struct sets_line *line = &sets->lines[i];
        if (sets_compare(line - 1, line) == 0)
            return error_set(STEPGATE_EINVAL, 0, sets_remedy,
                             "%s, line %zu: step %" PRIu64 " of %s is in line %zu already", name,
                             line->number, line->step, line->model, line[-1].number);
    }
    return 0;
}

/* sets_read -- line by line. */
static int sets_read(struct sets_reader *r, FILE *file)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    int status = 0;

    while (status == 0 && (length = getline(&text, &room, file)) >= 0) {
        r->number++;
        if (text[length - 1] != '\n' || strlen(text) != (size_t)length) {
            status = error_set(STEPGATE_EINVAL, 0, sets_remedy,
                               "%s, line %zu: it does not end as a line does", r->name, r->number);
            break;
        }
        text[length - 1] = 0;
        status = sets_read_line(r, text);
        crypto_hash_sha256_update(&r->hash, (const unsigned char *)text, (unsigned long long)length - 1);
        crypto_hash_sha256_update(&r->hash, (const unsigned char *)"\n", 1);
    }
    free(text);
    if (status == 0 && ferror(file))
        return error_set(STEPGATE_ESYSTEM, errno, "", "%s cannot be read", r->name);
    if (status == 0 && !r->ended)
        status = error_set(STEPGATE_EINVAL, 0, sets_remedy,
                           "%s, line %zu: it is cut off: the line `end` is not there%s", r->name,
                           r->number + 1, r->number == 0 ? ", nor any other" : "");
    return status;
}

/* sets_load -- the file that is replayed. */
static int sets_load(struct sets *sets, const char *name)
{
    struct sets_reader r = {.sets = sets, .name = name};
    FILE *file = fopen(name, "re");

    if (file == NULL)
        return error_set(STEPGATE_ESYSTEM, errno, "give a file that --record-sets wrote", "%s cannot be read",
                         name);
    crypto_hash_sha256_init(&r.hash);
    int status = sets_read(&r, file);
    fclose(file);
    if (status == 0)
        status = sets_sort(sets, name);
    sets->replays = true;
    sets->replay_name = strdup(name);
    return status == 0 && sets->replay_name == NULL ? sets_no_memory() : status;
}

/* sets_write -- text of the recorded file; what cannot be written is kept for sets_close. */
__attribute__((format(printf, 2, 3))) static void sets_write(struct sets *sets, const char *format, ...)
{
    char text[STEPGATE_NAME_BYTES + 256];
    va_list list;

    va_start(list, format);
    int length = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    crypto_hash_sha256_update(&sets->hash, (const unsigned char *)text, (unsigned long long)length);
    if (fwrite(text, 1, (size_t)length, sets->record) != (size_t)length && sets->failed == 0)
        sets->failed = errno != 0 ? errno : EIO;
}

/* sets_start -- the file that is recorded, and its head. */
static int sets_start(struct sets *sets, const char *name)
{
    sets->record = fopen(name, "we");
    if (sets->record == NULL)
        return error_set(STEPGATE_ESYSTEM, errno, "give a file in a folder that may be written",
                         "%s cannot be written", name);
    sets->record_name = strdup(name);
    if (sets->record_name == NULL)
        return sets_no_memory();
    crypto_hash_sha256_init(&sets->hash);
    sets_write(sets, "stepgate-sets %d workers %u\n", SETS_FORMAT, sets->workers);
    return 0;
}

/* sets_open -- see sets.h. */
int sets_open(const char *record, const char *replay, uint32_t workers, struct sets **out)
{
    struct sets *sets = calloc(1, sizeof(*sets));
    int status = 0;

    if (sets == NULL)
        return sets_no_memory();
    sets->workers = workers;
    if (replay != NULL)
        status = sets_load(sets, replay);
    if (status == 0 && record != NULL)
        status = sets_start(sets, record);
    if (status != 0) {
        struct stepgate_error error;
        error_save(&error);
        sets_close(&sets);
        return error_restore(&error);
    }
    *out = sets;
    return 0;
}

/* sets_close -- see sets.h. */
int sets_close(struct sets **out)
{
    struct sets *sets = *out;
    char hash[SETS_HEX_BYTES];
    int status = 0;

    if (sets == NULL)
        return 0;
    if (sets->record != NULL && sets->record_name != NULL) {
        sets_hex(&sets->hash, hash);
        sets_write(sets, "end %s\n", hash);
    }
    if (sets->record != NULL && fclose(sets->record) != 0 && sets->failed == 0)
        sets->failed = errno;
    if (sets->failed != 0)
        status = error_set(STEPGATE_ESYSTEM, sets->failed, "free space, and run again",
                           "not every set could be written to %s", sets->record_name);
    for (size_t i = 0; i < sets->count; i++)
        free(sets->lines[i].ranks);
    free(sets->lines);
    free(sets->recorded.list);
    free(sets->known.list);
    free(sets->record_name);
    free(sets->replay_name);
    free(sets);
    *out = NULL;
    return status;
}

/* sets_differ -- the words for a model of the job that is not the recorded one. */
static int sets_differ(const struct sets *sets, const struct sets_model *recorded,
                       const struct sets_model *now)
{
    static const char remedy[] = "replay the job that was recorded: the same model, update mode, R and T";

    if (strcmp(recorded->update, now->update) != 0)
        return error_set(STEPGATE_EINVAL, 0, remedy, "%s: model %s was recorded with update=%s, it is %s now",
                         sets->replay_name, now->name, recorded->update, now->update);
    if (recorded->replicas != now->replicas)
        return error_set(STEPGATE_EINVAL, 0, remedy,
                         "%s: model %s was recorded with replicas_to_aggregate %u, it is %u now",
                         sets->replay_name, now->name, recorded->replicas, now->replicas);
    return error_set(
        STEPGATE_EINVAL, 0, remedy,
        "%s: model %s was recorded with variables and keys of fingerprint %.16s, it is %.16s now",
        sets->replay_name, now->name, recorded->fingerprint, now->fingerprint);
}

/* sets_check_model -- is it one of the models that are replayed? */
static int sets_check_model(const struct sets *sets, const struct sets_model *now)
{
    const struct sets_model *recorded = sets_find(&sets->known, now->name);

    if (recorded == NULL)
        return error_set(STEPGATE_EINVAL, 0, "replay the job that was recorded",
                         "%s has no sets of model %s, but of %zu other%s%s%s", sets->replay_name, now->name,
                         sets->known.count, sets->known.count == 1 ? "" : "s",
                         sets->known.count > 0 ? ", the first of them " : "",
                         sets->known.count > 0 ? sets->known.list[0].name : "");
    if (strcmp(recorded->update, now->update) != 0 || recorded->replicas != now->replicas ||
        strcmp(recorded->fingerprint, now->fingerprint) != 0)
        return sets_differ(sets, recorded, now);
    return 0;
}

/* sets_model -- see sets.h. */
int sets_model(void *context, const struct model *model, const uint8_t *fingerprint)
{
    struct sets *sets = context;
    struct sets_model now = {.replicas = model_replicas(model, sets->workers)};

    snprintf(now.name, sizeof(now.name), "%s", model->name);
    snprintf(now.update, sizeof(now.update), "%s", model_update_name(model->update));
    sodium_bin2hex(now.fingerprint, sizeof(now.fingerprint), fingerprint, MODEL_FINGERPRINT_BYTES);
    if (model->update != MODEL_STRICT)
        return error_set(
            STEPGATE_EINVAL, 0, "leave --record-sets and --replay-sets out, or use update=strict",
            "model %s has update=%s: sets are recorded in strict mode only", now.name, now.update);
    int status = sets->replays ? sets_check_model(sets, &now) : 0;
    if (status != 0 || sets->record == NULL)
        return status;
    if (sets_find(&sets->recorded, now.name) != NULL || strchr(now.name, '\n') != NULL)
        return error_set(
            STEPGATE_EINVAL, 0, "give each model of a job that is recorded a name of its own, in one line",
            "the sets of model %s cannot be told from others in %s", now.name, sets->record_name);
    status = sets_keep(&sets->recorded, &now);
    if (status == 0)
        sets_write(sets, "model %s %u %s %s\n", now.update, now.replicas, now.fingerprint, now.name);
    return status;
}

/* sets_line_of -- the recorded step; NULL: there is none. */
static const struct sets_line *sets_line_of(const struct sets *sets, const char *model, uint64_t step)
{
    const struct sets_line key = {.model = model, .step = step};

    return sets->count > 0 ? bsearch(&key, sets->lines, sets->count, sizeof(*sets->lines), sets_compare)
                           : NULL;
}

/* sets_end -- the step is not recorded: where does the record end? */
static int sets_end(const struct sets *sets, const char *model, uint64_t step)
{
    const struct sets_line *last = NULL;

    for (size_t i = 0; i < sets->count; i++)
        if (strcmp(sets->lines[i].model, model) == 0)
            last = &sets->lines[i];
    if (last == NULL)
        return error_set(STEPGATE_EINVAL, 0, "replay a longer record",
                         "%s: no step of model %s was recorded, and the job takes step %" PRIu64,
                         sets->replay_name, model, step);
    return error_set(STEPGATE_EINVAL, 0, "train as many steps as were recorded, or replay a longer record",
                     "%s: the record of model %s ends with step %" PRIu64 ", and the job takes step %" PRIu64,
                     sets->replay_name, model, last->step, step);
}

/* sets_words -- ranks with commas, the first ones at least. */
static void sets_words(const uint32_t *ranks, uint32_t count, char text[SETS_TEXT_BYTES])
{
    size_t used = 0;

    snprintf(text, SETS_TEXT_BYTES, "%s", count == 0 ? "nobody" : "workers ");
    for (uint32_t i = 0; i < count && (used = strlen(text)) + 16 < SETS_TEXT_BYTES; i++)
        snprintf(text + used, SETS_TEXT_BYTES - used, "%s%u", i > 0 ? "," : "", ranks[i]);
}

/* sets_check -- is a step of these ranks, each once, the recorded one? */
static int sets_check(const struct sets *sets, const char *model, uint64_t step, const uint32_t *ranks,
                      uint32_t count)
{
    const struct sets_line *line = sets_line_of(sets, model, step);
    char is[SETS_TEXT_BYTES], was[SETS_TEXT_BYTES];

    if (line == NULL)
        return sets_end(sets, model, step);
    if (line->count == count && (count == 0 || memcmp(line->ranks, ranks, count * sizeof(*ranks)) == 0))
        return 0;
    sets_words(ranks, count, is);
    sets_words(line->ranks, line->count, was);
    return error_set(STEPGATE_EINVAL, 0, "run the program that was recorded, with the same data",
                     "%s: step %" PRIu64 " of model %s was made by %s, and is made by %s now",
                     sets->replay_name, step, model, was, is);
}

/* sets_commit -- see sets.h. */
int sets_commit(void *context, const char *model, uint64_t step, uint32_t *ranks, uint32_t count)
{
    struct sets *sets = context;
    uint32_t once = 0;

    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || ranks[i] != ranks[once - 1])
            ranks[once++] = ranks[i];
    int status = sets->replays ? sets_check(sets, model, step, ranks, once) : 0;
    if (status != 0 || sets->record == NULL)
        return status;
    sets_write(sets, "%" PRIu64 " %s", step, once == 0 ? "-" : "");
    for (uint32_t i = 0; i < once; i++)
        sets_write(sets, "%s%u", i > 0 ? "," : "", ranks[i]);
    sets_write(sets, " %s\n", model);
    return 0;
}

/* sets_replay -- see sets.h. */
bool sets_replay(void *context, const char *model, uint64_t step, const uint32_t **ranks, uint32_t *count)
{
    const struct sets_line *line = sets_line_of(context, model, step);

    if (line == NULL)
        return false;
    *ranks = line->ranks;
    *count = line->count;
    return true;
}

/* sets_records -- is there a file to write? */
bool sets_records(const struct sets *sets)
{
    return sets != NULL && sets->record != NULL;
}

/* sets_replays -- is there a file to repeat? */
bool sets_replays(const struct sets *sets)
{
    return sets != NULL && sets->replays;
}
