/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepgate/option.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"
#include "transport/base/help.h"
#include "transport/base/knob.h"

/* stepgate_options_new -- all knobs at their defaults. */
int stepgate_options_new(struct stepgate_options **options)
{
    if (options == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_new: options is NULL");
    struct stepgate_options *made = malloc(sizeof(*made));
    if (made == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for the options");
    knobs_init(&made->knobs);
    *options = made;
    return 0;
}

/* stepgate_options_delete -- frees, sets NULL. */
void stepgate_options_delete(struct stepgate_options **options)
{
    if (options == NULL || *options == NULL)
        return;
    knobs_clear(&(*options)->knobs);
    free(*options);
    *options = NULL;
}

/* stepgate_options_set -- sets a knob from text. */
int stepgate_options_set(struct stepgate_options *options, const char *name, const char *text)
{
    if (options == NULL || name == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_set: an argument is NULL");
    return knob_set(&options->knobs, name, text);
}

/* stepgate_options_get -- the effective value as text. */
int stepgate_options_get(const struct stepgate_options *options, const char *name, const char **text)
{
    if (options == NULL || name == NULL || text == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_get: an argument is NULL");
    const char *value = knob_text(&options->knobs, name);
    if (value == NULL)
        return knob_unknown(name);
    *text = value;
    return 0;
}

/* option_replace -- puts the outcome of several settings in place: all of them, or none after an
 * error. */
static int option_replace(struct stepgate_options *options, struct knobs *draft, int code)
{
    if (code < 0) {
        knobs_clear(draft);
        return code;
    }
    knobs_clear(&options->knobs);
    options->knobs = *draft;
    return 0;
}

/* stepgate_options_from_env -- takes STEPGATE_<NAME>; a variable that is empty counts as not set.
 */
int stepgate_options_from_env(struct stepgate_options *options)
{
    struct knobs draft;
    const struct knob_row *row;

    if (options == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_from_env: options is NULL");
    int code = knobs_copy(&options->knobs, &draft);
    if (code < 0)
        return code;
    for (size_t i = 0; code >= 0 && (row = knob_row(i)) != NULL; i++) {
        const char *text = getenv(row->environment);
        if (text != NULL && text[0] != '\0')
            code = knob_set(&draft, row->name, text);
    }
    return option_replace(options, &draft, code);
}

/* option_is_switch_word -- whether an argument can only be the value of a bool before it. */
static bool option_is_switch_word(const char *text)
{
    static const char *const words[] = {"on", "off", "true", "false", "yes", "no"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

/* option_is_negated -- `no-` and the name of a switch: --no-resume. */
static bool option_is_negated(const char *name, const struct knob_row **row)
{
    if (strncmp(name, "no-", 3) != 0 && strncmp(name, "no_", 3) != 0)
        return false;
    const struct knob_row *found = knob_row_find(name + 3, strlen(name + 3));
    if (found == NULL || found->kind != KNOB_BOOL)
        return false;
    *row = found;
    return true;
}

/*
 * option_argument -- looks at the arguments from argv[0] on: returns how many of them a knob takes
 * (0: it is none), and its row and value; negative if the value is missing.
 */
static int option_argument(int count, char **argv, const struct knob_row **row, const char **value)
{
    const char *name = argv[0] + 2;

    if (strncmp(argv[0], "--", 2) != 0)
        return 0;
    size_t n = strcspn(name, "=");
    *row = knob_row_find(name, n);
    if (*row == NULL && n == strlen(name) && option_is_negated(name, row)) {
        *value = "off";
        return 1;
    }
    if (*row == NULL)
        return 0;
    if (name[n] == '=') {
        *value = name + n + 1;
        return 1;
    }
    if ((*row)->kind == KNOB_BOOL) { /* --insecure alone is enough */
        bool word = count > 1 && option_is_switch_word(argv[1]);
        *value = word ? argv[1] : "on";
        return word ? 2 : 1;
    }
    if (count < 2 || strncmp(argv[1], "--", 2) == 0)
        return error_set(STEPGATE_EINVAL, 0, "give --name VALUE or --name=VALUE", "%s needs a value",
                         (*row)->flag);
    *value = argv[1];
    return 2;
}

/* option_read -- sets what argv holds; argv itself is not changed. */
static int option_read(struct knobs *knobs, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0;) {
        const struct knob_row *row = NULL;
        const char *value = NULL;
        int taken = option_argument(argc - i, argv + i, &row, &value);
        if (taken < 0)
            return taken;
        if (taken > 0) {
            int code = knob_set(knobs, row->name, value);
            if (code < 0)
                return code;
        }
        i += taken > 0 ? taken : 1;
    }
    return 0;
}

/* option_remove -- takes out of argv what option_read read, and the `--` that ended it. Returns the
 * new argc. */
static int option_remove(int argc, char **argv)
{
    int kept = argc > 0 ? 1 : 0;
    int i = kept;

    while (i < argc && strcmp(argv[i], "--") != 0) {
        const struct knob_row *row;
        const char *value;
        int taken = option_argument(argc - i, argv + i, &row, &value);
        if (taken > 0)
            i += taken;
        else
            argv[kept++] = argv[i++];
    }
    for (i++; i < argc; i++)
        argv[kept++] = argv[i];
    if (kept < argc)
        argv[kept] = NULL;
    return kept;
}

/* stepgate_options_from_args -- takes knobs out of argv; after an error options and argv are as
 * before. */
int stepgate_options_from_args(struct stepgate_options *options, int *argc, char **argv)
{
    struct knobs draft;

    if (options == NULL || argc == NULL || argv == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_from_args: an argument is NULL");
    int code = knobs_copy(&options->knobs, &draft);
    if (code < 0)
        return code;
    code = option_replace(options, &draft, option_read(&draft, *argc, argv));
    if (code == 0)
        *argc = option_remove(*argc, argv);
    return code;
}

/* stepgate_options_list -- a row of the table. */
int stepgate_options_list(size_t index, struct stepgate_knob *knob)
{
    const struct knob_row *row = knob_row(index);

    if (knob == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "stepgate_options_list: knob is NULL");
    if (row == NULL)
        return -STEPGATE_ENOENT; /* the usual end of a loop: no error is recorded */
    *knob = (struct stepgate_knob){.name = row->name,
                                   .environment = row->environment,
                                   .flag = row->flag,
                                   .unit = row->unit,
                                   .fallback = row->fallback,
                                   .help = row->help,
                                   .value = help_value(row)};
    return 0;
}

/* stepgate_options_log -- where log lines go; the level is that of the knob "log", which a later
 * set changes again. */
int stepgate_options_log(struct stepgate_options *options, stepgate_log_function *function, void *context,
                         int level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    if (options == NULL || level < STEPGATE_LOG_ERROR || level > STEPGATE_LOG_DEBUG)
        return error_set(STEPGATE_EINVAL, 0, "give a level of enum stepgate_log_level",
                         "stepgate_options_log: options is NULL, or %d is no level", level);
    int code = knob_set(&options->knobs, "log", names[level - 1]);
    if (code < 0)
        return code;
    options->knobs.log.function = function;
    options->knobs.log.context = context;
    return 0;
}
