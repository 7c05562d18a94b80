/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in huge pages where there are any is memory like any other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "transport/base/pages.h"

static void memory_is_zeroed_whole_pages_and_all_there(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 4096, 5000, (2u << 20) - 1, (2u << 20) + 1, 5u << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t length = 0;
        unsigned char *memory = pages_map(sizes[i], &length), resident[2048];
        assert_non_null(memory);
        assert_true(length >= sizes[i] && length % 4096 == 0 && length < sizes[i] + (2u << 20));
        assert_true(length / 4096 <= sizeof(resident));
        assert_int_equal(mincore(memory, length, resident), 0);
        for (uint64_t at = 0; at < length; at += 4096) {
            assert_true(resident[at / 4096] & 1);
            assert_int_equal(memory[at], 0);
            memory[at + 4095] = 1;
        }
        assert_int_equal(munmap(memory, length), 0);
    }
}

static void memory_that_cannot_be_is_no_memory(void **state)
{
    (void)state;
    uint64_t length = 7;
    assert_null(pages_map(UINT64_MAX, &length));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(length, 7);
}

static void what_kinds_there_are_is_one_phrase(void **state)
{
    (void)state;
    char text[128];
    pages_describe(text, sizeof(text));
    assert_memory_equal(text, "huge pages: ", 12);
    assert_null(strchr(text, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_whole_pages_and_all_there),
        cmocka_unit_test(memory_that_cannot_be_is_no_memory),
        cmocka_unit_test(what_kinds_there_are_is_one_phrase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
