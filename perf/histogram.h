/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * histogram -- durations in a fixed amount of memory: logarithmic buckets, 128 to each power of two, so that a percentile is wrong by less
 * than 1 % whether there were a thousand samples or a billion. Minimum, maximum, mean and standard deviation are exact; no sample is
 * dropped.
 */
#ifndef PERF_HISTOGRAM_H
#define PERF_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_FINE 128 /* buckets of each power of two */
#define HISTOGRAM_BUCKETS (HISTOGRAM_FINE * (64 - 7 + 1))
#define HISTOGRAM_BEYOND 10 /* samples that must lie beyond a percentile for it to mean anything */

struct histogram {
    uint64_t count, min, max;
    double mean, squares; /* of the deviations from the mean (Welford) */
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* histogram_clear -- no samples. */
void histogram_clear(struct histogram *histogram);
/* histogram_add -- one sample. */
void histogram_add(struct histogram *histogram, uint64_t value);
/* histogram_merge -- adds the samples of another. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);
/*
 * histogram_percentile -- the value that `share` (0 to 1) of the samples do not exceed: the middle of its bucket, within [min, max]. Negative: too few
 * samples lie beyond it (fewer than HISTOGRAM_BEYOND on its smaller side; the median of any sample at all is given).
 */
double histogram_percentile(const struct histogram *histogram, double share);
/* histogram_deviation -- the standard deviation of the sample; 0 for fewer than two. */
double histogram_deviation(const struct histogram *histogram);

#endif
