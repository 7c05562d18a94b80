/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/histogram.h"

#include <math.h>
#include <string.h>

/* histogram_clear -- see histogram.h. */
void histogram_clear(struct histogram *h)
{
    memset(h, 0, sizeof(*h));
    h->min = UINT64_MAX;
}

/* histogram_place -- the bucket of a value: itself below 128, then 128 to each power of two. */
static unsigned histogram_place(uint64_t value)
{
    if (value < HISTOGRAM_FINE)
        return (unsigned)value;
    unsigned power = 63u - (unsigned)__builtin_clzll(value); /* >= 7 */
    return (power - 6) * HISTOGRAM_FINE + (unsigned)((value >> (power - 7)) - HISTOGRAM_FINE);
}

/* histogram_middle -- of a bucket. */
static double histogram_middle(unsigned place)
{
    if (place < HISTOGRAM_FINE)
        return place;
    unsigned power = place / HISTOGRAM_FINE - 1; /* width of the bucket is 2^power */
    double low = ldexp(HISTOGRAM_FINE + place % HISTOGRAM_FINE, (int)power);
    return low + (ldexp(1, (int)power) - 1) / 2;
}

/* histogram_add -- see histogram.h. */
void histogram_add(struct histogram *h, uint64_t value)
{
    double away = (double)value - h->mean;

    h->count++;
    h->mean += away / (double)h->count;
    h->squares += away * ((double)value - h->mean);
    h->min = value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
    h->bucket[histogram_place(value)]++;
}

/* histogram_merge -- see histogram.h; means and squares by Chan's formula for two parts. */
void histogram_merge(struct histogram *h, const struct histogram *other)
{
    if (other->count == 0)
        return;
    double a = (double)h->count, b = (double)other->count, away = other->mean - h->mean;

    h->squares += other->squares + away * away * a * b / (a + b);
    h->mean += away * b / (a + b);
    h->count += other->count;
    h->min = other->min < h->min ? other->min : h->min;
    h->max = other->max > h->max ? other->max : h->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        h->bucket[i] += other->bucket[i];
}

/* histogram_percentile -- see histogram.h. */
double histogram_percentile(const struct histogram *h, double share)
{
    double smaller = share < 0.5 ? share : 1 - share;
    uint64_t rank, seen = 0;

    if (h->count == 0 || (share != 0.5 && smaller * (double)h->count < HISTOGRAM_BEYOND - 1e-6))
        return -1;
    rank = (uint64_t)ceil(share * (double)h->count);
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen >= rank && seen > 0) {
            double value = histogram_middle(i);
            value = value < (double)h->min ? (double)h->min : value;
            return value > (double)h->max ? (double)h->max : value;
        }
    }
    return (double)h->max;
}

/* histogram_deviation -- see histogram.h. */
double histogram_deviation(const struct histogram *h)
{
    return h->count < 2 ? 0 : sqrt(h->squares / (double)(h->count - 1));
}
