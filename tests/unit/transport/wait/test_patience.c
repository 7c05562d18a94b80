/* SPDX-License-Identifier: BSD-3-Clause */
/* Who waits looks, gives way and sleeps for as long as is said, and sleeps at once where a processor that was given away came back late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/wait/patience.h"

#define BEGAN UINT64_C(1000000000)

static void spin_only_looks(void **state)
{
    (void)state;
    const struct patience p = {.mode = PATIENCE_SPIN};
    assert_int_equal(patience_next(&p, BEGAN, BEGAN), PATIENCE_LOOKS);
    assert_int_equal(patience_next(&p, BEGAN, BEGAN + UINT64_C(3600000000000)), PATIENCE_LOOKS);
}

static void sleep_sleeps_at_once(void **state)
{
    (void)state;
    const struct patience p = {.mode = PATIENCE_SLEEP, .spare = true};
    assert_int_equal(patience_next(&p, BEGAN, BEGAN), PATIENCE_SLEEPS);
}

static void adaptive_looks_only_where_processors_are_to_spare(void **state)
{
    (void)state;
    const struct patience spare = {.mode = PATIENCE_ADAPTIVE, .spare = true},
                          full = {.mode = PATIENCE_ADAPTIVE};
    assert_int_equal(patience_next(&spare, BEGAN, BEGAN), PATIENCE_LOOKS);
    assert_int_equal(patience_next(&spare, BEGAN, BEGAN + PATIENCE_SPIN_NS - 1), PATIENCE_LOOKS);
    assert_int_equal(patience_next(&spare, BEGAN, BEGAN + PATIENCE_SPIN_NS), PATIENCE_YIELDS);
    assert_int_equal(patience_next(&spare, BEGAN, BEGAN + PATIENCE_SPIN_NS + PATIENCE_YIELD_NS - 1),
                     PATIENCE_YIELDS);
    assert_int_equal(patience_next(&spare, BEGAN, BEGAN + PATIENCE_SPIN_NS + PATIENCE_YIELD_NS),
                     PATIENCE_SLEEPS);
    assert_int_equal(patience_next(&full, BEGAN, BEGAN), PATIENCE_YIELDS);
    assert_int_equal(patience_next(&full, BEGAN, BEGAN + PATIENCE_YIELD_NS - 1), PATIENCE_YIELDS);
    assert_int_equal(patience_next(&full, BEGAN, BEGAN + PATIENCE_YIELD_NS), PATIENCE_SLEEPS);
}

static void whoever_gets_the_processor_back_late_sleeps_at_once_for_a_while(void **state)
{
    (void)state;
    struct patience p = {.mode = PATIENCE_ADAPTIVE};
    uint64_t back = BEGAN + PATIENCE_LATE_NS - 1;
    patience_gave(&p, BEGAN, back);
    assert_int_equal(patience_next(&p, back, back), PATIENCE_YIELDS);
    back++;
    patience_gave(&p, BEGAN, back);
    assert_int_equal(patience_next(&p, back, back), PATIENCE_SLEEPS);
    assert_int_equal(patience_next(&p, back + PATIENCE_REST_NS - 1, back + PATIENCE_REST_NS - 1),
                     PATIENCE_SLEEPS);
    assert_int_equal(patience_next(&p, back + PATIENCE_REST_NS, back + PATIENCE_REST_NS), PATIENCE_YIELDS);
}

/* late -- a processor that was given away comes back late; how long it sleeps at once since. */
static uint64_t late(struct patience *p, uint64_t away)
{
    uint64_t back = away + PATIENCE_LATE_NS;

    patience_gave(p, away, back);
    return p->rest_until - back;
}

static void what_happens_again_counts_twice_and_after_a_while_as_new(void **state)
{
    (void)state;
    struct patience p = {.mode = PATIENCE_ADAPTIVE};
    assert_int_equal(late(&p, BEGAN), PATIENCE_REST_NS);
    for (uint64_t rest = 2 * PATIENCE_REST_NS; rest <= PATIENCE_REST_MOST; rest *= 2)
        assert_int_equal(late(&p, p.rest_until), rest);
    assert_int_equal(late(&p, p.rest_until + PATIENCE_REST_MOST - 1), PATIENCE_REST_MOST);
    assert_int_equal(late(&p, p.rest_until + PATIENCE_REST_MOST), PATIENCE_REST_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spin_only_looks),
        cmocka_unit_test(sleep_sleeps_at_once),
        cmocka_unit_test(adaptive_looks_only_where_processors_are_to_spare),
        cmocka_unit_test(whoever_gets_the_processor_back_late_sleeps_at_once_for_a_while),
        cmocka_unit_test(what_happens_again_counts_twice_and_after_a_while_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
