/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/suite.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "transport/base/clock.h"

#define SUITE_NEAR_MS 50 /* longer than any delay of a world, shorter than any time-out */

/* suite_fail -- notes why a promise is broken. */
int suite_fail(struct suite *suite, const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    int used = snprintf(suite->why, sizeof(suite->why), "%s:%d: ", base != NULL ? base + 1 : file, line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(suite->why + used, sizeof(suite->why) - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

/* suite_left_out -- notes why a promise has no meaning here. */
int suite_left_out(struct suite *suite, const char *why)
{
    snprintf(suite->why, sizeof(suite->why), "%s", why);
    return SUITE_LEFT_OUT;
}

/* suite_error -- the text of the last error of this thread. */
const char *suite_error(void)
{
    static struct stepgate_error error; /* the suite reads it in one thread */

    error.size = sizeof(error);
    return stepgate_error_last(&error) < 0 ? "" : error.text;
}

/* suite_now -- real or virtual nanoseconds. */
uint64_t suite_now(const struct suite *suite)
{
    return suite->simulated ? world_now_ns(suite->world) : clock_now();
}

/* suite_clock -- starts a time limit. */
void suite_clock(struct suite *suite, int ms)
{
    suite->deadline = clock_after(suite_now(suite), ms);
}

/* suite_idle -- nothing has happened: lets virtual time pass, or gives the processor away. */
static void suite_idle(struct suite *suite)
{
    suite->idle++;
    if (suite->simulated) {
        if (world_next_time(suite->world) > suite->deadline || world_step(suite->world) == 0)
            world_advance(suite->world, CLOCK_MS);
    } else if (suite->idle < 200) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

/* end_note -- remembers what arrived at an end. */
static void end_note(struct end *end, const struct stepgate_event *event)
{
    end->late += end->disconnected > 0;
    switch (event->kind) {
    case STEPGATE_EVENT_CONNECTED:
    case STEPGATE_EVENT_DISCONNECTED:
        if (event->kind == STEPGATE_EVENT_CONNECTED) {
            end->connected++;
        } else {
            end->disconnected++;
            end->status = event->status;
            snprintf(end->text, sizeof(end->text), "%s", suite_error());
        }
        end->hello_bytes = event->length < sizeof(end->hello) ? event->length : (uint32_t)sizeof(end->hello);
        if (end->hello_bytes > 0)
            memcpy(end->hello, event->data, end->hello_bytes);
        break;
    case STEPGATE_EVENT_COMPLETION:
        if (end->completion_count == end->completion_room) {
            end->completion_room = end->completion_room * 2 + 64;
            end->completions = realloc(end->completions, end->completion_room * sizeof(*end->completions));
        }
        end->completions[end->completion_count++] = (struct completion){event->context, event->status};
        break;
    case STEPGATE_EVENT_NOTIFY:
    case STEPGATE_EVENT_MESSAGE: {
        if (end->arrival_count == end->arrival_room) {
            end->arrival_room = end->arrival_room * 2 + 64;
            end->arrivals = realloc(end->arrivals, end->arrival_room * sizeof(*end->arrivals));
        }
        struct arrival *arrival = &end->arrivals[end->arrival_count++];
        *arrival = (struct arrival){.kind = event->kind, .value = event->value, .length = event->length};
        if (event->kind == STEPGATE_EVENT_MESSAGE) {
            arrival->data = malloc(event->length);
            memcpy(arrival->data, event->data, event->length);
        } else if (end->on_notify != NULL) {
            end->on_notify(end, event->value);
        }
        break;
    }
    default: break;
    }
}

/* party_poll -- takes the events of a party; returns their number. */
static int party_poll(struct party *party)
{
    struct stepgate_event events[16];
    int n = party->suite->transport->queue_poll(party->queue, events, 16);

    for (int i = 0; i < n; i++) {
        struct end *end = events[i].endpoint != NULL ? events[i].endpoint->user : NULL;
        if (events[i].kind == STEPGATE_EVENT_REQUEST && party->request_count < SUITE_REQUESTS) {
            uint32_t at = party->request_count++;
            uint32_t bytes = events[i].length < 256 ? events[i].length : 256;
            party->requests[at].request = events[i].request;
            party->requests[at].hello_bytes = bytes;
            if (bytes > 0)
                memcpy(party->requests[at].hello, events[i].data, bytes);
        } else if (end != NULL && end->deleted) {
            party->suite->ghosts++;
        } else if (end != NULL) {
            end_note(end, &events[i]);
        }
    }
    return n;
}

/* suite_progress -- polls every party; false when the time limit has passed. */
bool suite_progress(struct suite *suite)
{
    int events = 0;

    for (uint32_t i = 0; i < suite->party_count; i++)
        if (!suite->parties[i]->frozen)
            events += party_poll(suite->parties[i]);
    if (events > 0)
        suite->idle = 0;
    else
        suite_idle(suite);
    /*
     * Virtual time stands still while events are taken, so that a world that never rests would never end: it moves, too, but not to a
     * time-out of somebody whose peer has just been heard.
     */
    if (suite->simulated && events > 0 &&
        world_next_time(suite->world) <= suite_now(suite) + SUITE_NEAR_MS * CLOCK_MS &&
        random_chance(&suite->random, 500))
        world_step(suite->world);
    return suite_now(suite) < suite->deadline;
}

/* suite_settle -- progress for a while. */
void suite_settle(struct suite *suite, int ms)
{
    UNTIL(suite, false, ms);
}

/* suite_begin -- makes a world for the simulated transport. */
int suite_begin(struct suite *suite)
{
    struct world_options options;

    suite->party_count = suite->node_count = suite->idle = suite->ghosts = 0;
    suite->why[0] = 0;
    random_seed(&suite->random, suite->seed);
    if (!suite->simulated)
        return 0;
    world_options_default(&options, suite->seed);
    options.mapped = suite->mapped;
    return world_new(&options, &suite->world);
}

/* suite_end -- deletes what is left; reports events that came for deleted endpoints. */
int suite_end(struct suite *suite)
{
    while (suite->party_count > 0)
        party_close(suite->parties[suite->party_count - 1]);
    world_delete(&suite->world);
    if (suite->ghosts > 0)
        return suite_fail(suite, __FILE__, __LINE__, "%u events of endpoints that were deleted before",
                          suite->ghosts);
    return 0;
}

/* suite_word -- eight bytes of the pattern. */
static uint64_t suite_word(uint64_t key, uint64_t position)
{
    uint64_t z = key * UINT64_C(0x9e3779b97f4a7c15) + position * UINT64_C(0xbf58476d1ce4e5b9) + 1;

    z = (z ^ (z >> 29)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 32);
}

/* suite_fill -- writes the pattern. */
void suite_fill(void *bytes, uint64_t length, uint64_t key)
{
    uint8_t *to = bytes;

    for (uint64_t at = 0; at < length; at += 8) {
        uint64_t word = suite_word(key, at);
        memcpy(to + at, &word, length - at < 8 ? (size_t)(length - at) : 8);
    }
}

/* suite_differs -- the first position where the pattern is not; -1: it is there. */
int64_t suite_differs(const void *bytes, uint64_t length, uint64_t key)
{
    const uint8_t *from = bytes;

    for (uint64_t at = 0; at < length; at += 8) {
        uint64_t word = suite_word(key, at);
        if (memcmp(from + at, &word, length - at < 8 ? (size_t)(length - at) : 8) != 0)
            return (int64_t)at;
    }
    return -1;
}

/* party_open -- a fabric, a domain and a queue. */
int party_open(struct suite *suite, uint32_t operations, int connect_timeout_ms, struct party **out)
{
    const struct stepgate_transport_v1 *t = suite->transport;
    struct party *party = calloc(1, sizeof(*party));
    struct stepgate_fabric_options options = {.size = sizeof(options),
                                              .address = suite->host,
                                              .operations = operations,
                                              .connect_timeout_ms = connect_timeout_ms};
    int rc;

    CHECK(suite, party != NULL && suite->party_count < SUITE_PARTIES, "too many parties");
    party->suite = suite;
    if (suite->simulated) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", suite->node_count++);
        CHECK(suite, world_node_new(suite->world, name, &party->node) == 0, "%s", suite_error());
        snprintf(party->address, sizeof(party->address), "%s:0", name);
        options.world = party->node;
        options.address = NULL;
    } else {
        const char *host = suite->host != NULL ? suite->host : "127.0.0.1";
        snprintf(party->address, sizeof(party->address), strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    }
    suite->parties[suite->party_count++] = party;
    rc = t->fabric_open(&options, &party->fabric);
    CHECK(suite, rc == 0, "fabric_open: %s", suite_error());
    rc = t->domain_new(party->fabric, &party->domain);
    CHECK(suite, rc == 0, "domain_new: %s", suite_error());
    rc = t->queue_new(party->fabric, SUITE_REQUESTS, &party->queue);
    CHECK(suite, rc == 0, "queue_new: %s", suite_error());
    *out = party;
    return 0;
}

/* party_listen -- makes the listener. */
int party_listen(struct party *party)
{
    const struct stepgate_transport_v1 *t = party->suite->transport;
    int rc = t->listener_new(party->queue, party->address, &party->listener);

    CHECK(party->suite, rc == 0, "listener_new(%s): %s", party->address, suite_error());
    rc = t->listener_address(party->listener, party->address, sizeof(party->address));
    CHECK(party->suite, rc == 0, "listener_address: %s", suite_error());
    return 0;
}

/* end_free -- forgets an end. */
static void end_free(struct end *end)
{
    for (uint32_t i = 0; i < end->arrival_count; i++)
        free(end->arrivals[i].data);
    free(end->arrivals);
    free(end->completions);
    free(end);
}

/* party_close -- deletes a party with everything it still has. */
void party_close(struct party *party)
{
    struct suite *suite = party->suite;
    const struct stepgate_transport_v1 *t = suite->transport;
    uint32_t at = 0;

    for (struct end *end = party->ends; end != NULL; end = end->next)
        end_delete(end);
    for (uint32_t i = 0; i < party->request_count; i++)
        t->request_refuse(party->requests[i].request, NULL, 0);
    while (party->region_count > 0)
        t->region_delete(&party->regions[--party->region_count]);
    t->listener_delete(&party->listener);
    t->queue_delete(&party->queue);
    t->domain_delete(&party->other);
    t->domain_delete(&party->domain);
    t->fabric_delete(&party->fabric);
    while (party->ends != NULL) {
        struct end *end = party->ends;
        party->ends = end->next;
        end_free(end);
    }
    while (at < suite->party_count && suite->parties[at] != party)
        at++;
    for (suite->party_count--; at < suite->party_count; at++)
        suite->parties[at] = suite->parties[at + 1];
    free(party);
}

/* party_region_of -- a region in a domain of one's choice, registered with the party. */
int party_region_of(struct party *party, struct stepgate_domain *domain, unsigned access, void *address,
                    uint64_t length, struct stepgate_region **out)
{
    struct stepgate_region_options options = {
        .size = sizeof(options), .access = access, .address = address, .length = length};

    CHECK(party->suite, party->region_count < SUITE_REGIONS, "too many regions");
    int rc = party->suite->transport->region_new(domain, &options, out);
    CHECK(party->suite, rc == 0, "region_new of %llu bytes: %s", (unsigned long long)length, suite_error());
    party->regions[party->region_count++] = *out;
    return 0;
}

/* party_region -- a region that the transport allocates. */
int party_region(struct party *party, unsigned access, uint64_t length, struct stepgate_region **out)
{
    return party_region_of(party, party->domain, access, NULL, length, out);
}

/* party_region_delete -- deletes a region before its party. */
void party_region_delete(struct party *party, struct stepgate_region *region)
{
    for (uint32_t i = 0; i < party->region_count; i++) {
        if (party->regions[i] == region) {
            party->suite->transport->region_delete(&party->regions[i]);
            party->regions[i] = party->regions[--party->region_count];
            return;
        }
    }
}

/* party_other_domain -- makes the second domain. */
int party_other_domain(struct party *party)
{
    int rc = party->suite->transport->domain_new(party->fabric, &party->other);

    CHECK(party->suite, rc == 0, "domain_new: %s", suite_error());
    return 0;
}

/* end_new -- an end of a party. */
static struct end *end_new(struct party *party)
{
    struct end *end = calloc(1, sizeof(*end));

    end->party = party;
    end->next = party->ends;
    party->ends = end;
    return end;
}

/* end_connect -- starts to connect. */
int end_connect(struct party *party, const char *address, const void *hello, uint32_t hello_bytes,
                struct end **out)
{
    struct end *end = end_new(party);

    *out = end;
    return party->suite->transport->endpoint_connect(party->queue, party->domain, address, hello, hello_bytes,
                                                     end, &end->endpoint);
}

/* party_take_request -- takes the oldest request away. */
struct stepgate_request *party_take_request(struct party *party)
{
    struct stepgate_request *request = party->requests[0].request;

    party->request_count--;
    memmove(party->requests, party->requests + 1, party->request_count * sizeof(party->requests[0]));
    return request;
}

/* end_accept -- accepts the oldest request. */
int end_accept(struct party *party, const void *hello, uint32_t hello_bytes, struct end **out)
{
    struct end *end = end_new(party);

    *out = end;
    return party->suite->transport->endpoint_accept(party_take_request(party), party->queue, party->domain,
                                                    hello, hello_bytes, end, &end->endpoint);
}

/* end_delete -- deletes the endpoint, keeps the end. */
void end_delete(struct end *end)
{
    const struct stepgate_transport_v1 *t = end->party->suite->transport;

    while (end->remote_count > 0)
        t->remote_delete(&end->remotes[--end->remote_count]);
    if (end->endpoint != NULL)
        t->endpoint_delete(&end->endpoint);
    end->deleted = true;
}

/* end_count -- arrivals of a kind. */
uint32_t end_count(const struct end *end, int kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < end->arrival_count; i++)
        count += end->arrivals[i].kind == kind;
    return count;
}

/* end_completed -- completions of a context. */
uint32_t end_completed(const struct end *end, uint64_t context)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < end->completion_count; i++)
        count += end->completions[i].context == context;
    return count;
}

/* end_can -- the capabilities of an endpoint; all zero when it does not tell. */
struct stepgate_capabilities end_can(const struct end *end)
{
    struct stepgate_capabilities capabilities = {.size = sizeof(capabilities)};

    end->party->suite->transport->endpoint_capabilities(end->endpoint, &capabilities);
    return capabilities;
}

/* link_open -- connects a to b. */
int link_open(struct party *a, struct party *b, struct link *out)
{
    struct suite *suite = a->suite;

    memset(out, 0, sizeof(*out));
    if (b->listener == NULL && party_listen(b) < 0)
        return -1;
    int rc = end_connect(a, b->address, "hello", 5, &out->end[0]);
    CHECK(suite, rc == 0, "endpoint_connect(%s): %s", b->address, suite_error());
    UNTIL(suite, b->request_count > 0 || out->end[0]->disconnected > 0, 10000);
    CHECK(suite, b->request_count > 0, "no connection request came: status %d, %s", out->end[0]->status,
          out->end[0]->text);
    rc = end_accept(b, "welcome", 7, &out->end[1]);
    CHECK(suite, rc == 0, "endpoint_accept: %s", suite_error());
    UNTIL(suite, out->end[0]->connected > 0 && out->end[1]->connected > 0, 10000);
    CHECK(suite, out->end[0]->connected == 1 && out->end[1]->connected == 1,
          "not connected: CONNECTED came %u and %u times, DISCONNECTED %u and %u", out->end[0]->connected,
          out->end[1]->connected, out->end[0]->disconnected, out->end[1]->disconnected);
    return 0;
}

/* link_grant -- exports a region from one end and imports it at the other. */
int link_grant(struct end *from, struct stepgate_region *region, unsigned access, struct end *to,
               struct stepgate_remote **out)
{
    struct suite *suite = from->party->suite;
    struct stepgate_descriptor descriptor;
    int rc;

    CHECK(suite, to->remote_count < SUITE_REMOTES, "too many remotes");
    POST(suite, rc, suite->transport->endpoint_export(from->endpoint, region, access, &descriptor));
    CHECK(suite, rc == 0, "endpoint_export: %d, %s", rc, suite_error());
    POST(suite, rc, suite->transport->endpoint_import(to->endpoint, &descriptor, out));
    CHECK(suite, rc == 0, "endpoint_import: %d, %s", rc, suite_error());
    to->remotes[to->remote_count++] = *out;
    CHECK(suite, (*out)->length == region->length && (*out)->access == access,
          "the remote has %llu bytes and access %u, granted were %llu and %u",
          (unsigned long long)(*out)->length, (*out)->access, (unsigned long long)region->length, access);
    return 0;
}
