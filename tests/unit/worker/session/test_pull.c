/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reader concludes from the words of lanes, and that no copy that it lets pass is of two steps while a thread changes the memory. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "worker/session/pull.h"

/* pull_lane_set -- a lane of two groups that has applied two steps, and writes or has written two more. */
static void pull_lane_set(struct pull *pull, size_t seat, uint64_t even, uint64_t odd, uint64_t group0,
                          uint64_t group1)
{
    pull->lanes[seat].words = (struct pull_words){.writing = {even, odd}, .applied = {group0, group1}};
}

/* pull_two -- two units: one of each lane, groups 0 and 1. */
static void pull_two(struct pull *pull, bool each, uint64_t least)
{
    struct pull_unit unit = {.variable = 4, .shard = 1, .lane = 1, .group = 0, .bytes = 64};

    assert_int_equal(pull_new(pull, 2, 2), 0);
    pull_start(pull, each, least);
    assert_int_equal(pull_add(pull, &unit), 0);
    unit.shard = 0;
    unit.group = 1;
    assert_int_equal(pull_add(pull, &unit), 0);
    assert_int_equal(pull->lane_count, 2);
    assert_int_equal(pull->lanes[1].shard, 0);
    assert_int_equal(pull->lanes[1].lane, 1);
}

static void one_step_is_the_newest_that_all_lanes_have(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, false, 3);
    pull_lane_set(&pull, 0, 4, 5, 5, 4);
    pull_lane_set(&pull, 1, 4, 3, 3, 4);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    for (size_t u = 0; u < 2; u++)
        assert_true(pull.units[u].chosen && pull.units[u].step == 4);
    assert_int_equal(pull_judge(&pull), 0);
    pull_clear(&pull);
}

static void an_older_step_than_the_one_begun_is_waited_for(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, false, 5);
    pull_lane_set(&pull, 0, 4, 5, 5, 5);
    pull_lane_set(&pull, 1, 4, 5, 5, 4);
    assert_int_equal(pull_choose(&pull), PULL_WAIT);
    pull_lane_set(&pull, 1, 4, 5, 5, 5);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    pull_clear(&pull);
}

static void a_lane_that_moved_on_while_others_were_looked_at_is_looked_at_again(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, false, 0);
    pull_lane_set(&pull, 0, 6, 5, 5, 5); /* begins to write step 6 over step 4 */
    pull_lane_set(&pull, 1, 4, 3, 4, 4);
    assert_int_equal(pull_choose(&pull), PULL_AGAIN);
    assert_int_equal(pull.torn, 0);
    pull_clear(&pull);
}

static void one_torn_unit_spoils_all_of_one_step(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, false, 4);
    pull_lane_set(&pull, 0, 4, 3, 4, 4);
    pull_lane_set(&pull, 1, 4, 3, 4, 4);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    pull_lane_set(&pull, 1, 6, 5, 5, 5);
    assert_int_equal(pull_judge(&pull), 2);
    assert_int_equal(pull.torn, 1);
    pull_lane_set(&pull, 0, 6, 5, 6, 5);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    assert_int_equal(pull.units[0].step, 5);
    assert_int_equal(pull_judge(&pull), 0);
    pull_clear(&pull);
}

static void each_for_itself_keeps_what_held(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, true, 4);
    pull_lane_set(&pull, 0, 4, 5, 5, 4);
    pull_lane_set(&pull, 1, 4, 3, 4, 4);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    assert_int_equal(pull.units[0].step, 5);
    assert_int_equal(pull.units[1].step, 4);
    pull_lane_set(&pull, 1, 6, 5, 5, 5);
    assert_int_equal(pull_judge(&pull), 1);
    assert_true(pull.units[0].done && !pull.units[1].done);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    assert_true(!pull.units[0].chosen && pull.units[1].chosen);
    assert_int_equal(pull.units[1].step, 5);
    assert_int_equal(pull_judge(&pull), 0);
    assert_int_equal(pull.torn, 1);
    pull_clear(&pull);
}

static void each_for_itself_waits_only_for_what_is_too_old(void **state)
{
    struct pull pull;

    (void)state;
    pull_two(&pull, true, 5);
    pull_lane_set(&pull, 0, 4, 5, 5, 4);
    pull_lane_set(&pull, 1, 4, 3, 4, 4);
    assert_int_equal(pull_choose(&pull), PULL_READ);
    assert_true(pull.units[0].chosen && !pull.units[1].chosen);
    assert_int_equal(pull_judge(&pull), 1);
    assert_int_equal(pull_choose(&pull), PULL_WAIT);
    assert_int_equal(pull.torn, 0);
    pull_clear(&pull);
}

static void a_new_start_concerns_no_lane_of_the_last(void **state)
{
    const struct pull_unit unit = {.shard = 1, .lane = 0, .bytes = 1};
    struct pull pull;

    (void)state;
    pull_two(&pull, false, 0);
    for (int round = 0; round < 3; round++) {
        pull_start(&pull, false, 0);
        assert_int_equal(pull.lane_count, 0);
        for (int u = 0; u < 100; u++)
            assert_int_equal(pull_add(&pull, &unit), 0);
        assert_int_equal(pull.lane_count, 1);
        assert_int_equal(pull.count, 100);
    }
    pull_clear(&pull);
}

/* A lane as a thread: two parities, in each of which every word is the step that it is of. */
#define PULL_WORDS 4096
#define PULL_HALF (PULL_WORDS / 2) /* the elements of a group */
struct pull_memory {
    struct slot_words words;
    uint64_t parity[2][PULL_WORDS];
    _Atomic bool stop;
};

/* pull_store -- what a lane writes while others may read; the sanitizer is told nothing of it, the reader ignores its own part. */
static void pull_store(uint64_t *out, uint64_t step)
{
    for (size_t i = 0; i < PULL_HALF; i++)
        out[i] = step;
}

/* pull_lane_runs -- steps as fast as it can, with a rest now and then. */
static void *pull_lane_runs(void *context)
{
    struct pull_memory *memory = context;

    for (uint64_t step = 1; !atomic_load(&memory->stop); step++) {
        atomic_store_explicit(&memory->words.writing[step & 1], step, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        for (unsigned g = 0; g < 2; g++) {
            pull_store(memory->parity[step & 1] + g * PULL_HALF, step);
            atomic_store_explicit(&memory->words.applied[g], step, memory_order_release);
        }
        if (step % 64 == 0) {
            const struct timespec rest = {.tv_nsec = 30000};
            nanosleep(&rest, NULL);
        }
    }
    return NULL;
}

/* pull_once -- until it holds; returns how often it did not. */
static uint64_t pull_once(struct pull *pull, struct pull_memory *memory, uint64_t *copy, uint64_t least)
{
    pull_start(pull, pull->each, least);
    uint64_t torn = pull->torn;
    for (uint16_t g = 0; g < 2; g++) {
        const struct pull_unit unit = {
            .group = g, .offset = g * PULL_HALF * sizeof(uint64_t), .bytes = PULL_HALF * sizeof(uint64_t)};
        assert_int_equal(pull_add(pull, &unit), 0);
    }
    do {
        do
            pull_look(&memory->words, &pull->lanes[0].words);
        while (pull_choose(pull) != PULL_READ);
        for (size_t u = 0; u < pull->count; u++)
            if (pull->units[u].chosen)
                pull_copy((uint8_t *)copy + pull->units[u].offset,
                          (const uint8_t *)memory->parity[pull->units[u].step & 1] + pull->units[u].offset,
                          pull->units[u].bytes);
        pull_fence();
        pull_look(&memory->words, &pull->lanes[0].words);
    } while (pull_judge(pull) > 0);
    return pull->torn - torn;
}

/* pull_race -- pulls from a lane at work; every unit is of its step, in one step all are of the same. */
static void pull_race(bool each)
{
    struct pull_memory *memory = aligned_alloc(64, sizeof(*memory) + (64 - sizeof(*memory) % 64) % 64);
    static uint64_t copy[PULL_WORDS];
    uint64_t torn = 0, newest = 0;
    pthread_t thread;
    struct pull pull;

    assert_non_null(memory);
    memset(memory, 0, sizeof(*memory));
    assert_int_equal(pull_new(&pull, 1, 1), 0);
    pull.each = each;
    assert_int_equal(pthread_create(&thread, NULL, pull_lane_runs, memory), 0);
    for (int round = 0; round < 20000; round++) {
        torn += pull_once(&pull, memory, copy, newest);
        for (size_t i = 0; i < PULL_WORDS; i++)
            assert_int_equal(copy[i], pull.units[i / PULL_HALF].step);
        if (!each)
            assert_int_equal(pull.units[0].step, pull.units[1].step);
        for (size_t u = 0; u < 2; u++)
            assert_true(pull.units[u].step >= newest);
        newest = pull.units[0].step < pull.units[1].step ? pull.units[0].step : pull.units[1].step;
    }
    atomic_store(&memory->stop, true);
    pthread_join(thread, NULL);
    print_message("%d pulls up to step %llu, %llu copies did not hold\n", 20000, (unsigned long long)newest,
                  (unsigned long long)torn);
    assert_true(newest > 0);
    pull_clear(&pull);
    free(memory);
}

static void a_copy_of_one_step_is_never_torn(void **state)
{
    (void)state;
    pull_race(false);
}

static void a_unit_for_itself_is_never_torn(void **state)
{
    (void)state;
    pull_race(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_is_the_newest_that_all_lanes_have),
        cmocka_unit_test(an_older_step_than_the_one_begun_is_waited_for),
        cmocka_unit_test(a_lane_that_moved_on_while_others_were_looked_at_is_looked_at_again),
        cmocka_unit_test(one_torn_unit_spoils_all_of_one_step),
        cmocka_unit_test(each_for_itself_keeps_what_held),
        cmocka_unit_test(each_for_itself_waits_only_for_what_is_too_old),
        cmocka_unit_test(a_new_start_concerns_no_lane_of_the_last),
        cmocka_unit_test(a_copy_of_one_step_is_never_torn),
        cmocka_unit_test(a_unit_for_itself_is_never_torn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
