/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads run where the knob says, and a list that cannot be is refused. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/place/binding.h"
#include "transport/place/cpus.h"

/* allowed -- the processors this thread may use now. */
static cpu_set_t allowed(void)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

/* described -- what a binding says of itself. */
static const char *described(const struct binding *binding)
{
    static char text[128];

    binding_describe(binding, text, sizeof(text));
    return text;
}

static void none_binds_nothing(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    struct binding *binding = NULL;
    assert_int_equal(binding_new("none", &binding), 0);
    assert_string_equal(described(binding), "none");
    assert_int_equal(binding_apply(binding, 0), 0);
    assert_int_equal(binding_apply_memory(binding), 0);
    cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
    binding_delete(&binding);
    assert_null(binding);
}

static void auto_binds_nothing_when_there_are_not_enough_cores(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    struct binding *binding = NULL;
    char text[512];
    const struct nic nic = {.name = "rxe0", .node = 0};
    const struct layout_wish wish = {
        .bind = "auto", .nic = &nic, .servers = 1, .lanes = 2, .workers = 1000000};
    assert_int_equal(binding_choose(&wish, 0, &binding), 0);
    assert_string_equal(described(binding), "none");
    binding_explain(binding, text, sizeof(text));
    assert_non_null(strstr(text, "nothing is pinned, for there"));
    assert_int_equal(binding_apply(binding, 0), 0);
    cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
    binding_delete(&binding);
}

static void auto_gives_each_lane_a_processor_and_takes_it_back(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    struct binding *binding = NULL;
    const struct nic nic = {.name = "rxe0", .node = 0};
    const struct layout_wish wish = {.bind = "auto", .nic = &nic, .servers = 1, .lanes = 1};
    assert_int_equal(binding_choose(&wish, 0, &binding), 0);
    struct binding_past *past = binding_save(binding);
    assert_non_null(past);
    assert_int_equal(binding_apply(binding, 0), 0);
    assert_int_equal(binding_apply_memory(binding), 0);
    cpu_set_t after = allowed();
    assert_int_equal(CPU_COUNT(&after), 1);
    assert_memory_equal(described(binding), "auto (", 6);
    binding_restore(binding, &past);
    assert_null(past);
    after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
    binding_delete(&binding);
}

static void an_inherited_set_is_all_there_is(void **state)
{
    (void)state;
    cpu_set_t before = allowed(), one;
    struct binding *binding = NULL;
    char text[512];
    const struct nic nic = {.name = "rxe0", .node = 0};
    const struct layout_wish wish = {.bind = "auto", .nic = &nic, .servers = 1, .lanes = 1, .workers = 1};
    size_t last = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET(i, &before) ? i : last;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(binding_choose(&wish, 0, &binding), 0);
    binding_explain(binding, text, sizeof(text));
    assert_non_null(strstr(text, "there is 1 core for 1 lane and 1 worker"));
    binding_delete(&binding);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void a_list_gives_each_thread_one_of_its_processors_in_turn(void **state)
{
    (void)state;
    cpu_set_t before = allowed();
    size_t cpus[2] = {0}, count = 0;
    char list[32];
    for (size_t i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &before))
            cpus[count++] = i;
    assert_true(count > 0);
    snprintf(list, sizeof(list), count == 2 ? "%zu,%zu" : "%zu", cpus[0], cpus[1 % count]);
    struct binding *binding = NULL;
    assert_int_equal(binding_new(list, &binding), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(binding_apply(binding, i), 0);
        cpu_set_t after = allowed();
        assert_int_equal(CPU_COUNT(&after), 1);
        assert_true(CPU_ISSET(cpus[i % count], &after));
    }
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    binding_delete(&binding);
}

static void what_is_no_list_or_not_allowed_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "x",       "0x1",   "0-",    "-",      ",",          "0,",      "100000",
        "0 1", "0-99999", "nonee", "node:", "node:x", "node:99999", "node:-1", "node:0,1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct binding *binding = NULL;
        if (binding_new(bad[i], &binding) != -STEPGATE_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
        assert_null(binding);
    }
}

static void the_number_of_processors_is_that_of_the_affinity_at_most(void **state)
{
    (void)state;
    cpu_set_t before = allowed(), one;
    unsigned all = cpus_allowed();
    assert_in_range(all, 1, (unsigned)CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(cpus_allowed(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void a_quota_is_a_number_of_processors(void **state)
{
    (void)state;
    assert_int_equal(cpus_of_quota("max 100000\n"), 0);
    assert_int_equal(cpus_of_quota("200000 100000\n"), 2);
    assert_int_equal(cpus_of_quota("250000 100000\n"), 2);
    assert_int_equal(cpus_of_quota("50000 100000\n"), 1);
    assert_int_equal(cpus_of_quota(""), 0);
    assert_int_equal(cpus_of_quota("1 0"), 0);
}

static void numbers_are_told_in_runs(void **state)
{
    (void)state;
    static const unsigned cpus[] = {0, 1, 2, 5, 8, 9};
    char text[32], few[12];
    cpus_text(cpus, 6, text, sizeof(text));
    assert_string_equal(text, "0-2,5,8-9");
    cpus_text(cpus, 0, text, sizeof(text));
    assert_string_equal(text, "");
    cpus_text(cpus, 6, few, sizeof(few));
    assert_string_equal(few, "0-2,5...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_binds_nothing),
        cmocka_unit_test(auto_binds_nothing_when_there_are_not_enough_cores),
        cmocka_unit_test(auto_gives_each_lane_a_processor_and_takes_it_back),
        cmocka_unit_test(an_inherited_set_is_all_there_is),
        cmocka_unit_test(a_list_gives_each_thread_one_of_its_processors_in_turn),
        cmocka_unit_test(what_is_no_list_or_not_allowed_is_refused),
        cmocka_unit_test(the_number_of_processors_is_that_of_the_affinity_at_most),
        cmocka_unit_test(a_quota_is_a_number_of_processors),
        cmocka_unit_test(numbers_are_told_in_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
