/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that there is: the machine's, and the least of what the control groups around the process leave. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "transport/base/available.h"

#define MIB (UINT64_C(1) << 20)
static char root[64];

/* put -- a file below the root, with its folders. */
static void put(const char *name, const char *text)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* fresh -- a root with 1,000 MiB available in the machine, for a process in the group /a/b. */
static int fresh(void **state)
{
    (void)state;
    strcpy(root, "/tmp/stepgate-available-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("proc/meminfo", "MemTotal: 4096000 kB\nMemFree: 5 kB\nMemAvailable:    1024000 kB\n");
    put("proc/self/cgroup", "12:memory:/other\n0::/a/b\n");
    return 0;
}

/* gone -- the root. */
static int gone(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void without_limits_it_is_what_the_machine_has(void **state)
{
    (void)state;
    assert_int_equal(available_memory_in(root), 1000 * MIB);
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "77\n");
    assert_int_equal(available_memory_in(root), 1000 * MIB);
}

static void a_limit_leaves_what_is_not_used(void **state)
{
    (void)state;
    put("sys/fs/cgroup/a/b/memory.max", "524288000\n");     /* 500 MiB */
    put("sys/fs/cgroup/a/b/memory.current", "209715200\n"); /* 200 MiB, 50 of them of files */
    put("sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 9\ninactive_file 52428800\n");
    assert_int_equal(available_memory_in(root), 350 * MIB);
    put("sys/fs/cgroup/a/b/memory.current", "734003200\n"); /* more than the limit */
    assert_int_equal(available_memory_in(root), 0);
}

static void the_tightest_group_around_counts(void **state)
{
    (void)state;
    put("sys/fs/cgroup/a/b/memory.max", "524288000\n");
    put("sys/fs/cgroup/a/b/memory.current", "0\n");
    put("sys/fs/cgroup/a/memory.max", "104857600\n");
    put("sys/fs/cgroup/a/memory.current", "1048576\n");
    assert_int_equal(available_memory_in(root), 99 * MIB);
    put("sys/fs/cgroup/memory.max", "20971520\n"); /* the top, as a container sees it */
    put("sys/fs/cgroup/memory.current", "0\n");
    assert_int_equal(available_memory_in(root), 20 * MIB);
}

static void what_says_nothing_limits_nothing(void **state)
{
    (void)state;
    assert_true(available_memory_in("/tmp/stepgate-is-not-here") == UINT64_MAX);
    assert_true(available_memory() > MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_limits_it_is_what_the_machine_has, fresh, gone),
        cmocka_unit_test_setup_teardown(a_limit_leaves_what_is_not_used, fresh, gone),
        cmocka_unit_test_setup_teardown(the_tightest_group_around_counts, fresh, gone),
        cmocka_unit_test(what_says_nothing_limits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
