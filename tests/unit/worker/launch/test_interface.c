/* SPDX-License-Identifier: BSD-3-Clause */
/* The address that is found is one that the transport works at; where there is none, the error says so. */
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/error.h"
#include "worker/launch/interface.h"

static const char *works_at;     /* the fake transport opens a fabric there only */
static const char *works_device; /* and with this device only, unless NULL */
static int opened, tried;

/* fake_open -- as a device at one address. */
static int fake_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out)
{
    tried++;
    if (works_at == NULL || strcmp(options->address, works_at) != 0 ||
        (options->device != NULL && works_device != NULL && strcmp(options->device, works_device) != 0))
        return error_set(STEPGATE_ENODEVICE, 0, "", "not here");
    *out = malloc(1);
    opened++;
    return 0;
}

/* fake_delete -- the counterpart. */
static void fake_delete(struct stepgate_fabric **fabric)
{
    free(*fabric);
    *fabric = NULL;
    opened--;
}

static const struct stepgate_transport_v1 fake = {
    .size = sizeof(fake), .name = "fake", .fabric_open = fake_open, .fabric_delete = fake_delete};

static void the_address_of_the_device_is_found_and_the_fabric_closed_again(void **state)
{
    (void)state;
    char host[STEPGATE_ADDRESS_BYTES] = "";
    works_at = "127.0.0.1:0";
    works_device = "fake0";
    assert_int_equal(interface_find(&fake, "", host, sizeof(host)), 0);
    assert_string_equal(host, "127.0.0.1");
    assert_int_equal(interface_find(&fake, "fake0", host, sizeof(host)), 0);
    assert_string_equal(host, "127.0.0.1");
    assert_int_equal(opened, 0);
}

static void where_nothing_works_the_error_names_the_device(void **state)
{
    (void)state;
    char host[STEPGATE_ADDRESS_BYTES] = "kept";
    struct stepgate_error error;
    works_at = NULL;
    tried = 0;
    assert_int_equal(interface_find(&fake, "fake1", host, sizeof(host)), -STEPGATE_ENODEVICE);
    assert_true(tried > 0);
    assert_string_equal(host, "kept");
    error_save(&error);
    assert_non_null(strstr(error.text, "fake over device fake1"));
    assert_string_not_equal(error.remedy, "");
    works_at = "127.0.0.1:0";
    works_device = "fake0";
    assert_int_equal(interface_find(&fake, "fake1", host, sizeof(host)), -STEPGATE_ENODEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_of_the_device_is_found_and_the_fabric_closed_again),
        cmocka_unit_test(where_nothing_works_the_error_names_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
