/* SPDX-License-Identifier: BSD-3-Clause */
/* pump -- moves operations from an endpoint's ring to its device, as far as the send queue, credits and read limits allow. */
#ifndef TRANSPORT_VERBS_PUMP_H
#define TRANSPORT_VERBS_PUMP_H

struct endpoint;

/* pump -- posts what can be posted; a device that refuses breaks the connection. */
void pump(struct endpoint *endpoint);
/* pump_nudge -- posts a frame that says nothing, if there is room for one. */
void pump_nudge(struct endpoint *endpoint);

#endif
