/* SPDX-License-Identifier: BSD-3-Clause */
/* rule -- one step of one element, by the formulas as they are documented, each operation rounded to the computing type. */
#include <math.h>

#include "tests/simulation/plain.h"
#include "tests/simulation/reference.h"

#define RULE_PI 3.14159265358979323846

/* rule_rate -- the schedule, in double. */
static double rule_rate(const struct shape *s, double k)
{
    double n = (double)s->rate_steps, end = s->rate_end;

    if (k < (double)s->warmup)
        return s->rate * (k + 1) / (double)s->warmup;
    switch (s->schedule) {
    case MODEL_LINEAR: return k >= n ? end : end + (s->rate - end) * (1.0 - k / n);
    case MODEL_EXPONENTIAL: return s->rate * pow(s->rate_factor, s->staircase ? floor(k / n) : k / n);
    case MODEL_COSINE: return end + (s->rate - end) * 0.5 * (1.0 + cos(RULE_PI * ((k < n ? k : n) / n)));
    default: return s->rate;
    }
}

#define R(x) plain_round(wide, (x))

/* rule_scalars_at -- see the header. */
void rule_scalars_at(const struct reference *r, bool wide, struct rule_scalars *out)
{
    const struct shape *s = r->shape;
    double k = (double)r->step, n = k + 1, t = (double)r->updates + 1, d = s->average_decay;
    double rate = R(rule_rate(s, k)), power1 = wide ? r->wide_beta1_power : (double)r->beta1_power,
           power2 = wide ? r->wide_beta2_power : (double)r->beta2_power;

    *out = (struct rule_scalars){.rate = rate, .scale = 1, .alpha = rate, .root2 = 1};
    out->momentum = R(s->momentum);
    out->rho = R(s->rho);
    out->one_minus_rho = R(1 - (s->torch ? s->rho : R(s->rho)));
    out->beta2 = R(s->beta2);
    out->one_minus_beta1 = R(1 - (s->torch ? s->beta1 : R(s->beta1)));
    out->one_minus_beta2 = R(1 - (s->torch ? s->beta2 : R(s->beta2)));
    out->epsilon = R(s->epsilon);
    out->l2 = R(s->l2);
    out->clip_value = R(s->clip_value);
    if (s->average_by_step && (1 + n) / (10 + n) < d)
        d = (1 + n) / (10 + n);
    out->average_rate = s->average_decay > 0 ? R(1 - d) : 0;
    if (s->optimizer == MODEL_ADAMW)
        out->decay = R(rate * (s->torch ? s->weight_decay : R(s->weight_decay)));
    if (s->optimizer != MODEL_ADAM && s->optimizer != MODEL_ADAMW)
        return;
    if (s->torch) {
        out->alpha = R(rate / (1 - pow(s->beta1, t)));
        out->root2 = R(sqrt(1 - pow(s->beta2, t)));
    } else {
        out->alpha = R(R(rate * R(sqrt(R(1 - power2)))) / R(1 - power1));
    }
}

/* rule_slots -- see the header. */
int rule_slots(const struct shape *s)
{
    switch (s->optimizer) {
    case MODEL_SGD:
    case MODEL_NONE: return 0;
    case MODEL_MOMENTUM:
    case MODEL_NESTEROV:
    case MODEL_ADAGRAD: return 1;
    default: return 2;
    }
}

/* rule_initial -- see the header. */
double rule_initial(const struct shape *s, bool wide, int slot)
{
    if (slot == 0 && s->optimizer == MODEL_ADAGRAD)
        return R(s->accumulator);
    return slot == 0 && s->optimizer == MODEL_RMSPROP && !s->torch ? 1 : 0;
}

/* rule_adam -- both formulas. */
static double rule_adam(const struct shape *s, const struct rule_scalars *h, bool wide, double alpha,
                        double g, double *m, double *v)
{
    double square = R(g * g);

    if (s->torch) {
        *m = R(*m + R(h->one_minus_beta1 * R(g - *m)));
        *v = R(R(h->beta2 * *v) + R(h->one_minus_beta2 * square));
        return R(alpha * R(*m / R(R(R(sqrt(*v)) / h->root2) + h->epsilon)));
    }
    *m = R(*m + R(R(g - *m) * h->one_minus_beta1));
    *v = R(*v + R(R(square - *v) * h->one_minus_beta2));
    return R(R(*m * alpha) / R(R(sqrt(*v)) + h->epsilon));
}

/* rule_rmsprop -- both formulas. */
static double rule_rmsprop(const struct shape *s, const struct rule_scalars *h, bool wide, double rate,
                           double g, double *ms, double *mom)
{
    double square = R(g * g);

    if (!s->torch) {
        *ms = R(*ms + R(R(square - *ms) * h->one_minus_rho));
        *mom = R(R(h->momentum * *mom) + R(R(rate * g) / R(sqrt(R(*ms + h->epsilon)))));
        return *mom;
    }
    *ms = R(R(h->rho * *ms) + R(h->one_minus_rho * square));
    double d = R(g / R(R(sqrt(*ms)) + h->epsilon));
    if (h->momentum == 0)
        return R(rate * d);
    *mom = R(R(h->momentum * *mom) + d);
    return R(rate * *mom);
}

/* rule_change -- what is subtracted from the variable. */
static double rule_change(const struct shape *s, const struct rule_scalars *h, bool wide, double rate,
                          double alpha, double g, double *first, double *second)
{
    switch (s->optimizer) {
    case MODEL_MOMENTUM: *first = R(R(h->momentum * *first) + g); return R(rate * *first);
    case MODEL_NESTEROV:
        *first = R(R(h->momentum * *first) + g);
        return rate * (g + h->momentum * *first); /* in f64 for both types */
    case MODEL_ADAGRAD:
        *first = R(*first + R(g * g));
        if (s->torch)
            return R(rate * R(g / R(R(sqrt(*first)) + h->epsilon)));
        return R(R(rate * g) / R(sqrt(*first)));
    case MODEL_RMSPROP: return rule_rmsprop(s, h, wide, rate, g, first, second);
    case MODEL_ADAM:
    case MODEL_ADAMW: return rule_adam(s, h, wide, alpha, g, first, second);
    default: return R(rate * g);
    }
}

/* rule_element -- see the header. */
void rule_element(const struct shape *s, const struct shape_variable *v, const struct rule_scalars *h,
                  double g, double *const at[REFERENCE_ARRAYS])
{
    bool wide = shape_wide(v);
    double scale = (double)v->rate_scale, *var = at[REFERENCE_VALUE], *average = at[REFERENCE_AVERAGE];
    double rate = scale == 1 ? h->rate : R(h->rate * scale);
    double alpha = scale == 1 ? h->alpha : R(h->alpha * scale);
    double decay = scale == 1 ? h->decay : R(h->decay * scale);

    if (h->scale != 1)
        g = R(h->scale * g);
    if (h->clip_value != 0 && g > h->clip_value)
        g = h->clip_value;
    if (h->clip_value != 0 && g < -h->clip_value)
        g = -h->clip_value;
    if (h->l2 != 0 && v->decays && s->optimizer != MODEL_NONE)
        g = R(g + R(h->l2 * *var));
    if (s->optimizer == MODEL_NONE) {
        *var = g;
    } else {
        if (s->optimizer == MODEL_ADAMW && v->decays)
            *var = R(*var - R(decay * *var));
        *var = R(*var - rule_change(s, h, wide, rate, alpha, g, at[REFERENCE_FIRST], at[REFERENCE_SECOND]));
    }
    if (average != NULL)
        *average = R(*average - R(h->average_rate * R(*average - *var)));
}
