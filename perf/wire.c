/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/wire.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/child.h"
#include "perf/clock.h"
#include "perf/server.h"
#include "transport/base/exit_status.h"
#include "transport/place/binding.h"
#include "transport/place/cpus.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"

#define WIRE_ALIGN 4096
#define WIRE_PATIENCE_NS UINT64_C(30000000000) /* nothing comes for so long: the peer is stuck */
#define WIRE_EVENTS 16

static const char wire_hello[] = "stepgate-perf 1";

/* What both ends tell each other first. */
struct wire_grant {
    uint32_t magic, reserved;
    struct stepgate_descriptor descriptor;
    uint64_t half;
};
#define WIRE_GRANT_MAGIC 0x47504753u
#define WIRE_ORDER_MAGIC 0x4f504753u

/* wire_fail -- see wire.h. */
int wire_fail(struct wire *wire, int code, const char *what)
{
    char line[WIRE_TEXT];

    if (wire->text[0] != '\0')
        return -1;
    exit_status_line(code, line, sizeof(line));
    if (strstr(line, what) != NULL) /* why a connection was not made is also this thread's last error */
        snprintf(wire->text, sizeof(wire->text), "%.500s", line);
    else
        snprintf(wire->text, sizeof(wire->text), "%.100s: %.400s", what, line);
    return -1;
}

/* wire_wrong -- see wire.h. */
int wire_wrong(struct wire *wire, const char *what)
{
    if (wire->text[0] == '\0')
        snprintf(wire->text, sizeof(wire->text), "%.1000s", what);
    return -1;
}

/* wire_hear -- a message: the peer's grant, an order or its answer, or what a case has it send. */
static int wire_hear(struct wire *wire, const void *data, uint32_t bytes)
{
    struct wire_grant grant;
    uint32_t magic = 0;

    if (bytes >= sizeof(magic))
        memcpy(&magic, data, sizeof(magic));
    if (magic == WIRE_ORDER_MAGIC && bytes == sizeof(wire->order)) {
        memcpy(&wire->order, data, sizeof(wire->order));
    } else if (magic == WIRE_GRANT_MAGIC && bytes == sizeof(grant)) {
        memcpy(&grant, data, sizeof(grant));
        wire->descriptor = grant.descriptor;
        wire->half = grant.half;
    } else if (wire->takes_messages && bytes <= sizeof(wire->message)) {
        memcpy(wire->message, data, bytes);
        wire->message_bytes = bytes;
        wire->messages++;
        return 0;
    } else {
        return wire_wrong(wire, "the peer sent what is no order: is it stepgate-perf, of the same version?");
    }
    wire->heard = true;
    return 0;
}

/* wire_vacant -- the end that a new connection is to have; NULL: there is one for all of them already. */
static struct wire *wire_vacant(struct wire *wire)
{
    if (wire->ports == NULL)
        return wire->endpoint == NULL ? wire : NULL;
    for (uint32_t i = 0; i < wire->port_count; i++)
        if (wire->ports[i].endpoint == NULL && !wire->ports[i].gone)
            return &wire->ports[i];
    return NULL;
}

/* wire_requested -- somebody wants to connect: taken if it is one of us, and there is a place. */
static int wire_requested(struct wire *wire, const struct stepgate_event *event)
{
    bool ours =
        event->length >= sizeof(wire_hello) && memcmp(event->data, wire_hello, sizeof(wire_hello)) == 0;
    struct wire *to = ours ? wire_vacant(wire) : NULL;

    if (to == NULL) {
        wire->transport->request_refuse(event->request, wire_hello, sizeof(wire_hello));
        return 0;
    }
    int status = wire->transport->endpoint_accept(event->request, to->queue, to->domain, wire_hello,
                                                  sizeof(wire_hello), to, &to->endpoint);
    return status < 0 ? wire_fail(wire, status, "accepting") : 0;
}

/* wire_take -- one event. */
static int wire_take(struct wire *wire, const struct stepgate_event *event)
{
    switch (event->kind) {
    case STEPGATE_EVENT_CONNECTED: wire->connected = true; return 0;
    case STEPGATE_EVENT_COMPLETION:
        wire->completed++;
        return event->status < 0 ? wire_fail(wire, event->status, "an operation failed") : 0;
    case STEPGATE_EVENT_NOTIFY:
        wire->notifies++;
        wire->notified = event->value;
        return 0;
    case STEPGATE_EVENT_MESSAGE: return wire_hear(wire, event->data, event->length);
    case STEPGATE_EVENT_DISCONNECTED:
        wire->gone = true;
        return event->status < 0 && !wire->connected
                   ? wire_fail(wire, event->status, event->why != NULL ? event->why : "no connection")
                   : wire_wrong(wire, "the peer is gone");
    case STEPGATE_EVENT_DEVICE:
        return event->status < 0
                   ? wire_fail(wire, event->status, event->why != NULL ? event->why : "the device failed")
                   : 0;
    case STEPGATE_EVENT_REQUEST: return wire_requested(wire, event);
    default: return 0;
    }
}

/* wire_progress -- see wire.h. */
int wire_progress(struct wire *wire)
{
    struct stepgate_event events[WIRE_EVENTS];
    int n = wire->transport->queue_poll(wire->queue, events, WIRE_EVENTS);

    if (n < 0)
        return wire_fail(wire, n, "polling");
    for (int i = 0; i < n; i++) {
        struct wire *to = events[i].endpoint != NULL ? events[i].endpoint->user : wire;
        /* A hub goes on without a port. */
        if (wire_take(to, &events[i]) != 0 && (to == wire || to->whole || !to->gone))
            return wire_wrong(wire, to->text);
    }
    if (n == 0 && wire->yields)
        sched_yield();
    return n;
}

/* wire_await -- see wire.h. */
int wire_await(struct wire *wire, const bool *flag, const char *what)
{
    uint64_t begin = perf_clock_now();

    while (!*flag) {
        int n = wire_progress(wire);
        if (n < 0)
            return -1;
        if (n == 0 && perf_clock_now() - begin > WIRE_PATIENCE_NS)
            return wire_wrong(wire, what);
        if (n == 0)
            sched_yield();
    }
    return 0;
}

/* wire_send -- see wire.h. */
int wire_send(struct wire *wire, const void *data, uint32_t bytes)
{
    int status;

    while ((status = wire->transport->endpoint_send(wire->endpoint, data, bytes)) == -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0)
            return -1;
    return status < 0 ? wire_fail(wire, status, "sending") : 0;
}

/* wire_tell -- see wire.h. */
int wire_tell(struct wire *wire, const struct wire_order *order)
{
    struct wire_order told = *order;

    told.magic = WIRE_ORDER_MAGIC;
    return wire_send(wire, &told, sizeof(told));
}

/* wire_ask -- see wire.h. */
int wire_ask(struct wire *wire, struct wire_order *order)
{
    wire->heard = false;
    if (wire_tell(wire, order) != 0 || wire_await(wire, &wire->heard, "the server does not answer") != 0)
        return -1;
    *order = wire->order;
    return 0;
}

/* wire_count -- see wire.h. */
uint32_t wire_count(const struct wire *wire)
{
    return 1 + wire->port_count;
}

/* wire_at -- see wire.h. */
struct wire *wire_at(struct wire *wire, uint32_t number)
{
    return number == 0 ? wire : &wire->ports[number - 1];
}

/* wire_inbound -- see wire.h. */
uint8_t *wire_inbound(const struct wire *wire)
{
    return wire->region->address;
}

/* wire_outbound -- see wire.h. */
uint8_t *wire_outbound(const struct wire *wire)
{
    return (uint8_t *)wire->region->address + wire->half;
}

/* wire_byte -- of a pattern. */
static uint8_t wire_byte(uint64_t i, uint64_t seed)
{
    uint64_t x = (i / 8 + seed) * UINT64_C(0x9E3779B97F4A7C15);

    return (uint8_t)((x ^ x >> 29) >> (i % 8 * 8));
}

/* wire_fill -- see wire.h. */
void wire_fill(uint8_t *bytes, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = wire_byte(i, seed);
}

/* wire_holds -- see wire.h. */
bool wire_holds(const uint8_t *bytes, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != wire_byte(i, seed))
            return false;
    return true;
}

/* wire_write -- see wire.h. */
int wire_write(struct wire *wire, uint64_t offset, uint64_t size, unsigned flags)
{
    bool small = size <= wire->inline_most;
    int status;

    if (small)
        flags |= STEPGATE_WRITE_INLINE;
    while ((status = wire->transport->endpoint_write(
                wire->endpoint, small ? NULL : wire->region, wire->half + offset,
                small ? wire_outbound(wire) + offset : NULL, wire->remote, offset, size, flags, 0)) ==
           -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0)
            return -1;
    return status < 0 ? wire_fail(wire, status, "writing") : 0;
}

/* wire_read -- see wire.h. */
int wire_read(struct wire *wire, uint64_t offset, uint64_t size, unsigned flags)
{
    int status;

    while ((status = wire->transport->endpoint_read(wire->endpoint, wire->region, wire->half + offset,
                                                    wire->remote, offset, size,
                                                    STEPGATE_POST_COMPLETE | flags, 0)) == -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0)
            return -1;
    return status < 0 ? wire_fail(wire, status, "reading") : 0;
}

/* wire_notify -- see wire.h. */
int wire_notify(struct wire *wire, uint32_t value)
{
    int status;

    while ((status = wire->transport->endpoint_notify(wire->endpoint, value)) == -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0)
            return -1;
    return status < 0 ? wire_fail(wire, status, "notifying") : 0;
}

/* wire_free -- see wire.h. */
void wire_free(struct wire *wire)
{
    const struct stepgate_transport_v1 *t = wire->transport;

    if (t == NULL)
        return;
    t->remote_delete(&wire->remote);
    t->endpoint_delete(&wire->endpoint);
    t->region_delete(&wire->region);
    if (wire->is_port)
        return;
    t->listener_delete(&wire->listener);
    t->queue_delete(&wire->queue);
    t->domain_delete(&wire->domain);
    t->fabric_delete(&wire->fabric);
}

/* wire_bind -- see wire.h. */
int wire_bind(struct wire *wire, const struct settings *s, unsigned index)
{
    struct binding *binding = NULL;
    int status = 0;

    if (s->bind == NULL || strcmp(s->bind, "none") == 0)
        return 0;
    if (strcmp(s->bind, "auto") != 0)
        status = binding_new(s->bind, &binding);
    else if (cpus_allowed() >= 2) {
        char list[32];
        int found[2] = {0, 0}, count = 0;
        cpu_set_t set;
        CPU_ZERO(&set);
        sched_getaffinity(0, sizeof(set), &set);
        for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
            if (CPU_ISSET((unsigned)i, &set))
                found[count++] = i;
        snprintf(list, sizeof(list), "%d,%d", found[0], found[1]);
        status = count == 2 ? binding_new(list, &binding) : 0;
    }
    if (status == 0 && binding != NULL)
        status = binding_apply(binding, index);
    binding_delete(&binding);
    return status < 0 ? wire_fail(wire, status, "binding") : 0;
}

/* wire_port -- see wire.h. */
void wire_port(struct wire *port, const struct wire *of, struct stepgate_queue *queue)
{
    port->transport = of->transport;
    port->fabric = of->fabric;
    port->domain = of->domain;
    port->queue = queue;
    port->inline_most = of->inline_most;
    port->can.size = sizeof(port->can);
    port->yields = of->yields;
    port->is_port = true;
}

/* wire_open -- see wire.h. */
int wire_open(struct wire *wire, const struct settings *s, uint32_t connections)
{
    struct stepgate_fabric_options options = {
        .size = sizeof(options), .address = s->address, .device = s->device, .peer = s->server};
    const struct stepgate_transport_v1 *t =
        strcmp(s->transport, "shm") == 0 ? shm_transport() : verbs_transport();

    if (t != shm_transport() && s->address == NULL && s->device == NULL && s->server == NULL)
        return wire_wrong(
            wire,
            "over verbs give --address, an address of the device, or --device, or the address of a server");
    options.operations = (uint32_t)(s->depth + 16);
    wire->transport = t;
    int status = t->fabric_open(&options, &wire->fabric);
    if (status == 0)
        status = t->domain_new(wire->fabric, &wire->domain);
    if (status == 0)
        status = t->queue_new(wire->fabric, connections, &wire->queue);
    return status < 0 ? wire_fail(wire, status, "opening") : 0;
}

/* wire_region -- see wire.h. */
int wire_region(struct wire *wire, uint64_t half)
{
    struct stepgate_region_options options = {.size = sizeof(options),
                                              .access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE};

    wire->half = (half + WIRE_ALIGN - 1) / WIRE_ALIGN * WIRE_ALIGN;
    options.length = 2 * wire->half;
    int status = wire->transport->region_new(wire->domain, &options, &wire->region);
    return status < 0 ? wire_fail(wire, status, "memory for messages") : 0;
}

/* wire_grant -- see wire.h. */
int wire_grant(struct wire *wire)
{
    struct wire_grant grant = {.magic = WIRE_GRANT_MAGIC, .half = wire->half};
    int status;

    while ((status = wire->transport->endpoint_export(wire->endpoint, wire->region,
                                                      STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE,
                                                      &grant.descriptor)) == -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0)
            return -1;
    return status < 0 ? wire_fail(wire, status, "granting memory") : wire_send(wire, &grant, sizeof(grant));
}

/* wire_import -- see wire.h. */
int wire_import(struct wire *wire)
{
    uint64_t begin = perf_clock_now();
    int status;

    while ((status = wire->transport->endpoint_import(wire->endpoint, &wire->descriptor, &wire->remote)) ==
           -STEPGATE_EAGAIN)
        if (wire_progress(wire) < 0 || perf_clock_now() - begin > WIRE_PATIENCE_NS)
            return wire_wrong(wire, "the peer's memory does not come");
    wire->heard = false;
    if (status < 0)
        return wire_fail(wire, status, "the peer's memory");
    status = wire->transport->endpoint_capabilities(wire->endpoint, &wire->can);
    return status < 0 ? wire_fail(wire, status, "capabilities") : 0;
}

/* wire_join -- one connection of a client, until both ends may use each other's memory. */
static int wire_join(struct wire *wire, const char *address)
{
    int status = wire->transport->endpoint_connect(wire->queue, wire->domain, address, wire_hello,
                                                   sizeof(wire_hello), wire, &wire->endpoint);

    if (status < 0)
        return wire_fail(wire, status, "connecting");
    if (wire_await(wire, &wire->connected, "the server does not accept") != 0 || wire_grant(wire) != 0 ||
        wire_await(wire, &wire->heard, "the server does not grant its memory") != 0 || wire_import(wire) != 0)
        return -1;
    if (wire->inline_most > wire->can.inline_bytes)
        wire->inline_most = wire->can.inline_bytes;
    return 0;
}

/* wire_widen -- further connections of a client. */
static int wire_widen(struct wire *wire, const char *address, uint64_t more, uint64_t half)
{
    struct wire_order order = {.what = WIRE_WIDEN, .seed = more};

    if (wire_ask(wire, &order) != 0)
        return -1;
    if (order.good == 0)
        return wire_wrong(wire, "the server has no room for so many connections: give a smaller -q (--qp)");
    wire->ports = calloc(more, sizeof(*wire->ports));
    if (wire->ports == NULL)
        return wire_wrong(wire, "no memory for connections");
    for (; wire->port_count < more; wire->port_count++) {
        struct wire *port = &wire->ports[wire->port_count];
        wire_port(port, wire, wire->queue);
        port->whole = true;
        if (wire_region(port, half) != 0 || wire_join(port, address) != 0) {
            wire->port_count++; /* has what is to be freed */
            return wire_wrong(wire, port->text);
        }
    }
    return 0;
}

/* wire_client -- see wire.h. */
int wire_client(struct wire *wire, const struct settings *s, uint64_t half)
{
    char address[STEPGATE_ADDRESS_BYTES + WIRE_TEXT];
    uint64_t more = s->qps > 1 ? s->qps - 1 : 0;

    memset(wire, 0, sizeof(*wire));
    wire->can.size = sizeof(wire->can);
    wire->whole = true;
    if (s->server != NULL)
        snprintf(address, sizeof(address), strchr(s->server, ':') != NULL ? "%s" : "%s:%llu", s->server,
                 (unsigned long long)(s->port != 0 ? s->port : SERVER_PORT));
    wire->inline_most = (uint32_t)s->inline_bytes;
    if ((s->server == NULL && server_child(wire, s, address, sizeof(address)) != 0) ||
        wire_open(wire, s, (uint32_t)more + 2) != 0 || wire_bind(wire, s, 0) != 0 ||
        wire_region(wire, half) != 0 || wire_join(wire, address) != 0 ||
        (more > 0 && wire_widen(wire, address, more, half) != 0)) {
        (void)wire_close(wire);
        return -1;
    }
    return 0;
}

/* wire_close -- see wire.h. */
int wire_close(struct wire *wire)
{
    for (uint32_t i = 0; i < wire->port_count; i++)
        wire_free(&wire->ports[i]);
    free(wire->ports);
    wire->ports = NULL;
    wire->port_count = 0;
    wire_free(wire);
    int status = child_end(&wire->peer);
    lines_delete(&wire->lines);
    return status == 0 ? 0 : -1;
}
