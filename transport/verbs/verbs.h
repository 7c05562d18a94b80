/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs -- the transport over RDMA devices (InfiniBand, RoCE, iWARP) with libibverbs and librdmacm.
 *
 * Hellos are padded with zeros to STEPGATE_HELLO_BYTES on the way: the connection manager carries no length, and leaves no byte
 * for one. The receiver always sees 56 bytes, or none when all were zero; what they hold must tell its own length.
 */
#ifndef TRANSPORT_VERBS_VERBS_H
#define TRANSPORT_VERBS_VERBS_H

#include "stepgate/transport.h"

/* verbs_transport -- the table of the verbs transport; constant, never NULL. */
const struct stepgate_transport_v1 *verbs_transport(void);

/* What an open device has, for all its users together. */
struct verbs_limits {
    uint64_t queue_pairs, regions;
    uint64_t region_bytes;    /* of the largest one */
    uint32_t reads_in_flight; /* that a connection can serve at once */
    uint64_t endpoint_bytes;  /* registered for each endpoint */
};

/* verbs_limits -- of a fabric of this transport. Errors: ESYSTEM. */
int verbs_limits(const struct stepgate_fabric *fabric, struct verbs_limits *out);

#endif
