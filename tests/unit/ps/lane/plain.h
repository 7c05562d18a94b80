/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plain -- what an order has to do, in loops over whole variables: no pieces, blocks, parities or lanes. Values are doubles that are rounded to the
 * type they are computed in after every operation; what a double has computed from two f32 and is then rounded to f32 is what f32 gives.
 */
#ifndef TESTS_UNIT_PS_LANE_PLAIN_H
#define TESTS_UNIT_PS_LANE_PLAIN_H

#include <math.h>

#include "board.h"
#include "ps/optimizer/exact.h"

#define PLAIN_VARIABLES_MAX 16

/* What one contribution brings of a variable. */
struct plain_push {
    bool there;
    double *values; /* dense: all; sparse: row by row */
    uint64_t *indices;
    size_t rows;
};

struct plain_variable {
    const struct model_variable *v;
    bool wide;
    double *old, *now; /* as published, of the step before and of this one */
    double *exact;     /* now, before it is rounded to 16 bits */
    double *slots[2], *average, *sum, *mean;
    double *weights;           /* sparse: per row of what is accumulated; dense: [0], whether anything is */
    double *aux;               /* [workers]: as pushed last */
    struct plain_push *pushes; /* [workers * depth] */
};

struct plain {
    const struct model *model;
    uint32_t workers, depth;
    struct plain_variable variables[PLAIN_VARIABLES_MAX];
};

/* plain_doubles -- n zeros. */
static inline double *plain_doubles(uint64_t n)
{
    double *p = calloc(n, sizeof(*p));

    assert_non_null(p);
    return p;
}

/* plain_open -- before the initial values. */
static inline void plain_open(struct plain *p, const struct model *model, uint32_t workers, uint32_t depth)
{
    *p = (struct plain){.model = model, .workers = workers, .depth = depth};
    assert_true(model->count <= PLAIN_VARIABLES_MAX);
    for (size_t i = 0; i < model->count; i++) {
        struct plain_variable *x = &p->variables[i];
        uint64_t n = model->variables[i].elements;
        x->v = &model->variables[i];
        x->wide = x->v->dtype == STEPGATE_F64;
        double **all[] = {&x->old,      &x->now,     &x->exact, &x->slots[0],
                          &x->slots[1], &x->average, &x->sum,   &x->mean};
        for (size_t a = 0; a < sizeof(all) / sizeof(all[0]); a++)
            *all[a] = plain_doubles(n);
        x->weights = plain_doubles(n);
        x->aux = plain_doubles(n * workers);
        x->pushes = calloc((size_t)workers * depth, sizeof(*x->pushes));
        assert_non_null(x->pushes);
        for (uint32_t c = 0; c < workers * depth; c++) {
            x->pushes[c].values = plain_doubles(n);
            x->pushes[c].indices = calloc(n, sizeof(uint64_t));
            assert_non_null(x->pushes[c].indices);
        }
    }
}

/* plain_close -- frees. */
static inline void plain_close(struct plain *p)
{
    for (size_t i = 0; i < p->model->count; i++) {
        struct plain_variable *x = &p->variables[i];
        double *all[] = {x->old,     x->now, x->exact, x->slots[0], x->slots[1],
                         x->average, x->sum, x->mean,  x->weights,  x->aux};
        for (size_t a = 0; a < sizeof(all) / sizeof(all[0]); a++)
            free(all[a]);
        for (uint32_t c = 0; c < p->workers * p->depth; c++) {
            free(x->pushes[c].values);
            free(x->pushes[c].indices);
        }
        free(x->pushes);
    }
}

/* plain_round -- to the type a variable is computed in. */
static inline double plain_round(const struct plain_variable *x, double value)
{
    return x->wide ? value : number_rounded_f32(value);
}

/* plain_publish -- one element as it is read. */
static inline double plain_publish(const struct plain_variable *x, double value)
{
    float narrow = (float)value;
    uint16_t bits;
    double out;

    if (x->v->dtype == STEPGATE_F64 || x->v->dtype == STEPGATE_F32)
        return value;
    number_narrow_f32(x->v->dtype, &narrow, &bits, 1);
    number_widen_f64(x->v->dtype, &bits, &out, 1);
    return out;
}

/* plain_scalars -- those of the type a variable is computed in, the rates as its scale makes them. */
static inline struct optimizer_scalars_f64 plain_scalars(const struct plain_variable *x,
                                                         const struct optimizer_hyper *hyper)
{
    struct optimizer_scalars_f64 h = hyper->in_f64;
    double scale = plain_round(x, x->v->learning_rate_scale), wide[OPTIMIZER_SCALARS];
    float narrow[OPTIMIZER_SCALARS];

    memcpy(narrow, &hyper->in_f32, sizeof(narrow));
    for (size_t i = 0; i < OPTIMIZER_SCALARS; i++)
        wide[i] = (double)narrow[i];
    if (!x->wide)
        memcpy(&h, wide, sizeof(h));
    h.rate = plain_round(x, h.rate * scale);
    h.alpha = plain_round(x, h.alpha * scale);
    h.decay = plain_round(x, h.decay * scale);
    return h;
}

/* plain_rule -- one element's step, with gradient g: what the optimizer's documentation says, one operation after the other. */
static inline void plain_rule(const struct plain *p, struct plain_variable *x, uint64_t i,
                              const struct optimizer_scalars_f64 *h, double g)
{
    bool torch = p->model->torch;
    double rate = h->rate, alpha = h->alpha, decay = h->decay;
    double *a = &x->slots[0][i], *b = &x->slots[1][i], var = x->exact[i], m = h->momentum;
    double clip = h->clip_value, epsilon = h->epsilon;
#define R(value) plain_round(x, (value))
    if (h->scale != 1)
        g = R(h->scale * g);
    if (clip != 0)
        g = g > clip ? clip : g < -clip ? -clip : g;
    if (h->l2 != 0 && x->v->decays && p->model->optimizer != MODEL_NONE)
        g = R(g + R(h->l2 * var));
    switch (p->model->optimizer) {
    case MODEL_NONE: var = g; break;
    case MODEL_SGD: var = R(var - R(rate * g)); break;
    case MODEL_MOMENTUM:
        *a = R(R(m * *a) + g);
        var = R(var - R(rate * *a));
        break;
    case MODEL_NESTEROV:
        *a = R(R(m * *a) + g);
        var = R(var - rate * (g + m * *a)); /* in f64 until the end */
        break;
    case MODEL_ADAGRAD:
        *a = R(*a + R(g * g));
        var = torch ? R(var - R(rate * R(g / R(R(sqrt(*a)) + epsilon))))
                    : R(var - R(R(rate * g) / R(sqrt(*a))));
        break;
    case MODEL_RMSPROP:
        if (!torch) {
            *a = R(*a + R(R(R(g * g) - *a) * h->one_minus_rho));
            *b = R(R(m * *b) + R(R(rate * g) / R(sqrt(R(*a + epsilon)))));
            var = R(var - *b);
            break;
        }
        *a = R(R(h->rho * *a) + R(h->one_minus_rho * R(g * g)));
        double quotient = R(g / R(R(sqrt(*a)) + epsilon));
        if (m != 0)
            quotient = *b = R(R(m * *b) + quotient);
        var = R(var - R(rate * quotient));
        break;
    case MODEL_ADAMW:
        if (x->v->decays && decay != 0)
            var = R(var - R(decay * var));
        /* fall through */
    default:
        *a = R(*a + R(h->one_minus_beta1 * R(g - *a)));
        if (torch) {
            *b = R(R(h->beta2 * *b) + R(h->one_minus_beta2 * R(g * g)));
            var = R(var - R(alpha * R(*a / R(R(R(sqrt(*b)) / h->root2) + epsilon))));
        } else {
            *b = R(*b + R(R(R(g * g) - *b) * h->one_minus_beta2));
            var = R(var - R(R(*a * alpha) / R(R(sqrt(*b)) + epsilon)));
        }
    }
    x->exact[i] = var;
    x->now[i] = plain_publish(x, var);
    if (x->v->average && h->average_rate != 0)
        x->average[i] = R(x->average[i] - R(h->average_rate * R(x->average[i] - var)));
#undef R
}

/* plain_push_of -- what a contribution brought of a variable. */
static inline struct plain_push *plain_push_of(const struct plain *p, size_t variable, uint32_t rank,
                                               uint32_t slot)
{
    return &p->variables[variable].pushes[rank * p->depth + slot];
}

/* plain_add -- one contribution to the sum of a variable; factor and weight as the order says. */
static inline void plain_add(struct plain *p, size_t variable, const struct board_contribution *c)
{
    struct plain_variable *x = &p->variables[variable];
    const struct plain_push *push = plain_push_of(p, variable, c->rank, c->slot);
    bool assigned = x->v->kind == STEPGATE_ASSIGNED;
    double factor = assigned ? c->weight : c->factor, weight = c->weight;
    uint64_t width = x->v->row_elements;

    if (assigned && x->v->assign == MODEL_ASSIGN_RANK0) {
        if (c->rank != 0 || !push->there)
            return;
        x->weights[0] = 0; /* the last one counts */
        factor = weight = 1;
    }
    double by = plain_round(x, factor);
    if (x->v->kind == STEPGATE_SPARSE) {
        for (size_t r = 0; r < push->rows; r++)
            for (uint64_t e = 0; e < width; e++) {
                uint64_t row = push->indices[r], i = row * width + e;
                double part = plain_round(x, by * push->values[r * width + e]);
                x->sum[i] = x->weights[row] == 0 ? part : plain_round(x, x->sum[i] + part);
                if (e + 1 == width)
                    x->weights[row] += weight;
            }
        return;
    }
    if (assigned && !push->there)
        return;
    for (uint64_t i = 0; i < x->v->elements; i++) {
        double part = plain_round(x, by * push->values[i]);
        x->sum[i] = x->weights[0] == 0 ? part : plain_round(x, x->sum[i] + part);
    }
    x->weights[0] += weight;
}

/* plain_mean -- of what is summed: true if there is any, and the means of those elements. */
static inline bool plain_mean(struct plain *p, size_t variable, const struct board_order *order, uint64_t i)
{
    struct plain_variable *x = &p->variables[variable];
    bool sparse = x->v->kind == STEPGATE_SPARSE;
    double own = x->weights[sparse ? i / x->v->row_elements : 0], divisor = order->divisor;

    if (own == 0)
        return false;
    if (x->v->kind == STEPGATE_ASSIGNED ||
        (sparse && (x->v->row_mean == MODEL_ROW_MEAN_ROWS || p->model->update == MODEL_TF)))
        divisor = own;
    x->mean[i] = plain_round(x, x->sum[i] / plain_round(x, divisor));
    return true;
}

/* plain_forget -- nothing is summed. */
static inline void plain_forget(struct plain_variable *x)
{
    memset(x->weights, 0, x->v->elements * sizeof(double));
}

/* plain_gather -- sums the set, where it is not accumulated. */
static inline void plain_gather(struct plain *p, size_t variable, const struct board_order *order)
{
    if (order->accumulated)
        return;
    plain_forget(&p->variables[variable]);
    for (uint32_t i = 0; i < order->count; i++)
        plain_add(p, variable, &order->set[i]);
}

/* plain_keep -- an aux variable. */
static inline void plain_keep(struct plain *p, size_t variable, const struct board_contribution *c)
{
    const struct plain_push *push = plain_push_of(p, variable, c->rank, c->slot);
    uint64_t n = p->model->variables[variable].elements;

    if (push->there)
        memcpy(p->variables[variable].aux + c->rank * n, push->values, n * sizeof(double));
}

/* plain_step -- BOARD_APPLY and BOARD_CARRY of one variable. */
static inline void plain_step(struct plain *p, size_t variable, const struct board_order *order)
{
    struct plain_variable *x = &p->variables[variable];

    if (x->v->kind == STEPGATE_AUX) {
        for (uint32_t i = 0; order->kind == BOARD_APPLY && i < order->count; i++)
            plain_keep(p, variable, &order->set[i]);
        return;
    }
    memcpy(x->old, x->now, x->v->elements * sizeof(double));
    if (order->kind == BOARD_APPLY && !x->v->frozen) {
        const struct optimizer_scalars_f64 scalars = plain_scalars(x, &order->hyper);
        plain_gather(p, variable, order);
        for (uint64_t i = 0; i < x->v->elements; i++) {
            if (!plain_mean(p, variable, order, i))
                continue;
            if (x->v->kind == STEPGATE_ASSIGNED)
                x->now[i] = plain_publish(x, x->mean[i]);
            else
                plain_rule(p, x, i, &scalars, x->mean[i]);
        }
    }
    plain_forget(x);
}

/* plain_squares -- n numbers, as a block is squared and added. */
static inline double plain_squares(const double *values, uint64_t n)
{
    double partial[8] = {0};

    for (uint64_t i = 0; i < n; i++) {
        double square = values[i] * values[i];
        partial[i % 8] += square;
    }
    return ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
           ((partial[1] + partial[5]) + (partial[3] + partial[7]));
}

/* plain_measure -- the sum of the squares of the mean. */
static inline double plain_measure(struct plain *p, const struct board_order *order)
{
    struct exact_sum sum;

    exact_clear(&sum);
    for (size_t v = 0; v < p->model->count; v++) {
        struct plain_variable *x = &p->variables[v];
        uint64_t unit = x->v->kind == STEPGATE_SPARSE ? x->v->row_elements : PLAN_BLOCK, n = x->v->elements;
        if (x->v->frozen || (x->v->kind != STEPGATE_TRAINED && x->v->kind != STEPGATE_SPARSE))
            continue;
        plain_gather(p, v, order);
        for (uint64_t first = 0; first < n; first += unit) {
            uint64_t m = n - first < unit ? n - first : unit;
            bool there = true;
            for (uint64_t i = first; i < first + m; i++)
                there = plain_mean(p, v, order, i) && there;
            if (there)
                exact_add(&sum, plain_squares(x->mean + first, m));
        }
        if (!order->accumulated)
            plain_forget(x);
    }
    return exact_round(&sum);
}

/* plain_initial -- what worker 0 gave becomes step 0; values are in now. */
static inline void plain_initial(struct plain *p)
{
    const struct optimizer_rule *rule = optimizer_rule(p->model->optimizer, p->model->torch);

    for (size_t v = 0; v < p->model->count; v++) {
        struct plain_variable *x = &p->variables[v];
        for (uint64_t i = 0; i < x->v->elements; i++) {
            x->old[i] = x->exact[i] = x->average[i] = x->now[i];
            for (unsigned s = 0; s < rule->slots; s++)
                x->slots[s][i] =
                    plain_round(x, optimizer_slot_initial(rule, s, p->model->initial_accumulator));
        }
    }
}

/* plain_run -- any order but the initial one, a measure and a snapshot. */
static inline void plain_run(struct plain *p, const struct board_order *order)
{
    for (size_t v = 0; v < p->model->count; v++)
        if (order->kind != BOARD_ACCUMULATE)
            plain_step(p, v, order);
        else if (p->model->variables[v].kind == STEPGATE_AUX)
            plain_keep(p, v, &order->set[0]);
        else if (!p->model->variables[v].frozen)
            plain_add(p, v, &order->set[0]);
}

#endif
