/* SPDX-License-Identifier: BSD-3-Clause */
/* tf mode does what the reference does: the worked examples, and each rule. */
#include "tests/unit/ps/mode/play.h"

/* tf -- R of T with so many initial tokens. */
static struct play tf(uint32_t replicas, uint32_t workers, uint64_t initial_tokens)
{
    struct mode_settings s = play_settings(MODEL_TF, replicas, workers);

    s.initial_tokens = initial_tokens;
    return play_start(s);
}

/* tf_with -- R of T, no initial tokens, with a policy for what is not finite. */
static struct play tf_with(int non_finite, uint32_t replicas, uint32_t workers)
{
    struct mode_settings s = play_settings(MODEL_TF, replicas, workers);

    s.initial_tokens = 0;
    s.non_finite = non_finite;
    return play_start(s);
}

static void example_two_of_two_with_default_tokens_wastes_every_second_batch(void **state)
{
    struct play p = tf(2, 2, 2);

    (void)state;
    says(push(&p, 0, 0), "A0.0 T0=0+0");
    says(push(&p, 1, 0), "A1.0 C0#2 T1=0+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 0), "R0.1 T0=1s0");
    says(push(&p, 1, 0), "R1.1 T1=1s0");
    assert_int_equal(mode_step(p.mode), 1);
    says(push(&p, 0, 1), "A0.2");
    says(push(&p, 1, 1), "A1.2 C1#2 T0=2+1 T1=2+1");
    assert_int_equal(mode_step(p.mode), 2);
    counted(&p, 0, 2, 1, 0, 0);
    counted(&p, 1, 2, 1, 0, 0);
    play_stop(&p);
}

static void example_no_initial_tokens_give_lockstep(void **state)
{
    struct play p = tf(2, 2, 0);
    char expected[80];

    (void)state;
    for (int k = 0; k < 3; k++) {
        snprintf(expected, sizeof(expected), "A0.%d", k);
        says(push(&p, 0, (uint64_t)k), expected);
        assert_true(mode_missing(p.mode, 1));
        assert_false(mode_missing(p.mode, 0));
        snprintf(expected, sizeof(expected), "A1.%d C%d#2 T0=%d+%d T1=%d+%d", k, k, k + 1, k, k + 1, k);
        says(push(&p, 1, (uint64_t)k), expected);
        says(applied(&p, (uint64_t)k), "");
    }
    counted(&p, 0, 3, 0, 0, 0);
    counted(&p, 1, 3, 0, 0, 0);
    play_stop(&p);
}

static void example_one_worker_may_supply_both_contributions(void **state)
{
    struct play p = tf(2, 2, 2);

    (void)state;
    says(push(&p, 0, 0), "A0.0 T0=0+0");
    says(push(&p, 0, 0), "A0.1 C0#2 T0=0+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 0), "R0.2 T0=1s0");
    counted(&p, 0, 2, 1, 0, 0);
    play_stop(&p);
}

static void example_two_of_three_with_a_backup_worker(void **state)
{
    struct play p = tf(2, 3, 3);

    (void)state;
    says(push(&p, 0, 0), "A0.0 T0=0+0");
    says(push(&p, 2, 0), "A2.0 C0#2 T2=0+0");
    says(applied(&p, 0), "");
    says(push(&p, 1, 0), "R1.0 T1=0s0");
    says(push(&p, 0, 0), "R0.1 T0=1s0");
    says(push(&p, 1, 0), "R1.1 T1=1s0");
    says(push(&p, 2, 0), "R2.1 T2=1s0");
    says(push(&p, 0, 1), "A0.2");
    says(push(&p, 1, 1), "A1.2 C1#2 T0=2+1 T1=2+1");
    play_stop(&p);
}

static void example_four_of_two_take_two_batches_each(void **state)
{
    struct play p = tf(4, 2, 2);

    (void)state;
    for (int k = 0; k < 3; k++) {
        char expected[80];
        uint64_t step = (uint64_t)k;
        snprintf(expected, sizeof(expected), "A0.%d T0=%d+%d", 2 * k, k, k);
        says(push(&p, 0, step), expected);
        snprintf(expected, sizeof(expected), "A1.%d T1=%d+%d", 2 * k, k, k);
        says(push(&p, 1, step), expected);
        snprintf(expected, sizeof(expected), "A0.%d", 2 * k + 1);
        says(push(&p, 0, step), expected);
        snprintf(expected, sizeof(expected), "A1.%d C%d#4 T0=%d+%d T1=%d+%d", 2 * k + 1, k, k + 1, k, k + 1,
                 k);
        says(push(&p, 1, step), expected);
        says(applied(&p, step), "");
    }
    counted(&p, 0, 6, 0, 0, 0);
    counted(&p, 1, 6, 0, 0, 0);
    play_stop(&p);
}

static void example_too_few_initial_tokens_are_an_error(void **state)
{
    struct mode_settings s = play_settings(MODEL_TF, 4, 2);
    struct stepgate_error error = {.size = sizeof(error)};
    struct mode *mode = NULL;

    (void)state;
    s.initial_tokens = 1;
    assert_int_equal(mode_new(&s, &mode), -STEPGATE_EINVAL);
    assert_null(mode);
    stepgate_error_last(&error);
    assert_non_null(strstr(error.text, "at least 2 initial tokens"));
}

static void one_that_is_ahead_is_accepted(void **state)
{
    struct play p = tf(1, 1, 1);

    (void)state;
    says(push(&p, 0, 3), "A0.0 C0#1 T0=0+0");
    play_stop(&p);
}

static void while_a_step_is_applied_the_next_mean_may_grow_beyond_r(void **state)
{
    struct play p = tf(2, 4, 4);

    (void)state;
    says(push(&p, 0, 0), "A0.0 T0=0+0");
    says(push(&p, 1, 0), "A1.0 C0#2 T1=0+0");
    says(push(&p, 0, 0), "R0.1 T0=0s0");
    says(push(&p, 1, 0), "R1.1 T1=0s0");
    says(push(&p, 2, 0), "R2.0 T2=1s0");
    says(push(&p, 2, 1), "A2.1 T2=1+1");
    says(push(&p, 2, 1), "A2.2 T2=1+1");
    assert_false(mode_missing(p.mode, 0));
    says(push(&p, 2, 1), "A2.3 T2=1+1");
    says(applied(&p, 0), "C1#3");
    counted(&p, 2, 3, 1, 0, 0);
    play_stop(&p);
}

static void takers_are_served_first_come_first_served_with_the_oldest_token(void **state)
{
    struct play p = tf(3, 3, 1);

    (void)state;
    says(push(&p, 2, 0), "A2.0 T2=0+0");
    says(push(&p, 1, 0), "A1.0");
    says(push(&p, 2, 0), "A2.1 C0#3 T1=1+0 T2=1+0");
    says(push(&p, 0, 0), "R0.0 T0=1s0");
    play_stop(&p);
}

static void tokens_per_step_may_be_set(void **state)
{
    struct mode_settings s = play_settings(MODEL_TF, 1, 2);
    s.initial_tokens = 0;
    s.tokens_per_step = 1;
    struct play p = play_start(s);

    (void)state;
    says(push(&p, 0, 0), "A0.0 C0#1 T0=1+0");
    says(push(&p, 1, 0), "R1.0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "A0.1 C1#1 T1=2s0");
    s.tokens_per_step = 0;
    struct mode *mode = NULL;
    assert_int_equal(mode_new(&s, &mode), -STEPGATE_EINVAL);
    play_stop(&p);
}

static void a_worker_that_waits_for_a_token_hands_in_nothing(void **state)
{
    struct play p = tf(2, 2, 0);

    (void)state;
    says(push(&p, 0, 0), "A0.0");
    refused(&p, 0, 1, 0);
    play_stop(&p);
}

static void an_abandoned_one_is_not_accumulated_and_its_worker_takes_a_token(void **state)
{
    struct play p = tf(2, 3, 1);

    (void)state;
    says(abandon(&p, 0, 0), "R0.0 T0=0e0");
    says(abandon(&p, 0, 0), "R0.1");
    says(push(&p, 1, 0), "A1.0");
    says(push(&p, 2, 0), "A2.0 C0#2 T0=1e0 T1=1+0 T2=1+0");
    counted(&p, 0, 0, 0, 0, 2);
    play_stop(&p);
}

static void a_taker_that_is_gone_takes_no_token_and_what_it_gave_stays(void **state)
{
    struct play p = tf(2, 3, 0);

    (void)state;
    says(push(&p, 0, 0), "A0.0");
    says(gone(&p, 0), "");
    says(push(&p, 1, 0), "A1.0 C0#2 T1=1+0");
    says(push(&p, 2, 0), "R2.0 T2=1s0");
    says(push(&p, 1, 1), "A1.1 T1=1+1");
    says(push(&p, 1, 1), "A1.2");
    play_stop(&p);
}

static void old_tokens_of_a_dead_worker_are_taken_by_live_ones(void **state)
{
    struct play p = tf(1, 2, 2);

    (void)state;
    says(gone(&p, 1), "");
    says(push(&p, 0, 0), "A0.0 C0#1 T0=0+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 0), "R0.1 T0=0s0");
    says(push(&p, 0, 0), "R0.2 T0=1s0");
    play_stop(&p);
}

static void all_waiting_without_a_token_to_come_is_stuck(void **state)
{
    struct play p = tf(2, 2, 0);

    (void)state;
    says(push(&p, 0, 0), "A0.0");
    says(gone(&p, 1), "Fstuck1@0");
    says(push(&p, 0, 0), "");
    mode_delete(&p.mode);
    p = tf(2, 2, 0);
    says(push(&p, 0, 0), "A0.0");
    says(abandon(&p, 1, 0), "R1.0 Fstuck-@0");
    mode_delete(&p.mode);
}

static void waiting_for_a_step_to_be_applied_is_not_stuck(void **state)
{
    struct play p = tf(1, 1, 0);

    (void)state;
    says(push(&p, 0, 0), "A0.0 C0#1 T0=1+0");
    says(push(&p, 0, 1), "A0.1");
    says(applied(&p, 0), "C1#1 T0=2+1");
    says(gone(&p, 0), "");
    play_stop(&p);
}

static void propagate_accumulates_what_is_not_finite(void **state)
{
    struct play p = tf_with(MODEL_PROPAGATE, 1, 1);

    (void)state;
    says(push_nan(&p, 0, 0), "A0.0 C0#1 T0=1+0");
    counted(&p, 0, 1, 0, 0, 0);
    play_stop(&p);
}

static void drop_releases_what_is_not_finite(void **state)
{
    struct play p = tf_with(MODEL_DROP, 1, 2);

    (void)state;
    says(push_nan(&p, 0, 0), "R0.0");
    says(push(&p, 1, 0), "A1.0 C0#1 T0=1n0 T1=1+0");
    counted(&p, 0, 0, 0, 1, 0);
    play_stop(&p);
}

static void fail_names_whose_it_is_unless_it_is_stale(void **state)
{
    struct play p = tf_with(MODEL_FAIL, 1, 2);

    (void)state;
    says(push(&p, 0, 0), "A0.0 C0#1 T0=1+0");
    says(push_nan(&p, 1, 0), "R1.0 T1=1s0");
    says(push_nan(&p, 1, 1), "Fnonfinite1@1");
    mode_delete(&p.mode);
}

static void skip_takes_the_whole_round_as_nothing(void **state)
{
    struct play p = tf_with(MODEL_SKIP, 3, 3);

    (void)state;
    says(push(&p, 0, 0), "A0.0");
    says(push_nan(&p, 1, 0), "A1.0");
    says(push(&p, 2, 0), "A2.0 C0() T0=1k0 T1=1k0 T2=1k0");
    counted(&p, 0, 0, 0, 0, 0);
    counted(&p, 1, 0, 0, 1, 0);
    counted(&p, 2, 0, 0, 0, 0);
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "A0.1");
    says(push(&p, 1, 1), "A1.1");
    says(push(&p, 2, 1), "A2.1 C1#3 T0=2+1 T1=2+1 T2=2+1");
    counted(&p, 0, 1, 0, 0, 0);
    play_stop(&p);
}

static void a_job_goes_on_from_the_step_it_was_given(void **state)
{
    struct mode_settings s = play_settings(MODEL_TF, 1, 1);
    s.step = 7;
    struct play p = play_start(s);

    (void)state;
    says(push(&p, 0, 6), "R0.0 T0=7s6");
    says(push(&p, 0, 7), "A0.1 C7#1 T0=8+7");
    play_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_two_of_two_with_default_tokens_wastes_every_second_batch),
        cmocka_unit_test(example_no_initial_tokens_give_lockstep),
        cmocka_unit_test(example_one_worker_may_supply_both_contributions),
        cmocka_unit_test(example_two_of_three_with_a_backup_worker),
        cmocka_unit_test(example_four_of_two_take_two_batches_each),
        cmocka_unit_test(example_too_few_initial_tokens_are_an_error),
        cmocka_unit_test(one_that_is_ahead_is_accepted),
        cmocka_unit_test(while_a_step_is_applied_the_next_mean_may_grow_beyond_r),
        cmocka_unit_test(takers_are_served_first_come_first_served_with_the_oldest_token),
        cmocka_unit_test(tokens_per_step_may_be_set),
        cmocka_unit_test(a_worker_that_waits_for_a_token_hands_in_nothing),
        cmocka_unit_test(an_abandoned_one_is_not_accumulated_and_its_worker_takes_a_token),
        cmocka_unit_test(a_taker_that_is_gone_takes_no_token_and_what_it_gave_stays),
        cmocka_unit_test(old_tokens_of_a_dead_worker_are_taken_by_live_ones),
        cmocka_unit_test(all_waiting_without_a_token_to_come_is_stuck),
        cmocka_unit_test(waiting_for_a_step_to_be_applied_is_not_stuck),
        cmocka_unit_test(propagate_accumulates_what_is_not_finite),
        cmocka_unit_test(drop_releases_what_is_not_finite),
        cmocka_unit_test(fail_names_whose_it_is_unless_it_is_stale),
        cmocka_unit_test(skip_takes_the_whole_round_as_nothing),
        cmocka_unit_test(a_job_goes_on_from_the_step_it_was_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
