/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/examples/fashion/text.h"

enum settings_kind {
    SETTINGS_SWITCH,
    SETTINGS_COUNT,
    SETTINGS_NUMBER,
    SETTINGS_TEXT,
    SETTINGS_CHOICE,
    SETTINGS_UPDATE,
    SETTINGS_SCHEDULE,
    SETTINGS_STRAGGLE
};

/* settings_flag -- a row of the table that both the parser and --help are made from */
struct settings_flag {
    const char *name;
    const char *value; /* how --help calls it; NULL for a switch */
    enum settings_kind kind;
    size_t offset; /* in struct settings */
    double low;    /* least value of a count or number */
    double high;
    const char *choices; /* separated by |; of a choice the place in it is the enum's value */
    const char *help;
};

#define SETTINGS_AT(member_) offsetof(struct settings, member_)

#define SETTINGS_BELOW_1 0.9999999999

static const struct settings_flag flags[] = {
    {"epochs", "N", SETTINGS_COUNT, SETTINGS_AT(epochs), 1, 1e6, NULL, "passes over the training images (8)"},
    {"images", "N", SETTINGS_COUNT, SETTINGS_AT(images), 1, 1e9, NULL,
     "use only the first N training images (all)"},
    {"test-images", "N", SETTINGS_COUNT, SETTINGS_AT(test_images), 1, 1e9, NULL,
     "judge on the first N test images only (all)"},
    {"batch", "N", SETTINGS_COUNT, SETTINGS_AT(batch), 1, 65536, NULL, "images per worker and step (32)"},
    {"uneven", NULL, SETTINGS_SWITCH, SETTINGS_AT(uneven), 0, 0, NULL,
     "cut each global batch into parts of unequal size"},
    {"seed", "N", SETTINGS_COUNT, SETTINGS_AT(recipe.seed), 0, 9e15, NULL,
     "of initial values and batches (1)"},
    {"update", "HOW", SETTINGS_UPDATE, 0, 0, 0, "strict|tf|async|bounded:S",
     "strict, tf (as TensorFlow), async, or bounded:S (nobody gets more than S contributions ahead of the "
     "slowest) (strict)"},
    {"replicas-to-aggregate", "R", SETTINGS_COUNT, SETTINGS_AT(recipe.replicas), 1, 65536, NULL,
     "contributions that make a step: fewer than there are workers, or more (as many)"},
    {"initial-tokens", "N", SETTINGS_COUNT, SETTINGS_AT(recipe.initial_tokens), 0, 65536, NULL,
     "with --update tf: tokens before the first step (R)"},
    {"non-finite", "WHAT", SETTINGS_CHOICE, SETTINGS_AT(recipe.non_finite), 0, 0, RECIPE_NON_FINITES,
     "of a gradient with an infinity or NaN: propagate it, drop it, fail, or skip the step (propagate); when "
     "no loss of 10 steps was a number, or a parameter is none, training ends with status 1 in any case"},
    {"dtype", "TYPE", SETTINGS_CHOICE, SETTINGS_AT(recipe.dtype), 0, 0, "f32|f16|bf16",
     "of parameters and gradients: f32, f16 or bf16 (f32)"},
    {"optimizer", "NAME", SETTINGS_CHOICE, SETTINGS_AT(recipe.optimizer), 0, 0, RECIPE_OPTIMIZERS,
     "none (the trainer applies the mean itself, as sgd), sgd, momentum, nesterov, adagrad, rmsprop, adam or "
     "adamw (momentum)"},
    {"formula", "WHOSE", SETTINGS_CHOICE, SETTINGS_AT(recipe.formula), 0, 0, RECIPE_FORMULAS,
     "of the optimizer: tf or torch, which differ in all but sgd and momentum (tf)"},
    {"lr", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.schedule.rate), 0, 1e6, NULL,
     "learning rate of the first step (0.05; adagrad 0.01; rmsprop, adam, adamw 0.001)"},
    {"lr-schedule", "SHAPE", SETTINGS_SCHEDULE, 0, 0, 0,
     "constant|linear|exponential:FACTOR:STEPS[:staircase]|cosine[:END]",
     "constant, linear (falls to 0 in a straight line), exponential:FACTOR:STEPS[:staircase], or "
     "cosine[:END] "
     "(linear)"},
    {"constant", NULL, SETTINGS_SWITCH, SETTINGS_AT(constant), 0, 0, NULL,
     "the same as --lr-schedule constant"},
    {"warmup", "N", SETTINGS_COUNT, SETTINGS_AT(recipe.schedule.warmup), 0, 1e12, NULL,
     "let the learning rate rise in the first N steps (0)"},
    {"momentum", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.momentum), 0, 1, NULL,
     "of momentum and nesterov (0.9), and of rmsprop (0)"},
    {"rho", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.rho), 0, 1, NULL, "of rmsprop (0.9; torch 0.99)"},
    {"epsilon", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.epsilon), 0, 1e30, NULL,
     "of rmsprop (1e-10; torch 1e-8), adam and adamw (1e-8), adagrad of torch (1e-10)"},
    {"beta1", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.beta1), 0, SETTINGS_BELOW_1, NULL,
     "of adam and adamw (0.9)"},
    {"beta2", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.beta2), 0, SETTINGS_BELOW_1, NULL,
     "of adam and adamw (0.999)"},
    {"weight-decay", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.weight_decay), 0, 1e30, NULL,
     "of adamw, apart from the gradient (0.01)"},
    {"l2-decay", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.l2_decay), 0, 1e30, NULL,
     "add so much of each parameter to its gradient (0)"},
    {"ema", "D", SETTINGS_NUMBER, SETTINGS_AT(recipe.average_decay), 0, SETTINGS_BELOW_1, NULL,
     "keep moving averages with a decay of min(D, (1 + n) / (10 + n)) in step n, and judge them too (none)"},
    {"clip-norm", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.clip_global_norm), 0, 1e30, NULL,
     "scale the mean gradient down to this norm over all parameters (off)"},
    {"clip-worker-norm", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.clip_norm), 0, 1e30, NULL,
     "scale each worker's gradient down to this norm (off)"},
    {"clip-value", "X", SETTINGS_NUMBER, SETTINGS_AT(recipe.clip_value), 0, 1e30, NULL,
     "clip each element of the mean gradient to -X ... X (off)"},
    {"straggle", "P:MS", SETTINGS_STRAGGLE, SETTINGS_AT(straggle), 0, 0, NULL,
     "with probability P a worker sleeps MS milliseconds in a step (0:0)"},
    {"evaluate-every", "N", SETTINGS_COUNT, SETTINGS_AT(evaluate_every), 1, 1e12, NULL,
     "judge beside the training, after every N steps, and print a line each; steps that pass while it still "
     "judges are left out (never)"},
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
        printf("  %-28s %s\n", left, flags[i].help);
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
    double number;
    uint64_t count;
    bool read = text_number(text, &number) && (flag->kind != SETTINGS_COUNT || text_count(text, &count));
    if (!read || number < flag->low || number > flag->high)
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

/* settings_form -- what is said of a value in parts that is not as it should be */
static int settings_form(const struct settings_flag *flag, const char *text, struct fault *fault)
{
    if (flag->kind == SETTINGS_STRAGGLE)
        return fault_set(fault, FAULT_USAGE,
                         "--straggle %s: give a probability from 0 to 1 and milliseconds, at most an hour: "
                         "--straggle 0.1:50",
                         text);
    return fault_set(fault, FAULT_USAGE, "--%s %s: give one of %s", flag->name, text, flag->choices);
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
    case SETTINGS_UPDATE:
        return recipe_read_update(text, &settings->recipe) ? 0 : settings_form(flag, text, fault);
    case SETTINGS_SCHEDULE:
        return schedule_read(text, &settings->recipe.schedule) ? 0 : settings_form(flag, text, fault);
    case SETTINGS_STRAGGLE: return straggle_read(text, at) ? 0 : settings_form(flag, text, fault);
    }
    return -1;
}

_Static_assert(sizeof(enum recipe_optimizer) == sizeof(int) && sizeof(enum recipe_formula) == sizeof(int) &&
                   sizeof(enum recipe_non_finite) == sizeof(int) && sizeof(enum dtype) == sizeof(int) &&
                   sizeof(enum progress_style) == sizeof(int),
               "a choice is stored as an int");

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

/* settings_given -- which of the flags that contradict others were there */
struct settings_given {
    bool parts;
    bool schedule;
};

/* settings_check_single -- what only a job has */
static int settings_check_single(const struct settings *settings, struct fault *fault)
{
    if (settings->straggle.probability > 0.0)
        return fault_set(fault, FAULT_USAGE,
                         "--straggle is for the workers of a job: leave it out, or --single");
    if (settings->evaluate_every > 0)
        return fault_set(fault, FAULT_USAGE,
                         "--evaluate-every watches a job, and --single has none: leave one of them out");
    return recipe_check_workers(&settings->recipe, (unsigned)settings->parts, true, fault);
}

/* settings_check -- what no flag alone can see */
static int settings_check(struct settings *settings, const struct settings_given *given, struct fault *fault)
{
    if (given->parts && !settings->single)
        return fault_set(fault, FAULT_USAGE,
                         "--parts is for --single; in a job there is one part per worker: leave "
                         "it out, or add --single");
    if (given->schedule && settings->constant)
        return fault_set(fault, FAULT_USAGE,
                         "--constant and --lr-schedule are about the same: give one of them");
    if (settings->evaluate_every > 0 && settings->recipe.optimizer == RECIPE_NONE)
        return fault_set(
            fault, FAULT_USAGE,
            "--evaluate-every reads parameters from the ps, which have none with --optimizer none: "
            "leave one of them out");
    if (settings->constant)
        settings->recipe.schedule.shape = SCHEDULE_CONSTANT;
    if (recipe_check(&settings->recipe, fault) < 0)
        return -1;
    return settings->single ? settings_check_single(settings, fault) : 0;
}

/* settings_defaults -- before argv */
static struct settings settings_defaults(void)
{
    return (struct settings){
        .epochs = 8,
        .batch = 32,
        .recipe =
            {
                .initial_tokens = RECIPE_NO_TOKENS,
                .optimizer = RECIPE_MOMENTUM,
                .schedule = {.shape = SCHEDULE_LINEAR, .rate = NAN},
                .momentum = NAN,
                .rho = NAN,
                .epsilon = NAN,
                .beta1 = NAN,
                .beta2 = NAN,
                .weight_decay = NAN,
                .seed = 1,
            },
        .data = "/usr/share/datasets/fashion-mnist",
        .parts = 1,
    };
}

/* settings_plot -- the two names of --plot */
static int settings_plot(struct settings *settings, int argc, char **argv, int at, struct fault *fault)
{
    if (argc != 4 || at != 1)
        return fault_set(fault, FAULT_USAGE,
                         "--plot takes two names and nothing else: --plot RESULT.json PICTURE.svg");
    settings->plot_result = argv[2];
    settings->plot_picture = argv[3];
    return 0;
}

/* settings_read -- defaults, and what argv changes in them */
int settings_read(struct settings *settings, int argc, char **argv, struct fault *fault)
{
    struct settings_given given = {0};
    *settings = settings_defaults();
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--plot") == 0)
            return settings_plot(settings, argc, argv, i, fault);
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
        given.parts = given.parts || (flag->kind == SETTINGS_COUNT && flag->offset == SETTINGS_AT(parts));
        given.schedule = given.schedule || flag->kind == SETTINGS_SCHEDULE;
    }
    return settings_check(settings, &given, fault);
}
