/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "perf/settings.h"

#define ALL_BITS ((UINT64_C(1) << SETTINGS_OPTIONS) - 1)

static struct settings settings;
static char text[1024];

/* parse -- arguments as a test that takes everything. */
static int parse(const char *a, const char *b, const char *c, const char *d)
{
    char *argv[] = {(char *)a, (char *)b, (char *)c, (char *)d};
    int argc = a == NULL ? 0 : b == NULL ? 1 : c == NULL ? 2 : d == NULL ? 3 : 4;

    memset(&settings, 0, sizeof(settings));
    text[0] = '\0';
    return settings_parse(&settings, "write_bw", ALL_BITS, true, argc, argv, text, sizeof(text));
}

static void letters_and_names_are_the_same(void **state)
{
    static const char *const spellings[][2] = {
        {"-n", "5000"}, {"-n5000", NULL}, {"--iters", "5000"}, {"--iters=5000", NULL}, {"-n", "5k"}};
    (void)state;

    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        assert_int_equal(parse(spellings[i][0], spellings[i][1], NULL, NULL), 0);
        assert_int_equal(settings.iterations, 5000);
        assert_true(settings.given == SETTINGS_BIT(SETTINGS_ITERATIONS));
    }
}

static void lists_and_units_are_understood(void **state)
{
    (void)state;

    assert_int_equal(parse("--parameters=25.6M,100k,1000", "-s", "64KiB,1MiB", NULL), 0);
    assert_int_equal(settings.parameters.count, 3);
    assert_int_equal(settings.parameters.value[0], 25600000);
    assert_int_equal(settings.parameters.value[1], 100000);
    assert_int_equal(settings.size.value[0], 65536);
    assert_int_equal(settings.size.value[1], 1048576);
    assert_int_equal(parse("-D", "2min", "--rewrite", "on"), 0);
    assert_true(settings.duration == 120);
    assert_true(settings.rewrite);
}

static void all_sizes_are_powers_of_two(void **state)
{
    (void)state;

    assert_int_equal(parse("-a", "10.0.0.1", NULL, NULL), 0);
    struct settings_list list = settings_sizes(&settings);
    assert_int_equal(list.count, 23);
    assert_int_equal(list.value[0], 2);
    assert_int_equal(list.value[22], 8388608);
    assert_string_equal(settings.server, "10.0.0.1");
}

static void what_is_no_value_is_refused_with_the_range(void **state)
{
    static const char *const bad[][2] = {
        {"-n", "0"},     {"-n", "x"},    {"-n", "-1"},       {"-n", ""},           {"-n", NULL},
        {"-n", "1.5"},   {"-n", "1e99"}, {"-s", "4,"},       {"-s", "4,,8"},       {"-s", "2GiB"},
        {"-D", "-1"},    {"-D", "nan"},  {"-D", "5 apples"}, {"--rewrite", "yes"}, {"-a=1", NULL},
        {"-p", "65536"}, {"--json", ""}, {"--slots", "65"},  {"-n", "0x10"}};
    (void)state;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i][0], bad[i][1], NULL, NULL), -1);
        assert_true(strstr(text, "does not take") != NULL);
    }
    assert_int_equal(parse("--port", "70000", NULL, NULL), -1);
    assert_string_equal(text, "-p (--port) does not take 70000: give N from 0 to 65535");
}

static void what_is_unknown_or_without_effect_is_refused(void **state)
{
    char *argv[] = {(char *)"-I", (char *)"64"};
    (void)state;

    assert_int_equal(parse("--frobnicate", NULL, NULL, NULL), -1);
    assert_true(strstr(text, "is not an option") != NULL);
    assert_int_equal(parse("host", "other", NULL, NULL), -1);
    assert_true(strstr(text, "one argument too many") != NULL);
    memset(&settings, 0, sizeof(settings));
    assert_int_equal(
        settings_parse(&settings, "apply", SETTINGS_BIT(SETTINGS_SLOTS), false, 2, argv, text, sizeof(text)),
        -1);
    assert_string_equal(text, "-I (--inline-size) has no effect on apply: leave it out; apply takes --slots");
    assert_true(settings.given == 0);
}

static void two_options_that_say_the_same_are_refused(void **state)
{
    (void)state;

    assert_int_equal(parse("-n", "5", "-D", "5"), -1);
    assert_true(strstr(text, "give one of them") != NULL);
    assert_int_equal(parse("-s", "5", "-a", NULL), -1);
    assert_int_equal(parse("-D", "5", "-a", NULL), 0);
}

static void what_has_no_effect_over_shared_memory_is_refused(void **state)
{
    (void)state;

    assert_int_equal(parse("--transport", "shm", "-d", "rxe0"), -1);
    assert_int_equal(parse("--transport", "shm", "-p", "1000"), -1);
    assert_int_equal(parse("--transport", "shm", "-l", "8"), -1);
    assert_int_equal(parse("--transport", "verbs", "-l", "8"), 0);
    assert_int_equal(parse("--transport", "verbs", "-d", "rxe0"), 0);
    assert_int_equal(parse("--transport", "verbs", "-p", "1000"), 0);
    assert_int_equal(parse("--address", "10.0.0.1", "-p", "1000"), -1);
}

static void settings_are_told_with_their_names(void **state)
{
    (void)state;

    assert_int_equal(parse("--tx-depth", "16", "--slots", "2,4"), 0);
    json_t *object = settings_object(&settings, SETTINGS_BIT(SETTINGS_DEPTH) | SETTINGS_BIT(SETTINGS_SLOTS) |
                                                    SETTINGS_BIT(SETTINGS_BIND));
    assert_int_equal(json_integer_value(json_object_get(object, "tx_depth")), 16);
    assert_int_equal(json_array_size(json_object_get(object, "slots")), 2);
    assert_null(json_object_get(object, "bind"));
    assert_int_equal(json_object_size(object), 2);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_and_names_are_the_same),
        cmocka_unit_test(lists_and_units_are_understood),
        cmocka_unit_test(all_sizes_are_powers_of_two),
        cmocka_unit_test(what_is_no_value_is_refused_with_the_range),
        cmocka_unit_test(what_is_unknown_or_without_effect_is_refused),
        cmocka_unit_test(two_options_that_say_the_same_are_refused),
        cmocka_unit_test(what_has_no_effect_over_shared_memory_is_refused),
        cmocka_unit_test(settings_are_told_with_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
