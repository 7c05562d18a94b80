/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric -- the shared memory of this host, opened; its protection domains; and numbers that nobody can guess. */
#ifndef TRANSPORT_SHM_FABRIC_H
#define TRANSPORT_SHM_FABRIC_H

#include "stepgate/transport.h"

#define SHM_OPERATIONS 256U /* without a wish */
#define SHM_OPERATIONS_LEAST 16U
#define SHM_OPERATIONS_MOST 65536U

struct shm_fabric {
    struct stepgate_fabric base;
    uint64_t connect_timeout_ns;
    uint32_t operations;
};

struct shm_domain {
    struct stepgate_domain base;
    struct shm_fabric *fabric;
    uint64_t number; /* how peers tell domains apart */
};

int shm_fabric_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out);
void shm_fabric_delete(struct stepgate_fabric **fabric);
int shm_domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out);
void shm_domain_delete(struct stepgate_domain **domain);

/* shm_number -- 64 random bits from the kernel, not 0. Errors: ESYSTEM. */
int shm_number(uint64_t *out);

#endif
