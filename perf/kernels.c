/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ps/optimizer/number.h"

#define KERNELS_CACHE_BYTES ((size_t)32 << 20) /* as a ps has it */

struct kernels_job {
    struct kernels *kernels;
    enum kernels_what what;
    size_t slots;
    const struct stream_kernel *stream;
};

/* A read must not be left out: what it sums goes here. */
static volatile float kernels_sink;

/* kernels_rule -- of a name; NULL: there is none. */
static const struct optimizer_rule *kernels_rule(const char *name)
{
    const struct optimizer_rule *rule;

    for (int i = 1; (rule = optimizer_rule(i, false)) != NULL; i++)
        if (strcmp(rule->name, name) == 0)
            return rule;
    return NULL;
}

/* kernels_new -- see kernels.h. */
int kernels_new(struct kernels *k, const char *optimizer, const char *kind, size_t slots, size_t n,
                enum memory_pages pages, char *text, size_t bytes)
{
    *k = (struct kernels){.memory.pages = pages, .n = n / STREAM_UNIT * STREAM_UNIT, .slot_count = slots};
    k->rule = kernels_rule(optimizer);
    if (k->rule == NULL) {
        snprintf(
            text, bytes,
            "there is no optimizer %s: give sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw or none",
            optimizer);
        return -1;
    }
    int found = optimizer_kind_of(kind);
    if (found < 0) {
        snprintf(text, bytes, "this processor has no %s: give --kernels auto", kind);
        return -1;
    }
    k->kind = (enum optimizer_kind)found;
    if (k->n == 0 || slots > KERNELS_SLOTS_MAX) {
        snprintf(text, bytes,
                 "%zu parameters and %zu slots cannot be measured: give at least %d and at most %d", n, slots,
                 STREAM_UNIT, KERNELS_SLOTS_MAX);
        return -1;
    }
    k->none = kernels_rule("none");
    k->stream_stores = k->n * sizeof(float) > KERNELS_CACHE_BYTES;
    k->hyper.in_f32 = (struct optimizer_scalars_f32){.rate = 0.01f,
                                                     .momentum = 0.9f,
                                                     .rho = 0.9f,
                                                     .beta1 = 0.9f,
                                                     .beta2 = 0.999f,
                                                     .epsilon = 1e-8f,
                                                     .one_minus_rho = 0.1f,
                                                     .one_minus_beta1 = 0.1f,
                                                     .one_minus_beta2 = 0.001f,
                                                     .alpha = 0.01f,
                                                     .root2 = 0.03f,
                                                     .scale = 1};
    float **arrays[KERNELS_SLOTS_MAX + 8];
    size_t count = 0;
    for (size_t i = 0; i < slots; i++)
        arrays[count++] = (float **)&k->slots[i];
    arrays[count++] = &k->parameters[0];
    arrays[count++] = &k->parameters[1];
    for (unsigned s = 0; s < k->rule->slots; s++)
        arrays[count++] = &k->state[s];
    arrays[count++] = &k->stream.a;
    arrays[count++] = &k->stream.b;
    arrays[count++] = &k->stream.c;
    for (size_t i = 0; i < count; i++) {
        *arrays[i] = memory_array(&k->memory, k->n, text, bytes);
        if (*arrays[i] == NULL) {
            kernels_free(k);
            return -1;
        }
    }
    for (unsigned s = 0; s < k->rule->slots; s++)
        for (size_t i = 0; i < k->n; i++)
            k->state[s][i] = fabsf(k->state[s][i]);
    k->stream.n = k->n;
    return 0;
}

/* kernels_free -- see kernels.h. */
void kernels_free(struct kernels *k)
{
    memory_free(&k->memory);
}

/* kernels_bytes -- see kernels.h. */
double kernels_bytes(const struct kernels *k, enum kernels_what what, size_t slots)
{
    return 4.0 * (double)(what == KERNELS_AGGREGATE ? slots + 1 : slots + 2 + 2 * k->rule->slots);
}

/* kernels_part -- what a ps's lane does with its elements. */
static void kernels_part(const struct kernels *k, enum kernels_what what, size_t slots, size_t first,
                         size_t last)
{
    static const struct optimizer_variable options = {1, true};
    const struct mean_sum sum = {(const void *const *)k->slots, NULL, slots, (double)slots, NUMBER_F32};
    const struct optimizer_pass pass = {.sum = &sum,
                                        .now = what == KERNELS_AGGREGATE ? NULL : k->parameters[0],
                                        .next = k->parameters[1],
                                        .slots = {what == KERNELS_AGGREGATE ? NULL : k->state[0],
                                                  what == KERNELS_AGGREGATE ? NULL : k->state[1]},
                                        .stream = k->stream_stores};

    optimizer_pass_f32(what == KERNELS_AGGREGATE ? k->none : k->rule, k->kind, &options, &k->hyper, &pass,
                       first, last - first);
}

/* kernels_work -- one thread's part of a pass. */
static void kernels_work(void *context, unsigned index, unsigned count)
{
    const struct kernels_job *job = context;
    size_t first = stream_part(job->kernels->n, index, count),
           last = stream_part(job->kernels->n, index + 1, count);

    if (job->stream != NULL)
        kernels_sink = job->stream->run(&job->kernels->stream, first, last);
    else
        kernels_part(job->kernels, job->what, job->slots, first, last);
}

/* kernels_run -- see kernels.h. */
uint64_t kernels_run(struct kernels *k, struct team *team, enum kernels_what what, size_t slots)
{
    struct kernels_job job = {k, what, slots, NULL};

    return team_run(team, kernels_work, &job);
}

/* kernels_stream -- see kernels.h. */
uint64_t kernels_stream(struct kernels *k, struct team *team, const struct stream_kernel *kernel)
{
    struct kernels_job job = {k, KERNELS_AGGREGATE, 0, kernel};

    return team_run(team, kernels_work, &job);
}

/* kernels_plain -- the mean of one element, and momentum's or sgd's rule on it; NaN: a rule that this check has no loop for. */
static float kernels_plain(const struct kernels *k, enum kernels_what what, size_t slots, size_t i,
                           float moment)
{
    float sum = k->slots[0][i];

    for (size_t s = 1; s < slots; s++)
        sum += k->slots[s][i];
    sum /= (float)slots;
    if (what == KERNELS_AGGREGATE)
        return sum;
    if (strcmp(k->rule->name, "sgd") == 0) {
        float change = k->hyper.in_f32.rate * sum;
        return k->parameters[0][i] - change;
    }
    if (strcmp(k->rule->name, "momentum") != 0)
        return NAN;
    float kept = k->hyper.in_f32.momentum * moment, fresh = kept + sum, change = k->hyper.in_f32.rate * fresh;
    return k->parameters[0][i] - change;
}

/* kernels_check -- see kernels.h. Every 61st element: all parts and all places in a block are met. */
int kernels_check(struct kernels *k, struct team *team, enum kernels_what what, size_t slots, char *text,
                  size_t bytes)
{
    enum { EVERY = 61, MOST = 1 << 20 };
    static float expected[MOST];
    size_t step = k->n / MOST > EVERY ? k->n / MOST + 1 : EVERY, count = 0;

    for (size_t i = 0; i < k->n && count < MOST; i += step)
        expected[count++] = kernels_plain(k, what, slots, i, k->state[0] != NULL ? k->state[0][i] : 0);
    (void)kernels_run(k, team, what, slots);
    for (size_t i = 0, j = 0; j < count; i += step, j++) {
        if (isnan(expected[j]) ? isfinite(k->parameters[1][i])
                               : memcmp(&expected[j], &k->parameters[1][i], sizeof(float)) == 0)
            continue;
        snprintf(text, bytes, "element %zu of %zu slots is %.9g, not %.9g: a kernel is wrong", i, slots,
                 (double)k->parameters[1][i], (double)expected[j]);
        return -1;
    }
    return 0;
}
