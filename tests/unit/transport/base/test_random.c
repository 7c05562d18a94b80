/* SPDX-License-Identifier: BSD-3-Clause */
/* The same seed gives the same numbers everywhere, and they are spread evenly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/random.h"

static void the_sequence_of_a_seed_is_that_of_splitmix64(void **state)
{
    (void)state;
    struct random_source source;
    random_seed(&source, 0); /* the published first numbers of splitmix64 for seed 0 */
    assert_true(random_next(&source) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(random_next(&source) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(random_next(&source) == UINT64_C(0x06c45d188009454f));
}

static void a_seed_gives_the_same_again_and_another_gives_others(void **state)
{
    (void)state;
    struct random_source a, b, c;
    int same = 0;
    random_seed(&a, 7);
    random_seed(&b, 7);
    random_seed(&c, 8);
    for (int i = 0; i < 100; i++) {
        uint64_t number = random_next(&a);
        assert_true(number == random_next(&b));
        same += number == random_next(&c);
    }
    assert_int_equal(same, 0);
}

static void numbers_below_a_bound_are_below_it_and_all_occur(void **state)
{
    (void)state;
    struct random_source source;
    int seen[10] = {0};
    random_seed(&source, 1);
    for (int i = 0; i < 10000; i++) {
        uint64_t number = random_below(&source, 10);
        assert_true(number < 10);
        seen[number]++;
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 800, 1200);
    for (int i = 0; i < 100; i++)
        assert_true(random_below(&source, 1) == 0);
}

static void a_chance_comes_as_often_as_it_says(void **state)
{
    (void)state;
    struct random_source source;
    int hits = 0;
    random_seed(&source, 2);
    for (int i = 0; i < 100000; i++)
        hits += random_chance(&source, 250);
    assert_in_range(hits, 24000, 26000);
    for (int i = 0; i < 1000; i++) {
        assert_false(random_chance(&source, 0));
        assert_true(random_chance(&source, 1000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_of_a_seed_is_that_of_splitmix64),
        cmocka_unit_test(a_seed_gives_the_same_again_and_another_gives_others),
        cmocka_unit_test(numbers_below_a_bound_are_below_it_and_all_occur),
        cmocka_unit_test(a_chance_comes_as_often_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
