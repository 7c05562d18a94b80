/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole job over shm with every ps and worker as a thread of this process, over one mapping of each segment: what ThreadSanitizer can
 * judge. Two ps of two lanes, three workers; the result is that of a plain loop, to the bit.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/stepgate.h"
#include "transport/shm/shm.h"

#define JOB_PS 2
#define JOB_WORKERS 3
#define JOB_STEPS 30
#define JOB_VARIABLES 3
#define JOB_ELEMENTS 9000

struct job_worker {
    int rank;
    int status;
    char text[512];
    float final[JOB_VARIABLES][JOB_ELEMENTS];
};

static char job_hosts[2 * STEPGATE_ADDRESS_BYTES + 2];

/* job_gradient -- from worker, step, variable, element and the value read. */
static float job_gradient(int worker, uint64_t step, int variable, int element, float value)
{
    float base = (float)((worker * 7 + (int)step * 5 + variable * 3 + element) % 17) / 8.0f;
    float pull = value * 0.25f;

    return base + pull;
}

/* job_set -- a knob that must be right. */
static void job_set(struct stepgate_options *options, const char *name, const char *text)
{
    assert_int_equal(stepgate_options_set(options, name, text), 0);
}

/* job_common -- the knobs of both sides. */
static void job_common(struct stepgate_options *options, int index)
{
    char text[32];

    job_set(options, "transport", "shm");
    snprintf(text, sizeof(text), "%d", JOB_WORKERS);
    job_set(options, "workers", text);
    snprintf(text, sizeof(text), "%d", index);
    job_set(options, "task_index", text);
    job_set(options, "join_timeout", "60s");
    job_set(options, "liveness", "60s");
}

/* job_steps -- the worker's loop; returns 0 or the first error. */
static int job_steps(struct job_worker *worker, struct stepgate_model *model)
{
    for (uint64_t step = 0; step <= JOB_STEPS; step++) {
        int status = stepgate_step_begin(model, 60000, NULL);
        for (int v = 0; status == 0 && v < JOB_VARIABLES; v++) {
            const void *value;
            void *gradient;
            status = stepgate_step_pull(model, v, 60000, NULL);
            if (status == 0)
                status = stepgate_buffer_parameter(model, v, &value);
            if (status == 0 && step == JOB_STEPS) {
                memcpy(worker->final[v], value, sizeof(worker->final[v]));
                continue;
            }
            if (status == 0)
                status = stepgate_buffer_gradient(model, v, &gradient);
            for (int i = 0; status == 0 && i < JOB_ELEMENTS; i++)
                ((float *)gradient)[i] = job_gradient(worker->rank, step, v, i, ((const float *)value)[i]);
            if (status == 0)
                status = stepgate_step_push(model, v);
        }
        if (status == 0 && step < JOB_STEPS)
            status = stepgate_step_finish(model, 1);
        if (status != 0)
            return status;
    }
    return 0;
}

/* job_work -- a worker's thread. */
static void *job_work(void *context)
{
    struct job_worker *worker = context;
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    const uint64_t dims[1] = {JOB_ELEMENTS};

    stepgate_options_new(&options);
    job_common(options, worker->rank);
    job_set(options, "ps_hosts", job_hosts);
    int status = stepgate_job_join(options, 60000, &job);
    if (status == 0)
        status = stepgate_model_new(job, "m", &model);
    for (int v = 0; status == 0 && v < JOB_VARIABLES; v++) {
        char name[16];
        int id;
        snprintf(name, sizeof(name), "v%d", v);
        status = stepgate_model_variable(model, name, STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id);
    }
    if (status == 0)
        status = stepgate_model_set(model, "optimizer", "momentum");
    if (status == 0)
        status = stepgate_model_set(model, "learning_rate", "0.125");
    if (status == 0)
        status = stepgate_model_set(model, "momentum", "0.5");
    if (status == 0)
        status = stepgate_model_commit(model, 60000, NULL);
    if (status == 0)
        status = job_steps(worker, model);
    if (status == 0)
        status = stepgate_job_barrier(job, 60000);
    if (status == 0)
        status = stepgate_job_leave(job, 60000);
    worker->status = status;
    if (status != 0) {
        struct stepgate_error error = {.size = sizeof(error)};
        stepgate_error_last(&error);
        snprintf(worker->text, sizeof(worker->text), "%.500s", error.text);
    }
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    return NULL;
}

/* job_serve -- a ps's thread. */
static void *job_serve(void *context)
{
    return (void *)(intptr_t)stepgate_server_run(context);
}

/* job_reference -- the same by a plain loop. */
static void job_reference(float values[JOB_VARIABLES][JOB_ELEMENTS])
{
    static float accumulator[JOB_VARIABLES][JOB_ELEMENTS];

    memset(values, 0, sizeof(float) * JOB_VARIABLES * JOB_ELEMENTS);
    memset(accumulator, 0, sizeof(accumulator));
    for (uint64_t step = 0; step < JOB_STEPS; step++)
        for (int v = 0; v < JOB_VARIABLES; v++)
            for (int i = 0; i < JOB_ELEMENTS; i++) {
                float sum = job_gradient(0, step, v, i, values[v][i]);
                for (int w = 1; w < JOB_WORKERS; w++) {
                    float one = job_gradient(w, step, v, i, values[v][i]);
                    sum += one;
                }
                float mean = sum / (float)JOB_WORKERS, kept = 0.5f * accumulator[v][i];
                accumulator[v][i] = kept + mean;
                float change = 0.125f * accumulator[v][i];
                values[v][i] -= change;
            }
}

/* a_job_of_threads_ends_with_the_bits_of_a_plain_loop -- and without a data race. */
static void a_job_of_threads_ends_with_the_bits_of_a_plain_loop(void **state)
{
    static struct job_worker workers[JOB_WORKERS];
    static float expected[JOB_VARIABLES][JOB_ELEMENTS];
    struct stepgate_server *servers[JOB_PS] = {NULL};
    pthread_t server_threads[JOB_PS], worker_threads[JOB_WORKERS];
    char first[STEPGATE_ADDRESS_BYTES] = "";

    (void)state;
    shm_share_mappings(true);
    for (int s = 0; s < JOB_PS; s++) {
        struct stepgate_options *options = NULL;
        char hosts[2 * STEPGATE_ADDRESS_BYTES + 8], address[STEPGATE_ADDRESS_BYTES];
        assert_int_equal(stepgate_options_new(&options), 0);
        job_common(options, s);
        snprintf(hosts, sizeof(hosts), "%s,-:0", s == 0 ? "-:0" : first);
        job_set(options, "ps_hosts", hosts);
        job_set(options, "listen", "127.0.0.1:0");
        job_set(options, "lanes", "2");
        job_set(options, "group_bytes", "16KiB");
        job_set(options, "cut_bytes", "20000");
        assert_int_equal(stepgate_server_new(options, &servers[s]), 0);
        assert_int_equal(stepgate_server_address(servers[s], address, sizeof(address)), 0);
        if (s == 0)
            snprintf(first, sizeof(first), "%s", address);
        else
            snprintf(job_hosts, sizeof(job_hosts), "%s,%s", first, address);
        stepgate_options_delete(&options);
    }
    for (int s = 0; s < JOB_PS; s++)
        assert_int_equal(pthread_create(&server_threads[s], NULL, job_serve, servers[s]), 0);
    for (int w = 0; w < JOB_WORKERS; w++) {
        workers[w].rank = w;
        assert_int_equal(pthread_create(&worker_threads[w], NULL, job_work, &workers[w]), 0);
    }
    for (int w = 0; w < JOB_WORKERS; w++)
        assert_int_equal(pthread_join(worker_threads[w], NULL), 0);
    for (int s = 0; s < JOB_PS; s++) {
        void *status;
        assert_int_equal(pthread_join(server_threads[s], &status), 0);
        assert_int_equal((int)(intptr_t)status, 0);
        stepgate_server_delete(&servers[s]);
    }
    shm_share_mappings(false);
    job_reference(expected);
    for (int w = 0; w < JOB_WORKERS; w++) {
        if (workers[w].status != 0)
            print_error("worker %d: %s\n", w, workers[w].text);
        assert_int_equal(workers[w].status, 0);
        assert_memory_equal(workers[w].final, expected, sizeof(expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_threads_ends_with_the_bits_of_a_plain_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
