/* SPDX-License-Identifier: BSD-3-Clause */
/* How long calls wait, what ends a wait, and who keeps a waiting or computing worker alive. */
#include <errno.h>

#include "tests/unit/worker/api/cluster.h"

/* wait_up -- two workers with a committed model of one variable. */
static void wait_up(struct cluster *c, const char *const *knobs)
{
    cluster_serve(c, 2, NULL);
    cluster_join(c, knobs);
    for (int w = 0; w < 2; w++)
        must(stepgate_model_new(c->job[w], "m", &c->model[w]));
    cluster_variable(c, "v", 10);
    cluster_commit(c);
    cluster_begin(c);
}

/* wait_contribute -- a worker's part of the open step. */
static void wait_contribute(struct cluster *c, int w)
{
    cluster_push(c, w, 0, 1);
    must(stepgate_step_finish(c->model[w], 1));
}

static void a_wait_ends_at_its_deadline_and_may_be_repeated(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct cluster c;

    (void)state;
    wait_up(&c, NULL);
    wait_contribute(&c, 0);
    int64_t start = cluster_now();
    refused(STEPGATE_ETIMEOUT, "token", stepgate_step_begin(c.model[0], 60, NULL));
    assert_true(cluster_now() - start >= 60);
    must(stepgate_error_last(&error));
    assert_true(error.waited_ms >= 60);
    assert_true(error.remedy[0] != 0);
    refused(STEPGATE_ETIMEOUT, "barrier", stepgate_job_barrier(c.job[0], 30));
    assert_int_equal(stepgate_job_error(c.job[0], &error), 0);
    wait_contribute(&c, 1);
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    must(stepgate_job_barrier(c.job[1], CLUSTER_MS));
    must(stepgate_job_barrier(c.job[0], CLUSTER_MS));
    cluster_clear(&c);
}

static void a_commit_that_is_too_early_may_be_repeated(void **state)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 10);
    refused(STEPGATE_ETIMEOUT, "commit", stepgate_model_commit(c.model[0], 40, NULL));
    assert_int_equal(stepgate_job_error(c.job[0], &error), 0);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

static void a_step_that_takes_longer_than_the_knob_ends_the_job(void **state)
{
    static const char *const knobs[] = {"step_timeout", "100ms", NULL};
    struct stepgate_error error = {.size = sizeof(error)};
    struct cluster c;

    (void)state;
    wait_up(&c, knobs);
    wait_contribute(&c, 0);
    refused(STEPGATE_ESTEPTIME, "token", stepgate_step_begin(c.model[0], -1, NULL));
    assert_int_equal(stepgate_error_class(STEPGATE_ESTEPTIME), STEPGATE_CLASS_JOB);
    refused(STEPGATE_ESTEPTIME, "token", stepgate_step_begin(c.model[0], 0, NULL));
    refused(STEPGATE_ESTEPTIME, "token", stepgate_job_barrier(c.job[0], 0));
    assert_int_equal(stepgate_job_error(c.job[0], &error), -STEPGATE_ESTEPTIME);
    cluster_clear(&c);
}

/* interrupt_soon -- a thread that interrupts a wait under way. */
static void *interrupt_soon(void *context)
{
    struct cluster *c = context;

    cluster_pause(50);
    stepgate_job_interrupt(c->job[0]);
    return NULL;
}

static void an_interrupt_ends_the_wait_under_way_or_the_next_one_once(void **state)
{
    pthread_t thread;
    struct cluster c;

    (void)state;
    wait_up(&c, NULL);
    wait_contribute(&c, 0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, &c), 0);
    refused(STEPGATE_EINTR, "token", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    refused(STEPGATE_ETIMEOUT, "token", stepgate_step_begin(c.model[0], 30, NULL));
    errno = 77;
    stepgate_job_interrupt(c.job[0]);
    assert_int_equal(errno, 77); /* as a signal handler needs it */
    refused(STEPGATE_EINTR, "token", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    wait_contribute(&c, 1);
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

static void without_a_service_thread_the_program_keeps_itself_alive(void **state)
{
    static const char *const ps[] = {"liveness", "1500ms", NULL};
    static const char *const with[] = {"liveness", "1500ms", "service", "on", NULL};
    static const char *const without[] = {"liveness", "1500ms", "service", "off", NULL};
    struct cluster c;

    (void)state;
    cluster_serve(&c, 2, ps);
    for (int w = 0; w < 2; w++) {
        struct stepgate_options *options = cluster_options(&c, w, w == 0 ? with : without);
        must(stepgate_job_join(options, CLUSTER_MS, &c.job[w]));
        stepgate_options_delete(&options);
        must(stepgate_model_new(c.job[w], "m", &c.model[w]));
    }
    cluster_variable(&c, "v", 10);
    cluster_commit(&c);
    for (int64_t until = cluster_now() + 3000; cluster_now() < until; cluster_pause(20))
        must(stepgate_job_progress(c.job[1])); /* worker 0 computes: its service thread does that */
    cluster_begin(&c);
    wait_contribute(&c, 0);
    refused(STEPGATE_ELOST, "worker 1", stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_may_be_repeated),
        cmocka_unit_test(a_commit_that_is_too_early_may_be_repeated),
        cmocka_unit_test(a_step_that_takes_longer_than_the_knob_ends_the_job),
        cmocka_unit_test(an_interrupt_ends_the_wait_under_way_or_the_next_one_once),
        cmocka_unit_test(without_a_service_thread_the_program_keeps_itself_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
