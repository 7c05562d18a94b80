/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole jobs through the public calls: what a plain loop gives, whoever owns the buffers, whatever the shapes. */
#include "tests/unit/worker/api/cluster.h"

#define JOB_STEPS 12
#define JOB_WORKERS 2
#define JOB_VARIABLES 4
#define JOB_ELEMENTS 4099 /* of the largest variable: no multiple of anything */

/* Shapes of one to four thousand elements, among them a scalar. */
static const struct {
    const char *name;
    int rank;
    uint64_t dims[3];
} job_shapes[JOB_VARIABLES] = {
    {"scalar", 0, {0}}, {"one", 1, {1}}, {"box", 3, {3, 5, 7}}, {"long", 1, {JOB_ELEMENTS}}};

struct job_worker {
    struct cluster *cluster;
    const char *optimizer;
    int rank, status;
    bool callers; /* buffers of the caller's instead of the library's */
    float gradient[JOB_VARIABLES][JOB_ELEMENTS], parameter[JOB_VARIABLES][JOB_ELEMENTS];
    float final[JOB_VARIABLES][JOB_ELEMENTS];
};

/* job_elements -- of a variable. */
static size_t job_elements(int v)
{
    size_t elements = 1;

    for (int d = 0; d < job_shapes[v].rank; d++)
        elements *= (size_t)job_shapes[v].dims[d];
    return elements;
}

/* job_initial -- the value that worker 0 gives. */
static float job_initial(int v, size_t i)
{
    return (float)((v + 1) * (int)(i % 13)) / 7.0f;
}

/* job_gradient -- of worker, step, variable, element and the value read: no sum of two is exact. */
static float job_gradient(int worker, uint64_t step, int v, size_t i, float value)
{
    float base = (float)((worker * 7 + (int)step * 5 + v * 3 + (int)i) % 17) / 9.0f;
    float part = value * 0.3f;

    return base + part;
}

/* job_declare -- the model of job_shapes, committed. */
static int job_declare(struct job_worker *worker, struct stepgate_model *model)
{
    int status = stepgate_model_set(model, "optimizer", worker->optimizer);

    if (status == 0)
        status = stepgate_model_set(model, "learning_rate", "0.1");
    if (status == 0 && strcmp(worker->optimizer, "momentum") == 0)
        status = stepgate_model_set(model, "momentum", "0.9");
    for (int v = 0; status == 0 && v < JOB_VARIABLES; v++) {
        int id = -1;
        status = stepgate_model_variable(model, job_shapes[v].name, STEPGATE_TRAINED, STEPGATE_F32,
                                         job_shapes[v].rank, job_shapes[v].dims, &id);
        for (size_t i = 0; i < job_elements(v); i++)
            worker->final[v][i] = job_initial(v, i);
        if (status == 0 && worker->rank == 0)
            status = stepgate_model_initialize(model, id, worker->final[v], job_elements(v) * sizeof(float));
    }
    if (status == 0)
        status = stepgate_model_commit(model, CLUSTER_MS, NULL);
    for (int v = 0; status == 0 && worker->callers && v < JOB_VARIABLES; v++) {
        uint64_t bytes = job_elements(v) * sizeof(float);
        status = stepgate_buffer_attach(model, v, STEPGATE_USE_GRADIENT, worker->gradient[v], bytes);
        if (status == 0)
            status = stepgate_buffer_attach(model, v, STEPGATE_USE_PARAMETER, worker->parameter[v], bytes);
    }
    return status;
}

/* job_variable -- pull, compute and push of one variable; in the last step its value is kept. */
static int job_variable(struct job_worker *worker, struct stepgate_model *model, uint64_t step, int v)
{
    const void *value = NULL;
    void *gradient = NULL;
    int status = stepgate_step_pull(model, v, CLUSTER_MS, NULL);

    if (status == 0)
        status = stepgate_buffer_parameter(model, v, &value);
    if (status == 0)
        status = stepgate_buffer_gradient(model, v, &gradient);
    if (status == 0 && worker->callers && (value != worker->parameter[v] || gradient != worker->gradient[v]))
        return -STEPGATE_EINVAL;
    if (status == 0 && step == JOB_STEPS)
        memcpy(worker->final[v], value, job_elements(v) * sizeof(float));
    if (status != 0 || step == JOB_STEPS)
        return status;
    for (size_t i = 0; i < job_elements(v); i++)
        ((float *)gradient)[i] = job_gradient(worker->rank, step, v, i, ((const float *)value)[i]);
    return stepgate_step_push(model, v);
}

/* job_work -- a worker's thread. */
static void *job_work(void *context)
{
    struct job_worker *worker = context;
    struct stepgate_job *job = worker->cluster->job[worker->rank];
    struct stepgate_model *model = NULL;
    int status = stepgate_model_new(job, "m", &model);

    if (status == 0)
        status = job_declare(worker, model);
    for (uint64_t step = 0; status == 0 && step <= JOB_STEPS; step++) {
        struct stepgate_step_info info = {.size = sizeof(info)};
        status = stepgate_step_begin(model, CLUSTER_MS, &info);
        if (status == 0 && info.step != step)
            status = -STEPGATE_EINVAL;
        for (int v = 0; status == 0 && v < JOB_VARIABLES; v++)
            status = job_variable(worker, model, step, v);
        if (status == 0 && step < JOB_STEPS)
            status = stepgate_step_finish(model, 1);
    }
    if (status == 0)
        status = stepgate_job_barrier(job, CLUSTER_MS);
    worker->status = status;
    return NULL;
}

/* job_reference -- the same by a plain loop: sum in order of rank, true division, then the optimizer. */
static void job_reference(bool momentum, float values[JOB_VARIABLES][JOB_ELEMENTS])
{
    static float accumulator[JOB_VARIABLES][JOB_ELEMENTS];

    memset(accumulator, 0, sizeof(accumulator));
    for (int v = 0; v < JOB_VARIABLES; v++)
        for (size_t i = 0; i < job_elements(v); i++) {
            values[v][i] = job_initial(v, i);
            for (uint64_t step = 0; step < JOB_STEPS; step++) {
                float sum = job_gradient(0, step, v, i, values[v][i]);
                for (int w = 1; w < JOB_WORKERS; w++) {
                    float one = job_gradient(w, step, v, i, values[v][i]);
                    sum += one;
                }
                float change = sum / (float)JOB_WORKERS;
                if (momentum) {
                    float kept = 0.9f * accumulator[v][i];
                    change = accumulator[v][i] = kept + change;
                }
                change *= 0.1f;
                values[v][i] -= change;
            }
        }
}

/* job_run -- a job of two worker threads; every worker must end with the reference. */
static void job_run(const char *optimizer, bool callers)
{
    static struct job_worker workers[JOB_WORKERS];
    static float expected[JOB_VARIABLES][JOB_ELEMENTS];
    struct cluster c;
    pthread_t threads[JOB_WORKERS];

    memset(workers, 0, sizeof(workers));
    cluster_serve(&c, JOB_WORKERS, NULL);
    cluster_join(&c, NULL);
    for (int w = 0; w < JOB_WORKERS; w++) {
        workers[w].cluster = &c;
        workers[w].optimizer = optimizer;
        workers[w].callers = callers;
        workers[w].rank = w;
        assert_int_equal(pthread_create(&threads[w], NULL, job_work, &workers[w]), 0);
    }
    for (int w = 0; w < JOB_WORKERS; w++)
        assert_int_equal(pthread_join(threads[w], NULL), 0);
    for (int w = 0; w < JOB_WORKERS; w++)
        assert_int_equal(workers[w].status, 0);
    job_reference(strcmp(optimizer, "momentum") == 0, expected);
    for (int w = 0; w < JOB_WORKERS; w++)
        for (int v = 0; v < JOB_VARIABLES; v++)
            assert_memory_equal(workers[w].final[v], expected[v], job_elements(v) * sizeof(float));
    cluster_down(&c);
}

static void sgd_ends_with_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    job_run("sgd", false);
}

static void momentum_ends_with_the_bits_of_a_plain_loop(void **state)
{
    (void)state;
    job_run("momentum", false);
}

static void buffers_of_the_callers_end_with_the_same_bits(void **state)
{
    (void)state;
    job_run("momentum", true);
}

static void a_server_counts_its_steps_and_the_memory_it_promised(void **state)
{
    struct stepgate_server_stats stats = {.size = sizeof(stats)};
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 1000);
    cluster_commit(&c);
    for (int step = 0; step < 3; step++) {
        cluster_begin(&c);
        for (int w = 0; w < 2; w++)
            cluster_push(&c, w, 0, 1);
        cluster_finish(&c);
    }
    cluster_begin(&c);
    for (int w = 0; w < 2; w++)
        must(stepgate_job_leave(c.job[w], CLUSTER_MS));
    for (int w = 0; w < 2; w++)
        stepgate_job_delete(&c.job[w]);
    assert_int_equal(cluster_served(&c), 0);
    must(stepgate_server_stats(c.server, &stats));
    assert_int_equal(stats.steps, 3);
    assert_true(stats.bytes_promised >= 4 * 4000); /* two parameters, two gradients */
    stepgate_server_delete(&c.server);
    assert_null(c.server);
}

static void a_variable_without_elements_is_refused_by_name(void **state)
{
    const uint64_t dims[2] = {3, 0};
    struct cluster c;
    int id = 77;

    (void)state;
    cluster_up(&c, 1);
    refused(STEPGATE_EINVAL, "nothing",
            stepgate_model_variable(c.model[0], "nothing", STEPGATE_TRAINED, STEPGATE_F32, 2, dims, &id));
    assert_int_equal(id, 77);
    assert_int_equal(stepgate_model_count(c.model[0]), 0);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_ends_with_the_bits_of_a_plain_loop),
        cmocka_unit_test(momentum_ends_with_the_bits_of_a_plain_loop),
        cmocka_unit_test(buffers_of_the_callers_end_with_the_same_bits),
        cmocka_unit_test(a_server_counts_its_steps_and_the_memory_it_promised),
        cmocka_unit_test(a_variable_without_elements_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
