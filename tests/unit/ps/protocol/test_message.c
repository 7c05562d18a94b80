/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message comes out as it went in, and nothing but whole messages of a known kind is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/protocol/message.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

#define SEED 20240601
#define RANDOM_TRIALS 100000

/* message_fill -- random bytes. */
static void message_fill(struct random_source *random, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)random_next(random);
}

/* message_text -- a random text of up to size - 1 characters. */
static void message_text(struct random_source *random, char *text, size_t size)
{
    size_t n = random_below(random, size);

    for (size_t i = 0; i < n; i++)
        text[i] = (char)(1 + random_below(random, 255));
    text[n] = 0;
}

/* message_make -- a message with random numbers in the fields of its kind, and zeros in all others. */
static void message_make(struct random_source *random, int kind, struct message *m)
{
    memset(m, 0, sizeof(*m));
    m->kind = kind;
    uint32_t model = (uint32_t)random_below(random, 256);
    uint64_t step = random_next(random);

    switch (kind) {
    case MESSAGE_PROOF: message_fill(random, m->part, 32); break;
    case MESSAGE_WELCOME:
        m->shard = (uint32_t)random_next(random);
        m->shards = (uint32_t)random_next(random);
        m->workers = (uint32_t)random_next(random);
        m->lanes = (uint32_t)random_next(random);
        m->group_bytes = random_next(random);
        m->cut_bytes = random_next(random);
        break;
    case MESSAGE_MODEL_PART:
        m->model = model;
        m->offset = random_next(random);
        m->total = random_next(random);
        m->length = (uint32_t)random_below(random, MESSAGE_PART_BYTES + 1);
        message_fill(random, m->part, m->length);
        break;
    case MESSAGE_MODEL_CHECK:
        m->model = model;
        message_fill(random, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_MODEL_ASK: m->model = model; break;
    case MESSAGE_MODEL_OK:
    case MESSAGE_PARAMETERS:
    case MESSAGE_SNAPSHOT_READY:
        m->model = model;
        m->step = step;
        message_fill(random, m->descriptor.bytes, sizeof(m->descriptor.bytes));
        m->arena_offset = random_next(random);
        m->header_offset = random_next(random);
        m->words_offset = random_next(random);
        m->kept = (uint32_t)random_below(random, 256);
        break;
    case MESSAGE_SEAL:
        m->model = model;
        m->step = step;
        m->sequence = random_next(random);
        m->attempt = (uint32_t)random_next(random);
        m->weight = (double)random_next(random) / 3;
        m->norm = (double)random_next(random) / 7;
        m->finite = random_chance(random, 500);
        m->length = (uint32_t)random_below(random, MESSAGE_PART_BYTES + 1);
        message_fill(random, m->part, m->length);
        break;
    case MESSAGE_COMMIT:
    case MESSAGE_MEASURE:
        m->model = model;
        m->step = step;
        m->slot_kind = (uint32_t)random_next(random);
        m->set_kind = (uint32_t)random_below(random, MESSAGE_SET_NONE + 1);
        m->rank = (uint32_t)random_next(random);
        m->sequence = random_next(random);
        m->count = (uint32_t)random_next(random);
        message_fill(random, (uint8_t *)m->hyper, sizeof(m->hyper));
        m->length = (uint32_t)random_below(random, MESSAGE_RANKS_BYTES + 1);
        message_fill(random, m->part, m->length);
        break;
    case MESSAGE_COMPLETE:
        m->sequence = random_next(random);
        m->rank = (uint32_t)random_next(random);
        /* fall through */
    case MESSAGE_APPLIED:
        m->model = model;
        m->step = step;
        m->slot_kind = (uint32_t)random_next(random);
        break;
    case MESSAGE_TOKEN:
        m->model = model;
        m->step = step;
        m->verdict = (uint32_t)random_next(random);
        m->verdict_step = random_next(random);
        m->sequence = random_next(random);
        m->staleness = random_next(random);
        m->kept = (uint32_t)random_below(random, 256);
        m->count = (uint32_t)random_next(random);
        m->workers = (uint32_t)random_next(random);
        m->offset = random_next(random);
        break;
    case MESSAGE_ACCUMULATE:
    case MESSAGE_RELEASE:
    case MESSAGE_RELEASED:
        m->model = model;
        m->sequence = random_next(random);
        if (kind != MESSAGE_RELEASED)
            m->rank = (uint32_t)random_next(random);
        break;
    case MESSAGE_NORM:
        m->model = model;
        m->step = step;
        m->length = (uint32_t)random_below(random, MESSAGE_PART_BYTES + 1);
        message_fill(random, m->part, m->length);
        break;
    case MESSAGE_FORGET:
        m->model = model;
        m->rank = (uint32_t)random_next(random);
        m->sequence = random_next(random);
        m->total = random_next(random);
        break;
    case MESSAGE_TUNE:
        m->model = model;
        m->step = step;
        message_text(random, m->key, sizeof(m->key));
        message_text(random, m->value, sizeof(m->value));
        break;
    case MESSAGE_COUNTS:
        m->step = step;
        for (int i = 0; i < 4; i++)
            m->counters[i] = random_next(random);
        message_fill(random, (uint8_t *)m->powers, sizeof(m->powers));
        /* fall through */
    case MESSAGE_COUNTS_ASK:
    case MESSAGE_FORGOT:
    case MESSAGE_BACK:
        m->model = model;
        m->rank = (uint32_t)random_next(random);
        break;
    case MESSAGE_LATE: m->rank = (uint32_t)random_next(random); break;
    case MESSAGE_FIND: message_text(random, m->key, sizeof(m->key)); break;
    case MESSAGE_FOUND:
        m->model = model;
        m->total = random_next(random);
        break;
    case MESSAGE_WATCH: m->model = model; break;
    case MESSAGE_SNAPSHOT_TAKE:
        m->step = step;
        m->total = random_next(random);
        /* fall through */
    case MESSAGE_SNAPSHOT:
        m->what = (uint32_t)random_next(random);
        /* fall through */
    case MESSAGE_SNAPSHOT_DONE:
        m->model = model;
        m->offset = random_next(random);
        break;
    case MESSAGE_BARRIER:
    case MESSAGE_BARRIER_OVER: m->step = step; break;
    case MESSAGE_CHECKPOINT:
        m->model = model;
        m->offset = random_next(random);
        break;
    case MESSAGE_CHECKPOINT_TAKE:
    case MESSAGE_RESTORE:
    case MESSAGE_RESTORED:
        m->model = model;
        m->step = step;
        break;
    case MESSAGE_CHECKPOINT_WRITTEN:
        m->model = model;
        m->step = step;
        m->total = random_next(random);
        message_fill(random, m->fingerprint, sizeof(m->fingerprint));
        break;
    case MESSAGE_CHECKPOINT_PROBE: message_text(random, m->key, sizeof(m->key)); break;
    case MESSAGE_AUX:
        m->model = model;
        m->what = (uint32_t)random_next(random);
        m->offset = random_next(random);
        m->length = (uint32_t)random_below(random, MESSAGE_PART_BYTES + 1);
        message_fill(random, m->part, m->length);
        break;
    case MESSAGE_CHECKPOINT_DONE:
        m->offset = random_next(random);
        m->finite = random_chance(random, 500);
        /* fall through */
    case MESSAGE_CHECKPOINT_FAILED:
        m->model = model;
        m->step = step;
        if (m->finite)
            break;
        /* fall through */
    case MESSAGE_GONE:
    case MESSAGE_ABORT:
        if (kind == MESSAGE_GONE) {
            m->rank = (uint32_t)random_next(random);
            m->total = random_next(random);
        }
        m->error.size = sizeof(m->error);
        m->error.code = (int)(1 + random_below(random, UINT16_MAX));
        m->error.os_errno = (int)random_below(random, 134);
        m->error.role = (int)random_below(random, 4);
        m->error.rank = (int)random_below(random, 1000) - 1;
        m->error.step = step;
        m->error.waited_ms = (int64_t)random_below(random, 1000) - 1;
        message_text(random, m->error.host, sizeof(m->error.host));
        message_text(random, m->error.device, sizeof(m->error.device));
        message_text(random, m->error.text, sizeof(m->error.text));
        message_text(random, m->error.remedy, sizeof(m->error.remedy));
        break;
    default: break;
    }
}

/* message_same_long -- what is long in a message of this kind is equal. */
static void message_same_long(const struct message *a, const struct message *b)
{
    switch (a->kind) {
    case MESSAGE_CHECKPOINT_DONE:
        if (a->finite)
            return;
        /* fall through */
    case MESSAGE_CHECKPOINT_FAILED:
    case MESSAGE_GONE:
    case MESSAGE_ABORT:
        assert_int_equal(a->error.code, b->error.code);
        assert_int_equal(a->error.os_errno, b->error.os_errno);
        assert_int_equal(a->error.role, b->error.role);
        assert_int_equal(a->error.rank, b->error.rank);
        assert_true(a->error.step == b->error.step);
        assert_true(a->error.waited_ms == b->error.waited_ms);
        assert_string_equal(a->error.host, b->error.host);
        assert_string_equal(a->error.device, b->error.device);
        assert_string_equal(a->error.text, b->error.text);
        assert_string_equal(a->error.remedy, b->error.remedy);
        return;
    case MESSAGE_TUNE: assert_string_equal(a->value, b->value); /* fall through */
    case MESSAGE_CHECKPOINT_PROBE:
    case MESSAGE_FIND: assert_string_equal(a->key, b->key); return;
    case MESSAGE_PROOF: assert_memory_equal(a->part, b->part, 32); return;
    default: assert_memory_equal(a->part, b->part, a->length);
    }
}

/* message_same -- every field is equal, padding aside. */
static void message_same(const struct message *a, const struct message *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->model, b->model);
    assert_true(a->step == b->step);
    assert_int_equal(a->shard, b->shard);
    assert_int_equal(a->shards, b->shards);
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->lanes, b->lanes);
    assert_true(a->group_bytes == b->group_bytes);
    assert_true(a->cut_bytes == b->cut_bytes);
    assert_true(a->offset == b->offset);
    assert_true(a->total == b->total);
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->fingerprint, b->fingerprint, sizeof(a->fingerprint));
    assert_memory_equal(&a->descriptor, &b->descriptor, sizeof(a->descriptor));
    assert_true(a->arena_offset == b->arena_offset);
    assert_true(a->header_offset == b->header_offset);
    assert_int_equal(a->attempt, b->attempt);
    assert_memory_equal(&a->weight, &b->weight, sizeof(a->weight));
    assert_int_equal(a->slot_kind, b->slot_kind);
    assert_true(a->sequence == b->sequence && a->rank == b->rank && a->words_offset == b->words_offset);
    assert_memory_equal(&a->norm, &b->norm, sizeof(a->norm));
    assert_true(a->finite == b->finite && a->set_kind == b->set_kind && a->count == b->count);
    assert_memory_equal(a->hyper, b->hyper, sizeof(a->hyper));
    assert_memory_equal(a->powers, b->powers, sizeof(a->powers));
    assert_memory_equal(a->counters, b->counters, sizeof(a->counters));
    assert_true(a->staleness == b->staleness && a->what == b->what);
    assert_int_equal(a->verdict, b->verdict);
    assert_true(a->verdict_step == b->verdict_step && a->kept == b->kept);
    message_same_long(a, b);
}

static void every_kind_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int kind = MESSAGE_PROOF; kind <= MESSAGE_LATE; kind++)
        for (int i = 0; i < 50; i++) {
            struct message in, out;
            uint8_t data[MESSAGE_BYTES_MAX];
            message_make(&random, kind, &in);
            int length = message_pack(&in, data);
            assert_in_range(length, 1, MESSAGE_BYTES_MAX);
            assert_int_equal(data[0], kind);
            assert_int_equal(message_unpack(data, (size_t)length, &out), 0);
            message_same(&in, &out);
        }
}

static void the_longest_texts_of_an_abort_fit(void **state)
{
    (void)state;
    struct message in = {.kind = MESSAGE_ABORT, .error = {.code = STEPGATE_ELOST}}, out;
    uint8_t data[MESSAGE_BYTES_MAX];
    memset(in.error.host, 'h', sizeof(in.error.host) - 1);
    memset(in.error.device, 'd', sizeof(in.error.device) - 1);
    memset(in.error.text, 't', sizeof(in.error.text) - 1);
    memset(in.error.remedy, 'r', sizeof(in.error.remedy) - 1);
    int length = message_pack(&in, data);
    assert_true(length > 0);
    assert_int_equal(message_unpack(data, (size_t)length, &out), 0);
    message_same(&in, &out);
}

static void a_message_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int kind = MESSAGE_PROOF; kind <= MESSAGE_LATE; kind++) {
        struct message in, out;
        uint8_t data[MESSAGE_BYTES_MAX];
        message_make(&random, kind, &in);
        int length = message_pack(&in, data);
        for (int cut = 0; cut < length; cut++) {
            uint8_t *exact = malloc((size_t)cut + 1); /* no byte beyond the cut may be looked at */
            assert_non_null(exact);
            memcpy(exact, data, (size_t)cut);
            exact = realloc(exact, cut > 0 ? (size_t)cut : 1);
            assert_int_equal(message_unpack(exact, (size_t)cut, &out), -STEPGATE_EPROTOCOL);
            free(exact);
        }
    }
}

static void a_message_with_a_byte_too_many_is_refused(void **state)
{
    (void)state;
    struct random_source random;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int kind = MESSAGE_PROOF; kind <= MESSAGE_LATE; kind++) {
        struct message in, out;
        uint8_t data[MESSAGE_BYTES_MAX + 1] = {0};
        message_make(&random, kind, &in);
        int length = message_pack(&in, data);
        data[length] = 0;
        assert_int_equal(message_unpack(data, (size_t)length + 1, &out), -STEPGATE_EPROTOCOL);
    }
}

static void an_unknown_kind_is_refused(void **state)
{
    (void)state;
    struct message out;
    for (int kind = 0; kind < 256; kind++) {
        const uint8_t data[1] = {(uint8_t)kind};
        if (kind >= MESSAGE_PROOF && kind <= MESSAGE_LATE)
            continue;
        assert_int_equal(message_unpack(data, sizeof(data), &out), -STEPGATE_EPROTOCOL);
        const struct message in = {.kind = kind};
        uint8_t packed[MESSAGE_BYTES_MAX];
        assert_int_equal(message_pack(&in, packed), -STEPGATE_EINVAL);
        assert_string_equal(message_name(kind), "unknown");
    }
}

static void a_model_number_beyond_the_last_is_refused(void **state)
{
    (void)state;
    struct message in = {.kind = MESSAGE_MODEL_ASK, .model = 256}, out;
    uint8_t data[MESSAGE_BYTES_MAX];
    int length = message_pack(&in, data);
    assert_true(length > 0);
    assert_int_equal(message_unpack(data, (size_t)length, &out), -STEPGATE_EPROTOCOL);
}

static void a_part_longer_than_a_message_is_not_packed(void **state)
{
    (void)state;
    struct message in = {.kind = MESSAGE_MODEL_PART, .length = MESSAGE_PART_BYTES + 1};
    uint8_t data[MESSAGE_BYTES_MAX];
    assert_int_equal(message_pack(&in, data), -STEPGATE_EINVAL);
    in.length = 65536 + 8; /* its low 16 bits would do */
    assert_int_equal(message_pack(&in, data), -STEPGATE_EINVAL);
}

static void an_abort_that_names_no_error_is_refused(void **state)
{
    (void)state;
    struct message in = {.kind = MESSAGE_ABORT}, out;
    uint8_t data[MESSAGE_BYTES_MAX];
    int length = message_pack(&in, data);
    assert_true(length > 0);
    assert_int_equal(message_unpack(data, (size_t)length, &out), -STEPGATE_EPROTOCOL);
}

static void a_text_with_a_zero_inside_is_refused(void **state)
{
    (void)state;
    struct message in = {.kind = MESSAGE_ABORT, .error = {.code = STEPGATE_ELOST, .remedy = "abc"}}, out;
    uint8_t data[MESSAGE_BYTES_MAX];
    int length = message_pack(&in, data);
    assert_int_equal(data[length - 2], 'b');
    data[length - 2] = 0;
    assert_int_equal(message_unpack(data, (size_t)length, &out), -STEPGATE_EPROTOCOL);
}

/* message_take -- unpacks; a message that is taken packs to the same bytes again. Returns whether it was taken. */
static int message_take(const uint8_t *data, size_t length)
{
    struct message out;
    uint8_t again[MESSAGE_BYTES_MAX];
    int status = message_unpack(data, length, &out);

    if (status != 0) {
        assert_int_equal(status, -STEPGATE_EPROTOCOL);
        return 0;
    }
    assert_int_equal(message_pack(&out, again), length);
    assert_memory_equal(again, data, length);
    return 1;
}

static void random_bytes_are_refused_or_pack_to_the_same_again(void **state)
{
    (void)state;
    struct random_source random;
    int taken = 0;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < RANDOM_TRIALS; i++) {
        uint8_t data[64];
        size_t length = random_below(&random, sizeof(data) + 1);
        message_fill(&random, data, length);
        if (length > 0 && i % 2 == 0)
            data[0] = (uint8_t)(1 + random_below(&random, MESSAGE_SHARD_DONE));
        taken += message_take(data, length);
    }
    assert_true(taken > 100); /* else only refusals were tried */
}

static void damaged_messages_are_refused_or_pack_to_the_same_again(void **state)
{
    (void)state;
    struct random_source random;
    int taken = 0, refused = 0;
    print_message("seed %d\n", SEED);
    random_seed(&random, SEED);
    for (int i = 0; i < RANDOM_TRIALS; i++) {
        struct message in;
        uint8_t data[MESSAGE_BYTES_MAX];
        message_make(&random, (int)(1 + random_below(&random, MESSAGE_SHARD_DONE)), &in);
        int length = message_pack(&in, data);
        for (uint64_t n = random_below(&random, 4); n > 0; n--)
            data[random_below(&random, (uint64_t)length)] =
                random_chance(&random, 300) ? 0 : (uint8_t)random_next(&random);
        int was = message_take(data, (size_t)length);
        taken += was;
        refused += !was;
    }
    assert_true(taken > 1000);
    assert_true(refused > 1000);
}

static void every_kind_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = MESSAGE_PROOF; a <= MESSAGE_SHARD_DONE; a++) {
        assert_string_not_equal(message_name(a), "unknown");
        for (int b = MESSAGE_PROOF; b < a; b++)
            assert_string_not_equal(message_name(a), message_name(b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_out_as_it_went_in),
        cmocka_unit_test(the_longest_texts_of_an_abort_fit),
        cmocka_unit_test(a_message_cut_short_anywhere_is_refused),
        cmocka_unit_test(a_message_with_a_byte_too_many_is_refused),
        cmocka_unit_test(an_unknown_kind_is_refused),
        cmocka_unit_test(a_model_number_beyond_the_last_is_refused),
        cmocka_unit_test(a_part_longer_than_a_message_is_not_packed),
        cmocka_unit_test(an_abort_that_names_no_error_is_refused),
        cmocka_unit_test(a_text_with_a_zero_inside_is_refused),
        cmocka_unit_test(random_bytes_are_refused_or_pack_to_the_same_again),
        cmocka_unit_test(damaged_messages_are_refused_or_pack_to_the_same_again),
        cmocka_unit_test(every_kind_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
