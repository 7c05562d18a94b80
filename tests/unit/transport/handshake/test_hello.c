/* SPDX-License-Identifier: BSD-3-Clause */
/* A hello has the layout drawn in hello.h, strangers are told from members, and a refusal brings its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/base/random.h"
#include "transport/handshake/hello.h"

#define SEED 20240604

static const struct hello hello_sample = {
    .version = HELLO_VERSION,
    .role = 0x11,
    .purpose = 0x12,
    .rank = 0x24232221,
    .lane = 0x3231,
    .reason = 0x4241,
    .job = UINT64_C(0x5857565554535251),
    .nonce = {0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f},
    .incarnation = UINT64_C(0x7877767574737271),
    .workers = 0x84838281,
    .shards = 0x94939291};

/* The bytes of hello_sample, written out from the drawing in hello.h. */
static const uint8_t hello_bytes[STEPGATE_HELLO_BYTES] = {
    'S',  'G',  'A',  'T',  HELLO_VERSION, 0x00, 0x11, 0x12, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32,
    0x41, 0x42, 0x51, 0x52, 0x53,          0x54, 0x55, 0x56, 0x57, 0x58, 0x60, 0x61, 0x62, 0x63,
    0x64, 0x65, 0x66, 0x67, 0x68,          0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x71, 0x72,
    0x73, 0x74, 0x75, 0x76, 0x77,          0x78, 0x81, 0x82, 0x83, 0x84, 0x91, 0x92, 0x93, 0x94};

/* hello_same -- every field is equal. */
static void hello_same(const struct hello *a, const struct hello *b)
{
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->purpose, b->purpose);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->lane, b->lane);
    assert_int_equal(a->reason, b->reason);
    assert_true(a->job == b->job);
    assert_memory_equal(a->nonce, b->nonce, sizeof(a->nonce));
    assert_true(a->incarnation == b->incarnation);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->shards, b->shards);
}

static void a_hello_has_the_layout_that_is_drawn(void **state)
{
    (void)state;
    uint8_t out[STEPGATE_HELLO_BYTES];
    hello_pack(&hello_sample, out);
    assert_memory_equal(out, hello_bytes, sizeof(out));
}

static void a_hello_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct hello out;
    assert_int_equal(hello_unpack(hello_bytes, sizeof(hello_bytes), &out), 0);
    hello_same(&out, &hello_sample);
}

static void bytes_behind_a_hello_are_padding(void **state)
{
    (void)state;
    uint8_t padded[STEPGATE_HELLO_BYTES + 200] = {0};
    struct hello out;
    memcpy(padded, hello_bytes, sizeof(hello_bytes));
    assert_int_equal(hello_unpack(padded, sizeof(padded), &out), 0);
    hello_same(&out, &hello_sample);
}

static void a_hello_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    struct hello out;
    for (uint32_t cut = 0; cut < sizeof(hello_bytes); cut++)
        assert_int_equal(hello_unpack(hello_bytes, cut, &out), -STEPGATE_EPROTOCOL);
    assert_int_equal(hello_unpack(NULL, 0, &out), -STEPGATE_EPROTOCOL);
}

static void another_magic_is_another_program(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        uint8_t bytes[STEPGATE_HELLO_BYTES];
        struct hello out;
        memcpy(bytes, hello_bytes, sizeof(bytes));
        bytes[i] ^= 0x20;
        assert_int_equal(hello_unpack(bytes, sizeof(bytes), &out), -STEPGATE_EPROTOCOL);
    }
}

static void another_version_is_refused_with_both_named(void **state)
{
    (void)state;
    uint8_t bytes[STEPGATE_HELLO_BYTES];
    struct hello out;
    struct stepgate_error error = {.size = sizeof(error)};
    memcpy(bytes, hello_bytes, sizeof(bytes));
    bytes[4] = 0x39; /* 0x3039 is 12345 */
    bytes[5] = 0x30;
    assert_int_equal(hello_unpack(bytes, sizeof(bytes), &out), -STEPGATE_EVERSION);
    assert_int_equal(out.version, 12345);
    assert_true(out.job == hello_sample.job);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, "version 12345, this side 5"));
}

static void random_bytes_behind_the_magic_never_do_harm(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < 10000; i++) {
        uint8_t bytes[STEPGATE_HELLO_BYTES], again[STEPGATE_HELLO_BYTES];
        struct hello out;
        for (size_t b = 0; b < sizeof(bytes); b++)
            bytes[b] = (uint8_t)random_next(&random);
        memcpy(bytes, hello_bytes, 6);
        assert_int_equal(hello_unpack(bytes, sizeof(bytes), &out), 0);
        hello_pack(&out, again);
        assert_memory_equal(again, bytes, sizeof(bytes));
    }
}

static void a_member_of_the_same_job_belongs(void **state)
{
    (void)state;
    struct hello theirs = hello_sample;
    theirs.role ^= 1;
    theirs.rank ^= 1;
    theirs.nonce[0] ^= 1;
    theirs.incarnation ^= 1;
    assert_int_equal(hello_check(&hello_sample, &theirs), 0);
}

static void another_version_does_not_belong(void **state)
{
    (void)state;
    struct hello theirs = hello_sample;
    theirs.version++;
    theirs.job++; /* the version decides first: nothing behind it can be relied upon */
    assert_int_equal(hello_check(&hello_sample, &theirs), -STEPGATE_EVERSION);
}

static void another_job_does_not_belong(void **state)
{
    (void)state;
    struct hello theirs = hello_sample;
    theirs.job ^= UINT64_C(1) << 63;
    assert_int_equal(hello_check(&hello_sample, &theirs), -STEPGATE_EWRONGJOB);
}

static void another_count_of_workers_or_shards_does_not_belong(void **state)
{
    (void)state;
    struct hello theirs = hello_sample;
    theirs.workers++;
    assert_int_equal(hello_check(&hello_sample, &theirs), -STEPGATE_EMISMATCH);
    theirs = hello_sample;
    theirs.shards++;
    assert_int_equal(hello_check(&hello_sample, &theirs), -STEPGATE_EMISMATCH);
}

static void a_refusal_brings_its_reason(void **state)
{
    (void)state;
    static const int reasons[] = {STEPGATE_EWRONGJOB, STEPGATE_EVERSION, STEPGATE_ERANK, STEPGATE_EENDED};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            uint8_t bytes[STEPGATE_HELLO_BYTES];
            hello_refusal(7, sign * reasons[i], bytes);
            assert_int_equal(hello_reason(bytes, sizeof(bytes)), reasons[i]);
        }
}

static void a_refusal_may_name_who_is_lost(void **state)
{
    (void)state;
    uint8_t bytes[STEPGATE_HELLO_BYTES];
    struct hello theirs;
    hello_refusal_lost(7, STEPGATE_ROLE_WORKER, 3, bytes);
    assert_int_equal(hello_reason(bytes, sizeof(bytes)), STEPGATE_ELOST);
    assert_int_equal(hello_unpack(bytes, sizeof(bytes), &theirs), 0);
    assert_int_equal(theirs.lane, STEPGATE_ROLE_WORKER);
    assert_int_equal(theirs.rank, 3);
}

static void a_refusal_of_another_version_brings_its_reason_too(void **state)
{
    (void)state;
    uint8_t bytes[STEPGATE_HELLO_BYTES];
    hello_refusal(7, STEPGATE_EVERSION, bytes);
    bytes[4]++;
    assert_int_equal(hello_reason(bytes, sizeof(bytes)), STEPGATE_EVERSION);
}

static void what_is_no_refusal_has_no_reason(void **state)
{
    (void)state;
    uint8_t bytes[STEPGATE_HELLO_BYTES];
    assert_int_equal(hello_reason(NULL, 0), 0);
    assert_int_equal(hello_reason(NULL, STEPGATE_HELLO_BYTES), 0);
    assert_int_equal(hello_reason(hello_bytes, sizeof(hello_bytes)),
                     0); /* has a reason, but another purpose */
    hello_refusal(7, STEPGATE_ERANK, bytes);
    assert_int_equal(hello_reason(bytes, sizeof(bytes) - 1), 0);
    bytes[0] ^= 1;
    assert_int_equal(hello_reason(bytes, sizeof(bytes)), 0);
}

static void the_hash_of_a_job_is_fnv_1a(void **state)
{
    (void)state;
    assert_true(hello_job_hash("") == UINT64_C(0xcbf29ce484222325)); /* published test vectors */
    assert_true(hello_job_hash("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hello_job_hash("foobar") == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_has_the_layout_that_is_drawn),
        cmocka_unit_test(a_hello_comes_out_as_it_went_in),
        cmocka_unit_test(bytes_behind_a_hello_are_padding),
        cmocka_unit_test(a_hello_cut_short_anywhere_is_refused),
        cmocka_unit_test(another_magic_is_another_program),
        cmocka_unit_test(another_version_is_refused_with_both_named),
        cmocka_unit_test(random_bytes_behind_the_magic_never_do_harm),
        cmocka_unit_test(a_member_of_the_same_job_belongs),
        cmocka_unit_test(another_version_does_not_belong),
        cmocka_unit_test(another_job_does_not_belong),
        cmocka_unit_test(another_count_of_workers_or_shards_does_not_belong),
        cmocka_unit_test(a_refusal_brings_its_reason),
        cmocka_unit_test(a_refusal_may_name_who_is_lost),
        cmocka_unit_test(a_refusal_of_another_version_brings_its_reason_too),
        cmocka_unit_test(what_is_no_refusal_has_no_reason),
        cmocka_unit_test(the_hash_of_a_job_is_fnv_1a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
