/* SPDX-License-Identifier: BSD-3-Clause */
/* process -- whether the process at the other end of a socket is over. The end of a socket does not tell: a process may close it, and live. */
#ifndef TRANSPORT_SHM_PROCESS_H
#define TRANSPORT_SHM_PROCESS_H

#include <stdbool.h>

/* shm_process_open -- a descriptor that is readable when the process is over. -1: nobody can tell (of another namespace, no descriptors left, an old kernel), or
 * it is this one; *over: it is over already. */
int shm_process_open(int pid, bool *over);
/* shm_process_over -- is it? */
bool shm_process_over(int fd);

#endif
