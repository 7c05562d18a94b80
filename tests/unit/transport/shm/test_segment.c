/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/base/error.h"
#include "transport/shm/segment.h"

#define SEGMENT_BYTES 12345U

/* segment_make -- a segment of a few pages. */
static struct shm_segment *segment_make(enum shm_segment_seal seal)
{
    struct shm_segment *segment = NULL;

    assert_int_equal(shm_segment_new(SEGMENT_BYTES, seal, &segment), 0);
    return segment;
}

/* segment_memfd -- a memfd as a careless or hostile peer would make it. */
static int segment_memfd(off_t length, int seals, bool allocated)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, length), 0);
    if (allocated)
        assert_int_equal(fallocate(fd, 0, 0, length), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* segment_refused -- the code with which a descriptor is refused. */
static int segment_refused(int fd, uint64_t length, bool writable)
{
    struct shm_segment *segment = NULL;
    int status = shm_segment_map(fd, length, writable, &segment);

    assert_null(segment);
    return status;
}

static void new_segment_is_zero_and_every_page_exists(void **state)
{
    struct shm_segment *segment = segment_make(SHM_SEGMENT_OPEN);
    struct stat about;

    (void)state;
    for (uint32_t i = 0; i < SEGMENT_BYTES; i++)
        assert_int_equal(segment->bytes[i], 0);
    assert_int_equal(fstat(segment->fd, &about), 0);
    assert_true(about.st_size >= (off_t)SEGMENT_BYTES);
    assert_true(about.st_blocks * 512 >= about.st_size);
    shm_segment_unref(&segment);
    assert_null(segment);
}

static void both_mappings_show_the_same_bytes(void **state)
{
    struct shm_segment *segment = segment_make(SHM_SEGMENT_OPEN), *mapped = NULL;

    (void)state;
    assert_int_equal(shm_segment_map(segment->fd, SEGMENT_BYTES, true, &mapped), 0);
    assert_ptr_not_equal(mapped->bytes, segment->bytes);
    mapped->bytes[SEGMENT_BYTES - 1] = 42;
    assert_int_equal(segment->bytes[SEGMENT_BYTES - 1], 42);
    shm_segment_unref(&segment); /* the mapping lives on */
    assert_int_equal(mapped->bytes[SEGMENT_BYTES - 1], 42);
    shm_segment_unref(&mapped);
}

static void nobody_can_change_the_length_of_a_segment(void **state)
{
    (void)state;
    for (int seal = SHM_SEGMENT_OPEN; seal <= SHM_SEGMENT_READONLY; seal++) {
        struct shm_segment *segment = segment_make((enum shm_segment_seal)seal);
        assert_int_equal(ftruncate(segment->fd, 0), -1);
        assert_int_equal(errno, EPERM);
        assert_int_equal(ftruncate(segment->fd, 1 << 20), -1);
        assert_int_equal(errno, EPERM);
        assert_int_equal(fcntl(segment->fd, F_ADD_SEALS, F_SEAL_WRITE), -1); /* nor add a seal */
        shm_segment_unref(&segment);
    }
}

static void readonly_segment_cannot_be_written_by_anybody_else(void **state)
{
    struct shm_segment *segment = segment_make(SHM_SEGMENT_READONLY), *mapped = NULL;

    (void)state;
    assert_int_equal(segment_refused(segment->fd, SEGMENT_BYTES, true), -STEPGATE_EACCESS);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0), MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(write(segment->fd, "x", 1), -1);
    assert_int_equal(fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(shm_segment_map(segment->fd, SEGMENT_BYTES, false, &mapped), 0);
    assert_int_equal(mprotect(mapped->bytes, mapped->length, PROT_READ | PROT_WRITE), -1);
    segment->bytes[7] = 9; /* whoever made it may */
    assert_int_equal(mapped->bytes[7], 9);
    shm_segment_unref(&mapped);
    shm_segment_unref(&segment);
}

static void readable_descriptor_of_a_writable_segment_cannot_be_mapped_writable(void **state)
{
    struct shm_segment *segment = segment_make(SHM_SEGMENT_OPEN), *mapped = NULL;
    int fd = shm_segment_readable_fd(segment);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(segment_refused(fd, SEGMENT_BYTES, true), -STEPGATE_EACCESS);
    assert_int_equal(shm_segment_map(fd, SEGMENT_BYTES, false, &mapped), 0);
    close(fd);
    shm_segment_unref(&mapped);
    shm_segment_unref(&segment);
}

static void memory_that_can_shrink_is_refused(void **state)
{
    const int fds[] = {segment_memfd(8192, 0, true), segment_memfd(8192, F_SEAL_GROW, true),
                       open("/dev/zero", O_RDWR | O_CLOEXEC)};

    (void)state;
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        assert_int_equal(segment_refused(fds[i], 4096, true), -STEPGATE_EPROTOCOL);
        close(fds[i]);
    }
}

static void memory_of_another_length_or_with_holes_is_refused(void **state)
{
    int fd = segment_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW, true);
    int sparse = segment_memfd(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW, false);
    int large = segment_memfd((off_t)64 << 20, F_SEAL_SHRINK | F_SEAL_GROW, false);

    (void)state;
    assert_int_equal(segment_refused(fd, 8193, true), -STEPGATE_EPROTOCOL);
    assert_int_equal(segment_refused(fd, 0, true), -STEPGATE_EPROTOCOL);
    assert_int_equal(segment_refused(fd, UINT64_MAX, true), -STEPGATE_EPROTOCOL);
    assert_int_equal(segment_refused(sparse, 1 << 20, true), -STEPGATE_EPROTOCOL);
    assert_int_equal(segment_refused(large, 4096, false), -STEPGATE_EPROTOCOL);
    close(fd);
    close(sparse);
    close(large);
}

static void more_memory_than_there_is_is_an_error_with_both_numbers(void **state)
{
    struct shm_segment *segment = NULL;
    struct stepgate_error error = {.size = sizeof(error)};
    unsigned long long wanted = 0, available = 0;

    (void)state;
    assert_int_equal(shm_segment_new((uint64_t)1 << 50, SHM_SEGMENT_OPEN, &segment), -STEPGATE_ENOMEM);
    assert_null(segment);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_int_equal(sscanf(error.text, "no room for %llu MiB of shared memory, %llu MiB are available",
                            &wanted, &available),
                     2);
    assert_true(wanted == (unsigned long long)1 << 30);
    assert_true(available > 0 && available < wanted);
    assert_true(error.remedy[0] != 0);
}

static void shared_mapping_is_one_mapping_and_ends_with_its_last_user(void **state)
{
    struct shm_segment *mapped = NULL, *again = NULL;

    (void)state;
    shm_segment_share(true);
    struct shm_segment *segment = segment_make(SHM_SEGMENT_OPEN);
    assert_int_equal(shm_segment_map(segment->fd, SEGMENT_BYTES, true, &mapped), 0);
    assert_ptr_equal(mapped, segment);
    int fd = dup(segment->fd);
    shm_segment_unref(&segment);
    shm_segment_unref(&mapped);
    assert_int_equal(shm_segment_map(fd, SEGMENT_BYTES, true, &again),
                     0); /* nothing of the old one is found */
    assert_int_equal(again->fd, -1);
    shm_segment_unref(&again);
    shm_segment_share(false);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_segment_is_zero_and_every_page_exists),
        cmocka_unit_test(both_mappings_show_the_same_bytes),
        cmocka_unit_test(nobody_can_change_the_length_of_a_segment),
        cmocka_unit_test(readonly_segment_cannot_be_written_by_anybody_else),
        cmocka_unit_test(readable_descriptor_of_a_writable_segment_cannot_be_mapped_writable),
        cmocka_unit_test(memory_that_can_shrink_is_refused),
        cmocka_unit_test(memory_of_another_length_or_with_holes_is_refused),
        cmocka_unit_test(more_memory_than_there_is_is_an_error_with_both_numbers),
        cmocka_unit_test(shared_mapping_is_one_mapping_and_ends_with_its_last_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
