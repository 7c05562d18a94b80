/* SPDX-License-Identifier: BSD-3-Clause */
/* region -- memory for peers and for local use: a segment, or memory of the caller's. */
#ifndef TRANSPORT_SHM_REGION_H
#define TRANSPORT_SHM_REGION_H

#include "stepgate/transport.h"
#include "transport/shm/segment.h"

struct shm_region {
    struct stepgate_region base;
    uint64_t domain; /* its number */
    uint64_t number; /* of this region, never used again */
    unsigned access;
    struct shm_segment *segment; /* NULL: memory of the caller's */
};

int shm_region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
                   struct stepgate_region **out);
void shm_region_delete(struct stepgate_region **region);

#endif
