/* SPDX-License-Identifier: BSD-3-Clause */
/* Observers read exact steps while others train, and are nobody's concern. */
#include "tests/unit/worker/api/crowd.h"

static const uint64_t large[] = {3000000 / CROWD_SCALE, 5, 1000003 / CROWD_SCALE, 17, 0};
static const uint64_t small[] = {1000, 7, 0};

/* check_whole -- pulls everything: it is all of one step. Returns which. */
static uint64_t check_whole(struct stepgate_model *model, const uint64_t *sizes)
{
    uint64_t step = UINT64_MAX, lowest = 0, highest = 0;

    must(stepgate_step_pull(model, STEPGATE_ALL, CROWD_MS, &step));
    for (int v = 0; sizes[v] > 0; v++) {
        const void *values = NULL;
        must(stepgate_buffer_parameter(model, v, &values));
        crowd_same(values, sizes[v], -(float)step);
    }
    must(stepgate_step_pulled(model, STEPGATE_ALL, &lowest, &highest));
    assert_int_equal(lowest, step);
    assert_int_equal(highest, step);
    return step;
}

/* watch_training -- a large model at full speed, looked at as often as can be. */
static void watch_training(int workers, int servers, uint64_t steps, const char *const *keys)
{
    static const char *const knobs[] = {"cut_bytes", "1MiB", NULL};
    struct crowd c;
    uint64_t before = 0, different = 0;

    crowd_serve(&c, workers, servers, servers > 1 ? knobs : NULL);
    crowd_join(&c, keys, large);
    struct stepgate_job *job = crowd_observer(&c);
    atomic_store(&c.held, steps);
    crowd_start(&c, UINT64_MAX);
    struct stepgate_model *model = crowd_attach(job);
    while (before < steps) {
        uint64_t step = check_whole(model, large);
        assert_true(step >= before);
        different += step > before;
        before = step;
    }
    assert_true(different >= 1);
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void a_pull_is_of_one_step_while_all_train(void **state)
{
    (void)state;
    watch_training(2, 1, 200 / CROWD_SCALE, NULL);
}

static void a_pull_is_of_one_step_while_some_train_ahead(void **state)
{
    static const char *const keys[] = {"replicas_to_aggregate", "2", NULL};

    (void)state;
    watch_training(3, 1, 200 / CROWD_SCALE, keys);
}

static void a_pull_is_of_one_step_over_several_ps(void **state)
{
    (void)state;
    watch_training(2, 3, 64 / CROWD_SCALE, NULL);
}

static void a_pull_is_of_one_step_in_every_mode(void **state)
{
    static const char *const tf[] = {"update", "tf", "replicas_to_aggregate", "2", NULL};
    static const char *const async[] = {"update", "async", NULL};
    const char *const *modes[] = {tf, async};

    (void)state;
    for (int m = 0; m < 2; m++) {
        struct crowd c;
        crowd_serve(&c, 2, 2, NULL);
        crowd_join(&c, modes[m], small);
        struct stepgate_job *job = crowd_observer(&c);
        atomic_store(&c.held, 300);
        crowd_start(&c, UINT64_MAX);
        struct stepgate_model *model = crowd_attach(job);
        for (uint64_t step = 0; step < 300;)
            step = check_whole(model, small);
        stepgate_job_delete(&job);
        crowd_stop(&c);
    }
}

/* check_comes -- a step that workers have begun is applied by now, or soon. */
static void check_comes(struct stepgate_model *model, uint64_t step)
{
    int64_t until = cluster_now() + CROWD_MS;

    while (check_whole(model, small) != step)
        assert_true(cluster_now() < until);
}

static void an_observer_that_comes_late_sees_the_newest_step(void **state)
{
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 1, NULL);
    crowd_join(&c, NULL, small);
    atomic_store(&c.held, 40);
    crowd_start(&c, UINT64_MAX);
    crowd_reach(&c, 40);
    struct stepgate_job *job = crowd_observer(&c);
    struct stepgate_model *model = crowd_attach(job);
    check_comes(model, 40);
    assert_int_equal(check_whole(model, small), 40); /* again, though nothing is new */
    atomic_store(&c.held, 45);
    crowd_reach(&c, 45);
    check_comes(model, 45);
    must(stepgate_job_leave(job, CROWD_MS));
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void observers_come_and_go_while_the_job_goes_on(void **state)
{
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    for (int i = 0; i < 80 / CROWD_SCALE; i++) { /* more than there are places at once */
        struct stepgate_job *job[2] = {crowd_observer(&c), crowd_observer(&c)};
        struct stepgate_model *model[2] = {crowd_attach(job[0]), crowd_attach(job[1])};
        for (int o = 0; o < 2; o++)
            check_whole(model[o], small);
        if (i % 2 == 0) /* the other one goes without a word */
            must(stepgate_job_leave(job[0], CROWD_MS));
        stepgate_job_delete(&job[0]);
        check_whole(model[1], small);
        stepgate_job_delete(&job[1]);
    }
    crowd_stop(&c);
}

static void an_unknown_model_is_waited_for(void **state)
{
    struct stepgate_model *model = NULL;
    struct crowd c;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, NULL, small);
    struct stepgate_job *job = crowd_observer(&c);
    refused(STEPGATE_ETIMEOUT, "", stepgate_model_attach(job, "m", 60, &model)); /* declared, not committed */
    assert_null(model);
    crowd_start(&c, UINT64_MAX);
    refused(STEPGATE_ETIMEOUT, "", stepgate_model_attach(job, "another", 60, &model));
    assert_null(model);
    assert_int_equal(stepgate_model_attach(job, "m", 0, &model), -STEPGATE_EAGAIN);
    assert_non_null(model);
    must(stepgate_model_attach(job, "m", CROWD_MS, &model));
    check_whole(model, small);
    struct stepgate_model *second = NULL;
    refused(STEPGATE_EALREADY, "m", stepgate_model_attach(job, "m", CROWD_MS, &second));
    stepgate_model_delete(&model);
    must(stepgate_model_attach(job, "m", CROWD_MS, &model));
    check_whole(model, small);
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void the_end_of_the_job_is_told(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct crowd c;

    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        crowd_serve(&c, 2, servers, NULL);
        crowd_join(&c, NULL, small);
        crowd_start(&c, UINT64_MAX);
        struct stepgate_job *job = crowd_observer(&c);
        struct stepgate_model *model = crowd_attach(job);
        check_whole(model, small);
        crowd_stop(&c);
        refused(STEPGATE_EENDED, "over", stepgate_step_pull(model, STEPGATE_ALL, CROWD_MS, NULL));
        refused(STEPGATE_EENDED, "over",
                stepgate_model_attach(job, "m", 0, &(struct stepgate_model *){NULL}));
        assert_int_equal(stepgate_job_error(job, &error), -STEPGATE_EENDED);
        stepgate_job_delete(&job);
    }
}

static void an_observer_has_no_steps(void **state)
{
    struct stepgate_model *model = NULL, *other = NULL;
    struct crowd c;
    void *gradient;

    (void)state;
    crowd_serve(&c, 1, 1, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    struct stepgate_job *job = crowd_observer(&c);
    assert_int_equal(stepgate_job_role(job), STEPGATE_ROLE_OBSERVER);
    assert_int_equal(stepgate_job_rank(job), -1);
    assert_int_equal(stepgate_job_size(job), 1);
    model = crowd_attach(job);
    assert_int_equal(stepgate_model_count(model), 2);
    refused(STEPGATE_ESTATE, "observer", stepgate_model_new(job, "n", &other));
    refused(STEPGATE_ESTATE, "observer", stepgate_model_commit(model, 0, NULL));
    refused(STEPGATE_ESTATE, "observer", stepgate_step_begin(model, 0, NULL));
    refused(STEPGATE_ESTATE, "observer", stepgate_step_push(model, 0));
    refused(STEPGATE_ESTATE, "observer", stepgate_step_absent(model, 0));
    refused(STEPGATE_ESTATE, "observer", stepgate_step_finish(model, 1));
    refused(STEPGATE_ESTATE, "observer", stepgate_step_abandon(model));
    refused(STEPGATE_ESTATE, "observer", stepgate_job_barrier(job, 0));
    refused(STEPGATE_ESTATE, "observer", stepgate_buffer_gradient(model, 0, &gradient));
    refused(STEPGATE_ESTATE, "observer", stepgate_buffer_is_idle(model, 0));
    refused(STEPGATE_ESTATE, "observer", stepgate_model_tune(model, "learning_rate", "2", 0));
    refused(STEPGATE_ESTATE, "", stepgate_model_set(model, "learning_rate", "2"));
    refused(STEPGATE_ESTATE, "worker", stepgate_model_attach(c.worker[0].job, "m", 0, &other));
    other = c.worker[0].model; /* nor again, what is its own */
    refused(STEPGATE_ESTATE, "worker", stepgate_model_attach(c.worker[0].job, "m", 0, &other));
    check_whole(model, small);
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

static void an_observer_reads_single_variables_and_rows_into_its_own_memory(void **state)
{
    const uint64_t rows[] = {999, 0, 999, 500};
    float own[1000], picked[4];
    const void *values = NULL;
    struct crowd c;
    uint64_t step;

    (void)state;
    crowd_serve(&c, 2, 2, NULL);
    crowd_join(&c, NULL, small);
    crowd_start(&c, UINT64_MAX);
    struct stepgate_job *job = crowd_observer(&c);
    struct stepgate_model *model = crowd_attach(job);
    must(stepgate_buffer_attach(model, 0, STEPGATE_USE_PARAMETER, own, sizeof(own)));
    for (int i = 0; i < 200 / CROWD_SCALE; i++) {
        must(stepgate_step_pull(model, 0, CROWD_MS, &step));
        crowd_same(own, 1000, -(float)step);
        must(stepgate_step_pull(model, 1, CROWD_MS, &step));
        must(stepgate_buffer_parameter(model, 1, &values));
        crowd_same(values, 7, -(float)step);
        must(stepgate_step_pull_rows(model, 0, rows, 4, picked, CROWD_MS, &step));
        crowd_same(picked, 4, -(float)step);
    }
    must(stepgate_buffer_detach(model, 0, STEPGATE_USE_PARAMETER));
    check_whole(model, small);
    stepgate_job_delete(&job);
    crowd_stop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_is_of_one_step_while_all_train),
        cmocka_unit_test(a_pull_is_of_one_step_while_some_train_ahead),
        cmocka_unit_test(a_pull_is_of_one_step_over_several_ps),
        cmocka_unit_test(a_pull_is_of_one_step_in_every_mode),
        cmocka_unit_test(an_observer_that_comes_late_sees_the_newest_step),
        cmocka_unit_test(observers_come_and_go_while_the_job_goes_on),
        cmocka_unit_test(an_unknown_model_is_waited_for),
        cmocka_unit_test(the_end_of_the_job_is_told),
        cmocka_unit_test(an_observer_has_no_steps),
        cmocka_unit_test(an_observer_reads_single_variables_and_rows_into_its_own_memory),
    };

    return crowd_main(tests);
}
