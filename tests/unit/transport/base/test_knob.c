/* SPDX-License-Identifier: BSD-3-Clause */
/* The knob table is consistent, values are checked when they are set, and an error says what to do. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/error.h"
#include "transport/base/exit_status.h"
#include "transport/base/help.h"
#include "transport/base/knob.h"

/* set_up -- knobs at their defaults. */
static int set_up(void **state)
{
    static struct knobs knobs;

    knobs_init(&knobs);
    *state = &knobs;
    return 0;
}

/* tear_down -- frees them. */
static int tear_down(void **state)
{
    knobs_clear(*state);
    return 0;
}

/* last -- the error of this thread. */
static struct stepgate_error last(void)
{
    struct stepgate_error error;

    error_save(&error);
    return error;
}

static void each_row_has_the_names_that_follow_from_its_name(void **state)
{
    (void)state;
    const struct knob_row *row;
    size_t count = 0;
    for (; (row = knob_row(count)) != NULL; count++) {
        char environment[64] = "STEPGATE_", flag[64] = "--";
        for (size_t i = 0; row->name[i] != '\0'; i++) {
            environment[9 + i] = (char)toupper((unsigned char)row->name[i]);
            flag[2 + i] = row->name[i] == '_' ? '-' : row->name[i];
        }
        assert_string_equal(row->environment, environment);
        assert_string_equal(row->flag, flag);
        assert_string_not_equal(row->help, "");
        assert_ptr_equal(knob_row_find(row->name, strlen(row->name)), row);
    }
    assert_true(count > 20 && count <= KNOBS_MAX);
}

static void each_default_is_allowed(void **state)
{
    const struct knob_row *row;
    for (size_t i = 0; (row = knob_row(i)) != NULL; i++)
        if (row->fallback[0] != '\0')
            assert_int_equal(knob_set(*state, row->name, row->fallback), 0);
}

static void defaults_are_those_of_the_documentation(void **state)
{
    struct knobs *knobs = *state;
    assert_int_equal(knob_time_ms(knobs, "join_timeout"), 120000);
    assert_int_equal(knob_time_ms(knobs, "liveness"), 10000);
    assert_int_equal(knob_time_ms(knobs, "stall_report"), 30000);
    assert_int_equal(knob_time_ms(knobs, "step_timeout"), -1);
    assert_int_equal(knob_time_ms(knobs, "close_timeout"), 5000);
    assert_int_equal(knob_int(knobs, "lanes"), 1);
    assert_int_equal(knob_int(knobs, "wait"), KNOB_WAIT_ADAPTIVE);
    assert_int_equal(knob_int(knobs, "transport"), KNOB_TRANSPORT_AUTO);
    assert_int_equal(knob_int(knobs, "job_name"), KNOB_ROLE_NONE);
    assert_int_equal(knob_int(knobs, "task_index"), 0);
    assert_int_equal(knob_int(knobs, "workers"), 0);
    assert_true(knob_bool(knobs, "service"));
    assert_false(knob_bool(knobs, "insecure"));
    assert_true(knob_bytes(knobs, "cut_bytes") == 256u << 20);
    assert_string_equal(knob_text(knobs, "job"), "stepgate");
    assert_string_equal(knob_text(knobs, "bind"), "auto");
    assert_false(knob_given(knobs, "lanes"));
}

static void values_are_read_with_their_units(void **state)
{
    struct knobs *knobs = *state;
    static const struct {
        const char *name, *text;
        int64_t number;
    } good[] = {
        {"liveness", "500", 500},
        {"liveness", "500ms", 500},
        {"liveness", "500 ms", 500},
        {"liveness", "10s", 10000},
        {"liveness", "2min", 120000},
        {"liveness", "1h", 3600000},
        {"liveness", "off", -1},
        {"step-timeout", "none", -1},
        {"step-timeout", "-1", -1},
        {"chunk_bytes", "4096", 4096},
        {"chunk_bytes", "64KiB", 65536},
        {"chunk_bytes", "64k", 65536},
        {"chunk_bytes", "1M", 1048576},
        {"cut_bytes", "2GiB", INT64_C(2) << 30},
        {"lanes", "64", 64},
        {"lanes", "1", 1},
        {"insecure", "yes", 1},
        {"insecure", "0", 0},
        {"insecure", "true", 1},
        {"insecure", "off", 0},
        {"wait", "sleep", KNOB_WAIT_SLEEP},
        {"transport", "verbs", KNOB_TRANSPORT_VERBS},
        {"job-name", "worker", KNOB_ROLE_WORKER},
        {"job_name", "ps", KNOB_ROLE_PS},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(knob_set(knobs, good[i].name, good[i].text), 0);
        assert_true(knob_given(knobs, good[i].name));
        assert_string_equal(knob_text(knobs, good[i].name), good[i].text);
        if (knob_time_ms(knobs, good[i].name) != good[i].number)
            fail_msg("%s=%s gave another number", good[i].name, good[i].text);
    }
}

static void what_is_not_allowed_is_refused_and_changes_nothing(void **state)
{
    struct knobs *knobs = *state;
    static const char *const bad[][2] = {
        {"lanes", "0"},
        {"lanes", "65"},
        {"lanes", ""},
        {"lanes", "1x"},
        {"lanes", "-1"},
        {"lanes", " 1"},
        {"lanes", "99999999999999999999"},
        {"liveness", "99"},
        {"liveness", "10sec"},
        {"liveness", "s"},
        {"liveness", "1.5s"},
        {"close_timeout", "off"},
        {"close_timeout", "9999999999999h"},
        {"cut_bytes", "1KB"},
        {"cut_bytes", "-4096"},
        {"cut_bytes", "99999999T"},
        {"wait", "slee"},
        {"wait", "sleepy"},
        {"wait", ""},
        {"wait", "spin|sleep"},
        {"service", "maybe"},
        {"ps_hosts", "a"},
        {"listen", "a:b"},
        {"task_index", "-1"},
        {"workers", "0"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (knob_set(knobs, bad[i][0], bad[i][1]) != -STEPGATE_EINVAL)
            fail_msg("%s=%s was taken", bad[i][0], bad[i][1]);
        assert_false(knob_given(knobs, bad[i][0]));
        assert_non_null(strstr(last().text, bad[i][0]));
        assert_string_not_equal(last().remedy, "");
    }
    assert_int_equal(knob_int(knobs, "lanes"), 1);
}

static void an_unknown_name_names_the_nearest(void **state)
{
    static const char *const near[][2] = {{"lane", "lanes"},
                                          {"join-timeouts", "join_timeout"},
                                          {"worker_host", "worker_hosts"},
                                          {"stallreport", "stall_report"},
                                          {"transprot", "transport"}};
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        assert_int_equal(knob_set(*state, near[i][0], "1"), -STEPGATE_ENOENT);
        assert_non_null(strstr(last().remedy, near[i][1]));
    }
    assert_int_equal(knob_set(*state, "zzzzzzzz", "1"), -STEPGATE_ENOENT);
    assert_null(strstr(last().remedy, "nearest"));
    assert_int_equal(knob_set(*state, "", "1"), -STEPGATE_ENOENT);
    assert_null(knob_text(*state, "nosuch"));
}

static void a_bound_address_always_has_a_port(void **state)
{
    assert_int_equal(knob_set(*state, "listen", "10.0.0.1"), 0);
    assert_string_equal(knob_text(*state, "listen"), "10.0.0.1:0");
    assert_int_equal(knob_set(*state, "listen", ""), 0);
    assert_false(knob_given(*state, "listen"));
}

static void a_copy_has_texts_of_its_own(void **state)
{
    struct knobs copy;
    assert_int_equal(knob_set(*state, "job", "first"), 0);
    assert_int_equal(knobs_copy(*state, &copy), 0);
    assert_int_equal(knob_set(*state, "job", "second"), 0);
    assert_string_equal(knob_text(&copy, "job"), "first");
    knobs_clear(&copy);
    assert_string_equal(knob_text(&copy, "job"), "stepgate");
    assert_string_equal(knob_text(*state, "job"), "second");
}

static void the_level_of_the_log_follows_its_knob(void **state)
{
    struct knobs *knobs = *state;
    assert_int_equal(knobs->log.level, LOG_INFO);
    assert_int_equal(knob_set(knobs, "log", "debug"), 0);
    assert_int_equal(knobs->log.level, LOG_DEBUG);
    assert_int_equal(knob_set(knobs, "log", "error"), 0);
    assert_int_equal(knobs->log.level, LOG_ERROR);
}

static void the_number_of_workers_has_one_source(void **state)
{
    struct knobs *knobs = *state;
    assert_int_equal(knobs_workers(knobs), -STEPGATE_EINVAL);
    assert_int_equal(knob_set(knobs, "workers", "3"), 0);
    assert_int_equal(knobs_workers(knobs), 3);
    assert_int_equal(knob_set(knobs, "worker_hosts", "a:1,b:2"), 0);
    assert_int_equal(knobs_workers(knobs), -STEPGATE_EINVAL);
    assert_int_equal(knob_set(knobs, "workers", "2"), 0);
    assert_int_equal(knobs_workers(knobs), 2);
}

static void help_has_every_flag_and_default(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    const struct knob_row *row;
    help_write_knobs(stream, NULL);
    fclose(stream);
    for (size_t i = 0; (row = knob_row(i)) != NULL; i++) {
        char *at = strstr(text, row->flag);
        assert_non_null(at);
        assert_non_null(strstr(at, row->help));
        if (row->fallback[0] != '\0')
            assert_non_null(strstr(at, row->fallback));
    }
    free(text);
}

static void exit_statuses_tell_what_is_worth_another_try(void **state)
{
    (void)state;
    static const int again[] = {STEPGATE_EPEER, STEPGATE_EREFUSED, STEPGATE_EUNREACHABLE, STEPGATE_EDEVICE,
                                STEPGATE_EJOIN, STEPGATE_ELOST,    STEPGATE_ETIMEOUT,     STEPGATE_ESTEPTIME};
    static const int never[] = {STEPGATE_EINVAL, STEPGATE_EAUTH,     STEPGATE_EVERSION,  STEPGATE_EWRONGJOB,
                                STEPGATE_EBUSY,  STEPGATE_ENODEVICE, STEPGATE_EMISMATCH, STEPGATE_ERANK};
    for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++)
        assert_int_equal(stepgate_exit_status(-again[i]), 75);
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        assert_int_equal(stepgate_exit_status(-never[i]), 1);
    assert_int_equal(stepgate_exit_status(0), 0);
}

static void the_line_of_an_error_has_its_remedy_and_only_its_own(void **state)
{
    (void)state;
    char line[1024];
    exit_status_line(error_set(STEPGATE_EBUSY, 0, "take another", "port in use"), line, sizeof(line));
    assert_string_equal(line, "port in use: take another");
    exit_status_line(-STEPGATE_EAUTH, line, sizeof(line)); /* not the error that was recorded */
    assert_string_equal(line, "wrong secret");
    exit_status_unknown("--lane=3", line, sizeof(line));
    assert_non_null(strstr(line, "--lanes"));
    exit_status_unknown("word", line, sizeof(line));
    assert_non_null(strstr(line, "unknown argument word"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_the_names_that_follow_from_its_name),
        cmocka_unit_test_setup_teardown(each_default_is_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(defaults_are_those_of_the_documentation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_are_read_with_their_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_allowed_is_refused_and_changes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_name_names_the_nearest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_bound_address_always_has_a_port, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_has_texts_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_level_of_the_log_follows_its_knob, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_number_of_workers_has_one_source, set_up, tear_down),
        cmocka_unit_test(help_has_every_flag_and_default),
        cmocka_unit_test(exit_statuses_tell_what_is_worth_another_try),
        cmocka_unit_test(the_line_of_an_error_has_its_remedy_and_only_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
