/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "perf/diff.h"

static char before[] = "/tmp/stepgate-diff-a-XXXXXX", after[] = "/tmp/stepgate-diff-b-XXXXXX";
static char out[4096], text[512];

/* write_file -- the whole of a file. */
static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

/* diff -- of two texts. */
static enum test_end diff(const char *a, const char *b)
{
    FILE *screen = fmemopen(out, sizeof(out), "w");

    write_file(before, a);
    write_file(after, b);
    text[0] = '\0';
    enum test_end end = diff_files(before, after, 0.02, screen, text, sizeof(text));
    fclose(screen);
    return end;
}

#define RESULT(test, rows) "{\"schema\": 1, \"test\": \"" test "\", \"rows\": [" rows "]}"
#define BANDWIDTH(size, mean, least, most)                                                                   \
    "{\"size_bytes\": " size ", \"bw_bytes_per_s\": " mean ", \"bw_bytes_per_s_min\": " least                \
    ", \"bw_bytes_per_s_max\": " most "}"
#define LATENCY(median, deviation, n)                                                                        \
    "{\"lat_ns_p50\": " median ", \"lat_ns_stdev\": " deviation ", \"iterations\": " n "}"

static void within_the_noise_of_the_windows_nothing_has_changed(void **state)
{
    (void)state;

    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1e9", "0.8e9", "1.2e9")),
                          RESULT("write_bw", BANDWIDTH("64", "0.85e9", "0.8e9", "0.9e9"))),
                     TEST_OK);
    assert_non_null(strstr(out, "the same"));
}

static void beyond_the_noise_a_row_is_slower_and_the_status_says_so(void **state)
{
    (void)state;

    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1e9", "0.99e9", "1.01e9")),
                          RESULT("write_bw", BANDWIDTH("64", "0.9e9", "0.89e9", "0.91e9"))),
                     TEST_FAILED);
    assert_non_null(strstr(out, "slower"));
    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1e9", "0.99e9", "1.01e9")),
                          RESULT("write_bw", BANDWIDTH("64", "1.1e9", "1.09e9", "1.11e9"))),
                     TEST_OK);
    assert_non_null(strstr(out, "faster"));
}

static void of_latencies_less_is_better_and_many_samples_are_surer(void **state)
{
    (void)state;

    assert_int_equal(diff(RESULT("write_lat", LATENCY("1000", "400", "100")),
                          RESULT("write_lat", LATENCY("1100", "400", "100"))),
                     TEST_OK);
    assert_int_equal(diff(RESULT("write_lat", LATENCY("1000", "400", "10000")),
                          RESULT("write_lat", LATENCY("1100", "400", "10000"))),
                     TEST_FAILED);
    assert_int_equal(diff(RESULT("write_lat", LATENCY("1100", "400", "10000")),
                          RESULT("write_lat", LATENCY("1000", "400", "10000"))),
                     TEST_OK);
    assert_non_null(strstr(out, "faster"));
}

static void rows_are_found_by_what_they_measure(void **state)
{
    (void)state;

    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1e9", "1e9",
                                                       "1e9") "," BANDWIDTH("128", "2e9", "2e9", "2e9")),
                          RESULT("write_bw", BANDWIDTH("128", "2e9", "2e9",
                                                       "2e9") "," BANDWIDTH("64", "1e9", "1e9", "1e9"))),
                     TEST_OK);
    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1e9", "1e9", "1e9")),
                          RESULT("write_bw", BANDWIDTH("128", "1e9", "1e9", "1e9"))),
                     TEST_FAILED);
    assert_non_null(strstr(out, "is missing in the second"));
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;

    assert_int_equal(diff(RESULT("write_bw", ""), RESULT("write_bw", "")), TEST_REFUSED);
    assert_int_equal(diff(RESULT("write_bw", BANDWIDTH("64", "1", "1", "1")),
                          RESULT("read_bw", BANDWIDTH("64", "1", "1", "1"))),
                     TEST_REFUSED);
    assert_non_null(strstr(text, "compare results of one test"));
    assert_int_equal(diff("not json", RESULT("write_bw", "")), TEST_REFUSED);
    assert_int_equal(diff("{\"schema\": 99, \"test\": \"x\", \"rows\": []}", RESULT("write_bw", "")),
                     TEST_REFUSED);
    assert_int_equal(diff("[]", RESULT("write_bw", "")), TEST_REFUSED);
    assert_int_equal(diff_files("/nowhere/a.json", after, 0.02, stdout, text, sizeof(text)), TEST_REFUSED);
    assert_non_null(strstr(text, "cannot read /nowhere/a.json"));
}

/* prepare -- two files. */
static int prepare(void **state)
{
    int a = mkstemp(before), b = mkstemp(after);
    (void)state;

    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return a < 0 || b < 0;
}

/* clean -- no files. */
static int clean(void **state)
{
    (void)state;
    unlink(before);
    unlink(after);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_the_noise_of_the_windows_nothing_has_changed),
        cmocka_unit_test(beyond_the_noise_a_row_is_slower_and_the_status_says_so),
        cmocka_unit_test(of_latencies_less_is_better_and_many_samples_are_surer),
        cmocka_unit_test(rows_are_found_by_what_they_measure),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };

    return cmocka_run_group_tests(tests, prepare, clean);
}
