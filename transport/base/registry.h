/* SPDX-License-Identifier: BSD-3-Clause */
/* registry -- the transports of others that this process knows, in the order in which they came. None ever leaves. Thread-safe. */
#ifndef TRANSPORT_BASE_REGISTRY_H
#define TRANSPORT_BASE_REGISTRY_H

#include "stepgate/transport.h"

/* registry_add -- see stepgate_transport_register. */
int registry_add(const struct stepgate_transport_v1 *table);
/* registry_place -- where a name stands, from 0; -1: nowhere. */
int registry_place(const char *name);
/* registry_at -- the table at a place; NULL: there is none. */
const struct stepgate_transport_v1 *registry_at(int place);

#endif
