/* SPDX-License-Identifier: BSD-3-Clause */
/* loss -- a peer that is gone, killed or frozen: what is in flight ends, once, and nothing waits for ever. */
#include <signal.h>

#include "tests/conformance/promise.h"
#include "transport/base/clock.h"

#define LOSS_ALL (STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)
#define LOSS_BYTES (1 << 20)
#define LOSS_DELETE_MS 150 /* 100 are promised; the rest is for a busy test machine */

/* loss_post -- fills the queues: flagged writes and notifies until EAGAIN, or 64 of them. Returns the number of flagged ones. */
static uint32_t loss_post(struct suite *suite, struct end *end, struct stepgate_region *source,
                          struct stepgate_remote *remote, uint64_t length)
{
    uint32_t posted = 0;

    for (uint32_t i = 0; i < 64; i++) {
        if (suite->transport->endpoint_write(end->endpoint, source, 0, NULL, remote, 0, length,
                                             STEPGATE_POST_COMPLETE, i) == 0)
            posted++;
        if (i % 4 == 0)
            suite->transport->endpoint_notify(end->endpoint, i);
    }
    return posted;
}

/* loss_seen -- waits for DISCONNECTED, then checks what is promised of it. */
static int loss_seen(struct suite *suite, struct end *end, struct stepgate_region *source,
                     struct stepgate_remote *remote, uint32_t posted, int ms)
{
    const struct stepgate_transport_v1 *t = suite->transport;

    UNTIL(suite, end->disconnected > 0, ms);
    CHECK(suite, end->disconnected == 1, "no DISCONNECTED within %d ms", ms);
    CHECK(suite, end->status < 0, "DISCONNECTED has the status %d", end->status);
    suite_settle(suite, 50);
    CHECK(suite, end->disconnected == 1 && end->late == 0,
          "DISCONNECTED came %u times, and %u events after it", end->disconnected, end->late);
    CHECK(suite, end->completion_count == posted, "%u operations were flagged, %u completed", posted,
          end->completion_count);
    for (uint32_t i = 1; i < end->completion_count; i++)
        CHECK(suite, end->completions[i].status < 0 || end->completions[i - 1].status == 0,
              "a success after a failure");
    int rc = t->endpoint_write(end->endpoint, source, 0, NULL, remote, 0, 8, STEPGATE_POST_COMPLETE, 0);
    CHECK(suite, rc == -STEPGATE_EPEER, "a write afterwards was answered with %d", rc);
    rc = t->endpoint_read(end->endpoint, source, 0, remote, 0, 8, STEPGATE_POST_COMPLETE, 0);
    CHECK(suite, rc == -STEPGATE_EPEER, "a read afterwards was answered with %d", rc);
    rc = t->endpoint_notify(end->endpoint, 0);
    CHECK(suite, rc == -STEPGATE_EPEER, "a notify afterwards was answered with %d", rc);
    rc = t->endpoint_send(end->endpoint, "x", 1);
    CHECK(suite, rc == -STEPGATE_EPEER, "a message afterwards was answered with %d", rc);
    suite_settle(suite, 20);
    CHECK(suite, end->late == 0, "an event after DISCONNECTED");
    return 0;
}

/* loss_open -- two connected parties with a grant each way of use. */
static int loss_open(struct suite *suite, struct party *party[2], struct link *link,
                     struct stepgate_region **source, struct stepgate_region **target,
                     struct stepgate_remote **remote)
{
    if (party_open(suite, 0, 0, &party[0]) < 0 || party_open(suite, 0, 0, &party[1]) < 0 ||
        link_open(party[0], party[1], link) < 0 || party_region(party[0], 0, LOSS_BYTES, source) < 0 ||
        party_region(party[1], LOSS_ALL, LOSS_BYTES, target) < 0)
        return -1;
    return link_grant(link->end[1], *target, LOSS_ALL, link->end[0], remote);
}

/* loss_trouble -- what the device has counted is a text that fits, of a connection that stands as of one that is broken. */
static int loss_trouble(struct suite *suite, const struct end *end)
{
    char text[400];

    for (size_t bytes = 1; bytes < sizeof(text); bytes = 2 * bytes + 1) {
        memset(text, 'x', sizeof(text));
        suite->transport->endpoint_trouble(end->endpoint, text, bytes);
        CHECK(suite, memchr(text, 0, bytes) != NULL, "endpoint_trouble leaves %zu bytes without an end",
              bytes);
        CHECK(suite, text[bytes] == 'x', "endpoint_trouble writes behind %zu bytes", bytes);
    }
    return 0;
}

/* promise_peer_gone -- the peer deletes its endpoint while work is in flight. */
int promise_peer_gone(struct suite *suite)
{
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;

    if (loss_open(suite, party, &link, &source, &target, &remote) < 0)
        return -1;
    uint32_t posted = loss_post(suite, link.end[0], source, remote, 4096);
    int rc = loss_trouble(suite, link.end[0]);
    end_delete(link.end[1]);
    if (rc == 0)
        rc = loss_seen(suite, link.end[0], source, remote, posted, 5000);
    return rc == 0 ? loss_trouble(suite, link.end[0]) : rc;
}

/* promise_peer_killed -- a process killed with -9 is noticed in less than a second. */
int promise_peer_killed(struct suite *suite)
{
    struct party *party[2];
    struct link link;
    struct peer peer = {0};
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc;

    if (suite->simulated) {
        if (loss_open(suite, party, &link, &source, &target, &remote) < 0)
            return -1;
        uint32_t posted = loss_post(suite, link.end[0], source, remote, 4096);
        world_kill(party[1]->node);
        return loss_seen(suite, link.end[0], source, remote, posted, 1000);
    }
    for (int busy = 0; busy < 2; busy++) {
        if (party_open(suite, 0, 0, &party[0]) < 0 || party_region(party[0], 0, LOSS_BYTES, &source) < 0)
            return -1;
        rc = peer_start(suite, party[0], &peer);
        if (rc == 0) {
            uint32_t posted = busy ? loss_post(suite, peer.end, source, peer.remote, 65536) : 0;
            uint64_t start = clock_now();
            kill(peer.pid, SIGKILL);
            rc = loss_seen(suite, peer.end, source, peer.remote, posted, 1000);
            if (rc == 0 && clock_now() - start > 2000 * CLOCK_MS)
                rc = suite_fail(suite, __FILE__, __LINE__, "it took %llu ms",
                                (unsigned long long)((clock_now() - start) / CLOCK_MS));
        }
        peer_stop(&peer);
        party_close(party[0]);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* promise_delete_in_flight -- deleting an endpoint takes no time, leaves no event, and the peer writes nothing through it. */
int promise_delete_in_flight(struct suite *suite)
{
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;

    for (int side = 0; side < 2; side++) {
        if (loss_open(suite, party, &link, &source, &target, &remote) < 0)
            return -1;
        bool maps = (end_can(link.end[0]).can & STEPGATE_CAN_MAP) != 0;
        memset(source->address, 0x77, LOSS_BYTES);
        party[1]->frozen = true; /* its program does not poll */
        loss_post(suite, link.end[0], source, remote, LOSS_BYTES / 4);
        uint64_t start = clock_now();
        end_delete(link.end[side]);
        uint64_t took = (clock_now() - start) / CLOCK_MS;
        CHECK(suite, took <= LOSS_DELETE_MS, "endpoint_delete took %llu ms", (unsigned long long)took);
        if (side == 1) {
            memset(target->address, 0x11, LOSS_BYTES);
            party[1]->frozen = false;
            suite_settle(suite, 100);
            for (uint32_t i = 0; i < LOSS_BYTES && !maps; i++)
                CHECK(suite, ((uint8_t *)target->address)[i] == 0x11,
                      "byte %u was written after endpoint_delete", i);
            UNTIL(suite, link.end[0]->disconnected > 0, 5000);
            CHECK(suite, link.end[0]->disconnected == 1, "the peer does not notice");
        } else {
            party[1]->frozen = false;
            UNTIL(suite, link.end[1]->disconnected > 0, 5000);
            CHECK(suite, link.end[1]->disconnected == 1, "the peer does not notice");
        }
        CHECK(suite, suite->ghosts == 0, "an event of the deleted endpoint");
        party_close(party[1]);
        party_close(party[0]);
    }
    return 0;
}

/* promise_delete_with_frozen_peer -- neither does a peer that stands still hold anybody up. */
int promise_delete_with_frozen_peer(struct suite *suite)
{
    struct party *party[2];
    struct link link;
    struct peer peer = {0};
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc = 0;

    if (suite->simulated) {
        if (loss_open(suite, party, &link, &source, &target, &remote) < 0)
            return -1;
        world_freeze(party[1]->node);
        loss_post(suite, link.end[0], source, remote, 4096);
        suite_settle(suite, 5);
        end_delete(link.end[0]);
        suite_settle(suite, 5);
        world_thaw(party[1]->node);
        UNTIL(suite, link.end[1]->disconnected > 0, 5000);
        CHECK(suite, link.end[1]->disconnected == 1, "the thawed peer does not notice");
        return 0;
    }
    if (party_open(suite, 0, 0, &party[0]) < 0 || party_region(party[0], 0, LOSS_BYTES, &source) < 0)
        return -1;
    rc = peer_start(suite, party[0], &peer);
    if (rc == 0) {
        kill(peer.pid, SIGSTOP);
        for (int i = 0; i < 20; i++) {
            loss_post(suite, peer.end, source, peer.remote, 4096);
            suite_settle(suite, 2);
        }
        uint64_t start = clock_now();
        end_delete(peer.end);
        uint64_t took = (clock_now() - start) / CLOCK_MS;
        if (took > LOSS_DELETE_MS)
            rc = suite_fail(suite, __FILE__, __LINE__, "endpoint_delete took %llu ms",
                            (unsigned long long)took);
    }
    peer_stop(&peer);
    suite_settle(suite, 20);
    return rc;
}
