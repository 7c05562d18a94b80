/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
/* Every way in which the four files can be wrong ends in one line that names the file and the
 * remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "worker/examples/fashion/dataset.h"

enum { TRAIN = 5, TEST = 3 };

struct folder {
    char path[64];
    struct fault fault;
    struct dataset data;
};

/* put -- write an IDX file; claimed is the count its header claims */
static void put(const struct folder *folder, const char *name, unsigned rank, unsigned claimed,
                unsigned count, uint8_t value)
{
    char path[128];
    uint8_t header[16] = {0, 0, 8, (uint8_t)rank, 0, 0, 0, (uint8_t)claimed, 0, 0, 0, 28, 0, 0, 0, 28};
    unsigned element = rank == 3 ? 28 * 28 : 1;
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    assert_true(gzwrite(file, header, 4 + 4 * rank) > 0);
    for (unsigned i = 0; i < count * element; i++)
        assert_int_equal(gzputc(file, value), value);
    assert_int_equal(gzclose(file), Z_OK);
}

static int setup(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    assert_non_null(folder);
    strcpy(folder->path, "/tmp/stepgate-dataset-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    put(folder, "train-images-idx3-ubyte.gz", 3, TRAIN, TRAIN, 200);
    put(folder, "train-labels-idx1-ubyte.gz", 1, TRAIN, TRAIN, 9);
    put(folder, "t10k-images-idx3-ubyte.gz", 3, TEST, TEST, 100);
    put(folder, "t10k-labels-idx1-ubyte.gz", 1, TEST, TEST, 0);
    *state = folder;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                        "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
    struct folder *folder = *state;
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder->path, names[i]);
        unlink(path);
    }
    rmdir(folder->path);
    dataset_clear(&folder->data);
    free(folder);
    return 0;
}

/* assert_refused -- the read fails with the status, and its line has the words */
static void assert_refused(struct folder *folder, size_t limit, int status, const char *word,
                           const char *remedy)
{
    assert_int_equal(dataset_read(folder->path, limit, &folder->data, &folder->fault), -1);
    assert_int_equal(folder->fault.status, status);
    assert_non_null(strstr(folder->fault.text, word));
    assert_non_null(strstr(folder->fault.text, remedy));
    assert_null(strchr(folder->fault.text, '\n'));
}

static void good_files_are_read(void **state)
{
    struct folder *folder = *state;
    assert_int_equal(dataset_read(folder->path, 0, &folder->data, &folder->fault), 0);
    assert_int_equal(folder->data.train.count, TRAIN);
    assert_int_equal(folder->data.test.count, TEST);
    assert_int_equal(dataset_image(&folder->data.train, TRAIN - 1)[783], 200);
    assert_int_equal(dataset_label(&folder->data.train, TRAIN - 1), 9);
}

static void a_limit_takes_the_first_images(void **state)
{
    struct folder *folder = *state;
    assert_int_equal(dataset_read(folder->path, 2, &folder->data, &folder->fault), 0);
    assert_int_equal(folder->data.train.count, 2);
    assert_int_equal(folder->data.test.count, TEST);
}

static void a_limit_beyond_the_set_is_refused(void **state)
{
    assert_refused(*state, TRAIN + 1, FAULT_USAGE, "--images 6", "give fewer");
}

static void a_missing_file_is_named(void **state)
{
    struct folder *folder = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte.gz", folder->path);
    unlink(path);
    assert_refused(folder, 0, FAULT_PERMANENT, path, "--data DIR");
}

static void a_wrong_magic_is_refused(void **state)
{
    struct folder *folder = *state;
    put(folder, "train-labels-idx1-ubyte.gz", 3, TRAIN, TRAIN, 9);
    assert_refused(folder, 0, FAULT_PERMANENT, "magic 00000803", "--data DIR");
}

static void missing_elements_are_refused(void **state)
{
    struct folder *folder = *state;
    put(folder, "train-images-idx3-ubyte.gz", 3, TRAIN, TRAIN - 1, 1);
    assert_refused(folder, 0, FAULT_PERMANENT, "truncated, 784 bytes are missing", "--data DIR");
}

static void more_elements_than_claimed_are_refused(void **state)
{
    struct folder *folder = *state;
    put(folder, "train-labels-idx1-ubyte.gz", 1, TRAIN, TRAIN + 1, 1);
    assert_refused(folder, 0, FAULT_PERMANENT, "more bytes than its header says", "--data DIR");
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    struct folder *folder = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte.gz", folder->path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t whole[256];
    size_t length = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_true(length > 20 && length < sizeof whole);
    for (size_t cut = 0; cut < length; cut++) {
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(whole, 1, cut, file), cut);
        fclose(file);
        folder->fault = (struct fault){0};
        assert_refused(folder, 0, FAULT_PERMANENT, path, "--data DIR");
    }
}

static void a_file_without_the_end_of_its_stream_is_refused(void **state)
{
    enum { MANY = 60 }; /* more than zlib buffers: all elements are there without a look at the end */
    struct folder *folder = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", folder->path);
    for (off_t cut = 1; cut <= 8; cut++) {
        struct stat whole;
        put(folder, "train-images-idx3-ubyte.gz", 3, MANY, MANY, 200);
        assert_int_equal(stat(path, &whole), 0);
        assert_int_equal(truncate(path, whole.st_size - cut), 0);
        folder->fault = (struct fault){0};
        assert_refused(folder, 0, FAULT_PERMANENT, "truncated at its end", "--data DIR");
    }
}

static void images_and_labels_must_be_equally_many(void **state)
{
    struct folder *folder = *state;
    put(folder, "t10k-labels-idx1-ubyte.gz", 1, TEST + 1, TEST + 1, 1);
    assert_refused(folder, 0, FAULT_PERMANENT, "has 3 images but", "--data DIR");
}

static void a_label_that_is_none_is_refused(void **state)
{
    struct folder *folder = *state;
    put(folder, "t10k-labels-idx1-ubyte.gz", 1, TEST, TEST, 10);
    assert_refused(folder, 0, FAULT_PERMANENT, "label 10 at 0", "--data DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_files_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_takes_the_first_images, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_beyond_the_set_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_file_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_magic_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_elements_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(more_elements_than_claimed_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_cut_anywhere_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_without_the_end_of_its_stream_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(images_and_labels_must_be_equally_many, setup, teardown),
        cmocka_unit_test_setup_teardown(a_label_that_is_none_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
