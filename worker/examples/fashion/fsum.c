/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/fsum.h"

#include <math.h>

/* fsum_add -- what an addition loses stays as a partial of its own */
void fsum_add(struct fsum *sum, double value)
{
    size_t kept = 0;
    if (!isfinite(value)) {
        sum->special += value;
        return;
    }
    for (size_t i = 0; i < sum->count; i++) {
        double x = value, y = sum->partials[i];
        if (fabs(x) < fabs(y)) {
            x = sum->partials[i];
            y = value;
        }
        value = x + y;
        double lost = y - (value - x);
        if (lost != 0.0)
            sum->partials[kept++] = lost;
    }
    sum->partials[kept++] = value;
    sum->count = kept;
}

/* fsum_round -- from the largest down, until something is lost; if that is half of the last place,
 * what is left below it decides */
double fsum_round(const struct fsum *sum)
{
    size_t n = sum->count;
    double all = 0.0, lost = 0.0;
    if (sum->special != 0.0)
        return sum->special;
    if (n == 0)
        return 0.0;
    for (all = sum->partials[--n]; n > 0 && lost == 0.0;) {
        double x = all, y = sum->partials[--n];
        all = x + y;
        lost = y - (all - x);
    }
    if (n > 0 && ((lost < 0.0 && sum->partials[n - 1] < 0.0) || (lost > 0.0 && sum->partials[n - 1] > 0.0))) {
        double twice = 2.0 * lost, next = all + twice;
        if (twice == next - all)
            all = next;
    }
    return all;
}
