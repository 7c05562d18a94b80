/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/endpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/verbs/drain.h"
#include "transport/verbs/pump.h"
#include "transport/verbs/region.h"
#include "transport/verbs/verbs.h"

#define ENDPOINT_RNR_TIMER 12 /* 0.64 ms; the default of librdmacm is 655 ms. Credits make it never count. */

/* endpoint_counter -- the queue's counter of a state, or NULL. */
static uint32_t *endpoint_counter(struct queue *queue, enum endpoint_state state)
{
    switch (state) {
    case ENDPOINT_ADDRESS:
    case ENDPOINT_ROUTE:
    case ENDPOINT_ANSWER:
    case ENDPOINT_ACCEPTED: return &queue->connecting;
    case ENDPOINT_CLOSING: return &queue->closing;
    case ENDPOINT_FAILING: return &queue->failing;
    default: return NULL;
    }
}

/* endpoint_set_state -- moves on, and keeps the counters of the queue. */
void endpoint_set_state(struct endpoint *endpoint, enum endpoint_state state)
{
    uint32_t *left = endpoint_counter(endpoint->queue, endpoint->state);
    uint32_t *entered = endpoint_counter(endpoint->queue, state);

    if (state != ENDPOINT_UP)
        endpoint_has_heard(endpoint);
    if (left != NULL)
        (*left)--;
    if (entered != NULL)
        (*entered)++;
    endpoint->state = state;
}

/* endpoint_memory -- the ring, the store and the registered frames. */
static int endpoint_memory(struct endpoint *endpoint)
{
    uint32_t operations = endpoint->domain->device->operations;
    int ret = ring_init(&endpoint->ring, operations);

    if (ret != 0)
        return ret;
    void *store = mmap(NULL, (size_t)operations * FRAME_STRIDE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, errno, NULL, "no memory for an endpoint");
    endpoint->store = store;
    void *frames =
        mmap(NULL, ENDPOINT_FRAMES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (frames == MAP_FAILED)
        return error_set(STEPGATE_ENOMEM, errno, NULL, "no memory for an endpoint");
    endpoint->frames = frames;
    endpoint->frames_mr =
        seam_reg_mr(endpoint->domain->pd, frames, ENDPOINT_FRAMES_BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (endpoint->frames_mr == NULL)
        return error_set(STEPGATE_ELIMIT, errno,
                         "ulimit -l unlimited, or --ulimit memlock=-1 for a container",
                         "cannot register the %zu bytes of an endpoint on %s", ENDPOINT_FRAMES_BYTES,
                         endpoint->domain->device->name);
    return 0;
}

/* endpoint_new -- an endpoint with its memory and a place on the queue. */
int endpoint_new(struct queue *queue, struct domain *domain, void *user, struct endpoint **out)
{
    struct endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for an endpoint");
    endpoint->base.transport = verbs_transport();
    endpoint->base.user = user;
    endpoint->owner.kind = OWNER_ENDPOINT;
    endpoint->domain = domain;
    endpoint->depth = queue->depth;
    endpoint->reads_limit = domain->device->reads_out;
    endpoint->signal_every = ENDPOINT_SIGNAL_MAX;
    if (endpoint->signal_every > endpoint->depth / 4)
        endpoint->signal_every = endpoint->depth / 4;
    if (endpoint->signal_every > domain->device->operations / 4)
        endpoint->signal_every = domain->device->operations / 4;
    atomic_init(&endpoint->async, 0);
    credit_init(&endpoint->credit);
    int ret = queue_enter(queue, endpoint);
    if (ret != 0) {
        free(endpoint);
        return ret;
    }
    endpoint->queue = queue;
    ret = endpoint_memory(endpoint);
    if (ret != 0) {
        endpoint_free(endpoint);
        return ret;
    }
    *out = endpoint;
    return 0;
}

/* endpoint_free -- the queue pair goes before the slot, the slot before the memory. */
void endpoint_free(struct endpoint *endpoint)
{
    endpoint_end(endpoint);
    endpoint_set_state(endpoint, ENDPOINT_DOWN);
    queue_leave(endpoint->queue, endpoint);
    drain_queue(endpoint->queue);
    if (endpoint->frames_mr != NULL)
        seam_dereg_mr(endpoint->frames_mr);
    if (endpoint->frames != NULL)
        (void)munmap(endpoint->frames, ENDPOINT_FRAMES_BYTES);
    if (endpoint->store != NULL)
        (void)munmap(endpoint->store, (size_t)endpoint->ring.capacity * FRAME_STRIDE);
    ring_fini(&endpoint->ring);
    free(endpoint);
}

/* endpoint_receive -- the memory of a receive. */
uint8_t *endpoint_receive(struct endpoint *endpoint, uint32_t receive)
{
    return endpoint->frames + (size_t)receive * FRAME_STRIDE;
}

/* endpoint_post_receives -- posts a list of receives. */
static int endpoint_post_receives(struct endpoint *endpoint, const uint8_t *receives, uint32_t count)
{
    struct ibv_recv_wr wr[CREDIT_REPOST];
    struct ibv_sge sge[CREDIT_REPOST];

    for (uint32_t i = 0; i < count; i++) {
        sge[i] = (struct ibv_sge){
            .addr = (uint64_t)(uintptr_t)endpoint_receive(endpoint, receives[i]),
            .length = FRAME_BYTES,
            .lkey = endpoint->frames_mr->lkey,
        };
        wr[i] = (struct ibv_recv_wr){
            .wr_id = queue_request_id(endpoint, true, receives[i]),
            .next = i + 1 < count ? &wr[i + 1] : NULL,
            .sg_list = &sge[i],
            .num_sge = 1,
        };
    }
    return seam_post_recv(endpoint->id->qp, wr);
}

/* endpoint_release -- collects receives and posts them as a list. */
void endpoint_release(struct endpoint *endpoint, uint32_t receive)
{
    endpoint->repost[endpoint->repost_count++] = (uint8_t)receive;
    if (endpoint->repost_count < CREDIT_REPOST)
        return;
    endpoint->repost_count = 0;
    if (endpoint->state != ENDPOINT_UP)
        return;
    int ret = endpoint_post_receives(endpoint, endpoint->repost, CREDIT_REPOST);
    if (ret != 0)
        endpoint_close(endpoint, STEPGATE_EPEER, NULL, "cannot post receives: %s", strerror(-ret));
    else
        credit_owe(&endpoint->credit, CREDIT_REPOST);
}

/* endpoint_create_qp -- asks for inline room, and again for less: no attribute tells how much there is. */
int endpoint_create_qp(struct endpoint *endpoint)
{
    static const uint32_t sizes[] = {RING_INLINE_BYTES, 96, 80, 64};
    struct device *device = endpoint->domain->device;
    int ret = -EINVAL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && ret != 0; i++) {
        struct ibv_qp_init_attr attr = {
            .qp_context = endpoint,
            .send_cq = endpoint->queue->cq,
            .recv_cq = endpoint->queue->cq,
            .cap = {.max_send_wr = endpoint->depth,
                    .max_recv_wr = CREDIT_RECEIVES,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = sizes[i]},
            .qp_type = IBV_QPT_RC,
        };
        ret = seam_create_qp(endpoint->id, endpoint->domain->pd, &attr);
        endpoint->inline_bytes = sizes[i];
    }
    if (ret == -ENOMEM)
        return error_set(STEPGATE_ELIMIT, -ret, "fewer workers per ps, or a larger memlock limit",
                         "no more queue pairs on %s", device->name);
    if (ret != 0)
        return error_set(STEPGATE_ENOTSUP, -ret, NULL,
                         "%s makes no queue pair of depth %u with 64 bytes inline (%s)", device->name,
                         endpoint->depth, strerror(-ret));
    endpoint->has_qp = true;
    for (uint32_t i = 0; i < CREDIT_RECEIVES && ret == 0; i += CREDIT_REPOST) {
        uint8_t list[CREDIT_REPOST];
        for (uint32_t j = 0; j < CREDIT_REPOST; j++)
            list[j] = (uint8_t)(i + j);
        ret = endpoint_post_receives(endpoint, list, CREDIT_REPOST);
    }
    if (ret != 0)
        return error_set(STEPGATE_ESYSTEM, -ret, NULL, "cannot post receives on %s", device->name);
    return 0;
}

/* endpoint_up -- the connection stands; what was posted meanwhile goes out. */
void endpoint_up(struct endpoint *endpoint)
{
    endpoint_set_state(endpoint, ENDPOINT_UP);
    if (!endpoint->domain->device->iwarp) {
        struct ibv_qp_attr attr = {.min_rnr_timer = ENDPOINT_RNR_TIMER};
        (void)seam_modify_qp(endpoint->id->qp, &attr, IBV_QP_MIN_RNR_TIMER);
    }
    endpoint->open_due = endpoint->active;
    if (endpoint->active && endpoint->domain->device->iwarp) {
        endpoint->nudges = ENDPOINT_NUDGES;
        endpoint->deadline = clock_after(clock_now(), ENDPOINT_NUDGE_MS);
        endpoint->queue->unheard++;
    }
    pump(endpoint);
}

/* endpoint_has_heard -- see endpoint.h. */
void endpoint_has_heard(struct endpoint *endpoint)
{
    endpoint->queue->unheard -= endpoint->nudges > 0;
    endpoint->nudges = 0;
}

/* endpoint_close -- keeps the first reason; the end comes when the completion queue has been emptied. */
void endpoint_close(struct endpoint *endpoint, int code, const char *remedy, const char *format, ...)
{
    va_list arguments;

    if (endpoint->state >= ENDPOINT_CLOSING)
        return;
    va_start(arguments, format);
    vsnprintf(endpoint->why, sizeof(endpoint->why), format, arguments);
    va_end(arguments);
    endpoint->status = -code;
    endpoint->remedy = remedy;
    endpoint->closing_since = endpoint->queue->polls;
    endpoint_set_state(endpoint, ENDPOINT_CLOSING);
}

/* endpoint_closed -- see endpoint.h. */
void endpoint_closed(struct endpoint *endpoint, const char *remedy, const char *why)
{
    if (endpoint->state >= ENDPOINT_CLOSING)
        return;
    endpoint->closed = true;
    endpoint_close(endpoint, STEPGATE_EPEER, remedy, "%s", why);
}

/* endpoint_end -- takes the connection down. */
void endpoint_end(struct endpoint *endpoint)
{
    if (endpoint->id == NULL)
        return;
    if (endpoint->has_qp) {
        (void)seam_disconnect(endpoint->id); /* refused before the connection stood: nothing to tell */
        seam_destroy_qp(endpoint->id);
        endpoint->has_qp = false;
    }
    seam_destroy_id(endpoint->id);
    endpoint->id = NULL;
}

/* endpoint_report -- flagged operations first, then DISCONNECTED. */
void endpoint_report(struct endpoint *endpoint, struct stepgate_event *event)
{
    struct ring_op *op;

    *event = (struct stepgate_event){.endpoint = &endpoint->base};
    while ((op = ring_drop(&endpoint->ring)) != NULL) {
        if (!op->complete)
            continue;
        event->kind = STEPGATE_EVENT_COMPLETION;
        event->context = op->context;
        event->status = endpoint->status;
        return;
    }
    event->kind = STEPGATE_EVENT_DISCONNECTED;
    event->status = endpoint->status;
    event->value = endpoint->closed ? STEPGATE_END_CLOSED : STEPGATE_END_UNKNOWN;
    event->why = endpoint->why;
    event->remedy = endpoint->remedy;
    if (endpoint->hello_came) {
        event->data = endpoint->hello;
        event->length = STEPGATE_HELLO_BYTES;
    }
    (void)error_set(-endpoint->status, 0, endpoint->remedy, "connection to %s: %s", endpoint->peer,
                    endpoint->why);
    error_peer(STEPGATE_ROLE_NONE, -1, endpoint->peer, endpoint->domain->device->name);
    endpoint_set_state(endpoint, ENDPOINT_DOWN);
}

/* endpoint_delete -- bounded: nothing here waits for the peer. */
void endpoint_delete(struct stepgate_endpoint **endpoint)
{
    if (endpoint == NULL || *endpoint == NULL)
        return;
    endpoint_free((struct endpoint *)*endpoint);
    *endpoint = NULL;
}

/* endpoint_path -- what the connection manager and the device have agreed on; a device that does not tell leaves zeros. */
static void endpoint_path(const struct endpoint *endpoint, struct stepgate_path *out)
{
    struct ibv_qp_attr attr = {0};
    const int mask = IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

    if (endpoint->id == NULL)
        return;
    out->port = endpoint->id->port_num;
    memcpy(out->gid, &endpoint->id->route.addr.addr.ibaddr.sgid, sizeof(out->gid));
    if (!endpoint->has_qp || seam_query_qp(endpoint->id->qp, &attr, mask) != 0)
        return;
    if (attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096)
        out->mtu_bytes = UINT32_C(128) << attr.path_mtu;
    out->gid_index = attr.ah_attr.grh.sgid_index;
    out->ack_timeout_ns = attr.timeout > 0 && attr.timeout < 32 ? UINT64_C(4096) << attr.timeout : 0;
    out->retries = attr.retry_cnt;
    out->rnr_retries = attr.rnr_retry;
}

/* endpoint_trouble -- of its port. */
void endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes)
{
    const struct endpoint *inner = (const struct endpoint *)endpoint;

    text[0] = '\0';
    if (inner->id != NULL)
        device_trouble(inner->domain->device, inner->id->port_num, text, bytes);
}

/* endpoint_capabilities -- what this connection carries. */
int endpoint_capabilities(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    const struct device *device = inner->domain->device;

    if (out == NULL || out->size < sizeof(*out))
        return error_set(STEPGATE_EINVAL, 0, NULL, "endpoint_capabilities: no room, or of another version");
    size_t size = out->size;
    *out = (struct stepgate_capabilities){
        .size = size,
        .can = STEPGATE_CAN_USE_CALLERS,
        .inline_bytes = inner->inline_bytes != 0 ? inner->inline_bytes : 64,
        .operations = inner->ring.capacity,
        .reads_in_flight = inner->reads_limit,
        .message_bytes = FRAME_MESSAGE_BYTES,
        .piece_bytes = device->piece_bytes,
    };
    if (!device->iwarp)
        out->can |= STEPGATE_CAN_IMMEDIATE;
    if (device->atomics)
        out->can |= STEPGATE_CAN_ATOMICS;
    snprintf(out->device, sizeof(out->device), "%s", device->name);
    endpoint_path(inner, &out->path);
    return 0;
}

/* endpoint_export -- a key works on every connection of its domain, and on no other. */
int endpoint_export(struct stepgate_endpoint *endpoint, struct stepgate_region *region, unsigned access,
                    struct stepgate_descriptor *out)
{
    struct endpoint *inner = (struct endpoint *)endpoint;
    struct region *exported = (struct region *)region;

    if (region == NULL || out == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "endpoint_export: no region, or no room");
    if (exported->domain != inner->domain)
        return error_set(STEPGATE_EACCESS, 0, NULL, "the region belongs to another domain than the endpoint");
    return region_export(exported, access, out);
}

/* endpoint_import -- makes a peer's descriptor usable. */
int endpoint_import(struct stepgate_endpoint *endpoint, const struct stepgate_descriptor *descriptor,
                    struct stepgate_remote **out)
{
    (void)endpoint; /* a key is a number: it needs nothing of the connection */
    if (descriptor == NULL || out == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "endpoint_import: no descriptor, or no room");
    return region_import(descriptor, out);
}
