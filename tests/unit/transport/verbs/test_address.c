/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "stepgate/transport.h"
#include "transport/verbs/address.h"
#include "transport/verbs/verbs.h"

/* address_round -- parses and formats. */
static void address_round(const char *text, const char *expected)
{
    struct sockaddr_storage address;
    char back[STEPGATE_ADDRESS_BYTES];

    assert_int_equal(address_parse(text, true, &address), 0);
    assert_int_equal(address_format((struct sockaddr *)&address, back, sizeof(back)), 0);
    assert_string_equal(back, expected);
}

static void addresses_survive_the_way_there_and_back(void **state)
{
    (void)state;
    address_round("10.1.2.3:4567", "10.1.2.3:4567");
    address_round("10.1.2.3", "10.1.2.3:0");
    address_round("[fe80::1]:65535", "[fe80::1]:65535");
    address_round("[::]:0", "[::]:0");
}

static void malformed_addresses_are_refused(void **state)
{
    const char *const bad[] = {
        "",         ":1",         "10.0.0.1:",   "10.0.0.1:x",  "10.0.0.1:65536", "fe80::1:2",
        "[fe80::1", "[fe80::1]x", "10.0.0.1:-1", "10.0.0.1:1 ", "[]:1",           "10.0.0.1:000001"};
    struct sockaddr_storage address;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(address_parse(bad[i], false, &address), -STEPGATE_EADDRESS);
    assert_int_equal(address_parse("10.0.0.1", false, &address), -STEPGATE_EADDRESS);
    assert_int_equal(address_parse(NULL, false, &address), -STEPGATE_EINVAL);
}

static void loopback_is_no_rdma_address_and_the_error_says_so(void **state)
{
    const struct stepgate_fabric_options options = {.size = sizeof(options), .address = "127.0.0.1"};
    struct stepgate_fabric *fabric = NULL;
    struct stepgate_error error = {.size = sizeof(error)};

    (void)state;
    assert_int_equal(verbs_transport()->fabric_open(&options, &fabric), -STEPGATE_ENODEVICE);
    assert_null(fabric);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, "127.0.0.1"));
    assert_non_null(strstr(error.remedy, "IP address of the network card"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_survive_the_way_there_and_back),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(loopback_is_no_rdma_address_and_the_error_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
