/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum settings_kind { SETTINGS_SWITCH, SETTINGS_COUNT, SETTINGS_NUMBER, SETTINGS_TEXT, SETTINGS_CHOICE };

/* settings_flag -- a row of the table that both the parser and --help are made from */
struct settings_flag {
    const char *name;
    const char *value; /* how --help calls it; NULL for a switch */
    enum settings_kind kind;
    size_t offset; /* in struct settings */
    double low;    /* least value of a count or number */
    double high;
    const char *choices; /* separated by |; the place in it is the enum's value */
    const char *help;
};

#define SETTINGS_AT(member_) offsetof(struct settings, member_)

static const struct settings_flag flags[] = {
    {"epochs", "N", SETTINGS_COUNT, SETTINGS_AT(epochs), 1, 1e6, NULL, "passes over the training images (8)"},
    {"images", "N", SETTINGS_COUNT, SETTINGS_AT(images), 1, 1e9, NULL,
     "use only the first N training images (all)"},
    {"test-images", "N", SETTINGS_COUNT, SETTINGS_AT(test_images), 1, 1e9, NULL,
     "judge on the first N test images only (all)"},
    {"batch", "N", SETTINGS_COUNT, SETTINGS_AT(batch), 1, 65536, NULL, "images per worker and step (32)"},
    {"lr", "X", SETTINGS_NUMBER, SETTINGS_AT(rate), 0, 1e6, NULL, "learning rate of the first step (0.05)"},
    {"constant", NULL, SETTINGS_SWITCH, SETTINGS_AT(constant), 0, 0, NULL,
     "keep the learning rate, instead of letting it fall to 0 in a straight line"},
    {"optimizer", "NAME", SETTINGS_CHOICE, SETTINGS_AT(rule), 0, 0, "sgd|momentum",
     "sgd or momentum (momentum)"},
    {"momentum", "X", SETTINGS_NUMBER, SETTINGS_AT(momentum), 0, 1, NULL, "of the optimizer momentum (0.9)"},
    {"seed", "N", SETTINGS_COUNT, SETTINGS_AT(seed), 0, 9e15, NULL, "of initial values and batches (1)"},
    {"uneven", NULL, SETTINGS_SWITCH, SETTINGS_AT(uneven), 0, 0, NULL,
     "cut each global batch into parts of unequal size"},
    {"data", "DIR", SETTINGS_TEXT, SETTINGS_AT(data), 0, 0, NULL,
     "folder of the four files (/usr/share/datasets/fashion-mnist)"},
    {"json", "FILE", SETTINGS_TEXT, SETTINGS_AT(json), 0, 0, NULL, "write the result there"},
    {"progress", "HOW", SETTINGS_CHOICE, SETTINGS_AT(progress), 0, 0, "auto|rewrite|lines|none",
     "auto, rewrite (in place), lines or none (auto)"},
    {"single", NULL, SETTINGS_SWITCH, SETTINGS_AT(single), 0, 0, NULL,
     "train alone in this process, without ps"},
    {"parts", "N", SETTINGS_COUNT, SETTINGS_AT(parts), 1, 65536, NULL,
     "with --single: cut each global batch as N workers would (1)"},
    {"help", NULL, SETTINGS_SWITCH, SETTINGS_AT(help), 0, 0, NULL, "this text"},
};

enum { SETTINGS_FLAGS = sizeof flags / sizeof flags[0] };

/* settings_rule_name -- of an optimizer */
const char *settings_rule_name(enum exchange_rule rule)
{
    return rule == EXCHANGE_MOMENTUM ? "momentum" : "sgd";
}

/* settings_help -- write the help text to stdout */
void settings_help(void)
{
    printf(
        "usage: stepgate-fashion [FLAGS OF STEPGATE] [FLAGS]        as one worker of a job\n"
        "       stepgate-fashion --single [--parts N] [FLAGS]       alone, with the same result\n"
        "       stepgate-fashion --plot RESULT.json PICTURE.svg     a picture of a result (or "
        ".png)\n\n"
        "Trains a convolutional network on Fashion-MNIST. Start a whole job on this machine with\n"
        "    stepgate-run --ps 1 --workers 4 -- stepgate-fashion\n\n"
        "exit status: 0; 2 the command line is wrong; 1 no use to try again; 75 worth a requeue (a peer was\n"
        "lost or late); 143 after SIGTERM\n\n");
    for (size_t i = 0; i < SETTINGS_FLAGS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, flags[i].value != NULL ? " " : "",
                 flags[i].value != NULL ? flags[i].value : "");
        printf("  %-20s %s\n", left, flags[i].help);
    }
}

/* settings_same -- whether an argument (up to length) is the name of a flag; - and _ are the same
 */
static bool settings_same(const char *argument, size_t length, const char *name)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (argument[i] != name[i] && !(argument[i] == '_' && name[i] == '-'))
            return false;
    return true;
}

/* settings_find -- the row of the flag that an argument names; NULL for none */
static const struct settings_flag *settings_find(const char *argument, const char **value)
{
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    argument += 2;
    size_t length = strcspn(argument, "=");
    *value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (size_t i = 0; i < SETTINGS_FLAGS; i++)
        if (settings_same(argument, length, flags[i].name))
            return &flags[i];
    return NULL;
}

/* settings_number -- a whole text as a number within bounds */
static int settings_number(const struct settings_flag *flag, const char *text, double *out,
                           struct fault *fault)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    bool whole = flag->kind != SETTINGS_COUNT || (isdigit((unsigned char)text[0]) && number == floor(number));
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) || !whole || number < flag->low ||
        number > flag->high)
        return fault_set(fault, FAULT_USAGE, "--%s %s: give a %s from %.15g to %.15g", flag->name, text,
                         flag->kind == SETTINGS_COUNT ? "whole number" : "number", flag->low, flag->high);
    *out = number;
    return 0;
}

/* settings_choose -- the place of a text among the choices of a flag */
static int settings_choose(const struct settings_flag *flag, const char *text, int *out, struct fault *fault)
{
    const char *at = flag->choices;
    for (int i = 0;; i++) {
        size_t length = strcspn(at, "|");
        if (settings_same(text, strlen(text), at) ||
            (strlen(text) == length && memcmp(text, at, length) == 0)) {
            *out = i;
            return 0;
        }
        if (at[length] == '\0')
            return fault_set(fault, FAULT_USAGE, "--%s %s: give one of %s", flag->name, text, flag->choices);
        at += length + 1;
    }
}

/* settings_store -- put a flag's value where it belongs */
static int settings_store(struct settings *settings, const struct settings_flag *flag, const char *text,
                          struct fault *fault)
{
    void *at = (char *)settings + flag->offset;
    double number = 0.0;
    int choice = 0;
    switch (flag->kind) {
    case SETTINGS_SWITCH: *(bool *)at = true; return 0;
    case SETTINGS_TEXT: *(const char **)at = text; return 0;
    case SETTINGS_COUNT:
        if (settings_number(flag, text, &number, fault) < 0)
            return -1;
        *(uint64_t *)at = (uint64_t)number;
        return 0;
    case SETTINGS_NUMBER: return settings_number(flag, text, at, fault);
    case SETTINGS_CHOICE:
        if (settings_choose(flag, text, &choice, fault) < 0)
            return -1;
        memcpy(at, &choice, sizeof choice);
        return 0;
    }
    return -1;
}

_Static_assert(sizeof(enum exchange_rule) == sizeof(int), "a choice is stored as an int");
_Static_assert(sizeof(enum progress_style) == sizeof(int), "a choice is stored as an int");

/* settings_is_single -- whether argv asks for a run without ps, or for something that is no run at
 * all */
bool settings_is_single(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--single") == 0 || strcmp(argv[i], "--plot") == 0 ||
            strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

/* settings_read -- defaults, and what argv changes in them */
int settings_read(struct settings *settings, int argc, char **argv, struct fault *fault)
{
    *settings = (struct settings){
        .epochs = 8,
        .batch = 32,
        .rate = 0.05,
        .rule = EXCHANGE_MOMENTUM,
        .momentum = 0.9,
        .seed = 1,
        .data = "/usr/share/datasets/fashion-mnist",
        .parts = 1,
    };
    bool parts_given = false;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--plot") == 0) {
            if (argc != 4 || i != 1)
                return fault_set(fault, FAULT_USAGE,
                                 "--plot takes two names and nothing else: --plot RESULT.json PICTURE.svg");
            settings->plot_result = argv[2];
            settings->plot_picture = argv[3];
            return 0;
        }
        const struct settings_flag *flag = settings_find(argv[i], &value);
        if (flag == NULL)
            return fault_set(fault, FAULT_USAGE, "unknown argument %s: --help lists the flags", argv[i]);
        if (flag->kind == SETTINGS_SWITCH && value != NULL)
            return fault_set(fault, FAULT_USAGE, "--%s takes no value: leave out =%s", flag->name, value);
        if (flag->kind != SETTINGS_SWITCH && value == NULL) {
            if (i + 1 == argc)
                return fault_set(fault, FAULT_USAGE, "--%s needs a value: --%s %s", flag->name, flag->name,
                                 flag->value);
            value = argv[++i];
        }
        if (settings_store(settings, flag, value, fault) < 0)
            return -1;
        parts_given = parts_given || flag->offset == SETTINGS_AT(parts);
    }
    if (parts_given && !settings->single)
        return fault_set(fault, FAULT_USAGE,
                         "--parts is for --single; in a job there is one part per worker: leave "
                         "it out, or add --single");
    return 0;
}
