/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/lane/kernel.h"

#define KERNEL_BLOCK 1024 /* elements of a sum that stay in the first-level cache */

/* kernel_add -- s[i] += g[i]. */
static void kernel_add(float *restrict s, const float *restrict g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s[i] += g[i];
}

/* kernel_add_weighted -- s[i] += w * g[i], the product rounded first. */
static void kernel_add_weighted(float *restrict s, const float *restrict g, float w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float product = w * g[i];
        s[i] += product;
    }
}

/* kernel_mean -- the mean of one block, elements first .. first + n. */
static void kernel_mean(const struct kernel_sum *sum, size_t first, float *restrict s, size_t n)
{
    const float *restrict g = sum->gradients[0] + first;

    if (sum->weights == NULL) {
        for (size_t i = 0; i < n; i++)
            s[i] = g[i];
        for (size_t w = 1; w < sum->count; w++)
            kernel_add(s, sum->gradients[w] + first, n);
    } else {
        for (size_t i = 0; i < n; i++)
            s[i] = sum->weights[0] * g[i];
        for (size_t w = 1; w < sum->count; w++)
            kernel_add_weighted(s, sum->gradients[w] + first, sum->weights[w], n);
    }
    float divisor = sum->divisor;
    for (size_t i = 0; i < n; i++)
        s[i] /= divisor;
}

/* kernel_sgd -- see kernel.h. */
void kernel_sgd(const struct kernel_sum *sum, const float *now, float *next, float rate, size_t n)
{
    float s[KERNEL_BLOCK];

    for (size_t first = 0; first < n; first += KERNEL_BLOCK) {
        size_t m = n - first < KERNEL_BLOCK ? n - first : KERNEL_BLOCK;
        const float *restrict p = now + first;
        float *restrict q = next + first;
        kernel_mean(sum, first, s, m);
        for (size_t i = 0; i < m; i++) {
            float product = rate * s[i];
            q[i] = p[i] - product;
        }
    }
}

/* kernel_momentum -- see kernel.h. */
void kernel_momentum(const struct kernel_sum *sum, const float *now, float *next, float *accum, float rate,
                     float momentum, size_t n)
{
    float s[KERNEL_BLOCK];

    for (size_t first = 0; first < n; first += KERNEL_BLOCK) {
        size_t m = n - first < KERNEL_BLOCK ? n - first : KERNEL_BLOCK;
        const float *restrict p = now + first;
        float *restrict q = next + first;
        float *restrict a = accum + first;
        kernel_mean(sum, first, s, m);
        for (size_t i = 0; i < m; i++) {
            float kept = momentum * a[i];
            float fresh = kept + s[i];
            float product = rate * fresh;
            a[i] = fresh;
            q[i] = p[i] - product;
        }
    }
}
