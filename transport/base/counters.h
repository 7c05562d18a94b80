/* SPDX-License-Identifier: BSD-3-Clause */
/* counters -- what an RDMA device counts at a port: read twice, it tells what the network did in between. */
#ifndef TRANSPORT_BASE_COUNTERS_H
#define TRANSPORT_BASE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define COUNTERS_MAX 96
#define COUNTERS_SYS "/sys/class/infiniband"

struct counter {
    char name[48];
    uint64_t value;
};

struct counters {
    struct counter list[COUNTERS_MAX];
    size_t count;
};

/* counters_read -- of a port, below `sys` (COUNTERS_SYS); none where the device counts nothing. */
void counters_read(const char *sys, const char *device, unsigned port, struct counters *out);
/* counters_trouble -- those that tell of trouble (packets sent again, receivers not ready, out of sequence, errors) and have grown, in words: "retry_exceeded_err 1, ..."; "" where none has. */
void counters_trouble(const struct counters *before, const struct counters *after, char *out, size_t bytes);

#endif
