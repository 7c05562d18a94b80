/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/completion.h"

#include <arpa/inet.h>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/pump.h"

/* completion_failed -- the first bad status ends the connection; its words tell what the device met. */
static void completion_failed(struct endpoint *endpoint, const struct ibv_wc *wc)
{
    char trouble[384] = "";

    if (endpoint->state < ENDPOINT_UP)
        return; /* siw flushes the receives of a refused connection before its event, which knows the reason, comes */
    if (wc->status != IBV_WC_WR_FLUSH_ERR)
        endpoint_trouble(&endpoint->base, trouble, sizeof(trouble));
    switch (wc->status) {
    case IBV_WC_RETRY_EXC_ERR:
        endpoint_close(endpoint, STEPGATE_EPEER, "is the peer's host up, and the network?",
                       "the peer's device does not answer (%s)%s", ibv_wc_status_str(wc->status), trouble);
        return;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        endpoint_close(endpoint, STEPGATE_EPEER, NULL, "the peer's device refused the access (%s)%s",
                       ibv_wc_status_str(wc->status), trouble);
        return;
    case IBV_WC_WR_FLUSH_ERR:
        endpoint_closed(endpoint, NULL, "the connection was closed by the peer");
        return;
    default:
        endpoint_close(endpoint, STEPGATE_EPEER, NULL, "the device failed an operation: %s (vendor %#x)%s",
                       ibv_wc_status_str(wc->status), wc->vendor_err, trouble);
    }
}

/* completion_sent -- retires operations; one event at a time. */
static int completion_sent(struct endpoint *endpoint, const struct ibv_wc *wc, struct stepgate_event *event,
                           bool *used)
{
    uint32_t number = (uint32_t)wc->wr_id;
    struct ring_op *op;

    while ((op = ring_retire(&endpoint->ring, number)) != NULL) {
        if (op->staged)
            endpoint->stages_used--;
        if (!op->complete)
            continue;
        *event = (struct stepgate_event){
            .kind = STEPGATE_EVENT_COMPLETION, .context = op->context, .endpoint = &endpoint->base};
        *used = false; /* more operations may end with this completion */
        return 1;
    }
    endpoint->done = number + 1;
    if (wc->opcode == IBV_WC_RDMA_READ)
        endpoint->reads--;
    pump(endpoint);
    return 0;
}

/* completion_protocol -- the peer sent what no peer sends. */
static int completion_protocol(struct endpoint *endpoint, const char *what)
{
    endpoint_close(endpoint, STEPGATE_EPROTOCOL, "run the same version on all hosts", "%s", what);
    return 0;
}

/* completion_frame -- a SEND of the peer. */
static int completion_frame(struct endpoint *endpoint, const struct ibv_wc *wc, struct stepgate_event *event)
{
    uint32_t receive = (uint32_t)wc->wr_id;
    const uint8_t *data = endpoint_receive(endpoint, receive);
    struct frame frame;
    int events = 0;

    if (!frame_unpack(data, wc->byte_len, &frame))
        return completion_protocol(endpoint, "the peer sent an invalid frame");
    if (!credit_gain(&endpoint->credit, frame.credits))
        return completion_protocol(endpoint, "the peer gave more credits than there are");
    *event = (struct stepgate_event){.endpoint = &endpoint->base};
    switch (frame.kind) {
    case FRAME_OPEN:
        if (endpoint->active || endpoint->heard)
            return completion_protocol(endpoint, "the peer opened the connection twice");
        if (frame.value != (FRAME_VERSION | CREDIT_RECEIVES << 16)) {
            endpoint_close(endpoint, STEPGATE_EVERSION, "run the same version on all hosts",
                           "the peer speaks version %u of the transport, this end %u", frame.value & 0xffff,
                           FRAME_VERSION);
            return 0;
        }
        endpoint->heard = true;
        break;
    case FRAME_NOTIFY:
        event->kind = STEPGATE_EVENT_NOTIFY;
        event->value = frame.value;
        events = 1;
        break;
    case FRAME_MESSAGE:
        event->kind = STEPGATE_EVENT_MESSAGE;
        event->data = data + FRAME_HEADER_BYTES;
        event->length = frame.value;
        queue_hold(endpoint->queue, endpoint, receive);
        pump(endpoint);
        return 1;
    default: break;
    }
    endpoint_release(endpoint, receive);
    pump(endpoint);
    return events;
}

/* completion_received -- a notify or a frame. */
static int completion_received(struct endpoint *endpoint, const struct ibv_wc *wc,
                               struct stepgate_event *event, bool *used)
{
    if (endpoint->state == ENDPOINT_ACCEPTED) {
        /* data overtook the last packet of the handshake: the connection stands */
        (void)seam_notify_established(endpoint->id);
        endpoint_up(endpoint);
        *event = (struct stepgate_event){.kind = STEPGATE_EVENT_CONNECTED, .endpoint = &endpoint->base};
        *used = false;
        return 1;
    }
    if (endpoint->nudges > 0)
        endpoint_has_heard(endpoint);
    if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        return completion_frame(endpoint, wc, event);
    *event = (struct stepgate_event){
        .kind = STEPGATE_EVENT_NOTIFY, .value = ntohl(wc->imm_data), .endpoint = &endpoint->base};
    endpoint_release(endpoint, (uint32_t)wc->wr_id);
    pump(endpoint);
    return 1;
}

/* completion_handle -- finds the endpoint and the meaning. */
int completion_handle(struct queue *queue, const struct ibv_wc *wc, struct stepgate_event *event, bool *used)
{
    struct endpoint *endpoint = queue_find(queue, wc->wr_id);

    *used = true;
    if (endpoint == NULL || endpoint->state > ENDPOINT_CLOSING)
        return 0;
    if (wc->status != IBV_WC_SUCCESS) {
        completion_failed(endpoint, wc);
        return 0;
    }
    if (wc->wr_id & QUEUE_RECEIVE)
        return completion_received(endpoint, wc, event, used);
    return completion_sent(endpoint, wc, event, used);
}
