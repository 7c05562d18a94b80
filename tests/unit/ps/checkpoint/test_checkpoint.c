/* SPDX-License-Identifier: BSD-3-Clause */
/* What was cut over shards is read in whole; what is not complete or not as it was written is found out; pruning keeps what it must, also beside others that look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/ps/checkpoint/sample.h"
#include "transport/base/error.h"

static char dir[] = P_tmpdir "/stepgate-checkpoint-XXXXXX";
static char folder[PATH_MAX];

/* error_has -- the last error names this. */
static void error_has(const char *words)
{
    struct stepgate_error error;

    error_save(&error);
    if (strstr(error.text, words) == NULL)
        fail_msg("`%s` is not in: %s", words, error.text);
}

/* shell -- a command in the folder; returns its status. */
__attribute__((format(printf, 1, 2))) static int shell(const char *format, ...)
{
    char line[256], command[512];
    va_list list;

    va_start(list, format);
    vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    snprintf(command, sizeof(command), "cd %s && { %s; } >/dev/null 2>&1", dir, line);
    return system(command);
}

/* is_sample -- every array holds what the sample has, in any range. */
static void is_sample(const char *where, uint64_t step)
{
    struct checkpoint *c;
    char got[40 * sizeof(double)], want[40 * sizeof(double)];

    assert_int_equal(checkpoint_open(where, &c), 0);
    assert_int_equal(checkpoint_count(c), SAMPLE_ARRAYS);
    for (int i = 0; i < SAMPLE_ARRAYS; i++) {
        struct sample_array a = sample_array(i);
        const struct checkpoint_tensor *t = checkpoint_find(c, a.name);
        size_t size = model_dtype_bytes(a.dtype);
        assert_non_null(t);
        assert_int_equal(t->dtype, a.dtype);
        assert_int_equal(t->rank, a.rank);
        assert_memory_equal(t->dims, a.dims, sizeof(a.dims));
        assert_int_equal(t->elements, a.elements);
        assert_int_equal(t->bytes, a.elements * size);
        sample_fill(&a, step, 0, a.elements, want);
        for (uint64_t first = 0; first <= a.elements; first++)
            for (uint64_t n = 0; n <= a.elements - first; n++) {
                memset(got, 0x55, sizeof(got));
                assert_int_equal(checkpoint_read(c, a.name, a.dtype, first, n, got), 0);
                assert_memory_equal(got, want + first * size, n * size);
            }
        assert_int_equal(checkpoint_read(c, a.name, a.dtype, a.elements, 1, got), -STEPGATE_EINVAL);
        assert_int_equal(checkpoint_read(c, a.name, a.dtype, 0, a.elements + 1, got), -STEPGATE_EINVAL);
    }
    assert_int_equal(checkpoint_read(c, "parameters/half", STEPGATE_F32, 0, 1, got), -STEPGATE_EINVAL);
    assert_int_equal(checkpoint_read(c, "parameters/none", STEPGATE_F32, 0, 1, got), -STEPGATE_ENOENT);
    checkpoint_close(&c);
    assert_null(c);
}

static void any_number_of_shards_is_read_in_whole(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 5; shards++) {
        assert_int_equal(sample_write(dir, "train", shards, shards, folder), 0);
        assert_int_equal(checkpoint_verify(folder, true), 0);
        is_sample(folder, shards);
    }
}

static void a_checkpoint_is_converted_to_any_number_of_files(void **state)
{
    char made[PATH_MAX], there[PATH_MAX];

    (void)state;
    assert_int_equal(sample_write(dir, "train", 9, 3, folder), 0);
    for (uint32_t shards = 1; shards <= 12; shards += 11) {
        snprintf(there, sizeof(there), "%s/to%u", dir, shards);
        assert_int_equal(checkpoint_convert(folder, shards, there, made), 0);
        assert_int_equal(checkpoint_verify(made, true), 0);
        is_sample(made, 9);
        struct manifest m;
        uint64_t bits = 0;
        assert_int_equal(manifest_read(made, &m), 0);
        assert_int_equal(m.shards, shards);
        assert_int_equal(manifest_number(&m, MANIFEST_NO_RANK, "beta1_power", &bits), 1);
        assert_true(bits == SAMPLE_NUMBER);
        assert_int_equal(m.set_count, 1);
        manifest_clear(&m);
    }
    assert_int_equal(checkpoint_convert(folder, 1, dir, made), -STEPGATE_EALREADY); /* that would be itself */
    is_sample(folder, 9);
    assert_int_equal(
        shell("cd train/step-*9 && printf x | dd of=shard-1-of-3.safetensors bs=1 seek=1000 conv=notrunc"),
        0);
    snprintf(there, sizeof(there), "%s/to3", dir);
    assert_int_equal(checkpoint_convert(folder, 1, there, made),
                     -STEPGATE_EPROTOCOL); /* or it would look sound */
}

static void what_is_not_as_it_was_written_is_found_out(void **state)
{
    static const struct {
        const char *command, *words;
        bool deep; /* only the digests tell */
    } cases[] = {
        {"rm shard-1-of-2.safetensors", "not there", false},
        {"truncate -s -1 shard-1-of-2.safetensors", "bytes, and had", false},
        {"echo >>shard-0-of-2.safetensors", "bytes, and had", false},
        {"printf x | dd of=shard-0-of-2.safetensors bs=1 seek=20 conv=notrunc", "damaged", false},
        {"printf x | dd of=shard-0-of-2.safetensors bs=1 seek=$(($(stat -c %s shard-0-of-2.safetensors) - "
         "9)) "
         "conv=notrunc",
         "SHA-256", true},
        {"sed -i 's/0.125/0.126/' manifest.json", "SHA-256", false},
        {"rm manifest.json", "there is no", false},
        {"rm shard-1-of-2.safetensors; mkdir shard-1-of-2.safetensors", "damaged", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(shell("rm -rf train"), 0);
        assert_int_equal(sample_write(dir, "train", 5, 2, folder), 0);
        assert_int_equal(checkpoint_verify(folder, true), 0);
        assert_int_equal(shell("cd train/step-*5 && { %s; }", cases[i].command), 0);
        assert_true(checkpoint_verify(folder, true) < 0);
        error_has(cases[i].words);
        if (cases[i].deep)
            assert_int_equal(checkpoint_verify(folder, false), 0);
        else
            assert_true(checkpoint_verify(folder, false) < 0);
    }
}

/* rewrite -- shard 0 of 2 of step 5 with other entries, and the manifest that belongs to it. */
static void rewrite(uint64_t says_step, void (*change)(struct tensors_entry *))
{
    struct tensors_entry entries[SAMPLE_ARRAYS], all[SAMPLE_ARRAYS];
    struct manifest m;
    size_t used = 0;

    assert_int_equal(manifest_read(folder, &m), 0);
    for (int i = 0; i < SAMPLE_ARRAYS; i++) {
        all[i] = sample_entry(i, 5, 0, 2);
        entries[used] = all[i];
        if (entries[used].data != NULL && change != NULL)
            change(&entries[used]);
        used += entries[used].data != NULL;
    }
    assert_int_equal(checkpoint_write_shard(folder, "train", says_step, 0, 2, entries, used, &m.files[0]), 0);
    for (int i = 0; i < SAMPLE_ARRAYS; i++)
        free((void *)(uintptr_t)all[i].data);
    assert_int_equal(checkpoint_finish(folder, &m), 0);
    manifest_clear(&m);
}

static void without_w(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/dense/w#0") == 0)
        e->data = NULL;
}
static void without_brain(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/odd%231 100%25") == 0)
        e->data = NULL;
}
static void shorter_w(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/dense/w#0") == 0)
        e->dims[0]--, e->bytes -= 16;
}
static void w_at_1(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/dense/w#0") == 0)
        e->name[strlen(e->name) - 1] = '1';
}
static void w_in_whole(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/dense/w#0") == 0)
        e->name[strlen(e->name) - 2] = 0;
}
static void narrow_w(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/dense/w#0") == 0)
        e->dims[1] = 2, e->dims[0] = 10;
}
static void other_shape(struct tensors_entry *e)
{
    if (strcmp(e->name, "parameters/table") == 0)
        e->dims[0] = 2, e->dims[1] = 9;
}

static void pieces_that_do_not_make_the_model_are_found_out(void **state)
{
    static const struct {
        uint64_t step;
        void (*change)(struct tensors_entry *);
        const char *words;
    } cases[] = {{4, NULL, "of step 4"},
                 {5, without_w, "fit together"},
                 {5, shorter_w, "fit together"},
                 {5, w_at_1, "fit together"},
                 {5, w_in_whole, "fit together"},
                 {5, narrow_w, "fit together"},
                 {5, without_brain, "odd%231 100%25 is missing"},
                 {5, other_shape, "another dtype or shape"}};

    (void)state;
    assert_int_equal(sample_write(dir, "train", 5, 2, folder), 0);
    rewrite(5, NULL);
    assert_int_equal(checkpoint_verify(folder, true), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rewrite(cases[i].step, cases[i].change);
        assert_int_equal(checkpoint_verify(folder, true), -STEPGATE_EPROTOCOL);
        error_has(cases[i].words);
    }
}

static void a_checkpoint_is_complete_when_its_manifest_is_there_and_not_before(void **state)
{
    struct checkpoint_list list;
    struct manifest m;

    (void)state;
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.count, 0);
    checkpoint_list_clear(&list);
    assert_int_equal(sample_files(dir, "train", 7, 2, &m, folder), 0);
    assert_int_equal(checkpoint_list(dir, "train", &list), 0);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.entries[0].state, CHECKPOINT_PARTIAL);
    assert_true(list.entries[0].bytes > 0);
    checkpoint_list_clear(&list);
    assert_int_equal(
        shell("touch train/notes train/step-7; cd train/step-*7 && touch shard-3-of-9.safetensors"), 0);
    assert_int_equal(checkpoint_finish(folder, &m), 0);
    assert_int_equal(shell("ls train/step-*7/shard-3-of-9.safetensors"),
                     512); /* of another number: taken away */
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.entries[0].state, CHECKPOINT_COMPLETE);
    assert_string_equal(list.entries[0].model, "train");
    assert_string_equal(list.entries[0].why, "");
    assert_string_equal(list.entries[0].folder, folder);
    assert_int_equal(list.entries[0].step, 7);
    assert_int_equal(list.entries[0].shards, 2);
    assert_int_equal(list.entries[0].written, 1700000000);
    checkpoint_list_clear(&list);
    assert_int_equal(checkpoint_begin(dir, "train", 7, folder), 0); /* made anew: not complete any more */
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.entries[0].state, CHECKPOINT_PARTIAL);
    checkpoint_list_clear(&list);
    assert_int_equal(shell("rm train/step-*7/shard-1-of-2.safetensors"), 0);
    assert_int_equal(checkpoint_finish(folder, &m), -STEPGATE_ENOENT);
    error_has("was written by ps 1 and is not seen here");
    manifest_clear(&m);
    assert_int_equal(checkpoint_list("/nonexistent", NULL, &list), -STEPGATE_ENOENT);
    assert_int_equal(checkpoint_begin("/nonexistent", "train", 7, folder), -STEPGATE_ENOENT);
    error_has("/nonexistent");
}

static void a_checkpoint_of_another_place_is_no_checkpoint(void **state)
{
    struct checkpoint_list list;

    (void)state;
    assert_int_equal(sample_write(dir, "train", 7, 1, folder), 0);
    assert_int_equal(sample_write(dir, "a/b", 7, 1, folder), 0);
    assert_int_equal(shell("cp -r train/step-*7 train/step-00000000000000000008; cp -r train other"), 0);
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.count, 5);
    assert_string_equal(list.entries[0].model, "a/b");
    assert_int_equal(list.entries[0].state, CHECKPOINT_COMPLETE);
    assert_string_equal(list.entries[1].model, "other");
    assert_int_equal(list.entries[1].state, CHECKPOINT_DAMAGED);
    assert_int_equal(list.entries[2].state, CHECKPOINT_DAMAGED);
    assert_int_equal(list.entries[3].step, 8);
    assert_int_equal(list.entries[3].state, CHECKPOINT_DAMAGED);
    assert_non_null(strstr(list.entries[3].why, "of step 7 of model train"));
    assert_int_equal(list.entries[4].state, CHECKPOINT_COMPLETE);
    checkpoint_list_clear(&list);
}

/* steps_are -- what is left of a model, the newest first, as text: 9+ complete, 9- partial, 9! damaged, 9? of another format. */
static void steps_are(const char *expected)
{
    struct checkpoint_list list;
    char text[256] = "";

    assert_int_equal(checkpoint_list(dir, "train", &list), 0);
    for (size_t i = 0; i < list.count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d%c", i > 0 ? " " : "",
                 (int)list.entries[i].step, " +-!?"[list.entries[i].state]);
    checkpoint_list_clear(&list);
    assert_string_equal(text, expected);
}

static void pruning_keeps_the_newest_complete_ones(void **state)
{
    unsigned removed = 99;

    (void)state;
    for (uint64_t step = 1; step <= 9; step++)
        assert_int_equal(sample_write(dir, "train", step, 2, folder), 0);
    assert_int_equal(sample_write(dir, "other", 1, 1, folder), 0);
    for (int i = 2; i <= 9; i++)
        if (i == 2 || i == 6 || i == 9)
            assert_int_equal(shell("rm train/step-*%d/manifest.json", i), 0);
    assert_int_equal(shell("rm train/step-*3/shard-0* train/step-*7/shard-0*"), 0);
    assert_int_equal(shell("sed -i 's/\"format\": 1/\"format\": 2/' train/step-*1/manifest.json"), 0);
    steps_are("9- 8+ 7! 6- 5+ 4+ 3! 2- 1?");
    assert_int_equal(checkpoint_prune(dir, "train", 0, &removed), -STEPGATE_EINVAL);
    assert_int_equal(checkpoint_prune(dir, "train", 2, &removed), 0);
    assert_int_equal(removed, 4);
    steps_are("9- 8+ 7! 5+ 1?"); /* 9 may be under way, 7 is for a person to look at, 1 is not ours */
    assert_int_equal(checkpoint_prune(dir, "train", 2, &removed), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(shell("cd train/step-*5 && touch notes"), 0);
    assert_int_equal(checkpoint_prune(dir, "train", 1, &removed), 0);
    steps_are("9- 8+ 5- 1?"); /* what is not ours stays */
    assert_int_equal(shell("ls train/step-*5/notes"), 0);
    assert_int_equal(shell("test $(ls train/step-*5 | wc -l) = 1"), 0);
    assert_int_equal(shell("test $(ls other/step-*1 | wc -l) = 2"), 0);
}

static void half_removed_is_never_complete(void **state)
{
    struct checkpoint_list list;
    int status;

    (void)state;
    for (int round = 0; round < 10; round++) {
        for (uint64_t step = 1; step <= 8; step++)
            assert_int_equal(sample_write(dir, "train", step, 2, folder), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(checkpoint_prune(dir, "train", 1, NULL) == 0 ? 0 : 1);
        do { /* beside it */
            assert_int_equal(checkpoint_list(dir, "train", &list), 0);
            assert_true(list.count >= 1);
            assert_int_equal(list.entries[0].step, 8);
            assert_int_equal(list.entries[0].state, CHECKPOINT_COMPLETE);
            for (size_t i = 0; i < list.count; i++)
                if (list.entries[i].state != CHECKPOINT_COMPLETE)
                    assert_int_equal(list.entries[i].state, CHECKPOINT_PARTIAL);
            checkpoint_list_clear(&list);
        } while (waitpid(child, &status, WNOHANG) == 0);
        assert_int_equal(status, 0);
        steps_are("8+");
    }
}

static void all_ps_see_the_same_folder_or_say_so(void **state)
{
    char token[CHECKPOINT_TOKEN_BYTES] = "", other[sizeof(dir) + 8];
    struct checkpoint_list list;

    (void)state;
    snprintf(other, sizeof(other), "%s/sub", dir);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(checkpoint_probe(dir, token), 0);
    assert_int_equal(strlen(token), CHECKPOINT_TOKEN_BYTES - 1);
    assert_int_equal(checkpoint_probe_seen(dir, token), 0);
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.count, 0);
    checkpoint_list_clear(&list);
    assert_int_equal(checkpoint_probe_seen(other, token), -STEPGATE_ENOENT);
    error_has("not that of the first ps");
    assert_int_equal(checkpoint_probe_seen("/nonexistent", token), -STEPGATE_ENOENT);
    error_has("no folder /nonexistent");
    assert_int_equal(checkpoint_probe_seen(dir, "../../../../../../../../../../x/"), -STEPGATE_EINVAL);
    assert_int_equal(checkpoint_probe_seen(dir, ""), -STEPGATE_EINVAL);
    checkpoint_probe_end(dir, token);
    assert_int_equal(checkpoint_probe_seen(dir, token), -STEPGATE_ENOENT);
    assert_int_equal(shell("rmdir sub && test -z \"$(ls -A)\""), 0);
    assert_int_equal(checkpoint_probe("/nonexistent", token), -STEPGATE_ENOENT);
}

static void a_folder_is_of_one_job_at_a_time(void **state)
{
    char token[CHECKPOINT_TOKEN_BYTES] = "";
    struct checkpoint_list list;
    int fd = -1, other = -1;

    (void)state;
    assert_int_equal(checkpoint_lock(dir, "by job first", &fd), 0);
    assert_true(fd >= 0);
    assert_int_equal(checkpoint_lock(dir, "by job second", &other), -STEPGATE_EBUSY);
    error_has("is in use: by job first");
    assert_int_equal(other, -1);
    assert_int_equal(checkpoint_list(dir, NULL, &list), 0);
    assert_int_equal(list.count, 0);
    checkpoint_list_clear(&list);
    checkpoint_unlock(&fd);
    assert_int_equal(fd, -1);
    checkpoint_unlock(&fd);
    assert_int_equal(checkpoint_lock(dir, "by job second", &other), 0);
    assert_int_equal(checkpoint_lock(dir, "by job third", &fd), -STEPGATE_EBUSY);
    error_has("is in use: by job second");
    assert_int_equal(checkpoint_probe(dir, token), 0);
    checkpoint_probe_sweep(dir);
    assert_int_equal(checkpoint_probe_seen(dir, token), -STEPGATE_ENOENT);
    checkpoint_unlock(&other);
    assert_int_equal(checkpoint_lock("/nonexistent", "by nobody", &fd), -STEPGATE_ENOENT);
    error_has("no folder /nonexistent");
}

static void a_checkpoint_that_is_given_up_leaves_nothing_unless_there_is_something(void **state)
{
    (void)state;
    assert_int_equal(checkpoint_begin(dir, "m", 3, folder), 0);
    assert_int_equal(access(folder, F_OK), 0);
    checkpoint_give_up(folder);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(checkpoint_begin(dir, "m", 3, folder), 0);
    assert_int_equal(shell("for f in m/*; do touch \"$f/file\"; done"), 0);
    checkpoint_give_up(folder);
    assert_int_equal(access(folder, F_OK), 0);
}

/* clean -- before each: nothing in the folder. */
static int clean(void **state)
{
    (void)state;
    return shell("rm -rf ./* ./.s*");
}

/* open_folder, close_folder -- for all. */
static int open_folder(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL ? -1 : 0;
}
static int close_folder(void **state)
{
    clean(state);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(any_number_of_shards_is_read_in_whole, clean),
        cmocka_unit_test_setup(a_checkpoint_is_converted_to_any_number_of_files, clean),
        cmocka_unit_test_setup(what_is_not_as_it_was_written_is_found_out, clean),
        cmocka_unit_test_setup(pieces_that_do_not_make_the_model_are_found_out, clean),
        cmocka_unit_test_setup(a_checkpoint_is_complete_when_its_manifest_is_there_and_not_before, clean),
        cmocka_unit_test_setup(a_checkpoint_of_another_place_is_no_checkpoint, clean),
        cmocka_unit_test_setup(pruning_keeps_the_newest_complete_ones, clean),
        cmocka_unit_test_setup(half_removed_is_never_complete, clean),
        cmocka_unit_test_setup(all_ps_see_the_same_folder_or_say_so, clean),
        cmocka_unit_test_setup(a_folder_is_of_one_job_at_a_time, clean),
        cmocka_unit_test_setup(a_checkpoint_that_is_given_up_leaves_nothing_unless_there_is_something, clean),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
