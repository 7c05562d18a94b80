/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test-worker -- a worker for tests of the whole job: one variable of ELEMENTS numbers, STEPS steps, and a rest in the middle of it.
 *
 *     test-worker ELEMENTS STEPS REST_MS all|first
 *
 * all: everybody rests in the program; first: worker 0 rests, and everybody else waits for the token.
 * Prints "resting" when worker 0's rest begins and "rested" at its end. SIGUSR1 ends the rest.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stepgate/stepgate.h"

static volatile sig_atomic_t worker_woken;

/* worker_wake -- on SIGUSR1. */
static void worker_wake(int number)
{
    (void)number;
    worker_woken = 1;
}

/* worker_rest -- in the program, not in the library. */
static void worker_rest(int rank, long ms, int all)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    if (rank == 0)
        puts("resting");
    fflush(stdout);
    if ((all || rank == 0) && !worker_woken)
        nanosleep(&time, NULL);
    if (rank == 0)
        puts("rested");
    fflush(stdout);
}

/* worker_train -- pushes ones, so that each step takes 1 from each number; returns 0 if that is what came out. */
static int worker_train(struct stepgate_job *job, uint64_t elements, uint64_t steps, long rest_ms, int all)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    struct stepgate_model *model = NULL;
    const void *value;
    void *gradient;
    int v, rc;

    if ((rc = stepgate_model_new(job, "test", &model)) < 0 ||
        (rc = stepgate_model_set(model, "optimizer", "momentum")) < 0 ||
        (rc = stepgate_model_set(model, "momentum", "0")) < 0 ||
        (rc = stepgate_model_set(model, "learning_rate", "1")) < 0 ||
        (rc = stepgate_model_variable(model, "v", STEPGATE_TRAINED, STEPGATE_F32, 1, &elements, &v)) < 0 ||
        (rc = stepgate_model_commit(model, -1, NULL)) < 0)
        return rc;
    for (;;) {
        if ((rc = stepgate_step_begin(model, -1, &info)) < 0 ||
            (rc = stepgate_step_pull(model, v, -1, NULL)) < 0 ||
            (rc = stepgate_buffer_parameter(model, v, &value)) < 0 ||
            (rc = stepgate_buffer_gradient(model, v, &gradient)) < 0)
            return rc;
        const float *parameter = value;
        if (parameter[0] != -(float)info.step || parameter[elements - 1] != -(float)info.step) {
            fprintf(stderr, "step %llu: the parameters are wrong\n", (unsigned long long)info.step);
            return 1;
        }
        if (info.step == steps)
            return stepgate_job_leave(job, -1);
        if (info.step == steps / 2)
            worker_rest(stepgate_job_rank(job), rest_ms, all);
        for (uint64_t i = 0; i < elements; i++)
            ((float *)gradient)[i] = 1.0F;
        if ((rc = stepgate_step_push(model, v)) < 0 || (rc = stepgate_step_finish(model, 1.0)) < 0)
            return rc;
    }
}

int main(int argc, char **argv)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    int rc;

    if (argc < 5)
        return 2;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = worker_wake}, NULL);
    if ((rc = stepgate_options_new(&options)) == 0 && (rc = stepgate_options_from_env(options)) == 0 &&
        (rc = stepgate_job_join(options, -1, &job)) == 0)
        rc = worker_train(job, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10),
                          strtol(argv[3], NULL, 10), strcmp(argv[4], "all") == 0);
    if (rc < 0) {
        struct stepgate_error error = {.size = sizeof(error)};
        stepgate_error_last(&error);
        fprintf(stderr, "test-worker: %s\n", error.text);
    }
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    return rc != 0;
}
