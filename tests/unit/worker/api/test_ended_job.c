/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job ends, and how it does not begin: whoever is left gets an error that names the cause, within seconds. */
#include <sys/stat.h>

#include "tests/unit/worker/api/cluster.h"

/* ended_up -- workers in an open step of a model of one variable. */
static void ended_up(struct cluster *c, int workers)
{
    cluster_up(c, workers);
    cluster_variable(c, "v", 10);
    cluster_commit(c);
    cluster_begin(c);
}

/* ended_repeats -- every call of the worker gives the same code from now on. */
static void ended_repeats(struct cluster *c, int w, int code)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_model *model = NULL;
    const uint64_t dims[1] = {1};
    const void *value = NULL;
    void *gradient = NULL;
    int id;

    refused(code, "", stepgate_step_begin(c->model[w], CLUSTER_MS, NULL));
    refused(code, "", stepgate_step_pull(c->model[w], 0, CLUSTER_MS, NULL));
    refused(code, "", stepgate_step_push(c->model[w], 0));
    refused(code, "", stepgate_step_absent(c->model[w], 0));
    refused(code, "", stepgate_step_finish(c->model[w], 1));
    refused(code, "", stepgate_step_abandon(c->model[w]));
    refused(code, "", stepgate_model_commit(c->model[w], CLUSTER_MS, NULL));
    refused(code, "", stepgate_model_new(c->job[w], "late", &model));
    refused(code, "",
            stepgate_model_variable(c->model[w], "late", STEPGATE_TRAINED, STEPGATE_F32, 1, dims, &id));
    refused(code, "", stepgate_model_set(c->model[w], "momentum", "0"));
    refused(code, "", stepgate_buffer_gradient(c->model[w], 0, &gradient));
    refused(code, "", stepgate_buffer_parameter(c->model[w], 0, &value));
    refused(code, "", stepgate_buffer_is_idle(c->model[w], 0)); /* else a loop until it is would not end */
    refused(code, "", stepgate_buffer_detach(c->model[w], 0, STEPGATE_USE_GRADIENT));
    refused(code, "", stepgate_job_barrier(c->job[w], CLUSTER_MS));
    refused(code, "", stepgate_job_leave(c->job[w], CLUSTER_MS));
    refused(code, "", stepgate_job_progress(c->job[w]));
    refused(code, "", stepgate_job_error(c->job[w], &error));
    assert_int_equal(error.code, code);
    assert_true(error.text[0] != 0 && error.remedy[0] != 0);
    assert_null(model);
}

/* ended_join -- one worker with the knobs tries to join; returns the code. */
static int ended_join(struct cluster *c, int rank, const char *const *knobs)
{
    struct stepgate_options *options = cluster_options(c, rank, knobs);
    struct stepgate_job *job = NULL;
    int status = stepgate_job_join(options, CLUSTER_MS, &job);

    stepgate_options_delete(&options);
    assert_true(status == 0 || job == NULL);
    stepgate_job_delete(&job);
    return status;
}

static void a_ps_that_is_stopped_in_a_step_ends_its_workers(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct cluster c;

    (void)state;
    ended_up(&c, 2);
    cluster_push(&c, 0, 0, 1);
    must(stepgate_step_finish(c.model[0], 1));
    stepgate_server_stop(c.server);
    refused(STEPGATE_ELOST, "ps 0", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_error_last(&error));
    assert_int_equal(error.role, STEPGATE_ROLE_PS);
    assert_int_equal(error.rank, 0);
    refused(STEPGATE_ELOST, "ps 0", stepgate_job_barrier(c.job[1], CLUSTER_MS));
    for (int w = 0; w < 2; w++)
        ended_repeats(&c, w, STEPGATE_ELOST);
    for (int w = 0; w < 2; w++)
        stepgate_job_delete(&c.job[w]);
    assert_int_equal(cluster_served(&c), 0); /* it was told to */
    cluster_clear(&c);
}

static void a_ps_that_is_deleted_in_a_step_ends_its_workers(void **state)
{
    struct cluster c;

    (void)state;
    ended_up(&c, 1);
    stepgate_server_stop(c.server);
    assert_int_equal(cluster_served(&c), 0);
    stepgate_server_delete(&c.server);
    cluster_pause(700); /* the service thread notices */
    refused(STEPGATE_ELOST, "ps 0", stepgate_step_push(c.model[0], 0));
    ended_repeats(&c, 0, STEPGATE_ELOST);
    cluster_clear(&c);
}

static void a_ps_can_be_stopped_before_anybody_comes(void **state)
{
    struct cluster c;

    (void)state;
    cluster_serve(&c, 2, NULL);
    stepgate_server_stop(c.server);
    assert_int_equal(cluster_served(&c), 0);
    cluster_clear(&c);
}

static void a_worker_that_is_deleted_without_good_bye_is_lost_to_the_others(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct cluster c;

    (void)state;
    ended_up(&c, 2);
    cluster_push(&c, 0, 0, 1);
    must(stepgate_step_finish(c.model[0], 1));
    stepgate_job_delete(&c.job[1]);
    assert_null(c.job[1]);
    refused(STEPGATE_ELOST, "worker 1", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_error_last(&error));
    assert_int_equal(error.role, STEPGATE_ROLE_WORKER);
    assert_int_equal(error.rank, 1);
    ended_repeats(&c, 0, STEPGATE_ELOST);
    stepgate_job_delete(&c.job[0]);
    assert_int_equal(cluster_served(&c), -STEPGATE_ELOST);
    cluster_clear(&c);
}

static void a_ps_that_has_failed_before_it_is_stopped_says_so(void **state)
{
    struct cluster c;

    (void)state;
    ended_up(&c, 2);
    cluster_push(&c, 0, 0, 1);
    must(stepgate_step_finish(c.model[0], 1));
    stepgate_job_delete(&c.job[1]);
    refused(STEPGATE_ELOST, "worker 1", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    stepgate_server_stop(c.server); /* while it waits for worker 0 to hear of it */
    stepgate_job_delete(&c.job[0]);
    assert_int_equal(cluster_served(&c), -STEPGATE_ELOST);
    cluster_clear(&c);
}

static void a_worker_that_leaves_before_the_others_are_done_is_named(void **state)
{
    struct cluster c;

    (void)state;
    ended_up(&c, 2);
    must(stepgate_job_leave(c.job[1], CLUSTER_MS));
    cluster_push(&c, 0, 0, 1);
    must(stepgate_step_finish(c.model[0], 1));
    refused(STEPGATE_ELOST, "worker 1 left", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

static void nothing_is_left_to_call_after_the_good_bye(void **state)
{
    struct stepgate_job_stats stats = {.size = sizeof(stats)};
    struct cluster c;

    (void)state;
    ended_up(&c, 1);
    must(stepgate_job_leave(c.job[0], CLUSTER_MS));
    ended_repeats(&c, 0, STEPGATE_EENDED);
    must(stepgate_job_stats(c.job[0], &stats)); /* what was counted can still be read */
    assert_int_equal(stats.steps, 1);
    stepgate_job_delete(&c.job[0]);
    assert_int_equal(cluster_served(&c), 0);
    cluster_clear(&c);
}

static void models_that_differ_are_refused_on_every_worker_by_the_name_of_the_variable(void **state)
{
    static const uint64_t dims[2] = {6, 7};
    struct cluster c;
    int id;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "same", 3);
    for (int w = 0; w < 2; w++)
        must(stepgate_model_variable(c.model[w], "kernel", STEPGATE_TRAINED, STEPGATE_F32, 1, &dims[w], &id));
    assert_int_equal(cluster_each(&c, cluster_try_commit), -STEPGATE_EMISMATCH);
    for (int w = 0; w < 2; w++) {
        refused(STEPGATE_EMISMATCH, "variable 1 is kernel [7], on worker 0 it is kernel [6]",
                stepgate_model_commit(c.model[w], CLUSTER_MS, NULL));
        ended_repeats(&c, w, STEPGATE_EMISMATCH);
    }
    cluster_clear(&c);
}

static void optimizers_that_differ_are_refused_on_every_worker(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 3);
    must(stepgate_model_set(c.model[1], "learning_rate", "0.5"));
    assert_int_equal(cluster_each(&c, cluster_try_commit), -STEPGATE_EMISMATCH);
    for (int w = 0; w < 2; w++)
        refused(STEPGATE_EMISMATCH, "worker 1 differs: learning_rate 0.5",
                stepgate_model_commit(c.model[w], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

/* ended_secret -- a file with a secret. */
static void ended_secret(char *path, const char *secret)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(write(fd, secret, strlen(secret)), (ssize_t)strlen(secret));
    assert_int_equal(close(fd), 0);
}

static void a_wrong_secret_is_refused_and_the_right_one_still_joins(void **state)
{
    char right[] = "/tmp/stepgate-secret-XXXXXX", wrong[] = "/tmp/stepgate-secret-XXXXXX";
    const char *knobs[] = {"secret_file", right, NULL}, *others[] = {"secret_file", wrong, NULL};
    struct cluster c;

    (void)state;
    ended_secret(right, "0123456789abcdef0123456789abcdef");
    ended_secret(wrong, "0123456789abcdef0123456789abcdeX");
    cluster_serve(&c, 1, knobs);
    refused(STEPGATE_EAUTH, "ps 0", ended_join(&c, 0, others));
    refused(STEPGATE_EAUTH, "ps 0", ended_join(&c, 0, NULL));
    cluster_join(&c, knobs);
    assert_int_equal(unlink(right), 0);
    assert_int_equal(unlink(wrong), 0);
    must(stepgate_model_new(c.job[0], "m", &c.model[0]));
    cluster_variable(&c, "v", 3);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

static void whoever_does_not_belong_to_the_job_is_refused_and_the_job_goes_on(void **state)
{
    static const char *const job[] = {"job", "another", NULL}, *const size[] = {"workers", "5", NULL};
    struct cluster c;

    (void)state;
    ended_up(&c, 2);
    refused(STEPGATE_EWRONGJOB, "", ended_join(&c, 0, job));
    refused(STEPGATE_EMISMATCH, "", ended_join(&c, 0, size));
    refused(STEPGATE_ERANK, "", ended_join(&c, 1, NULL)); /* taken */
    refused(STEPGATE_EINVAL, "rank 2", ended_join(&c, 2, NULL));
    for (int w = 0; w < 2; w++)
        cluster_push(&c, w, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

static void a_job_without_its_ps_or_workers_gives_up_and_names_who_is_missing(void **state)
{
    static const char *const knobs[] = {"join_timeout", "300ms", NULL};
    struct cluster nobody = {.workers = 1, .address = "127.0.0.1:1"};
    struct cluster c;

    (void)state;
    refused(STEPGATE_EJOIN, "ps 0 (127.0.0.1:1)", ended_join(&nobody, 0, knobs));
    cluster_serve(&c, 2, knobs);
    struct stepgate_options *options = cluster_options(&c, 0, NULL);
    must(stepgate_job_join(options, CLUSTER_MS, &c.job[0]));
    stepgate_options_delete(&options);
    refused(STEPGATE_EJOIN, "worker 1", stepgate_job_barrier(c.job[0], CLUSTER_MS));
    stepgate_job_delete(&c.job[0]);
    assert_int_equal(cluster_served(&c), -STEPGATE_EJOIN);
    cluster_clear(&c);
}

static void a_ps_does_not_take_an_address_in_use(void **state)
{
    struct stepgate_server *second = NULL;
    struct cluster c;

    (void)state;
    cluster_serve(&c, 1, NULL);
    const char *knobs[] = {"listen", c.address, NULL};
    struct stepgate_options *options = cluster_options(&c, CLUSTER_PS, knobs);
    refused(STEPGATE_EBUSY, strrchr(c.address, ':') + 1, stepgate_server_new(options, &second));
    assert_null(second);
    stepgate_options_delete(&options);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ps_that_is_stopped_in_a_step_ends_its_workers),
        cmocka_unit_test(a_ps_that_is_deleted_in_a_step_ends_its_workers),
        cmocka_unit_test(a_ps_can_be_stopped_before_anybody_comes),
        cmocka_unit_test(a_worker_that_is_deleted_without_good_bye_is_lost_to_the_others),
        cmocka_unit_test(a_ps_that_has_failed_before_it_is_stopped_says_so),
        cmocka_unit_test(a_worker_that_leaves_before_the_others_are_done_is_named),
        cmocka_unit_test(nothing_is_left_to_call_after_the_good_bye),
        cmocka_unit_test(models_that_differ_are_refused_on_every_worker_by_the_name_of_the_variable),
        cmocka_unit_test(optimizers_that_differ_are_refused_on_every_worker),
        cmocka_unit_test(a_wrong_secret_is_refused_and_the_right_one_still_joins),
        cmocka_unit_test(whoever_does_not_belong_to_the_job_is_refused_and_the_job_goes_on),
        cmocka_unit_test(a_job_without_its_ps_or_workers_gives_up_and_names_who_is_missing),
        cmocka_unit_test(a_ps_does_not_take_an_address_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
