/* SPDX-License-Identifier: BSD-3-Clause */
/* A forked child is told from the process that made something, without a system call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/base/origin.h"

/* here_in_child -- what a forked child, and its child, say. */
static int here_in_child(const struct origin *origin, int generations)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(generations > 1 ? here_in_child(origin, generations - 1) : origin_is_here(origin));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_child_is_not_the_origin(void **state)
{
    struct origin origin;

    (void)state;
    origin_here(&origin);
    assert_non_null(origin.mark);
    assert_true(origin_is_here(&origin));
    assert_int_equal(here_in_child(&origin, 1), 0);
    assert_int_equal(here_in_child(&origin, 2), 0);
    assert_true(origin_is_here(&origin));
    origin_clear(&origin);
    assert_null(origin.mark);
}

static void without_a_page_the_number_decides(void **state)
{
    struct origin origin = {.mark = NULL, .process = getpid()};

    (void)state;
    assert_true(origin_is_here(&origin));
    assert_int_equal(here_in_child(&origin, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_not_the_origin),
        cmocka_unit_test(without_a_page_the_number_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
