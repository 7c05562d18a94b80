/* SPDX-License-Identifier: BSD-3-Clause */
/* What is recorded is what is replayed; a file that is not a record is refused by the number of its first wrong line; a full disk is not passed over. */
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

#include "ps/protocol/model.h"
#include "ps/server/sets.h"
#include "transport/base/error.h"

#define WORKERS 4
#define HEAD "stepgate-sets 1 workers 4\n"
#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define MODEL(name) "model strict 2 " HEX " " name "\n"

static char path[] = "/tmp/stepgate-sets-XXXXXX";

/* sets_text -- the file's text. */
static void sets_text(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* sets_whole -- the file's text, and the line that ends it. */
static void sets_whole(const char *text, size_t length)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char hex[2 * sizeof(hash) + 1];

    sets_text(text, length);
    crypto_hash_sha256(hash, (const unsigned char *)text, length);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fprintf(file, "end %s\n", sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash))) > 0);
    assert_int_equal(fclose(file), 0);
}

/* sets_read_back -- the whole file; returns its length. */
static size_t sets_read_back(char *text, size_t size)
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    size_t length = fread(text, 1, size, file);
    assert_int_equal(fclose(file), 0);
    return length;
}

/* declare -- a model of the job; its fingerprint is 0, 1, ... but for the first byte. */
static int declare(struct sets *sets, const char *name, int update, uint32_t replicas, uint8_t first)
{
    struct model *model;
    uint8_t fingerprint[MODEL_FINGERPRINT_BYTES];

    assert_int_equal(model_new(name, &model), 0);
    model->update = update;
    model->replicas_to_aggregate = replicas;
    for (size_t i = 0; i < sizeof(fingerprint); i++)
        fingerprint[i] = (uint8_t)i;
    fingerprint[0] = first;
    int status = sets_model(sets, model, fingerprint);
    model_delete(&model);
    return status;
}

/* commit -- a step of these ranks. */
static int commit(struct sets *sets, const char *model, uint64_t step, const uint32_t *ranks, uint32_t count)
{
    uint32_t copy[16];

    memcpy(copy, ranks, count * sizeof(*ranks));
    return sets_commit(sets, model, step, copy, count);
}

/* check_error -- this thread's last error says all of these, and what to do. */
static void check_error(const char *first, const char *second)
{
    struct stepgate_error error;

    error_save(&error);
    if (strstr(error.text, first) == NULL || strstr(error.text, second) == NULL)
        fail_msg("'%s' and '%s' are not in: %s", first, second, error.text);
    if (error.code == -STEPGATE_EINVAL || error.code == STEPGATE_EINVAL)
        assert_true(error.remedy[0] != 0);
}

/* check_refused -- the file is refused, by this line. */
static void check_refused(unsigned line, const char *why)
{
    struct sets *sets = NULL;
    char number[24];

    if (sets_open(NULL, path, WORKERS, &sets) != -STEPGATE_EINVAL)
        fail_msg("not refused, line %u", line);
    assert_null(sets);
    snprintf(number, sizeof(number), "line %u:", line);
    check_error(path, number);
    check_error(path, why);
}

/* check_wrong -- this text is refused, by this line. */
static void check_wrong(const char *text, size_t length, unsigned line)
{
    sets_whole(text, length);
    check_refused(line, "");
}

/* check_set -- what is replayed of a step. */
static void check_set(struct sets *sets, const char *model, uint64_t step, const uint32_t *ranks,
                      uint32_t count)
{
    const uint32_t *got;
    uint32_t n;

    assert_true(sets_replay(sets, model, step, &got, &n));
    assert_int_equal(n, count);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(got[i], ranks[i]);
}

static void what_is_recorded_is_replayed(void **state)
{
    (void)state;
    static const uint32_t some[] = {0, 2, 3}, one[] = {1}, all[] = {0, 1, 2, 3};
    const uint32_t *ranks = NULL;
    uint32_t count = 7;
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    assert_true(sets_records(sets) && !sets_replays(sets));
    assert_int_equal(declare(sets, "a model, of two", MODEL_STRICT, 3, 0), 0);
    assert_int_equal(declare(sets, "b", MODEL_STRICT, 4, 1), 0);
    for (uint64_t step = 0; step < 100; step++) { /* two models in turn, as they are committed */
        assert_int_equal(commit(sets, "a model, of two", step, some, 3), 0);
        assert_int_equal(commit(sets, "b", step, step % 3 == 0 ? one : all,
                                step % 3 == 0   ? 1
                                : step % 3 == 1 ? 0
                                                : 4),
                         0);
    }
    assert_int_equal(declare(sets, "-", MODEL_STRICT, 1, 2), 0);
    assert_int_equal(commit(sets, "-", UINT64_MAX, one, 1), 0);
    assert_int_equal(sets_close(&sets), 0);
    assert_null(sets);

    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_true(!sets_records(sets) && sets_replays(sets));
    for (uint64_t step = 100; step-- > 0;) {
        check_set(sets, "a model, of two", step, some, 3);
        check_set(sets, "b", step, step % 3 == 0 ? one : all, step % 3 == 0 ? 1 : step % 3 == 1 ? 0 : 4);
    }
    check_set(sets, "-", UINT64_MAX, one, 1);
    assert_false(sets_replay(sets, "b", 100, &ranks, &count));
    assert_false(sets_replay(sets, "a model", 0, &ranks, &count));
    assert_true(ranks == NULL && count == 7);
    assert_int_equal(sets_close(&sets), 0);
}

static void a_record_that_is_replayed_may_be_recorded_again(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") "0 0,1 m\n1 2,3 m\n2 - m\n";
    static char before[1024], after[1024];
    const uint32_t *ranks;
    uint32_t count;
    struct sets *sets;
    sets_whole(text, sizeof(text) - 1);
    size_t length = sets_read_back(before, sizeof(before));
    assert_int_equal(sets_open(path, path, WORKERS, &sets), 0);
    assert_true(sets_records(sets) && sets_replays(sets));
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0), 0);
    for (uint64_t step = 0; step < 3; step++) {
        assert_true(sets_replay(sets, "m", step, &ranks, &count));
        assert_int_equal(commit(sets, "m", step, ranks, count), 0);
    }
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_read_back(after, sizeof(after)), length);
    assert_memory_equal(before, after, length);
}

static void a_rank_that_contributes_more_than_once_is_recorded_once(void **state)
{
    (void)state;
    static const uint32_t often[] = {0, 0, 0, 1, 3, 3}, once[] = {0, 1, 3};
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 6, 0), 0);
    assert_int_equal(commit(sets, "m", 0, often, 6), 0);
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    check_set(sets, "m", 0, once, 3);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 6, 0), 0);
    assert_int_equal(commit(sets, "m", 0, often, 6), 0);
    assert_int_equal(sets_close(&sets), 0);
}

static void a_file_without_a_head_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"0 0,1 m\n",
                                        MODEL("m"),
                                        "stepgate-sets\n",
                                        "stepgate-sets x workers 4\n",
                                        "stepgate-sets 1\n",
                                        "stepgate-sets 1 workers\n",
                                        "stepgate-sets 1 workers x\n",
                                        "stepgate-sets 1 workers 4 \n",
                                        "\n"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        check_wrong(wrong[i], strlen(wrong[i]), 1);
    sets_text("", 0);
    check_refused(1, "cut off");
}

static void a_file_of_another_format_or_job_is_refused_with_both_values(void **state)
{
    (void)state;
    check_wrong("stepgate-sets 7 teams of 9\n", 27, 1);
    check_error("format 7", "format 1");
    check_wrong("stepgate-sets 1 workers 5\n", 26, 1);
    check_error("5 workers", "has 4");
}

static void a_model_of_another_kind_is_refused_with_both_values(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") "0 0,1 m\n";
    struct sets *sets;
    sets_whole(text, sizeof(text) - 1);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 3, 0), -STEPGATE_EINVAL);
    check_error("replicas_to_aggregate 2", "3 now");
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 0, 0), -STEPGATE_EINVAL); /* absent: T */
    check_error("replicas_to_aggregate 2", "4 now");
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0xab), -STEPGATE_EINVAL);
    check_error("0001020304050607", "ab01020304050607");
    assert_int_equal(declare(sets, "n", MODEL_STRICT, 2, 0), -STEPGATE_EINVAL);
    check_error("model n", "the first of them m");
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0), 0);
    assert_int_equal(sets_close(&sets), 0);
    sets_whole(HEAD "model lax 2 " HEX " m\n", strlen(HEAD "model lax 2 " HEX " m\n"));
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0), -STEPGATE_EINVAL);
    check_error("update=lax", "strict now");
    assert_int_equal(sets_close(&sets), 0);
}

static void other_modes_have_no_sets(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m");
    static const int modes[] = {MODEL_TF, MODEL_ASYNC, MODEL_BOUNDED};
    for (int replay = 0; replay < 2; replay++) {
        struct sets *sets;
        sets_whole(text, sizeof(text) - 1);
        assert_int_equal(sets_open(replay ? NULL : path, replay ? path : NULL, WORKERS, &sets), 0);
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
            assert_int_equal(declare(sets, "m", modes[i], 2, 0), -STEPGATE_EINVAL);
            check_error(model_update_name(modes[i]), "sets are recorded in strict mode only");
        }
        assert_int_equal(sets_close(&sets), 0);
    }
}

static void two_models_of_one_name_are_not_recorded(void **state)
{
    (void)state;
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0), 0);
    assert_int_equal(declare(sets, "m", MODEL_STRICT, 2, 0), -STEPGATE_EINVAL);
    check_error("model m", "told from others");
    assert_int_equal(sets_close(&sets), 0);
}

static void behind_the_end_of_the_record_no_step_is_taken(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("l") MODEL("m") MODEL("n") "0 0 l\n0 0,1 m\n1 2,3 m\n2 0 l\n";
    static const uint32_t ranks[] = {0, 1, 2, 3};
    struct sets *sets;
    sets_whole(text, sizeof(text) - 1);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_int_equal(commit(sets, "m", 0, ranks, 2), 0);
    assert_int_equal(commit(sets, "m", 1, ranks + 2, 2), 0);
    assert_int_equal(commit(sets, "m", 2, ranks, 2), -STEPGATE_EINVAL);
    check_error("m ends with step 1", "takes step 2");
    assert_int_equal(commit(sets, "n", 0, ranks, 2), -STEPGATE_EINVAL);
    check_error("no step of model n", "takes step 0");
    assert_int_equal(sets_close(&sets), 0);
}

static void a_step_of_others_than_the_recorded_ones_is_refused(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") "0 0,1 m\n1 - m\n";
    static const uint32_t ranks[] = {0, 1, 2, 3};
    struct sets *sets;
    sets_whole(text, sizeof(text) - 1);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_int_equal(commit(sets, "m", 0, ranks + 1, 2), -STEPGATE_EINVAL);
    check_error("made by workers 0,1", "by workers 1,2 now");
    assert_int_equal(commit(sets, "m", 0, ranks, 0), -STEPGATE_EINVAL);
    check_error("made by workers 0,1", "by nobody now");
    assert_int_equal(commit(sets, "m", 1, ranks, 1), -STEPGATE_EINVAL);
    check_error("made by nobody", "by workers 0 now");
    assert_int_equal(commit(sets, "m", 1, ranks, 0), 0);
    assert_int_equal(sets_close(&sets), 0);
}

static void a_record_of_no_step_is_whole(void **state)
{
    (void)state;
    const uint32_t *ranks;
    uint32_t count;
    struct sets *sets;
    assert_int_equal(sets_open(path, NULL, WORKERS, &sets), 0);
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    assert_true(sets_replays(sets));
    assert_false(sets_replay(sets, "m", 0, &ranks, &count));
    assert_int_equal(sets_close(&sets), 0);
}

static void a_wrong_line_is_refused_by_its_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "model",
                                        "model ",
                                        "model strict 2 " HEX,
                                        "model strict 2 " HEX " ",
                                        "model strict 2 " HEX "0 n",
                                        "model strict x " HEX " n",
                                        "model strict 0 " HEX " n",
                                        "model  2 " HEX " n",
                                        "model strict 2 " HEX " m",
                                        "end",
                                        "end ",
                                        "end " HEX,
                                        "0 0 n",
                                        "0 0,1,2 m",
                                        " ",
                                        "0",
                                        "0 ",
                                        "0 0",
                                        "0 0 ",
                                        "x 0 m",
                                        " 0 0 m",
                                        "-1 0 m",
                                        "+1 0 m",
                                        "0  0 m",
                                        "0 -",
                                        "0 - ",
                                        "0 -1 m",
                                        "0 0,-1 m",
                                        "0 0, m",
                                        "0 ,0 m",
                                        "0 0,,1 m",
                                        "0 0;1 m",
                                        "0 0,1.5 m",
                                        "0 0x1 m",
                                        "0 1,0 m",
                                        "0 1,1 m",
                                        "0 0,2,1 m",
                                        "0 4 m",
                                        "0 0,4 m",
                                        "0 -,0 m",
                                        "0 +1 m",
                                        "0 a m",
                                        "1.5 0 m",
                                        "0x1 0 m",
                                        "0,0 0 m",
                                        "0 18446744073709551616 m",
                                        "18446744073709551616 0 m",
                                        "0 4294967296 m",
                                        "0\t0 m",
                                        "0 0\tm"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char text[512];
        int length = snprintf(text, sizeof(text), HEAD MODEL("m") "%s\n", wrong[i]);
        check_wrong(text, (size_t)length, 3);
        length = snprintf(text, sizeof(text), HEAD MODEL("m") "0 0,1 m\n1 - m\n%s\n2 9 m\n", wrong[i]);
        check_wrong(text, (size_t)length, 5);
    }
}

static void a_file_that_is_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") "0 0,1 m\n1 2,3 m\n";
    static char whole[1024];
    sets_whole(text, sizeof(text) - 1);
    size_t length = sets_read_back(whole, sizeof(whole));
    for (size_t cut = 0; cut < length; cut++) {
        unsigned line = 1;
        for (size_t i = 0; i < cut; i++)
            line += whole[i] == '\n';
        sets_text(whole, cut);
        check_refused(line, cut == 0 || whole[cut - 1] == '\n' ? "cut off" : "end");
    }
    memcpy(whole + length, "2 0,1 m\n", 8);
    sets_text(whole, length + 8);
    check_refused(6, "behind the end");
}

static void a_file_with_one_wrong_byte_is_refused(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") "0 0,1 m\n1 2,3 m\n";
    static char whole[1024];
    struct sets *sets = NULL;
    sets_whole(text, sizeof(text) - 1);
    size_t length = sets_read_back(whole, sizeof(whole));
    for (size_t i = 0; i < length; i++)
        for (unsigned change = 1; change < 256; change <<= 1) {
            whole[i] = (char)(whole[i] ^ (char)change);
            sets_text(whole, length);
            assert_int_equal(sets_open(NULL, path, WORKERS, &sets), -STEPGATE_EINVAL);
            assert_null(sets);
            whole[i] = (char)(whole[i] ^ (char)change);
        }
    sets_text(whole, length);
    assert_int_equal(sets_open(NULL, path, WORKERS, &sets), 0);
    sets_close(&sets);
}

static void a_step_that_is_there_twice_is_refused(void **state)
{
    (void)state;
    static const char text[] = HEAD MODEL("m") MODEL("n") "0 0,1 m\n1 0,1 m\n0 0,1 n\n1 0,2 m\n2 0 m\n";
    check_wrong(text, sizeof(text) - 1, 7);
    check_error("step 1 of m", "in line 5 already");
}

static void a_full_disk_is_told_at_the_end(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 1, 2, 3};
    for (uint64_t steps = 1; steps < 10000; steps *= 10) {
        struct sets *sets;
        assert_int_equal(sets_open("/dev/full", NULL, WORKERS, &sets), 0);
        for (uint64_t step = 0; step < steps; step++)
            commit(sets, "m", step, ranks, 4);
        assert_int_equal(sets_close(&sets), -STEPGATE_ESYSTEM);
        assert_null(sets);
        check_error("/dev/full", "not every set");
    }
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    struct sets *sets = NULL;
    assert_int_equal(sets_open("/nowhere/sets", NULL, WORKERS, &sets), -STEPGATE_ESYSTEM);
    check_error("/nowhere/sets", "written");
    assert_int_equal(sets_open(NULL, "/nowhere/sets", WORKERS, &sets), -STEPGATE_ESYSTEM);
    check_error("/nowhere/sets", "read");
    assert_int_equal(sets_open(NULL, "/tmp", WORKERS, &sets), -STEPGATE_ESYSTEM); /* a folder */
    check_error("/tmp", "read");
    assert_null(sets);
    /* what is to be replayed is wrong: nothing is recorded over another file */
    sets_text(HEAD "wrong\n", sizeof(HEAD "wrong\n") - 1);
    assert_int_equal(sets_open(path, path, WORKERS, &sets), -STEPGATE_EINVAL);
    assert_null(sets);
    check_error("wrong", "line 2:");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), 's');
    fclose(file);
}

static void no_files_are_no_sets(void **state)
{
    (void)state;
    struct sets *sets;
    assert_int_equal(sets_open(NULL, NULL, WORKERS, &sets), 0);
    assert_true(!sets_records(sets) && !sets_replays(sets));
    assert_int_equal(sets_close(&sets), 0);
    assert_int_equal(sets_close(&sets), 0);
    assert_true(!sets_records(NULL) && !sets_replays(NULL));
}

int main(void)
{
    int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recorded_is_replayed),
        cmocka_unit_test(a_record_that_is_replayed_may_be_recorded_again),
        cmocka_unit_test(a_rank_that_contributes_more_than_once_is_recorded_once),
        cmocka_unit_test(a_file_without_a_head_is_refused),
        cmocka_unit_test(a_file_of_another_format_or_job_is_refused_with_both_values),
        cmocka_unit_test(a_model_of_another_kind_is_refused_with_both_values),
        cmocka_unit_test(other_modes_have_no_sets),
        cmocka_unit_test(two_models_of_one_name_are_not_recorded),
        cmocka_unit_test(behind_the_end_of_the_record_no_step_is_taken),
        cmocka_unit_test(a_step_of_others_than_the_recorded_ones_is_refused),
        cmocka_unit_test(a_record_of_no_step_is_whole),
        cmocka_unit_test(a_wrong_line_is_refused_by_its_number),
        cmocka_unit_test(a_file_that_is_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_file_with_one_wrong_byte_is_refused),
        cmocka_unit_test(a_step_that_is_there_twice_is_refused),
        cmocka_unit_test(a_full_disk_is_told_at_the_end),
        cmocka_unit_test(files_that_cannot_be_opened_are_named),
        cmocka_unit_test(no_files_are_no_sets),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
