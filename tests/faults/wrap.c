/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wrap -- stands in front of the functions of the system that the project calls and that can fail: the linker is given --wrap for each (wrapped), so that
 * calls which the C library and other libraries make themselves are not among them. Left out are those whose number depends on
 * time (waits), and those that cannot fail as they are called here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/faults/point.h"
#include "tests/faults/wrap.h"

static atomic_long wrap_threads, wrap_mappings;

/* wrap_kept -- see wrap.h. */
void wrap_kept(struct wrap_kept *out)
{
    *out = (struct wrap_kept){.threads = atomic_load(&wrap_threads),
                              .mappings = atomic_load(&wrap_mappings),
                              .objects = wrap_objects()};
}

/* Memory. */
WRAP(void *, malloc, NULL, ENOMEM, (size_t bytes), (bytes))
WRAP(void *, calloc, NULL, ENOMEM, (size_t n, size_t bytes), (n, bytes))
WRAP(void *, realloc, NULL, ENOMEM, (void *old, size_t bytes), (old, bytes))
WRAP(void *, aligned_alloc, NULL, ENOMEM, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP_CODE(posix_memalign, ENOMEM, (void **out, size_t alignment, size_t bytes), (out, alignment, bytes))
WRAP(char *, strdup, NULL, ENOMEM, (const char *text), (text))
WRAP(char *, realpath, NULL, ENOMEM, (const char *path, char *out), (path, out))
WRAP(int, madvise, -1, EINVAL, (void *memory, size_t bytes, int advice), (memory, bytes, advice))

/* Files. */
WRAP(FILE *, fopen, NULL, EMFILE, (const char *path, const char *mode), (path, mode))
WRAP(int, fflush, EOF, ENOSPC, (FILE * file), (file))
WRAP(char *, fgets, NULL, EIO, (char *text, int bytes, FILE *file), (text, bytes, file))
WRAP(ssize_t, __getdelim, -1, ENOMEM, (char **text, size_t *room, int end, FILE *file),
     (text, room, end, file))
WRAP(ssize_t, pread, -1, EIO, (int fd, void *data, size_t bytes, off_t at), (fd, data, bytes, at))
WRAP(ssize_t, pwrite, -1, ENOSPC, (int fd, const void *data, size_t bytes, off_t at), (fd, data, bytes, at))
WRAP(int, fsync, -1, EIO, (int fd), (fd))
WRAP(int, ftruncate, -1, ENOSPC, (int fd, off_t bytes), (fd, bytes))
WRAP(int, fallocate, -1, ENOSPC, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes))
WRAP(int, fchmod, -1, EPERM, (int fd, mode_t mode), (fd, mode))
WRAP(int, stat, -1, EACCES, (const char *path, struct stat *out), (path, out))
WRAP(int, fstat, -1, EIO, (int fd, struct stat *out), (fd, out))
WRAP(int, fstatat, -1, EACCES, (int at, const char *path, struct stat *out, int flags),
     (at, path, out, flags))
WRAP(int, statvfs, -1, EIO, (const char *path, struct statvfs *out), (path, out))
WRAP(int, rename, -1, EIO, (const char *from, const char *to), (from, to))
WRAP(int, mkdir, -1, ENOSPC, (const char *path, mode_t mode), (path, mode))
WRAP(int, rmdir, -1, EIO, (const char *path), (path))
WRAP(int, unlink, -1, EIO, (const char *path), (path))
WRAP(int, unlinkat, -1, EIO, (int at, const char *path, int flags), (at, path, flags))
WRAP(DIR *, opendir, NULL, EMFILE, (const char *path), (path))
WRAP(struct dirent *, readdir, NULL, EIO, (DIR * folder), (folder))
WRAP(ssize_t, readlink, -1, EACCES, (const char *path, char *out, size_t bytes), (path, out, bytes))
WRAP(int, access, -1, EACCES, (const char *path, int mode), (path, mode))

/* Descriptors. */
WRAP(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
WRAP(int, epoll_create1, -1, EMFILE, (int flags), (flags))
WRAP(int, eventfd, -1, EMFILE, (unsigned count, int flags), (count, flags))
WRAP(int, timerfd_create, -1, EMFILE, (int clock, int flags), (clock, flags))
WRAP(int, pidfd_open, -1, EMFILE, (pid_t pid, unsigned flags), (pid, flags))
WRAP(int, socket, -1, EMFILE, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, bind, -1, EADDRINUSE, (int fd, const struct sockaddr *address, socklen_t bytes),
     (fd, address, bytes))
WRAP(int, listen, -1, EADDRINUSE, (int fd, int backlog), (fd, backlog))
WRAP(int, connect, -1, ECONNREFUSED, (int fd, const struct sockaddr *address, socklen_t bytes),
     (fd, address, bytes))
WRAP(int, accept4, -1, EMFILE, (int fd, struct sockaddr *address, socklen_t *bytes, int flags),
     (fd, address, bytes, flags))
WRAP(int, getsockname, -1, ENOBUFS, (int fd, struct sockaddr *address, socklen_t *bytes),
     (fd, address, bytes))
WRAP(int, getsockopt, -1, ENOBUFS, (int fd, int level, int name, void *value, socklen_t *bytes),
     (fd, level, name, value, bytes))
WRAP(ssize_t, sendmsg, -1, ENOBUFS, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP(ssize_t, recvmsg, -1, ECONNRESET, (int fd, struct msghdr *message, int flags), (fd, message, flags))

/* Names and numbers of the system. */
WRAP(int, getaddrinfo, EAI_MEMORY, ENOMEM,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out),
     (host, service, hints, out))
WRAP(int, getifaddrs, -1, ENOMEM, (struct ifaddrs * *out), (out))
WRAP(ssize_t, getrandom, -1, ENOSYS, (void *out, size_t bytes, unsigned flags), (out, bytes, flags))
WRAP(int, sched_getaffinity, -1, EINVAL, (pid_t pid, size_t bytes, cpu_set_t *out), (pid, bytes, out))
WRAP(int, sched_setaffinity, -1, EINVAL, (pid_t pid, size_t bytes, const cpu_set_t *set), (pid, bytes, set))
WRAP(int, hwloc_topology_init, -1, ENOMEM, (hwloc_topology_t * out), (out))
WRAP(int, hwloc_topology_load, -1, ENOMEM, (hwloc_topology_t topology), (topology))
WRAP(hwloc_bitmap_t, hwloc_bitmap_alloc, NULL, ENOMEM, (void), ())

/* Those that take whatever follows, which is nothing or one number here. */
#define WRAP_MORE(name, error, parameter, argument, number)                                                  \
    int __real_##name(parameter, int what, ...);                                                             \
    int __wrap_##name(parameter, int what, ...);                                                             \
    int __wrap_##name(parameter, int what, ...)                                                              \
    {                                                                                                        \
        va_list more;                                                                                        \
        va_start(more, what);                                                                                \
        number value = va_arg(more, number);                                                                 \
        va_end(more);                                                                                        \
        if (point_reached(POINT_SYSTEM, #name, error, __builtin_return_address(0)))                          \
            return -1;                                                                                       \
        return __real_##name(argument, what, value);                                                         \
    }
WRAP_MORE(open, EMFILE, const char *path, path, unsigned)
WRAP_MORE(fcntl, EINVAL, int fd, fd, void *)

/* wrap_is_file -- only reads and writes of files count: those of an eventfd or a timer do not fail, and come as time goes. */
static bool wrap_is_file(int fd)
{
    struct stat at;
    int __real_fstat(int file, struct stat *out);

    return __real_fstat(fd, &at) == 0 && S_ISREG(at.st_mode);
}

ssize_t __real_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes);
/* __wrap_read -- of a file. */
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    if (wrap_is_file(fd) && point_reached(POINT_SYSTEM, "read", EIO, __builtin_return_address(0)))
        return -1;
    return __real_read(fd, data, bytes);
}

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
/* __wrap_write -- to a file. */
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
    if (wrap_is_file(fd) && point_reached(POINT_SYSTEM, "write", ENOSPC, __builtin_return_address(0)))
        return -1;
    return __real_write(fd, data, bytes);
}

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
/* __wrap_epoll_ctl -- what is in a set can always be taken out of it: code that could not rely on that would have to keep what the set points to for ever. */
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    if (what != EPOLL_CTL_DEL &&
        point_reached(POINT_SYSTEM, "epoll_ctl", ENOSPC, __builtin_return_address(0)))
        return -1;
    return __real_epoll_ctl(epoll, what, fd, event);
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
/* __wrap_fclose -- a file that could not be written to its end is closed all the same. */
int __wrap_fclose(FILE *file)
{
    bool fails = point_reached(POINT_SYSTEM, "fclose", ENOSPC, __builtin_return_address(0));
    int status = __real_fclose(file);

    if (fails)
        errno = ENOSPC;
    return fails ? EOF : status;
}

void *__real_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t from);
/* __wrap_mmap -- counted, to be given back. */
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t from)
{
    if (point_reached(POINT_SYSTEM, "mmap", ENOMEM, __builtin_return_address(0)))
        return MAP_FAILED;
    void *memory = __real_mmap(at, bytes, access, flags, fd, from);
    if (memory != MAP_FAILED)
        atomic_fetch_add(&wrap_mappings, 1);
    return memory;
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
/* __wrap_munmap -- gives one back. */
int __wrap_munmap(void *at, size_t bytes)
{
    atomic_fetch_sub(&wrap_mappings, 1);
    return __real_munmap(at, bytes);
}

typedef void *wrap_body(void *context);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *how, wrap_body *body, void *context);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, wrap_body *body, void *context);
/* __wrap_pthread_create -- counted, to be waited for. */
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, wrap_body *body, void *context)
{
    if (point_reached(POINT_SYSTEM, "pthread_create", EAGAIN, __builtin_return_address(0)))
        return EAGAIN;
    int status = __real_pthread_create(out, how, body, context);
    if (status == 0)
        atomic_fetch_add(&wrap_threads, 1);
    return status;
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
/* __wrap_pthread_join -- one is gone. */
int __wrap_pthread_join(pthread_t thread, void **result)
{
    int status = __real_pthread_join(thread, result);

    if (status == 0)
        atomic_fetch_sub(&wrap_threads, 1);
    return status;
}
