/* SPDX-License-Identifier: BSD-3-Clause */
/* reference -- what a simulated job must compute: plain loops over the whole model, in one place, knowing no plan, shard or lane. */
#ifndef TESTS_SIMULATION_REFERENCE_H
#define TESTS_SIMULATION_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#define REFERENCE_VARIABLES_MAX 8
#define REFERENCE_WORKERS_MAX 6
#define REFERENCE_STEPS_MAX 16

struct reference {
    uint64_t seed;
    uint32_t workers, variables, steps;
    uint64_t elements[REFERENCE_VARIABLES_MAX];
    bool momentum;
    bool weighted; /* contributions have weights other than 1 */
    bool absences; /* some gradients are absent, some contributions abandoned */
    float rate, factor;
    /* values[step][variable]: after `step` updates */
    float *values[REFERENCE_STEPS_MAX + 1][REFERENCE_VARIABLES_MAX];
};

/* reference_run -- computes every step. Returns 0, or -1 without memory. */
int reference_run(struct reference *reference);
void reference_clear(struct reference *reference);

/* reference_gradient -- the gradient of one worker, from the values it read. */
void reference_gradient(const struct reference *reference, uint32_t worker, uint32_t step, uint32_t variable,
                        const float *values, float *gradient);
/* reference_weight -- of a worker's contribution to a step; 0: it is abandoned. */
double reference_weight(const struct reference *reference, uint32_t worker, uint32_t step);
/* reference_absent -- this worker has no gradient for this variable in this step. */
bool reference_absent(const struct reference *reference, uint32_t worker, uint32_t step, uint32_t variable);
/* reference_initial -- the initial value of an element. */
float reference_initial(const struct reference *reference, uint32_t variable, uint64_t element);

#endif
