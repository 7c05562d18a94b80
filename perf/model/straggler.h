/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * straggler -- how much longer than planned a worker computes in a step, as a distribution on x >= 0, and what that does to a step that waits for R of T workers.
 *
 *   none               x = 0
 *   exp:MEAN           F(x) = 1 - exp(-x / MEAN)
 *   normal:MEAN:SD     F(x) = Phi((x - MEAN) / SD), what is below 0 counts as 0
 *   pareto:MEAN:SHAPE  F(x) = 1 - (1 + x / (MEAN (SHAPE - 1)))^-SHAPE, SHAPE > 1 (Lomax: from 0 on)
 *
 * Durations are seconds, or have one of the units ns, us, ms, s behind them.
 */
#ifndef PERF_MODEL_STRAGGLER_H
#define PERF_MODEL_STRAGGLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum straggler_kind { STRAGGLER_NONE, STRAGGLER_EXP, STRAGGLER_NORMAL, STRAGGLER_PARETO };

struct straggler {
    enum straggler_kind kind;
    double mean, second; /* seconds; second: SD in seconds, or the shape */
};

/* straggler_parse -- 0, or -1 with one line in `text`. */
int straggler_parse(const char *from, struct straggler *out, char *text, size_t bytes);
/* straggler_below -- F(x). */
double straggler_below(const struct straggler *straggler, double x);
/* straggler_quantile -- the x with F(x) = u, 0 <= u < 1. */
double straggler_quantile(const struct straggler *straggler, double u);

/*
 * straggler_order -- the mean of the R-th smallest of T independent draws: the integral over x > 0 of P(fewer than R of T are <= x), which is the regularised incomplete beta function
 * I(1 - F(x); T - R + 1, R) (David and Nagaraja, Order Statistics, 2.1 and 3.1); for exp it is MEAN * (1/(T-R+1) + ... + 1/T).
 */
double straggler_order(const struct straggler *straggler, uint64_t r, uint64_t t);
/* straggler_more -- I(p; a, b), for whole a and b >= 1. */
double straggler_more(double p, double a, double b);

/*
 * straggler_backup -- how long after the step's begin, without what everybody needs, the R-th of T is ready where R < T and the others are not told to stop. Who is late in a step begins the next
 * one late: with c the answer, `after` the time from there to the next begin, `rest` what is the same in every step, and D = c + rest the step,
 *
 *   lateness'  =  lateness - D                            if lateness >= D: nothing is handed in to this step
 *              =  max(0, lateness + x - c - after)        else
 *
 * (Lindley's recursion), whose stationary distribution is iterated on a grid of at most D/128; workers count as independent, and c as its mean. Long steps take lateness away, which that
 * does not see: with tails as heavy as pareto's and few backup workers c comes out too large (by a quarter of the step for 14 of 16 and a shape of 3). Without the lateness this is the model of Chen et al.,
 * Revisiting Distributed Synchronous SGD (2016), whose workers drop what is late.
 */
double straggler_backup(const struct straggler *straggler, uint64_t r, uint64_t t, double after, double rest);

#endif
