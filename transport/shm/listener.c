/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/listener.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/shm.h"
#include "transport/shm/socket.h"

#define LISTENER_BATCH 64 /* connections per look */
#define LISTENER_STALL_MS 100

/* shm_listener_new -- binds and listens. */
int shm_listener_new(struct stepgate_queue *queue, const char *address, struct stepgate_listener **out)
{
    struct hosts_entry entry;
    int status = shm_socket_parse(address, true, &entry);

    if (status < 0)
        return status;
    struct shm_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a listener");
    listener->fd = shm_socket_listen(&entry.port);
    if (listener->fd < 0) {
        status = listener->fd;
        goto free_listener;
    }
    int length = snprintf(listener->address, sizeof(listener->address),
                          strchr(entry.host, ':') != NULL ? "[%s]:%u" : "%s:%u", entry.host, entry.port);
    if (length < 0 || (size_t)length >= sizeof(listener->address)) {
        status = error_set(STEPGATE_EADDRESS, 0, NULL, "the address %s is too long", address);
        goto close_fd;
    }
    listener->base.transport = shm_transport();
    listener->queue = (struct shm_queue *)queue;
    listener->watch = (struct shm_watch){.kind = SHM_WATCH_LISTENER, .owner = listener};
    listener->last = &listener->first;
    status = shm_queue_watch(listener->queue, listener->fd, EPOLLIN, &listener->watch);
    if (status < 0)
        goto close_fd;
    listener->next = listener->queue->listeners;
    listener->queue->listeners = listener;
    *out = &listener->base;
    return 0;
close_fd:
    close(listener->fd);
free_listener:
    free(listener);
    return status;
}

/* shm_listener_address -- with the port that was taken. */
int shm_listener_address(struct stepgate_listener *listener, char *text, size_t bytes)
{
    int length = snprintf(text, bytes, "%s", ((struct shm_listener *)listener)->address);

    if (length < 0 || (size_t)length >= bytes)
        return error_set(STEPGATE_EINVAL, 0, NULL, "%zu bytes are too few for an address", bytes);
    return 0;
}

/* listener_refuse -- says so and hangs up. Nobody waits for the answer: if it can't be sent, the end of the connection says enough. */
static void listener_refuse(int fd, int code, const void *hello, uint32_t hello_bytes)
{
    struct shm_frame frame = {.kind = SHM_FRAME_REFUSE, .status = (uint32_t)code, .fds = {-1, -1}};

    if (hello != NULL && hello_bytes <= sizeof(frame.hello)) {
        frame.hello_bytes = hello_bytes;
        memcpy(frame.hello, hello, hello_bytes);
    }
    (void)shm_frame_send(fd, &frame);
    shm_socket_close(fd);
}

/* shm_request_reject -- consumes it. */
void shm_request_reject(struct shm_request *request, int code, const void *hello, uint32_t hello_bytes)
{
    listener_refuse(request->fd, code, hello, hello_bytes);
    shm_frame_drop(&request->frame);
    free(request);
}

/* shm_request_refuse -- the program does not want it. */
void shm_request_refuse(struct stepgate_request *request, const void *hello, uint32_t hello_bytes)
{
    if (request != NULL)
        shm_request_reject((struct shm_request *)request, 0, hello, hello_bytes);
}

/* caller_delete -- forgets a caller; its socket is somebody else's now, or closed. */
static void caller_delete(struct shm_caller *caller)
{
    struct shm_caller **link = &caller->listener->callers;

    while (*link != caller)
        link = &(*link)->next;
    *link = caller->next;
    caller->listener->queue->waiting--;
    free(caller);
}

/* caller_refuse -- hangs up on a caller. */
static void caller_refuse(struct shm_caller *caller, int code)
{
    shm_queue_unwatch(caller->listener->queue, caller->fd);
    listener_refuse(caller->fd, code, NULL, 0);
    caller_delete(caller);
}

/* shm_listener_delete -- refuses whom nobody has seen; whoever the kernel still holds is reset by the close. */
void shm_listener_delete(struct stepgate_listener **pointer)
{
    if (pointer == NULL || *pointer == NULL)
        return;
    struct shm_listener *listener = (struct shm_listener *)*pointer;
    struct shm_listener **link = &listener->queue->listeners;
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    shm_queue_unwatch(listener->queue, listener->fd);
    close(listener->fd);
    if (listener->stalled != 0)
        listener->queue->waiting--;
    while (listener->callers != NULL)
        caller_refuse(listener->callers, 0);
    while (listener->first != NULL) {
        struct shm_request *request = listener->first;
        listener->first = request->next;
        shm_request_reject(request, 0, NULL, 0);
    }
    free(listener);
    *pointer = NULL;
}

/* listener_stall -- no descriptor or memory is free: leaves the callers in the kernel for a while instead of looking without end. */
static void listener_stall(struct shm_listener *listener)
{
    shm_queue_unwatch(listener->queue, listener->fd);
    if (listener->stalled == 0)
        listener->queue->waiting++;
    listener->stalled = clock_after(clock_now(), LISTENER_STALL_MS);
}

/* listener_admit -- a connection has come. */
static void listener_admit(struct shm_listener *listener, int fd)
{
    struct shm_queue *queue = listener->queue;
    int pid;

    if (!shm_socket_peer(fd, &pid)) {
        listener_refuse(fd, STEPGATE_EACCESS, NULL, 0);
        return;
    }
    struct shm_caller *caller = calloc(1, sizeof(*caller));
    if (caller == NULL) {
        listener_refuse(fd, STEPGATE_ENOMEM, NULL, 0);
        return;
    }
    *caller = (struct shm_caller){.watch = {.kind = SHM_WATCH_CALLER, .owner = caller},
                                  .listener = listener,
                                  .fd = fd,
                                  .pid = pid,
                                  .deadline = clock_now() + queue->fabric->connect_timeout_ns,
                                  .next = listener->callers};
    if (shm_queue_watch(queue, fd, EPOLLIN, &caller->watch) < 0) {
        listener_refuse(fd, STEPGATE_ELIMIT, NULL, 0);
        free(caller);
        return;
    }
    listener->callers = caller;
    queue->waiting++;
    shm_caller_look(caller); /* it usually has spoken already */
}

/* shm_listener_look -- lets in who waits. */
void shm_listener_look(struct shm_listener *listener)
{
    for (int i = 0; i < LISTENER_BATCH; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            listener_admit(listener, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN)
            listener_stall(listener);
        return;
    }
}

/* shm_caller_look -- the request frame, or the end. */
void shm_caller_look(struct shm_caller *caller)
{
    struct shm_listener *listener = caller->listener;
    struct shm_frame frame;
    int status = shm_frame_receive(caller->fd, &frame);

    if (status == 0)
        return;
    if (status < 0) {
        caller_refuse(caller, -status);
        return;
    }
    status = frame.kind != SHM_FRAME_REQUEST || frame.operations == 0 ? -STEPGATE_EPROTOCOL
                                                                      : shm_doorbell_check(frame.fds[0]);
    if (status < 0) {
        shm_frame_drop(&frame);
        caller_refuse(caller, -status);
        return;
    }
    struct shm_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        shm_frame_drop(&frame);
        caller_refuse(caller, STEPGATE_ENOMEM);
        return;
    }
    request->base.transport = shm_transport();
    request->fd = caller->fd;
    request->pid = caller->pid;
    request->frame = frame;
    *listener->last = request;
    listener->last = &request->next;
    shm_queue_unwatch(listener->queue, caller->fd);
    caller_delete(caller);
    shm_queue_stir(listener->queue);
}

/* shm_listener_deadline -- hangs up on who says nothing; tries again where it was stalled. */
uint64_t shm_listener_deadline(struct shm_listener *listener, uint64_t now)
{
    uint64_t next = CLOCK_NEVER;

    if (listener->stalled != 0 && listener->stalled <= now &&
        shm_queue_watch(listener->queue, listener->fd, EPOLLIN, &listener->watch) == 0) {
        listener->stalled = 0;
        listener->queue->waiting--;
    }
    if (listener->stalled != 0)
        next = listener->stalled > now ? listener->stalled : clock_after(now, LISTENER_STALL_MS);
    for (struct shm_caller *caller = listener->callers, *following; caller != NULL; caller = following) {
        following = caller->next;
        if (caller->deadline <= now)
            caller_refuse(caller, STEPGATE_ETIMEOUT);
        else if (caller->deadline < next)
            next = caller->deadline;
    }
    return next;
}

/* shm_listener_take -- the requests that have come, in their order. */
int shm_listener_take(struct shm_listener *listener, struct stepgate_event *events, int max)
{
    int n = 0;

    while (n < max && listener->first != NULL) {
        struct shm_request *request = listener->first;
        size_t room;
        uint8_t *hello = shm_queue_room(listener->queue, &room);
        if (room < sizeof(request->frame.hello))
            break;
        memcpy(hello, request->frame.hello, sizeof(request->frame.hello));
        events[n++] =
            (struct stepgate_event){.kind = STEPGATE_EVENT_REQUEST,
                                    .listener = &listener->base,
                                    .request = &request->base,
                                    .length = request->frame.hello_bytes,
                                    .data = shm_queue_keep(listener->queue, sizeof(request->frame.hello))};
        listener->first = request->next;
        if (listener->first == NULL)
            listener->last = &listener->first;
        request->next = NULL;
    }
    return n;
}

/* shm_listener_pending -- is there something to take? */
bool shm_listener_pending(const struct shm_listener *listener)
{
    return listener->first != NULL;
}
