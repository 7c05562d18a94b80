/* SPDX-License-Identifier: BSD-3-Clause */
/* Many of a kind at once keep apart: variables, pushing threads, models of a job, jobs of a process. */
#include "tests/unit/worker/api/cluster.h"

static void three_hundred_variables_keep_apart(void **state)
{
    struct cluster c;
    char name[16];

    (void)state;
    cluster_up(&c, 2);
    for (int v = 0; v < 300; v++) {
        snprintf(name, sizeof(name), "v%d", v);
        assert_int_equal(cluster_variable(&c, name, (uint64_t)(1 + v * 7 % 40)), v);
    }
    assert_int_equal(stepgate_model_count(c.model[1]), 300);
    cluster_commit(&c);
    for (int step = 0; step < 2; step++) {
        cluster_begin(&c);
        for (int w = 0; w < 2; w++)
            for (int v = 0; v < 300; v++)
                cluster_push(&c, w, w == 0 ? v : 299 - v, (float)(w == 0 ? v : 299 - v));
        cluster_finish(&c);
    }
    cluster_begin(&c);
    for (int w = 0; w < 2; w++)
        for (int v = 0; v < 300; v++)
            for (int i = 0; i < 1 + v * 7 % 40; i++)
                assert_float_equal(cluster_value(&c, w, v, (size_t)i), (float)(-2 * v), 0);
    cluster_down(&c);
}

struct pusher {
    struct cluster *cluster;
    pthread_barrier_t *together;
    int first, status;
};

/* pusher_run -- pushes every fourth variable of worker 0. */
static void *pusher_run(void *context)
{
    struct pusher *pusher = context;

    pthread_barrier_wait(pusher->together);
    for (int v = pusher->first; pusher->status == 0 && v < 64; v += 4)
        pusher->status = stepgate_step_push(pusher->cluster->model[0], v);
    return NULL;
}

static void pushes_from_four_threads_at_once_all_count(void **state)
{
    pthread_barrier_t together;
    struct cluster c;
    char name[16];

    (void)state;
    cluster_up(&c, 1);
    for (int v = 0; v < 64; v++) {
        snprintf(name, sizeof(name), "v%d", v);
        cluster_variable(&c, name, 33);
    }
    cluster_commit(&c);
    assert_int_equal(pthread_barrier_init(&together, NULL, 4), 0);
    for (int step = 0; step < 5; step++) {
        pthread_t threads[4];
        struct pusher pushers[4];
        cluster_begin(&c);
        for (int v = 0; v < 64; v++) {
            void *gradient = NULL;
            must(stepgate_buffer_gradient(c.model[0], v, &gradient));
            for (int i = 0; i < 33; i++)
                ((float *)gradient)[i] = (float)v;
        }
        for (int t = 0; t < 4; t++) {
            pushers[t] = (struct pusher){&c, &together, t, 0};
            assert_int_equal(pthread_create(&threads[t], NULL, pusher_run, &pushers[t]), 0);
        }
        for (int t = 0; t < 4; t++) {
            assert_int_equal(pthread_join(threads[t], NULL), 0);
            assert_int_equal(pushers[t].status, 0);
        }
        cluster_finish(&c);
    }
    cluster_begin(&c);
    for (int v = 0; v < 64; v++)
        assert_float_equal(cluster_value(&c, 0, v, 32), (float)(-5 * v), 0);
    pthread_barrier_destroy(&together);
    cluster_down(&c);
}

static void two_jobs_in_one_process_keep_apart(void **state)
{
    struct cluster c[2];

    (void)state;
    for (int j = 0; j < 2; j++) {
        cluster_up(&c[j], 2);
        cluster_variable(&c[j], "v", 100);
        cluster_commit(&c[j]);
    }
    for (int step = 0; step < 3; step++)
        for (int j = 0; j < 2; j++) {
            cluster_begin(&c[j]);
            for (int w = 0; w < 2; w++)
                cluster_push(&c[j], w, 0, (float)(j + 1));
            cluster_finish(&c[j]);
        }
    for (int j = 0; j < 2; j++) {
        cluster_begin(&c[j]);
        assert_float_equal(cluster_value(&c[j], 1, 0, 99), (float)(-3 * (j + 1)), 0);
    }
    cluster_down(&c[0]);
    cluster_push(&c[1], 0, 0, 1); /* the end of one is not felt in the other */
    cluster_push(&c[1], 1, 0, 1);
    cluster_finish(&c[1]);
    cluster_begin(&c[1]);
    cluster_down(&c[1]);
}

/* swap_models -- makes another model of each worker the one that the cluster's helpers use. */
static void swap_models(struct cluster *c, struct stepgate_model *other[CLUSTER_WORKERS_MAX])
{
    for (int w = 0; w < c->workers; w++) {
        struct stepgate_model *model = c->model[w];
        c->model[w] = other[w];
        other[w] = model;
    }
}

static void two_models_of_a_job_step_on_their_own_whatever_the_order_of_their_commits(void **state)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    struct stepgate_model *other[CLUSTER_WORKERS_MAX] = {NULL};
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    for (int w = 0; w < 2; w++) {
        must(stepgate_model_new(c.job[w], "other", &other[w]));
        must(stepgate_model_set(other[w], "learning_rate", "2"));
    }
    cluster_variable(&c, "v", 10);
    swap_models(&c, other);
    cluster_variable(&c, "v", 20);
    cluster_commit(&c); /* the second one first */
    swap_models(&c, other);
    cluster_commit(&c);
    for (int step = 0; step < 3; step++) {
        cluster_begin(&c);
        for (int w = 0; w < 2; w++)
            cluster_push(&c, w, 0, 1);
        cluster_finish(&c);
    }
    swap_models(&c, other);
    cluster_begin(&c);
    for (int w = 0; w < 2; w++)
        cluster_push(&c, w, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 0, 19), -2, 0);
    swap_models(&c, other);
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, &info));
    assert_int_equal(info.step, 3);
    must(stepgate_step_pull(c.model[0], 0, CLUSTER_MS, NULL));
    assert_float_equal(cluster_value(&c, 0, 0, 9), -3, 0);
    cluster_down(&c);
}

static void a_worker_that_is_lost_is_named_with_the_step_of_each_model(void **state)
{
    struct stepgate_model *other[CLUSTER_WORKERS_MAX] = {NULL};
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    for (int w = 0; w < 2; w++)
        must(stepgate_model_new(c.job[w], "other", &other[w]));
    cluster_variable(&c, "v", 10);
    cluster_commit(&c);
    cluster_begin(&c);
    for (int w = 0; w < 2; w++)
        cluster_push(&c, w, 0, 1);
    cluster_finish(&c);
    swap_models(&c, other);
    cluster_variable(&c, "v", 20);
    for (int w = 0; w < 2; w++)
        must(stepgate_model_set(c.model[w], "learning_rate", "1"));
    cluster_commit(&c);
    swap_models(&c, other);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 1);
    stepgate_job_delete(&c.job[1]);
    (void)stepgate_step_finish(c.model[0], 1); /* it may have heard of it already */
    refused(STEPGATE_ELOST, "worker 1 is lost in step 1 of model m, step 0 of model other: ",
            stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_hundred_variables_keep_apart),
        cmocka_unit_test(pushes_from_four_threads_at_once_all_count),
        cmocka_unit_test(two_jobs_in_one_process_keep_apart),
        cmocka_unit_test(two_models_of_a_job_step_on_their_own_whatever_the_order_of_their_commits),
        cmocka_unit_test(a_worker_that_is_lost_is_named_with_the_step_of_each_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
