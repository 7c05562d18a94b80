/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/endpoint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/shm/connection.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/post.h"
#include "transport/shm/process.h"
#include "transport/shm/remote.h"
#include "transport/shm/socket.h"

#define ENDPOINT_PARTING_MS                                                                                  \
    20 /* from the end of a socket to that of its process; the rest of a kill takes less */

/* shm_endpoint_break -- leaves the socket open: grants and the peer's last words may still be read from it. */
void shm_endpoint_break(struct shm_endpoint *endpoint, int code, const char *remedy, const char *format, ...)
{
    va_list arguments;

    if (endpoint->broken)
        return;
    if (endpoint->state == SHM_ENDPOINT_CALLING || endpoint->state == SHM_ENDPOINT_ASKING)
        endpoint->queue->waiting--;
    if (endpoint->state == SHM_ENDPOINT_CALLING)
        endpoint->hello_bytes = 0; /* nobody has answered */
    endpoint->broken = true;
    endpoint->code = code;
    endpoint->remedy = remedy;
    va_start(arguments, format);
    vsnprintf(endpoint->why, sizeof(endpoint->why), format, arguments);
    va_end(arguments);
    /* A hang-up stays one, and would be reported for ever. */
    shm_queue_unwatch(endpoint->queue, endpoint->fd);
    shm_queue_stir(endpoint->queue);
}

/* endpoint_parted -- its end may be told. */
static void endpoint_parted(struct shm_endpoint *endpoint, bool died)
{
    endpoint->died = died;
    if (endpoint->process >= 0) {
        shm_queue_unwatch(endpoint->queue, endpoint->process);
        close(endpoint->process);
        endpoint->process = -1;
    }
    endpoint->queue->waiting -= endpoint->parting != 0;
    endpoint->parting = 0;
    shm_queue_stir(endpoint->queue);
}

/* endpoint_part -- the socket of a connection that stood has ended. */
static void endpoint_part(struct shm_endpoint *endpoint)
{
    bool over;

    shm_endpoint_break(endpoint, STEPGATE_EPEER, NULL,
                       "the peer, process %d, is gone or has closed the connection", endpoint->pid);
    endpoint->process = shm_process_open(endpoint->pid, &over);
    if (over || endpoint->process < 0 ||
        shm_queue_watch(endpoint->queue, endpoint->process, EPOLLIN, &endpoint->watch) != 0) {
        endpoint_parted(endpoint, over);
        return;
    }
    endpoint->parting = clock_after(clock_now(), ENDPOINT_PARTING_MS);
    endpoint->queue->waiting++;
}

/* shm_endpoint_look -- an answer while asking; later only the end of the connection is watched for, and of its process. */
void shm_endpoint_look(struct shm_endpoint *endpoint)
{
    if (endpoint->parting != 0 && shm_process_over(endpoint->process))
        endpoint_parted(endpoint, true);
    if (endpoint->broken)
        return;
    if (endpoint->state == SHM_ENDPOINT_UP)
        endpoint_part(endpoint);
    else if (endpoint->state == SHM_ENDPOINT_ASKING)
        shm_connection_look(endpoint);
}

/* shm_endpoint_deadline -- of connecting and parting. */
uint64_t shm_endpoint_deadline(struct shm_endpoint *endpoint, uint64_t now)
{
    if (endpoint->parting > now)
        return endpoint->parting;
    if (endpoint->parting != 0)
        endpoint_parted(endpoint, false);
    return shm_connection_deadline(endpoint, now);
}

/* endpoint_hello -- the peer's hello, kept until the next poll; false: no room in this one. */
static bool endpoint_hello(struct shm_endpoint *endpoint, struct stepgate_event *event)
{
    size_t room;
    uint8_t *bytes = shm_queue_room(endpoint->queue, &room);

    if (room < sizeof(endpoint->hello))
        return false;
    memcpy(bytes, endpoint->hello, sizeof(endpoint->hello));
    event->length = endpoint->hello_bytes;
    event->data = shm_queue_keep(endpoint->queue, sizeof(endpoint->hello));
    return true;
}

/* endpoint_record -- the next event out of the ring; 0: there is none, or no room for it in this poll. */
static int endpoint_record(struct shm_endpoint *endpoint, struct stepgate_event *event)
{
    struct shm_record record;
    size_t room;

    if (endpoint->deaf)
        return 0;
    uint8_t *bytes = shm_queue_room(endpoint->queue, &room);
    int status = shm_receiver_take(&endpoint->receiver, &record, bytes, room);
    if (status == -STEPGATE_EPROTOCOL) {
        endpoint->deaf = true;
        shm_endpoint_break(endpoint, STEPGATE_EPROTOCOL, "use the same version on both sides",
                           "the ring of the peer, process %d, holds what cannot be", endpoint->pid);
    }
    if (status <= 0)
        return 0;
    *event = (struct stepgate_event){.endpoint = &endpoint->base};
    if (record.kind == SHM_RECORD_NOTIFY) {
        event->kind = STEPGATE_EVENT_NOTIFY;
        event->value = record.value;
    } else {
        event->kind = STEPGATE_EVENT_MESSAGE;
        event->length = record.length;
        event->data = shm_queue_keep(endpoint->queue, record.length);
    }
    return 1;
}

/* endpoint_is_drained -- has everything that came before the end been delivered? */
static bool endpoint_is_drained(const struct shm_endpoint *endpoint)
{
    if (endpoint->connected_due || endpoint->completed > 0)
        return false;
    /* acquire: pairs with the store of tail in shm_sender_put; after the end of the socket was seen, nothing is added */
    return endpoint->state != SHM_ENDPOINT_UP || endpoint->deaf ||
           atomic_load_explicit(&endpoint->receiver.control->tail, memory_order_acquire) ==
               endpoint->receiver.head;
}

/* endpoint_end -- the last event; its reason becomes the last error of this thread. */
static int endpoint_end(struct shm_endpoint *endpoint, struct stepgate_event *event)
{
    *event = (struct stepgate_event){.kind = STEPGATE_EVENT_DISCONNECTED,
                                     .status = -endpoint->code,
                                     .value = endpoint->died                     ? STEPGATE_END_DIED
                                              : endpoint->code == STEPGATE_EPEER ? STEPGATE_END_CLOSED
                                                                                 : STEPGATE_END_UNKNOWN,
                                     .endpoint = &endpoint->base,
                                     .why = endpoint->why,
                                     .remedy = endpoint->remedy};
    if (endpoint->state != SHM_ENDPOINT_UP && !endpoint_hello(endpoint, event))
        return 0;
    error_set(endpoint->code, 0, endpoint->remedy, "%s", endpoint->why);
    error_peer(STEPGATE_ROLE_NONE, -1, endpoint->address, "shm");
    endpoint->state = SHM_ENDPOINT_DOWN;
    return 1;
}

/* endpoint_take_up -- the events of a connection that stands, or has stood. */
static int endpoint_take_up(struct shm_endpoint *endpoint, struct stepgate_event *events, int max)
{
    int n = 0;

    if (endpoint->connected_due && n < max) {
        events[n] = (struct stepgate_event){.kind = STEPGATE_EVENT_CONNECTED, .endpoint = &endpoint->base};
        if (!endpoint_hello(endpoint, &events[n]))
            return n;
        endpoint->connected_due = false;
        n++;
    }
    for (; endpoint->completed > 0 && n < max; endpoint->completed--) {
        events[n++] = (struct stepgate_event){.kind = STEPGATE_EVENT_COMPLETION,
                                              .endpoint = &endpoint->base,
                                              .context = endpoint->contexts[endpoint->completed_first]};
        if (++endpoint->completed_first == endpoint->operations)
            endpoint->completed_first = 0;
    }
    while (n < max && endpoint_record(endpoint, &events[n]) > 0)
        n++;
    if (shm_receiver_release(&endpoint->receiver))
        shm_doorbell_ring(endpoint->bell);
    return n;
}

/* shm_endpoint_take -- up to max events. */
int shm_endpoint_take(struct shm_endpoint *endpoint, struct stepgate_event *events, int max, bool *last)
{
    int n = 0;

    if (endpoint->state == SHM_ENDPOINT_DOWN)
        return 0;
    if (endpoint->state == SHM_ENDPOINT_UP)
        n = endpoint_take_up(endpoint, events, max);
    if (endpoint->broken && endpoint->parting == 0 && n < max && endpoint_is_drained(endpoint)) {
        *last = true;
        n += endpoint_end(endpoint, &events[n]);
    }
    return n;
}

/* shm_endpoint_arm -- the ring last: arming comes before looking. */
bool shm_endpoint_arm(struct shm_endpoint *endpoint)
{
    if (endpoint->state == SHM_ENDPOINT_DOWN)
        return false;
    if ((endpoint->broken && endpoint->parting == 0) || endpoint->connected_due || endpoint->completed > 0)
        return true;
    return endpoint->state == SHM_ENDPOINT_UP &&
           (shm_sender_unblocked(&endpoint->sender) || shm_receiver_arm(&endpoint->receiver));
}

/* shm_endpoint_disarm -- the queue is awake. */
void shm_endpoint_disarm(struct shm_endpoint *endpoint)
{
    if (endpoint->state == SHM_ENDPOINT_UP)
        shm_receiver_disarm(&endpoint->receiver);
}

/* shm_endpoint_delete -- nothing waits for the peer. */
void shm_endpoint_delete(struct stepgate_endpoint **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct shm_endpoint *endpoint = (struct shm_endpoint *)*pointer;
    if (!endpoint->broken &&
        (endpoint->state == SHM_ENDPOINT_CALLING || endpoint->state == SHM_ENDPOINT_ASKING))
        endpoint->queue->waiting--;
    if (endpoint->parting != 0)
        endpoint_parted(endpoint, false);
    shm_queue_leave(endpoint->queue, endpoint);
    shm_queue_unwatch(endpoint->queue, endpoint->fd);
    shm_socket_close(endpoint->fd);
    if (endpoint->bell >= 0)
        close(endpoint->bell);
    shm_segment_unref(&endpoint->segment);
    shm_remote_forget(endpoint);
    free(endpoint->contexts);
    free(endpoint);
    *pointer = NULL;
}

/* shm_endpoint_trouble -- there is no device. */
void shm_endpoint_trouble(const struct stepgate_endpoint *endpoint, char *text, size_t bytes)
{
    (void)endpoint;
    (void)bytes;
    text[0] = 0;
}

/* shm_endpoint_capabilities -- after the answer they are those of both ends. */
int shm_endpoint_capabilities(struct stepgate_endpoint *endpoint, struct stepgate_capabilities *out)
{
    if (out == NULL || out->size < sizeof(*out))
        return error_set(STEPGATE_EINVAL, 0, "set size to sizeof(struct stepgate_capabilities)",
                         "the capabilities have no room");
    uint32_t operations = ((const struct shm_endpoint *)endpoint)->operations;
    *out = (struct stepgate_capabilities){.size = out->size,
                                          .can = STEPGATE_CAN_MAP,
                                          .inline_bytes = SHM_INLINE_BYTES,
                                          .operations = operations,
                                          .reads_in_flight = operations,
                                          .message_bytes = SHM_MESSAGE_BYTES,
                                          .piece_bytes = UINT64_MAX,
                                          .device = "shm"};
    return 0;
}
