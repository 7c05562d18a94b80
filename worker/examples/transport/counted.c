/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/transport/counted.h"

#include <stdatomic.h>
#include <stdio.h>

/*
 * Every object that it hands out carries its table, so that whoever holds the object comes through here again. Below it the functions of shm are called,
 * which know their objects by address and never look at that member.
 */
static const struct stepgate_transport_v1 *counted_below;
static const struct stepgate_transport_v1 counted_table;
static struct {
    atomic_uint_fast64_t writes, reads, notifies, messages, bytes; /* relaxed: nothing but numbers */
} counted_sums;

/* counted_add -- one more, of so many bytes */
static void counted_add(atomic_uint_fast64_t *what, uint64_t bytes)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counted_sums.bytes, bytes, memory_order_relaxed);
}

/* What makes an object, and marks it as this transport's. */
static int counted_fabric_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out)
{
    int rc = counted_below->fabric_open(options, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out)
{
    int rc = counted_below->domain_new(fabric, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_region_new(struct stepgate_domain *domain, const struct stepgate_region_options *options,
                              struct stepgate_region **out)
{
    int rc = counted_below->region_new(domain, options, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_queue_new(struct stepgate_fabric *fabric, uint32_t endpoints, struct stepgate_queue **out)
{
    int rc = counted_below->queue_new(fabric, endpoints, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_listener_new(struct stepgate_queue *queue, const char *address,
                                struct stepgate_listener **out)
{
    int rc = counted_below->listener_new(queue, address, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_endpoint_connect(struct stepgate_queue *queue, struct stepgate_domain *domain,
                                    const char *address, const void *hello, uint32_t hello_bytes, void *user,
                                    struct stepgate_endpoint **out)
{
    int rc = counted_below->endpoint_connect(queue, domain, address, hello, hello_bytes, user, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_endpoint_accept(struct stepgate_request *request, struct stepgate_queue *queue,
                                   struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes,
                                   void *user, struct stepgate_endpoint **out)
{
    int rc = counted_below->endpoint_accept(request, queue, domain, hello, hello_bytes, user, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

static int counted_endpoint_import(struct stepgate_endpoint *endpoint,
                                   const struct stepgate_descriptor *descriptor, struct stepgate_remote **out)
{
    int rc = counted_below->endpoint_import(endpoint, descriptor, out);

    if (rc == 0)
        (*out)->transport = &counted_table;
    return rc;
}

/* counted_queue_poll -- requests are made below, too */
static int counted_queue_poll(struct stepgate_queue *queue, struct stepgate_event *events, int max)
{
    int n = counted_below->queue_poll(queue, events, max);

    for (int i = 0; i < n; i++)
        if (events[i].kind == STEPGATE_EVENT_REQUEST)
            events[i].request->transport = &counted_table;
    return n;
}

static void counted_endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes)
{
    counted_below->endpoint_trouble(endpoint, text, bytes);
}

/* counted_endpoint_capabilities -- what is below can do, under this name */
static int counted_endpoint_capabilities(struct stepgate_endpoint *endpoint,
                                         struct stepgate_capabilities *out)
{
    int rc = counted_below->endpoint_capabilities(endpoint, out);

    if (rc == 0)
        snprintf(out->device, sizeof(out->device), "%s", counted_table.name);
    return rc;
}

/* What is counted. */
static int counted_endpoint_write(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                                  uint64_t local_offset, const void *data, struct stepgate_remote *remote,
                                  uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context)
{
    int rc = counted_below->endpoint_write(endpoint, local, local_offset, data, remote, remote_offset, length,
                                           flags, context);

    if (rc == 0)
        counted_add(&counted_sums.writes, length);
    return rc;
}

static int counted_endpoint_read(struct stepgate_endpoint *endpoint, struct stepgate_region *local,
                                 uint64_t local_offset, struct stepgate_remote *remote,
                                 uint64_t remote_offset, uint64_t length, unsigned flags, uint64_t context)
{
    int rc = counted_below->endpoint_read(endpoint, local, local_offset, remote, remote_offset, length, flags,
                                          context);

    if (rc == 0)
        counted_add(&counted_sums.reads, length);
    return rc;
}

static int counted_endpoint_notify(struct stepgate_endpoint *endpoint, uint32_t value)
{
    int rc = counted_below->endpoint_notify(endpoint, value);

    if (rc == 0)
        counted_add(&counted_sums.notifies, sizeof(value));
    return rc;
}

static int counted_endpoint_send(struct stepgate_endpoint *endpoint, const void *data, uint32_t length)
{
    int rc = counted_below->endpoint_send(endpoint, data, length);

    if (rc == 0)
        counted_add(&counted_sums.messages, length);
    return rc;
}

/* The rest goes straight down. */
static void counted_fabric_delete(struct stepgate_fabric **fabric)
{
    counted_below->fabric_delete(fabric);
}

static void counted_domain_delete(struct stepgate_domain **domain)
{
    counted_below->domain_delete(domain);
}

static void counted_region_delete(struct stepgate_region **region)
{
    counted_below->region_delete(region);
}

static void counted_queue_delete(struct stepgate_queue **queue)
{
    counted_below->queue_delete(queue);
}

static void counted_listener_delete(struct stepgate_listener **listener)
{
    counted_below->listener_delete(listener);
}

static void counted_endpoint_delete(struct stepgate_endpoint **endpoint)
{
    counted_below->endpoint_delete(endpoint);
}

static void counted_remote_delete(struct stepgate_remote **remote)
{
    counted_below->remote_delete(remote);
}

static void counted_request_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes)
{
    counted_below->request_refuse(request, hello, hello_bytes);
}

static int counted_queue_arm(struct stepgate_queue *queue)
{
    return counted_below->queue_arm(queue);
}

static int counted_queue_fd(struct stepgate_queue *queue)
{
    return counted_below->queue_fd(queue);
}

static int counted_listener_address(struct stepgate_listener *listener, char *text, size_t bytes)
{
    return counted_below->listener_address(listener, text, bytes);
}

static int counted_endpoint_export(struct stepgate_endpoint *endpoint, struct stepgate_region *region,
                                   unsigned access, struct stepgate_descriptor *descriptor)
{
    return counted_below->endpoint_export(endpoint, region, access, descriptor);
}

static const struct stepgate_transport_v1 counted_table = {
    .size = sizeof(counted_table),
    .name = "counted",
    .fabric_open = counted_fabric_open,
    .fabric_delete = counted_fabric_delete,
    .domain_new = counted_domain_new,
    .domain_delete = counted_domain_delete,
    .region_new = counted_region_new,
    .region_delete = counted_region_delete,
    .queue_new = counted_queue_new,
    .queue_delete = counted_queue_delete,
    .queue_poll = counted_queue_poll,
    .queue_arm = counted_queue_arm,
    .queue_fd = counted_queue_fd,
    .listener_new = counted_listener_new,
    .listener_address = counted_listener_address,
    .listener_delete = counted_listener_delete,
    .endpoint_connect = counted_endpoint_connect,
    .endpoint_accept = counted_endpoint_accept,
    .request_refuse = counted_request_refuse,
    .endpoint_delete = counted_endpoint_delete,
    .endpoint_trouble = counted_endpoint_trouble,
    .endpoint_capabilities = counted_endpoint_capabilities,
    .endpoint_export = counted_endpoint_export,
    .endpoint_import = counted_endpoint_import,
    .remote_delete = counted_remote_delete,
    .endpoint_write = counted_endpoint_write,
    .endpoint_read = counted_endpoint_read,
    .endpoint_notify = counted_endpoint_notify,
    .endpoint_send = counted_endpoint_send,
};

/* counted_transport -- see the header. */
const struct stepgate_transport_v1 *counted_transport(void)
{
    return stepgate_transport_find("shm", &counted_below) == 0 ? &counted_table : NULL;
}

/* counted_sum -- see the header. */
void counted_sum(struct counted_sum *out)
{
    out->writes = atomic_load_explicit(&counted_sums.writes, memory_order_relaxed);
    out->reads = atomic_load_explicit(&counted_sums.reads, memory_order_relaxed);
    out->notifies = atomic_load_explicit(&counted_sums.notifies, memory_order_relaxed);
    out->messages = atomic_load_explicit(&counted_sums.messages, memory_order_relaxed);
    out->bytes = atomic_load_explicit(&counted_sums.bytes, memory_order_relaxed);
}

/* stepgate_transport_module -- what programs look up that open a file with a transport */
const struct stepgate_transport_v1 *stepgate_transport_module(void);
const struct stepgate_transport_v1 *stepgate_transport_module(void)
{
    return counted_transport();
}
