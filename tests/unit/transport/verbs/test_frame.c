/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/verbs/frame.h"

static void header_has_the_documented_bytes(void **state)
{
    const struct frame frame = {.kind = FRAME_NOTIFY, .credits = 0x0102, .value = 0xa1b2c3d4};
    const uint8_t expected[FRAME_HEADER_BYTES] = {0x5a, 3, 0x02, 0x01, 0xd4, 0xc3, 0xb2, 0xa1};
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame back;

    (void)state;
    frame_pack(&frame, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_true(frame_unpack(bytes, sizeof(bytes), &back));
    assert_int_equal(back.kind, frame.kind);
    assert_int_equal(back.credits, frame.credits);
    assert_int_equal(back.value, frame.value);
}

static void message_must_be_as_long_as_it_says(void **state)
{
    uint8_t bytes[FRAME_BYTES] = {0};
    struct frame frame = {.kind = FRAME_MESSAGE, .value = 10}, back;

    (void)state;
    frame_pack(&frame, bytes);
    assert_true(frame_unpack(bytes, 18, &back));
    assert_false(frame_unpack(bytes, 17, &back));
    assert_false(frame_unpack(bytes, 19, &back));
    frame.value = FRAME_MESSAGE_BYTES;
    frame_pack(&frame, bytes);
    assert_true(frame_unpack(bytes, FRAME_BYTES, &back));
    frame.value = FRAME_MESSAGE_BYTES + 1;
    frame_pack(&frame, bytes);
    assert_false(frame_unpack(bytes, FRAME_BYTES + 1, &back));
    frame.value = 0;
    frame_pack(&frame, bytes);
    assert_false(frame_unpack(bytes, FRAME_HEADER_BYTES, &back));
    frame.value = UINT32_MAX - FRAME_HEADER_BYTES + 1; /* the sum would wrap to 0 */
    frame_pack(&frame, bytes);
    assert_false(frame_unpack(bytes, 0, &back));
}

static void anything_else_is_no_frame(void **state)
{
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame frame = {.kind = FRAME_CREDIT}, back;

    (void)state;
    frame_pack(&frame, bytes);
    assert_true(frame_unpack(bytes, sizeof(bytes), &back));
    for (uint32_t n = 0; n < FRAME_HEADER_BYTES; n++)
        assert_false(frame_unpack(bytes, n, &back));
    bytes[0] ^= 1;
    assert_false(frame_unpack(bytes, sizeof(bytes), &back));
    bytes[0] ^= 1;
    for (unsigned kind = 0; kind < 256; kind++) {
        bytes[1] = (uint8_t)kind;
        bool valid = kind == FRAME_OPEN || kind == FRAME_NOTIFY || kind == FRAME_CREDIT;
        assert_int_equal(frame_unpack(bytes, sizeof(bytes), &back), valid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_the_documented_bytes),
        cmocka_unit_test(message_must_be_as_long_as_it_says),
        cmocka_unit_test(anything_else_is_no_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
