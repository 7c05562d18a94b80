/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/trainee.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

/* trainee_over -- done or failed. */
bool trainee_over(const struct trainee *t)
{
    return t->state == TRAINEE_DONE || t->state == TRAINEE_FAILED;
}

/* trainee_fail -- the session has ended the job. */
static int trainee_fail(struct trainee *t, int status)
{
    t->state = TRAINEE_FAILED;
    t->error = status;
    return 1;
}

/* trainee_shuffle -- an order of the variables for pulls or pushes. */
static void trainee_shuffle(struct trainee *t)
{
    for (uint32_t v = 0; v < t->reference->variables; v++)
        t->order[v] = v;
    for (uint32_t v = t->reference->variables; v > 1; v--) {
        uint32_t other = (uint32_t)random_below(&t->random, v), keep = t->order[v - 1];
        t->order[v - 1] = t->order[other];
        t->order[other] = keep;
    }
    t->next = 0;
}

/* trainee_declare -- the model of the reference. */
static int trainee_declare(struct trainee *t)
{
    const struct reference *r = t->reference;
    char text[64];
    int status = session_model_new(t->session, "simulated", &t->model);

    for (uint32_t v = 0; status >= 0 && v < r->variables; v++) {
        char name[16];
        snprintf(name, sizeof(name), "v%u", v);
        status = model_add(session_model_declared(t->model), name, STEPGATE_TRAINED, STEPGATE_F32, 1,
                           &r->elements[v]);
        if (status < 0)
            break;
        float *initial = malloc(r->elements[v] * sizeof(float));
        if (initial == NULL)
            return -STEPGATE_ENOMEM;
        for (uint64_t i = 0; i < r->elements[v]; i++)
            initial[i] = reference_initial(r, v, i);
        status = session_model_initialize(t->model, v, initial, r->elements[v] * sizeof(float));
        free(initial);
    }
    snprintf(text, sizeof(text), "%.9g", (double)r->rate);
    if (status >= 0)
        status = model_set(session_model_declared(t->model), "learning_rate", text);
    snprintf(text, sizeof(text), "%.9g", (double)r->factor);
    if (status >= 0 && r->momentum)
        status = model_set(session_model_declared(t->model), "momentum", text);
    if (status >= 0)
        status = model_set(session_model_declared(t->model), "optimizer", r->momentum ? "momentum" : "sgd");
    return status < 0 ? status : 0;
}

/* trainee_own -- buffers of the caller's for every variable. */
static int trainee_own(struct trainee *t)
{
    int status = 0;

    for (uint32_t v = 0; t->callers && status == 0 && v < t->reference->variables; v++) {
        uint64_t bytes = t->reference->elements[v] * sizeof(float);
        t->own_gradient[v] = calloc(1, bytes);
        t->own_parameter[v] = calloc(1, bytes);
        if (t->own_gradient[v] == NULL || t->own_parameter[v] == NULL)
            return -STEPGATE_ENOMEM;
        status = session_attach(t->model, v, STEPGATE_USE_GRADIENT, t->own_gradient[v], bytes);
        if (status == 0)
            status = session_attach(t->model, v, STEPGATE_USE_PARAMETER, t->own_parameter[v], bytes);
    }
    return status;
}

/* trainee_begin -- the next step, or the end. */
static int trainee_begin(struct trainee *t, uint64_t now)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = session_begin_try(t->model, now, &info);

    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status != 0)
        return trainee_fail(t, status);
    if (info.step != t->step)
        snprintf(t->wrong, sizeof(t->wrong), "worker %u began step %llu, expected was %u", t->rank,
                 (unsigned long long)info.step, t->step);
    if (t->step > 0) {
        int verdict = reference_weight(t->reference, t->rank, t->step - 1) > 0 ? STEPGATE_VERDICT_APPLIED
                                                                               : STEPGATE_VERDICT_EMPTY;
        if (info.verdict != verdict || info.verdict_step != t->step - 1)
            snprintf(t->wrong, sizeof(t->wrong), "worker %u step %u: verdict %d for step %llu", t->rank,
                     t->step, info.verdict, (unsigned long long)info.verdict_step);
    }
    trainee_shuffle(t);
    t->state = TRAINEE_PULLING;
    return 1;
}

/* trainee_check -- every value read is exactly that of the step. */
static void trainee_check(struct trainee *t, uint32_t v)
{
    const void *value;

    if (session_parameter(t->model, v, &value) != 0) {
        snprintf(t->wrong, sizeof(t->wrong), "worker %u: no value of variable %u after its pull", t->rank, v);
        return;
    }
    if (t->step <= t->reference->steps &&
        memcmp(value, t->reference->values[t->step][v], t->reference->elements[v] * sizeof(float)) != 0)
        snprintf(t->wrong, sizeof(t->wrong), "worker %u read other bits of variable %u in step %u", t->rank,
                 v, t->step);
}

/* trainee_absent -- does this worker push nothing of the variable now? In a contribution that counts for nothing that may be so of any. */
static bool trainee_absent(const struct trainee *t, uint32_t v)
{
    return reference_absent(t->reference, t->rank, t->step, v) ||
           (reference_weight(t->reference, t->rank, t->step) == 0 && (v + t->step) % 2 == 0);
}

/* trainee_pulled -- the next variable, or whatever follows the last one. */
static int trainee_pulled(struct trainee *t)
{
    if (++t->next < t->reference->variables)
        return 1;
    if (t->step == t->reference->steps) {
        t->state = TRAINEE_BARRIER;
        return 1;
    }
    trainee_shuffle(t);
    t->state = TRAINEE_PUSHING;
    return 1;
}

/* trainee_pull -- one variable after the other, in a random order. What has no gradient now need not be read. */
static int trainee_pull(struct trainee *t, uint64_t now)
{
    uint64_t step = UINT64_MAX;
    uint32_t v = t->order[t->next];
    if (t->step < t->reference->steps && trainee_absent(t, v))
        return trainee_pulled(t);
    int status = session_pull_try(t->model, (int)v, now, &step);

    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status != 0)
        return trainee_fail(t, status);
    if (step != t->step)
        snprintf(t->wrong, sizeof(t->wrong), "worker %u pulled step %llu in step %u", t->rank,
                 (unsigned long long)step, t->step);
    trainee_check(t, v);
    return trainee_pulled(t);
}

/* trainee_push -- computes and pushes one variable, or finishes the step. */
static int trainee_push(struct trainee *t, uint64_t now)
{
    const struct reference *r = t->reference;
    double weight = reference_weight(r, t->rank, t->step);
    int status;

    if (t->next == r->variables || (weight == 0 && random_chance(&t->random, 300))) {
        status = session_finish(t->model, weight, now);
        if (status != 0)
            return trainee_fail(t, status);
        t->step++;
        t->steps_done++;
        t->state = TRAINEE_BEGINNING;
        return 1;
    }
    uint32_t v = t->order[t->next++];
    if (trainee_absent(t, v)) {
        status = session_absent(t->model, v, now);
        return status != 0 ? trainee_fail(t, status) : 1;
    }
    void *gradient;
    const void *value;
    status = session_gradient(t->model, v, &gradient);
    if (status == 0)
        status = session_parameter(t->model, v, &value);
    if (status != 0)
        return trainee_fail(t, status);
    reference_gradient(r, t->rank, t->step, v, value, gradient);
    status = session_push(t->model, v, now);
    return status != 0 ? trainee_fail(t, status) : 1;
}

/* trainee_move -- see the header. */
int trainee_move(struct trainee *t, uint64_t now)
{
    struct stepgate_model_info info = {.size = sizeof(info)};
    int busy = session_progress(t->session, now), status;

    switch (t->state) {
    case TRAINEE_JOINING:
        status = session_join_try(t->session, now);
        if (status == 0)
            status = trainee_declare(t);
        if (status == 0)
            t->state = TRAINEE_COMMITTING;
        break;
    case TRAINEE_COMMITTING:
        status = session_commit_try(t->model, now, &info);
        if (status == 0)
            status = trainee_own(t);
        if (status == 0)
            t->state = TRAINEE_BEGINNING;
        break;
    case TRAINEE_BEGINNING: return trainee_begin(t, now) | busy;
    case TRAINEE_PULLING: return trainee_pull(t, now) | busy;
    case TRAINEE_PUSHING: return trainee_push(t, now) | busy;
    case TRAINEE_BARRIER:
        status = session_barrier_try(t->session, now);
        if (status == 0)
            t->state = TRAINEE_LEAVING;
        break;
    case TRAINEE_LEAVING:
        status = session_leave_try(t->session, now);
        if (status == 0)
            t->state = TRAINEE_DONE;
        break;
    default: return 0;
    }
    if (status == -STEPGATE_EAGAIN)
        return busy;
    return status != 0 ? trainee_fail(t, status) : 1;
}

/* trainee_clear -- frees its buffers, after the session. */
void trainee_clear(struct trainee *t)
{
    for (uint32_t v = 0; v < REFERENCE_VARIABLES_MAX; v++) {
        free(t->own_gradient[v]);
        free(t->own_parameter[v]);
    }
}
