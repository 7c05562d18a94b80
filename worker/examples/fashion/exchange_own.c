/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange_own.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct exchange_own {
    struct exchange exchange;
    struct exchange *within;
    struct schedule schedule;
    struct values values;
    uint64_t step; /* that they are of */
    bool started;
};

/* exchange_own_of -- what an exchange is the first member of */
static struct exchange_own *exchange_own_of(struct exchange *exchange)
{
    return (struct exchange_own *)exchange;
}

/* exchange_own_take -- before the first step there is no mean yet: what a pull gives are the initial values */
static int exchange_own_take(struct exchange_own *self)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        const float *value;
        if (self->within->operations->parameter(self->within, v, &value) < 0)
            return -1;
        memcpy(self->values.of[v], value, network_variables()[v].elements * sizeof *value);
    }
    self->started = true;
    return 0;
}

/* exchange_own_apply -- the mean of the step before */
static int exchange_own_apply(struct exchange_own *self)
{
    float rate = schedule_rate(&self->schedule, self->step);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        const float *mean;
        float *value = self->values.of[v];
        if (self->within->operations->parameter(self->within, v, &mean) < 0)
            return -1;
        for (uint64_t i = 0; i < network_variables()[v].elements; i++) {
            float change = rate * mean[i];
            value[i] = value[i] - change;
        }
    }
    self->step++;
    return 0;
}

/* exchange_own_begin -- parameters follow the step */
static int exchange_own_begin(struct exchange *exchange, struct exchange_step *step)
{
    struct exchange_own *self = exchange_own_of(exchange);
    if (self->within->operations->begin(self->within, step) < 0)
        return -1;
    if (!self->started && step->step == 0)
        return exchange_own_take(self);
    if (step->step == self->step)
        return 0;
    if (!self->started || step->step != self->step + 1)
        return fault_set(exchange->fault, FAULT_PERMANENT,
                         "step %" PRIu64 " follows step %" PRIu64 ", so a mean is missing: with --optimizer "
                         "none train from the beginning to the end",
                         step->step, self->step);
    return exchange_own_apply(self);
}

/* exchange_own_parameter -- its own */
static int exchange_own_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    *value = exchange_own_of(exchange)->values.of[variable];
    return 0;
}

/* exchange_own_gradient -- as within, as all that follow */
static int exchange_own_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->gradient(within, variable, value);
}

/* exchange_own_push */
static int exchange_own_push(struct exchange *exchange, unsigned variable)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->push(within, variable);
}

/* exchange_own_finish */
static int exchange_own_finish(struct exchange *exchange, uint32_t weight)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->finish(within, weight);
}

/* exchange_own_settle */
static int exchange_own_settle(struct exchange *exchange)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->settle(within);
}

/* exchange_own_copy -- there are no averages: nobody asks for them */
static int exchange_own_copy(struct exchange *exchange, enum exchange_what what, struct values *out,
                             uint64_t *step)
{
    struct exchange_own *self = exchange_own_of(exchange);
    (void)what;
    values_copy(out, &self->values);
    *step = self->step;
    return 0;
}

/* exchange_own_counts -- as within */
static int exchange_own_counts(struct exchange *exchange, unsigned worker, struct exchange_counts *out)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->counts(within, worker, out);
}

/* exchange_own_leave -- as within */
static int exchange_own_leave(struct exchange *exchange)
{
    struct exchange *within = exchange_own_of(exchange)->within;
    return within->operations->leave(within);
}

/* exchange_own_close -- both */
static void exchange_own_close(struct exchange *exchange)
{
    struct exchange_own *self = exchange_own_of(exchange);
    self->within->operations->close(self->within);
    values_clear(&self->values);
    free(self);
}

static const struct exchange_operations exchange_own_operations = {
    .begin = exchange_own_begin,
    .parameter = exchange_own_parameter,
    .gradient = exchange_own_gradient,
    .push = exchange_own_push,
    .finish = exchange_own_finish,
    .settle = exchange_own_settle,
    .copy = exchange_own_copy,
    .counts = exchange_own_counts,
    .leave = exchange_own_leave,
    .close = exchange_own_close,
};

/* exchange_own_new -- around an exchange whose optimizer is none */
struct exchange *exchange_own_new(struct exchange *within, const struct schedule *schedule)
{
    struct exchange_own *self = calloc(1, sizeof *self);
    if (self == NULL || !values_take(&self->values)) {
        fault_set(within->fault, FAULT_PERMANENT, "no memory for parameters of the trainer's own");
        if (self != NULL)
            values_clear(&self->values);
        free(self);
        return NULL;
    }
    self->exchange = *within;
    self->exchange.operations = &exchange_own_operations;
    self->within = within;
    self->schedule = *schedule;
    return &self->exchange;
}
