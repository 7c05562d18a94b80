/* SPDX-License-Identifier: BSD-3-Clause */
/* What is recorded is what is replayed; a file that is not a record is refused by the number of its first wrong line; a full disk is not passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ps/server/sets.h"
#include "transport/base/error.h"

#define WORKERS 4

static char path[] = "/tmp/stepgate-sets-XXXXXX";

/* sets_write -- the file's text. */
static void sets_write(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* check_error -- this thread's last error says all of these. */
static void check_error(const char *first, const char *second)
{
    struct stepgate_error error;

    error_save(&error);
    if (strstr(error.text, first) == NULL || strstr(error.text, second) == NULL)
        fail_msg("'%s' and '%s' are not in: %s", first, second, error.text);
}

/* check_wrong -- this text is refused, by this line. */
static void check_wrong(const char *text, size_t length, unsigned line)
{
    struct sets *sets = NULL;
    char number[24];

    sets_write(text, length);
    if (sets_open(NULL, path, WORKERS, &sets) != -STEPGATE_EINVAL)
        fail_msg("not refused: %s", text);
    assert_null(sets);
    snprintf(number, sizeof(number), "line %u:", line);
    check_error(path, number);
}

/* check_set -- what is replayed of a step. */
static void check_set(struct sets *sets, const char *model, uint64_t step, const uint32_t *ranks,
                      uint32_t count)
{
    const uint32_t *got;
    uint32_t n;

    assert_true(sets_replay(sets, model, step, &got, &n));
    assert_int_equal(n, count);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(got[i], ranks[i]);
}

static void what_is_recorded_is_replayed(void **state)
{
    (void)state;
    static const uint32_t some[] = {0, 2, 3}, one[] = {1}, all[] = {0, 1, 2, 3};
    const uint32_t *ranks = NULL;
    uint32_t count = 7;
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    assert_true(sets_records(sets) && !sets_replays(sets));
    for (uint64_t step = 0; step < 100; step++) { /* two models in turn, as they are committed */
        sets_record(sets, "a model, of two", step, some, 3);
        sets_record(sets, "b", step, step % 3 == 0 ? one : all, step % 3 == 0 ? 1 : step % 3 == 1 ? 0 : 4);
    }
    sets_record(sets, "-", UINT64_MAX, one, 1);
    assert_int_equal(sets_close(&sets), 0);
    assert_null(sets);

    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_true(!sets_records(sets) && sets_replays(sets));
    for (uint64_t step = 100; step-- > 0;) {
        check_set(sets, "a model, of two", step, some, 3);
        check_set(sets, "b", step, step % 3 == 0 ? one : all, step % 3 == 0 ? 1 : step % 3 == 1 ? 0 : 4);
    }
    check_set(sets, "-", UINT64_MAX, one, 1);
    assert_false(sets_replay(sets, "b", 100, &ranks, &count));
    assert_false(sets_replay(sets, "a model", 0, &ranks, &count));
    assert_true(ranks == NULL && count == 7);
    assert_int_equal(sets_close(&sets), 0);
}

static void a_record_that_is_replayed_may_be_recorded_again(void **state)
{
    (void)state;
    static const char text[] = "0 0,1 m\n1 2,3 m\n2 - m\n";
    static char again[sizeof(text) + 1];
    const uint32_t *ranks;
    uint32_t count;
    struct sets *sets;
    sets_write(text, sizeof(text) - 1);
    assert_int_equal(sets_open(path, path, WORKERS, &sets), 0);
    assert_true(sets_records(sets) && sets_replays(sets));
    for (uint64_t step = 0; step < 3; step++) {
        assert_true(sets_replay(sets, "m", step, &ranks, &count));
        sets_record(sets, "m", step, ranks, count);
    }
    assert_int_equal(sets_close(&sets), 0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(again, 1, sizeof(again), file), sizeof(text) - 1);
    fclose(file);
    assert_string_equal(again, text);
}

static void a_rank_that_contributes_more_than_once_is_recorded_once(void **state)
{
    (void)state;
    static const uint32_t often[] = {0, 0, 0, 1, 3, 3}, once[] = {0, 1, 3};
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    sets_record(sets, "m", 0, often, 6);
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    check_set(sets, "m", 0, once, 3);
    assert_int_equal(sets_close(&sets), 0);
}

static void an_empty_record_says_nothing(void **state)
{
    (void)state;
    const uint32_t *ranks;
    uint32_t count;
    struct sets *sets;
    sets_write("", 0);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_true(sets_replays(sets));
    assert_false(sets_replay(sets, "m", 0, &ranks, &count));
    assert_int_equal(sets_close(&sets), 0);
}

static void a_wrong_line_is_refused_by_its_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        " ",
                                        "0",
                                        "0 ",
                                        "0 0",
                                        "0 0 ",
                                        "x 0 m",
                                        " 0 0 m",
                                        "-1 0 m",
                                        "+1 0 m",
                                        "0  0 m",
                                        "0 -",
                                        "0 - ",
                                        "0 -1 m",
                                        "0 0,-1 m",
                                        "0 0, m",
                                        "0 ,0 m",
                                        "0 0,,1 m",
                                        "0 0;1 m",
                                        "0 0,1.5 m",
                                        "0 0x1 m",
                                        "0 1,0 m",
                                        "0 1,1 m",
                                        "0 0,2,1 m",
                                        "0 4 m",
                                        "0 0,4 m",
                                        "0 -,0 m",
                                        "0 +1 m",
                                        "0 a m",
                                        "1.5 0 m",
                                        "0x1 0 m",
                                        "0,0 0 m",
                                        "0 18446744073709551616 m",
                                        "18446744073709551616 0 m",
                                        "0 4294967296 m",
                                        "0\t0 m",
                                        "0 0\tm"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[256];
        int length = snprintf(text, sizeof(text), "%s\n", wrong[i]);
        check_wrong(text, (size_t)length, 1);
        length = snprintf(text, sizeof(text), "0 0,1 m\n1 - m\n%s\n2 9 m\n", wrong[i]);
        check_wrong(text, (size_t)length, 3);
    }
}

static void a_line_that_was_not_written_to_its_end_is_refused(void **state)
{
    (void)state;
    static const char text[] = "0 0,1 m\n1 2,3 model";
    for (size_t length = sizeof("0 0,1 m\n"); length < sizeof(text); length++)
        check_wrong(text, length, 2);
    check_wrong("0 0,1 m\n1 2\0,3 m\n", sizeof("0 0,1 m\n1 2\0,3 m\n") - 1, 2);
}

static void a_step_that_is_there_twice_is_refused(void **state)
{
    (void)state;
    static const char text[] = "0 0,1 m\n1 0,1 m\n0 0,1 n\n1 0,2 m\n2 0 m\n";
    check_wrong(text, sizeof(text) - 1, 4);
    check_error("step 1 of m", "in line 2 already");
}

static void a_full_disk_is_told_at_the_end(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 1, 2, 3};
    for (uint64_t steps = 1; steps < 10000; steps *= 10) {
        struct sets *sets;
        assert_int_equal(sets_open("/dev/full", NULL, WORKERS, &sets), 0);
        for (uint64_t step = 0; step < steps; step++)
            sets_record(sets, "m", step, ranks, 4);
        assert_int_equal(sets_close(&sets), -STEPGATE_ESYSTEM);
        assert_null(sets);
        check_error("/dev/full", "not every set");
    }
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    struct sets *sets = NULL;
    assert_int_equal(sets_open("/nowhere/sets", NULL, WORKERS, &sets), -STEPGATE_ESYSTEM);
    check_error("/nowhere/sets", "written");
    assert_int_equal(sets_open(NULL, "/nowhere/sets", WORKERS, &sets), -STEPGATE_ESYSTEM);
    check_error("/nowhere/sets", "read");
    assert_int_equal(sets_open(NULL, "/tmp", WORKERS, &sets), -STEPGATE_ESYSTEM); /* a folder */
    check_error("/tmp", "read");
    assert_null(sets);
    sets_write("0 0 m\nwrong\n",
               12); /* what is to be replayed is wrong: nothing is recorded over another file */
    assert_int_equal(sets_open(path, path, WORKERS, &sets), -STEPGATE_EINVAL);
    assert_null(sets);
    check_error("wrong", "line 2:");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), '0');
    fclose(file);
}

static void no_files_are_no_sets(void **state)
{
    (void)state;
    struct sets *sets;
    assert_int_equal(sets_open(NULL, NULL, WORKERS, &sets), 0);
    assert_true(!sets_records(sets) && !sets_replays(sets));
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_close(&sets), 0);
    assert_true(!sets_records(NULL) && !sets_replays(NULL));
}

int main(void)
{
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recorded_is_replayed),
        cmocka_unit_test(a_record_that_is_replayed_may_be_recorded_again),
        cmocka_unit_test(a_rank_that_contributes_more_than_once_is_recorded_once),
        cmocka_unit_test(an_empty_record_says_nothing),
        cmocka_unit_test(a_wrong_line_is_refused_by_its_number),
        cmocka_unit_test(a_line_that_was_not_written_to_its_end_is_refused),
        cmocka_unit_test(a_step_that_is_there_twice_is_refused),
        cmocka_unit_test(a_full_disk_is_told_at_the_end),
        cmocka_unit_test(files_that_cannot_be_opened_are_named),
        cmocka_unit_test(no_files_are_no_sets),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
