/* SPDX-License-Identifier: BSD-3-Clause */
/* What is packed is little-endian, comes out again, and nothing is written or read beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/base/bytes.h"

static void numbers_are_little_endian(void **state)
{
    (void)state;
    uint8_t data[15];
    const uint8_t expected[15] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0xf,
                                  0xe,  0xd,  0xc,  0xb,  0xa,  0x9,  0x8};
    struct bytes_writer w = {.data = data, .size = sizeof(data)};
    bytes_put_u8(&w, 0x01);
    bytes_put_u16(&w, 0x0203);
    bytes_put_u32(&w, 0x04050607);
    bytes_put_u64(&w, UINT64_C(0x08090a0b0c0d0e0f));
    assert_false(w.overflow);
    assert_int_equal(w.used, sizeof(data));
    assert_memory_equal(data, expected, sizeof(data));
}

static void everything_comes_out_as_it_went_in(void **state)
{
    (void)state;
    uint8_t data[64];
    char text[8];
    struct bytes_writer w = {.data = data, .size = sizeof(data)};
    bytes_put_u8(&w, 200);
    bytes_put_u16(&w, 60000);
    bytes_put_u32(&w, 4000000000u);
    bytes_put_u64(&w, UINT64_MAX - 1);
    bytes_put_f64(&w, -0.1);
    bytes_put_text(&w, "abc");
    bytes_put_text(&w, "");
    struct bytes_reader r = {.data = data, .size = w.used};
    assert_int_equal(bytes_get_u8(&r), 200);
    assert_int_equal(bytes_get_u16(&r), 60000);
    assert_true(bytes_get_u32(&r) == 4000000000u);
    assert_true(bytes_get_u64(&r) == UINT64_MAX - 1);
    assert_true(bytes_get_f64(&r) == -0.1);
    bytes_get_text(&r, text, sizeof(text));
    assert_string_equal(text, "abc");
    bytes_get_text(&r, text, sizeof(text));
    assert_string_equal(text, "");
    assert_false(r.underflow);
    assert_int_equal(r.used, r.size);
}

static void writing_beyond_the_end_writes_nothing_and_is_remembered(void **state)
{
    (void)state;
    uint8_t data[8];
    memset(data, 0xee, sizeof(data));
    struct bytes_writer w = {.data = data, .size = 6};
    bytes_put_u32(&w, 0);
    bytes_put_u32(&w, 0);
    assert_true(w.overflow);
    bytes_put_u8(&w, 0); /* would fit, but comes after a gap */
    assert_true(w.overflow);
    assert_int_equal(w.used, 4);
    for (size_t i = 4; i < sizeof(data); i++)
        assert_int_equal(data[i], 0xee);
}

static void reading_beyond_the_end_gives_zeros_and_is_remembered(void **state)
{
    (void)state;
    const uint8_t data[4] = {1, 2, 3, 4};
    struct bytes_reader r = {.data = data, .size = 3};
    assert_int_equal(bytes_get_u16(&r), 0x0201);
    assert_int_equal(bytes_get_u32(&r), 0);
    assert_true(r.underflow);
    assert_int_equal(bytes_get_u8(&r), 0); /* there is one left, but it comes after a gap */
}

static void a_text_longer_than_its_place_is_refused_and_ends(void **state)
{
    (void)state;
    uint8_t data[32];
    char text[8] = "zzz";
    struct bytes_writer w = {.data = data, .size = sizeof(data)};
    bytes_put_text(&w, "abcd");
    struct bytes_reader r = {.data = data, .size = w.used};
    bytes_get_text(&r, text, 4);
    assert_true(r.underflow);
    assert_string_equal(text, "");
}

static void a_text_with_a_zero_inside_is_refused(void **state)
{
    (void)state;
    const uint8_t data[5] = {3, 0, 'a', 0, 'b'};
    char text[8] = "zzz";
    struct bytes_reader r = {.data = data, .size = sizeof(data)};
    bytes_get_text(&r, text, sizeof(text));
    assert_true(r.underflow);
    assert_string_equal(text, "");
}

static void a_length_that_lies_is_refused(void **state)
{
    (void)state;
    const uint8_t data[4] = {0xff, 0xff, 'a', 'b'};
    static char text[70000];
    struct bytes_reader r = {.data = data, .size = sizeof(data)};
    bytes_get_text(&r, text, sizeof(text));
    assert_true(r.underflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(everything_comes_out_as_it_went_in),
        cmocka_unit_test(writing_beyond_the_end_writes_nothing_and_is_remembered),
        cmocka_unit_test(reading_beyond_the_end_gives_zeros_and_is_remembered),
        cmocka_unit_test(a_text_longer_than_its_place_is_refused_and_ends),
        cmocka_unit_test(a_text_with_a_zero_inside_is_refused),
        cmocka_unit_test(a_length_that_lies_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
