/* SPDX-License-Identifier: BSD-3-Clause */
/* listener -- accepts connections at an address; its requests arrive as events of its queue. */
#ifndef TRANSPORT_VERBS_LISTENER_H
#define TRANSPORT_VERBS_LISTENER_H

#include "transport/verbs/endpoint.h"

struct listener {
    struct stepgate_listener base;
    struct owner owner;
    struct rdma_cm_id *id;
};

int listener_new(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out);
int listener_address(struct stepgate_listener *listener, char *text, size_t bytes);
void listener_delete(struct stepgate_listener **listener);

#endif
