/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote -- memory of the peer, mapped here, and how it is granted. The memfd goes over the socket of the endpoint, with a number that
 * nobody can guess; the descriptor that travels by other ways names the number:
 *
 *   0 "SGSD" | 4 u32 access | 8 u64 number | 16 u64 length | 24 u64 connection | 32..63 zero      (little-endian)
 *
 * Grants wait in the socket until somebody imports, so that polling does not have to look after them.
 */
#ifndef TRANSPORT_SHM_REMOTE_H
#define TRANSPORT_SHM_REMOTE_H

#include "stepgate/transport.h"
#include "transport/shm/segment.h"

struct shm_endpoint;

struct shm_remote {
    struct stepgate_remote base;
    uint64_t domain; /* of the peer; any endpoint whose far end is in it may use the remote */
    struct shm_segment *segment;
};

int shm_endpoint_export(struct stepgate_endpoint *endpoint, struct stepgate_region *region, unsigned access,
                        struct stepgate_descriptor *out);
int shm_endpoint_import(struct stepgate_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                        struct stepgate_remote **out);
void shm_remote_delete(struct stepgate_remote **remote);

/* shm_remote_forget -- frees the grants of an endpoint, both ways. Remotes keep their memory. */
void shm_remote_forget(struct shm_endpoint *endpoint);

#endif
