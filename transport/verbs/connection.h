/* SPDX-License-Identifier: BSD-3-Clause */
/* connection -- the connection manager's side: connect, accept, refuse, and what its events mean. Advanced by queue_poll. */
#ifndef TRANSPORT_VERBS_CONNECTION_H
#define TRANSPORT_VERBS_CONNECTION_H

#include "stepgate/transport.h"
#include "transport/verbs/endpoint.h"

struct request {
    struct stepgate_request base;
    struct owner owner;
    struct device *device;
    struct rdma_cm_id *id;
    uint8_t reads_out, reads_in; /* what the peer allows, and asks for */
    uint8_t hello[STEPGATE_HELLO_BYTES];
    char peer[STEPGATE_ADDRESS_BYTES];
    atomic_int
        gone; /* set by the listener's thread, read by the holder after rdma_migrate_id has waited for that event */
};

int connection_connect(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                       const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out);
int connection_accept(struct stepgate_request *request, struct stepgate_queue *queue,
                      struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                      struct stepgate_endpoint **out);
void connection_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes);
/* connection_event -- takes one event of the connection manager; returns 1: *event was filled, 0: nothing to tell, -1: there was none. */
int connection_event(struct queue *queue, struct stepgate_event *event);
/* connection_deadline -- the earliest deadline of the queue's endpoints: of connecting, or of the next nudge. */
uint64_t connection_deadline(const struct queue *queue);
/* connection_expire -- closes connecting endpoints whose deadline is past, and nudges the peers of others. */
void connection_expire(struct queue *queue, uint64_t now);

#endif
