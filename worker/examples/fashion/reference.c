/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/reference.h"

#include <stdlib.h>

struct reference {
    struct exchange exchange;
    struct exchange_recipe recipe;
    uint64_t step;
    unsigned part; /* the one being computed */
    float *values[NETWORK_VARIABLES];
    float *accums[NETWORK_VARIABLES];
    float *means[NETWORK_VARIABLES];
    float **gradients; /* [variable][part] */
    uint32_t *weights; /* [part] */
};

/* reference_mean -- the mean of the parts' gradients, element by element, all in f32, in rank order
 */
void reference_mean(size_t parts, size_t elements, const float *const *gradients, const uint32_t *weights,
                    float *mean)
{
    bool plain = true;
    double sum_of_weights = 0.0; /* exact: integers far below 2^53 */
    for (size_t r = 0; r < parts; r++) {
        plain = plain && weights[r] == 1;
        sum_of_weights += weights[r];
    }
    float divisor = plain ? (float)parts : (float)sum_of_weights;

    for (size_t i = 0; i < elements; i++) {
        float s = plain ? gradients[0][i] : (float)weights[0] * gradients[0][i];
        for (size_t r = 1; r < parts; r++) {
            float g = plain ? gradients[r][i] : (float)weights[r] * gradients[r][i];
            s = s + g;
        }
        mean[i] = s / divisor;
    }
}

/* reference_sgd -- var = var - rate * g */
void reference_sgd(size_t elements, float rate, const float *gradient, float *value)
{
    for (size_t i = 0; i < elements; i++) {
        float change = rate * gradient[i];
        value[i] = value[i] - change;
    }
}

/* reference_momentum -- accum = momentum * accum + g; var = var - rate * accum */
void reference_momentum(size_t elements, float rate, float momentum, const float *gradient, float *accum,
                        float *value)
{
    for (size_t i = 0; i < elements; i++) {
        float kept = momentum * accum[i];
        accum[i] = kept + gradient[i];
        float change = rate * accum[i];
        value[i] = value[i] - change;
    }
}

/* reference_of -- the reference that an exchange is the first member of */
static struct reference *reference_of(struct exchange *exchange)
{
    return (struct reference *)exchange;
}

/* reference_begin -- a step begins when the last part of the one before was finished */
static int reference_begin(struct exchange *exchange, uint64_t *step)
{
    *step = reference_of(exchange)->step;
    return 0;
}

/* reference_parameter -- values change in finish of the last part only */
static int reference_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    *value = reference_of(exchange)->values[variable];
    return 0;
}

/* reference_gradient -- each part has gradients of its own */
static int reference_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    struct reference *reference = reference_of(exchange);
    *value = reference->gradients[variable * exchange->parts + reference->part];
    return 0;
}

/* reference_push -- nothing to move */
static int reference_push(struct exchange *exchange, unsigned variable)
{
    (void)exchange;
    (void)variable;
    return 0;
}

/* reference_apply -- one update of all variables from the gradients of all parts */
static void reference_apply(struct reference *reference)
{
    const struct network_variable *variables = network_variables();
    size_t parts = reference->exchange.parts;
    float rate = schedule_rate(&reference->recipe.schedule, reference->step);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        size_t n = variables[v].elements;
        reference_mean(parts, n, (const float *const *)&reference->gradients[v * parts], reference->weights,
                       reference->means[v]);
        if (reference->recipe.rule == EXCHANGE_MOMENTUM)
            reference_momentum(n, rate, (float)reference->recipe.momentum, reference->means[v],
                               reference->accums[v], reference->values[v]);
        else
            reference_sgd(n, rate, reference->means[v], reference->values[v]);
    }
}

/* reference_finish -- the last part completes the step */
static int reference_finish(struct exchange *exchange, uint32_t weight)
{
    struct reference *reference = reference_of(exchange);
    reference->weights[reference->part++] = weight;
    if (reference->part < exchange->parts)
        return 0;
    reference_apply(reference);
    reference->part = 0;
    reference->step++;
    return 0;
}

/* reference_leave -- nobody to leave */
static int reference_leave(struct exchange *exchange)
{
    (void)exchange;
    return 0;
}

/* reference_close -- free everything */
static void reference_close(struct exchange *exchange)
{
    struct reference *reference = reference_of(exchange);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        free(reference->values[v]);
        free(reference->accums[v]);
        free(reference->means[v]);
        for (unsigned r = 0; reference->gradients != NULL && r < exchange->parts; r++)
            free(reference->gradients[v * exchange->parts + r]);
    }
    free(reference->gradients);
    free(reference->weights);
    free(reference);
}

static const struct exchange_operations reference_operations = {
    .begin = reference_begin,
    .parameter = reference_parameter,
    .gradient = reference_gradient,
    .push = reference_push,
    .finish = reference_finish,
    .leave = reference_leave,
    .close = reference_close,
};

/* reference_take -- all memory a reference needs; false where some was refused */
static bool reference_take(struct reference *reference)
{
    const struct network_variable *variables = network_variables();
    size_t parts = reference->exchange.parts;
    reference->gradients = calloc(parts * NETWORK_VARIABLES, sizeof *reference->gradients);
    reference->weights = calloc(parts, sizeof *reference->weights);
    if (reference->gradients == NULL || reference->weights == NULL)
        return false;
    bool all = true;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        size_t n = variables[v].elements;
        all = (reference->values[v] = calloc(n, sizeof(float))) != NULL && all;
        all = (reference->accums[v] = calloc(n, sizeof(float))) != NULL && all;
        all = (reference->means[v] = calloc(n, sizeof(float))) != NULL && all;
        for (size_t r = 0; r < parts; r++)
            all = (reference->gradients[v * parts + r] = calloc(n, sizeof(float))) != NULL && all;
    }
    return all;
}

/* reference_new -- an exchange of one process that computes all parts; NULL with the fault set */
struct exchange *reference_new(const struct exchange_recipe *recipe, unsigned parts, struct fault *fault)
{
    struct reference *reference = calloc(1, sizeof *reference);
    if (reference == NULL) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the network's variables");
        return NULL;
    }
    reference->recipe = *recipe;
    reference->exchange = (struct exchange){
        .operations = &reference_operations,
        .transport = "single",
        .workers = 1,
        .parts = parts,
        .count = parts,
        .fault = fault,
    };
    if (!reference_take(reference)) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the gradients of %u parts: give fewer --parts",
                  parts);
        reference_close(&reference->exchange);
        return NULL;
    }
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        network_initial(v, recipe->seed, reference->values[v]);
    return &reference->exchange;
}
