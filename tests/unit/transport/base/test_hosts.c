/* SPDX-License-Identifier: BSD-3-Clause */
/* Host lists are read in order; what is wrong with one is said with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/error.h"
#include "transport/base/hosts.h"

static void a_list_is_read_in_order(void **state)
{
    (void)state;
    struct hosts hosts;
    assert_int_equal(hosts_parse("ps_hosts", "a:1,b.example:65535,[fe80::1%eth0]:7,10.0.0.1:0", &hosts), 0);
    assert_int_equal(hosts.count, 4);
    assert_string_equal(hosts.entries[0].address, "a:1");
    assert_string_equal(hosts.entries[1].host, "b.example");
    assert_int_equal(hosts.entries[1].port, 65535);
    assert_string_equal(hosts.entries[2].address, "[fe80::1%eth0]:7");
    assert_string_equal(hosts.entries[2].host, "fe80::1%eth0");
    assert_int_equal(hosts.entries[3].port, 0);
    assert_true(hosts.entries[3].known);
    hosts_clear(&hosts);
    assert_int_equal(hosts.count, 0);
}

static void an_empty_list_has_no_entries(void **state)
{
    (void)state;
    struct hosts hosts;
    assert_int_equal(hosts_parse("ps_hosts", "", &hosts), 0);
    assert_int_equal(hosts.count, 0);
    hosts_clear(&hosts);
}

static void an_entry_may_stand_for_an_address_not_known(void **state)
{
    (void)state;
    struct hosts hosts;
    assert_int_equal(hosts_parse("ps_hosts", "-:0,b:1,-", &hosts), 0);
    assert_int_equal(hosts.count, 3);
    assert_false(hosts.entries[0].known);
    assert_string_equal(hosts.entries[0].address, "");
    assert_true(hosts.entries[1].known);
    assert_false(hosts.entries[2].known);
    hosts_clear(&hosts);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *entry;
        const char *words;
    } bad[] = {
        {"a:1,b", "entry 2 (character 5), 'b'", "port is missing"},
        {"a:1,,b:2", "entry 2 (character 5), ''", "empty"},
        {"a:1,", "entry 2", "empty"},
        {",", "entry 1", "empty"},
        {":1", "entry 1", "host is missing"},
        {"a:", "entry 1", "not a number"},
        {"a:x", "entry 1", "not a number"},
        {"a:65536", "entry 1", "not a number from 0 to 65535"},
        {"a:-1", "entry 1", "not a number"},
        {"a: 1", "entry 1", "not a number"},
        {"a:1 ,b:1", "entry 1", "not a number"},
        {"a b:1", "entry 1", "character"},
        {"a:1;b:1", "entry 1", "more than one colon"},
        {"fe80::1:5", "entry 1", "more than one colon"},
        {"[fe80::1", "entry 1", "closing ]"},
        {"[fe80::1]", "entry 1", "port is missing"},
        {"[fe80::1]5", "entry 1", "port is missing"},
        {"[]:5", "entry 1", "host is missing"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct hosts hosts = {.count = 77};
        struct stepgate_error error;
        assert_int_equal(hosts_parse("ps_hosts", bad[i].list, &hosts), -STEPGATE_EINVAL);
        assert_int_equal(hosts.count, 77); /* outputs are written on success only */
        error_save(&error);
        if (strstr(error.text, bad[i].entry) == NULL || strstr(error.text, bad[i].words) == NULL)
            fail_msg("'%s' gave: %s", bad[i].list, error.text);
        assert_string_not_equal(error.remedy, "");
        assert_ptr_equal(strstr(error.text, "ps_hosts"), error.text);
    }
}

static void a_host_of_any_length_is_taken_or_refused_whole(void **state)
{
    (void)state;
    char text[400];
    struct hosts_entry entry;
    for (size_t n = 1; n < 300; n++) {
        memset(text, 'h', n);
        memcpy(text + n, ":1", 3);
        int code = hosts_parse_address("listen", text, &entry);
        assert_int_equal(code, n + 2 < HOSTS_ADDRESS_BYTES ? 0 : -STEPGATE_EINVAL);
        if (code == 0)
            assert_string_equal(entry.address, text);
    }
}

static void what_is_wrong_is_said_of_an_entry_of_any_length(void **state)
{
    (void)state;
    struct hosts hosts;
    struct hosts_entry entry;
    struct stepgate_error error = {.size = sizeof(error)};
    char list[5000];
    memset(list, 'a', sizeof(list) - 1);
    list[sizeof(list) - 1] = 0;
    assert_int_equal(hosts_parse("ps_hosts", list, &hosts), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, "it is too long"));
    assert_int_equal(hosts_parse_address("listen", list, &entry), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, "it is too long"));
}

static void a_single_address_must_be_known(void **state)
{
    (void)state;
    struct hosts_entry entry;
    assert_int_equal(hosts_parse_address("listen", "-:0", &entry), -STEPGATE_EINVAL);
    assert_int_equal(hosts_parse_address("listen", "a:1,b:1", &entry), -STEPGATE_EINVAL);
    assert_int_equal(hosts_parse_address("listen", "", &entry), -STEPGATE_EINVAL);
}

static void an_address_to_listen_on_needs_no_port(void **state)
{
    (void)state;
    struct hosts_entry entry;
    assert_int_equal(hosts_parse_listen("listen", "10.0.0.1", &entry), 0);
    assert_string_equal(entry.address, "10.0.0.1:0");
    assert_int_equal(hosts_parse_listen("listen", "[::1]", &entry), 0);
    assert_string_equal(entry.address, "[::1]:0");
    assert_int_equal(hosts_parse_listen("listen", "host:12", &entry), 0);
    assert_int_equal(entry.port, 12);
    assert_int_equal(hosts_parse_listen("listen", "::1", &entry), -STEPGATE_EINVAL);
    assert_int_equal(hosts_parse_listen("listen", "", &entry), -STEPGATE_EINVAL);
}

static void hosts_that_nobody_connects_to_need_no_port(void **state)
{
    static const char *const bad[] = {"a,,b", "a:", "a:x", "[::1", "[::1]x", "a b", ":1"};
    struct hosts hosts;

    (void)state;
    assert_int_equal(hosts_parse_names("worker_hosts", "a,b:7,[::1],-", &hosts), 0);
    assert_int_equal(hosts.count, 4);
    assert_string_equal(hosts.entries[0].host, "a");
    assert_int_equal(hosts.entries[0].port, 0);
    assert_int_equal(hosts.entries[1].port, 7);
    assert_string_equal(hosts.entries[2].host, "::1");
    assert_false(hosts.entries[3].known);
    hosts_clear(&hosts);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(hosts_parse_names("worker_hosts", bad[i], &hosts), -STEPGATE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read_in_order),
        cmocka_unit_test(an_empty_list_has_no_entries),
        cmocka_unit_test(an_entry_may_stand_for_an_address_not_known),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(a_host_of_any_length_is_taken_or_refused_whole),
        cmocka_unit_test(what_is_wrong_is_said_of_an_entry_of_any_length),
        cmocka_unit_test(a_single_address_must_be_known),
        cmocka_unit_test(an_address_to_listen_on_needs_no_port),
        cmocka_unit_test(hosts_that_nobody_connects_to_need_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
