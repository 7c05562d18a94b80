/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-example-transport -- moves bytes between two processes without a job: the transport alone. One process writes into the memory of the other, and
 * notifies; the other changes what came, and notifies; the first reads it back. Start it with
 *
 *     stepgate-example-transport [shm|verbs [ADDRESS]]
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stepgate/transport.h"

enum { EXAMPLE_BYTES = 4096, EXAMPLE_WAIT_MS = 10000, EXAMPLE_WRITTEN = 7, EXAMPLE_CHANGED = 8 };

/* One process: what it has opened, and what has arrived. */
struct example {
    const struct stepgate_transport_v1 *t;
    struct stepgate_fabric *fabric;
    struct stepgate_domain *domain;
    struct stepgate_queue *queue;
    struct stepgate_listener *listener;
    struct stepgate_region *region;
    struct stepgate_endpoint *endpoint;
    struct stepgate_remote *remote;
    int64_t deadline_ms;
};

/* example_now -- milliseconds */
static int64_t example_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* example_wait -- the next event of this kind; what else comes is the end: -1 */
static int example_wait(struct example *e, int kind, struct stepgate_event *event)
{
    while (example_now() < e->deadline_ms) {
        int n = e->t->queue_poll(e->queue, event, 1);
        if (n == 1 && event->kind == kind && event->status == 0)
            return 0;
        if (n == 1) {
            fprintf(stderr, "stepgate-example-transport: event %d was awaited, %d came: %s\n", kind,
                    event->kind, event->why != NULL ? event->why : stepgate_strerror(event->status));
            return -1;
        }
        if (e->t->queue_arm(e->queue) == 0) { /* nothing is pending: sleep until something is */
            struct pollfd fd = {.fd = e->t->queue_fd(e->queue), .events = POLLIN};
            poll(&fd, 1, 100);
        }
    }
    fprintf(stderr, "stepgate-example-transport: event %d did not come within %d s\n", kind,
            EXAMPLE_WAIT_MS / 1000);
    return -1;
}

/* example_check -- prints the last error if a call has failed */
static int example_check(int rc, const char *what)
{
    struct stepgate_error error = {.size = sizeof error};

    if (rc >= 0)
        return 0;
    stepgate_error_last(&error);
    fprintf(stderr, "stepgate-example-transport: %s: %s; %s\n", what, error.text, error.remedy);
    return -1;
}

/* example_open -- a device, a domain, a queue, and memory that a peer may read and write */
static int example_open(struct example *e, const char *transport, const char *host)
{
    struct stepgate_fabric_options options = {.size = sizeof options, .address = host};
    struct stepgate_region_options memory = {.size = sizeof memory,
                                             .access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE,
                                             .length = EXAMPLE_BYTES};

    e->deadline_ms = example_now() + EXAMPLE_WAIT_MS;
    return example_check(stepgate_transport_find(transport, &e->t), "transport") < 0 ||
                   example_check(e->t->fabric_open(&options, &e->fabric), "fabric_open") < 0 ||
                   example_check(e->t->domain_new(e->fabric, &e->domain), "domain_new") < 0 ||
                   example_check(e->t->queue_new(e->fabric, 2, &e->queue), "queue_new") < 0 ||
                   example_check(e->t->region_new(e->domain, &memory, &e->region), "region_new") < 0
               ? -1
               : 0;
}

/* example_close -- in the order of the contract; safe on what was never made */
static void example_close(struct example *e)
{
    if (e->fabric == NULL)
        return;
    e->t->remote_delete(&e->remote);
    e->t->endpoint_delete(&e->endpoint);
    e->t->region_delete(&e->region);
    e->t->listener_delete(&e->listener);
    e->t->queue_delete(&e->queue);
    e->t->domain_delete(&e->domain);
    e->t->fabric_delete(&e->fabric);
}

/* example_owner -- has the memory: grants it, sees what was written, changes it, and waits until the other has gone */
static int example_owner(struct example *e)
{
    struct stepgate_descriptor grant;
    struct stepgate_event event;

    if (example_wait(e, STEPGATE_EVENT_REQUEST, &event) < 0 ||
        example_check(e->t->endpoint_accept(event.request, e->queue, e->domain, NULL, 0, NULL, &e->endpoint),
                      "accept") < 0 ||
        example_wait(e, STEPGATE_EVENT_CONNECTED, &event) < 0 ||
        example_check(e->t->endpoint_export(e->endpoint, e->region,
                                            STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, &grant),
                      "export") < 0 ||
        example_check(e->t->endpoint_send(e->endpoint, &grant, sizeof grant), "send") < 0 ||
        example_wait(e, STEPGATE_EVENT_NOTIFY, &event) < 0)
        return -1;
    char *text = e->region->address; /* all of it is here: the notify came after it */
    printf("owner: notify %u, and in my memory: %s\n", event.value, text);
    text[0] = 'H';
    if (example_check(e->t->endpoint_notify(e->endpoint, EXAMPLE_CHANGED), "notify") < 0)
        return -1;
    /* The reader reads without this process: all that is awaited is that it goes. */
    while (example_now() < e->deadline_ms)
        if (e->t->queue_poll(e->queue, &event, 1) == 1 && event.kind == STEPGATE_EVENT_DISCONNECTED)
            return 0;
    return -1;
}

/* example_import -- the grant came as a message; what it needs beside may still be under way */
static int example_import(struct example *e, const struct stepgate_descriptor *grant)
{
    struct stepgate_event event;
    int rc;

    while ((rc = e->t->endpoint_import(e->endpoint, grant, &e->remote)) == -STEPGATE_EAGAIN &&
           example_now() < e->deadline_ms)
        if (e->t->queue_poll(e->queue, &event, 1) != 0)
            return -1;
    return example_check(rc, "import");
}

/* example_guest -- writes, notifies, waits for the answer, reads */
static int example_guest(struct example *e, const char *address)
{
    struct stepgate_descriptor grant;
    struct stepgate_event event;
    char *text = e->region->address;

    if (example_check(e->t->endpoint_connect(e->queue, e->domain, address, NULL, 0, NULL, &e->endpoint),
                      "connect") < 0 ||
        example_wait(e, STEPGATE_EVENT_CONNECTED, &event) < 0 ||
        example_wait(e, STEPGATE_EVENT_MESSAGE, &event) < 0 || event.length != sizeof grant)
        return -1;
    memcpy(&grant, event.data, sizeof grant); /* valid until the next poll */
    snprintf(text, EXAMPLE_BYTES, "hello from over there");
    if (example_import(e, &grant) < 0 ||
        example_check(
            e->t->endpoint_write(e->endpoint, e->region, 0, NULL, e->remote, 0, EXAMPLE_BYTES, 0, 0),
            "write") < 0 ||
        example_check(e->t->endpoint_notify(e->endpoint, EXAMPLE_WRITTEN), "notify") < 0 ||
        example_wait(e, STEPGATE_EVENT_NOTIFY, &event) < 0 ||
        example_check(e->t->endpoint_read(e->endpoint, e->region, 0, e->remote, 0, EXAMPLE_BYTES,
                                          STEPGATE_POST_COMPLETE, 1),
                      "read") < 0 ||
        example_wait(e, STEPGATE_EVENT_COMPLETION, &event) < 0)
        return -1;
    printf("guest: read back: %s\n", text);
    return strcmp(text, "Hello from over there") == 0 ? 0 : -1;
}

/* example_child -- the guest's process: it learns the address through a pipe, and opens everything anew */
static int example_child(const char *transport, const char *host, int from)
{
    struct example e = {0};
    char address[STEPGATE_ADDRESS_BYTES] = "";
    int rc = -1;

    if (read(from, address, sizeof address - 1) > 0 && example_open(&e, transport, host) == 0)
        rc = example_guest(&e, address);
    example_close(&e);
    fflush(stdout);
    return rc < 0;
}

int main(int argc, char **argv)
{
    const char *transport = argc > 1 ? argv[1] : "shm", *host = argc > 2 ? argv[2] : "127.0.0.1";
    char address[STEPGATE_ADDRESS_BYTES];
    struct example e = {0};
    int pipes[2], status = 0, rc = -1;

    if (argc > 3 || strcmp(transport, "--help") == 0) {
        puts("usage: stepgate-example-transport [shm|verbs [ADDRESS]]\n\n"
             "Writes into the memory of another process, and reads from it, without a job.");
        return argc > 3 ? 2 : 0;
    }
    if (pipe(pipes) != 0) {
        fprintf(stderr, "stepgate-example-transport: pipe: %s\n", strerror(errno));
        return 1;
    }
    pid_t child = fork(); /* before anything is opened: devices do not survive a fork */
    if (child == 0) {
        close(pipes[1]);
        return example_child(transport, host, pipes[0]);
    }
    close(pipes[0]);
    snprintf(address, sizeof address, strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    if (child > 0 && example_open(&e, transport, host) == 0 &&
        example_check(e.t->listener_new(e.queue, address, &e.listener), "listener_new") == 0 &&
        example_check(e.t->listener_address(e.listener, address, sizeof address), "listener_address") == 0 &&
        write(pipes[1], address, strlen(address)) > 0)
        rc = example_owner(&e);
    close(pipes[1]); /* without an address the child ends, too */
    example_close(&e);
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return 1;
    return rc < 0 || status != 0;
}
