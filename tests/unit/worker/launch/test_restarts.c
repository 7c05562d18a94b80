/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may be started again: one budget for all, for failures that another try can help, after a pause that does not grow without end. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/launch/restarts.h"

static const struct child killed = {.ended = true, .signal = SIGKILL};
static const struct child requeue = {.ended = true, .status = 75};

static void the_budget_is_one_for_all(void **state)
{
    (void)state;
    struct restarts restarts = {.most = 3};
    assert_true(restarts_take(&restarts, &killed));
    assert_true(restarts_take(&restarts, &requeue));
    assert_true(restarts_take(&restarts, &killed));
    assert_false(restarts_take(&restarts, &killed));
    assert_false(restarts_take(&restarts, &requeue));
    assert_int_equal(restarts.used, 3);
}

static void without_a_budget_nobody_is_started_again(void **state)
{
    (void)state;
    struct restarts restarts = {.most = 0};
    assert_false(restarts_take(&restarts, &killed));
    assert_int_equal(restarts.used, 0);
}

static void other_ends_take_nothing_of_it(void **state)
{
    (void)state;
    static const int statuses[] = {0, 1, 2, 3, 74, 76, 126, 127, 137, 143};
    struct restarts restarts = {.most = 1};
    struct child running = {.pid = 1};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct child child = {.ended = true, .status = statuses[i]};
        assert_false(restarts_take(&restarts, &child));
    }
    assert_false(restarts_take(&restarts, &running));
    assert_true(restarts_take(&restarts, &killed));
}

static void the_pause_grows_up_to_a_bound(void **state)
{
    (void)state;
    int64_t before = 0;
    for (unsigned times = 0; times <= 5; times++) {
        assert_true(restarts_pause_ms(times) > before);
        before = restarts_pause_ms(times);
    }
    assert_int_equal(restarts_pause_ms(6), before);
    assert_int_equal(restarts_pause_ms(UINT32_MAX), before);
    assert_true(before <= 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_budget_is_one_for_all),
        cmocka_unit_test(without_a_budget_nobody_is_started_again),
        cmocka_unit_test(other_ends_take_nothing_of_it),
        cmocka_unit_test(the_pause_grows_up_to_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
