/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/verbs/address.h"
#include "transport/verbs/listener.h"
#include "transport/verbs/pump.h"
#include "transport/verbs/verbs.h"

#define CONNECTION_REJ_CONSUMER 28 /* IB_CM_REJ_CONSUMER_DEFINED: the program refused, not the device */
#define CONNECTION_REMEDY_DEVICE "use the IP address of the RDMA network card on both sides, or transport shm"

/* An event of the connection manager, copied so that it could be acknowledged at once. */
struct connection_news {
    enum rdma_cm_event_type type;
    int status;
    struct owner *owner;
    struct rdma_cm_id *id;
    uint8_t reads_out, reads_in;
    bool has_hello;
    uint8_t hello[STEPGATE_HELLO_BYTES];
};

/* connection_least -- the smaller of two. */
static uint8_t connection_least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* connection_hello -- copies a hello, padded with zeros. */
static int connection_hello(uint8_t out[STEPGATE_HELLO_BYTES], const void *hello, uint32_t bytes)
{
    if (bytes > STEPGATE_HELLO_BYTES || (hello == NULL && bytes > 0))
        return error_set(STEPGATE_EINVAL, 0, NULL, "a hello has at most %d bytes, not %u",
                         STEPGATE_HELLO_BYTES, bytes);
    memset(out, 0, STEPGATE_HELLO_BYTES);
    if (bytes > 0)
        memcpy(out, hello, bytes);
    return 0;
}

/* connection_parameter -- what travels with a request or an acceptance. */
static void connection_parameter(struct rdma_conn_param *parameter, const struct endpoint *endpoint)
{
    const struct device *device = endpoint->domain->device;

    memset(parameter, 0, sizeof(*parameter));
    parameter->private_data = endpoint->hello;
    parameter->private_data_len = STEPGATE_HELLO_BYTES;
    parameter->responder_resources = device->reads_in;
    parameter->initiator_depth = (uint8_t)endpoint->reads_limit;
    parameter->retry_count = DEVICE_RETRIES;
    parameter->rnr_retry_count = DEVICE_RETRIES;
}

/* connection_connect -- starts with the address; the rest follows in connection_event. */
int connection_connect(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                       const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out)
{
    struct queue *inner = (struct queue *)queue;
    struct device *device = inner->device;
    struct sockaddr_storage to;
    struct endpoint *endpoint;

    int ret = address_parse(address, false, &to);
    if (ret != 0)
        return ret;
    if (address_is_loopback(&to))
        return error_set(STEPGATE_ENODEVICE, 0, ADDRESS_REMEDY_LOOPBACK,
                         "there is no RDMA device at address %s", address);
    ret = endpoint_new(inner, (struct domain *)domain, user, &endpoint);
    if (ret != 0)
        return ret;
    if ((ret = connection_hello(endpoint->hello, hello, hello_bytes)) != 0)
        goto fail;
    snprintf(endpoint->peer, sizeof(endpoint->peer), "%s", address);
    endpoint->active = true;
    ret = seam_create_id(inner->cm, &endpoint->owner, &endpoint->id);
    if (ret != 0) {
        ret = error_set(STEPGATE_ESYSTEM, -ret, NULL, "cannot connect to %s", address);
        goto fail;
    }
    bool same_family = device->local.ss_family == to.ss_family;
    ret = seam_resolve_addr(endpoint->id, same_family ? (struct sockaddr *)&device->local : NULL,
                            (struct sockaddr *)&to, device->connect_timeout_ms);
    if (ret != 0) {
        ret = error_set(ret == -ENODEV ? STEPGATE_ENODEVICE : STEPGATE_EUNREACHABLE, -ret,
                        CONNECTION_REMEDY_DEVICE, "there is no RDMA device that reaches %s", address);
        goto fail;
    }
    endpoint->deadline = clock_after(clock_now(), device->connect_timeout_ms);
    endpoint_set_state(endpoint, ENDPOINT_ADDRESS);
    *out = &endpoint->base;
    return 0;
fail:
    endpoint_free(endpoint);
    return ret;
}

/* connection_take -- makes a request's identifier one of this queue and endpoint. */
static int connection_take(struct request *request, struct endpoint *endpoint)
{
    /* First moves the events: after it no other thread looks at the identifier's context any more. */
    int ret = seam_migrate(request->id, endpoint->queue->cm);

    if (ret != 0)
        return error_set(STEPGATE_ESYSTEM, -ret, NULL, "cannot take over the connection of %s",
                         request->peer);
    if (atomic_load_explicit(&request->gone, memory_order_acquire)) /* pairs with connection_event */
        return error_set(STEPGATE_EPEER, 0, NULL, "%s is gone before it was accepted", request->peer);
    endpoint->id = request->id;
    endpoint->id->context = &endpoint->owner;
    endpoint->reads_limit = connection_least((uint8_t)endpoint->reads_limit, request->reads_out);
    if (endpoint->reads_limit == 0)
        endpoint->reads_limit = 1;
    return 0;
}

/* connection_accept -- a queue pair in the domain, then the answer. */
int connection_accept(struct stepgate_request *request, struct stepgate_queue *queue,
                      struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                      struct stepgate_endpoint **out)
{
    struct request *inner = (struct request *)request;
    struct endpoint *endpoint = NULL;
    struct rdma_conn_param parameter;
    struct device *device = inner->device;

    int ret = endpoint_new((struct queue *)queue, (struct domain *)domain, user, &endpoint);
    if (ret != 0)
        goto refuse;
    snprintf(endpoint->peer, sizeof(endpoint->peer), "%s", inner->peer);
    if ((ret = connection_hello(endpoint->hello, hello, hello_bytes)) != 0 ||
        (ret = connection_take(inner, endpoint)) != 0)
        goto refuse;
    if (!device->iwarp)
        (void)seam_set_ack_timeout(endpoint->id, device->ack_timeout);
    if ((ret = endpoint_create_qp(endpoint)) != 0)
        goto refuse;
    connection_parameter(&parameter, endpoint);
    parameter.responder_resources = connection_least(device->reads_in, inner->reads_in);
    endpoint->deadline = clock_after(clock_now(), device->connect_timeout_ms);
    endpoint_set_state(endpoint, ENDPOINT_ACCEPTED);
    ret = seam_accept(endpoint->id, &parameter);
    if (ret != 0) {
        ret = error_set(STEPGATE_EPEER, -ret, NULL, "cannot accept the connection of %s", inner->peer);
        goto refuse;
    }
    free(inner);
    *out = &endpoint->base;
    return 0;
refuse:
    if (endpoint != NULL && endpoint->id != NULL) {
        (void)seam_reject(endpoint->id, NULL, 0);
        free(inner); /* the endpoint owns the identifier by now */
        inner = NULL;
    }
    struct stepgate_error error;
    error_save(&error);
    if (endpoint != NULL)
        endpoint_free(endpoint);
    if (inner != NULL)
        connection_refuse(&inner->base, NULL, 0);
    return error_restore(&error);
}

/* connection_refuse -- answers with a hello. */
void connection_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes)
{
    struct request *inner = (struct request *)request;
    uint8_t padded[STEPGATE_HELLO_BYTES] = {0};

    if (inner == NULL)
        return;
    if (hello_bytes > STEPGATE_HELLO_BYTES)
        hello_bytes = STEPGATE_HELLO_BYTES;
    if (hello != NULL && hello_bytes > 0)
        memcpy(padded, hello, hello_bytes);
    (void)seam_reject(inner->id, padded, STEPGATE_HELLO_BYTES);
    seam_destroy_id(inner->id);
    free(inner);
}

/* connection_request -- a peer wants to connect. */
static int connection_request(struct queue *queue, struct connection_news *news, struct stepgate_event *event)
{
    struct listener *listener = OWNER_OF(news->owner, struct listener);
    struct request *request = calloc(1, sizeof(*request));

    if (request == NULL || news->id->verbs != queue->device->context) {
        free(request); /* another device of a wildcard address, or no memory */
        (void)seam_reject(news->id, NULL, 0);
        seam_destroy_id(news->id);
        return 0;
    }
    request->base.transport = verbs_transport();
    request->owner.kind = OWNER_REQUEST;
    request->device = queue->device;
    request->id = news->id;
    request->reads_out = news->reads_out;
    request->reads_in = news->reads_in;
    atomic_init(&request->gone, 0);
    memcpy(request->hello, news->hello, sizeof(request->hello));
    (void)address_format(rdma_get_peer_addr(news->id), request->peer, sizeof(request->peer));
    request->id->context = &request->owner;
    *event = (struct stepgate_event){.kind = STEPGATE_EVENT_REQUEST,
                                     .listener = &listener->base,
                                     .request = &request->base,
                                     .data = request->hello,
                                     .length = STEPGATE_HELLO_BYTES};
    return 1;
}

/* connection_failed -- why a connection did not come about. */
static void connection_failed(struct endpoint *endpoint, const struct connection_news *news)
{
    int status = news->status < 0 ? -news->status : news->status;

    switch (news->type) {
    case RDMA_CM_EVENT_REJECTED:
        endpoint->hello_came =
            news->has_hello && (endpoint->domain->device->iwarp || news->status == CONNECTION_REJ_CONSUMER);
        if (endpoint->hello_came)
            memcpy(endpoint->hello, news->hello, sizeof(endpoint->hello));
        endpoint_close(endpoint, STEPGATE_EREFUSED, "is the peer started, and is this its port?", "%s",
                       endpoint->hello_came ? "the peer refused" : "nobody listens there");
        return;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        if (status == ENODEV) {
            endpoint_close(endpoint, STEPGATE_ENODEVICE, CONNECTION_REMEDY_DEVICE,
                           "no RDMA device reaches this address");
            return;
        }
        endpoint_close(endpoint, STEPGATE_EUNREACHABLE, "check the address and the network",
                       "there is no route (%s)", strerror(status));
        return;
    default:
        endpoint_close(endpoint, status == ECONNREFUSED ? STEPGATE_EREFUSED : STEPGATE_EUNREACHABLE,
                       "is the peer started, and is this its port?", "%s (%s, %d)",
                       status == ECONNREFUSED ? "nobody listens there" : "no answer",
                       rdma_event_str(news->type), news->status);
    }
}

/* connection_advance -- the next step of the active side. */
static void connection_advance(struct endpoint *endpoint)
{
    struct device *device = endpoint->domain->device;
    struct rdma_conn_param parameter;
    int ret;

    if (endpoint->state == ENDPOINT_ADDRESS) {
        if (endpoint->id->verbs != device->context) {
            endpoint_close(endpoint, STEPGATE_ENODEVICE, CONNECTION_REMEDY_DEVICE,
                           "it is reached by another device than %s", device->name);
            return;
        }
        if (!device->iwarp)
            (void)seam_set_ack_timeout(endpoint->id, device->ack_timeout);
        endpoint_set_state(endpoint, ENDPOINT_ROUTE);
        ret = seam_resolve_route(endpoint->id, device->connect_timeout_ms);
        if (ret != 0)
            endpoint_close(endpoint, ret == -ENODEV ? STEPGATE_ENODEVICE : STEPGATE_EUNREACHABLE,
                           CONNECTION_REMEDY_DEVICE, "there is no route: %s", strerror(-ret));
        return;
    }
    ret = endpoint_create_qp(endpoint);
    if (ret != 0) {
        struct stepgate_error error;
        error_save(&error);
        endpoint_close(endpoint, -ret, NULL, "%s", error.text);
        return;
    }
    connection_parameter(&parameter, endpoint);
    endpoint_set_state(endpoint, ENDPOINT_ANSWER);
    ret = seam_connect(endpoint->id, &parameter);
    if (ret != 0)
        endpoint_close(endpoint, ret == -ECONNREFUSED ? STEPGATE_EREFUSED : STEPGATE_EUNREACHABLE,
                       "is the peer started, and is this its port?", "cannot connect: %s", strerror(-ret));
}

/* connection_established -- the connection stands; the active side learns the hello. */
static int connection_established(struct endpoint *endpoint, const struct connection_news *news,
                                  struct stepgate_event *event)
{
    if (endpoint->state != ENDPOINT_ANSWER && endpoint->state != ENDPOINT_ACCEPTED)
        return 0;
    *event = (struct stepgate_event){.kind = STEPGATE_EVENT_CONNECTED, .endpoint = &endpoint->base};
    if (endpoint->active) {
        memcpy(endpoint->hello, news->hello, sizeof(endpoint->hello));
        event->data = endpoint->hello;
        event->length = STEPGATE_HELLO_BYTES;
        if (news->reads_out > 0) /* siw says 0: it does not tell */
            endpoint->reads_limit = connection_least((uint8_t)endpoint->reads_limit, news->reads_out);
    }
    endpoint_up(endpoint);
    return 1;
}

/* connection_news_endpoint -- an event of an endpoint. */
static int connection_news_endpoint(struct endpoint *endpoint, const struct connection_news *news,
                                    struct stepgate_event *event)
{
    switch (news->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (endpoint->state == ENDPOINT_ADDRESS)
            connection_advance(endpoint);
        return 0;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (endpoint->state == ENDPOINT_ROUTE)
            connection_advance(endpoint);
        return 0;
    case RDMA_CM_EVENT_ESTABLISHED: return connection_established(endpoint, news, event);
    case RDMA_CM_EVENT_DISCONNECTED:
        endpoint_closed(endpoint, "see the peer's log",
                        "the peer closed the connection, or its process has ended");
        return 0;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        endpoint_close(endpoint, STEPGATE_EDEVICE, NULL, "the device %s was removed",
                       endpoint->domain->device->name);
        return 0;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE: connection_failed(endpoint, news); return 0;
    default: return 0; /* TIMEWAIT_EXIT, ADDR_CHANGE: nothing is reused, the connection stays */
    }
}

/* connection_copy -- copies an event, so that it can be acknowledged before anything is destroyed. */
static void connection_copy(const struct rdma_cm_event *from, struct connection_news *news)
{
    const struct rdma_conn_param *parameter = &from->param.conn;
    static const uint8_t none[STEPGATE_HELLO_BYTES];

    memset(news, 0, sizeof(*news));
    news->type = from->event;
    news->status = from->status;
    news->owner = from->id->context;
    news->id = from->id;
    switch (from->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED: break;
    default: return;
    }
    news->reads_out = parameter->initiator_depth;
    news->reads_in = parameter->responder_resources;
    if (parameter->private_data == NULL)
        return;
    size_t bytes = parameter->private_data_len;
    memcpy(news->hello, parameter->private_data, bytes < sizeof(news->hello) ? bytes : sizeof(news->hello));
    news->has_hello = memcmp(news->hello, none, sizeof(none)) != 0;
}

/* connection_event -- one event of the queue's channel. */
int connection_event(struct queue *queue, struct stepgate_event *event)
{
    struct rdma_cm_event *raw;
    struct connection_news news;

    if (seam_cm_event(queue->cm, &raw) != 0)
        return -1;
    connection_copy(raw, &news);
    if (news.owner != NULL && news.owner->kind == OWNER_REQUEST)
        /* release: the holder reads it after rdma_migrate_id or rdma_destroy_id, which wait for the acknowledgement */
        atomic_store_explicit(&OWNER_OF(news.owner, struct request)->gone, 1, memory_order_release);
    bool ours = news.owner != NULL && news.owner->kind != OWNER_REQUEST;
    seam_ack_cm_event(raw);
    if (!ours)
        return 0;
    if (news.type == RDMA_CM_EVENT_CONNECT_REQUEST)
        return connection_request(queue, &news, event);
    if (news.owner->kind != OWNER_ENDPOINT)
        return 0; /* a listener whose device goes away: its endpoints tell */
    return connection_news_endpoint(OWNER_OF(news.owner, struct endpoint), &news, event);
}

/* connection_waits -- has an endpoint a deadline? */
static bool connection_waits(const struct endpoint *endpoint)
{
    return endpoint != NULL && (endpoint->nudges > 0 || (endpoint->state >= ENDPOINT_ADDRESS &&
                                                         endpoint->state <= ENDPOINT_ACCEPTED));
}

/* connection_deadline -- see connection.h. */
uint64_t connection_deadline(const struct queue *queue)
{
    uint64_t earliest = CLOCK_NEVER;

    for (uint32_t i = 0; i < queue->capacity; i++)
        if (connection_waits(queue->slots[i]) && queue->slots[i]->deadline < earliest)
            earliest = queue->slots[i]->deadline;
    return earliest;
}

/*
 * connection_nudge -- the passive side of siw overlooks what comes between its acceptance and the moment at which its kernel takes the socket over from
 * the connection manager (siw_accept in the kernel's siw_cm.c): it finds that only when more comes. So the active side, which
 * speaks first, says something again while it has heard nothing. What device the peer has is not known here: all of iWARP is nudged.
 */
static void connection_nudge(struct endpoint *endpoint, uint64_t now)
{
    unsigned before = ENDPOINT_NUDGES - endpoint->nudges;

    endpoint->deadline = clock_after(now, (int64_t)ENDPOINT_NUDGE_MS << (before + 1));
    if (endpoint->nudges == 1)
        endpoint_has_heard(endpoint); /* that was enough */
    else
        endpoint->nudges--;
    pump_nudge(endpoint);
}

/* connection_expire -- see connection.h. */
void connection_expire(struct queue *queue, uint64_t now)
{
    for (uint32_t i = 0; queue->connecting + queue->unheard > 0 && i < queue->capacity; i++) {
        struct endpoint *endpoint = queue->slots[i];
        if (!connection_waits(endpoint) || endpoint->deadline > now)
            continue;
        if (endpoint->state == ENDPOINT_UP)
            connection_nudge(endpoint, now);
        else
            endpoint_close(endpoint, STEPGATE_EUNREACHABLE, "check the address and the network",
                           "no answer within %d ms", endpoint->domain->device->connect_timeout_ms);
    }
}
