/* SPDX-License-Identifier: BSD-3-Clause */
/* trainee -- a worker's program in a simulated job: joins, declares, and runs the steps through the session, one small move at a time. */
#ifndef TESTS_SIMULATION_TRAINEE_H
#define TESTS_SIMULATION_TRAINEE_H

#include "tests/simulation/reference.h"
#include "transport/base/random.h"
#include "worker/session/session.h"

enum trainee_state {
    TRAINEE_JOINING,
    TRAINEE_COMMITTING,
    TRAINEE_BEGINNING,
    TRAINEE_PULLING,
    TRAINEE_PUSHING,
    TRAINEE_BARRIER,
    TRAINEE_LEAVING,
    TRAINEE_DONE,
    TRAINEE_FAILED
};

struct trainee {
    const struct reference *reference;
    uint32_t rank;
    struct session *session;
    struct session_model *model;
    struct random_source random;
    int state;
    int error;       /* the negative code it failed with */
    char wrong[256]; /* what it saw that must not be; "" : nothing */
    bool callers;    /* uses buffers of its own */
    float *own_gradient[REFERENCE_VARIABLES_MAX], *own_parameter[REFERENCE_VARIABLES_MAX];
    uint32_t step;
    uint32_t order[REFERENCE_VARIABLES_MAX], next;
    uint64_t steps_done;
};

/* trainee_move -- one move; returns 1 if something was done. */
int trainee_move(struct trainee *trainee, uint64_t now);
/* trainee_over -- done or failed. */
bool trainee_over(const struct trainee *trainee);
void trainee_clear(struct trainee *trainee);

#endif
