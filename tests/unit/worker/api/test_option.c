/* SPDX-License-Identifier: BSD-3-Clause */
/* Options come from calls, the environment and argv; an error leaves them, and argv, as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/option.h"

/* set_up -- fresh options. */
static int set_up(void **state)
{
    struct stepgate_options *options = NULL;
    int code = stepgate_options_new(&options);

    *state = options;
    return code;
}

/* tear_down -- frees them. */
static int tear_down(void **state)
{
    struct stepgate_options *options = *state;

    stepgate_options_delete(&options);
    return options == NULL ? 0 : -1;
}

/* get -- a knob's text. */
static const char *get(const struct stepgate_options *options, const char *name)
{
    const char *text = NULL;

    assert_int_equal(stepgate_options_get(options, name, &text), 0);
    return text;
}

static void a_value_that_is_set_can_be_got_under_both_spellings(void **state)
{
    assert_int_equal(stepgate_options_set(*state, "join-timeout", "5s"), 0);
    assert_string_equal(get(*state, "join_timeout"), "5s");
    assert_string_equal(get(*state, "lanes"), "1");
    const char *text = "kept";
    assert_int_equal(stepgate_options_get(*state, "nosuch", &text), -STEPGATE_ENOENT);
    assert_string_equal(text, "kept");
}

static void null_is_refused(void **state)
{
    const char *text;
    int argc = 0;
    assert_int_equal(stepgate_options_new(NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_set(*state, NULL, "1"), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_set(*state, "lanes", NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_set(NULL, "lanes", "1"), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_get(NULL, "lanes", &text), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_from_env(NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_from_args(*state, &argc, NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_list(0, NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_log(NULL, NULL, NULL, STEPGATE_LOG_INFO), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_options_log(*state, NULL, NULL, 9), -STEPGATE_EINVAL);
    stepgate_options_delete(NULL);
}

static void the_environment_sets_what_is_in_it_all_or_nothing(void **state)
{
    setenv("STEPGATE_LANES", "4", 1);
    setenv("STEPGATE_WAIT", "", 1); /* empty counts as not set */
    assert_int_equal(stepgate_options_from_env(*state), 0);
    assert_string_equal(get(*state, "lanes"), "4");
    assert_string_equal(get(*state, "wait"), "adaptive");
    setenv("STEPGATE_LANES", "5", 1);
    setenv("STEPGATE_WAIT", "never", 1);
    assert_int_equal(stepgate_options_from_env(*state), -STEPGATE_EINVAL);
    assert_string_equal(get(*state, "lanes"), "4");
    unsetenv("STEPGATE_LANES");
    unsetenv("STEPGATE_WAIT");
}

/* read_args -- argv from words up to NULL; returns the code, *argc and argv as they come back. */
static int read_args(struct stepgate_options *options, const char *const *words, int *argc, char **argv)
{
    for (*argc = 0; words[*argc] != NULL; (*argc)++)
        argv[*argc] = (char *)(uintptr_t)words[*argc];
    argv[*argc] = NULL;
    return stepgate_options_from_args(options, argc, argv);
}

static void knobs_are_taken_out_of_argv_and_the_rest_stays_in_order(void **state)
{
    static const char *const words[] = {"p",          "--epochs",    "3",  "--lanes",    "2",
                                        "file",       "--wait=spin", "-x", "--ps_hosts", "a:1,b:2",
                                        "--insecure", "last",        NULL};
    static const char *const left[] = {"p", "--epochs", "3", "file", "-x", "last"};
    char *argv[16];
    int argc;
    assert_int_equal(read_args(*state, words, &argc, argv), 0);
    assert_int_equal(argc, 6);
    for (int i = 0; i < argc; i++)
        assert_string_equal(argv[i], left[i]);
    assert_null(argv[argc]);
    assert_string_equal(get(*state, "lanes"), "2");
    assert_string_equal(get(*state, "wait"), "spin");
    assert_string_equal(get(*state, "ps-hosts"), "a:1,b:2");
    assert_string_equal(get(*state, "insecure"), "on");
}

static void two_dashes_end_the_knobs_and_are_removed(void **state)
{
    static const char *const words[] = {"p", "--lanes", "2", "--", "--lanes", "3", "--", NULL};
    char *argv[16];
    int argc;
    assert_int_equal(read_args(*state, words, &argc, argv), 0);
    assert_int_equal(argc, 4);
    assert_string_equal(argv[1], "--lanes");
    assert_string_equal(argv[2], "3");
    assert_string_equal(argv[3], "--");
    assert_string_equal(get(*state, "lanes"), "2");
}

static void a_switch_takes_only_a_word_that_is_meant_for_it(void **state)
{
    static const char *const words[] = {"p", "--service", "off", "--insecure", "1", NULL};
    char *argv[16];
    int argc;
    assert_int_equal(read_args(*state, words, &argc, argv), 0);
    assert_int_equal(argc, 2);
    assert_string_equal(argv[1], "1");
    assert_string_equal(get(*state, "service"), "off");
    assert_string_equal(get(*state, "insecure"), "on");
}

static void a_negative_time_is_a_value(void **state)
{
    static const char *const words[] = {"p", "--step-timeout", "-1", NULL};
    char *argv[16];
    int argc;
    assert_int_equal(read_args(*state, words, &argc, argv), 0);
    assert_int_equal(argc, 1);
    assert_string_equal(get(*state, "step_timeout"), "-1");
}

static void a_missing_or_bad_value_changes_neither_options_nor_argv(void **state)
{
    static const char *const cases[][6] = {{"p", "--lanes", "2", "--wait", NULL},
                                           {"p", "--lanes", "2", "--wait", "--x", NULL},
                                           {"p", "--lanes", "2", "--wait=", NULL},
                                           {"p", "--lanes", "2", "--wait=fast", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *argv[16];
        int argc;
        assert_int_equal(read_args(*state, cases[i], &argc, argv), -STEPGATE_EINVAL);
        for (int k = 0; k < argc; k++)
            assert_string_equal(argv[k], cases[i][k]);
        assert_null(argv[argc]);
        assert_string_equal(get(*state, "lanes"), "1");
    }
}

static void an_empty_argv_is_no_trouble(void **state)
{
    char *argv[1] = {NULL};
    int argc = 0;
    assert_int_equal(stepgate_options_from_args(*state, &argc, argv), 0);
    assert_int_equal(argc, 0);
}

static void the_table_can_be_listed_to_its_end(void **state)
{
    struct stepgate_knob knob;
    size_t count = 0;
    while (stepgate_options_list(count, &knob) == 0) {
        assert_string_equal(get(*state, knob.name), knob.fallback);
        count++;
    }
    assert_true(count > 20);
    assert_int_equal(stepgate_options_list(count, &knob), -STEPGATE_ENOENT);
}

static void a_later_setting_of_the_log_wins_over_the_call(void **state)
{
    assert_int_equal(stepgate_options_log(*state, NULL, NULL, STEPGATE_LOG_INFO), 0);
    assert_string_equal(get(*state, "log"), "info");
    assert_int_equal(stepgate_options_set(*state, "log", "error"), 0);
    assert_string_equal(get(*state, "log"), "error");
}

#define OPTION_TEST(name_) cmocka_unit_test_setup_teardown(name_, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(a_value_that_is_set_can_be_got_under_both_spellings),
        OPTION_TEST(null_is_refused),
        OPTION_TEST(the_environment_sets_what_is_in_it_all_or_nothing),
        OPTION_TEST(knobs_are_taken_out_of_argv_and_the_rest_stays_in_order),
        OPTION_TEST(two_dashes_end_the_knobs_and_are_removed),
        OPTION_TEST(a_switch_takes_only_a_word_that_is_meant_for_it),
        OPTION_TEST(a_negative_time_is_a_value),
        OPTION_TEST(a_missing_or_bad_value_changes_neither_options_nor_argv),
        OPTION_TEST(an_empty_argv_is_no_trouble),
        OPTION_TEST(the_table_can_be_listed_to_its_end),
        OPTION_TEST(a_later_setting_of_the_log_wins_over_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
