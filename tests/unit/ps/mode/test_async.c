/* SPDX-License-Identifier: BSD-3-Clause */
/* async: each contribution is a step of its own; bounded: nobody gets too far ahead of the slowest who is there. */
#include "tests/unit/ps/mode/play.h"

/* async -- T workers and a policy. */
static struct play async(int non_finite, uint32_t workers)
{
    struct mode_settings s = play_settings(MODEL_ASYNC, 1, workers);

    s.non_finite = non_finite;
    return play_start(s);
}

/* bounded -- T workers within this bound. */
static struct play bounded(uint32_t bound, uint32_t workers)
{
    struct mode_settings s = play_settings(MODEL_BOUNDED, 1, workers);

    s.bound = bound;
    return play_start(s);
}

static void each_contribution_is_a_step_and_is_told_its_staleness(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1) T0=2+1");
    says(applied(&p, 1), "");
    says(push(&p, 1, 0), "C2(1.0) T1=3+2~2");
    assert_false(mode_missing(p.mode, 0));
    counted(&p, 0, 2, 0, 0, 0);
    counted(&p, 1, 1, 0, 0, 0);
    play_stop(&p);
}

static void contributions_are_committed_one_after_the_other_in_order_of_completion(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 3);

    (void)state;
    says(push(&p, 1, 0), "C0(1.0) T1=1+0");
    says(push(&p, 2, 0), "");
    says(play_hand_in(&p, 0, 0, 2, true), "");
    says(applied(&p, 0), "C1(2.0) T2=2+1~1");
    says(applied(&p, 1), "C2(0.0*2) T0=3+2~2");
    play_stop(&p);
}

static void a_step_ahead_or_a_second_one_before_the_token_breaks_the_protocol(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 2);

    (void)state;
    refused(&p, 0, 0, 1);
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(push(&p, 0, 1), "");
    refused(&p, 0, 2, 1);
    says(applied(&p, 0), "C1(0.1) T0=2+1");
    play_stop(&p);
}

static void an_abandoned_one_is_released_and_the_step_stays(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 1);

    (void)state;
    says(abandon(&p, 0, 0), "R0.0 T0=0e0");
    assert_int_equal(mode_step(p.mode), 0);
    counted(&p, 0, 0, 0, 0, 1);
    play_stop(&p);
}

static void what_was_complete_before_its_worker_went_becomes_a_step(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(push(&p, 1, 0), "");
    says(gone(&p, 1), "");
    says(applied(&p, 0), "C1(1.0)");
    play_stop(&p);
}

static void propagate_applies_what_is_not_finite(void **state)
{
    struct play p = async(MODEL_PROPAGATE, 1);

    (void)state;
    says(push_nan(&p, 0, 0), "C0(0.0) T0=1+0");
    play_stop(&p);
}

static void drop_releases_it_and_the_step_stays(void **state)
{
    struct play p = async(MODEL_DROP, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(push_nan(&p, 1, 0), "R1.0 T1=1n0");
    counted(&p, 1, 0, 0, 1, 0);
    play_stop(&p);
}

static void what_was_for_nothing_is_known_since_the_last_step_and_ever(void **state)
{
    struct play p = async(MODEL_DROP, 2);

    (void)state;
    wasted(&p, 0, false, 0, 0, 0);
    assert_int_equal(mode_wasted_count(p.mode), 0);
    push_nan(&p, 0, 0);
    push_nan(&p, 0, 0);
    abandon(&p, 1, 0);
    wasted(&p, 0, false, 0, 2, 0);
    wasted(&p, 1, false, 0, 0, 1);
    assert_int_equal(mode_wasted_count(p.mode), 3);
    says(push(&p, 0, 0), "C0(0.2) T0=1+0");
    wasted(&p, 0, false, 0, 0, 0);
    assert_int_equal(mode_wasted_count(p.mode), 0);
    abandon(&p, 0, 1);
    wasted(&p, 0, false, 0, 0, 1);
    wasted(&p, 0, true, 0, 2, 1);
    wasted(&p, 2, true, 0, 0, 0);
    assert_int_equal(mode_wasted_count(p.mode), 1);
    says(applied(&p, 0), "");
    play_stop(&p);
}

static void fail_names_whose_it_is(void **state)
{
    struct play p = async(MODEL_FAIL, 2);

    (void)state;
    says(push_nan(&p, 1, 0), "Fnonfinite1@0");
    mode_delete(&p.mode);
}

static void skip_makes_an_empty_step_of_it(void **state)
{
    struct play p = async(MODEL_SKIP, 1);

    (void)state;
    says(push_nan(&p, 0, 0), "C0() T0=1k0");
    counted(&p, 0, 0, 0, 1, 0);
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1) T0=2+1");
    play_stop(&p);
}

static void bound_0_is_lockstep(void **state)
{
    struct play p = bounded(0, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0)");
    assert_true(mode_missing(p.mode, 1));
    assert_false(mode_missing(p.mode, 0));
    says(applied(&p, 0), "");
    says(push(&p, 1, 0), "C1(1.0) T0=2+0 T1=2+1~1");
    play_stop(&p);
}

static void a_token_is_held_while_its_worker_is_more_than_s_ahead(void **state)
{
    struct play p = bounded(1, 3);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1)");
    says(applied(&p, 1), "");
    says(push(&p, 1, 0), "C2(1.0) T1=3+2~2");
    says(applied(&p, 2), "");
    assert_true(mode_missing(p.mode, 2));
    assert_false(mode_missing(p.mode, 1));
    says(push(&p, 2, 0), "C3(2.0) T0=4+1 T2=4+3~3");
    play_stop(&p);
}

static void the_token_of_a_dropped_one_is_held_too(void **state)
{
    struct play p = bounded(0, 2);

    (void)state;
    says(abandon(&p, 0, 0), "R0.0");
    says(push(&p, 1, 0), "C0(1.0) T0=1e0 T1=1+0");
    play_stop(&p);
}

static void the_slowest_that_is_gone_holds_nobody(void **state)
{
    struct play p = bounded(0, 3);

    (void)state;
    says(push(&p, 1, 0), "C0(1.0)");
    says(applied(&p, 0), "");
    says(push(&p, 0, 0), "C1(0.0)");
    says(gone(&p, 2), "T1=2+0 T0=2+1~1");
    play_stop(&p);
}

static void one_that_is_gone_gets_no_held_token(void **state)
{
    struct play p = bounded(0, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0)");
    says(gone(&p, 0), "");
    says(applied(&p, 0), "");
    says(push(&p, 1, 0), "C1(1.0) T1=2+1~1");
    play_stop(&p);
}

static void who_waits_in_a_barrier_holds_nobody(void **state)
{
    struct play p = bounded(0, 3);

    (void)state;
    says(push(&p, 1, 0), "C0(1.0)");
    says(applied(&p, 0), "");
    says(push(&p, 0, 0), "C1(0.0)");
    says(rests(&p, 2), "T1=2+0 T0=2+1~1");
    says(applied(&p, 1), "");
    says(push(&p, 1, 2), "C2(1.1)");
    assert_false(mode_missing(p.mode, 2));
    says(applied(&p, 2), "");
    says(rests(&p, 0), "T1=3+2");
    assert_int_equal(mode_rest(p.mode, 3), -STEPGATE_EPROTOCOL);
    play_stop(&p);
}

static void who_hands_in_after_all_rests_no_more(void **state)
{
    struct play p = bounded(1, 2);

    (void)state;
    says(rests(&p, 1), "");
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1) T0=2+1");
    says(applied(&p, 1), "");
    says(push(&p, 0, 2), "C2(0.2) T0=3+2");
    says(applied(&p, 2), "");
    says(push(&p, 1, 0), "C3(1.0) T1=4+3~3");
    says(applied(&p, 3), "");
    /* 4 against 1 now. */
    says(push(&p, 0, 3), "C4(0.3)");
    says(applied(&p, 4), "");
    assert_true(mode_missing(p.mode, 1));
    says(rests(&p, 1), "T0=5+4~1");
    play_stop(&p);
}

static void after_a_barrier_nobody_is_ahead(void **state)
{
    struct play p = bounded(0, 2);

    (void)state;
    says(rests(&p, 1), "");
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1) T0=2+1");
    says(applied(&p, 1), "");
    says(rests(&p, 0), "");
    says(meet(&p), "");
    says(push(&p, 0, 2), "C2(0.2)");
    says(applied(&p, 2), "");
    says(push(&p, 1, 0), "C3(1.0) T0=4+2 T1=4+3~3");
    play_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_contribution_is_a_step_and_is_told_its_staleness),
        cmocka_unit_test(contributions_are_committed_one_after_the_other_in_order_of_completion),
        cmocka_unit_test(a_step_ahead_or_a_second_one_before_the_token_breaks_the_protocol),
        cmocka_unit_test(an_abandoned_one_is_released_and_the_step_stays),
        cmocka_unit_test(what_was_complete_before_its_worker_went_becomes_a_step),
        cmocka_unit_test(propagate_applies_what_is_not_finite),
        cmocka_unit_test(drop_releases_it_and_the_step_stays),
        cmocka_unit_test(what_was_for_nothing_is_known_since_the_last_step_and_ever),
        cmocka_unit_test(fail_names_whose_it_is),
        cmocka_unit_test(skip_makes_an_empty_step_of_it),
        cmocka_unit_test(bound_0_is_lockstep),
        cmocka_unit_test(a_token_is_held_while_its_worker_is_more_than_s_ahead),
        cmocka_unit_test(the_token_of_a_dropped_one_is_held_too),
        cmocka_unit_test(the_slowest_that_is_gone_holds_nobody),
        cmocka_unit_test(one_that_is_gone_gets_no_held_token),
        cmocka_unit_test(who_waits_in_a_barrier_holds_nobody),
        cmocka_unit_test(who_hands_in_after_all_rests_no_more),
        cmocka_unit_test(after_a_barrier_nobody_is_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
