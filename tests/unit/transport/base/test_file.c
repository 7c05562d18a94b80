/* SPDX-License-Identifier: BSD-3-Clause */
/* A file is written whole, where its name leads; what is no regular file stays what it is. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/base/file.h"

/* setup -- an empty folder, which becomes the working directory. */
static int setup(void **state)
{
    char *folder = strdup("/tmp/stepgate-file-XXXXXX");

    if (folder == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0)
        return -1;
    *state = folder;
    return 0;
}

/* teardown -- it goes. */
static int teardown(void **state)
{
    static const char *const names[] = {"plain", "link", "second", "fifo", "sub/plain", "sub/link"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(names[i]);
    rmdir("sub");
    int rc = rmdir(*state); /* fails if a draft was left */
    free(*state);
    return chdir("/") == 0 ? rc : -1;
}

static void assert_holds(const char *path, const char *expected)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, expected);
}

static mode_t type_of(const char *path)
{
    struct stat at;
    assert_int_equal(lstat(path, &at), 0);
    return at.st_mode & S_IFMT;
}

static void the_mode_is_what_the_umask_leaves(void **state)
{
    (void)state;
    struct stat at;
    mode_t before = umask(027);
    int code = file_write("plain", "text\n");
    umask(before);
    assert_int_equal(code, 0);
    assert_holds("plain", "text\n");
    assert_int_equal(stat("plain", &at), 0);
    assert_int_equal(at.st_mode & 0777, 0640);
}

static void what_was_there_is_replaced_whole(void **state)
{
    (void)state;
    assert_int_equal(file_write("plain", "a long text\n"), 0);
    int before = open("plain", O_RDONLY | O_CLOEXEC);
    char text[64] = "";
    assert_int_equal(file_write("plain", "short\n"), 0);
    assert_holds("plain", "short\n");
    assert_int_equal(read(before, text, sizeof(text)), 12); /* whoever reads the old one has all of it */
    close(before);
}

static void a_link_is_followed(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sub", 0777), 0);
    assert_int_equal(symlink("link", "second"), 0);
    assert_int_equal(symlink("sub/link", "link"), 0);
    assert_int_equal(symlink("plain", "sub/link"), 0); /* seen from where the link lies */
    for (int i = 0; i < 2; i++) {                      /* first its end is missing */
        assert_int_equal(file_write("second", i == 0 ? "one" : "two"), 0);
        assert_holds("sub/plain", i == 0 ? "one" : "two");
        assert_int_equal(type_of("second"), S_IFLNK);
        assert_int_equal(type_of("link"), S_IFLNK);
        assert_int_equal(type_of("sub/link"), S_IFLNK);
    }
}

static void links_in_a_circle_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(symlink("second", "link"), 0);
    assert_int_equal(symlink("link", "second"), 0);
    assert_int_equal(file_write("link", "text"), ELOOP);
}

static void a_fifo_is_written_to(void **state)
{
    (void)state;
    char text[64] = "";
    assert_int_equal(mkfifo("fifo", 0600), 0);
    int reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(file_write("fifo", "text"), 0);
    assert_int_equal(read(reader, text, sizeof(text)), 4);
    assert_string_equal(text, "text");
    assert_int_equal(type_of("fifo"), S_IFIFO);
    close(reader);
}

static void a_device_that_is_full_is_an_error_and_stays(void **state)
{
    (void)state;
    assert_int_equal(symlink("/dev/full", "link"), 0);
    assert_int_equal(file_write("link", "text"), ENOSPC);
    assert_int_equal(type_of("link"), S_IFLNK);
    assert_int_equal(type_of("/dev/full"), S_IFCHR);
}

static void a_draft_that_is_a_link_of_somebody_else_is_not_written_through(void **state)
{
    (void)state;
    char draft[64];
    snprintf(draft, sizeof(draft), "plain.%ld", (long)getpid());
    assert_int_equal(file_write("second", "kept"), 0);
    assert_int_equal(symlink("second", draft), 0);
    assert_int_equal(file_write("plain", "text"), 0);
    assert_holds("second", "kept");
    assert_holds("plain", "text");
}

static void a_folder_that_is_missing_and_a_folder_are_errors(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sub", 0777), 0);
    assert_int_equal(file_write("none/plain", "text"), ENOENT);
    assert_int_equal(file_write("sub", "text"), EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_mode_is_what_the_umask_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_there_is_replaced_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(links_in_a_circle_are_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fifo_is_written_to, setup, teardown),
        cmocka_unit_test_setup_teardown(a_device_that_is_full_is_an_error_and_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_draft_that_is_a_link_of_somebody_else_is_not_written_through, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_is_missing_and_a_folder_are_errors, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
