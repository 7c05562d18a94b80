/* SPDX-License-Identifier: BSD-3-Clause */
/* A child after fork is told that the job is its parent's, and cannot hurt it. */
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/worker/api/cluster.h"

/* fork_calls -- what a child does with its parent's job: returns the line of the first call that was not refused, or 0. */
static int fork_calls(struct stepgate_job *job, struct stepgate_model *model)
{
    struct stepgate_error error = {.size = sizeof(error)};
    struct stepgate_model *other = NULL;
    const void *value = NULL;
    void *gradient = NULL;

#define FORKED(call)                                                                                         \
    do {                                                                                                     \
        if ((call) != -STEPGATE_EFORKED)                                                                     \
            return __LINE__;                                                                                 \
    } while (0)
    FORKED(stepgate_step_push(model, 0));
    FORKED(stepgate_step_pull(model, 0, -1, NULL));
    FORKED(stepgate_step_begin(model, -1, NULL));
    FORKED(stepgate_step_absent(model, 0));
    FORKED(stepgate_step_finish(model, 1));
    FORKED(stepgate_step_abandon(model));
    FORKED(stepgate_buffer_gradient(model, 0, &gradient));
    FORKED(stepgate_buffer_parameter(model, 0, &value));
    FORKED(stepgate_buffer_is_idle(model, 0));
    FORKED(stepgate_model_new(job, "other", &other));
    FORKED(stepgate_model_commit(model, -1, NULL));
    FORKED(stepgate_model_count(model));
    FORKED(stepgate_job_barrier(job, -1));
    FORKED(stepgate_job_progress(job));
    FORKED(stepgate_job_fd(job));
    FORKED(stepgate_job_leave(job, -1));
    FORKED(stepgate_job_error(job, &error));
#undef FORKED
    if (stepgate_error_last(&error) != 0 || error.code != STEPGATE_EFORKED || error.remedy[0] == 0)
        return __LINE__;
    stepgate_job_interrupt(job);
    stepgate_model_delete(&model);
    stepgate_job_delete(&job);
    return model == NULL && job == NULL ? 0 : __LINE__;
}

/* fork_wait -- the child's exit status, or -1 when it has not ended in time. */
static int fork_wait(pid_t child)
{
    int status = 0;

    for (int64_t until = cluster_now() + CLUSTER_MS; cluster_now() < until; cluster_pause(1))
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static void a_child_is_refused_and_its_parent_goes_on(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 100);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 1);
    pid_t child = fork();
    if (child == 0)
        _exit(fork_calls(c.job[0], c.model[0]) % 256);
    assert_true(child > 0);
    assert_int_equal(fork_wait(child), 0);
    cluster_push(&c, 1, 0, 3);
    cluster_finish(&c);
    cluster_begin(&c); /* no interrupt of the child's, no lost connection */
    assert_float_equal(cluster_value(&c, 0, 0, 99), -2, 0);
    for (int w = 0; w < 2; w++)
        cluster_push(&c, w, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

/* fork_serve -- what a child does with its parent's ps: returns the line of the first call that was not refused, or 0. */
static int fork_serve(struct stepgate_server *server)
{
    if (stepgate_server_run(server) != -STEPGATE_EFORKED)
        return __LINE__;
    stepgate_server_stop(server);
    stepgate_server_delete(&server);
    return server == NULL ? 0 : __LINE__;
}

static void a_child_cannot_end_the_ps_of_its_parent(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    cluster_variable(&c, "v", 100);
    cluster_commit(&c);
    cluster_begin(&c);
    pid_t child = fork();
    if (child == 0)
        _exit(fork_serve(c.server) % 256);
    assert_true(child > 0);
    assert_int_equal(fork_wait(child), 0);
    cluster_pause(50);
    cluster_push(&c, 0, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

static void a_child_may_join_a_job_of_its_own(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 1);
    cluster_variable(&c, "v", 100);
    cluster_commit(&c);
    cluster_begin(&c);
    pid_t child = fork();
    if (child == 0) {
        struct cluster own;
        stepgate_job_delete(&c.job[0]);
        cluster_up(&own, 1);
        cluster_variable(&own, "v", 10);
        cluster_commit(&own);
        cluster_begin(&own);
        cluster_push(&own, 0, 0, 1);
        cluster_finish(&own);
        cluster_begin(&own);
        cluster_down(&own);
        _exit(7);
    }
    assert_true(child > 0);
    assert_int_equal(fork_wait(child), 7);
    cluster_push(&c, 0, 0, 1);
    cluster_finish(&c);
    cluster_begin(&c);
    cluster_down(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_refused_and_its_parent_goes_on),
        cmocka_unit_test(a_child_cannot_end_the_ps_of_its_parent),
        cmocka_unit_test(a_child_may_join_a_job_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
