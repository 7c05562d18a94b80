/* SPDX-License-Identifier: BSD-3-Clause */
/* counted -- an example of a transport of one's own: it counts what goes over it, and leaves the moving to shared memory. */
#ifndef WORKER_EXAMPLES_TRANSPORT_COUNTED_H
#define WORKER_EXAMPLES_TRANSPORT_COUNTED_H

#include "stepgate/transport.h"

struct counted_sum {
    uint64_t writes, reads, notifies, messages, bytes;
};

/* counted_transport -- its table, to be registered; NULL: there is no transport below. */
const struct stepgate_transport_v1 *counted_transport(void);
/* counted_sum -- of this process, so far. */
void counted_sum(struct counted_sum *out);

#endif
