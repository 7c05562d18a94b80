/* SPDX-License-Identifier: BSD-3-Clause */
/* How many contributions, tokens and slots make a step, for every mode and number of workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/model.h"
#include "transport/base/error.h"

/* replica_model -- a checked model; 0 replicas: not said. */
static struct model *replica_model(const char *update, uint32_t replicas)
{
    struct model *model;
    char text[16];

    snprintf(text, sizeof(text), "%u", replicas);
    assert_int_equal(model_new("m", &model), 0);
    assert_int_equal(model_set(model, "update", update), 0);
    assert_int_equal(model_set(model, "replicas_to_aggregate", text), 0);
    if (strcmp(update, "bounded") == 0)
        assert_int_equal(model_set(model, "bound", "2"), 0);
    assert_int_equal(model_check_keys(model), 0);
    return model;
}

/* replica_refused -- by the check of workers, with these words; deletes the model. */
static void replica_refused(struct model *model, uint32_t workers, const char *words)
{
    struct stepgate_error error;

    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model_check_workers(model, workers), -STEPGATE_EINVAL);
    error_save(&error);
    assert_non_null(strstr(error.text, words));
    model_delete(&model);
}

static void quotas_add_up_to_the_replicas_and_differ_by_one_at_most(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 9; workers++)
        for (uint32_t replicas = 1; replicas <= 32; replicas++) {
            struct model *model = replica_model("strict", replicas);
            uint32_t sum = 0, most = 0;
            for (uint32_t rank = 0; rank < workers; rank++) {
                uint32_t quota = model_quota(model, workers, rank);
                assert_true(rank == 0 || quota <= model_quota(model, workers, rank - 1));
                assert_true(quota + 1 >= model_quota(model, workers, 0));
                most = quota > most ? quota : most;
                sum += quota;
            }
            assert_int_equal(sum, replicas > workers ? replicas : workers);
            assert_int_equal(model_slot_depth(model, workers), most);
            assert_int_equal(model_lockstep(model, workers), replicas >= workers);
            assert_int_equal(model_replicas(model, workers), replicas);
            assert_int_equal(model_initial_tokens(model, workers), sum - workers);
            assert_int_equal(model_tokens_per_step(model, workers), sum);
            assert_int_equal(model_check_workers(model, workers), 0);
            model_delete(&model);
        }
}

static void everybody_is_in_every_step_where_nothing_is_said(void **state)
{
    (void)state;
    struct model *model = replica_model("strict", 0);
    assert_int_equal(model_replicas(model, 5), 5);
    assert_true(model_lockstep(model, 5));
    assert_int_equal(model_slot_depth(model, 5), 1);
    assert_int_equal(model_quota(model, 5, 4), 1);
    assert_int_equal(model_initial_tokens(model, 5), 0);
    model_delete(&model);
}

static void the_reference_hands_out_as_many_tokens_as_it_does(void **state)
{
    (void)state;
    struct model *model = replica_model("tf", 0);
    assert_int_equal(model_replicas(model, 3), 3);
    assert_int_equal(model_tokens_per_step(model, 3), 3);
    assert_int_equal(model_initial_tokens(model, 3), 3);
    assert_int_equal(model_slot_depth(model, 3), 2);
    assert_int_equal(model_quota(model, 3, 0), 1);
    assert_false(model_lockstep(model, 3));
    assert_int_equal(model_set(model, "replicas_to_aggregate", "2"), 0);
    assert_int_equal(model_tokens_per_step(model, 3), 3);
    assert_int_equal(model_initial_tokens(model, 3), 2);
    assert_int_equal(model_set(model, "replicas_to_aggregate", "7"), 0);
    assert_int_equal(model_tokens_per_step(model, 3), 7);
    assert_int_equal(model_set(model, "tokens_per_step", "9"), 0);
    assert_int_equal(model_set(model, "initial_tokens", "4"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model_tokens_per_step(model, 3), 9);
    assert_int_equal(model_initial_tokens(model, 3), 4);
    assert_int_equal(model_check_workers(model, 3), 0);
    model_delete(&model);
}

static void alone_means_one_contribution_at_a_time(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct model *model = replica_model(i == 0 ? "async" : "bounded", 0);
        assert_int_equal(model_replicas(model, 4), 1);
        assert_int_equal(model_tokens_per_step(model, 4), 1);
        assert_int_equal(model_initial_tokens(model, 4), 0);
        assert_int_equal(model_slot_depth(model, 4), 2);
        assert_int_equal(model_quota(model, 4, 3), 1);
        assert_false(model_lockstep(model, 4));
        assert_false(model_lockstep(model, 1));
        assert_int_equal(model_check_workers(model, 4), 0);
        model_delete(&model);
    }
}

static void too_few_initial_tokens_are_refused_with_the_number_needed(void **state)
{
    (void)state;
    struct model *model = replica_model("tf", 4);
    assert_int_equal(model_set(model, "initial_tokens", "2"), 0);
    assert_int_equal(model_check_workers(model, 2), 0);
    assert_int_equal(model_set(model, "initial_tokens", "1"), 0);
    replica_refused(model, 2, "at least 2 initial tokens are needed");
    model = replica_model("tf", 2);
    assert_int_equal(model_set(model, "initial_tokens", "0"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model_check_workers(model, 2), 0);
    model_delete(&model);
}

static void too_few_tokens_per_step_are_refused(void **state)
{
    (void)state;
    struct model *model = replica_model("tf", 4);
    assert_int_equal(model_set(model, "tokens_per_step", "3"), 0);
    replica_refused(model, 2, "at least 4 tokens per step");
}

static void more_than_32_contributions_of_each_worker_are_refused_in_strict_mode_alone(void **state)
{
    (void)state;
    struct model *model = replica_model("strict", 64);
    assert_int_equal(model_check_workers(model, 2), 0);
    model_delete(&model);
    replica_refused(replica_model("strict", 65), 2, "replicas_to_aggregate 65");
    model = replica_model("tf", 65);
    assert_int_equal(model_check_workers(model, 2), 0);
    model_delete(&model);
}

static void another_number_of_workers_than_was_stated_is_refused(void **state)
{
    (void)state;
    struct model *model = replica_model("strict", 0);
    assert_int_equal(model_set(model, "total_num_replicas", "3"), 0);
    assert_int_equal(model_check_keys(model), 0);
    assert_int_equal(model_check_workers(model, 3), 0);
    replica_refused(model, 2, "total_num_replicas is 3, but the job has 2 workers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_add_up_to_the_replicas_and_differ_by_one_at_most),
        cmocka_unit_test(everybody_is_in_every_step_where_nothing_is_said),
        cmocka_unit_test(the_reference_hands_out_as_many_tokens_as_it_does),
        cmocka_unit_test(alone_means_one_contribution_at_a_time),
        cmocka_unit_test(too_few_initial_tokens_are_refused_with_the_number_needed),
        cmocka_unit_test(too_few_tokens_per_step_are_refused),
        cmocka_unit_test(more_than_32_contributions_of_each_worker_are_refused_in_strict_mode_alone),
        cmocka_unit_test(another_number_of_workers_than_was_stated_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
