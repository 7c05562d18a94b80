/* SPDX-License-Identifier: BSD-3-Clause */
/* A manifest is read as it was written, with every bit; one that was changed anywhere is refused with its reason. Names are told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "tests/unit/ps/checkpoint/sample.h"
#include "transport/base/error.h"

#define TEXT_BYTES 65536

static char folder[] = "/tmp/stepgate-manifest-XXXXXX";
static char path[64];

/* sample -- a manifest with everything in it. */
static void sample(struct manifest *m)
{
    struct manifest_file file = {.bytes = 1234};

    assert_int_equal(sample_describe(m, "train", 100, 2), 0);
    for (uint32_t i = 0; i < 2; i++) {
        name_shard(i, 2, file.name);
        memset(file.digest, (int)i + 1, sizeof(file.digest));
        assert_int_equal(manifest_add_file(m, &file), 0);
    }
}

/* text_of -- the file; returns its length. */
static size_t text_of(char text[TEXT_BYTES])
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    size_t length = fread(text, 1, TEXT_BYTES - 1, file);
    fclose(file);
    text[length] = 0;
    return length;
}

/* put -- the file. */
static void put(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* refused -- with this code and these words. */
static void refused(int code, const char *words)
{
    struct manifest m;
    struct stepgate_error error;

    assert_int_equal(manifest_read(folder, &m), code);
    error_save(&error);
    if (strstr(error.text, words) == NULL)
        fail_msg("`%s` is not in: %s", words, error.text);
}

static void what_is_written_is_read(void **state)
{
    struct manifest m, got;
    uint64_t bits = 0;
    char first[TEXT_BYTES], second[TEXT_BYTES];

    (void)state;
    sample(&m);
    assert_int_equal(manifest_write(folder, &m), 0);
    assert_int_equal(manifest_read(folder, &got), 0);
    assert_int_equal(got.format, 1);
    assert_string_equal(got.model, "train");
    assert_int_equal(got.step, 100);
    assert_int_equal(got.shards, 2);
    assert_int_equal(got.workers, SAMPLE_WORKERS);
    assert_int_equal(got.written, 1700000000);
    assert_int_equal(got.description_bytes, m.description_bytes);
    assert_memory_equal(got.description, m.description, m.description_bytes);
    assert_memory_equal(got.fingerprint, m.fingerprint, sizeof(m.fingerprint));
    assert_int_equal(got.key_count, 1);
    assert_string_equal(got.keys[0].key, "learning_rate");
    assert_string_equal(got.keys[0].value, "0.25");
    assert_int_equal(got.change_count, 1);
    assert_int_equal(got.changes[0].step, 110);
    assert_string_equal(got.changes[0].value, "0.125");
    assert_int_equal(manifest_number(&got, MANIFEST_NO_RANK, "beta1_power", &bits), 1);
    assert_true(bits == SAMPLE_NUMBER);
    assert_int_equal(manifest_number(&got, 1, "accepted", &bits), 1);
    assert_int_equal(bits, 100);
    assert_int_equal(manifest_number(&got, 0, "accepted", &bits), 0);
    assert_int_equal(got.file_count, 2);
    assert_memory_equal(got.files, m.files, 2 * sizeof(*m.files));
    assert_int_equal(got.set_count, 1);
    assert_int_equal(got.sets[0].count, 2);
    assert_int_equal(got.sets[0].ranks[1], 1);
    text_of(first);
    assert_int_equal(manifest_write(folder, &got), 0);
    text_of(second);
    assert_string_equal(first, second);
    manifest_clear(&m);
    manifest_clear(&got);
    assert_null(got.files);
}

static void a_change_of_any_byte_is_noticed(void **state)
{
    struct manifest m;
    char text[TEXT_BYTES];

    (void)state;
    sample(&m);
    assert_int_equal(manifest_write(folder, &m), 0);
    manifest_clear(&m);
    size_t length = text_of(text);
    for (size_t i = 0; i < length; i++) {
        char was = text[i];
        text[i] = was == '1' ? '2' : '1';
        put(text, length);
        int status = manifest_read(folder, &m);
        if (status != -STEPGATE_EPROTOCOL && status != -STEPGATE_EVERSION) /* the format is a byte, too */
            fail_msg("byte %zu of %zu was changed, and it was read: %d", i, length, status);
        text[i] = was;
        put(text, i);
        assert_int_equal(manifest_read(folder, &m), -STEPGATE_EPROTOCOL);
    }
    put(text, length);
    assert_int_equal(manifest_read(folder, &m), 0);
    manifest_clear(&m);
}

/* forge -- the text with one part replaced, and the hash that then belongs to it. */
static void forge(const char *text, const char *part, const char *by)
{
    char out[TEXT_BYTES], hex[65];
    unsigned char digest[32];
    const char *at = strstr(text, part);

    assert_non_null(at);
    snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, by, at + strlen(part));
    char *tail = strstr(out, ",\n \"sha256\": \"");
    for (char *next = tail; next != NULL; next = strstr(next + 1, ",\n \"sha256\": \""))
        tail = next;
    assert_non_null(tail);
    crypto_hash_sha256(digest, (const unsigned char *)out, (size_t)(tail - out));
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    sprintf(tail, ",\n \"sha256\": \"%s\"\n}\n", hex);
    put(out, strlen(out));
}

static void what_does_not_fit_itself_is_refused_even_with_a_right_hash(void **state)
{
    static const char *const cases[][3] = {
        {"\"step\": 100,\n \"shards\"", "\"step\": -1,\n \"shards\"", "out of range"},
        {"\"shards\": 2", "\"shards\": 3", "one file of each shard"},
        {"\"shards\": 2", "\"shards\": 5000000000", "out of range"},
        {"\"workers\": 2", "\"workers\": 0", "no workers"},
        {"\"workers\": 2", "\"workers\": 1", "rank that is none"},
        {"\"workers\": 2", "\"workers\": \"2\"", "integer"},
        {"\"workers\": 2,", "", "workers"},
        {"\"workers\": 2,", "\"workers\": 2, \"more\": 1,", "more"},
        {"\"model\": \"train\"", "\"model\": \"\"", "no name"},
        {"\"model\": \"train\"", "\"model\": \"%0\"", "name"},
        {"shard-1-of-2", "../shard-1-of-2", "shard's name"},
        {"shard-1-of-2", "shard-0-of-2", "shard's name"},
        {"\"fingerprint\": \"", "\"fingerprint\": \"0", "SHA-256"},
        {"\"description\": \"", "\"description\": \"AAAA", "fingerprint"},
        {"\"description\": \"", "\"description\": \"*", "base64"},
        {"\"bytes\": 1234", "\"bytes\": -1234", "bytes"},
        {"0101010101010101", "01", "SHA-256"},
        {"\"bits\": \"8", "\"bits\": \"x", "hexadecimal"},
        {"\"keys\": {", "\"keys\": {\"x\": 3, ", "no text"},
        {"\"keys\": {", "\"keys\": {\"\": \"3\", ", "too long"},
        {"\"changes\": [", "\"changes\": [3, ", "object"},
        {"\"ranks\": [", "\"ranks\": [7, ", "rank that is none"},
        {"\"ranks\": [", "\"ranks\": [\"x\", ", "rank that is none"},
        {"\"sets\": [", "\"sets\": [{}, ", "step"},
    };
    struct manifest m;
    char text[TEXT_BYTES];

    (void)state;
    sample(&m);
    assert_int_equal(manifest_write(folder, &m), 0);
    manifest_clear(&m);
    text_of(text);
    forge(text, "0.125", "0.375"); /* a sound one, changed */
    assert_int_equal(manifest_read(folder, &m), 0);
    assert_string_equal(m.changes[0].value, "0.375");
    manifest_clear(&m);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forge(text, cases[i][0], cases[i][1]);
        refused(-STEPGATE_EPROTOCOL, cases[i][2]);
    }
    forge(text, "\"format\": 1", "\"format\": 2");
    refused(-STEPGATE_EVERSION, "format 2");
    forge(text, "\"format\": 1,", "");
    refused(-STEPGATE_EPROTOCOL, "no format");
    assert_int_equal(unlink(path), 0);
    refused(-STEPGATE_ENOENT, path);
}

static void what_does_not_fit_itself_is_not_written(void **state)
{
    struct manifest m;

    (void)state;
    sample(&m);
    m.shards = 1;
    assert_int_equal(manifest_write(folder, &m), -STEPGATE_EINVAL);
    m.shards = 2;
    m.description[0] ^= 1;
    assert_int_equal(manifest_write(folder, &m), -STEPGATE_EINVAL);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(manifest_add_key(&m, "", "1"), -STEPGATE_EINVAL);
    assert_int_equal(
        manifest_add_key(&m, "a", "0123456789012345678901234567890123456789012345678901234567890123"),
        -STEPGATE_EINVAL);
    manifest_clear(&m);
}

static void names_are_told_apart_and_read_back(void **state)
{
    static const char *const names[] = {
        "w",      "a/b",  "a#5",          "a%235",    "a",  "caf\xc3\xa9", "\xff\xfe", "\xc3",
        "%FF%FE", "a\nb", "\xed\xa0\x80", "\xc0\xaf", "x#", "..",          "."};
    char encoded[15][NAME_TENSOR_BYTES], back[STEPGATE_NAME_BYTES], out[NAME_TENSOR_BYTES],
        long_name[STEPGATE_NAME_BYTES];
    uint64_t row = 7;

    (void)state;
    for (size_t i = 0; i < 15; i++) {
        name_encode(names[i], encoded[i], NAME_TENSOR_BYTES);
        assert_true(name_decode(encoded[i], back, sizeof(back)));
        assert_string_equal(back, names[i]);
        assert_null(strchr(encoded[i], '#'));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(encoded[i], encoded[k]);
    }
    assert_string_equal(encoded[5], "caf\xc3\xa9");
    assert_string_equal(encoded[6], "%FF%FE");
    name_slots("momentum", "a#5", out);
    assert_string_equal(out, "slots/momentum/a%235");
    assert_false(name_split(out, out, &row));
    name_piece(out, 18446744073709551615u, out);
    assert_true(name_split(out, out, &row));
    assert_string_equal(out, "slots/momentum/a%235");
    assert_true(row == UINT64_MAX);
    assert_false(name_split("a#18446744073709551616", out, &row));
    assert_false(name_split("a#", out, &row));
    assert_false(name_split("a#05", out, &row));
    memset(long_name, '\xff', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    name_slots("0123456789012345678901234567890123456789012345678901234567890123", long_name, out);
    name_piece(out, UINT64_MAX, out);
    assert_true(name_split(out, out, &row));
}

static void folders_of_models_stay_within_theirs(void **state)
{
    char a[NAME_FILE_BYTES], b[NAME_FILE_BYTES], name[STEPGATE_NAME_BYTES];
    uint64_t step;

    (void)state;
    name_model("..", a);
    assert_string_equal(a, "%2E.");
    name_model("a/../b", a);
    assert_string_equal(a, "a%2F..%2Fb");
    name_model_read(a, name, sizeof(name));
    assert_string_equal(name, "a/../b");
    memset(name, '\xff', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    name_model(name, a);
    name[sizeof(name) - 2] = '\xfe';
    name_model(name, b);
    assert_string_not_equal(a, b);
    name_step(UINT64_MAX, a);
    assert_true(name_step_read(a, &step));
    assert_true(step == UINT64_MAX);
    name_step(0, a);
    assert_string_equal(a, "step-00000000000000000000");
    assert_true(name_step_read(a, &step));
    assert_int_equal(step, 0);
    assert_false(name_step_read("step-1", &step));
    assert_false(name_step_read("step-0000000000000000000x", &step));
    assert_false(name_step_read("step-99999999999999999999", &step));
    assert_true(name_is_shard("shard-0-of-2.safetensors"));
    assert_true(name_is_shard("shard-0-of-2.safetensors.part"));
    assert_false(name_is_shard("shard-0-of-2.safetensors.bak"));
    assert_false(name_is_shard("manifest.json"));
}

/* clean -- before each: nothing in the folder. */
static int clean(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* open_folder, close_folder -- for all. */
static int open_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/manifest.json", folder);
    return 0;
}
static int close_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_written_is_read, clean),
        cmocka_unit_test_setup(a_change_of_any_byte_is_noticed, clean),
        cmocka_unit_test_setup(what_does_not_fit_itself_is_refused_even_with_a_right_hash, clean),
        cmocka_unit_test_setup(what_does_not_fit_itself_is_not_written, clean),
        cmocka_unit_test(names_are_told_apart_and_read_back),
        cmocka_unit_test(folders_of_models_stay_within_theirs),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
