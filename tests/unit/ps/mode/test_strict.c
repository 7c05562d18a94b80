/* SPDX-License-Identifier: BSD-3-Clause */
/* Strict mode decides once for everybody, takes exactly R of distinct workers, tells every worker, and hangs nobody. */
#include "tests/unit/ps/mode/play.h"
#include "transport/base/random.h"

#define JOBS 500
#define EVENTS 200

/* strict -- R of T. */
static struct play strict(uint32_t replicas, uint32_t workers)
{
    return play_start(play_settings(MODEL_STRICT, replicas, workers));
}

/* strict_with -- R of T with a policy for what is not finite. */
static struct play strict_with(int non_finite, uint32_t replicas, uint32_t workers)
{
    struct mode_settings s = play_settings(MODEL_STRICT, replicas, workers);

    s.non_finite = non_finite;
    return play_start(s);
}

static void example_two_of_two_in_lockstep_accepts_all_and_waits_for_both(void **state)
{
    struct play p = strict(2, 2);
    char expected[80];

    (void)state;
    for (int k = 0; k < 3; k++) {
        says(push(&p, 0, (uint64_t)k), "");
        assert_true(mode_missing(p.mode, 1));
        assert_false(mode_missing(p.mode, 0));
        snprintf(expected, sizeof(expected), "C%d(0.%d 1.%d) T0=%d+%d T1=%d+%d", k, k, k, k + 1, k, k + 1, k);
        says(push(&p, 1, (uint64_t)k), expected);
        assert_int_equal(mode_step(p.mode), k + 1);
        says(applied(&p, (uint64_t)k), "");
    }
    counted(&p, 0, 3, 0, 0, 0);
    counted(&p, 1, 3, 0, 0, 0);
    play_stop(&p);
}

static void a_step_takes_the_first_r_and_tells_the_last_that_it_is_stale(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(push(&p, 2, 0), "");
    says(push(&p, 0, 0), "C0(0.0 2.0) T0=1+0 T2=1+0");
    says(push(&p, 1, 0), "T1=1s0");
    counted(&p, 1, 0, 1, 0, 0);
    says(applied(&p, 0), "");
    says(push(&p, 1, 1), "");
    says(push(&p, 2, 1), "C1(1.1 2.1) T1=2+1 T2=2+1");
    play_stop(&p);
}

static void a_late_one_of_several_steps_ago_is_stale_and_gets_the_current_step(void **state)
{
    struct play p = strict(1, 2);

    (void)state;
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "C1(0.1) T0=2+1");
    says(push(&p, 1, 0), "T1=2s0");
    says(applied(&p, 1), "");
    says(push(&p, 1, 2), "C2(1.1) T1=3+2");
    play_stop(&p);
}

static void only_distinct_workers_count(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(push(&p, 0, 0), "");
    refused(&p, 0, 1, 0);
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    play_stop(&p);
}

static void a_commit_waits_until_the_step_before_is_applied(void **state)
{
    struct play p = strict(2, 2);

    (void)state;
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    says(push(&p, 1, 1), "");
    says(push(&p, 0, 1), "");
    assert_int_equal(mode_step(p.mode), 1);
    assert_false(mode_missing(p.mode, 0));
    says(applied(&p, 0), "C1(0.1 1.1) T0=2+1 T1=2+1");
    play_stop(&p);
}

static void while_a_commit_waits_later_ones_do_not_enter_its_set(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    says(push(&p, 2, 0), "T2=1s0");
    says(push(&p, 2, 1), "");
    says(push(&p, 1, 1), "");
    says(push(&p, 0, 1), "");
    says(applied(&p, 0), "C1(1.1 2.1) T0=2s1 T1=2+1 T2=2+1");
    counted(&p, 0, 1, 1, 0, 0);
    counted(&p, 1, 2, 0, 0, 0);
    play_stop(&p);
}

static void the_set_is_by_rank_whatever_the_order_of_arrival(void **state)
{
    struct play p = strict(3, 3);

    (void)state;
    says(play_hand_in(&p, 2, 0, 0.5, true), "");
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0 2.0*0.5) T0=1+0 T1=1+0 T2=1+0");
    play_stop(&p);
}

static void an_abandoned_one_does_not_count_and_does_not_hang_the_others(void **state)
{
    struct play p = strict(2, 2);

    (void)state;
    says(abandon(&p, 1, 0), "");
    says(push(&p, 0, 0), "C0(0.0) T0=1+0 T1=1e0");
    counted(&p, 1, 0, 0, 0, 1);
    says(applied(&p, 0), "");
    says(abandon(&p, 1, 1), "");
    says(abandon(&p, 0, 1), "C1() T0=2e1 T1=2e1");
    play_stop(&p);
}

static void with_a_spare_worker_an_abandoned_one_is_replaced(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(abandon(&p, 0, 0), "");
    says(push(&p, 1, 0), "");
    assert_true(mode_missing(p.mode, 2));
    says(push(&p, 2, 0), "C0(1.0 2.0) T0=1e0 T1=1+0 T2=1+0");
    says(applied(&p, 0), "");
    says(abandon(&p, 0, 1), "");
    says(abandon(&p, 1, 1), "");
    says(push(&p, 2, 1), "C1(2.1) T0=2e1 T1=2e1 T2=2+1");
    play_stop(&p);
}

static void a_step_ahead_a_wrong_sequence_or_an_unknown_rank_breaks_the_protocol(void **state)
{
    struct play p = strict(2, 2);
    struct mode_contribution c = {.rank = 0, .weight = -1, .finite = true};

    (void)state;
    refused(&p, 0, 0, 1);
    refused(&p, 0, 1, 0);
    refused(&p, 2, 0, 0);
    assert_int_equal(mode_contribute(p.mode, &c), -STEPGATE_EPROTOCOL);
    assert_int_equal(mode_gone(p.mode, 2, false), -STEPGATE_EPROTOCOL);
    assert_int_equal(mode_applied(p.mode, 0), -STEPGATE_EPROTOCOL);
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    assert_int_equal(mode_applied(p.mode, 1), -STEPGATE_EPROTOCOL);
    says(applied(&p, 0), "");
    assert_int_equal(mode_applied(p.mode, 0), -STEPGATE_EPROTOCOL);
    play_stop(&p);
}

static void more_replicas_than_workers_need_the_quota_of_every_rank(void **state)
{
    struct play p = strict(5, 2);

    (void)state;
    says(push(&p, 0, 0), "");
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "");
    says(push(&p, 0, 0), "");
    assert_false(mode_missing(p.mode, 0));
    assert_true(mode_missing(p.mode, 1));
    refused(&p, 0, 3, 0);
    says(push(&p, 1, 0), "C0(0.0 0.1 0.2 1.0 1.1) T0=1+0 T1=1+0");
    counted(&p, 0, 3, 0, 0, 0);
    counted(&p, 1, 2, 0, 0, 0);
    refused(&p, 1, 2, 0);
    says(push(&p, 1, 1), "");
    says(push(&p, 1, 1), "");
    says(push(&p, 0, 1), "");
    says(push(&p, 0, 1), "");
    says(push(&p, 0, 1), "");
    says(applied(&p, 0), "C1(0.3 0.4 0.5 1.2 1.3) T0=2+1 T1=2+1");
    play_stop(&p);
}

static void abandoned_parts_of_a_quota_count_for_nothing_and_fill_it(void **state)
{
    struct play p = strict(4, 2);

    (void)state;
    says(push(&p, 0, 0), "");
    says(abandon(&p, 0, 0), "");
    says(abandon(&p, 1, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.1) T0=1e0 T1=1+0");
    counted(&p, 0, 1, 0, 0, 1);
    counted(&p, 1, 1, 0, 0, 1);
    play_stop(&p);
}

static void one_that_is_gone_is_not_waited_for_while_r_are_there(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(gone(&p, 1), "");
    assert_false(mode_missing(p.mode, 1));
    says(push(&p, 2, 0), "");
    says(push(&p, 0, 0), "C0(0.0 2.0) T0=1+0 T2=1+0");
    says(applied(&p, 0), "");
    says(abandon(&p, 0, 1), "");
    says(push(&p, 2, 1), "C1(2.1) T0=2e1 T2=2+1");
    play_stop(&p);
}

static void fewer_than_r_fail_as_soon_as_somebody_waits(void **state)
{
    struct play p = strict(2, 3);

    (void)state;
    says(gone(&p, 2), "");
    says(gone(&p, 1), "");
    says(push(&p, 0, 0), "Fgone1@0");
    says(push(&p, 0, 0), "");
    says(gone(&p, 0), "");
    mode_delete(&p.mode);
    p = strict(2, 2);
    says(push(&p, 0, 0), "");
    says(gone(&p, 1), "Fgone1@0");
    mode_delete(&p.mode);
}

static void nobody_waits_when_all_leave_after_their_last_step(void **state)
{
    struct play p = strict(2, 2);

    (void)state;
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    says(gone(&p, 0), "");
    says(applied(&p, 0), "");
    says(gone(&p, 1), "");
    play_stop(&p);
}

static void what_was_complete_before_its_worker_went_counts(void **state)
{
    struct play p = strict(2, 2);

    (void)state;
    says(push(&p, 1, 0), "");
    says(gone(&p, 1), "");
    says(push(&p, 0, 0), "C0(0.0 1.0) T0=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "Fgone1@1");
    mode_delete(&p.mode);
}

static void what_comes_of_a_worker_that_is_gone_is_ignored(void **state)
{
    struct play p = strict(1, 2);

    (void)state;
    says(gone(&p, 1), "");
    says(push(&p, 1, 0), "");
    counted(&p, 1, 0, 0, 0, 0);
    says(push(&p, 0, 0), "C0(0.0) T0=1+0");
    play_stop(&p);
}

static void a_worker_that_goes_leaves_the_step_to_those_who_abandoned(void **state)
{
    struct play p = strict(1, 2);

    (void)state;
    says(abandon(&p, 0, 0), "");
    says(gone(&p, 1), "C0() T0=1e0");
    play_stop(&p);
}

static void a_missing_quota_of_one_that_is_gone_fails(void **state)
{
    struct play p = strict(4, 2);

    (void)state;
    says(push(&p, 1, 0), "");
    says(gone(&p, 1), "");
    says(push(&p, 0, 0), "Fgone1@0");
    mode_delete(&p.mode);
    p = strict(4, 2);
    says(push(&p, 1, 0), "");
    says(push(&p, 1, 0), "");
    says(gone(&p, 1), "");
    says(push(&p, 0, 0), "");
    says(push(&p, 0, 0), "C0(0.0 0.1 1.0 1.1) T0=1+0");
    play_stop(&p);
}

static void propagate_does_not_look_at_it(void **state)
{
    struct play p = strict_with(MODEL_PROPAGATE, 2, 2);

    (void)state;
    says(push_nan(&p, 0, 0), "");
    says(push(&p, 1, 0), "C0(0.0 1.0) T0=1+0 T1=1+0");
    counted(&p, 0, 1, 0, 0, 0);
    play_stop(&p);
}

static void drop_leaves_it_out_and_tells(void **state)
{
    struct play p = strict_with(MODEL_DROP, 2, 3);

    (void)state;
    says(push_nan(&p, 0, 0), "");
    says(push(&p, 1, 0), "");
    says(push(&p, 2, 0), "C0(1.0 2.0) T0=1n0 T1=1+0 T2=1+0");
    counted(&p, 0, 0, 0, 1, 0);
    says(applied(&p, 0), "");
    says(push_nan(&p, 0, 1), "");
    says(push_nan(&p, 1, 1), "");
    says(push_nan(&p, 2, 1), "C1() T0=2n1 T1=2n1 T2=2n1");
    play_stop(&p);
}

static void fail_names_whose_it_is(void **state)
{
    struct play p = strict_with(MODEL_FAIL, 2, 2);

    (void)state;
    says(push_nan(&p, 1, 0), "Fnonfinite1@0");
    says(push(&p, 0, 0), "");
    mode_delete(&p.mode);
}

static void skip_makes_nobody_apply_and_tells_everybody(void **state)
{
    struct play p = strict_with(MODEL_SKIP, 2, 3);

    (void)state;
    says(push_nan(&p, 1, 0), "");
    says(push(&p, 0, 0), "C0() T0=1k0 T1=1k0");
    says(push(&p, 2, 0), "T2=1s0");
    counted(&p, 0, 0, 0, 0, 0);
    counted(&p, 1, 0, 0, 1, 0);
    says(push(&p, 0, 1), "");
    says(push_nan(&p, 1, 1), "");
    says(push(&p, 2, 1), "");
    says(applied(&p, 0), "C1() T0=2k1 T1=2k1 T2=2k1");
    counted(&p, 2, 0, 1, 0, 0);
    says(applied(&p, 1), "");
    says(push(&p, 0, 2), "");
    says(push(&p, 2, 2), "C2(0.2 2.2) T0=3+2 T2=3+2");
    says(push_nan(&p, 1, 2), "T1=3s2");
    counted(&p, 1, 0, 1, 2, 0);
    play_stop(&p);
}

static void an_abandoned_one_is_not_looked_at(void **state)
{
    struct play p = strict_with(MODEL_FAIL, 2, 2);

    (void)state;
    says(play_hand_in(&p, 0, 0, 0, false), "");
    says(push(&p, 1, 0), "C0(1.0) T0=1e0 T1=1+0");
    play_stop(&p);
}

/* replay_sets -- step 0 took 1 and 2, step 1 took nobody, step 2 is not recorded. */
static bool replay_sets(void *context, uint64_t step, const uint32_t **ranks, uint32_t *count)
{
    static uint32_t first[2];

    first[0] = 1;
    first[1] = *(uint32_t *)context;
    *ranks = first;
    *count = step == 0 ? 2 : 0;
    return step < 2;
}

static void a_replayed_step_takes_exactly_the_recorded_ranks(void **state)
{
    uint32_t second = 2;
    struct mode_settings s = play_settings(MODEL_STRICT, 2, 3);
    s.replay = replay_sets;
    s.replay_context = &second;
    struct play p = play_start(s);

    (void)state;
    says(push(&p, 0, 0), "");
    says(push(&p, 1, 0), "");
    assert_true(mode_missing(p.mode, 2));
    says(push(&p, 2, 0), "C0(1.0 2.0) T0=1s0 T1=1+0 T2=1+0");
    says(applied(&p, 0), "");
    says(push(&p, 0, 1), "");
    says(push(&p, 1, 1), "");
    says(abandon(&p, 2, 1), "C1() T0=2s1 T1=2s1 T2=2e1");
    says(applied(&p, 1), "");
    says(push(&p, 0, 2), "");
    says(push(&p, 1, 2), "C2(0.2 1.2) T0=3+2 T1=3+2");
    play_stop(&p);
}

static void a_recorded_rank_that_is_gone_fails_the_replay(void **state)
{
    uint32_t second = 2;
    struct mode_settings s = play_settings(MODEL_STRICT, 2, 3);
    s.replay = replay_sets;
    s.replay_context = &second;
    struct play p = play_start(s);

    (void)state;
    says(gone(&p, 2), "");
    says(push(&p, 0, 0), "Fgone2@0");
    mode_delete(&p.mode);
}

static void sets_of_another_job_are_refused(void **state)
{
    uint32_t second = 3;
    struct mode_settings s = play_settings(MODEL_STRICT, 2, 3);
    s.replay = replay_sets;
    s.replay_context = &second;
    struct play p = play_start(s);

    (void)state;
    refused(&p, 0, 0, 0);
    second = 1;
    refused(&p, 0, 0, 0);
    play_stop(&p);
}

static void a_job_goes_on_from_the_step_it_was_given(void **state)
{
    struct mode_settings s = play_settings(MODEL_STRICT, 2, 2);
    s.step = 7;
    struct play p = play_start(s);

    (void)state;
    assert_int_equal(mode_step(p.mode), 7);
    says(push(&p, 0, 7), "");
    says(push(&p, 1, 7), "C7(0.0 1.0) T0=8+7 T1=8+7");
    play_stop(&p);
}

/* A job of workers that push whenever they may, and of commits that are applied at any time. */
struct random_job {
    struct play play;
    struct random_source random;
    uint32_t replicas, workers, owes[PLAY_WORKERS]; /* contributions until a worker must wait for its token */
    uint64_t at[PLAY_WORKERS];                      /* local steps */
    uint64_t steps;
    bool applying;
};

/* random_quota -- contributions of a worker to each step. */
static uint32_t random_quota(const struct random_job *job, uint32_t rank)
{
    return job->replicas > job->workers ? job->replicas / job->workers + (rank < job->replicas % job->workers)
                                        : 1;
}

/* random_decisions -- a commit has exactly R, of distinct contributions in order; a token is for somebody who waits. */
static void random_decisions(struct random_job *job)
{
    struct mode_decision d;

    while (mode_decide(job->play.mode, &d) == 1) {
        if (d.kind == MODE_COMMIT) {
            assert_false(job->applying);
            assert_int_equal(d.step, job->steps++);
            assert_int_equal(d.count, job->replicas);
            for (uint32_t i = 1; i < d.count; i++)
                assert_true(d.set[i].rank > d.set[i - 1].rank ||
                            (job->replicas > job->workers && d.set[i].rank == d.set[i - 1].rank &&
                             d.set[i].sequence == d.set[i - 1].sequence + 1));
            job->applying = true;
            continue;
        }
        assert_int_equal(d.kind, MODE_TOKEN);
        assert_int_equal(job->owes[d.rank], 0);
        assert_int_equal(d.step, job->steps);
        assert_int_equal(d.verdict_step, job->at[d.rank]);
        job->owes[d.rank] = random_quota(job, d.rank);
        job->at[d.rank] = d.step;
    }
}

/* random_event -- a push, or a step that is applied; one of both is always possible. */
static void random_event(struct random_job *job)
{
    uint32_t rank = (uint32_t)random_below(&job->random, job->workers), tried = 0;

    while (tried++ < job->workers && job->owes[rank] == 0)
        rank = (rank + 1) % job->workers;
    if (job->applying && (job->owes[rank] == 0 || random_chance(&job->random, 300))) {
        job->applying = false;
        assert_int_equal(mode_applied(job->play.mode, job->steps - 1), 0);
    } else {
        assert_true(job->owes[rank] > 0);
        job->owes[rank]--;
        const struct mode_contribution c = {.rank = rank,
                                            .sequence = job->play.sequence[rank]++,
                                            .step = job->at[rank],
                                            .weight = 1,
                                            .finite = true};
        assert_int_equal(mode_contribute(job->play.mode, &c), 0);
    }
    random_decisions(job);
}

static void nobody_hangs_and_what_was_accepted_is_r_for_each_step(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct random_job job = {0};
        uint64_t accepted = 0;
        random_seed(&job.random, seed);
        job.replicas = 1 + (uint32_t)random_below(&job.random, PLAY_WORKERS);
        job.workers = 1 + (uint32_t)random_below(&job.random, PLAY_WORKERS);
        job.play = strict(job.replicas, job.workers);
        for (uint32_t r = 0; r < job.workers; r++)
            job.owes[r] = random_quota(&job, r);
        for (int i = 0; i < EVENTS; i++)
            random_event(&job);
        for (uint32_t r = 0; r < job.workers; r++) {
            struct mode_counts counts;
            mode_counts(job.play.mode, r, &counts);
            accepted += counts.accepted;
        }
        assert_true(job.steps > 0);
        assert_int_equal(accepted, job.steps * job.replicas);
        play_stop(&job.play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_two_of_two_in_lockstep_accepts_all_and_waits_for_both),
        cmocka_unit_test(a_step_takes_the_first_r_and_tells_the_last_that_it_is_stale),
        cmocka_unit_test(a_late_one_of_several_steps_ago_is_stale_and_gets_the_current_step),
        cmocka_unit_test(only_distinct_workers_count),
        cmocka_unit_test(a_commit_waits_until_the_step_before_is_applied),
        cmocka_unit_test(while_a_commit_waits_later_ones_do_not_enter_its_set),
        cmocka_unit_test(the_set_is_by_rank_whatever_the_order_of_arrival),
        cmocka_unit_test(an_abandoned_one_does_not_count_and_does_not_hang_the_others),
        cmocka_unit_test(with_a_spare_worker_an_abandoned_one_is_replaced),
        cmocka_unit_test(a_step_ahead_a_wrong_sequence_or_an_unknown_rank_breaks_the_protocol),
        cmocka_unit_test(more_replicas_than_workers_need_the_quota_of_every_rank),
        cmocka_unit_test(abandoned_parts_of_a_quota_count_for_nothing_and_fill_it),
        cmocka_unit_test(one_that_is_gone_is_not_waited_for_while_r_are_there),
        cmocka_unit_test(fewer_than_r_fail_as_soon_as_somebody_waits),
        cmocka_unit_test(nobody_waits_when_all_leave_after_their_last_step),
        cmocka_unit_test(what_was_complete_before_its_worker_went_counts),
        cmocka_unit_test(what_comes_of_a_worker_that_is_gone_is_ignored),
        cmocka_unit_test(a_worker_that_goes_leaves_the_step_to_those_who_abandoned),
        cmocka_unit_test(a_missing_quota_of_one_that_is_gone_fails),
        cmocka_unit_test(propagate_does_not_look_at_it),
        cmocka_unit_test(drop_leaves_it_out_and_tells),
        cmocka_unit_test(fail_names_whose_it_is),
        cmocka_unit_test(skip_makes_nobody_apply_and_tells_everybody),
        cmocka_unit_test(an_abandoned_one_is_not_looked_at),
        cmocka_unit_test(a_replayed_step_takes_exactly_the_recorded_ranks),
        cmocka_unit_test(a_recorded_rank_that_is_gone_fails_the_replay),
        cmocka_unit_test(sets_of_another_job_are_refused),
        cmocka_unit_test(nobody_hangs_and_what_was_accepted_is_r_for_each_step),
        cmocka_unit_test(a_job_goes_on_from_the_step_it_was_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
