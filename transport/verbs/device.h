/* SPDX-License-Identifier: BSD-3-Clause */
/* device -- the fabric of the verbs transport: one RDMA device with what it can do; and its protection domains. */
#ifndef TRANSPORT_VERBS_DEVICE_H
#define TRANSPORT_VERBS_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "stepgate/transport.h"
#include "transport/base/counters.h"
#include "transport/verbs/seam.h"

#define DEVICE_PORTS_MAX 2 /* whose counters are kept */

struct device {
    struct stepgate_fabric base;
    struct ibv_context *context;   /* librdmacm's, shared by all users of the device in this process */
    struct ibv_context **list;     /* keeps it open when the device was chosen by name */
    struct rdma_cm_id *anchor;     /* keeps it open when the device was chosen by address */
    struct ibv_cq *hole;           /* siw: covers an offset that its user-space half cannot use; else NULL */
    struct sockaddr_storage local; /* where to connect from; family 0: any */
    char name[64];
    bool iwarp; /* no immediate data, no atomics, a write's completion is local, reads need REMOTE_WRITE */
    bool atomics;
    int max_cqe;
    uint32_t max_wr;
    uint8_t reads_out, reads_in; /* reads in flight that it can start, and serve */
    uint8_t ack_timeout;         /* exponent, from the peer time-out */
    uint64_t piece_bytes;
    uint32_t operations; /* ring of an endpoint: a power of two */
    int connect_timeout_ms;
    struct counters counters[DEVICE_PORTS_MAX]; /* of ports 1 and up, when it was opened; constant */
    atomic_uint vector; /* of the next queue, before it is cut down to those that there are */
    atomic_int fatal;   /* set by whoever met the event, read by every queue: relaxed, it orders nothing */
};

struct domain {
    struct stepgate_domain base;
    struct device *device;
    struct ibv_pd *pd;
};

#define DEVICE_RETRIES 6 /* never 7: rxe counts that as "for ever" */

int device_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out);
void device_delete(struct stepgate_fabric **fabric);
int domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out);
void domain_delete(struct stepgate_domain **domain);
/* device_trouble -- what the device has counted of trouble at a port since it was opened, as a part of a sentence: " (rxe0 port 1 since the start: ...)"; "" where there is nothing to tell. */
void device_trouble(const struct device *device, unsigned port, char *out, size_t bytes);
/* device_vector -- the completion vector of a new queue: each takes the next one, so that those of several lanes interrupt several processors. */
int device_vector(struct device *device);
/* device_ack_timeout -- the exponent t for which (retries + 1) * 4.096 us * 2^t is at most half the peer time-out. */
uint8_t device_ack_timeout(int peer_timeout_ms);

#endif
