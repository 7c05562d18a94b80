/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/pump.h"

#include <arpa/inet.h>
#include <string.h>

#include "transport/verbs/endpoint.h"

#define PUMP_LIST 16U
#define PUMP_PAGE 4096U /* of any peer: larger pages begin where some of these do */
#define PUMP_SHORT 64U

/* A list of work requests under construction: one doorbell for all of them. */
struct pump_list {
    struct ibv_send_wr wr[PUMP_LIST];
    struct ibv_sge sge[PUMP_LIST];
    uint8_t header[PUMP_LIST][FRAME_HEADER_BYTES];
    uint32_t count;
};

/* pump_flush -- posts the list. */
static void pump_flush(struct endpoint *endpoint, struct pump_list *list)
{
    uint32_t posted;

    if (list->count == 0)
        return;
    list->wr[list->count - 1].next = NULL;
    int ret = seam_post_send(endpoint->id->qp, list->wr, &posted);
    list->count = 0;
    if (ret != 0)
        endpoint_close(endpoint, STEPGATE_EPEER, NULL, "the device took no more work: %s", strerror(-ret));
}

/* pump_request -- the next free work request, numbered, and signalled when it is its turn or `signal`. */
static struct ibv_send_wr *pump_request(struct endpoint *endpoint, struct pump_list *list, bool signal)
{
    if (list->count == PUMP_LIST)
        pump_flush(endpoint, list);
    struct ibv_send_wr *wr = &list->wr[list->count];
    if (list->count > 0)
        list->wr[list->count - 1].next = wr;
    memset(wr, 0, sizeof(*wr));
    wr->wr_id = queue_request_id(endpoint, false, endpoint->sent++);
    wr->sg_list = &list->sge[list->count];
    list->count++;
    if (signal || ++endpoint->since_signal >= endpoint->signal_every) {
        wr->send_flags = IBV_SEND_SIGNALED;
        endpoint->since_signal = 0;
    }
    return wr;
}

/* pump_source -- sets the one source of a request. */
static void pump_source(struct ibv_send_wr *wr, const void *address, uint32_t length, uint32_t lkey)
{
    wr->sg_list->addr = (uint64_t)(uintptr_t)address;
    wr->sg_list->length = length;
    wr->sg_list->lkey = lkey;
    wr->num_sge = 1;
}

/* pump_header -- sends a frame that is a header alone. */
static void pump_header(struct endpoint *endpoint, struct pump_list *list, uint8_t kind, uint32_t value,
                        bool signal)
{
    struct ibv_send_wr *wr = pump_request(endpoint, list, signal);
    uint8_t *header = list->header[list->count - 1];
    struct frame frame = {.kind = kind, .credits = credit_claim(&endpoint->credit), .value = value};

    frame_pack(&frame, header);
    wr->opcode = IBV_WR_SEND;
    wr->send_flags |= IBV_SEND_INLINE;
    pump_source(wr, header, FRAME_HEADER_BYTES, 0);
    credit_take(&endpoint->credit);
}

/* pump_message -- sends a message: inline if it fits, else from a stage. */
static void pump_message(struct endpoint *endpoint, struct pump_list *list, struct ring_op *op)
{
    uint8_t *stored =
        endpoint->store + (size_t)ring_place(&endpoint->ring, endpoint->ring.next) * FRAME_STRIDE;
    uint32_t bytes = FRAME_HEADER_BYTES + op->value;
    struct frame frame = {
        .kind = FRAME_MESSAGE, .credits = credit_claim(&endpoint->credit), .value = op->value};

    frame_pack(&frame, stored);
    struct ibv_send_wr *wr = pump_request(endpoint, list, op->complete);
    wr->opcode = IBV_WR_SEND;
    if (bytes <= endpoint->inline_bytes) {
        wr->send_flags |= IBV_SEND_INLINE;
        pump_source(wr, stored, bytes, 0);
    } else {
        uint32_t stage = CREDIT_RECEIVES + endpoint->stages_taken++ % ENDPOINT_STAGES;
        endpoint->stages_used++;
        op->staged = true;
        memcpy(endpoint_receive(endpoint, stage), stored, bytes);
        pump_source(wr, endpoint_receive(endpoint, stage), bytes, endpoint->frames_mr->lkey);
    }
    credit_take(&endpoint->credit);
}

/* pump_notify -- a write with immediate data where there is one, else a frame. */
static void pump_notify(struct endpoint *endpoint, struct pump_list *list, struct ring_op *op)
{
    if (endpoint->domain->device->iwarp) {
        pump_header(endpoint, list, FRAME_NOTIFY, op->value, op->complete);
        return;
    }
    struct ibv_send_wr *wr = pump_request(endpoint, list, op->complete);
    wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(op->value);
    wr->sg_list = NULL;
    credit_take(&endpoint->credit);
}

/*
 * pump_whole -- a short read ends where the peer's page does. siw answers a read of up to 24 bytes with wrong ones where they lie on two pages
 * (siw_try_1seg in the kernel's siw_qp_tx.c takes the length of one part for that of the other). What device the peer has is not known
 * here: all of iWARP is spared.
 */
static uint32_t pump_whole(const struct endpoint *endpoint, const struct ring_op *op, uint32_t bytes)
{
    uint32_t left = PUMP_PAGE - (uint32_t)((op->remote + op->done) % PUMP_PAGE);

    return endpoint->domain->device->iwarp && bytes <= PUMP_SHORT && bytes > left ? left : bytes;
}

/* pump_piece -- the next piece of a write or read; true: it was the last. */
static bool pump_piece(struct endpoint *endpoint, struct pump_list *list, struct ring_op *op)
{
    uint32_t bytes = ring_piece(op, endpoint->domain->device->piece_bytes);
    bool read = op->kind == RING_READ;
    bytes = read ? pump_whole(endpoint, op, bytes) : bytes;
    bool last = op->done + bytes == op->length;
    struct ibv_send_wr *wr = pump_request(endpoint, list, read || (last && op->complete));

    wr->opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr->wr.rdma.remote_addr = op->remote + op->done;
    wr->wr.rdma.rkey = op->rkey;
    if (op->is_inline)
        pump_source(wr, op->data, bytes, 0);
    else
        pump_source(wr, (const void *)(uintptr_t)(op->local + op->done), bytes, op->lkey);
    if (!read && bytes <= endpoint->inline_bytes)
        wr->send_flags |= IBV_SEND_INLINE;
    if (read)
        endpoint->reads++;
    op->done += bytes;
    return last;
}

/* pump_may -- can the next request of an operation go now? */
static bool pump_may(const struct endpoint *endpoint, const struct ring_op *op)
{
    switch (op->kind) {
    case RING_WRITE: return true;
    case RING_READ: return endpoint->reads < endpoint->reads_limit;
    case RING_MESSAGE: return credit_may_send(&endpoint->credit) && endpoint->stages_used < ENDPOINT_STAGES;
    default: return credit_may_send(&endpoint->credit);
    }
}

/* pump_op -- adds the next request of an operation; true: the operation is wholly in the list. */
static bool pump_op(struct endpoint *endpoint, struct pump_list *list, struct ring_op *op)
{
    switch (op->kind) {
    case RING_NOTIFY: pump_notify(endpoint, list, op); return true;
    case RING_MESSAGE: pump_message(endpoint, list, op); return true;
    case RING_NOTHING: /* bytes none, but an end to report in its turn */
        pump_header(endpoint, list, FRAME_CREDIT, 0, op->complete);
        return true;
    default: return pump_piece(endpoint, list, op);
    }
}

/* pump -- credits first: the peer may be waiting for them. */
void pump(struct endpoint *endpoint)
{
    struct pump_list list;
    struct ring_op *op;

    list.count = 0;
    endpoint->queue->held_back -= endpoint->held_back;
    endpoint->held_back = false;
    while (endpoint->state == ENDPOINT_UP && (endpoint->active || endpoint->heard) &&
           endpoint->sent - endpoint->done < endpoint->depth) {
        if (endpoint->open_due) {
            endpoint->open_due = false;
            pump_header(endpoint, &list, FRAME_OPEN, FRAME_VERSION | CREDIT_RECEIVES << 16, false);
        } else if (credit_may_return(&endpoint->credit)) {
            pump_header(endpoint, &list, FRAME_CREDIT, 0, false);
        } else {
            op = ring_waiting(&endpoint->ring);
            if (op == NULL || !pump_may(endpoint, op))
                break;
            if (pump_op(endpoint, &list, op))
                ring_advance(&endpoint->ring, endpoint->sent - 1);
        }
    }
    if (endpoint->state == ENDPOINT_UP)
        pump_flush(endpoint, &list);
}

/* pump_nudge -- see pump.h. */
void pump_nudge(struct endpoint *endpoint)
{
    struct pump_list list = {.count = 0};

    if (endpoint->open_due || !credit_may_send(&endpoint->credit) ||
        endpoint->sent - endpoint->done >= endpoint->depth)
        return;
    pump_header(endpoint, &list, FRAME_CREDIT, 0, false);
    pump_flush(endpoint, &list);
}
