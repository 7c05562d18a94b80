/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/base/available.h"
#include "transport/base/error.h"
#include "transport/base/pages.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

#define SEGMENT_NAME "stepgate"
#define SEGMENT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEGMENT_HUGE (UINT64_C(2) << 20)
#define SEGMENT_STRIDE                                                                                       \
    (UINT64_C(64) << 20) /* allocated per call: a signal undoes what the interrupted call has done */
#define SEGMENT_MIB(bytes) ((unsigned long long)(((bytes) + (1 << 20) - 1) >> 20))

/*
 * The mappings of this process, only filled while sharing is on. Process-wide, for tests alone: see shm_share_mappings.
 */
static atomic_bool segment_sharing;
static pthread_mutex_t segment_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shm_segment *segment_list;

/* shm_segment_share -- relaxed: it is called before anything is opened. */
void shm_segment_share(bool share)
{
    atomic_store_explicit(&segment_sharing, share, memory_order_relaxed);
}

/* segment_enlist -- others of this process may find it from now on. */
static void segment_enlist(struct shm_segment *segment, const struct stat *about)
{
    if (!atomic_load_explicit(&segment_sharing, memory_order_relaxed))
        return;
    segment->device = (uint64_t)about->st_dev;
    segment->inode = (uint64_t)about->st_ino;
    pthread_mutex_lock(&segment_lock);
    segment->listed = true;
    segment->next = segment_list;
    segment_list = segment;
    pthread_mutex_unlock(&segment_lock);
}

/* segment_find -- a mapping of the same memory in this process, with a reference; NULL: none, or sharing is off. */
static struct shm_segment *segment_find(const struct stat *about, bool writable)
{
    struct shm_segment *segment;

    if (!atomic_load_explicit(&segment_sharing, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&segment_lock);
    for (segment = segment_list; segment != NULL; segment = segment->next)
        if (segment->device == (uint64_t)about->st_dev && segment->inode == (uint64_t)about->st_ino &&
            segment->writable >= writable)
            break;
    if (segment != NULL)
        shm_segment_ref(segment);
    pthread_mutex_unlock(&segment_lock);
    return segment;
}

/* segment_short -- reports that there is not so much memory. */
static int segment_short(uint64_t length, int os_errno)
{
    return error_set(STEPGATE_ENOMEM, os_errno,
                     "fewer or smaller variables, more ps, or more memory for this container",
                     "no room for %llu MiB of shared memory, %llu MiB are available", SEGMENT_MIB(length),
                     (unsigned long long)(available_memory() >> 20));
}

/* segment_limited -- whether the limit of a file's size, which holds for shared memory too, is below a length. */
static bool segment_limited(uint64_t length)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < length;
}

/* segment_failed -- reports what the system says. */
static int segment_failed(uint64_t length, int os_errno, const char *what)
{
    switch (os_errno) {
    case EFBIG:
        if (segment_limited(length))
            return error_set(STEPGATE_ELIMIT, os_errno, "raise the limit: ulimit -f",
                             "cannot %s shared memory of %llu MiB", what, SEGMENT_MIB(length));
        return segment_short(length, os_errno);
    case ENOSPC:
    case ENOMEM: return segment_short(length, os_errno);
    case EMFILE:
    case ENFILE:
        return error_set(STEPGATE_ELIMIT, os_errno, "raise the limit: ulimit -n",
                         "cannot %s shared memory of %llu MiB", what, SEGMENT_MIB(length));
    default:
        return error_set(STEPGATE_ESYSTEM, os_errno, NULL, "cannot %s shared memory of %llu MiB", what,
                         SEGMENT_MIB(length));
    }
}

/* segment_memfd -- older kernels don't know of MFD_NOEXEC_SEAL, newer ones may insist on it. */
static int segment_memfd(unsigned flags)
{
    flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(SEGMENT_NAME, flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(SEGMENT_NAME, flags);
    return fd;
}

/*
 * segment_allocate -- gives the memfd its length. Its pages come with the mapping, from several threads at once; where the kernel could not say that there is none, every
 * page gets a place here: what is missing is an error, not a SIGBUS later.
 */
static int segment_allocate(int fd, uint64_t length)
{
    if (ftruncate(fd, (off_t)length) != 0)
        return -1;
    if (pages_touch_tells())
        return 0;
    for (uint64_t at = 0; at < length;) {
        uint64_t bytes = length - at < SEGMENT_STRIDE ? length - at : SEGMENT_STRIDE;
        if (fallocate(fd, 0, (off_t)at, (off_t)bytes) == 0)
            at += bytes;
        else if (errno != EINTR)
            return -1;
    }
    return 0;
}

/* segment_huge -- a memfd of reserved huge pages, -1 if there are not enough. Its mapping reserves them before any is touched. */
static int segment_huge(uint64_t *length)
{
    uint64_t rounded = (*length + SEGMENT_HUGE - 1) & ~(SEGMENT_HUGE - 1);

    if (*length < SEGMENT_HUGE)
        return -1;
    int fd = segment_memfd(MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0)
        return -1;
    if (segment_allocate(fd, rounded) != 0) {
        close(fd);
        return -1;
    }
    *length = rounded;
    return fd;
}

/* segment_plain -- a memfd of ordinary pages. */
static int segment_plain(uint64_t *length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t rounded = (*length + page - 1) & ~(page - 1);

    if (rounded > available_memory()) /* the kernel would rather kill somebody than say no */
        return segment_short(*length, 0);
    int fd = segment_memfd(0);
    if (fd < 0)
        return segment_failed(*length, errno, "make");
    if (segment_allocate(fd, rounded) != 0) {
        int status = segment_failed(*length, errno, "allocate");
        close(fd);
        return status;
    }
    *length = rounded;
    return fd;
}

/* segment_populate -- enters the pages into this process's page table now rather than one by one later. 0 or errno. */
static int segment_populate(uint8_t *bytes, uint64_t length, bool writable)
{
    (void)madvise(bytes, length, MADV_HUGEPAGE);
    return pages_touch(bytes, length, writable);
}

/* segment_memory -- a memfd, mapped, with all of its pages: reserved huge ones, or ordinary ones. */
static int segment_memory(struct shm_segment *segment, uint64_t length, bool huge)
{
    segment->length = length;
    segment->fd = huge ? segment_huge(&segment->length) : segment_plain(&segment->length);
    if (segment->fd < 0)
        return segment->fd;
    segment->bytes = mmap(NULL, segment->length, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (segment->bytes == MAP_FAILED) {
        int status = segment_failed(length, errno, "map");
        close(segment->fd);
        return status;
    }
    int error = segment_populate(segment->bytes, segment->length, true);
    if (error == 0)
        return 0;
    munmap(segment->bytes, segment->length);
    close(segment->fd);
    return segment_failed(length, error == EFAULT ? ENOMEM : error, "allocate");
}

/* shm_segment_new -- memfd, mapping, then the seals: a mapping made before F_SEAL_FUTURE_WRITE stays writable. */
int shm_segment_new(uint64_t length, enum shm_segment_seal seal, struct shm_segment **out)
{
    int seals = SEGMENT_SEALS | F_SEAL_SEAL | (seal == SHM_SEGMENT_READONLY ? F_SEAL_FUTURE_WRITE : 0);
    struct stat about;
    int status;

    if (length == 0 || length > (uint64_t)INT64_MAX - SEGMENT_HUGE)
        return error_set(STEPGATE_EINVAL, 0, NULL, "shared memory of %llu bytes", (unsigned long long)length);
    struct shm_segment *segment = calloc(1, sizeof(*segment));
    if (segment == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a segment");
    segment->writable = true;
    atomic_init(&segment->references, 1);
    status = segment_memory(segment, length, true);
    if (status != 0)
        status = segment_memory(segment, length, false);
    if (status != 0)
        goto free_segment;
    if (fcntl(segment->fd, F_ADD_SEALS, seals) != 0) {
        status = error_set(STEPGATE_ENOTSUP, errno, "use Linux 5.1 or newer", "cannot seal shared memory");
        goto unmap;
    }
    if (fstat(segment->fd, &about) != 0) {
        status = segment_failed(length, errno, "look at");
        goto unmap;
    }
    segment_enlist(segment, &about);
    *out = segment;
    return 0;
unmap:
    munmap(segment->bytes, segment->length);
    close(segment->fd);
free_segment:
    free(segment);
    return status;
}

/* shm_segment_map -- F_GET_SEALS fails on anything but a memfd; without F_SEAL_SHRINK the peer's ftruncate would kill us. */
int shm_segment_map(int fd, uint64_t length, bool writable, struct shm_segment **out)
{
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEGMENT_SEALS) != SEGMENT_SEALS)
        return error_set(STEPGATE_EPROTOCOL, seals < 0 ? errno : 0, NULL,
                         "the peer's memory is not sealed against changes of its length");
    if (fstat(fd, &about) != 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot look at the peer's memory");
    if (about.st_size <= 0 || length == 0 || length > (uint64_t)INT64_MAX - SEGMENT_HUGE ||
        length > (uint64_t)about.st_size)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL,
                         "the peer's memory is shorter than the %llu bytes that it said",
                         (unsigned long long)length);
    if (about.st_size >= (off_t)(length + SEGMENT_HUGE) ||
        about.st_blocks < about.st_size / 512) /* blocks of 512 bytes */
        return error_set(STEPGATE_EPROTOCOL, 0, NULL,
                         "the peer's memory has holes, or is longer than it said");
    if (writable && (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) != 0) /* also where a mapping is shared */
        return error_set(STEPGATE_EACCESS, 0, NULL, "the peer's memory was made for reading alone");
    *out = segment_find(&about, writable);
    if (*out != NULL)
        return 0;
    struct shm_segment *segment = calloc(1, sizeof(*segment));
    if (segment == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a segment");
    segment->length = (uint64_t)about.st_size;
    segment->writable = writable;
    segment->fd = -1;
    atomic_init(&segment->references, 1);
    segment->bytes =
        mmap(NULL, segment->length, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (segment->bytes == MAP_FAILED) {
        int os_errno = errno;
        free(segment);
        if (os_errno == EACCES || os_errno == EPERM)
            return error_set(STEPGATE_EACCESS, os_errno, NULL, "the peer's memory may only be read");
        return segment_failed((uint64_t)about.st_size, os_errno, "map");
    }
    (void)segment_populate(segment->bytes, segment->length, writable); /* they are there: it has no holes */
    segment_enlist(segment, &about);
    *out = segment;
    return 0;
}

/* shm_segment_readable_fd -- opened anew, since a duplicate would be as writable as the original. */
int shm_segment_readable_fd(const struct shm_segment *segment)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", segment->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return error_set(STEPGATE_ESYSTEM, errno, "mount /proc", "cannot open shared memory for reading");
    return fd >= 0 ? fd : segment_failed(segment->length, errno, "open");
}

/* shm_segment_close -- nobody else will be given it. */
void shm_segment_close(struct shm_segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}

/* shm_segment_ref -- relaxed: whoever asks has a reference, or the list's lock. */
struct shm_segment *shm_segment_ref(struct shm_segment *segment)
{
    atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
    return segment;
}

/* segment_delist -- drops a reference of a listed segment; true: it was the last, and nobody finds it any more. */
static bool segment_delist(struct shm_segment *segment)
{
    pthread_mutex_lock(&segment_lock);
    bool last = atomic_fetch_sub_explicit(&segment->references, 1, memory_order_acq_rel) == 1;
    struct shm_segment **link = &segment_list;
    while (last && *link != segment)
        link = &(*link)->next;
    if (last)
        *link = segment->next;
    pthread_mutex_unlock(&segment_lock);
    return last;
}

/* shm_segment_unref -- acquire and release: pairs with the other users' decrements, so that what they did comes before the unmapping. */
void shm_segment_unref(struct shm_segment **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct shm_segment *segment = *pointer;
    *pointer = NULL;
    bool last = segment->listed
                    ? segment_delist(segment)
                    : atomic_fetch_sub_explicit(&segment->references, 1, memory_order_acq_rel) == 1;
    if (!last)
        return;
    munmap(segment->bytes, segment->length);
    shm_segment_close(segment);
    free(segment);
}
