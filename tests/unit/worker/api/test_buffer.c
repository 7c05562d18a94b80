/* SPDX-License-Identifier: BSD-3-Clause */
/* Where gradients are put and values are found over shm: addresses, copies, and the caller's own memory. */
#include "tests/unit/worker/api/cluster.h"

#define BUFFER_ELEMENTS 1000
#define BUFFER_BYTES (BUFFER_ELEMENTS * sizeof(float))

/* buffer_up -- a committed model of one variable on each worker. */
static void buffer_up(struct cluster *c, int workers)
{
    cluster_up(c, workers);
    cluster_variable(c, "first", BUFFER_ELEMENTS);
    cluster_variable(c, "second", 3);
    cluster_commit(c);
}

/* buffer_step -- everybody's gradient of everything is the value. */
static void buffer_step(struct cluster *c, float value)
{
    for (int w = 0; w < c->workers; w++)
        for (int v = 0; v < 2; v++)
            cluster_push(c, w, v, value);
    cluster_finish(c);
}

/* buffer_stats -- the counters of a worker. */
static struct stepgate_job_stats buffer_stats(struct cluster *c, int w)
{
    struct stepgate_job_stats stats = {.size = sizeof(stats)};

    must(stepgate_job_stats(c->job[w], &stats));
    return stats;
}

/* buffer_await_idle -- until the gradient of the first variable of worker 0 may be rewritten. */
static void buffer_await_idle(struct cluster *c)
{
    for (int64_t until = cluster_now() + CLUSTER_MS; stepgate_buffer_is_idle(c->model[0], 0) == 0;) {
        assert_true(cluster_now() < until);
        cluster_pause(1);
    }
}

static void a_gradient_stays_where_it_is_and_two_addresses_of_a_parameter_alternate(void **state)
{
    const void *parameter[6];
    struct cluster c;

    (void)state;
    buffer_up(&c, 2);
    void *first = NULL, *gradient = NULL;
    must(stepgate_buffer_gradient(c.model[1], 0, &first));
    for (int step = 0; step < 6; step++) {
        cluster_begin(&c);
        must(stepgate_buffer_gradient(c.model[1], 0, &gradient));
        assert_ptr_equal(gradient, first);
        must(stepgate_buffer_parameter(c.model[1], 0, &parameter[step]));
        buffer_step(&c, 1);
    }
    assert_ptr_not_equal(parameter[0], parameter[1]);
    for (int step = 2; step < 6; step++)
        assert_ptr_equal(parameter[step], parameter[step - 2]);
    cluster_begin(&c);
    cluster_down(&c);
}

static void buffers_of_the_library_are_never_copied(void **state)
{
    struct stepgate_model_info info = {.size = sizeof(info)};
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    cluster_variable(&c, "first", BUFFER_ELEMENTS);
    cluster_variable(&c, "second", 3);
    must(stepgate_model_commit(c.model[0], CLUSTER_MS, &info));
    assert_int_equal(info.step, 0);
    assert_int_equal(info.bytes, BUFFER_BYTES + 12);
    assert_int_equal(info.in_place, 1);
    assert_int_equal(info.copies_push, 0);
    assert_int_equal(info.copies_pull, 0);
    uint64_t copied = buffer_stats(&c, 0).bytes_copied;
    for (int step = 0; step < 3; step++) {
        cluster_begin(&c);
        buffer_step(&c, 1);
    }
    assert_int_equal(buffer_stats(&c, 0).bytes_copied, copied);
    assert_int_equal(buffer_stats(&c, 0).bytes_pulled, 0);
    assert_int_equal(buffer_stats(&c, 0).steps, 3);
    cluster_clear(&c);
}

static void buffers_of_the_callers_cost_one_copy_each_way(void **state)
{
    static float gradient[BUFFER_ELEMENTS], parameter[BUFFER_ELEMENTS];
    const void *value = NULL;
    void *place = NULL;
    struct cluster c;

    (void)state;
    buffer_up(&c, 1);
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, gradient, sizeof(gradient)));
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    cluster_begin(&c);
    must(stepgate_buffer_gradient(c.model[0], 0, &place));
    assert_ptr_equal(place, gradient);
    must(stepgate_buffer_parameter(c.model[0], 0, &value));
    assert_ptr_equal(value, parameter);
    uint64_t before = buffer_stats(&c, 0).bytes_copied;
    buffer_step(&c, 2);
    cluster_begin(&c);
    assert_int_equal(buffer_stats(&c, 0).bytes_copied - before, 2 * BUFFER_BYTES);
    assert_float_equal(parameter[BUFFER_ELEMENTS - 1], -2, 0);
    cluster_clear(&c);
}

static void a_second_pull_in_a_step_moves_nothing(void **state)
{
    static float parameter[BUFFER_ELEMENTS];
    uint64_t step = 77;
    struct cluster c;

    (void)state;
    buffer_up(&c, 1);
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    cluster_begin(&c);
    buffer_step(&c, 1);
    cluster_begin(&c);
    const struct stepgate_job_stats before = buffer_stats(&c, 0);
    parameter[5] = 42;
    must(stepgate_step_pull(c.model[0], 0, CLUSTER_MS, &step));
    assert_int_equal(step, 1);
    must(stepgate_step_pull(c.model[0], STEPGATE_ALL, 0, NULL));
    assert_float_equal(parameter[5], 42, 0);
    assert_int_equal(buffer_stats(&c, 0).bytes_pulled, before.bytes_pulled);
    assert_int_equal(buffer_stats(&c, 0).pulls, before.pulls);
    cluster_clear(&c);
}

static void a_pull_of_one_variable_leaves_the_others(void **state)
{
    static float parameter[BUFFER_ELEMENTS];
    struct cluster c;

    (void)state;
    buffer_up(&c, 1);
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    parameter[0] = 42;
    must(stepgate_step_pull(c.model[0], 1, CLUSTER_MS, NULL));
    assert_float_equal(cluster_value(&c, 0, 1, 2), 0, 0);
    assert_float_equal(parameter[0], 42, 0);
    must(stepgate_step_pull(c.model[0], 0, CLUSTER_MS, NULL));
    assert_float_equal(parameter[0], 0, 0);
    cluster_clear(&c);
}

static void a_detached_buffer_is_not_touched_any_more(void **state)
{
    static float gradient[BUFFER_ELEMENTS], parameter[BUFFER_ELEMENTS];
    void *before = NULL, *after = NULL;
    struct cluster c;

    (void)state;
    buffer_up(&c, 2);
    must(stepgate_buffer_gradient(c.model[0], 0, &before));
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, gradient, sizeof(gradient)));
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    cluster_begin(&c);
    buffer_step(&c, 1);
    must(stepgate_step_begin(c.model[1], CLUSTER_MS, NULL));
    buffer_await_idle(&c);
    must(stepgate_buffer_detach(c.model[0], 0, STEPGATE_USE_GRADIENT));
    must(stepgate_buffer_detach(c.model[0], 0, STEPGATE_USE_PARAMETER));
    must(stepgate_buffer_gradient(c.model[0], 0, &after));
    assert_ptr_equal(after, before);
    gradient[0] = 1000;
    parameter[0] = 42;
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    for (int w = 0; w < 2; w++)
        must(stepgate_step_pull(c.model[w], STEPGATE_ALL, CLUSTER_MS, NULL));
    buffer_step(&c, 1);
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 0, 0), -2, 0);
    assert_float_equal(parameter[0], 42, 0);
    cluster_down(&c);
}

static void a_gradient_is_busy_from_its_push_until_it_is_summed(void **state)
{
    static float gradient[BUFFER_ELEMENTS];
    struct cluster c;

    (void)state;
    buffer_up(&c, 2);
    cluster_begin(&c);
    assert_int_equal(stepgate_buffer_is_idle(c.model[0], 0), 1);
    for (int v = 0; v < 2; v++)
        cluster_push(&c, 0, v, 1);
    must(stepgate_step_finish(c.model[0], 1));
    cluster_pause(20); /* the other worker has pushed nothing: no sum was made */
    assert_int_equal(stepgate_buffer_is_idle(c.model[0], 0), 0);
    refused(STEPGATE_EBUSY, "first",
            stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, gradient, sizeof(gradient)));
    for (int v = 0; v < 2; v++)
        cluster_push(&c, 1, v, 1);
    must(stepgate_step_finish(c.model[1], 1));
    buffer_await_idle(&c);
    assert_int_equal(stepgate_buffer_is_idle(c.model[0], 0), 1);
    cluster_clear(&c);
}

static void a_value_that_was_not_pulled_has_no_address(void **state)
{
    static float parameter[BUFFER_ELEMENTS];
    const void *value = parameter;
    struct cluster c;

    (void)state;
    buffer_up(&c, 1);
    refused(STEPGATE_ESTATE, "first", stepgate_buffer_parameter(c.model[0], 0, &value));
    assert_ptr_equal(value, parameter);
    cluster_begin(&c);
    must(stepgate_buffer_parameter(c.model[0], 0, &value));
    buffer_step(&c, 1);
    /* memory that was attached since holds nothing yet */
    must(stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_PARAMETER, parameter, sizeof(parameter)));
    refused(STEPGATE_ESTATE, "first", stepgate_buffer_parameter(c.model[0], 0, &value));
    cluster_clear(&c);
}

static void an_attach_that_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    static float memory[BUFFER_ELEMENTS];
    void *before = NULL, *after = NULL;
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    cluster_variable(&c, "first", BUFFER_ELEMENTS);
    refused(STEPGATE_ESTATE, "not committed",
            stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, memory, sizeof(memory)));
    refused(STEPGATE_ESTATE, "not committed", stepgate_buffer_gradient(c.model[0], 0, &after));
    refused(STEPGATE_ESTATE, "not committed", stepgate_buffer_is_idle(c.model[0], 0));
    assert_null(after);
    cluster_commit(&c);
    must(stepgate_buffer_gradient(c.model[0], 0, &before));
    refused(STEPGATE_EINVAL, "first has 4000 bytes, the buffer 3996",
            stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, memory, sizeof(memory) - 4));
    refused(STEPGATE_EINVAL, "",
            stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, NULL, sizeof(memory)));
    refused(STEPGATE_EINVAL, "use 0", stepgate_buffer_attach(c.model[0], 0, 0, memory, sizeof(memory)));
    refused(STEPGATE_EINVAL, "use 3", stepgate_buffer_attach(c.model[0], 0, 3, memory, sizeof(memory)));
    refused(STEPGATE_EINVAL, "use 9", stepgate_buffer_detach(c.model[0], 0, 9));
    refused(STEPGATE_EINVAL, "no variable 1",
            stepgate_buffer_attach(c.model[0], 1, STEPGATE_USE_GRADIENT, memory, sizeof(memory)));
    cluster_begin(&c);
    refused(STEPGATE_ESTATE, "step 0",
            stepgate_buffer_attach(c.model[0], 0, STEPGATE_USE_GRADIENT, memory, sizeof(memory)));
    refused(STEPGATE_ESTATE, "step 0", stepgate_buffer_detach(c.model[0], 0, STEPGATE_USE_PARAMETER));
    must(stepgate_buffer_gradient(c.model[0], 0, &after));
    assert_ptr_equal(after, before);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_stays_where_it_is_and_two_addresses_of_a_parameter_alternate),
        cmocka_unit_test(buffers_of_the_library_are_never_copied),
        cmocka_unit_test(buffers_of_the_callers_cost_one_copy_each_way),
        cmocka_unit_test(a_second_pull_in_a_step_moves_nothing),
        cmocka_unit_test(a_pull_of_one_variable_leaves_the_others),
        cmocka_unit_test(a_detached_buffer_is_not_touched_any_more),
        cmocka_unit_test(a_gradient_is_busy_from_its_push_until_it_is_summed),
        cmocka_unit_test(a_value_that_was_not_pulled_has_no_address),
        cmocka_unit_test(an_attach_that_does_not_fit_is_refused_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
