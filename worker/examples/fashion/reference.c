/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "worker/examples/fashion/average.h"
#include "worker/examples/fashion/mean.h"
#include "worker/examples/fashion/norm.h"
#include "worker/examples/fashion/optimizer.h"

/* reference_part -- one contribution to the step */
struct reference_part {
    struct values gradient;
    double weight;
    double norm; /* squared; 0 without clip_norm */
    bool finite; /* true where nobody asks */
};

struct reference {
    struct exchange exchange;
    struct recipe recipe;
    struct optimizer optimizer;
    uint64_t step;
    unsigned part;         /* the one being computed */
    struct values values;  /* in f32, whatever is shown */
    struct values shown;   /* rounded to the type of parameters */
    struct values mean;    /* of the step before */
    struct values slot[2]; /* a and s of optimizer.h */
    struct values average;
    struct reference_part *parts;
    struct exchange_counts counts;
};

/* reference_of -- the reference that an exchange is the first member of */
static struct reference *reference_of(struct exchange *exchange)
{
    return (struct reference *)exchange;
}

/* reference_begin -- a step begins when the last part of the one before was finished */
static int reference_begin(struct exchange *exchange, struct exchange_step *step)
{
    *step = (struct exchange_step){.step = reference_of(exchange)->step};
    return 0;
}

/* reference_parameter -- values change in finish of the last part only */
static int reference_parameter(struct exchange *exchange, unsigned variable, const float **value)
{
    *value = reference_of(exchange)->shown.of[variable];
    return 0;
}

/* reference_gradient -- each part has gradients of its own */
static int reference_gradient(struct exchange *exchange, unsigned variable, float **value)
{
    struct reference *reference = reference_of(exchange);
    *value = reference->parts[reference->part].gradient.of[variable];
    return 0;
}

/* reference_push -- round it as if it were sent */
static int reference_push(struct exchange *exchange, unsigned variable)
{
    struct reference *reference = reference_of(exchange);
    dtype_round(reference->recipe.dtype, reference->parts[reference->part].gradient.of[variable],
                network_variables()[variable].elements);
    return 0;
}

/* reference_look -- at a gradient that is complete */
static void reference_look(const struct recipe *recipe, struct reference_part *part)
{
    const struct network_variable *variables = network_variables();
    part->norm = 0.0;
    part->finite = true;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        if (recipe->clip_norm > 0.0)
            part->norm += norm_plain(part->gradient.of[v], variables[v].elements);
        for (uint64_t i = 0; recipe->non_finite != RECIPE_PROPAGATE && i < variables[v].elements; i++)
            part->finite = part->finite && isfinite(part->gradient.of[v][i]);
    }
}

/* reference_choose -- the parts that count; 0: nothing is applied, -1: the fault is set */
static int reference_choose(struct reference *reference, const struct reference_part **chosen)
{
    int count = 0;
    bool skip = false;
    for (unsigned r = 0; r < reference->exchange.share.parts; r++) {
        const struct reference_part *part = &reference->parts[r];
        if (part->finite) {
            chosen[count++] = part;
            continue;
        }
        if (reference->recipe.non_finite == RECIPE_FAIL)
            return fault_set(reference->exchange.fault, FAULT_PERMANENT,
                             "part %u of step %" PRIu64 " has an infinity or a NaN in its gradient: look at "
                             "the data and the learning rate; --non-finite drop or skip goes on without it",
                             r, reference->step);
        reference->counts.non_finite++;
        skip = reference->recipe.non_finite == RECIPE_SKIP;
    }
    if (skip)
        return 0;
    reference->counts.accepted += (uint64_t)count;
    return count;
}

/* reference_mean -- of all variables */
static void reference_mean(struct reference *reference, const struct reference_part *const *chosen,
                           size_t count)
{
    const float *gradients[count];
    float factors[count];
    bool plain = true;
    double divisor = 0.0;
    for (size_t c = 0; c < count; c++) {
        double limit = reference->recipe.clip_norm;
        double scale = limit > 0.0 ? norm_scale(chosen[c]->norm, limit) : 1.0;
        factors[c] = (float)(chosen[c]->weight * scale);
        plain = plain && factors[c] == 1.0F;
        divisor += chosen[c]->weight;
    }
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        for (size_t c = 0; c < count; c++)
            gradients[c] = chosen[c]->gradient.of[v];
        mean_of(count, network_variables()[v].elements, gradients, plain ? NULL : factors, divisor,
                reference->mean.of[v]);
    }
}

/* reference_scale -- the mean down to the norm that is allowed over all variables */
static void reference_scale(struct reference *reference)
{
    const struct network_variable *variables = network_variables();
    struct fsum squares = {0};
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        norm_exact(&squares, reference->mean.of[v], variables[v].elements);
    double sum = fsum_round(&squares);
    float scale = isfinite(sum) ? (float)norm_scale(sum, reference->recipe.clip_global_norm) : NAN;
    if (scale == 1.0F)
        return;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        for (uint64_t i = 0; i < variables[v].elements; i++)
            reference->mean.of[v][i] = scale * reference->mean.of[v][i];
}

/* reference_clip -- each element; NaN stays */
static void reference_clip(float limit, float *g, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (g[i] > limit)
            g[i] = limit;
        else if (g[i] < -limit)
            g[i] = -limit;
    }
}

/* reference_decay -- g += l2 * v */
static void reference_decay(float l2, const float *v, float *g, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float more = l2 * v[i];
        g[i] = g[i] + more;
    }
}

/* reference_update -- one variable, whose mean is there */
static void reference_update(struct reference *reference, const struct optimizer_scalars *scalars, unsigned v)
{
    const struct recipe *recipe = &reference->recipe;
    uint64_t n = network_variables()[v].elements;
    float *g = reference->mean.of[v], *value = reference->values.of[v];
    if ((float)recipe->clip_value > 0.0F)
        reference_clip((float)recipe->clip_value, g, n);
    if ((float)recipe->l2_decay > 0.0F)
        reference_decay((float)recipe->l2_decay, value, g, n);
    optimizer_apply(recipe, scalars, g, value, reference->slot[0].of[v], reference->slot[1].of[v], n);
    if (recipe->average_decay > 0.0)
        average_apply(average_rate(recipe->average_decay, reference->step), value, reference->average.of[v],
                      n);
    dtype_narrow(DTYPE_F32, value, reference->shown.of[v], n);
    dtype_round(recipe->dtype, reference->shown.of[v], n);
}

/* reference_apply -- one update of all variables from the gradients of all parts */
static int reference_apply(struct reference *reference)
{
    const struct reference_part *chosen[reference->exchange.share.parts];
    int count = reference_choose(reference, chosen);
    if (count <= 0)
        return count;
    reference_mean(reference, chosen, (size_t)count);
    if (reference->recipe.clip_global_norm > 0.0)
        reference_scale(reference);
    struct optimizer_scalars scalars = optimizer_at(&reference->optimizer, reference->step);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        reference_update(reference, &scalars, v);
    optimizer_next(&reference->optimizer);
    return 0;
}

/* reference_finish -- the last part completes the step */
static int reference_finish(struct exchange *exchange, uint32_t weight)
{
    struct reference *reference = reference_of(exchange);
    struct reference_part *part = &reference->parts[reference->part];
    part->weight = weight;
    reference_look(&reference->recipe, part);
    if (++reference->part < exchange->share.parts)
        return 0;
    if (reference_apply(reference) < 0)
        return -1;
    reference->part = 0;
    reference->step++;
    return 0;
}

/* reference_alone -- nobody to wait for */
static int reference_alone(struct exchange *exchange)
{
    (void)exchange;
    return 0;
}

/* reference_copy -- of the step that was begun last */
static int reference_copy(struct exchange *exchange, enum exchange_what what, struct values *out,
                          uint64_t *step)
{
    struct reference *reference = reference_of(exchange);
    values_copy(out, what == EXCHANGE_AVERAGES ? &reference->average : &reference->shown);
    *step = reference->step;
    return 0;
}

/* reference_counts -- of all parts together: there is one worker */
static int reference_counts(struct exchange *exchange, unsigned worker, struct exchange_counts *out)
{
    (void)worker;
    *out = reference_of(exchange)->counts;
    return 0;
}

/* reference_close -- free everything */
static void reference_close(struct exchange *exchange)
{
    struct reference *reference = reference_of(exchange);
    for (unsigned r = 0; reference->parts != NULL && r < exchange->share.parts; r++)
        values_clear(&reference->parts[r].gradient);
    free(reference->parts);
    values_clear(&reference->values);
    values_clear(&reference->shown);
    values_clear(&reference->mean);
    values_clear(&reference->slot[0]);
    values_clear(&reference->slot[1]);
    values_clear(&reference->average);
    free(reference);
}

static const struct exchange_operations reference_operations = {
    .begin = reference_begin,
    .parameter = reference_parameter,
    .gradient = reference_gradient,
    .push = reference_push,
    .finish = reference_finish,
    .settle = reference_alone,
    .copy = reference_copy,
    .counts = reference_counts,
    .leave = reference_alone,
    .close = reference_close,
};

/* reference_take -- all memory a reference needs; false where some was refused */
static bool reference_take(struct reference *reference)
{
    unsigned parts = reference->exchange.share.parts;
    reference->parts = calloc(parts, sizeof *reference->parts);
    bool all = reference->parts != NULL;
    for (unsigned r = 0; all && r < parts; r++)
        all = values_take(&reference->parts[r].gradient);
    return all && values_take(&reference->values) && values_take(&reference->shown) &&
           values_take(&reference->mean) && values_take(&reference->slot[0]) &&
           values_take(&reference->slot[1]) && values_take(&reference->average);
}

/* reference_new -- an exchange of one process that computes all parts of each step */
struct exchange *reference_new(const struct recipe *recipe, unsigned parts, struct fault *fault)
{
    struct reference *reference = calloc(1, sizeof *reference);
    if (reference == NULL) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the network's variables");
        return NULL;
    }
    reference->recipe = *recipe;
    reference->optimizer = optimizer_start(&reference->recipe);
    reference->exchange = (struct exchange){
        .operations = &reference_operations,
        .transport = "single",
        .workers = 1,
        .share = share_of(parts, 1, 0),
        .fault = fault,
    };
    if (!reference_take(reference)) {
        fault_set(fault, FAULT_PERMANENT, "no memory for the gradients of %u parts: give fewer --parts",
                  parts);
        reference_close(&reference->exchange);
        return NULL;
    }
    values_initial(&reference->values, recipe->seed, recipe->dtype);
    values_copy(&reference->shown, &reference->values);
    values_copy(&reference->average, &reference->values);
    for (unsigned slot = 0; slot < 2; slot++)
        values_fill(&reference->slot[slot], optimizer_initial(recipe, slot));
    return &reference->exchange;
}
