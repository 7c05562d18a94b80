/* SPDX-License-Identifier: BSD-3-Clause */
/* What is written is what is read; a file that is not as it was written is refused with its reason, whatever is in it; what cannot be written leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ps/checkpoint/tensors.h"
#include "transport/base/error.h"
#include "transport/base/random.h"

static char folder[] = "/tmp/stepgate-tensors-XXXXXX";
static char path[64];

/* error_has -- the last error names this. */
static void error_has(const char *words)
{
    struct stepgate_error error;

    error_save(&error);
    if (strstr(error.text, words) == NULL)
        fail_msg("`%s` is not in: %s", words, error.text);
}

/* put -- a file of these bytes. */
static void put(const void *data, size_t bytes)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* put_header -- a file with this header, and so many bytes of arrays. */
static void put_header(const char *header, size_t arrays)
{
    size_t length = strlen(header);
    uint8_t *all = calloc(1, 8 + length + arrays);

    assert_non_null(all);
    for (size_t i = 0; i < 8; i++)
        all[i] = (uint8_t)(length >> (8 * i));
    memcpy(all + 8, header, length);
    put(all, 8 + length + arrays);
    free(all);
}

/* refused -- the file is, with these words. */
static void refused(const char *words)
{
    struct tensors_file *file = NULL;

    assert_int_equal(tensors_open(path, &file), -STEPGATE_EPROTOCOL);
    assert_null(file);
    error_has(words);
    error_has(path);
}

/* files_are -- so many files are in the folder. */
static void files_are(int expected)
{
    char command[128];
    int count = -1;

    snprintf(command, sizeof(command), "ls -A %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    assert_int_equal(count, expected);
}

/* read_block -- of an array that counts. */
static int read_block(void *context, uint64_t first, size_t bytes, void *out)
{
    uint8_t *to = out;

    if (context != NULL && first >= *(uint64_t *)context)
        return error_set(STEPGATE_EINVAL, 0, "", "no more");
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)((first + i) * 13 % 251);
    return 0;
}

static const float floats[6] = {1, -2, 3, 4.5f, -0.0f, 7};
static const uint16_t halves[3] = {0x3c00, 0x4000, 0xc000};
static const double wide[2] = {1e300, -3};
static const struct tensors_pair metadata[] = {{"format", "x"}, {"b", "\"quoted\" \xc3\xa9"}};

/* write_some -- one array of each type, the smallest first. */
static int write_some(uint8_t digest[TENSORS_DIGEST_BYTES], uint64_t *bytes)
{
    const struct tensors_entry entries[] = {
        {.name = "a/h", .dtype = STEPGATE_F16, .rank = 1, .dims = {3}, .data = halves, .bytes = 6},
        {.name = "b", .dtype = STEPGATE_BF16, .rank = 0, .data = halves, .bytes = 2},
        {.name = "w\xc3\xa9", .dtype = STEPGATE_F32, .rank = 2, .dims = {2, 3}, .data = floats, .bytes = 24},
        {.name = "d", .dtype = STEPGATE_F64, .rank = 1, .dims = {2}, .data = wide, .bytes = 16}};

    return tensors_write(path, entries, 4, metadata, 2, digest, bytes);
}

static void what_is_written_is_read(void **state)
{
    uint8_t digest[TENSORS_DIGEST_BYTES], again[TENSORS_DIGEST_BYTES];
    uint64_t bytes = 0, length = 0;
    struct tensors_file *file;
    struct stat at;
    float got[6];

    (void)state;
    assert_int_equal(write_some(digest, &bytes), 0);
    assert_int_equal(tensors_digest(path, again, &length), 0);
    assert_memory_equal(digest, again, sizeof(digest));
    assert_int_equal(stat(path, &at), 0);
    assert_int_equal(at.st_size, bytes);
    assert_int_equal(length, bytes);
    assert_int_equal(at.st_mode & 0777, 0600);
    files_are(1);
    assert_int_equal(tensors_open(path, &file), 0);
    assert_int_equal(tensors_count(file), 4);
    assert_string_equal(tensors_metadata(file, "b"), "\"quoted\" \xc3\xa9");
    assert_null(tensors_metadata(file, "c"));
    assert_null(tensors_find(file, "w"));
    for (size_t i = 0; i < 4; i++) /* large elements first: each is aligned */
        assert_int_equal(
            tensors_at(file, i)->offset % (tensors_at(file, i)->bytes / tensors_at(file, i)->elements), 0);
    const struct tensors_found *w = tensors_find(file, "w\xc3\xa9");
    assert_non_null(w);
    assert_int_equal(w->dtype, STEPGATE_F32);
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->dims[1], 3);
    assert_int_equal(tensors_read(file, w, 0, 24, got), 0);
    assert_memory_equal(got, floats, 24);
    assert_int_equal(tensors_read(file, w, 8, 4, got), 0);
    assert_memory_equal(got, floats + 2, 4);
    assert_int_equal(tensors_read(file, w, 8, 17, got), -STEPGATE_EINVAL);
    const struct tensors_found *b = tensors_find(file, "b");
    assert_int_equal(b->rank, 0);
    assert_int_equal(b->elements, 1);
    assert_int_equal(truncate(path, (off_t)w->offset + 4), 0);
    assert_int_equal(tensors_read(file, w, 0, 24, got), -STEPGATE_EPROTOCOL);
    tensors_close(&file);
    assert_null(file);
}

static void an_array_may_be_read_while_it_is_written(void **state)
{
    uint64_t bytes = 2 * (uint64_t)TENSORS_BLOCK + 12, stop = TENSORS_BLOCK;
    struct tensors_entry e = {.name = "big",
                              .dtype = STEPGATE_F32,
                              .rank = 1,
                              .dims = {bytes / 4},
                              .bytes = bytes,
                              .read = read_block};
    struct tensors_file *file;
    uint8_t got[100], want[100];

    (void)state;
    assert_int_equal(tensors_write(path, &e, 1, NULL, 0, NULL, NULL), 0);
    assert_int_equal(tensors_open(path, &file), 0);
    assert_int_equal(tensors_read(file, tensors_at(file, 0), bytes - 100, 100, got), 0);
    assert_int_equal(read_block(NULL, bytes - 100, 100, want), 0);
    assert_memory_equal(got, want, 100);
    tensors_close(&file);
    e.context = &stop;
    unlink(path);
    assert_int_equal(tensors_write(path, &e, 1, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    error_has("no more");
    files_are(0);
}

static void what_does_not_fit_itself_is_not_written(void **state)
{
    struct tensors_entry e[2] = {
        {.name = "a", .dtype = STEPGATE_F32, .rank = 1, .dims = {6}, .data = floats, .bytes = 24}};

    (void)state;
    e[1] = e[0];
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    error_has("twice");
    e[1].bytes = 20, strcpy(e[1].name, "b");
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    e[1] = e[0], e[1].dtype = 9;
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    e[1] = e[0], e[1].dims[0] = UINT64_MAX / 2;
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    e[1] = e[0], strcpy(e[1].name, "\xff");
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    e[1] = e[0], strcpy(e[1].name, "__metadata__");
    assert_int_equal(tensors_write(path, e, 2, NULL, 0, NULL, NULL), -STEPGATE_EINVAL);
    files_are(0);
}

static void damaged_files_are_refused_with_their_reason(void **state)
{
#define ONE(name, dtype, shape, begin, end)                                                                  \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
    static const struct {
        const char *header;
        size_t arrays;
        const char *words;
    } cases[] = {
        {"", 0, "no JSON object"},
        {"[]", 0, "no JSON object"},
        {"{\"a\":", 0, "no JSON object"},
        {"{} x", 0, "no JSON object"},
        {"{" ONE("a", "F32", "[1]", 0, 4) "," ONE("a", "F32", "[1]", 4, 8) "}", 8,
         "no JSON object"}, /* twice */
        {"{\"a\\u0000b\":1}", 0, "no JSON object"},
        {"{\"a\":3}", 0, "not described by"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "not described by"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}", 4, "not described by"},
        {"{" ONE("", "F32", "[1]", 0, 4) "}", 4, "name"},
        {"{" ONE("a", "I64", "[1]", 0, 8) "}", 8, "dtype I64"},
        {"{" ONE("a", "F32", "3", 0, 4) "}", 4, "shape"},
        {"{" ONE("a", "F32", "[-1]", 0, 4) "}", 4, "shape"},
        {"{" ONE("a", "F32", "[1.0]", 0, 4) "}", 4, "shape"},
        {"{" ONE("a", "F32", "[0]", 0, 0) "}", 0, "shape"},
        {"{" ONE("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "shape"},
        {"{" ONE("a", "F32", "[4294967296,4294967296]", 0, 4) "}", 4, "shape"},
        {"{" ONE("a", "F32", "[4611686018427387905]", 0, 4) "}", 4, "elements"},
        {"{" ONE("a", "F32", "[2]", 0, 4) "}", 4, "elements"},
        {"{" ONE("a", "F32", "[1]", 0, 4) "}", 3, "within the file"},
        {"{" ONE("a", "F32", "[1]", 4, 0) "}", 4, "within the file"},
        {"{" ONE("a", "F32", "[1]", -4, 0) "}", 4, "within the file"},
        {"{" ONE("a", "F32", "[1]", 0, 4) "," ONE("b", "F32", "[1]", 0, 4) "}", 4, "over another"},
        {"{" ONE("a", "F32", "[1]", 0, 4) "," ONE("b", "F32", "[1]", 8, 12) "}", 12, "hole"},
        {"{" ONE("a", "F32", "[1]", 4, 8) "}", 8, "hole"},
        {"{" ONE("a", "F32", "[1]", 0, 4) "}", 5, "behind the last"},
        {"{}", 1, "behind the last"},
        {"{\"__metadata__\":3}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":3}}", 0, "no text"},
    };
    struct tensors_file *file;

    (void)state;
    put_header("{" ONE("b", "F16", "[2]", 4, 8) "," ONE("a", "F32", "[]", 0, 4) "}   ", 8);
    assert_int_equal(tensors_open(path, &file),
                     0); /* so the cases below differ from a sound one by what they name */
    assert_string_equal(tensors_at(file, 0)->name, "a");
    tensors_close(&file);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_header(cases[i].header, cases[i].arrays);
        refused(cases[i].words);
    }
    put("1234567", 7);
    refused("too few");
    put("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refused("its header would have");
    put("\x03\0\0\0\0\0\0\0{}", 10);
    refused("its header would have");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tensors_open(path, &file), -STEPGATE_ESYSTEM);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody waits for a writer */
    refused("no file");
}

static void no_change_of_any_byte_crashes_or_reads_beyond(void **state)
{
    struct random_source r;
    uint64_t bytes;
    size_t opened = 0, rejected = 0;
    uint8_t original[1024], changed[1024], out[64];

    (void)state;
    assert_int_equal(write_some(NULL, &bytes), 0);
    assert_true(bytes < sizeof(original));
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fread(original, 1, bytes, in), bytes);
    fclose(in);
    random_seed(&r, 20261202);
    for (int i = 0; i < 3000; i++) {
        struct tensors_file *file;
        size_t length = (size_t)bytes, times = 1 + (size_t)random_below(&r, 3);
        memcpy(changed, original, length);
        for (size_t k = 0; k < times; k++)
            changed[random_below(&r, bytes)] = (uint8_t)random_below(&r, 256);
        if (random_below(&r, 4) == 0)
            length = (size_t)random_below(&r, bytes);
        put(changed, length);
        int status = tensors_open(path, &file);
        rejected += status != 0;
        if (status != 0) {
            assert_int_equal(status, -STEPGATE_EPROTOCOL);
            continue;
        }
        opened++;
        for (size_t k = 0; k < tensors_count(file); k++) {
            const struct tensors_found *found = tensors_at(file, k);
            assert_true(found->bytes <= sizeof(out));
            assert_ptr_equal(tensors_find(file, found->name), found);
            assert_int_equal(tensors_read(file, found, 0, found->bytes, out), 0);
        }
        tensors_close(&file);
    }
    assert_true(opened > 100 && rejected > 100); /* both are tried */
}

static void what_cannot_be_written_leaves_what_was_there(void **state)
{
    struct rlimit old, small;
    uint8_t before[TENSORS_DIGEST_BYTES], after[TENSORS_DIGEST_BYTES];

    (void)state;
    assert_int_equal(write_some(before, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old, small.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = write_some(NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, -STEPGATE_ESYSTEM);
    error_has(path);
    error_has("bytes");
    error_has("File too large");
    files_are(1);
    assert_int_equal(tensors_digest(path, after, NULL), 0);
    assert_memory_equal(before, after, sizeof(before));
    char saved[sizeof(path)];
    memcpy(saved, path, sizeof(path));
    snprintf(path, sizeof(path), "%s/none/x", folder);
    assert_int_equal(write_some(NULL, NULL), -STEPGATE_ESYSTEM);
    error_has("could not be created");
    memcpy(path, saved, sizeof(path));
}

/* full_disk -- in a process with a small file system of its own; returns its exit status. */
static int full_disk(void)
{
    struct tensors_entry e = {.name = "big",
                              .dtype = STEPGATE_F32,
                              .rank = 1,
                              .dims = {1 << 20},
                              .bytes = 4 << 20,
                              .read = read_block};
    struct stepgate_error error;

    if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=1M") != 0)
        return 77;
    if (tensors_write(path, &e, 1, NULL, 0, NULL, NULL) != -STEPGATE_ESYSTEM)
        return 1;
    error_save(&error);
    fprintf(stderr, "%s: %s\n", error.text, error.remedy);
    if (error.os_errno != ENOSPC || strstr(error.text, "41943") == NULL ||
        strstr(error.text, "1048576 are free") == NULL || strstr(error.remedy, "free space") == NULL)
        return 2; /* 4194304 bytes and the header are needed */
    if (umount(folder) != 0 || mount("tmpfs", folder, "tmpfs", MS_RDONLY, NULL) != 0)
        return 3;
    if (tensors_write(path, &e, 1, NULL, 0, NULL, NULL) != -STEPGATE_ESYSTEM)
        return 4;
    error_save(&error);
    return error.os_errno == EROFS && strstr(error.remedy, "may write to") != NULL ? 0 : 5;
}

static void full_and_read_only_disks_are_said_with_what_is_needed_and_there(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(full_disk());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* nothing can be mounted here: the limit of a file's size above stands for it */
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_folder_that_may_not_be_written_to_is_said(void **state)
{
    int status;

    (void)state;
    pid_t child = fork(); /* as somebody who is not root */
    if (child == 0) {
        if (getuid() == 0 && (chmod(folder, 0555) != 0 || setuid(65534) != 0))
            _exit(3);
        if (getuid() != 0)
            (void)chmod(folder, 0555);
        if (write_some(NULL, NULL) != -STEPGATE_ESYSTEM)
            _exit(1);
        struct stepgate_error error;
        error_save(&error);
        _exit(error.os_errno == EACCES && strstr(error.remedy, "may write to") != NULL ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(status, 0);
    files_are(0);
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
    signal(SIGXFSZ, SIG_IGN);
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/x.safetensors", folder);
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
        cmocka_unit_test_setup(an_array_may_be_read_while_it_is_written, clean),
        cmocka_unit_test_setup(what_does_not_fit_itself_is_not_written, clean),
        cmocka_unit_test_setup(damaged_files_are_refused_with_their_reason, clean),
        cmocka_unit_test_setup(no_change_of_any_byte_crashes_or_reads_beyond, clean),
        cmocka_unit_test_setup(what_cannot_be_written_leaves_what_was_there, clean),
        cmocka_unit_test_setup(full_and_read_only_disks_are_said_with_what_is_needed_and_there, clean),
        cmocka_unit_test_setup(a_folder_that_may_not_be_written_to_is_said, clean),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
