/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/reference.h"

#include <stdlib.h>
#include <string.h>

/* reference_mix -- a hash of five numbers. */
static uint64_t reference_mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t z = seed + a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xbf58476d1ce4e5b9) +
                 c * UINT64_C(0x94d049bb133111eb) + d * UINT64_C(0xd6e8feb86659fd93);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* reference_unit -- a float in [-1, 1). */
static float reference_unit(uint64_t bits)
{
    return (float)(int32_t)(bits >> 32) / 2147483648.0f;
}

/* reference_initial -- see the header. */
float reference_initial(const struct reference *r, uint32_t variable, uint64_t element)
{
    return reference_unit(reference_mix(r->seed, 1, variable, element, 0));
}

/* reference_absent -- see the header. */
bool reference_absent(const struct reference *r, uint32_t worker, uint32_t step, uint32_t variable)
{
    return r->absences && reference_mix(r->seed, 2, worker, step, variable) % 11 == 0;
}

/* reference_weight -- see the header. */
double reference_weight(const struct reference *r, uint32_t worker, uint32_t step)
{
    uint64_t bits = reference_mix(r->seed, 3, worker, step, 0);

    if (r->absences && bits % 13 == 0)
        return 0;
    return r->weighted ? (double)(1 + bits / 13 % 7) : 1.0;
}

/* reference_gradient -- depends on what was read, so that a wrong read shows. */
void reference_gradient(const struct reference *r, uint32_t worker, uint32_t step, uint32_t variable,
                        const float *values, float *gradient)
{
    uint64_t base = reference_mix(r->seed, 4, worker, step, variable);

    for (uint64_t i = 0; i < r->elements[variable]; i++) {
        float noise = reference_unit((base + i) * UINT64_C(0x9e3779b97f4a7c15));
        float pull = values[i] * 0.125f;
        gradient[i] = noise + pull;
    }
}

/* reference_step -- one update of one variable. */
static int reference_step(struct reference *r, uint32_t step, uint32_t variable, float *accumulator)
{
    uint64_t n = r->elements[variable];
    const float *now = r->values[step][variable];
    float *next = r->values[step + 1][variable], *sum = calloc(n, sizeof(*sum)),
          *gradient = calloc(n, sizeof(*gradient));
    double total = 0;
    bool first = true, plain = true;

    if (sum == NULL || gradient == NULL) {
        free(sum);
        free(gradient);
        return -1;
    }
    for (uint32_t w = 0; w < r->workers; w++) {
        double weight = reference_weight(r, w, step);
        plain = plain && (weight == 0 || weight == 1);
        total += weight;
    }
    for (uint32_t w = 0; w < r->workers; w++) {
        double weight = reference_weight(r, w, step);
        if (weight == 0)
            continue;
        memset(gradient, 0, n * sizeof(*gradient));
        if (!reference_absent(r, w, step, variable))
            reference_gradient(r, w, step, variable, now, gradient);
        for (uint64_t i = 0; i < n; i++) {
            float product = plain ? gradient[i] : (float)weight * gradient[i];
            sum[i] = first ? product : sum[i] + product;
        }
        first = false;
    }
    for (uint64_t i = 0; i < n; i++) {
        next[i] = now[i];
        if (first)
            continue;
        float mean = sum[i] / (float)total;
        if (r->momentum) {
            float kept = r->factor * accumulator[i];
            accumulator[i] = kept + mean;
            mean = accumulator[i];
        }
        float change = r->rate * mean;
        next[i] = now[i] - change;
    }
    free(sum);
    free(gradient);
    return 0;
}

/* reference_run -- every step of every variable. */
int reference_run(struct reference *r)
{
    int status = 0;

    for (uint32_t v = 0; v < r->variables && status == 0; v++) {
        float *accumulator = calloc(r->elements[v], sizeof(float));
        status = accumulator == NULL ? -1 : 0;
        for (uint32_t s = 0; s <= r->steps; s++) {
            r->values[s][v] = calloc(r->elements[v], sizeof(float));
            if (r->values[s][v] == NULL)
                status = -1;
        }
        for (uint64_t i = 0; status == 0 && i < r->elements[v]; i++)
            r->values[0][v][i] = reference_initial(r, v, i);
        for (uint32_t s = 0; status == 0 && s < r->steps; s++)
            status = reference_step(r, s, v, accumulator);
        free(accumulator);
    }
    return status;
}

/* reference_clear -- frees the values. */
void reference_clear(struct reference *r)
{
    for (uint32_t s = 0; s <= REFERENCE_STEPS_MAX; s++)
        for (uint32_t v = 0; v < REFERENCE_VARIABLES_MAX; v++) {
            free(r->values[s][v]);
            r->values[s][v] = NULL;
        }
}
