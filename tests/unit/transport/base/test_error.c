/* SPDX-License-Identifier: BSD-3-Clause */
/* The last error belongs to a thread, is complete in itself, and says nothing of an earlier one. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/error.h"

/* last -- the error of this thread. */
static struct stepgate_error last(void)
{
    struct stepgate_error error = {.size = sizeof(error)};

    assert_int_equal(stepgate_error_last(&error), 0);
    return error;
}

static void setting_an_error_returns_its_negative_code_and_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(error_set(STEPGATE_EBUSY, 0, "take another port", "port %d is in use", 70),
                     -STEPGATE_EBUSY);
    struct stepgate_error error = last();
    assert_int_equal(error.code, STEPGATE_EBUSY);
    assert_string_equal(error.text, "port 70 is in use");
    assert_string_equal(error.remedy, "take another port");
    assert_int_equal(error.rank, -1);
    assert_true(error.step == UINT64_MAX);
    assert_true(error.waited_ms == -1);
}

static void an_error_is_one_line_whatever_its_arguments_hold(void **state)
{
    (void)state;
    error_set(STEPGATE_EINVAL, ENOENT, NULL, "no host '%s'", "a\nb\tc\033[1m\303\244");
    assert_string_equal(last().text, "no host 'a?b?c?[1m\303\244': No such file or directory");
}

static void the_words_of_the_operating_system_follow_the_text(void **state)
{
    (void)state;
    error_set(STEPGATE_ESYSTEM, ENOENT, NULL, "cannot open it");
    struct stepgate_error error = last();
    assert_string_equal(error.text, "cannot open it: No such file or directory");
    assert_int_equal(error.os_errno, ENOENT);
    assert_string_equal(error.remedy, "");
}

static void a_new_error_forgets_peer_and_step_of_the_old_one(void **state)
{
    (void)state;
    error_set(STEPGATE_EPEER, 0, "", "gone");
    error_peer(STEPGATE_ROLE_PS, 3, "host", "rxe0");
    error_step(17, 250);
    struct stepgate_error error = last();
    assert_int_equal(error.role, STEPGATE_ROLE_PS);
    assert_int_equal(error.rank, 3);
    assert_string_equal(error.host, "host");
    assert_string_equal(error.device, "rxe0");
    assert_true(error.step == 17 && error.waited_ms == 250);
    error_set(STEPGATE_EINVAL, 0, "", "other");
    error = last();
    assert_int_equal(error.rank, -1);
    assert_string_equal(error.host, "");
    assert_true(error.step == UINT64_MAX && error.waited_ms == -1);
}

static void an_error_may_quote_the_one_before(void **state)
{
    (void)state;
    struct stepgate_error before = {.size = sizeof(before)};
    error_set(STEPGATE_EPEER, 0, "", "inner");
    error_save(&before);
    error_set(STEPGATE_ELOST, 0, before.remedy, "outer: %s", before.text);
    assert_string_equal(last().text, "outer: inner");
    assert_int_equal(error_restore(&before), -STEPGATE_EPEER);
    assert_string_equal(last().text, "inner");
}

static void an_error_that_is_passed_on_has_the_words_of_the_operating_system_once(void **state)
{
    (void)state;
    error_set(STEPGATE_ELIMIT, ENOMEM, NULL, "no more queue pairs");
    struct stepgate_error why = last();
    error_set(why.code, why.os_errno, why.remedy, "ps 0: %s", why.text);
    assert_string_equal(last().text, "ps 0: no more queue pairs: Cannot allocate memory");
    assert_int_equal(last().os_errno, ENOMEM);
    error_set(STEPGATE_ESYSTEM, EIO, NULL, "x"); /* shorter than the words */
    assert_string_equal(last().text, "x: Input/output error");
}

static void a_text_that_is_too_long_is_cut_and_ends(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(STEPGATE_ESYSTEM, ENOENT, text, "%s", text);
    struct stepgate_error error = last();
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
    assert_int_equal(strlen(error.remedy), sizeof(error.remedy) - 1);
}

/* other_thread -- sets an error of its own. */
static void *other_thread(void *result)
{
    struct stepgate_error error = {.size = sizeof(error)};

    stepgate_error_last(&error);
    *(int *)result = error.code; /* nothing yet in this thread */
    error_set(STEPGATE_EAUTH, 0, "", "theirs");
    return NULL;
}

static void errors_of_threads_do_not_mix(void **state)
{
    (void)state;
    pthread_t thread;
    int theirs = -1;
    error_set(STEPGATE_EBUSY, 0, "", "mine");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &theirs), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(theirs, 0);
    assert_string_equal(last().text, "mine");
}

static void a_struct_of_unknown_size_is_refused(void **state)
{
    (void)state;
    struct stepgate_error error = {.size = 8};
    assert_int_equal(stepgate_error_last(&error), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_error_last(NULL), -STEPGATE_EINVAL);
}

static void every_code_has_a_name_and_a_class(void **state)
{
    (void)state;
    static const int codes[] = {1,  2,  3,  4,  5,  6,  7,  20, 21, 22, 23, 24, 25, 26, 27, 40,
                                41, 42, 43, 44, 45, 46, 60, 61, 62, 80, 81, 82, 83, 84, 85};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_string_not_equal(stepgate_strerror(codes[i]), "unknown error");
        assert_string_equal(stepgate_strerror(codes[i]), stepgate_strerror(-codes[i]));
        assert_int_not_equal(stepgate_error_class(-codes[i]), STEPGATE_CLASS_NONE);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(stepgate_strerror(codes[i]), stepgate_strerror(codes[k]));
    }
    assert_string_equal(stepgate_strerror(-999), "unknown error");
    assert_int_equal(stepgate_error_class(-STEPGATE_ESYSTEM), STEPGATE_CLASS_OPERATION);
    assert_int_equal(stepgate_error_class(-STEPGATE_EINVAL), STEPGATE_CLASS_ARGUMENT);
    assert_int_equal(stepgate_error_class(-STEPGATE_EAUTH), STEPGATE_CLASS_PEER);
    assert_int_equal(stepgate_error_class(-STEPGATE_EADDRESS), STEPGATE_CLASS_DEVICE);
    assert_int_equal(stepgate_error_class(-STEPGATE_ESTEPTIME), STEPGATE_CLASS_JOB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setting_an_error_returns_its_negative_code_and_keeps_its_words),
        cmocka_unit_test(an_error_is_one_line_whatever_its_arguments_hold),
        cmocka_unit_test(the_words_of_the_operating_system_follow_the_text),
        cmocka_unit_test(an_error_that_is_passed_on_has_the_words_of_the_operating_system_once),
        cmocka_unit_test(a_new_error_forgets_peer_and_step_of_the_old_one),
        cmocka_unit_test(an_error_may_quote_the_one_before),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_and_ends),
        cmocka_unit_test(errors_of_threads_do_not_mix),
        cmocka_unit_test(a_struct_of_unknown_size_is_refused),
        cmocka_unit_test(every_code_has_a_name_and_a_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
