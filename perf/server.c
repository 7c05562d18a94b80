/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/server.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf/child.h"
#include "perf/hub.h"
#include "perf/lane.h"

/* server_ping -- ping-pong on the last byte. */
static int server_ping(struct wire *wire, const struct wire_order *order)
{
    volatile uint8_t *last = wire_inbound(wire) + order->size - 1;

    for (uint64_t i = 0;; i++) {
        for (unsigned looks = 0; *last != (uint8_t)(i % 255 + 1); looks++) {
            if (wire->heard)
                return 0;
            if (looks % 64 == 63 && wire_progress(wire) < 0)
                return -1;
        }
        wire_outbound(wire)[order->size - 1] = (uint8_t)(i % 255 + 1);
        if (wire_write(wire, 0, order->size, i % 16 == 15 ? STEPGATE_POST_COMPLETE : 0) != 0)
            return -1;
    }
}

/* server_echo -- ping-pong of notifies. */
static int server_echo(struct wire *wire)
{
    uint64_t from = wire->notifies;

    for (uint64_t i = 0;; i++) {
        while (wire->notifies <= from + i) {
            if (wire->heard)
                return 0;
            if (wire_progress(wire) < 0)
                return -1;
        }
        if (wire_notify(wire, (uint32_t)i) != 0)
            return -1;
    }
}

/* server_narrow -- no further connections. */
static void server_narrow(struct wire *wire)
{
    if (wire->hub == NULL)
        return;
    hub_free(wire->hub);
    free(wire->hub);
    wire->hub = NULL;
    wire->ports = NULL;
    wire->port_count = 0;
}

/* server_widen -- room for so many further connections of the same client; false: there is none. */
static bool server_widen(struct wire *wire, uint64_t more)
{
    if (wire->is_port || wire->hub != NULL || more == 0 || more > UINT16_MAX)
        return false;
    wire->hub = calloc(1, sizeof(*wire->hub));
    bool room = wire->hub != NULL && hub_beside(wire->hub, wire, (uint32_t)more) == 0;
    if (!room)
        server_narrow(wire);
    return room;
}

/* server_obey -- see server.h. */
int server_obey(struct wire *wire)
{
    struct wire_order order = wire->order;

    if (order.offset > wire->half || order.size > wire->half - order.offset)
        return wire_wrong(wire, "an order is larger than the memory");
    order.good = 1;
    switch (order.what) {
    case WIRE_PING:
        wire_inbound(wire)[order.size > 0 ? order.size - 1 : 0] = 0;
        if (wire_tell(wire, &order) != 0) /* ready */
            return -1;
        return server_ping(wire, &order);
    case WIRE_NOTIFY: return wire_tell(wire, &order) == 0 ? server_echo(wire) : -1;
    case WIRE_CHECK:
        order.good = wire_holds(wire_inbound(wire) + order.offset, order.size, order.seed);
        return wire_tell(wire, &order);
    case WIRE_FILL:
        wire_fill(wire_inbound(wire) + order.offset, order.size, order.seed);
        return wire_tell(wire, &order);
    case WIRE_LINES:
        if (wire->lines == NULL)
            return wire_wrong(wire, "there are no lines between two hosts");
        if (wire_tell(wire, &order) != 0)
            return -1;
        lines_answer(wire->lines);
        return 0;
    case WIRE_TOKEN: return wire_tell(wire, &order) == 0 ? lane_tokens(wire) : -1;
    case WIRE_SLOT: return wire_tell(wire, &order) == 0 ? lane_slots(wire) : -1;
    case WIRE_WIDEN: order.good = server_widen(wire, order.seed); return wire_tell(wire, &order);
    case WIRE_WORDS: lane_publish(wire, order.seed); return wire_tell(wire, &order);
    default: return wire_tell(wire, &order);
    }
}

/* server_answer -- orders, of all connections, until the client leaves the first one. */
static int server_answer(struct wire *wire)
{
    for (;;) {
        while (!wire->heard) {
            int n = wire_progress(wire);
            if (n < 0)
                return wire->gone && wire->connected ? 0 : -1;
            if (wire->hub != NULL && hub_progress(wire->hub) != 0)
                return wire_wrong(wire, wire->hub->wire.text);
            if (n == 0)
                sched_yield();
        }
        wire->heard = false;
        if (server_obey(wire) != 0)
            return wire->gone ? 0 : -1;
    }
}

/* server_listen -- see server.h. */
int server_listen(struct wire *wire, const struct settings *s, bool free_port, char *address, size_t bytes)
{
    char at[256];

    snprintf(at, sizeof(at), "%s:%llu",
             s->address != NULL                 ? s->address
             : strcmp(s->transport, "shm") == 0 ? "127.0.0.1"
                                                : "0.0.0.0",
             free_port ? 0ULL : (unsigned long long)(s->port != 0 ? s->port : SERVER_PORT));
    int status = wire->transport->listener_new(wire->queue, at, &wire->listener);
    if (status == 0)
        status = wire->transport->listener_address(wire->listener, address, bytes);
    return status < 0 ? wire_fail(wire, status, "listening") : 0;
}

/* server_settle -- see server.h. */
int server_settle(struct wire *wire)
{
    uint64_t half = wire->half;

    wire->heard = false;
    return wire_region(wire, half) == 0 && wire_import(wire) == 0 ? wire_grant(wire) : -1;
}

/* server_host -- the life behind the listener. */
static int server_host(struct wire *wire)
{
    if (wire_await(wire, &wire->heard, "no client came") != 0)
        return -1;
    return server_settle(wire) == 0 ? server_answer(wire) : -1;
}

/* server_open -- until it listens; the lines that it may share with its maker are kept. */
static int server_open(struct wire *wire, const struct settings *s, bool free_port, char *address,
                       size_t bytes)
{
    struct lines *lines = wire->lines;

    memset(wire, 0, sizeof(*wire));
    wire->lines = lines;
    wire->can.size = sizeof(wire->can);
    wire->inline_most = (uint32_t)s->inline_bytes;
    return wire_open(wire, s, 2) == 0 && wire_bind(wire, s, 1) == 0
               ? server_listen(wire, s, free_port, address, bytes)
               : -1;
}

/* server_run -- see server.h. */
int server_run(struct wire *wire, const struct settings *s)
{
    char address[STEPGATE_ADDRESS_BYTES];

    wire->lines = NULL;
    int status = server_open(wire, s, false, address, sizeof(address));
    if (status == 0) {
        printf("listening %s\n", address);
        fflush(stdout);
        status = server_host(wire);
    }
    server_narrow(wire);
    wire_free(wire);
    return status;
}

/* server_forget -- the client that has left, so that there is a place for the next. */
static void server_forget(struct wire *wire)
{
    const struct stepgate_transport_v1 *t = wire->transport;

    server_narrow(wire);
    t->remote_delete(&wire->remote);
    t->endpoint_delete(&wire->endpoint);
    t->region_delete(&wire->region);
    wire->connected = wire->gone = wire->heard = false;
    wire->completed = wire->notifies = 0;
    wire->text[0] = '\0';
}

/* server_stay -- see server.h. While nobody is there it sleeps: it may be beside others that are measured. */
int server_stay(struct wire *wire, const struct settings *s, int told)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    char line[1 + WIRE_TEXT] = "";

    wire->lines = NULL;
    int status = server_open(wire, s, told >= 0, line, STEPGATE_ADDRESS_BYTES);
    if (told >= 0) {
        if (status != 0)
            snprintf(line, sizeof(line), "!%s", wire->text);
        status = write(told, line, strlen(line)) < 0 ? -1 : status;
        close(told);
    } else if (status == 0) {
        printf("listening %s\n", line);
        fflush(stdout);
    }
    while (status == 0) {
        while (wire->endpoint == NULL && (status = wire_progress(wire)) >= 0)
            nanosleep(&nap, NULL);
        if (status < 0)
            break;
        status = 0;
        (void)server_host(wire); /* a client that fails tells its user why */
        server_forget(wire);
    }
    server_narrow(wire);
    wire_free(wire);
    return -1;
}

struct server_life {
    struct wire *wire;
    const struct settings *settings;
};

/* server_live -- the process made here: its address goes through the pipe, an error, too, behind a `!`. */
static void server_live(void *context, int pipe)
{
    const struct server_life *life = context;
    struct wire *wire = life->wire;
    char line[1 + WIRE_TEXT] = "";
    int status = server_open(wire, life->settings, true, line, STEPGATE_ADDRESS_BYTES);

    if (status != 0)
        snprintf(line, sizeof(line), "!%s", wire->text);
    if (write(pipe, line, strlen(line)) < 0)
        status = -1;
    close(pipe);
    if (status == 0 && (status = server_host(wire)) != 0)
        fprintf(stderr, "stepgate-perf: server: %s\n", wire->text);
    server_narrow(wire);
    wire_free(wire);
    _exit(status == 0 ? 0 : 1);
}

/* server_child -- see server.h. */
int server_child(struct wire *wire, const struct settings *s, char *address, size_t bytes)
{
    struct server_life life = {wire, s};
    char line[WIRE_TEXT];

    wire->lines = lines_new();
    wire->peer = child_new(server_live, &life, line, sizeof(line));
    if (wire->peer < 0 || line[0] == '\0' || strlen(line) >= bytes) {
        wire->peer = wire->peer < 0 ? 0 : wire->peer;
        return wire_wrong(wire, line[0] != '\0' ? line : "the other process ended before it listened");
    }
    memcpy(address, line, strlen(line) + 1);
    return 0;
}
