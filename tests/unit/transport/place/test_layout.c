/* SPDX-License-Identifier: BSD-3-Clause */
/* Who runs where, chosen for machines that are described to hwloc by a line of text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/place/cpus.h"
#include "transport/place/layout.h"

#define TWO_NODES "node:2 core:4 pu:1"       /* processors 0-3 and 4-7 */
#define TWO_NODES_TWINS "node:2 core:4 pu:2" /* 0-7 and 8-15, two to a core */

static const struct nic on_node_1 = {.name = "mlx5_0", .node = 1};
static const struct nic on_none = {.name = "siw0", .node = -1};

struct choice {
    struct machine *machine;
    struct layout *layout;
};

/* choose -- what is chosen for a machine. */
static struct choice choose(const char *machine, const struct layout_wish *wish)
{
    struct choice choice = {NULL, NULL};

    assert_int_equal(machine_new(machine, &choice.machine), 0);
    assert_int_equal(layout_choose(choice.machine, wish, &choice.layout), 0);
    return choice;
}

/* done -- frees. */
static void done(struct choice *choice)
{
    layout_delete(&choice->layout);
    machine_delete(&choice->machine);
    assert_null(choice->layout);
    assert_null(choice->machine);
}

/* lanes -- the processors of a ps's lanes. */
static const char *lanes(const struct layout *layout, unsigned server)
{
    static char text[64];

    cpus_text(layout->lane_cpus + server * layout->lanes, layout->lanes, text, sizeof(text));
    return text;
}

/* worker -- the processors of a worker. */
static const char *worker(const struct layout *layout, unsigned rank)
{
    static char text[64];
    unsigned first = layout->worker_first[rank];

    cpus_text(layout->worker_cpus + first, layout->worker_first[rank + 1] - first, text, sizeof(text));
    return text;
}

static void lanes_have_cores_of_their_own_beside_the_device_and_workers_the_others(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 1, 2, 2});
    assert_true(c.layout->pinned);
    assert_string_equal(lanes(c.layout, 0), "4-5");
    assert_int_equal(c.layout->memory[0], 1);
    assert_string_equal(worker(c.layout, 0), "6-7");
    assert_string_equal(worker(c.layout, 1), "0-3");
    assert_string_equal(c.layout->why, "node 1 is that of mlx5_0");
    done(&c);
}

static void no_worker_has_cores_of_two_nodes_and_each_has_one(void **state)
{
    (void)state;
    for (unsigned lanes_of = 1; lanes_of < 8; lanes_of++)
        for (unsigned workers = 1; workers + lanes_of <= 8; workers++) {
            struct choice c =
                choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 1, lanes_of, workers});
            assert_true(c.layout->pinned);
            for (unsigned w = 0; w < workers; w++) {
                unsigned first = c.layout->worker_first[w], end = c.layout->worker_first[w + 1];
                assert_true(end > first);
                assert_int_equal(c.layout->worker_cpus[first] / 4, c.layout->worker_cpus[end - 1] / 4);
            }
            done(&c);
        }
}

static void the_processors_of_one_core_are_not_shared_by_lanes_or_with_workers(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES_TWINS, &(struct layout_wish){"auto", &on_node_1, 1, 3, 5});
    assert_string_equal(lanes(c.layout, 0), "8,10,12");
    assert_string_equal(worker(c.layout, 0), "14-15");
    assert_string_equal(worker(c.layout, 4), "6-7");
    done(&c);
}

static void each_ps_of_a_machine_has_other_cores(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 2, 2, 4});
    assert_string_equal(lanes(c.layout, 0), "4-5");
    assert_string_equal(lanes(c.layout, 1), "6-7");
    assert_string_equal(worker(c.layout, 0), "0");
    assert_string_equal(worker(c.layout, 3), "3");
    done(&c);
}

static void lanes_that_find_no_core_beside_the_device_take_the_others_and_it_is_said(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 2, 3, 1});
    assert_string_equal(lanes(c.layout, 0), "4-6");
    assert_string_equal(lanes(c.layout, 1), "7,0-1");
    assert_int_equal(c.layout->memory[1], 1);
    assert_non_null(strstr(c.layout->why, "2 of 6 lanes find no core there"));
    done(&c);
}

static void fewer_cores_than_lanes_and_workers_pin_nothing_and_it_is_said(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 1, 2, 7});
    assert_false(c.layout->pinned);
    assert_int_equal(c.layout->memory[0], 1); /* is no matter of cores */
    assert_string_equal(worker(c.layout, 0), "");
    assert_string_equal(c.layout->why, "nothing is pinned, for there are 8 cores for 2 lanes and 7 workers; "
                                       "node 1 is that of mlx5_0");
    done(&c);
    c = choose(TWO_NODES, &(struct layout_wish){"auto", &on_node_1, 1, 2, 6});
    assert_true(c.layout->pinned);
    done(&c);
}

static void a_quota_of_processors_counts_like_cores_that_are_not_there(void **state)
{
    (void)state;
    struct choice c = {NULL, NULL};
    assert_int_equal(machine_new(TWO_NODES, &c.machine), 0);
    c.machine->at_once = 3;
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"auto", &on_node_1, 1, 2, 2}, &c.layout),
                     0);
    assert_false(c.layout->pinned);
    done(&c);
}

static void a_device_that_does_not_say_its_node_leaves_it_to_the_usable_processors(void **state)
{
    (void)state;
    struct choice c = choose("node:2 core:2 pu:1", &(struct layout_wish){"auto", &on_none, 1, 1, 1});
    assert_string_equal(lanes(c.layout, 0), "0");
    assert_int_equal(c.layout->memory[0], 0);
    assert_non_null(strstr(c.layout->why, "siw0 does not say at which node it is"));
    done(&c);
    c = choose("node:2 core:2 pu:1", &(struct layout_wish){"auto", &on_none, 1, 1, 9});
    assert_int_equal(c.layout->memory[0], -1); /* a guess decides on no memory */
    done(&c);
}

static void without_a_device_the_node_with_most_usable_cores_is_taken(void **state)
{
    (void)state;
    struct choice c = {NULL, NULL};
    assert_int_equal(machine_new(TWO_NODES, &c.machine), 0);
    c.machine->nodes[0].cores = 1; /* as if the inherited set were 3-7 */
    c.machine->cores += 3;
    c.machine->core_count -= 3;
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"auto", NULL, 1, 2, 2}, &c.layout), 0);
    assert_string_equal(lanes(c.layout, 0), "4-5");
    assert_int_equal(c.layout->memory[0], 1);
    assert_string_equal(worker(c.layout, 0), "6-7");
    assert_string_equal(worker(c.layout, 1), "3");
    c.machine->cores -= 3;
    done(&c);
}

static void a_machine_with_one_node_and_no_device_pins_nothing(void **state)
{
    (void)state;
    struct choice c = choose("core:8 pu:1", &(struct layout_wish){"auto", NULL, 1, 2, 2});
    assert_false(c.layout->pinned);
    assert_int_equal(c.layout->memory[0], -1);
    assert_string_equal(c.layout->why, "there is one node, and no RDMA device to be near");
    done(&c);
}

static void on_a_machine_with_one_node_a_device_still_gives_cores_of_their_own(void **state)
{
    (void)state;
    struct choice c = choose("core:4 pu:1", &(struct layout_wish){"auto", &on_none, 1, 2, 2});
    assert_string_equal(lanes(c.layout, 0), "0-1");
    assert_int_equal(c.layout->memory[0], -1);
    assert_string_equal(worker(c.layout, 1), "3");
    assert_string_equal(c.layout->why, "node 0 is the only one");
    done(&c);
}

static void a_node_can_be_asked_for(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"node:0", &on_node_1, 1, 2, 2});
    assert_string_equal(lanes(c.layout, 0), "0-1");
    assert_int_equal(c.layout->memory[0], 0);
    assert_string_equal(c.layout->why, "node 0 was asked for");
    struct layout *none = NULL;
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"node:7", NULL, 1, 1, 1}, &none),
                     -STEPGATE_EINVAL);
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"node:1", NULL, 1, 0, 0}, &none), 0);
    assert_string_equal(lanes(none, 0), "4-7"); /* threads whose number is not said: all its cores, in turn */
    layout_delete(&none);
    c.machine->nodes[1].cores = 0;
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"node:1", NULL, 1, 1, 1}, &none),
                     -STEPGATE_EINVAL);
    assert_null(none);
    done(&c);
}

static void a_device_at_a_node_without_usable_processors_leaves_it_to_the_others(void **state)
{
    (void)state;
    struct choice c = {NULL, NULL};
    assert_int_equal(machine_new(TWO_NODES, &c.machine), 0);
    c.machine->nodes[1].cores = 0;
    c.machine->core_count = 4;
    assert_int_equal(layout_choose(c.machine, &(struct layout_wish){"auto", &on_node_1, 1, 2, 1}, &c.layout),
                     0);
    assert_string_equal(lanes(c.layout, 0), "0-1");
    assert_int_equal(c.layout->memory[0], 0);
    assert_non_null(strstr(c.layout->why, "of which no processor may be used here"));
    done(&c);
}

static void lanes_take_a_list_in_turn_and_workers_what_is_not_in_it(void **state)
{
    (void)state;
    struct choice c = choose(TWO_NODES, &(struct layout_wish){"5,7", NULL, 2, 2, 3});
    assert_string_equal(lanes(c.layout, 0), "5,7");
    assert_string_equal(lanes(c.layout, 1), "5,7");
    assert_int_equal(c.layout->memory[0], 1);
    assert_string_equal(worker(c.layout, 0), "0-1");
    assert_string_equal(worker(c.layout, 2), "4,6");
    done(&c);
    c = choose(TWO_NODES, &(struct layout_wish){"0-7", NULL, 1, 0, 3}); /* nothing is left */
    assert_int_equal(c.layout->lanes, 8);
    assert_string_equal(worker(c.layout, 0), "");
    done(&c);
}

static void what_is_no_placement_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "x", "0-", "0,,1,", "100", "node:", "node:0x", "automatic", "3 4"};
    struct machine *machine = NULL;
    struct layout *layout = NULL;
    assert_int_equal(machine_new(TWO_NODES, &machine), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (layout_choose(machine, &(struct layout_wish){bad[i], NULL, 1, 1, 1}, &layout) != -STEPGATE_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
    assert_null(layout);
    machine_delete(&machine);
    assert_int_equal(machine_new("no machine", &machine), -STEPGATE_EINVAL);
    assert_null(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_have_cores_of_their_own_beside_the_device_and_workers_the_others),
        cmocka_unit_test(no_worker_has_cores_of_two_nodes_and_each_has_one),
        cmocka_unit_test(the_processors_of_one_core_are_not_shared_by_lanes_or_with_workers),
        cmocka_unit_test(each_ps_of_a_machine_has_other_cores),
        cmocka_unit_test(lanes_that_find_no_core_beside_the_device_take_the_others_and_it_is_said),
        cmocka_unit_test(fewer_cores_than_lanes_and_workers_pin_nothing_and_it_is_said),
        cmocka_unit_test(a_quota_of_processors_counts_like_cores_that_are_not_there),
        cmocka_unit_test(a_device_that_does_not_say_its_node_leaves_it_to_the_usable_processors),
        cmocka_unit_test(without_a_device_the_node_with_most_usable_cores_is_taken),
        cmocka_unit_test(a_machine_with_one_node_and_no_device_pins_nothing),
        cmocka_unit_test(on_a_machine_with_one_node_a_device_still_gives_cores_of_their_own),
        cmocka_unit_test(a_node_can_be_asked_for),
        cmocka_unit_test(a_device_at_a_node_without_usable_processors_leaves_it_to_the_others),
        cmocka_unit_test(lanes_take_a_list_in_turn_and_workers_what_is_not_in_it),
        cmocka_unit_test(what_is_no_placement_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
