/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/sets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* One recorded step. */
struct sets_line {
    char *model;
    uint64_t step;
    size_t number; /* of the line */
    uint32_t count, *ranks;
};

struct sets {
    FILE *record;
    char *record_name;
    int failed; /* errno of the first write that did not work */
    bool replays;
    struct sets_line *lines; /* ordered by (model, step) */
    size_t count;
};

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

/* sets_parse -- one line. Errors: EINVAL, ENOMEM. */
static int sets_parse(const char *text, uint32_t workers, struct sets_line *line)
{
    char *end;

    *line = (struct sets_line){.ranks = calloc(workers, sizeof(uint32_t))};
    if (line->ranks == NULL)
        return -STEPGATE_ENOMEM;
    errno = 0;
    line->step = strtoull(text, &end, 10);
    const char *model =
        *text >= '0' && *text <= '9' && *end == ' ' && errno == 0 ? sets_ranks(end + 1, workers, line) : NULL;
    if (model == NULL || *model == 0) {
        free(line->ranks);
        return -STEPGATE_EINVAL;
    }
    line->model = strdup(model);
    if (line->model == NULL) {
        free(line->ranks);
        return -STEPGATE_ENOMEM;
    }
    return 0;
}

/* sets_add -- a line of the file that is replayed. */
static int sets_add(struct sets *sets, const char *name, const char *text, uint32_t workers, size_t number)
{
    struct sets_line *more = sets->lines;

    if ((sets->count & (sets->count - 1)) == 0) /* full: room is the next power of two */
        more = realloc(sets->lines, (sets->count > 0 ? 2 * sets->count : 1) * sizeof(*more));
    if (more == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the sets of %s", name);
    sets->lines = more;
    int status = sets_parse(text, workers, &sets->lines[sets->count]);
    if (status == -STEPGATE_EINVAL)
        return error_set(STEPGATE_EINVAL, 0,
                         "give a file that --record-sets wrote, of a job with as many workers",
                         "%s, line %zu: `%.60s` is not STEP RANK,RANK,... MODEL with ranks below %u", name,
                         number, text, workers);
    if (status != 0)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for the sets of %s", name);
    sets->lines[sets->count++].number = number;
    return 0;
}

/* sets_sort -- by model and step. No step has two sets. */
static int sets_sort(const struct sets *sets, const char *name)
{
    if (sets->count > 0)
        qsort(sets->lines, sets->count, sizeof(*sets->lines), sets_compare_all);
    for (size_t i = 1; i < sets->count; i++) {
        const struct sets_line *line = &sets->lines[i];
        if (sets_compare(line - 1, line) == 0)
            return error_set(STEPGATE_EINVAL, 0, "give a file that --record-sets wrote",
                             "%s, line %zu: step %" PRIu64 " of %s is in line %zu already", name,
                             line->number, line->step, line->model, line[-1].number);
    }
    return 0;
}

/* sets_load -- the file that is replayed. */
static int sets_load(struct sets *sets, const char *name, uint32_t workers)
{
    FILE *file = fopen(name, "re");
    char *text = NULL;
    size_t room = 0, number = 0;
    ssize_t length;
    int status = 0;

    if (file == NULL)
        return error_set(STEPGATE_ESYSTEM, errno, "give a file that --record-sets wrote", "%s cannot be read",
                         name);
    while (status == 0 && (length = getline(&text, &room, file)) >= 0) {
        number++;
        if (text[length - 1] != '\n' || strlen(text) != (size_t)length)
            status = error_set(STEPGATE_EINVAL, 0, "remove what was not written to its end",
                               "%s, line %zu: it does not end as a line does", name, number);
        text[length - 1] = 0;
        if (status == 0)
            status = sets_add(sets, name, text, workers, number);
    }
    free(text);
    if (status == 0 && ferror(file))
        status = error_set(STEPGATE_ESYSTEM, errno, "", "%s cannot be read", name);
    fclose(file);
    if (status == 0)
        status = sets_sort(sets, name);
    sets->replays = true;
    return status;
}

/* sets_open -- see sets.h. */
int sets_open(const char *record, const char *replay, uint32_t workers, struct sets **out)
{
    struct sets *sets = calloc(1, sizeof(*sets));
    int status = 0;

    if (sets == NULL)
        return error_set(STEPGATE_ENOMEM, 0, "", "no memory for sets");
    if (replay != NULL)
        status = sets_load(sets, replay, workers);
    if (status == 0 && record != NULL) {
        sets->record = fopen(record, "we");
        sets->record_name = strdup(record);
        if (sets->record == NULL)
            status = error_set(STEPGATE_ESYSTEM, errno, "give a file in a folder that may be written",
                               "%s cannot be written", record);
        else if (sets->record_name == NULL)
            status = error_set(STEPGATE_ENOMEM, 0, "", "no memory for sets");
    }
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
    int status = 0;

    if (sets == NULL)
        return 0;
    if (sets->record != NULL && fclose(sets->record) != 0 && sets->failed == 0)
        sets->failed = errno;
    if (sets->failed != 0)
        status = error_set(STEPGATE_ESYSTEM, sets->failed, "free space, and run again",
                           "not every set could be written to %s", sets->record_name);
    for (size_t i = 0; i < sets->count; i++) {
        free(sets->lines[i].model);
        free(sets->lines[i].ranks);
    }
    free(sets->lines);
    free(sets->record_name);
    free(sets);
    *out = NULL;
    return status;
}

/* sets_record -- one line, flushed with the others now and then. */
void sets_record(void *context, const char *model, uint64_t step, const uint32_t *ranks, uint32_t count)
{
    struct sets *sets = context;
    bool good = fprintf(sets->record, "%" PRIu64 " ", step) > 0;

    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || ranks[i] != ranks[i - 1])
            good = good && fprintf(sets->record, "%s%u", i > 0 ? "," : "", ranks[i]) > 0;
    good = good && fprintf(sets->record, "%s %s\n", count == 0 ? "-" : "", model) > 0;
    if (!good && sets->failed == 0)
        sets->failed = errno != 0 ? errno : EIO;
}

/* sets_replay -- see sets.h. */
bool sets_replay(void *context, const char *model, uint64_t step, const uint32_t **ranks, uint32_t *count)
{
    const struct sets *sets = context;
    struct sets_line key = {.model = (char *)(uintptr_t)model, .step = step};
    const struct sets_line *line =
        sets->count > 0 ? bsearch(&key, sets->lines, sets->count, sizeof(*sets->lines), sets_compare) : NULL;

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
