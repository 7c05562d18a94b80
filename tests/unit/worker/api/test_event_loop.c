/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with 0 ms and the job's descriptor: what was started goes on, and nothing that happens in between is slept over. */
#include "tests/unit/worker/api/cluster.h"

/* loop_up -- two workers with a committed model of one variable. */
static void loop_up(struct cluster *c, const char *const *knobs)
{
    cluster_serve(c, 2, NULL);
    cluster_join(c, knobs);
    for (int w = 0; w < 2; w++)
        must(stepgate_model_new(c->job[w], "m", &c->model[w]));
    cluster_variable(c, "v", 10);
    cluster_commit(c);
    cluster_begin(c);
}

/* loop_contribute -- a worker's part of the open step. */
static void loop_contribute(struct cluster *c, int w)
{
    cluster_push(c, w, 0, 1);
    must(stepgate_step_finish(c->model[w], 1));
}

/* loop_readable -- does the worker's descriptor turn readable within that time? */
static bool loop_readable(struct cluster *c, int w, int ms)
{
    struct pollfd fd = {.fd = stepgate_job_fd(c->job[w]), .events = POLLIN};

    assert_true(fd.fd >= 0);
    return poll(&fd, 1, ms) > 0;
}

/* loop_finish -- repeats the call whenever the descriptor says so, until it is done: what an event loop does. */
static void loop_finish(struct cluster *c, int w, cluster_call *call)
{
    int status = call(c, w);

    while (status == -STEPGATE_EAGAIN) {
        assert_true(loop_readable(c, w, CLUSTER_MS));
        status = call(c, w);
    }
    must(status);
}

/* try_begin -- one look for the token. */
static int try_begin(struct cluster *c, int w)
{
    return stepgate_step_begin(c->model[w], 0, NULL);
}

/* try_pull -- one look at the values. */
static int try_pull(struct cluster *c, int w)
{
    return stepgate_step_pull(c->model[w], STEPGATE_ALL, 0, NULL);
}

/* try_barrier -- one look at the barrier. */
static int try_barrier(struct cluster *c, int w)
{
    return stepgate_job_barrier(c->job[w], 0);
}

/* try_leave -- one look at the answer. */
static int try_leave(struct cluster *c, int w)
{
    return stepgate_job_leave(c->job[w], 0);
}

static void a_try_that_is_too_early_says_again_and_the_descriptor_tells_when(void **state)
{
    struct cluster c;

    (void)state;
    loop_up(&c, NULL);
    for (int step = 0; step < 5; step++) {
        loop_contribute(&c, 0);
        assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
        loop_contribute(&c, 1);
        for (int w = 0; w < 2; w++) {
            loop_finish(&c, w, try_begin);
            loop_finish(&c, w, try_pull);
        }
    }
    assert_float_equal(cluster_value(&c, 0, 0, 9), cluster_value(&c, 1, 0, 9), 0);
    assert_int_equal(try_barrier(&c, 0), -STEPGATE_EAGAIN);
    loop_finish(&c, 1, try_barrier);
    loop_finish(&c, 0, try_barrier);
    for (int w = 0; w < 2; w++)
        loop_finish(&c, w, try_leave);
    cluster_clear(&c);
}

static void what_the_service_thread_has_seen_is_not_slept_over(void **state)
{
    struct cluster c;

    (void)state;
    loop_up(&c, NULL);
    loop_contribute(&c, 0);
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
    loop_contribute(&c, 1);
    cluster_pause(700); /* the service thread wakes a few times per second, and takes the token */
    loop_finish(&c, 0, try_begin);
    loop_finish(&c, 0, try_pull);
    cluster_clear(&c);
}

static void what_other_calls_have_seen_is_not_slept_over(void **state)
{
    static const char *const knobs[] = {"service", "off", NULL};
    struct cluster c;

    (void)state;
    loop_up(&c, knobs);
    for (int step = 0; step < 2; step++) {
        loop_contribute(&c, 0);
        assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
        loop_contribute(&c, 1);
        cluster_pause(100);
        if (step == 0)
            must(stepgate_job_progress(c.job[0]));
        else
            assert_true(stepgate_buffer_is_idle(c.model[0], 0) >= 0);
        loop_finish(&c, 0, try_begin);
        loop_finish(&c, 0, try_pull);
        loop_finish(&c, 1, try_begin);
        loop_finish(&c, 1, try_pull);
    }
    cluster_clear(&c);
}

static void what_a_try_of_another_model_has_seen_is_not_slept_over(void **state)
{
    static const char *const knobs[] = {"service", "off", NULL};
    struct stepgate_model *model[2] = {NULL}, *other[2] = {NULL};
    struct cluster c;

    (void)state;
    loop_up(&c, knobs);
    for (int w = 0; w < 2; w++) {
        model[w] = c.model[w];
        must(stepgate_model_new(c.job[w], "other", &other[w]));
        c.model[w] = other[w];
    }
    cluster_variable(&c, "v", 10);
    cluster_commit(&c);
    cluster_begin(&c);
    loop_contribute(&c, 0);
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN); /* of `other`, which nobody else finishes */
    c.model[0] = model[0];
    c.model[1] = model[1];
    loop_contribute(&c, 0);
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
    loop_contribute(&c, 1);
    cluster_pause(100);
    c.model[0] = other[0];
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
    assert_true(loop_readable(&c, 0, CLUSTER_MS));
    c.model[0] = model[0];
    loop_finish(&c, 0, try_begin);
    cluster_clear(&c);
}

/* wait_long -- a thread that waits for a step of another model, which does not come. */
static void *wait_long(void *context)
{
    return (void *)(intptr_t)stepgate_step_begin(context, 1500, NULL);
}

static void what_a_wait_of_another_thread_has_seen_is_not_slept_over(void **state)
{
    struct stepgate_model *model[2] = {NULL};
    struct cluster c;
    pthread_t thread;
    void *status = NULL;

    (void)state;
    loop_up(&c, NULL);
    for (int w = 0; w < 2; w++) {
        model[w] = c.model[w];
        must(stepgate_model_new(c.job[w], "other", &c.model[w]));
    }
    cluster_variable(&c, "v", 10);
    cluster_commit(&c);
    cluster_begin(&c);
    loop_contribute(&c, 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_long, c.model[0]), 0);
    c.model[0] = model[0];
    c.model[1] = model[1];
    loop_contribute(&c, 0);
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
    loop_contribute(&c, 1);
    cluster_pause(200);
    loop_finish(&c, 0, try_begin);
    loop_finish(&c, 0, try_pull);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((int)(intptr_t)status, -STEPGATE_ETIMEOUT);
    cluster_clear(&c);
}

static void a_descriptor_with_nothing_to_tell_stays_silent(void **state)
{
    struct cluster c;
    int told = 0;

    (void)state;
    loop_up(&c, NULL);
    loop_contribute(&c, 0);
    for (int64_t until = cluster_now() + 500; cluster_now() < until;) {
        assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
        told += loop_readable(&c, 0, 100);
    }
    assert_true(told <= 5); /* a loop that is told for nothing turns thousands of times */
    cluster_clear(&c);
}

/* try_join -- one look at the join. */
static int try_join(struct cluster *c, int w)
{
    struct stepgate_options *options = cluster_options(c, w, NULL);
    int status = stepgate_job_join(options, 0, &c->job[w]);

    stepgate_options_delete(&options);
    return status;
}

static void a_job_is_joined_and_committed_by_trying(void **state)
{
    struct cluster c;

    (void)state;
    cluster_serve(&c, 2, NULL);
    assert_int_equal(try_join(&c, 0), -STEPGATE_EAGAIN);
    assert_non_null(c.job[0]); /* unfinished */
    for (int w = 0; w < 2; w++) {
        loop_finish(&c, w, try_join);
        assert_int_equal(stepgate_job_rank(c.job[w]), w);
        assert_int_equal(stepgate_job_size(c.job[w]), 2);
        assert_int_equal(stepgate_job_servers(c.job[w]), 1);
        assert_int_equal(stepgate_job_role(c.job[w]), STEPGATE_ROLE_WORKER);
        assert_string_equal(stepgate_job_transport(c.job[w]), "shm");
        must(stepgate_model_new(c.job[w], "m", &c.model[w]));
    }
    cluster_variable(&c, "v", 10);
    assert_int_equal(cluster_try_commit(&c, 0), -STEPGATE_EAGAIN);
    assert_int_equal(cluster_try_commit(&c, 1), -STEPGATE_EAGAIN);
    loop_finish(&c, 0, cluster_try_commit);
    loop_finish(&c, 1, cluster_try_commit);
    cluster_begin(&c);
    cluster_down(&c);
}

static void a_join_that_fails_in_the_meantime_is_told(void **state)
{
    static const char *const knobs[] = {"join_timeout", "300ms", NULL};
    struct cluster c = {.workers = 1, .address = "127.0.0.1:1"}; /* nobody listens there */
    struct stepgate_options *options = cluster_options(&c, 0, knobs);

    (void)state;
    assert_int_equal(stepgate_job_join(options, 0, &c.job[0]), -STEPGATE_EAGAIN);
    int status = -STEPGATE_EAGAIN;
    while (status == -STEPGATE_EAGAIN) {
        assert_true(loop_readable(&c, 0, CLUSTER_MS));
        status = stepgate_job_join(options, 0, &c.job[0]);
    }
    assert_int_equal(status, -STEPGATE_EJOIN);
    stepgate_options_delete(&options);
    cluster_clear(&c);
}

static void an_unfinished_join_can_be_deleted(void **state)
{
    struct cluster c;

    (void)state;
    cluster_serve(&c, 2, NULL);
    assert_int_equal(try_join(&c, 0), -STEPGATE_EAGAIN);
    stepgate_job_delete(&c.job[0]);
    assert_null(c.job[0]);
    cluster_clear(&c);
}

static void an_interrupt_wakes_an_event_loop_once(void **state)
{
    struct cluster c;
    int told = 0;

    (void)state;
    loop_up(&c, NULL);
    loop_contribute(&c, 0);
    assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
    stepgate_job_interrupt(c.job[0]);
    assert_true(loop_readable(&c, 0, CLUSTER_MS));
    refused(STEPGATE_EINTR, "token", try_begin(&c, 0));
    for (int i = 0; i < 50; i++) {
        assert_int_equal(try_begin(&c, 0), -STEPGATE_EAGAIN);
        told += loop_readable(&c, 0, 5);
    }
    assert_true(told <= 3);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_try_that_is_too_early_says_again_and_the_descriptor_tells_when),
        cmocka_unit_test(what_the_service_thread_has_seen_is_not_slept_over),
        cmocka_unit_test(what_other_calls_have_seen_is_not_slept_over),
        cmocka_unit_test(what_a_try_of_another_model_has_seen_is_not_slept_over),
        cmocka_unit_test(what_a_wait_of_another_thread_has_seen_is_not_slept_over),
        cmocka_unit_test(a_descriptor_with_nothing_to_tell_stays_silent),
        cmocka_unit_test(a_job_is_joined_and_committed_by_trying),
        cmocka_unit_test(a_join_that_fails_in_the_meantime_is_told),
        cmocka_unit_test(an_unfinished_join_can_be_deleted),
        cmocka_unit_test(an_interrupt_wakes_an_event_loop_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
