/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport of somebody else's is known by its name from when it was registered on; a table with which no job could run is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stepgate/option.h"
#include "stepgate/transport.h"

/* shm_called -- a table like that of shm under another name */
static struct stepgate_transport_v1 shm_called(const char *name)
{
    const struct stepgate_transport_v1 *shm = NULL;

    assert_int_equal(stepgate_transport_find("shm", &shm), 0);
    struct stepgate_transport_v1 table = *shm;
    table.name = name;
    return table;
}

static void what_is_registered_is_found_and_the_knob_takes_it(void **state)
{
    static struct stepgate_transport_v1 table, same_name;
    const struct stepgate_transport_v1 *found = NULL;
    struct stepgate_options *options = NULL;
    const char *text = NULL;

    (void)state;
    table = same_name = shm_called("mine");
    assert_int_equal(stepgate_options_new(&options), 0);
    assert_int_equal(stepgate_transport_find("mine", &found), -STEPGATE_ENOENT);
    assert_null(found);
    assert_int_equal(stepgate_options_set(options, "transport", "mine"), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_transport_register(&table), 0);
    assert_int_equal(stepgate_transport_register(&table), 0);
    assert_int_equal(stepgate_transport_register(&same_name), -STEPGATE_EALREADY);
    assert_int_equal(stepgate_transport_find("mine", &found), 0);
    assert_ptr_equal(found, &table);
    assert_int_equal(stepgate_options_set(options, "transport", "mine"), 0);
    assert_int_equal(stepgate_options_get(options, "transport", &text), 0);
    assert_string_equal(text, "mine");
    stepgate_options_delete(&options);
}

static void a_table_that_cannot_work_is_refused(void **state)
{
    static const char *const names[] = {NULL, "", "with space", "Upper", "a-name-of-more-than-31-characters"};
    static const char *const taken[] = {"auto", "shm", "verbs", "simulated"};
    struct stepgate_transport_v1 table = shm_called("short");

    (void)state;
    assert_int_equal(stepgate_transport_register(NULL), -STEPGATE_EINVAL);
    table.size--;
    assert_int_equal(stepgate_transport_register(&table), -STEPGATE_EINVAL);
    table = shm_called("incomplete");
    table.endpoint_send = NULL;
    assert_int_equal(stepgate_transport_register(&table), -STEPGATE_EINVAL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        table = shm_called(names[i]);
        assert_int_equal(stepgate_transport_register(&table), -STEPGATE_EINVAL);
    }
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        table = shm_called(taken[i]);
        assert_int_equal(stepgate_transport_register(&table), -STEPGATE_EALREADY);
    }
}

static void null_is_refused(void **state)
{
    const struct stepgate_transport_v1 *found = NULL;

    (void)state;
    assert_int_equal(stepgate_transport_find(NULL, &found), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_transport_find("shm", NULL), -STEPGATE_EINVAL);
    assert_int_equal(stepgate_transport_find("verbs", &found), 0);
    assert_string_equal(found->name, "verbs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_registered_is_found_and_the_knob_takes_it),
        cmocka_unit_test(a_table_that_cannot_work_is_refused),
        cmocka_unit_test(null_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
