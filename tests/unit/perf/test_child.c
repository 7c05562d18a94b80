/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/child.h"

/* tell -- a life: the line that it is given, then it ends well. */
static void tell(void *context, int pipe)
{
    const char *line = context;

    _exit(write(pipe, line, strlen(line)) == (ssize_t)strlen(line) ? 0 : 1);
}

/* linger -- a life that ends by itself only with its maker. */
static void linger(void *context, int pipe)
{
    (void)context;
    close(pipe);
    for (;;)
        pause();
}

static void the_line_is_there_when_the_process_is(void **state)
{
    char line[32];
    pid_t child = child_new(tell, (void *)(uintptr_t) "127.0.0.1:5", line, sizeof(line));
    (void)state;

    assert_true(child > 0);
    assert_string_equal(line, "127.0.0.1:5");
    assert_int_equal(child_wait(&child), 0);
    assert_int_equal(child, 0);
    assert_int_equal(child_wait(&child), 0);
}

static void an_error_is_told_and_leaves_no_process(void **state)
{
    char line[32];
    (void)state;

    assert_int_equal(child_new(tell, (void *)(uintptr_t) "!no device", line, sizeof(line)), -1);
    assert_string_equal(line, "no device");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void how_a_process_ended_is_told(void **state)
{
    char line[32];
    pid_t child = child_new(linger, NULL, line, sizeof(line));
    (void)state;

    assert_true(child > 0);
    assert_string_equal(line, "");
    kill(child, SIGTERM);
    int status = child_end(&child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_is_there_when_the_process_is),
        cmocka_unit_test(an_error_is_told_and_leaves_no_process),
        cmocka_unit_test(how_a_process_ended_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
