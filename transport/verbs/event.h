/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event -- asynchronous events of the device. Whichever queue looks first takes them: it flags the endpoint or queue concerned, which may
 * belong to another thread, and wakes that. The object stays until the event is acknowledged, for destroying it waits for that.
 */
#ifndef TRANSPORT_VERBS_EVENT_H
#define TRANSPORT_VERBS_EVENT_H

#include "transport/verbs/queue.h"

/* event_drain -- takes the device's events, then acts on what is flagged for this queue. */
void event_drain(struct queue *queue);
/* event_report -- writes the pending STEPGATE_EVENT_DEVICE of the queue. */
void event_report(struct queue *queue, struct stepgate_event *event);

#endif
