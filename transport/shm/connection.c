/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/frame.h"
#include "transport/shm/listener.h"
#include "transport/shm/shm.h"
#include "transport/shm/socket.h"

#define CONNECTION_AGAIN_MS 5
#define CONNECTION_DATA_AT UINT64_C(4096) /* of a segment: before it the control words of both rings */

static_assert(2 * sizeof(struct shm_ring_control) <= CONNECTION_DATA_AT, "the control words fit");

/* connection_segment_bytes -- control words, then the ring active -> passive, then the other. */
static uint64_t connection_segment_bytes(uint32_t operations)
{
    return CONNECTION_DATA_AT + 2 * shm_ring_bytes(operations);
}

/* connection_up -- the rings are there; from here on the socket is watched for its end alone. */
static int connection_up(struct shm_endpoint *endpoint, struct shm_segment *segment, uint32_t operations,
                         bool active)
{
    uint64_t bytes = shm_ring_bytes(operations);
    uint8_t *control = segment->bytes, *data = segment->bytes + CONNECTION_DATA_AT;
    unsigned out = active ? 0 : 1;

    int status = shm_queue_watch(endpoint->queue, endpoint->fd, 0, &endpoint->watch);
    if (status < 0)
        return status;
    shm_sender_init(&endpoint->sender, control + out * sizeof(struct shm_ring_control), data + out * bytes,
                    bytes);
    shm_receiver_init(&endpoint->receiver, control + (1 - out) * sizeof(struct shm_ring_control),
                      data + (1 - out) * bytes, bytes);
    endpoint->segment = segment;
    endpoint->operations = operations;
    endpoint->connected_due = true;
    endpoint->state = SHM_ENDPOINT_UP;
    shm_queue_stir(endpoint->queue);
    return 0;
}

/* connection_new -- an endpoint that is connected to nobody. */
static int connection_new(struct shm_queue *queue, struct shm_domain *domain, void *user,
                          struct shm_endpoint **out)
{
    struct shm_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for an endpoint");
    endpoint->base.transport = shm_transport();
    endpoint->base.user = user;
    endpoint->watch = (struct shm_watch){.kind = SHM_WATCH_ENDPOINT, .owner = endpoint};
    endpoint->queue = queue;
    endpoint->domain = domain;
    endpoint->state = SHM_ENDPOINT_CALLING;
    endpoint->fd = endpoint->bell = endpoint->process = -1;
    endpoint->operations = queue->fabric->operations;
    endpoint->contexts = calloc(endpoint->operations, sizeof(*endpoint->contexts));
    int status = endpoint->contexts != NULL
                     ? shm_queue_enter(queue, endpoint)
                     : error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for an endpoint");
    if (status < 0) {
        free(endpoint->contexts);
        free(endpoint);
        return status;
    }
    queue->waiting++; /* of the state */
    *out = endpoint;
    return 0;
}

/* connection_abandon -- an endpoint that the caller never saw. */
static int connection_abandon(struct shm_endpoint *endpoint, int status)
{
    struct stepgate_endpoint *base = &endpoint->base;

    shm_endpoint_delete(&base);
    return status;
}

/* connection_check_hello -- is it one? */
static int connection_check_hello(const void *hello, uint32_t bytes)
{
    if (bytes > STEPGATE_HELLO_BYTES || (bytes > 0 && hello == NULL))
        return error_set(STEPGATE_EINVAL, 0, NULL, "a hello has at most %d bytes, not %u",
                         STEPGATE_HELLO_BYTES, bytes);
    return 0;
}

/* connection_fail -- for the reason that is this thread's last error. */
static void connection_fail(struct shm_endpoint *endpoint)
{
    struct stepgate_error error;

    error_save(&error);
    shm_endpoint_break(endpoint, error.code, NULL, "%s: %s", endpoint->address, error.text);
}

/* connection_ask -- sends the request. */
static void connection_ask(struct shm_endpoint *endpoint)
{
    struct shm_frame frame = {.kind = SHM_FRAME_REQUEST,
                              .operations = endpoint->operations,
                              .domain = endpoint->domain->number,
                              .hello_bytes = endpoint->hello_bytes,
                              .fds = {endpoint->queue->bell, -1}};

    if (!shm_socket_peer(endpoint->fd, &endpoint->pid)) {
        shm_endpoint_break(endpoint, STEPGATE_EREFUSED, "ask whose process that is; choose another port",
                           "another user's process, number %d, listens at %s", endpoint->pid,
                           endpoint->address);
        return;
    }
    memcpy(frame.hello, endpoint->hello, sizeof(frame.hello));
    endpoint->hello_bytes = 0; /* the peer's from here on */
    endpoint->state = SHM_ENDPOINT_ASKING;
    int status = shm_frame_send(endpoint->fd, &frame);
    if (status == -STEPGATE_EPEER)
        shm_endpoint_break(endpoint, STEPGATE_EREFUSED, NULL, "the listener at %s hung up",
                           endpoint->address);
    else if (status < 0)
        shm_endpoint_break(endpoint, -status, "raise the limit: ulimit -n", "cannot send a request to %s: %s",
                           endpoint->address, strerror(errno));
    else if (shm_queue_watch(endpoint->queue, endpoint->fd, EPOLLIN, &endpoint->watch) < 0)
        connection_fail(endpoint);
}

/* connection_call -- connects, if the listener's queue is not full. */
static void connection_call(struct shm_endpoint *endpoint)
{
    int status = shm_socket_connect(endpoint->fd, endpoint->port);

    if (status == 0)
        connection_ask(endpoint);
    else if (status == -STEPGATE_EREFUSED)
        shm_endpoint_break(endpoint, STEPGATE_EREFUSED, "start the ps, or correct the address",
                           "nobody listens at %s on this host, for this user", endpoint->address);
    else if (status != -STEPGATE_EAGAIN)
        shm_endpoint_break(endpoint, -status, NULL, "cannot connect to %s: %s", endpoint->address,
                           strerror(errno));
}

/* shm_endpoint_connect -- whatever becomes of it is told by an event. */
int shm_endpoint_connect(struct stepgate_queue *queue, struct stepgate_domain *domain, const char *address,
                         const void *hello, uint32_t hello_bytes, void *user, struct stepgate_endpoint **out)
{
    struct shm_endpoint *endpoint;
    struct hosts_entry entry;
    int status = connection_check_hello(hello, hello_bytes);

    if (status == 0)
        status = shm_socket_parse(address, false, &entry);
    if (status == 0)
        status = connection_new((struct shm_queue *)queue, (struct shm_domain *)domain, user, &endpoint);
    if (status < 0)
        return status;
    endpoint->fd = shm_socket_new();
    if (endpoint->fd < 0)
        return connection_abandon(endpoint, endpoint->fd);
    memcpy(endpoint->address, entry.address, sizeof(entry.address));
    endpoint->port = entry.port;
    endpoint->hello_bytes = hello_bytes;
    if (hello_bytes > 0)
        memcpy(endpoint->hello, hello, hello_bytes);
    endpoint->deadline = clock_now() + endpoint->queue->fabric->connect_timeout_ns;
    connection_call(endpoint);
    *out = &endpoint->base;
    return 0;
}

/* connection_accepted -- the answer says yes: maps the rings that the peer made. */
static void connection_accepted(struct shm_endpoint *endpoint, struct shm_frame *frame)
{
    struct shm_segment *segment = NULL;

    endpoint->bell = frame->fds[1];
    frame->fds[1] = -1;
    if (frame->operations < SHM_OPERATIONS_LEAST || frame->operations > endpoint->operations ||
        frame->length != connection_segment_bytes(frame->operations)) {
        shm_endpoint_break(endpoint, STEPGATE_EPROTOCOL, "use the same version on both sides",
                           "the answer of %s makes no sense", endpoint->address);
        return;
    }
    int status = shm_doorbell_check(endpoint->bell);
    if (status == 0)
        status = shm_segment_map(frame->fds[0], frame->length, true, &segment);
    if (status == 0) {
        status = connection_up(endpoint, segment, frame->operations, true);
        if (status < 0)
            shm_segment_unref(&segment);
    }
    if (status < 0) {
        connection_fail(endpoint);
        return;
    }
    endpoint->queue->waiting--;
    endpoint->peer_domain = frame->domain;
    endpoint->connection = frame->connection;
}

/* connection_refused -- the answer says no, by the program there or by its transport. */
static void connection_refused(struct shm_endpoint *endpoint, uint32_t status)
{
    switch (status) {
    case 0:
        shm_endpoint_break(endpoint, STEPGATE_EREFUSED, NULL, "%s refused the connection", endpoint->address);
        break;
    case STEPGATE_EVERSION:
        shm_endpoint_break(endpoint, STEPGATE_EVERSION, "use the same version on both sides",
                           "%s speaks another version of the shm transport", endpoint->address);
        break;
    default:
        shm_endpoint_break(endpoint, STEPGATE_EREFUSED, "see the log of the other side",
                           "%s could not take the connection: %s", endpoint->address,
                           stepgate_strerror(status < 256 ? (int)status : STEPGATE_EPROTOCOL));
        break;
    }
}

/* shm_connection_look -- one frame decides. */
void shm_connection_look(struct shm_endpoint *endpoint)
{
    struct shm_frame frame;
    int status = shm_frame_receive(endpoint->fd, &frame);

    if (status == 0)
        return;
    if (status < 0) {
        if (status == -STEPGATE_EPEER)
            shm_endpoint_break(endpoint, STEPGATE_EREFUSED, NULL, "the listener at %s hung up",
                               endpoint->address);
        else
            shm_endpoint_break(endpoint, -status,
                               status == -STEPGATE_ELIMIT ? "raise the limit: ulimit -n"
                                                          : "use the same version on both sides",
                               "cannot take the answer of %s", endpoint->address);
        return;
    }
    if (frame.kind == SHM_FRAME_ACCEPT || frame.kind == SHM_FRAME_REFUSE) {
        endpoint->hello_bytes = frame.hello_bytes;
        memcpy(endpoint->hello, frame.hello, sizeof(endpoint->hello));
    }
    if (frame.kind == SHM_FRAME_ACCEPT)
        connection_accepted(endpoint, &frame);
    else if (frame.kind == SHM_FRAME_REFUSE)
        connection_refused(endpoint, frame.status);
    else
        shm_endpoint_break(endpoint, STEPGATE_EPROTOCOL, NULL, "the answer of %s makes no sense",
                           endpoint->address);
    shm_frame_drop(&frame);
}

/* shm_connection_deadline -- of calling and asking. */
uint64_t shm_connection_deadline(struct shm_endpoint *endpoint, uint64_t now)
{
    if (endpoint->broken || endpoint->state == SHM_ENDPOINT_UP || endpoint->state == SHM_ENDPOINT_DOWN)
        return CLOCK_NEVER;
    if (endpoint->deadline <= now) {
        shm_endpoint_break(endpoint, STEPGATE_EUNREACHABLE,
                           "see whether the process there is stopped or very busy",
                           "no answer from %s within %llu ms", endpoint->address,
                           (unsigned long long)(endpoint->queue->fabric->connect_timeout_ns / CLOCK_MS));
        return CLOCK_NEVER;
    }
    if (endpoint->state == SHM_ENDPOINT_CALLING)
        connection_call(endpoint);
    if (endpoint->broken)
        return CLOCK_NEVER;
    if (endpoint->state != SHM_ENDPOINT_CALLING)
        return endpoint->deadline;
    uint64_t again = clock_after(now, CONNECTION_AGAIN_MS);
    return again < endpoint->deadline ? again : endpoint->deadline;
}

/* connection_answer -- makes the rings, sends them, and is up. */
static int connection_answer(struct shm_endpoint *endpoint, const struct shm_request *request,
                             const void *hello, uint32_t hello_bytes)
{
    uint32_t operations =
        request->frame.operations < endpoint->operations ? request->frame.operations : endpoint->operations;
    struct shm_segment *segment;

    if (operations < SHM_OPERATIONS_LEAST)
        return error_set(STEPGATE_EPROTOCOL, 0, NULL, "the request asks for a depth of %u", operations);
    struct shm_frame frame = {.kind = SHM_FRAME_ACCEPT,
                              .operations = operations,
                              .domain = endpoint->domain->number,
                              .length = connection_segment_bytes(operations),
                              .hello_bytes = hello_bytes};
    if (hello_bytes > 0)
        memcpy(frame.hello, hello, hello_bytes);
    int status = shm_number(&frame.connection);
    if (status == 0)
        status = shm_segment_new(frame.length, SHM_SEGMENT_OPEN, &segment);
    if (status < 0)
        return status;
    status = connection_up(endpoint, segment, operations, false);
    if (status < 0) {
        shm_segment_unref(&segment);
        return status;
    }
    endpoint->queue->waiting--;
    endpoint->connection = frame.connection;
    frame.fds[0] = segment->fd;
    frame.fds[1] = endpoint->queue->bell;
    status = shm_frame_send(endpoint->fd, &frame);
    int os_errno = errno;
    shm_segment_close(segment);
    if (status < 0)
        endpoint->connected_due = false;
    if (status == -STEPGATE_EPEER) {
        shm_endpoint_break(endpoint, STEPGATE_EPEER, NULL,
                           "the peer, process %d, was gone before it was accepted", endpoint->pid);
        return 0;
    }
    return status == 0 ? 0
                       : error_set(-status, os_errno, "raise the limit: ulimit -n",
                                   "cannot send the answer to process %d", endpoint->pid);
}

/* shm_endpoint_accept -- from here on the socket is the endpoint's, whichever queue it was on. */
int shm_endpoint_accept(struct stepgate_request *base, struct stepgate_queue *queue,
                        struct stepgate_domain *domain, const void *hello, uint32_t hello_bytes, void *user,
                        struct stepgate_endpoint **out)
{
    struct shm_request *request = (struct shm_request *)base;
    struct shm_endpoint *endpoint = NULL;
    int status = connection_check_hello(hello, hello_bytes);

    if (status == 0)
        status = connection_new((struct shm_queue *)queue, (struct shm_domain *)domain, user, &endpoint);
    if (status < 0) {
        shm_request_reject(request, -status, NULL, 0);
        return status;
    }
    endpoint->fd = request->fd;
    endpoint->pid = request->pid;
    endpoint->peer_domain = request->frame.domain;
    snprintf(endpoint->address, sizeof(endpoint->address), "process %d", request->pid);
    endpoint->deadline = CLOCK_NEVER;
    status = connection_answer(endpoint, request, hello, hello_bytes);
    if (status < 0) {
        endpoint->fd = -1; /* it is refused over it */
        shm_queue_unwatch(endpoint->queue, request->fd);
        shm_request_reject(request, -status, NULL, 0);
        return connection_abandon(endpoint, status);
    }
    endpoint->bell = request->frame.fds[0];
    request->frame.fds[0] = -1;
    shm_frame_drop(&request->frame);
    free(request);
    *out = &endpoint->base;
    return 0;
}
