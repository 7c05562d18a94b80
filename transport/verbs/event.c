/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/event.h"

#include <stdio.h>

#include "transport/base/error.h"
#include "transport/verbs/endpoint.h"

#define EVENT_REMEDY "look at the device (ibv_devinfo) and at the kernel's log"

enum event_flag { EVENT_QP_FAILED = 1, EVENT_CQ_FAILED = 2, EVENT_FATAL = 1 };

/* event_tell -- keeps a device event for the next poll; a fatal one is never replaced by a warning. */
static void event_tell(struct queue *queue, int status, const char *what)
{
    if (queue->device_event && queue->device_status != 0)
        return;
    queue->device_event = true;
    queue->device_status = status;
    snprintf(queue->device_text, sizeof(queue->device_text), "RDMA device %s: %s", queue->device->name, what);
}

/* event_take -- one asynchronous event. */
static void event_take(struct queue *queue, const struct ibv_async_event *event)
{
    struct endpoint *endpoint;

    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        endpoint = event->element.qp->qp_context;
        atomic_store_explicit(&endpoint->async, EVENT_QP_FAILED, memory_order_relaxed);
        queue_wake(endpoint->queue);
        return;
    case IBV_EVENT_CQ_ERR: {
        struct queue *failed = event->element.cq->cq_context;
        atomic_store_explicit(&failed->device->fatal, EVENT_FATAL, memory_order_relaxed);
        queue_wake(failed);
        return;
    }
    case IBV_EVENT_DEVICE_FATAL:
        atomic_store_explicit(&queue->device->fatal, EVENT_FATAL, memory_order_relaxed);
        queue_wake(queue);
        return;
    case IBV_EVENT_PORT_ERR: event_tell(queue, 0, "a port went down"); return;
    case IBV_EVENT_PORT_ACTIVE: event_tell(queue, 0, "a port came up"); return;
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE: event_tell(queue, 0, "an address of the device changed"); return;
    default: return; /* COMM_EST: the first frame tells; SRQ and migration are not used */
    }
}

/* event_fail -- ends the endpoints that are flagged, or all when the device is lost. */
static void event_fail(struct queue *queue, bool all)
{
    for (uint32_t i = 0; i < queue->capacity; i++) {
        struct endpoint *endpoint = queue->slots[i];
        if (endpoint == NULL)
            continue;
        if (all)
            endpoint_close(endpoint, STEPGATE_EDEVICE, EVENT_REMEDY, "the device %s is in error",
                           queue->device->name);
        else if (atomic_exchange_explicit(&endpoint->async, 0, memory_order_relaxed) != 0)
            endpoint_close(endpoint, STEPGATE_EPEER, NULL, "its queue pair is in error");
    }
}

/* event_drain -- takes and acts. */
void event_drain(struct queue *queue)
{
    struct ibv_async_event event;

    while (seam_async_event(queue->device->context, &event) == 0) {
        event_take(queue, &event);
        seam_ack_async_event(&event);
    }
    /* acquire: pairs with queue_wake, after which the flags are to be seen */
    if (atomic_exchange_explicit(&queue->async, 0, memory_order_acquire) != 0)
        event_fail(queue, false);
    if (!queue->fatal_seen && atomic_load_explicit(&queue->device->fatal, memory_order_relaxed) != 0) {
        queue->fatal_seen = true;
        event_fail(queue, true);
        event_tell(queue, -STEPGATE_EDEVICE, "the device is in error");
    }
}

/* event_report -- writes the pending event; its words are the last error of this thread, until another event of the same poll has some. */
void event_report(struct queue *queue, struct stepgate_event *event)
{
    *event = (struct stepgate_event){.kind = STEPGATE_EVENT_DEVICE,
                                     .status = queue->device_status,
                                     .why = queue->device_text,
                                     .remedy = EVENT_REMEDY};
    queue->device_event = false;
    (void)error_set(STEPGATE_EDEVICE, 0, EVENT_REMEDY, "%s", queue->device_text);
}
