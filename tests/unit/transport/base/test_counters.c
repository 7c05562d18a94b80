/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of a port are read from the system's files, and what has grown of trouble is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/base/counters.h"

static char sys[] = P_tmpdir "/test-counters-XXXXXX";

/* put -- a counter of port 1 of x0. */
static void put(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/x0/ports/1/hw_counters/%s", sys, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void counters_are_numbers_in_files(void **state)
{
    struct counters c;
    (void)state;

    counters_read(sys, "x0", 2, &c);
    assert_int_equal(c.count, 0);
    counters_read(sys, "../x0", 1, &c);
    assert_int_equal(c.count, 0);
    put("sent_pkts", "18446744073709551615\n");
    put("lifespan", "10\n");
    put("a_name_that_is_longer_than_any_that_is_known_to_us", "1\n");
    counters_read(sys, "x0", 1, &c);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.list[0].name, "sent_pkts");
    assert_true(c.list[0].value == UINT64_MAX);
}

static void trouble_is_what_has_grown(void **state)
{
    struct counters before, after;
    char words[256], few[40];
    (void)state;

    put("retry_exceeded_err", "3\n");
    put("out_of_seq_request", "7\n");
    put("rnr_nak_retry_err", "2\n");
    counters_read(sys, "x0", 1, &before);
    counters_trouble(&before, &before, words, sizeof(words));
    assert_string_equal(words, "");
    put("sent_pkts", "0\n");
    put("retry_exceeded_err", "4\n");
    put("rnr_nak_retry_err", "1\n"); /* was reset meanwhile */
    put("duplicate_request", "12\n");
    counters_read(sys, "x0", 1, &after);
    counters_trouble(&before, &after, words, sizeof(words));
    assert_non_null(strstr(words, "retry_exceeded_err 1"));
    assert_non_null(strstr(words, "duplicate_request 12"));
    assert_int_equal(strlen(words), strlen("retry_exceeded_err 1, duplicate_request 12"));
    counters_trouble(&before, &after, few, 24); /* one of them has room */
    assert_true(strcmp(few, "retry_exceeded_err 1") == 0 || strcmp(few, "duplicate_request 12") == 0);
}

/* open_sys, close_sys -- for all. */
static int open_sys(void **state)
{
    char command[128];
    (void)state;

    if (mkdtemp(sys) == NULL)
        return -1;
    snprintf(command, sizeof(command), "mkdir -p %s/x0/ports/1/hw_counters", sys);
    return system(command);
}
static int close_sys(void **state)
{
    char command[128];
    (void)state;

    snprintf(command, sizeof(command), "rm -r %s", sys);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_numbers_in_files),
        cmocka_unit_test(trouble_is_what_has_grown),
    };
    return cmocka_run_group_tests(tests, open_sys, close_sys);
}
