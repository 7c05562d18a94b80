/* SPDX-License-Identifier: BSD-3-Clause */
/* Who shares a ps's host, as far as the lists tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ps/server/neighbour.h"
#include "stepgate/error.h"

/* count -- for a list of ps; the number of workers is 9. */
static struct neighbour_count count(const char *listen, unsigned number, const char *list,
                                    const char *worker_hosts)
{
    struct neighbour_count got = {0};
    struct hosts ps = {0};

    assert_int_equal(hosts_parse("ps_hosts", list, &ps), 0);
    assert_int_equal(neighbour_count(listen, number, &ps, worker_hosts, 9, &got), 0);
    hosts_clear(&ps);
    return got;
}

static void a_ps_without_a_list_is_alone(void **state)
{
    (void)state;
    struct neighbour_count got = count("10.0.0.1:0", 0, "", NULL);
    assert_int_equal(got.servers, 1);
    assert_int_equal(got.index, 0);
    assert_int_equal(got.workers, 9);
}

static void ps_of_the_same_host_count_and_others_do_not(void **state)
{
    (void)state;
    struct neighbour_count got = count("a:0", 2, "a:1,b:1,a:2,a:3", "b,c");
    assert_int_equal(got.servers, 3);
    assert_int_equal(got.index, 1);
    assert_int_equal(got.workers, 0);
}

static void a_ps_that_is_not_known_may_be_here(void **state)
{
    (void)state;
    struct neighbour_count got = count("127.0.0.1:0", 1, "127.0.0.1:70,-:0,-:0", "");
    assert_int_equal(got.servers, 3);
    assert_int_equal(got.index, 1);
}

static void workers_that_are_named_count_where_they_are(void **state)
{
    (void)state;
    assert_int_equal(count("a:0", 0, "a:1", "a,b,a:7").workers, 2);
    assert_int_equal(count("127.0.0.1:0", 0, "127.0.0.1:1", "localhost:1,127.0.0.2:0,b:1").workers, 2);
}

static void a_list_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    struct hosts ps = {0};
    struct neighbour_count got = {7, 7, 7};
    assert_int_equal(neighbour_count("a:0", 0, &ps, "a,,b", 9, &got), -STEPGATE_EINVAL);
    assert_int_equal(got.servers, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ps_without_a_list_is_alone),
        cmocka_unit_test(ps_of_the_same_host_count_and_others_do_not),
        cmocka_unit_test(a_ps_that_is_not_known_may_be_here),
        cmocka_unit_test(workers_that_are_named_count_where_they_are),
        cmocka_unit_test(a_list_that_cannot_be_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
