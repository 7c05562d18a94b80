/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/trainee.h"

#include <stdlib.h>
#include <string.h>

#include "tests/simulation/maker.h"
#include "tests/simulation/plain.h"
#include "transport/base/error.h"
#include "worker/session/inside.h"

#define TRAINEE_SLEEP_NS (3 * CLOCK_MS) /* of one pause, at most */

/* trainee_over -- done or failed. */
bool trainee_over(const struct trainee *t)
{
    return t->state == TRAINEE_DONE || t->state == TRAINEE_FAILED;
}

/* trainee_fail -- the session has ended the job. */
static int trainee_fail(struct trainee *t, int status)
{
    t->state = TRAINEE_FAILED;
    error_save(&t->error);
    if (t->error.code == 0)
        t->error.code = status;
    return 1;
}

/* trainee_go -- to the next state, perhaps after a pause. */
static int trainee_go(struct trainee *t, int state, uint64_t now)
{
    t->state = state;
    if (t->slow_per_mille > 0 && random_chance(&t->random, t->slow_per_mille)) {
        t->wake_at = now + 1 + random_below(&t->random, TRAINEE_SLEEP_NS);
        t->counts.sleeps++;
    }
    return 1;
}

/* trainee_shuffle -- an order of the variables, for pulls or pushes. */
static void trainee_shuffle(struct trainee *t)
{
    t->count = t->shape->variables;
    for (uint32_t v = 0; v < t->count; v++)
        t->order[v] = v;
    for (uint32_t v = t->count; v > 1; v--) {
        uint32_t other = (uint32_t)random_below(&t->random, v), keep = t->order[v - 1];
        t->order[v - 1] = t->order[other];
        t->order[other] = keep;
    }
    t->next = 0;
}

/* trainee_declare -- the model of the shape, with its initial values. */
static int trainee_declare(struct trainee *t)
{
    int status = session_model_new(t->session, "simulated", &t->model);

    if (status == 0)
        status = shape_declare(t->shape, session_model_declared(t->model));
    for (uint32_t i = 0; status == 0 && i < t->shape->variables; i++) {
        const struct shape_variable *v = &t->shape->variable[i];
        uint64_t bytes = v->elements * plain_bytes(v->dtype);
        uint8_t *initial = malloc(bytes);
        if (initial == NULL)
            return -STEPGATE_ENOMEM;
        shape_initial(t->shape, i, initial);
        status = session_model_initialize(t->model, i, initial, bytes);
        t->private[i] = initial;
    }
    return status;
}

/* trainee_own -- buffers of the caller's for every variable. */
static int trainee_own(struct trainee *t)
{
    int status = 0;

    for (uint32_t i = 0; t->callers && status == 0 && i < t->shape->variables; i++) {
        const struct shape_variable *v = &t->shape->variable[i];
        uint64_t bytes = v->elements * plain_bytes(v->dtype),
                 gradient = v->elements * plain_bytes(v->gradient_dtype);
        t->own_gradient[i] = calloc(1, gradient);
        t->own_parameter[i] = calloc(1, bytes);
        if (t->own_gradient[i] == NULL || t->own_parameter[i] == NULL)
            return -STEPGATE_ENOMEM;
        if (v->kind != STEPGATE_SPARSE)
            status = session_attach(t->model, i, STEPGATE_USE_GRADIENT,
                                    &(const struct session_memory){.address = t->own_gradient[i]}, gradient);
        if (status == 0)
            status = session_attach(t->model, i, STEPGATE_USE_PARAMETER,
                                    &(const struct session_memory){.address = t->own_parameter[i]}, bytes);
    }
    return status;
}

/* trainee_plan_rows -- perhaps some rows of a variable are read, too. */
static void trainee_plan_rows(struct trainee *t)
{
    t->rows = 0;
    t->rows_of = (uint32_t)random_below(&t->random, t->shape->variables);
    const struct shape_variable *v = &t->shape->variable[t->rows_of];
    if (v->kind == STEPGATE_AUX || !random_chance(&t->random, v->kind == STEPGATE_SPARSE ? 400 : 50))
        return;
    t->rows = 1 + random_below(&t->random, TRAINEE_ROWS_MAX);
    for (uint64_t i = 0; i < t->rows; i++)
        t->indices[i] = random_below(&t->random, v->rows);
    free(t->rows_out);
    t->rows_out = malloc(t->rows * v->width * plain_bytes(v->dtype));
    if (t->rows_out == NULL)
        t->rows = 0;
}

/* trainee_passes -- is the variable not read? What has no gradient now need not be, nor need anything be where gradients may wait for their buffers. */
static bool trainee_passes(struct trainee *t, uint32_t variable)
{
    if (t->done)
        return false;
    if (t->open->parts[variable].absent)
        return random_chance(&t->random, 700);
    return t->shape->mode != SHAPE_EQUAL && random_chance(&t->random, t->pass_per_mille);
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
    trainee_check_told(t, &info);
    t->step = info.step;
    t->done = info.step >= t->shape->steps;
    if (t->quits > 0 && t->log->count >= t->quits && !t->done) {
        t->left_early = true;
        return trainee_go(t, TRAINEE_LEAVING, now);
    }
    if (!t->done) {
        t->open = contribution_new(t->log, t->rank, info.step);
        if (t->open == NULL)
            return trainee_fail(t, -STEPGATE_ENOMEM);
    }
    for (uint32_t v = 0; !t->done && v < t->shape->variables; v++)
        if (random_chance(&t->random, t->shape->absent_per_mille))
            t->open->parts[v].absent = t->open->parts[v].pushed = true;
    for (uint32_t v = 0; v < t->shape->variables; v++)
        t->passed[v] = trainee_passes(t, v);
    trainee_shuffle(t);
    trainee_plan_rows(t);
    t->all = random_chance(&t->random, 250);
    return trainee_go(t, TRAINEE_PULLING, now);
}

/* trainee_pulled -- everything that was wanted is read. */
static int trainee_pulled(struct trainee *t, uint64_t now)
{
    if (t->done)
        return trainee_go(t, t->barrier ? TRAINEE_BARRIER : TRAINEE_LEAVING, now);
    trainee_shuffle(t);
    t->counts.contributions++;
    return trainee_go(t, TRAINEE_PUSHING, now);
}

/* trainee_pull_all -- everything at once; all of one step, where there are whole steps. */
static int trainee_pull_all(struct trainee *t, uint64_t now)
{
    uint64_t step = UINT64_MAX;
    int status = session_pull_try(t->model, STEPGATE_ALL, now, &step);

    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status != 0)
        return trainee_fail(t, status);
    t->counts.pulls_of_all++;
    for (uint32_t i = 0; i < t->shape->variables; i++)
        if (session_pulls_all(t->model, i))
            trainee_check(t, i, step);
    t->all = false;
    t->next = t->count;
    return 1;
}

/* trainee_pull_rows -- some rows. */
static int trainee_pull_rows(struct trainee *t, uint64_t now)
{
    uint64_t step = UINT64_MAX;
    int status = session_pull_rows_try(t->model, t->rows_of, t->indices, t->rows, t->rows_out, now, &step);

    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status != 0)
        return trainee_fail(t, status);
    t->counts.pulls_of_rows++;
    trainee_check_rows(t, step);
    t->rows = 0;
    return 1;
}

/* trainee_pull -- one variable after the other, in a random order; all of them last, now and then. */
static int trainee_pull(struct trainee *t, uint64_t now)
{
    uint64_t step = UINT64_MAX;

    if (t->rows > 0 && t->next == t->count / 2)
        return trainee_pull_rows(t, now);
    if (t->all && (t->next == t->count || random_chance(&t->random, 400)))
        return trainee_pull_all(t, now);
    if (t->next == t->count)
        return trainee_pulled(t, now);
    uint32_t v = t->order[t->next];
    if (t->passed[v]) {
        t->next++;
        return 1;
    }
    int status = session_pull_try(t->model, (int)v, now, &step);
    if (status == -STEPGATE_EAGAIN)
        return 0;
    if (status != 0)
        return trainee_fail(t, status);
    trainee_check(t, v, step);
    t->next++;
    return 1;
}

/* trainee_finish -- seals the contribution. */
static int trainee_finish(struct trainee *t, double weight, uint64_t now)
{
    t->open->weight = weight;
    t->open->finished = true; /* it may be complete everywhere before finish returns */
    t->open = NULL;
    t->counts.abandoned += weight == 0;
    int status = session_finish(t->model, weight, now);
    if (status != 0)
        return trainee_fail(t, status);
    if (t->quits > 0 && t->log->count >= t->quits && t->quits_at_once) {
        t->left_early = true;
        return trainee_go(t, TRAINEE_LEAVING, now);
    }
    return trainee_go(t, TRAINEE_BEGINNING, now);
}

/* trainee_weight -- of the open contribution; 0: it is abandoned. */
static double trainee_weight(const struct trainee *t)
{
    static const double weights[] = {1, 0.1, 3, 2.7}; /* f32 has not all of them */
    uint64_t bits = shape_mix(t->shape->seed, 3, t->rank, t->open->sequence, 0);

    if (bits % 1000 < t->shape->abandon_per_mille)
        return 0;
    return t->shape->weighted ? weights[bits / 1000 % 4] : 1;
}

/* trainee_empty -- is every gradient absent that tf mode looks at? */
static bool trainee_empty(const struct trainee *t)
{
    for (uint32_t i = 0; i < t->shape->variables; i++)
        if (!t->shape->variable[i].frozen && !t->open->parts[i].absent)
            return false;
    return t->shape->mode == SHAPE_TF;
}

/* trainee_busy -- may the buffer of a gradient be written? Where all take part in every step the pull has waited for that. */
static bool trainee_busy(struct trainee *t, uint32_t variable)
{
    int kind = t->shape->variable[variable].kind;

    if (t->shape->mode == SHAPE_EQUAL && kind != STEPGATE_AUX)
        return false;
    return kind != STEPGATE_SPARSE && session_is_idle(t->model, variable) != 1;
}

/* trainee_push_rows -- hands in the rows of a sparse variable. */
static int trainee_push_rows(struct trainee *t, const struct maker *maker, uint32_t i, uint64_t now)
{
    struct maker_list list;
    int status = maker_list(maker, i, &list);

    if (status != 0)
        return status;
    t->counts.rows += list.count;
    t->counts.duplicates += list.split;
    status = session_push_rows(t->model, i, list.indices, list.count, list.values, now);
    maker_list_clear(&list);
    return status;
}

/* trainee_hand_in -- one variable. */
static int trainee_hand_in(struct trainee *t, uint32_t i, uint64_t now)
{
    const struct shape_variable *v = &t->shape->variable[i];
    const struct contribution_part *part = &t->open->parts[i];
    uint64_t bytes = v->elements * plain_bytes(v->gradient_dtype);
    const struct maker maker = {t->shape, &t->random, t->open};
    const void *value = NULL;
    void *gradient;
    bool bad;

    if (session_parameter(t->model, i, &value) != 0)
        value = NULL; /* not pulled yet */
    int status = maker_make(&maker, i, value, &bad);
    if (status != 0)
        return status;
    t->counts.bad += bad;
    if (v->kind == STEPGATE_SPARSE)
        return trainee_push_rows(t, &maker, i, now);
    status = session_gradient(t->model, i, &gradient);
    if (status != 0)
        return status;
    memcpy(gradient, part->values, bytes);
    if (v->kind == STEPGATE_AUX)
        memcpy(t->private[i], part -> values, bytes);
    return session_push(t->model, i, now);
}

/* trainee_push -- computes and pushes one variable, or finishes the contribution. */
static int trainee_push(struct trainee *t, uint64_t now)
{
    double weight = trainee_weight(t);
    int status;

    if (t->next < t->count && weight == 0 && random_chance(&t->random, 300))
        return trainee_finish(t, 0, now);
    if (t->next == t->count)
        return trainee_finish(t, trainee_empty(t) ? 0 : weight, now);
    uint32_t v = t->order[t->next];
    if (t->open->parts[v].absent) {
        t->counts.absent++;
        t->next++;
        status = session_absent(t->model, v, now);
        return status != 0 ? trainee_fail(t, status) : 1;
    }
    if (trainee_busy(t, v)) {
        t->counts.waits++;
        status = session_error(t->session); /* what waits looks whether the job is still there */
        return status != 0 ? trainee_fail(t, status) : 0;
    }
    t->next++;
    status = trainee_hand_in(t, v, now);
    return status != 0 ? trainee_fail(t, status) : 1;
}

/* trainee_other -- joins, commits, ends. */
static int trainee_other(struct trainee *t, uint64_t now)
{
    struct stepgate_model_info info = {.size = sizeof(info)};
    int status, next = t->state;

    switch (t->state) {
    case TRAINEE_JOINING:
        status = session_join_try(t->session, now);
        if (status == 0)
            status = trainee_declare(t);
        next = TRAINEE_COMMITTING;
        break;
    case TRAINEE_COMMITTING:
        status = session_commit_try(t->model, now, &info);
        if (status == 0)
            status = trainee_own(t);
        next = TRAINEE_BEGINNING;
        break;
    case TRAINEE_BARRIER:
        status = session_barrier_try(t->session, now);
        next = TRAINEE_LEAVING;
        break;
    default: status = session_leave_try(t->session, now); next = TRAINEE_DONE;
    }
    if (status == -STEPGATE_EAGAIN)
        return 0;
    return status != 0 ? trainee_fail(t, status) : trainee_go(t, next, now);
}

/* trainee_move -- see the header. The library's own thread goes on while the program pauses. */
int trainee_move(struct trainee *t, uint64_t now)
{
    int busy = session_progress(t->session, now);

    if (trainee_over(t) || now < t->wake_at)
        return busy;
    t->wake_at = 0;
    switch (t->state) {
    case TRAINEE_BEGINNING: return trainee_begin(t, now) | busy;
    case TRAINEE_PULLING: return trainee_pull(t, now) | busy;
    case TRAINEE_PUSHING: return trainee_push(t, now) | busy;
    default: return trainee_other(t, now) | busy;
    }
}

/* trainee_deadline -- see the header. */
uint64_t trainee_deadline(const struct trainee *t)
{
    uint64_t deadline = session_deadline(t->session);

    return t->wake_at != 0 && t->wake_at < deadline ? t->wake_at : deadline;
}

/* trainee_clear -- frees its buffers, after the session. */
void trainee_clear(struct trainee *t)
{
    for (uint32_t v = 0; v < SHAPE_VARIABLES_MAX; v++) {
        free(t->own_gradient[v]);
        free(t->own_parameter[v]);
        free(t->private[v]);
    }
    free(t->rows_out);
}
