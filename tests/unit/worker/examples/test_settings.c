/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "worker/examples/fashion/settings.h"

enum { ARGUMENTS_MAX = 16 };

/* read_line -- settings of a command line, split at blanks */
static int read_line(const char *line, struct settings *settings, struct fault *fault)
{
    static char copy[512]; /* settings keep the strings */
    char *argv[ARGUMENTS_MAX] = {(char *)"stepgate-fashion"};
    int argc = 1;
    *fault = (struct fault){0};
    strncpy(copy, line, sizeof copy - 1);
    for (char *word = strtok(copy, " "); word != NULL && argc < ARGUMENTS_MAX; word = strtok(NULL, " "))
        argv[argc++] = word;
    return settings_read(settings, argc, argv, fault);
}

static void every_flag_is_understood(void **state)
{
    (void)state;
    struct settings s;
    struct fault fault;
    assert_int_equal(
        read_line("--epochs 3 --images=500 --batch 16 --lr 0.5 --optimizer sgd --seed 7 --data /d", &s,
                  &fault),
        0);
    assert_int_equal(s.epochs, 3);
    assert_int_equal(s.images, 500);
    assert_int_equal(s.batch, 16);
    assert_true(s.rate == 0.5);
    assert_int_equal(s.rule, EXCHANGE_SGD);
    assert_int_equal(s.seed, 7);
    assert_string_equal(s.data, "/d");
    assert_int_equal(
        read_line("--single --parts 4 --json=f --uneven --constant --progress rewrite", &s, &fault), 0);
    assert_true(s.single && s.uneven && s.constant);
    assert_int_equal(s.parts, 4);
    assert_string_equal(s.json, "f");
    assert_int_equal(s.progress, PROGRESS_REWRITE);
}

static void bad_lines_are_refused_with_a_remedy(void **state)
{
    (void)state;
    static const char *const lines[][3] = {
        {"--epoch 3", "--epoch", "--help"},         {"--epochs", "--epochs needs a value", "--epochs N"},
        {"--epochs x", "--epochs x", "whole"},      {"--epochs 0", "--epochs 0", "from 1"},
        {"--epochs 1.5", "--epochs 1.5", "whole"},  {"--epochs 3x", "--epochs 3x", "whole"},
        {"--batch -1", "--batch -1", "from 1"},     {"--lr nan", "--lr nan", "number"},
        {"--lr 1e99", "--lr 1e99", "number"},       {"--optimizer adam", "adam", "sgd|momentum"},
        {"--optimizer mom", "mom", "sgd|momentum"}, {"--single=1", "takes no value", "leave out"},
        {"--parts 4", "--parts", "--single"},       {"extra", "extra", "--help"},
        {"--plot a", "--plot", "RESULT.json"},      {"--seed 0x10z", "--seed", "whole"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct settings s;
        struct fault fault;
        if (read_line(lines[i][0], &s, &fault) != -1)
            fail_msg("%s was taken", lines[i][0]);
        assert_int_equal(fault.status, FAULT_USAGE);
        if (strstr(fault.text, lines[i][1]) == NULL || strstr(fault.text, lines[i][2]) == NULL)
            fail_msg("%s gives: %s", lines[i][0], fault.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flag_is_understood),
        cmocka_unit_test(bad_lines_are_refused_with_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
