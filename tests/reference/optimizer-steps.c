/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * optimizer-steps [KEY=VALUE...] -- prints a training of one variable with the model's keys, for a comparison with another program.
 *
 * One line each, all numbers as hexadecimal floats: `gradient K ...`, then `var K+1 ...` and each slot, `NAME K+1 ...`, for the steps
 * K = 0, 1, ...; the lines with the number 0 are the state before the first step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ps/optimizer/hyper.h"
#include "ps/optimizer/rule.h"
#include "ps/protocol/model.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define STEPS 100
#define ELEMENTS 257
#define SEED 20240605

static float gradient[ELEMENTS], var[ELEMENTS], slots[OPTIMIZER_SLOTS_MAX][ELEMENTS];

/* print -- one line. */
static void print(const char *name, unsigned step, const float *values)
{
    printf("%s %u", name, step);
    for (size_t i = 0; i < ELEMENTS; i++)
        printf(" %a", (double)values[i]);
    printf("\n");
}

/* print_state -- the variable and its slots. */
static void print_state(const struct optimizer_rule *rule, unsigned step)
{
    print("var", step, var);
    for (unsigned s = 0; s < rule->slots; s++)
        print(rule->slot_names[s], step, slots[s]);
}

/* unit -- a number in [-1, 1). */
static float unit(struct random_source *random)
{
    return (float)random_below(random, 1u << 24) / 8388608.0f - 1.0f;
}

/* any_gradient -- 0, or of a size from 0.125 to 4: l2 changes it little, so that sums of the two lose no bits. */
static float any_gradient(struct random_source *random)
{
    float size = 0.125f + (unit(random) + 1.0f) * (random_below(random, 4) == 0 ? 1.9f : 0.1f);

    return random_below(random, 16) == 0 ? 0 : random_below(random, 2) == 0 ? size : -size;
}

/* model_of_arguments -- a checked model, or an error. */
static int model_of_arguments(char **arguments, struct model **out)
{
    struct model *model;
    const uint64_t dims[1] = {ELEMENTS};
    int status = model_new("steps", &model);

    if (status != 0)
        return status;
    status = model_add(model, "var", STEPGATE_TRAINED, STEPGATE_F32, 1, dims);
    for (char **one = arguments; *one != NULL && status >= 0; one++) {
        char *value = strchr(*one, '=');
        if (value == NULL) {
            status = error_set(STEPGATE_EINVAL, 0, "", "%s is not KEY=VALUE", *one);
            break;
        }
        *value = 0;
        status = model_set(model, *one, value + 1);
    }
    if (status >= 0)
        status = model_check_keys(model);
    if (status != 0) {
        model_delete(&model);
        return status;
    }
    *out = model;
    return 0;
}

/* train -- and print. */
static void train(const struct model *model)
{
    const struct optimizer_rule *rule = optimizer_rule(model->optimizer, model->torch);
    const struct optimizer_variable options = {1, true};
    struct optimizer_powers powers;
    struct random_source random;
    float *arrays[OPTIMIZER_SLOTS_MAX] = {slots[0], slots[1]};

    random_seed(&random, SEED);
    for (size_t i = 0; i < ELEMENTS; i++) {
        var[i] = unit(&random);
        for (unsigned s = 0; s < rule->slots; s++)
            slots[s][i] = (float)optimizer_slot_initial(rule, s, model->initial_accumulator);
    }
    print_state(rule, 0);
    optimizer_powers_start(model, &powers);
    for (unsigned step = 0; step < STEPS; step++) {
        struct optimizer_hyper hyper;
        for (size_t i = 0; i < ELEMENTS; i++)
            gradient[i] = any_gradient(&random);
        print("gradient", step, gradient);
        optimizer_hyper_at(model, step, &powers, &hyper);
        optimizer_apply_f32(rule, &options, &hyper, gradient, var, var, arrays, NULL, ELEMENTS);
        optimizer_powers_next(model, &powers);
        print_state(rule, step + 1);
    }
}

int main(int count, char **arguments)
{
    struct model *model;

    (void)count;
    if (model_of_arguments(arguments + 1, &model) != 0) {
        struct stepgate_error error;
        error_save(&error);
        fprintf(stderr, "optimizer-steps: %s\n", error.text);
        return 2;
    }
    train(model);
    model_delete(&model);
    return ferror(stdout) || fflush(stdout) != 0 ? 1 : 0;
}
