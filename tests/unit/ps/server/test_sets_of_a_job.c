/* SPDX-License-Identifier: BSD-3-Clause */
/* A job is recorded and replayed only as what it is: another one, another mode and steps behind the end of the record end it with the reason. */
#include "tests/unit/worker/api/cluster.h"

static char path[] = "/tmp/stepgate-job-sets-XXXXXX";

/* job_up -- a ps that records or replays, and two workers with a model that is ready to be committed. */
static void job_up(struct cluster *c, const char *knob, const char *update, const char *replicas)
{
    const char *const knobs[] = {knob, path, NULL};

    cluster_serve(c, 2, knobs);
    cluster_join(c, NULL);
    for (int w = 0; w < 2; w++) {
        must(stepgate_model_new(c->job[w], "m", &c->model[w]));
        must(stepgate_model_set(c->model[w], "learning_rate", "1"));
        must(stepgate_model_set(c->model[w], "update", update));
        if (replicas != NULL)
            must(stepgate_model_set(c->model[w], "replicas_to_aggregate", replicas));
    }
    cluster_variable(c, "v", 3);
}

/* job_steps -- of both workers. */
static void job_steps(struct cluster *c, int steps)
{
    for (int k = 0; k < steps; k++) {
        cluster_begin(c);
        for (int w = 0; w < 2; w++)
            cluster_push(c, w, 0, 1);
        cluster_finish(c);
    }
    for (int w = 0; w < 2; w++)
        must(stepgate_step_begin(c->model[w], CLUSTER_MS, NULL));
}

/* job_recorded -- two steps with R = T. */
static void job_recorded(void)
{
    struct cluster c;

    job_up(&c, "record_sets", "strict", NULL);
    cluster_commit(&c);
    job_steps(&c, 2);
    cluster_down(&c);
}

static void a_job_with_everybody_in_each_step_is_recorded_and_replayed(void **state)
{
    struct cluster c;

    (void)state;
    job_recorded();
    job_up(&c, "replay_sets", "strict", NULL);
    cluster_commit(&c);
    job_steps(&c, 2);
    cluster_down(&c);
}

static void a_step_behind_the_end_of_the_record_ends_the_job(void **state)
{
    struct cluster c;

    (void)state;
    job_recorded();
    job_up(&c, "replay_sets", "strict", NULL);
    cluster_commit(&c);
    job_steps(&c, 2);
    for (int w = 0; w < 2; w++)
        must(stepgate_step_pull(c.model[w], STEPGATE_ALL, CLUSTER_MS, NULL));
    for (int w = 0; w < 2; w++)
        cluster_push(&c, w, 0, 1);
    cluster_finish(&c);
    refused(STEPGATE_EINVAL, "ends with step 1, and the job takes step 2",
            stepgate_step_begin(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

static void a_job_with_another_number_of_replicas_is_not_replayed(void **state)
{
    struct cluster c;

    (void)state;
    job_recorded();
    job_up(&c, "replay_sets", "strict", "1");
    assert_int_equal(cluster_each(&c, cluster_try_commit), -STEPGATE_EINVAL);
    refused(STEPGATE_EINVAL, "replicas_to_aggregate 2, it is 1 now",
            stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
    cluster_clear(&c);
}

static void other_modes_are_neither_recorded_nor_replayed(void **state)
{
    static const char *const knobs[] = {"record_sets", "replay_sets"}, *const modes[] = {"tf", "async"};

    (void)state;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 2; k++) {
            struct cluster c;
            job_recorded();
            job_up(&c, knobs[k], modes[m], NULL);
            assert_int_equal(cluster_each(&c, cluster_try_commit), -STEPGATE_EINVAL);
            refused(STEPGATE_EINVAL, "sets are recorded in strict mode only",
                    stepgate_model_commit(c.model[0], CLUSTER_MS, NULL));
            cluster_clear(&c);
        }
}

int main(void)
{
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_everybody_in_each_step_is_recorded_and_replayed),
        cmocka_unit_test(a_step_behind_the_end_of_the_record_ends_the_job),
        cmocka_unit_test(a_job_with_another_number_of_replicas_is_not_replayed),
        cmocka_unit_test(other_modes_are_neither_recorded_nor_replayed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
