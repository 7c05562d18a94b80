/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-perf -- measures what stepgate does, and compares it with memory, perftest and Open MPI. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "perf/compare/table.h"
#include "perf/diff.h"
#include "perf/test/table.h"
#include "transport/base/streams.h"

#define PERF_TEXT_BYTES 2048

/* perf_list -- the table of tests or comparisons. */
static void perf_list(const struct perf_test *(*at)(size_t))
{
    const struct perf_test *test;

    for (size_t i = 0; (test = at(i)) != NULL; i++)
        printf("  %-14s %s\n", test->name, test->purpose);
}

/* perf_help -- of the whole program. */
static void perf_help(void)
{
    puts("usage: stepgate-perf TEST [OPTIONS]\n"
         "       stepgate-perf compare WITH [OPTIONS]\n"
         "       stepgate-perf diff BEFORE.json AFTER.json [--noise PERCENT]\n\n"
         "Measures one thing that stepgate does, and says under what conditions. `stepgate-perf TEST --help` "
         "tells the options that have\n"
         "an effect on a test; others are refused. Exit status: 0, 1 a goal missed, wrong data or slower, 2 "
         "usage, 75 a peer was lost or late.\n\n"
         "tests:");
    perf_list(test_at);
    puts("\ncomparisons (`ratio` more than 1: stepgate is better; `goal`: what it is to reach):");
    perf_list(compare_at);
}

/* perf_help_test -- of one test. */
static void perf_help_test(const char *prefix, const struct perf_test *test)
{
    printf("usage: stepgate-perf %s%s [OPTIONS]%s\n\n%c%s.%s%s\n\n", prefix, test->name,
           test->takes_server ? " [SERVER]" : "", test->purpose[0] - 'a' + 'A', test->purpose + 1,
           test->reads != NULL ? "\n" : "", test->reads != NULL ? test->reads : "");
    settings_help(stdout, test->takes | SETTINGS_COMMON);
}

/* perf_fail -- one line. */
static int perf_fail(const char *name, const char *text, int status)
{
    if (text[0] != '\0')
        fprintf(stderr, "stepgate-perf %s: %s\n", name, text);
    return status;
}

/* perf_late -- the deadline: only calls that are safe in a signal handler. */
static void perf_late(int number)
{
    static const char line[] =
        "stepgate-perf: the deadline is over: give a longer --deadline, or less to do\n";

    (void)number;
    ssize_t ignored = write(STDERR_FILENO, line, sizeof(line) - 1);
    (void)ignored;
    _exit(TEST_REQUEUE);
}

/* perf_deadline -- starts it. */
static void perf_deadline(double seconds)
{
    struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)seconds,
                     .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};

    signal(SIGALRM, perf_late);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* perf_run -- one test or comparison. */
static int perf_run(const char *prefix, const struct perf_test *test, int argc, char **argv)
{
    struct settings settings = {.deadline = 600};
    char text[PERF_TEXT_BYTES] = "", name[64];

    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            perf_help_test(prefix, test);
            return 0;
        }
    snprintf(name, sizeof(name), "%s%s", prefix, test->name);
    test->defaults(&settings);
    if (settings_parse(&settings, name, test->takes | SETTINGS_COMMON, test->takes_server, argc, argv, text,
                       sizeof(text)) != 0)
        return perf_fail(name, text, TEST_REFUSED);
    perf_deadline(settings.deadline);
    struct report *report = report_new(name, &settings, test->takes | SETTINGS_COMMON);
    if (report == NULL)
        return perf_fail(name, "no memory for the result", TEST_FAILED);
    int end = (int)test->run(&settings, report, text, sizeof(text));
    char lost[PERF_TEXT_BYTES] = "";
    if (end != TEST_REFUSED && report_finish(report, lost, sizeof(lost)) != 0) {
        (void)perf_fail(name, lost, TEST_FAILED);
        end = end == TEST_OK ? TEST_FAILED : end;
    }
    report_delete(&report);
    return perf_fail(name, text, end);
}

/* perf_diff -- two files and what counts as noise at least. */
static int perf_diff(int argc, char **argv)
{
    char text[PERF_TEXT_BYTES] = "";
    double least = 0.02;

    if (argc == 4 && strcmp(argv[2], "--noise") == 0) {
        char *end;
        least = strtod(argv[3], &end) / 100;
        if (end == argv[3] || *end != '\0' || !(least >= 0 && least <= 1))
            return perf_fail("diff", "--noise takes a number of percent from 0 to 100", TEST_REFUSED);
    } else if (argc != 2) {
        return perf_fail(
            "diff",
            "give two results, BEFORE.json and AFTER.json, and nothing else but --noise PERCENT behind them",
            TEST_REFUSED);
    }
    return perf_fail("diff", text, (int)diff_files(argv[0], argv[1], least, stdout, text, sizeof(text)));
}

/* perf_find -- the test of a name. */
static const struct perf_test *perf_find(const struct perf_test *(*at)(size_t), const char *name)
{
    const struct perf_test *test;

    for (size_t i = 0; (test = at(i)) != NULL; i++)
        if (strcmp(test->name, name) == 0)
            return test;
    return NULL;
}

int main(int argc, char **argv)
{
    const struct perf_test *test;
    int status;

    streams_ensure();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        perf_help();
        status = argc < 2 ? TEST_REFUSED : TEST_OK;
    } else if (strcmp(argv[1], "diff") == 0) {
        status = perf_diff(argc - 2, argv + 2);
    } else if (strcmp(argv[1], "compare") == 0) {
        test = argc > 2 ? perf_find(compare_at, argv[2]) : NULL;
        status = test != NULL
                     ? perf_run("compare ", test, argc - 3, argv + 3)
                     : perf_fail("compare", "say with what: stepgate-perf --help names the comparisons",
                                 TEST_REFUSED);
    } else {
        test = perf_find(test_at, argv[1]);
        status = test != NULL ? perf_run("", test, argc - 2, argv + 2)
                              : perf_fail(argv[1], "there is no such test: stepgate-perf --help names them",
                                          TEST_REFUSED);
    }
    return streams_finish("stepgate-perf", status);
}
