/* SPDX-License-Identifier: BSD-3-Clause */
/* post -- writes, reads, notifies and messages. Writes and reads are done when the call returns; only their completions wait. */
#ifndef TRANSPORT_SHM_POST_H
#define TRANSPORT_SHM_POST_H

#include "stepgate/transport.h"

#define SHM_INLINE_BYTES 4096U

int shm_endpoint_write(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                       uint64_t local_offset, const void *data, struct stepgate_remote *remote,
                       uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context);
int shm_endpoint_read(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                      uint64_t local_offset, struct stepgate_remote *remote, uint64_t remote_offset,
                      uint64_t length, unsigned flags, uint64_t context);
int shm_endpoint_notify(struct stepgate_endpoint *endpoint, uint32_t value);
int shm_endpoint_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length);

#endif
