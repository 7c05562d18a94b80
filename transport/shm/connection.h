/* SPDX-License-Identifier: BSD-3-Clause */
/* connection -- how an endpoint comes up: connect, ask, and the answer; or accepting a request. */
#ifndef TRANSPORT_SHM_CONNECTION_H
#define TRANSPORT_SHM_CONNECTION_H

#include "transport/shm/endpoint.h"

/* shm_connection_look -- the answer has come, or the end. */
void shm_connection_look(struct shm_endpoint *endpoint);
/* shm_connection_deadline -- when to look next; connects again, gives up. CLOCK_NEVER: it is not connecting. */
uint64_t shm_connection_deadline(struct shm_endpoint *endpoint, uint64_t now);

#endif
