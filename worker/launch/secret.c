/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/base/error.h"

#define SECRET_BYTES 32
#define SECRET_FIRST_FD 50 /* shell scripts use the small numbers for themselves */

/* secret_fill -- random bytes, then never again to be changed; returns 0 or the errno. */
static int secret_fill(int fd)
{
    unsigned char bytes[SECRET_BYTES];

    randombytes_buf(bytes, sizeof(bytes));
    ssize_t written = pwrite(fd, bytes, sizeof(bytes), 0);
    int os_errno = written < 0 ? errno : 0;
    sodium_memzero(bytes, sizeof(bytes));
    if (written != (ssize_t)sizeof(bytes))
        return os_errno != 0 ? os_errno : EIO;
    if (fchmod(fd, 0600) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        return errno;
    return 0;
}

/* secret_new -- 32 random bytes. */
int secret_new(int *fd)
{
    if (sodium_init() < 0)
        return error_set(STEPGATE_ESYSTEM, 0, NULL, "there is no source of random bytes");
    int low = memfd_create("stepgate-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (low < 0 && errno == EMFILE)
        return error_set(STEPGATE_ELIMIT, 0, "raise the limit: ulimit -n",
                         "too many descriptors: none is left for the job's secret");
    if (low < 0)
        return error_set(STEPGATE_ESYSTEM, errno, NULL, "cannot make memory for the job's secret");
    int made = fcntl(low, F_DUPFD_CLOEXEC, SECRET_FIRST_FD);
    int os_errno = errno;
    close(low);
    if (made < 0 &&
        (os_errno == EINVAL || os_errno == EMFILE)) /* EINVAL: the limit is below the first number */
        return error_set(STEPGATE_ELIMIT, 0, "raise the limit: ulimit -n",
                         "too many descriptors: none is left for the job's secret");
    if (made < 0)
        return error_set(STEPGATE_ESYSTEM, os_errno, NULL, "no descriptor for the job's secret");
    os_errno = secret_fill(made);
    if (os_errno != 0) {
        close(made);
        return error_set(os_errno == EFBIG ? STEPGATE_ELIMIT : STEPGATE_ESYSTEM, os_errno,
                         os_errno == EFBIG ? "raise the limit: ulimit -f" : NULL,
                         "cannot store the job's secret");
    }
    *fd = made;
    return 0;
}

/* secret_path -- for STEPGATE_SECRET_FILE. */
void secret_path(int fd, char out[SECRET_PATH_BYTES])
{
    snprintf(out, SECRET_PATH_BYTES, "/proc/self/fd/%d", fd);
}
