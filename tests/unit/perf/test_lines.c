/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf/lines.h"

/* answer -- the peer, twice. */
static void *answer(void *lines)
{
    lines_answer(lines);
    lines_answer(lines);
    return NULL;
}

static void every_round_trip_is_answered_and_measured(void **state)
{
    static struct histogram histogram;
    struct lines *lines = lines_new();
    pthread_t peer;
    (void)state;

    assert_non_null(lines);
    histogram_clear(&histogram);
    assert_int_equal(pthread_create(&peer, NULL, answer, lines), 0);
    for (int time = 0; time < 2; time++) {
        lines_ping(lines, 10, NULL);
        lines_ping(lines, 100, &histogram);
        lines_stop(lines);
        while (time == 0 && atomic_load(&lines->there) == UINT64_MAX)
            ;
    }
    pthread_join(peer, NULL);
    assert_int_equal(histogram.count, 200);
    assert_int_equal(atomic_load(&lines->back), 220);
    lines_delete(&lines);
    assert_null(lines);
    lines_delete(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_trip_is_answered_and_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
