/* SPDX-License-Identifier: BSD-3-Clause */
/* post -- checks what the caller posts and puts it into the endpoint's ring. */
#ifndef TRANSPORT_VERBS_POST_H
#define TRANSPORT_VERBS_POST_H

#include "stepgate/transport.h"

int post_write(struct stepgate_endpoint *endpoint, struct stepgate_region *local, uint64_t local_offset,
               const void *data, struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length,
               unsigned flags, uint64_t context);
int post_read(struct stepgate_endpoint *endpoint, struct stepgate_region *local, uint64_t local_offset,
              struct stepgate_remote *remote, uint64_t remote_offset, uint64_t length, unsigned flags,
              uint64_t context);
int post_notify(struct stepgate_endpoint *endpoint, uint32_t value);
int post_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length);

#endif
