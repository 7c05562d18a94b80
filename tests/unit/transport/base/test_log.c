/* SPDX-License-Identifier: BSD-3-Clause */
/* A log line reaches the function if its level does, and nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/log.h"

struct heard {
    int count, level;
    char line[2048];
};

/* hear -- a log function. */
static void hear(void *context, int level, const char *line)
{
    struct heard *heard = context;

    heard->count++;
    heard->level = level;
    strncpy(heard->line, line, sizeof(heard->line) - 1);
}

static void lines_up_to_the_level_are_handed_on_and_others_dropped(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct log_sink sink = {.function = hear, .context = &heard, .level = LOG_WARN};
    log_line(&sink, LOG_INFO, "no");
    assert_int_equal(heard.count, 0);
    log_line(&sink, LOG_WARN, "n is %d", 3);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, LOG_WARN);
    assert_string_equal(heard.line, "n is 3");
    log_line(&sink, LOG_ERROR, "yes");
    assert_int_equal(heard.count, 2);
}

static void without_a_function_lines_go_nowhere(void **state)
{
    (void)state;
    struct log_sink sink = {.level = LOG_DEBUG};
    log_line(&sink, LOG_ERROR, "x");
    log_line(NULL, LOG_ERROR, "x");
}

static void a_line_that_is_too_long_is_cut(void **state)
{
    (void)state;
    struct heard heard = {0};
    struct log_sink sink = {.function = hear, .context = &heard, .level = LOG_DEBUG};
    log_line(&sink, LOG_INFO, "%1500d", 1);
    assert_int_equal(heard.count, 1);
    assert_int_equal(strlen(heard.line), 1023);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_up_to_the_level_are_handed_on_and_others_dropped),
        cmocka_unit_test(without_a_function_lines_go_nowhere),
        cmocka_unit_test(a_line_that_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
