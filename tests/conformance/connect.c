/* SPDX-License-Identifier: BSD-3-Clause */
/* connect -- how connections are made, refused and bounded in time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/conformance/promise.h"
#include "transport/base/clock.h"
#include "transport/handshake/hello.h"

/* connect_hello_is -- did these bytes arrive? A device may add zeros behind them. */
static bool connect_hello_is(const uint8_t *got, uint32_t length, const void *sent, uint32_t bytes)
{
    if (length < bytes || memcmp(got, sent, bytes) != 0)
        return false;
    for (uint32_t i = bytes; i < length; i++)
        if (got[i] != 0)
            return false;
    return true;
}

/* promise_hello -- the bytes of both hellos arrive unchanged, whatever their number. */
int promise_hello(struct suite *suite)
{
    struct party *a, *b;
    uint8_t asked[STEPGATE_HELLO_BYTES], answered[STEPGATE_HELLO_BYTES];
    const uint32_t sizes[] = {STEPGATE_HELLO_BYTES, 1, 0, 55};
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || party_listen(b) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct end *active, *passive;
        suite_fill(asked, sizeof(asked), i + 1);
        suite_fill(answered, sizeof(answered), i + 100);
        rc = end_connect(a, b->address, asked, sizes[i], &active);
        CHECK(suite, rc == 0, "endpoint_connect: %d, %s", rc, suite_error());
        UNTIL(suite, b->request_count > 0, 10000);
        CHECK(suite, b->request_count == 1, "no request came");
        CHECK(suite, connect_hello_is(b->requests[0].hello, b->requests[0].hello_bytes, asked, sizes[i]),
              "the request's %u bytes of hello are not the %u that were sent", b->requests[0].hello_bytes,
              sizes[i]);
        rc = end_accept(b, answered, sizes[i], &passive);
        CHECK(suite, rc == 0, "endpoint_accept: %d, %s", rc, suite_error());
        UNTIL(suite, active->connected > 0 && passive->connected > 0, 10000);
        CHECK(suite, active->connected == 1 && passive->connected == 1, "not connected");
        CHECK(suite, connect_hello_is(active->hello, active->hello_bytes, answered, sizes[i]),
              "the answer's %u bytes of hello are not the %u that were sent", active->hello_bytes, sizes[i]);
    }
    return 0;
}

/* promise_port_in_use -- a second listener is refused; port 0 takes a free one; a deleted listener's port is free again. */
int promise_port_in_use(struct suite *suite)
{
    struct party *a, *b;
    struct stepgate_listener *second = NULL, *third = NULL;
    char first[STEPGATE_ADDRESS_BYTES], other[STEPGATE_ADDRESS_BYTES];
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0)
        return -1;
    snprintf(other, sizeof(other), "%s", a->address);
    if (party_listen(a) < 0)
        return -1;
    snprintf(first, sizeof(first), "%s", a->address);
    const char *port = strrchr(first, ':');
    CHECK(suite, port != NULL && strcmp(port, ":0") != 0, "listener_address is %s", first);
    rc = suite->transport->listener_new(a->queue, first, &second);
    CHECK(suite, rc == -STEPGATE_EBUSY, "a second listener at %s was answered with %d", first, rc);
    CHECK(suite, strstr(suite_error(), port + 1) != NULL, "the text does not name the address: %s",
          suite_error());
    rc = suite->transport->listener_new(a->queue, other, &third);
    CHECK(suite, rc == 0, "a second listener at port 0: %d, %s", rc, suite_error());
    rc = suite->transport->listener_address(third, other, sizeof(other));
    suite->transport->listener_delete(&third);
    CHECK(suite, rc == 0 && third == NULL && strcmp(other, first) != 0, "port 0 gave %s twice", first);
    suite->transport->listener_delete(&a->listener);
    rc = suite->transport->listener_new(a->queue, first, &a->listener);
    CHECK(suite, rc == 0, "the port of a deleted listener is not free: %d, %s", rc, suite_error());
    rc = suite->transport->listener_new(a->queue, "no address", &second);
    CHECK(suite, rc == -STEPGATE_EADDRESS || rc == -STEPGATE_EINVAL, "\"no address\" was answered with %d",
          rc);
    return 0;
}

/* promise_connect_to_nobody -- the answer comes in bounded time and names the address. */
int promise_connect_to_nobody(struct suite *suite)
{
    struct party *a, *b;
    struct end *end = NULL;
    char address[STEPGATE_ADDRESS_BYTES];

    if (party_open(suite, 0, 1000, &a) < 0 || party_open(suite, 0, 1000, &b) < 0 || party_listen(b) < 0)
        return -1;
    snprintf(address, sizeof(address), "%s", b->address);
    suite->transport->listener_delete(&b->listener);
    uint64_t start = suite_now(suite);
    int rc = end_connect(a, address, "hello", 5, &end);
    if (rc == 0) {
        UNTIL(suite, end->disconnected > 0, 5000);
        CHECK(suite, end->disconnected == 1 && end->connected == 0, "no answer within 5 s");
        rc = end->status;
    } else {
        snprintf(end->text, sizeof(end->text), "%s", suite_error());
    }
    uint64_t waited = (suite_now(suite) - start) / CLOCK_MS;
    CHECK(suite, rc == -STEPGATE_EREFUSED || rc == -STEPGATE_EUNREACHABLE, "the status is %d (%s)", rc,
          stepgate_strerror(rc));
    CHECK(suite, waited < 2000, "the answer took %llu ms, connect_timeout_ms is 1000",
          (unsigned long long)waited);
    CHECK(suite, strstr(end->text, address) != NULL, "the text does not name %s: %s", address, end->text);
    rc = end_connect(a, "no address", NULL, 0, &end);
    CHECK(suite, rc == -STEPGATE_EADDRESS || rc == -STEPGATE_EINVAL, "\"no address\" was answered with %d",
          rc);
    return 0;
}

/* connect_refused -- connects, refuses with a hello, and waits until the active side knows. */
static int connect_refused(struct suite *suite, struct party *a, struct party *b, const void *asked,
                           const void *answer, uint32_t bytes, struct end **out)
{
    struct end *end = NULL;
    int rc = end_connect(a, b->address, asked, bytes, &end);

    CHECK(suite, rc == 0, "endpoint_connect: %d, %s", rc, suite_error());
    UNTIL(suite, b->request_count > 0, 10000);
    CHECK(suite, b->request_count == 1, "no request came");
    suite->transport->request_refuse(party_take_request(b), answer, bytes);
    UNTIL(suite, end->disconnected > 0, 10000);
    suite_settle(suite, 10);
    CHECK(suite, end->disconnected == 1 && end->connected == 0 && end->late == 0,
          "DISCONNECTED came %u times, CONNECTED %u", end->disconnected, end->connected);
    CHECK(suite, end->status == -STEPGATE_EREFUSED, "the status is %d, not EREFUSED", end->status);
    *out = end;
    return 0;
}

/* promise_refuse -- a refusal reaches the other side with its bytes, and posting answers EPEER. */
int promise_refuse(struct suite *suite)
{
    struct party *a, *b;
    uint8_t why[STEPGATE_HELLO_BYTES];
    struct end *end = NULL;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || party_listen(b) < 0)
        return -1;
    suite_fill(why, sizeof(why), 9);
    for (int i = 0; i < 3; i++) {
        if (connect_refused(suite, a, b, "hello-hello-hello-hello-hello-hello-hello-hello-hello-hello", why,
                            sizeof(why), &end) < 0)
            return -1;
        CHECK(suite, connect_hello_is(end->hello, end->hello_bytes, why, sizeof(why)),
              "the refuser's hello did not arrive: %u bytes", end->hello_bytes);
        int rc = suite->transport->endpoint_notify(end->endpoint, 1);
        CHECK(suite, rc == -STEPGATE_EPEER, "a post after the refusal was answered with %d", rc);
    }
    return 0;
}

/* promise_wrong_job -- a peer of another job or version is refused, and learns the reason. */
int promise_wrong_job(struct suite *suite)
{
    struct hello mine = {.version = HELLO_VERSION,
                         .role = STEPGATE_ROLE_PS,
                         .purpose = HELLO_CONTROL,
                         .job = hello_job_hash("one"),
                         .workers = 2,
                         .shards = 1};
    struct party *a, *b;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || party_listen(b) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        int wanted = i == 0 ? STEPGATE_EWRONGJOB : STEPGATE_EVERSION;
        struct hello theirs = mine, seen;
        uint8_t asked[STEPGATE_HELLO_BYTES], answer[STEPGATE_HELLO_BYTES];
        struct end *end = NULL;
        theirs.role = STEPGATE_ROLE_WORKER;
        if (i == 0)
            theirs.job = hello_job_hash("two");
        else
            theirs.version = HELLO_VERSION + 1;
        hello_pack(&theirs, asked);
        if (i == 1) { /* the version travels whatever the packer thinks of it */
            asked[4] = (uint8_t)(HELLO_VERSION + 1);
            asked[5] = 0;
        }
        int rc = end_connect(a, b->address, asked, sizeof(asked), &end);
        CHECK(suite, rc == 0, "endpoint_connect: %d, %s", rc, suite_error());
        UNTIL(suite, b->request_count > 0, 10000);
        CHECK(suite, b->request_count == 1, "no request came");
        rc = hello_unpack(b->requests[0].hello, b->requests[0].hello_bytes, &seen);
        if (rc == 0)
            rc = hello_check(&mine, &seen);
        CHECK(suite, rc == -wanted, "the check of the hello says %d, not %d", rc, -wanted);
        hello_refusal(mine.job, -rc, answer);
        suite->transport->request_refuse(party_take_request(b), answer, sizeof(answer));
        UNTIL(suite, end->disconnected > 0, 10000);
        CHECK(suite, end->disconnected == 1 && end->status == -STEPGATE_EREFUSED,
              "DISCONNECTED %u times, status %d", end->disconnected, end->status);
        rc = hello_reason(end->hello, end->hello_bytes);
        CHECK(suite, rc == wanted, "the reason that arrived is %d, not %d", rc, wanted);
    }
    return 0;
}

/* What the other thread gets and does. */
struct connect_thread {
    struct suite *suite;
    struct party *party;
    struct stepgate_request *request;
    struct stepgate_queue *queue;
    struct stepgate_endpoint *endpoint;
    _Atomic int state; /* 0: running, 1: done, -1: failed; pairs with the main thread's load */
};

/* connect_serve -- accepts on its own queue and echoes one message. Returns 1 when that is done, 0 when not yet. */
static int connect_serve(struct connect_thread *thread, bool *answered)
{
    const struct stepgate_transport_v1 *t = thread->suite->transport;
    struct stepgate_event event;
    uint8_t bytes[64];
    int rc = t->queue_poll(thread->queue, &event, 1);

    if (rc == 1 && event.kind == STEPGATE_EVENT_MESSAGE && event.length <= sizeof(bytes)) {
        uint32_t length = event.length;
        memcpy(bytes, event.data, length);
        do
            rc = t->endpoint_send(thread->endpoint, bytes, length);
        while (rc == -STEPGATE_EAGAIN);
        *answered = rc == 0;
        return rc < 0 ? rc : 0;
    }
    return rc == 1 && event.kind == STEPGATE_EVENT_DISCONNECTED && *answered;
}

/* connect_thread_main -- a thread with a queue of its own. */
static void *connect_thread_main(void *context)
{
    struct connect_thread *thread = context;
    const struct stepgate_transport_v1 *t = thread->suite->transport;
    uint64_t deadline = clock_after(clock_now(), 15000);
    bool answered = false;
    int rc = t->queue_new(thread->party->fabric, 4, &thread->queue);

    if (rc == 0)
        rc = t->endpoint_accept(thread->request, thread->queue, thread->party->domain, "there", 5, NULL,
                                &thread->endpoint);
    while (rc == 0 && clock_now() < deadline)
        rc = connect_serve(thread, &answered);
    t->endpoint_delete(&thread->endpoint);
    t->queue_delete(&thread->queue);
    atomic_store(&thread->state, rc == 1 ? 1 : -1);
    return NULL;
}

/* promise_accept_elsewhere -- a request may be handed to another thread and accepted there on another queue. */
int promise_accept_elsewhere(struct suite *suite)
{
    struct party *a, *b;
    struct end *end = NULL;
    struct connect_thread thread = {.suite = suite};
    pthread_t id;
    bool answered = false;
    int rc, served = 0;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || party_listen(b) < 0)
        return -1;
    rc = end_connect(a, b->address, "hello", 5, &end);
    CHECK(suite, rc == 0, "endpoint_connect: %d, %s", rc, suite_error());
    UNTIL(suite, b->request_count > 0, 10000);
    CHECK(suite, b->request_count == 1, "no request came");
    thread.party = b;
    thread.request = party_take_request(b);
    if (suite->simulated) { /* one thread, but another queue */
        rc = suite->transport->queue_new(b->fabric, 4, &thread.queue);
        CHECK(suite, rc == 0, "queue_new: %d", rc);
        rc = suite->transport->endpoint_accept(thread.request, thread.queue, b->domain, "there", 5, NULL,
                                               &thread.endpoint);
        CHECK(suite, rc == 0, "endpoint_accept: %d", rc);
    } else {
        CHECK(suite, pthread_create(&id, NULL, connect_thread_main, &thread) == 0, "no thread");
    }
    UNTIL(suite, end->connected > 0 || (suite->simulated && connect_serve(&thread, &answered) < 0), 10000);
    rc = -STEPGATE_EPEER;
    if (end->connected == 1)
        POST(suite, rc, suite->transport->endpoint_send(end->endpoint, "to the other queue", 19));
    UNTIL(suite,
          rc < 0 || end->arrival_count > 0 || (suite->simulated && connect_serve(&thread, &answered) < 0),
          10000);
    bool echoed = end->arrival_count == 1 && end->arrivals[0].length == 19 &&
                  memcmp(end->arrivals[0].data, "to the other queue", 19) == 0;
    end_delete(end);
    if (suite->simulated) {
        UNTIL(suite, (served = connect_serve(&thread, &answered)) != 0, 10000);
        suite->transport->endpoint_delete(&thread.endpoint);
        suite->transport->queue_delete(&thread.queue);
    } else {
        UNTIL(suite, (served = atomic_load(&thread.state)) != 0, 16000);
        pthread_join(id, NULL);
    }
    CHECK(suite, connect_hello_is(end->hello, end->hello_bytes, "there", 5),
          "CONNECTED %u times, hello of %u bytes", end->connected, end->hello_bytes);
    CHECK(suite, echoed, "the message did not come back from the other queue");
    CHECK(suite, served == 1, "the other thread failed");
    return 0;
}

/* promise_listener_delete -- what was not taken yet is refused; connections that were made live on. */
int promise_listener_delete(struct suite *suite)
{
    struct party *a, *b;
    struct link link;
    struct end *end = NULL;
    int rc;

    if (party_open(suite, 0, 1000, &a) < 0 || party_open(suite, 0, 1000, &b) < 0 ||
        link_open(a, b, &link) < 0)
        return -1;
    b->frozen = true;
    rc = end_connect(a, b->address, "hello", 5, &end);
    CHECK(suite, rc == 0, "endpoint_connect: %d, %s", rc, suite_error());
    suite_settle(suite, 20);
    suite->transport->listener_delete(&b->listener);
    b->frozen = false;
    UNTIL(suite, end->disconnected > 0, 5000);
    CHECK(suite, end->disconnected == 1 && end->connected == 0, "DISCONNECTED came %u times",
          end->disconnected);
    CHECK(suite, end->status == -STEPGATE_EREFUSED || end->status == -STEPGATE_EUNREACHABLE,
          "the status is %d", end->status);
    POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, 1));
    UNTIL(suite, link.end[1]->arrival_count > 0, 5000);
    CHECK(suite, rc == 0 && link.end[1]->arrival_count == 1, "a connection of the deleted listener is dead");
    return 0;
}
