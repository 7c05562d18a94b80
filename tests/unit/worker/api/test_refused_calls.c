/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that make no sense are refused with a text that names the cause, and change nothing. */
#include <math.h>

#include "tests/unit/worker/api/cluster.h"

/* refused_up -- one worker with a committed model of two variables. */
static void refused_up(struct cluster *c)
{
    cluster_up(c, 1);
    cluster_variable(c, "weights", 6);
    cluster_variable(c, "bias", 2);
    cluster_commit(c);
}

static void a_push_twice_in_a_step_is_refused_and_counts_once(void **state)
{
    struct cluster c;

    (void)state;
    refused_up(&c);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 1);
    cluster_push(&c, 0, 1, 1);
    refused(STEPGATE_EALREADY, "weights", stepgate_step_push(c.model[0], 0));
    refused(STEPGATE_EALREADY, "bias is pushed already", stepgate_step_absent(c.model[0], 1));
    cluster_finish(&c);
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 1, 1), -1, 0);
    cluster_push(&c, 0, 0, 1); /* a new step, a new push */
    cluster_clear(&c);
}

static void finish_names_what_was_not_pushed_and_may_be_repeated(void **state)
{
    struct cluster c;

    (void)state;
    refused_up(&c);
    cluster_begin(&c);
    refused(STEPGATE_ESTATE, "weights (2 missing)", stepgate_step_finish(c.model[0], 1));
    cluster_push(&c, 0, 0, 1);
    refused(STEPGATE_ESTATE, "bias (1 missing)", stepgate_step_finish(c.model[0], 1));
    must(stepgate_step_absent(c.model[0], 1));
    refused(STEPGATE_EALREADY, "bias is absent already", stepgate_step_absent(c.model[0], 1));
    refused(STEPGATE_EALREADY, "bias is absent already", stepgate_step_push(c.model[0], 1));
    must(stepgate_step_finish(c.model[0], 1));
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 0, 5), -1, 0);
    cluster_clear(&c);
}

static void rows_that_are_not_aligned_are_refused(void **state)
{
    const uint64_t dims[2] = {4, 2};
    uint64_t indices[3] = {0};
    float rows[5] = {0};
    struct cluster c;
    int id;

    (void)state;
    cluster_up(&c, 1);
    must(stepgate_model_variable(c.model[0], "words", STEPGATE_SPARSE, STEPGATE_F32, 2, dims, &id));
    must(stepgate_model_variable_set(c.model[0], id, "rows_max", "2"));
    cluster_commit(&c);
    cluster_begin(&c);
    refused(STEPGATE_EINVAL, "rows of words",
            stepgate_step_push_rows(c.model[0], id, indices, 2, (const char *)rows + 1));
    refused(STEPGATE_EINVAL, "indices of words",
            stepgate_step_push_rows(c.model[0], id,
                                    (const uint64_t *)(const void *)((const char *)indices + 4), 2, rows));
    must(stepgate_step_push_rows(c.model[0], id, indices, 1, rows + 1));
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_clear(&c);
}

static void a_weight_that_is_no_weight_is_refused(void **state)
{
    struct cluster c;

    (void)state;
    refused_up(&c);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 1);
    cluster_push(&c, 0, 1, 1);
    refused(STEPGATE_EINVAL, "-1", stepgate_step_finish(c.model[0], -1));
    refused(STEPGATE_EINVAL, "nan", stepgate_step_finish(c.model[0], (double)NAN));
    refused(STEPGATE_EINVAL, "inf", stepgate_step_finish(c.model[0], (double)INFINITY));
    refused(STEPGATE_EINVAL, "1e-60", stepgate_step_finish(c.model[0], 1e-60));
    refused(STEPGATE_EINVAL, "1e+60", stepgate_step_finish(c.model[0], 1e60));
    must(stepgate_step_finish(c.model[0], 1));
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 0, 5), -1, 0);
    cluster_clear(&c);
}

static void calls_of_a_step_have_an_order(void **state)
{
    struct cluster c;

    (void)state;
    refused_up(&c);
    refused(STEPGATE_ESTATE, "begun", stepgate_step_pull(c.model[0], 0, 0, NULL));
    refused(STEPGATE_ESTATE, "weights", stepgate_step_push(c.model[0], 0));
    refused(STEPGATE_ESTATE, "absence of weights", stepgate_step_absent(c.model[0], 0));
    refused(STEPGATE_ESTATE, "outside", stepgate_step_finish(c.model[0], 1));
    refused(STEPGATE_ESTATE, "abandon", stepgate_step_abandon(c.model[0]));
    cluster_begin(&c);
    refused(STEPGATE_ESTATE, "step 0", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_step_abandon(c.model[0]));
    refused(STEPGATE_ESTATE, "weights", stepgate_step_push(c.model[0], 0));
    refused(STEPGATE_ESTATE, "outside", stepgate_step_finish(c.model[0], 1));
    cluster_begin(&c);
    cluster_clear(&c);
}

static void steps_need_a_commit_and_declarations_end_with_it(void **state)
{
    const uint64_t dims[1] = {6};
    const float zeros[6] = {0};
    int id = 77;
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    refused(STEPGATE_EINVAL, "no variable", stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    cluster_variable(&c, "weights", 6);
    refused(STEPGATE_ESTATE, "not committed", stepgate_step_begin(c.model[0], 0, NULL));
    refused(STEPGATE_ESTATE, "not committed", stepgate_step_pull(c.model[0], 0, 0, NULL));
    refused(STEPGATE_ESTATE, "not committed", stepgate_step_push(c.model[0], 0));
    refused(STEPGATE_ESTATE, "not committed", stepgate_step_finish(c.model[0], 1));
    cluster_commit(&c);
    refused(STEPGATE_EALREADY, "committed", stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    refused(STEPGATE_ESTATE, "committed",
            stepgate_model_variable(c.model[0], "late", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id));
    refused(STEPGATE_ESTATE, "committed", stepgate_model_set(c.model[0], "learning_rate", "2"));
    refused(STEPGATE_ESTATE, "committed", stepgate_model_initialize(c.model[0], 0, zeros, sizeof(zeros)));
    assert_int_equal(id, 77);
    cluster_begin(&c);
    cluster_clear(&c);
}

static void a_momentum_that_no_optimizer_uses_is_refused_and_may_be_put_right(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    cluster_variable(&c, "v", 3);
    must(stepgate_model_set(c.model[0], "momentum", "0.5"));
    refused(STEPGATE_EINVAL, "optimizer is sgd", stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_model_set(c.model[0], "optimizer", "momentum"));
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

static void a_commit_that_has_started_takes_no_more_declarations(void **state)
{
    const uint64_t dims[1] = {6};
    const float ones[6] = {1, 1, 1, 1, 1, 1};
    int id = 77;
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "weights", 6);
    assert_int_equal(stepgate_model_commit(c.model[0], 0, NULL), -STEPGATE_EAGAIN);
    refused(STEPGATE_ESTATE, "commit",
            stepgate_model_variable(c.model[0], "late", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id));
    refused(STEPGATE_ESTATE, "commit", stepgate_model_set(c.model[0], "learning_rate", "2"));
    refused(STEPGATE_ESTATE, "commit", stepgate_model_initialize(c.model[0], 0, ones, sizeof(ones)));
    cluster_commit(&c);
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 1, 0, 0), 0, 0);
    cluster_clear(&c);
}

static void a_declaration_that_is_wrong_is_refused_and_leaves_no_trace(void **state)
{
    const uint64_t dims[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2}, huge[2] = {UINT64_MAX / 2, 4};
    const float ones[3] = {1, 1, 1};
    char name[STEPGATE_NAME_BYTES + 1];
    struct stepgate_model *model = NULL;
    int id = 77;
    struct cluster c;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[STEPGATE_NAME_BYTES] = 0;
    cluster_up(&c, 1);
    struct stepgate_model *m = c.model[0];
    cluster_variable(&c, "weights", 2);
    refused(STEPGATE_EALREADY, "weights", stepgate_model_variable(m, "weights", 1, 1, 1, dims, &id));
    refused(STEPGATE_EINVAL, "name", stepgate_model_variable(m, "", 1, 1, 1, dims, &id));
    refused(STEPGATE_EINVAL, "name", stepgate_model_variable(m, name, 1, 1, 1, dims, &id));
    refused(STEPGATE_EINVAL, "kind 9", stepgate_model_variable(m, "v", 9, 1, 1, dims, &id));
    refused(STEPGATE_EINVAL, "dtype 9", stepgate_model_variable(m, "v", 1, 9, 1, dims, &id));
    refused(STEPGATE_EINVAL, "rank 9", stepgate_model_variable(m, "v", 1, 1, 9, dims, &id));
    refused(STEPGATE_EINVAL, "rank -1", stepgate_model_variable(m, "v", 1, 1, -1, dims, &id));
    refused(STEPGATE_EINVAL, "v", stepgate_model_variable(m, "v", 1, 1, 2, huge, &id));
    refused(STEPGATE_EINVAL, "rank 1, but dims is NULL", stepgate_model_variable(m, "v", 1, 1, 1, NULL, &id));
    assert_int_equal(id, 77);
    assert_int_equal(stepgate_model_count(m), 1);
    refused(STEPGATE_ENOENT, "beta", stepgate_model_set(m, "beta", "1"));
    refused(STEPGATE_EINVAL, "adamax", stepgate_model_set(m, "optimizer", "adamax"));
    refused(STEPGATE_EINVAL, "fast", stepgate_model_set(m, "learning_rate", "fast"));
    refused(STEPGATE_EINVAL, "momentum", stepgate_model_set(m, "momentum", "2"));
    refused(STEPGATE_EINVAL, "1.5", stepgate_model_set(m, "learning_rate_steps", "1.5"));
    refused(STEPGATE_EINVAL, "8 bytes", stepgate_model_initialize(m, 0, ones, sizeof(ones)));
    refused(STEPGATE_EINVAL, "no variable 1", stepgate_model_initialize(m, 1, ones, 8));
    refused(STEPGATE_EALREADY, "m", stepgate_model_new(c.job[0], "m", &model));
    refused(STEPGATE_EINVAL, "name", stepgate_model_new(c.job[0], "", &model));
    refused(STEPGATE_EINVAL, "name", stepgate_model_new(c.job[0], NULL, &model));
    assert_null(model);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_clear(&c);
}

static void a_variable_that_is_not_there_is_refused_by_number(void **state)
{
    const void *value = NULL;
    void *gradient = NULL;
    struct cluster c;

    (void)state;
    refused_up(&c);
    struct stepgate_model *m = c.model[0];
    cluster_begin(&c);
    refused(STEPGATE_EINVAL, "no variable 2", stepgate_step_push(m, 2));
    refused(STEPGATE_EINVAL, "-1", stepgate_step_push(m, STEPGATE_ALL));
    refused(STEPGATE_EINVAL, "-1", stepgate_step_absent(m, STEPGATE_ALL));
    refused(STEPGATE_EINVAL, "no variable -2", stepgate_step_pull(m, -2, 0, NULL));
    refused(STEPGATE_EINVAL, "no variable 2", stepgate_step_pull(m, 2, 0, NULL));
    refused(STEPGATE_EINVAL, "no variable 2", stepgate_buffer_gradient(m, 2, &gradient));
    refused(STEPGATE_EINVAL, "one variable", stepgate_buffer_gradient(m, STEPGATE_ALL, &gradient));
    refused(STEPGATE_EINVAL, "no variable 7", stepgate_buffer_parameter(m, 7, &value));
    refused(STEPGATE_EINVAL, "no variable 7", stepgate_buffer_is_idle(m, 7));
    refused(STEPGATE_EINVAL, "no variable 7", stepgate_buffer_detach(m, 7, STEPGATE_USE_GRADIENT));
    assert_null(gradient);
    assert_null(value);
    cluster_clear(&c);
}

static void a_struct_of_no_size_is_refused_and_not_written(void **state)
{
    struct stepgate_step_info step = {0};
    struct stepgate_model_info model = {0};
    struct stepgate_variable_info variable = {0};
    struct stepgate_job_stats stats = {0};
    struct stepgate_server_stats server = {0};
    struct stepgate_error error = {0};
    char address[4] = "abc";
    struct cluster c;

    (void)state;
    refused_up(&c);
    refused(STEPGATE_EINVAL, "info", stepgate_step_begin(c.model[0], 0, &step));
    refused(STEPGATE_EINVAL, "info", stepgate_model_commit(c.model[0], 0, &model));
    refused(STEPGATE_EINVAL, "info", stepgate_model_describe(c.model[0], 0, &variable));
    refused(STEPGATE_EINVAL, "stats", stepgate_job_stats(c.job[0], &stats));
    refused(STEPGATE_EINVAL, "stats", stepgate_server_stats(c.server, &server));
    refused(STEPGATE_EINVAL, "", stepgate_job_error(c.job[0], &error));
    refused(STEPGATE_EINVAL, "", stepgate_error_last(&error));
    refused(STEPGATE_EINVAL, "4 bytes", stepgate_server_address(c.server, address, sizeof(address)));
    assert_string_equal(address, "abc");
    assert_null(variable.name);
    cluster_begin(&c);
    cluster_clear(&c);
}

static void null_is_refused_or_harmless(void **state)
{
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    struct stepgate_server *server = NULL;
    struct stepgate_options *options = NULL;
    uint64_t dims[1] = {1};
    int id = 0;
    struct cluster c;

    (void)state;
    stepgate_job_delete(NULL);
    stepgate_job_delete(&job);
    stepgate_model_delete(NULL);
    stepgate_model_delete(&model);
    stepgate_server_delete(NULL);
    stepgate_server_delete(&server);
    stepgate_server_stop(NULL);
    stepgate_job_interrupt(NULL);
    must(stepgate_options_new(&options));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_join(NULL, 0, &job));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_join(options, 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_server_new(NULL, &server));
    refused(STEPGATE_EINVAL, "NULL", stepgate_server_new(options, NULL));
    stepgate_options_delete(&options);
    refused(STEPGATE_EINVAL, "NULL", stepgate_server_run(NULL));
    refused(STEPGATE_EINVAL, "", stepgate_server_stats(NULL, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_server_address(NULL, NULL, 0));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_fd(NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_progress(NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_barrier(NULL, 0));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_leave(NULL, 0));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_stats(NULL, NULL));
    refused(STEPGATE_EINVAL, "", stepgate_job_error(NULL, NULL));
    refused(STEPGATE_EINVAL, "", stepgate_job_role(NULL));
    refused(STEPGATE_EINVAL, "", stepgate_job_rank(NULL));
    refused(STEPGATE_EINVAL, "", stepgate_job_size(NULL));
    refused(STEPGATE_EINVAL, "", stepgate_job_servers(NULL));
    assert_string_equal(stepgate_job_transport(NULL), "");
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_new(NULL, "m", &model));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_variable(NULL, "v", 1, 1, 1, dims, &id));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_set(NULL, "momentum", "0"));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_count(NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_commit(NULL, 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_step_begin(NULL, 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_step_pull(NULL, 0, 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_step_push(NULL, 0));
    refused(STEPGATE_EINVAL, "NULL", stepgate_step_finish(NULL, 1));
    refused(STEPGATE_EINVAL, "NULL", stepgate_buffer_gradient(NULL, 0, NULL));
    refused_up(&c);
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_new(c.job[0], "n", NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_buffer_gradient(c.model[0], 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_buffer_parameter(c.model[0], 0, NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_job_stats(c.job[0], NULL));
    refused(STEPGATE_EINVAL, "NULL", stepgate_model_describe(c.model[0], 0, NULL));
    cluster_begin(&c);
    stepgate_model_delete(&c.model[0]);
    assert_null(c.model[0]);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_twice_in_a_step_is_refused_and_counts_once),
        cmocka_unit_test(finish_names_what_was_not_pushed_and_may_be_repeated),
        cmocka_unit_test(rows_that_are_not_aligned_are_refused),
        cmocka_unit_test(a_weight_that_is_no_weight_is_refused),
        cmocka_unit_test(calls_of_a_step_have_an_order),
        cmocka_unit_test(steps_need_a_commit_and_declarations_end_with_it),
        cmocka_unit_test(a_commit_that_has_started_takes_no_more_declarations),
        cmocka_unit_test(a_momentum_that_no_optimizer_uses_is_refused_and_may_be_put_right),
        cmocka_unit_test(a_declaration_that_is_wrong_is_refused_and_leaves_no_trace),
        cmocka_unit_test(a_variable_that_is_not_there_is_refused_by_number),
        cmocka_unit_test(a_struct_of_no_size_is_refused_and_not_written),
        cmocka_unit_test(null_is_refused_or_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
