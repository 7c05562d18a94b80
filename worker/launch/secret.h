/* SPDX-License-Identifier: BSD-3-Clause */
/* secret -- a job's random secret in memory that only the job's processes inherit: never in a file, argv or the environment. */
#ifndef WORKER_LAUNCH_SECRET_H
#define WORKER_LAUNCH_SECRET_H

#include <stddef.h>

#define SECRET_PATH_BYTES 32

/* secret_new -- *fd gets a descriptor that is closed on exec; a child that is to know the secret clears that. Errors: ESYSTEM, ELIMIT. */
int secret_new(int *fd);
/* secret_path -- the name under which a process that inherited the descriptor can open it. */
void secret_path(int fd, char out[SECRET_PATH_BYTES]);

#endif
