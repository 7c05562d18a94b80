/* SPDX-License-Identifier: BSD-3-Clause */
/* flow -- many endpoints, full queues, and which operations complete. */
#include <poll.h>
#include <stdlib.h>

#include "tests/conformance/promise.h"

#define FLOW_MOST 65536

/* promise_many_endpoints -- events of many endpoints come to the right one. */
int promise_many_endpoints(struct suite *suite)
{
    const uint32_t count = suite->soft ? 16 : suite->simulated && suite->quick ? 16 : 80;
    const uint32_t bytes = 512;
    struct party *a, *b;
    struct link *links;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc = 0;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 ||
        party_region(a, 0, count * bytes, &source) < 0 ||
        party_region(b, STEPGATE_ACCESS_WRITE, count * bytes, &target) < 0)
        return -1;
    links = calloc(count, sizeof(*links));
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = link_open(a, b, &links[i]);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = link_grant(links[i].end[1], target, STEPGATE_ACCESS_WRITE, links[i].end[0], &remote);
    suite_fill(source->address, count * bytes, 3);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct end *end = links[i].end[0];
        POST(suite, rc,
             suite->transport->endpoint_write(end->endpoint, source, i * bytes, NULL, end->remotes[0],
                                              i * bytes, bytes, STEPGATE_POST_COMPLETE, i));
        if (rc == 0)
            POST(suite, rc, suite->transport->endpoint_notify(end->endpoint, i));
        if (rc < 0)
            suite_fail(suite, __FILE__, __LINE__, "post on endpoint %u: %d, %s", i, rc, suite_error());
    }
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        struct end *from = links[i].end[0], *to = links[i].end[1];
        UNTIL(suite, to->arrival_count > 0 && from->completion_count > 0, 10000);
        if (to->arrival_count != 1 || to->arrivals[0].value != i || from->completion_count != 1 ||
            from->completions[0].context != i)
            rc = suite_fail(suite, __FILE__, __LINE__,
                            "endpoint %u of %u: %u notifies and %u completions, one each was expected", i,
                            count, to->arrival_count, from->completion_count);
    }
    free(links);
    if (rc == 0)
        CHECK(suite, suite_differs(target->address, count * bytes, 3) < 0,
              "the bytes of some endpoint are wrong");
    return rc;
}

/* promise_back_pressure -- while the peer does not poll, posts are answered EAGAIN in the end; nothing is lost. */
int promise_back_pressure(struct suite *suite)
{
    struct party *a, *b;
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    uint32_t posted = 0, refusals = 0, writes = 0;
    int rc = 0;

    if (party_open(suite, 16, 0, &a) < 0 || party_open(suite, 16, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_region(a, 0, 4096, &source) < 0 || party_region(b, STEPGATE_ACCESS_WRITE, 4096, &target) < 0 ||
        link_grant(link.end[1], target, STEPGATE_ACCESS_WRITE, link.end[0], &remote) < 0)
        return -1;
    b->frozen = true;
    while (posted < FLOW_MOST && refusals < 20) {
        rc = posted % 2 == 0
                 ? suite->transport->endpoint_notify(link.end[0]->endpoint, posted)
                 : suite->transport->endpoint_send(link.end[0]->endpoint, &posted, sizeof(posted));
        CHECK(suite, rc == 0 || rc == -STEPGATE_EAGAIN, "post: %d, %s", rc, suite_error());
        posted += rc == 0;
        refusals += rc != 0;
        if (rc != 0)
            suite_settle(suite, 1);
    }
    CHECK(suite, refusals > 0, "%u posts were taken although the peer does not poll", posted);
    CHECK(suite, posted > 0, "no post was taken");
    /* Writes need nothing of the peer's program: all of them complete. */
    for (uint32_t i = 0; i < 200; i++) {
        POST(suite, rc,
             suite->transport->endpoint_write(link.end[0]->endpoint, source, 0, NULL, remote, 0, 64,
                                              STEPGATE_POST_COMPLETE, i));
        if (rc == -STEPGATE_EAGAIN)
            break; /* a transport may let writes wait behind the notifies */
        CHECK(suite, rc == 0, "endpoint_write: %d, %s", rc, suite_error());
        writes++;
    }
    b->frozen = false;
    UNTIL(suite, link.end[1]->arrival_count >= posted && link.end[0]->completion_count >= writes, 10000);
    CHECK(suite, link.end[0]->completion_count == writes, "%u of %u writes completed",
          link.end[0]->completion_count, writes);
    CHECK(suite, link.end[1]->arrival_count == posted, "%u were posted, %u arrived", posted,
          link.end[1]->arrival_count);
    for (uint32_t i = 0; i < posted; i++) {
        const struct arrival *arrival = &link.end[1]->arrivals[i];
        uint32_t value = arrival->value;
        if (arrival->kind == STEPGATE_EVENT_MESSAGE)
            memcpy(&value, arrival->data, sizeof(value));
        CHECK(suite, value == i, "arrival %u is number %u", i, value);
    }
    POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, 1));
    CHECK(suite, rc == 0, "the connection did not recover: %d", rc);
    return 0;
}

/* promise_held_back -- an operation that said more would follow is not lost when nothing does: the next poll is enough, and full queues are none. */
int promise_held_back(struct suite *suite)
{
    struct party *a, *b;
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    uint32_t posted = 0;
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_region(a, 0, 4096, &source) < 0 ||
        party_region(b, STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, 4096, &target) < 0 ||
        link_grant(link.end[1], target, STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, link.end[0], &remote) <
            0)
        return -1;
    const struct stepgate_transport_v1 *t = suite->transport;
    struct stepgate_endpoint *endpoint = link.end[0]->endpoint;
    suite_fill(source->address, 4096, 5);
    for (uint32_t i = 0; i < 3; i++) {
        POST(suite, rc,
             i < 2 ? t->endpoint_write(endpoint, source, 0, NULL, remote, 0, i == 0 ? 4096 : 0,
                                       STEPGATE_POST_COMPLETE | STEPGATE_POST_MORE, i)
                   : t->endpoint_read(endpoint, source, 0, remote, 0, 4096,
                                      STEPGATE_POST_COMPLETE | STEPGATE_POST_MORE, i));
        CHECK(suite, rc == 0, "post %u: %d, %s", i, rc, suite_error());
        UNTIL(suite, link.end[0]->completion_count > i, 10000);
        CHECK(suite, link.end[0]->completion_count == i + 1 && link.end[0]->completions[i].context == i,
              "operation %u was held back for ever", i);
    }
    CHECK(suite, suite_differs(target->address, 4096, 5) < 0, "the bytes did not arrive");
    for (rc = 0; rc == 0 && posted < FLOW_MOST; posted += rc == 0)
        rc = t->endpoint_write(endpoint, source, 0, NULL, remote, 0, 64,
                               STEPGATE_POST_COMPLETE | STEPGATE_POST_MORE, 3 + posted);
    CHECK(suite, rc == 0 || rc == -STEPGATE_EAGAIN, "post: %d, %s", rc, suite_error());
    UNTIL(suite, link.end[0]->completion_count >= 3 + posted, 10000);
    CHECK(suite, link.end[0]->completion_count == 3 + posted, "%u of %u writes completed",
          link.end[0]->completion_count - 3, posted);
    return 0;
}

/* promise_selective_completion -- flagged operations complete, exactly once each and in success; others never. */
int promise_selective_completion(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 200 : 2000;
    struct party *a, *b;
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    uint32_t flagged = 0;
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_region(a, 0, 8192, &source) < 0 ||
        party_region(b, STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, 4096, &target) < 0 ||
        link_grant(link.end[1], target, STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE, link.end[0], &remote) <
            0)
        return -1;
    uint8_t *seen = calloc(rounds, 1);
    bool *wanted = calloc(rounds, sizeof(*wanted));
    rc = 0;
    for (uint32_t i = 0; i < rounds && rc == 0; i++) {
        wanted[i] = random_chance(&suite->random, 300);
        unsigned flags = wanted[i] ? STEPGATE_POST_COMPLETE : 0;
        flagged += wanted[i];
        if (i % 3 == 0)
            POST(suite, rc,
                 suite->transport->endpoint_read(link.end[0]->endpoint, source, 4096, remote, 0, i % 4096,
                                                 flags, i));
        else
            POST(suite, rc,
                 suite->transport->endpoint_write(link.end[0]->endpoint, source, 0, NULL, remote, 0, i % 4096,
                                                  flags, i));
        if (i % 16 == 0 && rc == 0)
            POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, i));
    }
    if (rc < 0)
        suite_fail(suite, __FILE__, __LINE__, "post: %d, %s", rc, suite_error());
    if (rc == 0) {
        UNTIL(suite, link.end[0]->completion_count >= flagged, 10000);
        suite_settle(suite, 20);
    }
    for (uint32_t i = 0; i < link.end[0]->completion_count && rc == 0; i++) {
        const struct completion *completion = &link.end[0]->completions[i];
        if (completion->status != 0 || completion->context >= rounds || !wanted[completion->context] ||
            seen[completion->context]++ > 0)
            rc = suite_fail(suite, __FILE__, __LINE__,
                            "completion of operation %llu with status %d: not flagged, or twice",
                            (unsigned long long)completion->context, completion->status);
    }
    if (rc == 0 && link.end[0]->completion_count != flagged)
        rc = suite_fail(suite, __FILE__, __LINE__, "%u of %u flagged operations completed",
                        link.end[0]->completion_count, flagged);
    free(seen);
    free(wanted);
    return rc;
}

/* flow_readable -- is the queue's descriptor readable within ms? The other party makes progress meanwhile. */
static bool flow_readable(struct suite *suite, struct party *party, int ms)
{
    struct pollfd fd = {.fd = suite->transport->queue_fd(party->queue), .events = POLLIN};

    suite_clock(suite, ms);
    do {
        if (poll(&fd, 1, 1) > 0)
            return true;
    } while (suite_progress(suite));
    return false;
}

/* promise_wake_up -- an armed queue's descriptor turns readable at the next event, and never before. */
int promise_wake_up(struct suite *suite)
{
    const uint32_t rounds = suite->quick ? 50 : 200;
    struct party *a, *b;
    struct link link;
    int rc;

    if (suite->simulated)
        return suite_left_out(suite, "the simulated transport never sleeps");
    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0)
        return -1;
    CHECK(suite, suite->transport->queue_fd(b->queue) >= 0, "queue_fd is %d",
          suite->transport->queue_fd(b->queue));
    suite_settle(suite, 20);
    for (uint32_t i = 0; i < rounds; i++) {
        b->frozen = true; /* the suite leaves this queue alone: it sleeps */
        uint32_t before = link.end[1]->arrival_count;
        if (i % 2 == 0) {
            int tries = 0;
            while ((rc = suite->transport->queue_arm(b->queue)) == 1 && tries++ < 1000) {
                struct stepgate_event event;
                rc = suite->transport->queue_poll(b->queue, &event, 1);
                CHECK(suite, rc == 0, "an event of kind %d that nobody caused", event.kind);
            }
            CHECK(suite, rc == 0, "queue_arm: %d", rc);
            if (i % 20 == 0)
                CHECK(suite, !flow_readable(suite, b, 10),
                      "the descriptor is readable although nothing happened");
        }
        rc = -STEPGATE_EAGAIN;
        if (i % 4 < 2)
            POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, i));
        else
            POST(suite, rc, suite->transport->endpoint_send(link.end[0]->endpoint, &i, sizeof(i)));
        CHECK(suite, rc == 0, "post: %d", rc);
        if (i % 2 == 0) {
            CHECK(suite, flow_readable(suite, b, 5000), "round %u: the armed queue did not wake", i);
        } else { /* armed after the event: it must be seen at once, or wake */
            suite_settle(suite, 1);
            rc = suite->transport->queue_arm(b->queue);
            CHECK(suite, rc == 1 || (rc == 0 && flow_readable(suite, b, 5000)),
                  "round %u: an event before arming was missed", i);
        }
        b->frozen = false;
        UNTIL(suite, link.end[1]->arrival_count > before, 5000);
        CHECK(suite, link.end[1]->arrival_count == before + 1, "round %u: woken, but no event came", i);
    }
    b->frozen = true;
    while (suite->transport->queue_arm(b->queue) == 1) {
        struct stepgate_event event;
        CHECK(suite, suite->transport->queue_poll(b->queue, &event, 1) == 0,
              "an event of kind %d that nobody caused", event.kind);
    }
    end_delete(link.end[0]);
    CHECK(suite, flow_readable(suite, b, 5000), "the end of a connection did not wake an armed queue");
    b->frozen = false;
    UNTIL(suite, link.end[1]->disconnected > 0, 5000);
    CHECK(suite, link.end[1]->disconnected == 1, "no DISCONNECTED came");
    return 0;
}
