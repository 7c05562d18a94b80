/* SPDX-License-Identifier: BSD-3-Clause */
/* available -- how much memory this process can still have: of the machine, and of the container that it runs in. */
#ifndef TRANSPORT_BASE_AVAILABLE_H
#define TRANSPORT_BASE_AVAILABLE_H

#include <stdint.h>

/* available_memory -- bytes; UINT64_MAX where nothing says. */
uint64_t available_memory(void);
/* available_memory_in -- the same, from files below `root` instead of the system's: proc/meminfo, proc/self/cgroup, sys/fs/cgroup. */
uint64_t available_memory_in(const char *root);

#endif
