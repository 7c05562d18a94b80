/* SPDX-License-Identifier: BSD-3-Clause */
/* What a worker's part of a step counts for: weights, absent gradients, abandoned steps. */
#include "tests/unit/worker/api/cluster.h"

static void uneven_weights_give_the_weighted_mean(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 3);
    cluster_variable(&c, "v", 5);
    cluster_commit(&c);
    cluster_begin(&c);
    for (int w = 0; w < 3; w++) {
        cluster_push(&c, w, 0, (float)(w + 1));
        must(stepgate_step_finish(c.model[w], w == 0 ? 0.5 : w == 1 ? 2 : 3));
    }
    cluster_begin(&c);
    float sum = 0.5f * 1.0f; /* in order of rank */
    sum += 2.0f * 2.0f;
    sum += 3.0f * 3.0f;
    for (int w = 0; w < 3; w++)
        assert_float_equal(cluster_value(&c, w, 0, 4), -(sum / 5.5f), 0);
    cluster_down(&c);
}

static void an_absent_gradient_counts_as_zeros(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 9);
    cluster_commit(&c);
    for (int step = 0; step < 2; step++) { /* what was pushed before is not taken again */
        cluster_begin(&c);
        cluster_push(&c, 0, 0, 6);
        if (step == 0)
            cluster_push(&c, 1, 0, 4);
        else
            must(stepgate_step_absent(c.model[1], 0));
        cluster_finish(&c);
    }
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 1, 0, 8), -5.0f - 3.0f, 0);
    cluster_down(&c);
}

static void an_abandoned_contribution_counts_for_nothing(void **state)
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "a", 9);
    cluster_variable(&c, "b", 9);
    cluster_commit(&c);
    cluster_begin(&c);
    cluster_push(&c, 0, 0, 6);
    cluster_push(&c, 0, 1, 7);
    must(stepgate_step_finish(c.model[0], 1));
    cluster_push(&c, 1, 1, 100); /* part of it is out already */
    must(stepgate_step_abandon(c.model[1]));
    must(stepgate_step_begin(c.model[1], CLUSTER_MS, &info));
    assert_int_equal(info.step, 1);
    assert_int_equal(info.verdict, STEPGATE_VERDICT_EMPTY);
    assert_int_equal(info.verdict_step, 0);
    must(stepgate_step_begin(c.model[0], CLUSTER_MS, &info));
    assert_int_equal(info.verdict, STEPGATE_VERDICT_APPLIED);
    for (int w = 0; w < 2; w++) {
        must(stepgate_step_pull(c.model[w], STEPGATE_ALL, CLUSTER_MS, NULL));
        assert_float_equal(cluster_value(&c, w, 0, 0), -6, 0);
        assert_float_equal(cluster_value(&c, w, 1, 0), -7, 0);
        cluster_push(&c, w, 0, 1);
        cluster_push(&c, w, 1, 1);
    }
    cluster_finish(&c); /* and the next step counts again */
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 1, 1, 8), -8, 0);
    cluster_down(&c);
}

static void a_step_that_everybody_abandons_changes_nothing(void **state)
{
    struct cluster c;

    (void)state;
    cluster_up(&c, 2);
    cluster_variable(&c, "v", 3);
    for (int w = 0; w < 2; w++) {
        must(stepgate_model_set(c.model[w], "optimizer", "momentum"));
        must(stepgate_model_set(c.model[w], "momentum", "0.5"));
    }
    cluster_commit(&c);
    for (int step = 0; step < 3; step++) {
        cluster_begin(&c);
        for (int w = 0; w < 2; w++) {
            if (step != 1)
                cluster_push(&c, w, 0, 1);
            must(stepgate_step_finish(c.model[w], step != 1));
        }
    }
    cluster_begin(&c);
    assert_float_equal(cluster_value(&c, 0, 0, 2), -1.0f - 1.5f, 0); /* the accumulator rested as well */
    cluster_down(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_weights_give_the_weighted_mean),
        cmocka_unit_test(an_absent_gradient_counts_as_zeros),
        cmocka_unit_test(an_abandoned_contribution_counts_for_nothing),
        cmocka_unit_test(a_step_that_everybody_abandons_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
