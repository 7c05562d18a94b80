/* SPDX-License-Identifier: BSD-3-Clause */
/* A mode refuses settings that no checked model holds, and keeps its decisions until they are fetched. */
#include "tests/unit/ps/mode/play.h"

/* refuses -- EINVAL, and nothing is written. */
static void refuses(struct mode_settings settings)
{
    struct mode *mode = NULL;

    assert_int_equal(mode_new(&settings, &mode), -STEPGATE_EINVAL);
    assert_null(mode);
}

static void unknown_modes_policies_and_zeros_are_refused(void **state)
{
    struct mode_settings s = play_settings(MODEL_STRICT, 2, 2);

    (void)state;
    s.update = 0;
    refuses(s);
    s.update = MODEL_BOUNDED + 1;
    refuses(s);
    s = play_settings(MODEL_STRICT, 2, 2);
    s.non_finite = 0;
    refuses(s);
    s.non_finite = MODEL_SKIP + 1;
    refuses(s);
    refuses(play_settings(MODEL_STRICT, 0, 2));
    refuses(play_settings(MODEL_TF, 2, 0));
}

static void decisions_are_kept_in_order_until_somebody_asks(void **state)
{
    struct play p = play_start(play_settings(MODEL_STRICT, 1, 3));

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        struct mode_contribution c = {.rank = 1 + i % 2, .sequence = i / 2, .weight = 1, .finite = true};
        struct mode_contribution first = {.weight = 1, .finite = true};
        if (i == 0)
            assert_int_equal(mode_contribute(p.mode, &first), 0);
        assert_int_equal(mode_contribute(p.mode, &c), 0);
    }
    struct mode_decision d;
    assert_int_equal(mode_decide(p.mode, &d), 1);
    assert_int_equal(d.kind, MODE_COMMIT);
    assert_int_equal(mode_decide(p.mode, &d), 1);
    assert_int_equal(d.kind, MODE_TOKEN);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(mode_decide(p.mode, &d), 1);
        assert_int_equal(d.rank, 1 + i % 2);
        assert_int_equal(d.sequence, i / 2);
        assert_int_equal(d.verdict, STEPGATE_VERDICT_STALE);
    }
    play_stop(&p);
}

static void a_rank_that_there_is_not_has_no_counts_and_is_not_missed(void **state)
{
    struct play p = play_start(play_settings(MODEL_STRICT, 2, 2));

    (void)state;
    counted(&p, 7, 0, 0, 0, 0);
    assert_false(mode_missing(p.mode, 7));
    play_stop(&p);
    mode_delete(&p.mode);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_modes_policies_and_zeros_are_refused),
        cmocka_unit_test(decisions_are_kept_in_order_until_somebody_asks),
        cmocka_unit_test(a_rank_that_there_is_not_has_no_counts_and_is_not_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
