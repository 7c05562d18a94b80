/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is named when a job cannot go on: the one who is the cause, to everybody, those who come too late included. */
#include "tests/unit/worker/api/cluster.h"

/* blame_join -- one worker joins, or tries to; returns the code. */
static int blame_join(struct cluster *c, int rank)
{
    struct stepgate_options *options = cluster_options(c, rank, NULL);
    int status = stepgate_job_join(options, CLUSTER_MS, &c->job[rank]);

    stepgate_options_delete(&options);
    return status;
}

static void whoever_comes_to_a_job_that_has_lost_somebody_is_told_who(void **state)
{
    struct cluster c;

    (void)state;
    cluster_serve(&c, 3, NULL);
    must(blame_join(&c, 1));
    stepgate_job_delete(&c.job[1]); /* without a word */
    cluster_pause(1000);            /* longer than a worker whose connections were closed is expected back */
    int64_t from = cluster_now();
    refused(STEPGATE_ELOST, "worker 1 is lost", blame_join(&c, 0));
    assert_true(cluster_now() - from < CLUSTER_MS / 2); /* and does not wait for a ps that is gone */
    assert_int_equal(cluster_served(&c), -STEPGATE_ELOST);
    cluster_clear(&c);
}

static void a_worker_that_leaves_before_the_commit_is_named(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 3);
    must(stepgate_job_leave(c.job[1], CLUSTER_MS));
    refused(STEPGATE_ELOST, "worker 1 left", stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    assert_int_equal(cluster_served(&c), -STEPGATE_ELOST);
    cluster_clear(&c);
}

static void a_worker_that_leaves_while_others_commit_is_named(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 3);
    assert_int_equal(stepgate_model_commit(c.model[0], 0, NULL), -STEPGATE_EAGAIN);
    cluster_pause(50);
    must(stepgate_job_leave(c.job[1], CLUSTER_MS));
    refused(STEPGATE_ELOST, "worker 1 left", stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

static void a_step_that_lasts_too_long_names_the_worker_it_waits_for(void **state)
{
    const char *const knobs[] = {"step_timeout", "300ms", NULL};
    struct cluster c;

    (void)state;
    cluster_serve(&c, 3, knobs);
    cluster_join(&c, knobs);
    for (int w = 0; w < 3; w++)
        must(stepgate_model_new(c.job[w], "m", &c.model[w]));
    cluster_variable(&c, "v", 3);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_pause(500); /* nobody waits for anybody yet */
    for (int w = 0; w < 3; w += 2) {
        cluster_push(&c, w, 0, 1);
        must(stepgate_step_finish(c.model[w], 1));
    }
    refused(STEPGATE_ESTEPTIME, "waiting for worker 1", stepgate_step_begin(c.model[0], -1, NULL));
    refused(STEPGATE_ESTEPTIME, "waiting for worker 1", stepgate_step_begin(c.model[2], -1, NULL));
    refused(STEPGATE_ESTEPTIME, "waiting for worker 1", stepgate_job_barrier(c.job[1], CLUSTER_MS));
    assert_int_equal(cluster_served(&c), -STEPGATE_ESTEPTIME);
    cluster_clear(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_comes_to_a_job_that_has_lost_somebody_is_told_who),
        cmocka_unit_test(a_worker_that_leaves_before_the_commit_is_named),
        cmocka_unit_test(a_worker_that_leaves_while_others_commit_is_named),
        cmocka_unit_test(a_step_that_lasts_too_long_names_the_worker_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
