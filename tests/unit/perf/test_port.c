/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "perf/port.h"

static void what_is_no_device_has_no_conditions(void **state)
{
    (void)state;

    assert_null(port_new("shm", NULL));
    assert_null(port_new("../net", NULL));
    json_t *counters = port_counters("shm", 1);
    assert_int_equal(json_object_size(counters), 0);
    json_decref(counters);
}

static void deltas_are_of_what_has_changed(void **state)
{
    json_t *before = json_pack("{s:i,s:i}", "sent", 10, "lost", 3);
    json_t *after = json_pack("{s:i,s:i,s:i}", "sent", 25, "lost", 3, "new", 2);
    json_t *deltas = port_deltas(before, after);
    (void)state;

    assert_int_equal(json_object_size(deltas), 2);
    assert_int_equal(json_integer_value(json_object_get(deltas, "sent")), 15);
    assert_int_equal(json_integer_value(json_object_get(deltas, "new")), 2);
    json_decref(before);
    json_decref(after);
    json_decref(deltas);
}

static void the_line_tells_of_a_path_only_where_there_is_one(void **state)
{
    json_t *c = json_pack("{s:s,s:i,s:s,s:s,s:n}", "device", "x0", "port", 1, "link_layer", "Ethernet",
                          "rate", "10 Gb/sec", "numa_node");
    char line[256];
    (void)state;

    port_line(c, line, sizeof(line));
    assert_string_equal(line, "x0 port 1: Ethernet, 10 Gb/sec, no NUMA node");
    json_object_set_new(c, "mtu_bytes", json_integer(1024));
    port_line(c, line, sizeof(line));
    assert_string_equal(line + 44, ", MTU 1024, ack time-out 0 ms, 0 retries");
    json_object_set_new(c, "gid", json_string("fe80::1"));
    json_object_set_new(c, "gid_type", json_string("RoCE v2"));
    port_line(c, line, sizeof(line));
    assert_non_null(strstr(line, "no NUMA node, GID 0 fe80::1 (RoCE v2), MTU 1024,"));
    json_decref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_device_has_no_conditions),
        cmocka_unit_test(deltas_are_of_what_has_changed),
        cmocka_unit_test(the_line_tells_of_a_path_only_where_there_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
