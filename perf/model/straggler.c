/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/model/straggler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRAGGLER_POINTS 8000 /* of the integral over logarithms; even */
#define STRAGGLER_SPAN 80.0   /* up to exp(80) times the scale */
#define STRAGGLER_CELLS 128   /* of a step */
#define STRAGGLER_FINE 32     /* cells of a mean or standard deviation, at least */
#define STRAGGLER_GRID ((size_t)4096)
#define STRAGGLER_ROUNDS 400

/* straggler_number -- up to ':' or the end; a unit where `timed`. Returns what follows, or NULL. */
static const char *straggler_number(const char *from, bool timed, double *out)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"", 1}};
    char *end;
    double number = strtod(from, &end);

    if (end == from || !(number > 0) || !isfinite(number))
        return NULL;
    size_t length = strcspn(end, ":");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strlen(units[i].unit) == length && strncmp(end, units[i].unit, length) == 0 &&
            (timed || length == 0)) {
            *out = number * units[i].factor;
            return end[length] == ':' ? end + length + 1 : end + length;
        }
    return NULL;
}

/* straggler_parse -- see straggler.h. */
int straggler_parse(const char *from, struct straggler *out, char *text, size_t bytes)
{
    static const char *const names[] = {"none", "exp:", "normal:", "pareto:"};
    struct straggler s = {.kind = STRAGGLER_NONE};
    const char *at = from;

    if (strcmp(from, "none") == 0) {
        *out = s;
        return 0;
    }
    for (int k = STRAGGLER_EXP; k <= STRAGGLER_PARETO; k++)
        if (strncmp(from, names[k], strlen(names[k])) == 0) {
            s.kind = (enum straggler_kind)k;
            at = straggler_number(from + strlen(names[k]), true, &s.mean);
            if (at != NULL && k > STRAGGLER_EXP)
                at = straggler_number(at, k == STRAGGLER_NORMAL, &s.second);
        }
    if (s.kind == STRAGGLER_NONE || at == NULL || *at != '\0' ||
        (s.kind == STRAGGLER_PARETO && s.second <= 1)) {
        snprintf(
            text, bytes,
            "--straggler does not take %s: give none, exp:5ms, normal:5ms:1ms or pareto:5ms:2.5 (mean and "
            "shape, more than 1)",
            from);
        return -1;
    }
    *out = s;
    return 0;
}

/* straggler_above -- 1 - F(x), also where that is small. */
static double straggler_above(const struct straggler *s, double x)
{
    if (x < 0)
        return 1;
    switch (s->kind) {
    case STRAGGLER_EXP: return exp(-x / s->mean);
    case STRAGGLER_NORMAL: return 0.5 * erfc((x - s->mean) / s->second * M_SQRT1_2);
    case STRAGGLER_PARETO: return pow(1 + x / (s->mean * (s->second - 1)), -s->second);
    default: return 0;
    }
}

/* straggler_below -- see straggler.h. */
double straggler_below(const struct straggler *s, double x)
{
    return 1 - straggler_above(s, x);
}

/* straggler_quantile -- see straggler.h. */
double straggler_quantile(const struct straggler *s, double u)
{
    double low = 0, high = s->mean;

    switch (s->kind) {
    case STRAGGLER_NONE: return 0;
    case STRAGGLER_EXP: return -s->mean * log1p(-u);
    case STRAGGLER_PARETO: return s->mean * (s->second - 1) * expm1(-log1p(-u) / s->second);
    default: break;
    }
    if (straggler_below(s, 0) >= u)
        return 0;
    while (straggler_below(s, high) < u)
        high *= 2;
    for (int i = 0; i < 200 && low < high; i++) {
        double middle = low + (high - low) / 2;
        *(straggler_below(s, middle) < u ? &low : &high) = middle;
    }
    return high;
}

/* straggler_fraction -- the continued fraction of the incomplete beta function, by Lentz's method. */
static double straggler_fraction(double p, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * p / (a + 1), result;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    result = d;
    for (int m = 1; m < 100000; m++) {
        double even = m * (b - m) * p / ((a + 2 * m - 1) * (a + 2 * m)),
               odd = -(a + m) * (a + b + m) * p / ((a + 2 * m) * (a + 2 * m + 1));
        for (int i = 0; i < 2; i++) {
            double next = i == 0 ? even : odd;
            d = 1 + next * d;
            c = 1 + next / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            result *= d * c;
        }
        if (fabs(d * c - 1) < 1e-14)
            break;
    }
    return result;
}

/* straggler_more -- see straggler.h. */
double straggler_more(double p, double a, double b)
{
    if (p <= 0 || p >= 1)
        return p <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(p) +
                       b * log1p(-p)); /* the density times p (1 - p) */
    return p < (a + 1) / (a + b + 2) ? front * straggler_fraction(p, a, b) / a
                                     : 1 - front * straggler_fraction(1 - p, b, a) / b;
}

/* straggler_order -- see straggler.h: x = from + scale * (exp(t) - 1), so that tails of any weight are in reach; Simpson's rule over t. */
double straggler_order(const struct straggler *s, uint64_t r, uint64_t t)
{
    double a = (double)(t - r + 1), b = (double)r, sum = 0;

    if (s->kind == STRAGGLER_NONE)
        return 0;
    if (s->kind == STRAGGLER_EXP) {
        for (uint64_t i = t - r + 1; i <= t; i++)
            sum += 1 / (double)i;
        return s->mean * sum;
    }
    bool normal = s->kind == STRAGGLER_NORMAL;
    double from = normal && s->mean > 12 * s->second ? s->mean - 12 * s->second : 0,
           scale = normal ? s->second : s->mean / 100,
           step = (normal ? log1p(24 + s->mean / s->second) : STRAGGLER_SPAN) / STRAGGLER_POINTS;
    for (int i = 0; i <= STRAGGLER_POINTS; i++) {
        double x = from + scale * expm1(i * step);
        double weight = i == 0 || i == STRAGGLER_POINTS ? 1 : i % 2 == 1 ? 4 : 2;
        sum += weight * scale * exp(i * step) * straggler_more(straggler_above(s, x), a, b);
    }
    return from + sum * step / 3;
}

/* straggler_least -- what nothing is below of. */
static double straggler_least(const struct straggler *s)
{
    return s->kind == STRAGGLER_NORMAL && s->mean > 12 * s->second ? s->mean - 12 * s->second : 0;
}

/* The state of straggler_backup: probabilities on a grid. */
struct straggler_grid {
    double cell, least;           /* seconds; x is never less than that */
    size_t draws;                 /* cells of x with anything in them */
    double late[STRAGGLER_GRID];  /* lateness: at cell i */
    double draw[STRAGGLER_GRID];  /* x, from `least` on: in cell i, taken to be at its middle */
    double ready[STRAGGLER_GRID]; /* lateness + x of those that take part: in cell i */
    double next[STRAGGLER_GRID];
};

/* grid_draw -- the distribution of x in cells; the last one has the rest. */
static void grid_draw(struct straggler_grid *g, const struct straggler *s, double step)
{
    bool normal = s->kind == STRAGGLER_NORMAL;
    double fine = (normal ? s->second : s->mean) / STRAGGLER_FINE, low = 1;

    g->least = straggler_least(s);
    g->cell = step / STRAGGLER_CELLS < fine ? step / STRAGGLER_CELLS : fine;
    for (g->draws = 0; g->draws < STRAGGLER_GRID && low > 1e-15; g->draws++) {
        bool last = g->draws + 1 == STRAGGLER_GRID;
        double high = last ? 0 : straggler_above(s, g->least + (double)(g->draws + 1) * g->cell);
        g->draw[g->draws] = low - high;
        low = high;
    }
}

/* grid_ready -- when workers that begin this step are ready. Returns the share of workers that do. */
static double grid_ready(struct straggler_grid *g, double step)
{
    double share = 0;

    memset(g->ready, 0, sizeof(g->ready));
    for (size_t l = 0; l < STRAGGLER_GRID && (double)l * g->cell < step; l++) {
        share += g->late[l];
        if (g->late[l] < 1e-15)
            continue;
        for (size_t i = 0; i < g->draws; i++)
            g->ready[l + i < STRAGGLER_GRID ? l + i : STRAGGLER_GRID - 1] += g->late[l] * g->draw[i];
    }
    return share;
}

/* grid_order -- the mean of the R-th of T that are ready; within a cell ready times are spread evenly. */
static double grid_order(const struct straggler_grid *g, uint64_t r, uint64_t t)
{
    double below = 0, sum = 0, before = 1;

    for (size_t i = 0; i < STRAGGLER_GRID; i++) {
        double half = straggler_more(1 - (below + g->ready[i] / 2), (double)(t - r + 1), (double)r);
        below += g->ready[i];
        double after = straggler_more(1 - below, (double)(t - r + 1), (double)r);
        sum += (before + 4 * half + after) / 6 * g->cell;
        before = after;
        if (after < 1e-12)
            break;
    }
    return sum;
}

/* grid_put -- some probability at a lateness between two points of the grid. */
static void grid_put(struct straggler_grid *g, double lateness, double probability)
{
    double at = lateness > 0 ? lateness / g->cell : 0;
    size_t low = at < STRAGGLER_GRID - 1 ? (size_t)at : STRAGGLER_GRID - 2;
    double share = at - (double)low < 1 ? at - (double)low : 1;

    g->next[low] += probability * (1 - share);
    g->next[low + 1] += probability * share;
}

/* grid_move -- the lateness at the begin of the next step. Returns how much of the probability has moved. */
static double grid_move(struct straggler_grid *g, double passes, double step)
{
    double moved = 0;

    memset(g->next, 0, sizeof(g->next));
    for (size_t i = 0; i < STRAGGLER_GRID; i++) {
        double at = (double)i * g->cell;
        if (at >= step && g->late[i] > 0)
            grid_put(g, at - step, g->late[i]);
        if (g->ready[i] > 0)
            grid_put(g, at + g->cell / 2 - passes, g->ready[i]);
    }
    for (size_t i = 0; i < STRAGGLER_GRID; i++)
        moved += fabs(g->next[i] - g->late[i]);
    memcpy(g->late, g->next, sizeof(g->late));
    return moved;
}

/* straggler_backup -- see straggler.h. */
double straggler_backup(const struct straggler *s, uint64_t r, uint64_t t, double after, double rest)
{
    struct straggler_grid *g = s->kind == STRAGGLER_NONE ? NULL : calloc(1, sizeof(*g));
    double c = straggler_order(s, r, t);

    if (g == NULL || r == t) {
        free(g);
        return c;
    }
    g->late[0] = 1;
    grid_draw(g, s, c + rest);
    c -= g->least; /* what everybody needs */
    rest += g->least;
    for (int round = 0; round < STRAGGLER_ROUNDS; round++) {
        grid_ready(g, c + rest);
        double newer = grid_order(g, r, t);
        double moved = grid_move(g, newer + after, newer + rest);
        bool settled = fabs(newer - c) < 1e-7 * (c + rest) && moved < 1e-6;
        c = round < 20 ? newer : (c + newer) / 2; /* calmly, where the share of those that take part swings */
        if (settled)
            break;
    }
    c += g->least;
    free(g);
    return c;
}
