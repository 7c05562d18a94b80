/* SPDX-License-Identifier: BSD-3-Clause */
/* order -- when a notify or message arrives, every write posted before it is visible, and they arrive in the order of their posting. */
#include <stdlib.h>

#include "tests/conformance/promise.h"

#define ORDER_SLOTS 8
#define ORDER_SLOT_BYTES 16384

/* What the receiver of the notifies checks, at the moment of arrival. */
struct order_check {
    const struct stepgate_region *region;
    struct {
        uint32_t from, length; /* of up to four writes that fill the slot's bytes [from, from + length) */
    } expected[ORDER_SLOTS];
    uint32_t seen, wrong, next;
};

/* order_arrived -- one notify: its slot must hold all the bytes. */
static void order_arrived(struct end *end, uint32_t value)
{
    struct order_check *check = end->context;
    uint32_t slot = value % ORDER_SLOTS;
    const uint8_t *bytes = (const uint8_t *)check->region->address + slot * ORDER_SLOT_BYTES;

    check->wrong += value != check->next++;
    check->wrong +=
        suite_differs(bytes + check->expected[slot].from, check->expected[slot].length, value) >= 0;
    check->seen++;
}

/* order_write -- one slot's bytes, in one to four writes, some of them inline, empty, or held back. */
static int order_write(struct suite *suite, struct end *end, struct stepgate_region *local,
                       struct stepgate_remote *remote, uint64_t at, uint32_t length, uint32_t inline_bytes)
{
    uint32_t done = 0, left = 1 + (uint32_t)random_below(&suite->random, 4);
    int rc;

    while (left-- > 0) {
        uint32_t part = left == 0 ? length - done : (uint32_t)random_below(&suite->random, length - done + 1);
        const uint8_t *bytes = (const uint8_t *)local->address + at + done;
        unsigned more = random_chance(&suite->random, 500) ? STEPGATE_POST_MORE : 0;
        if (part <= inline_bytes && random_chance(&suite->random, 500))
            POST(suite, rc,
                 suite->transport->endpoint_write(end->endpoint, NULL, 0, bytes, remote, at + done, part,
                                                  STEPGATE_WRITE_INLINE | more, 0));
        else
            POST(suite, rc,
                 suite->transport->endpoint_write(end->endpoint, local, at + done, NULL, remote, at + done,
                                                  part, more, 0));
        CHECK(suite, rc == 0, "endpoint_write: %d, %s", rc, suite_error());
        done += part;
    }
    return 0;
}

/* promise_notify_after_write -- thousands of random sizes, checked when the notify arrives. */
int promise_notify_after_write(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 200 : suite->quick || suite->soft ? 1000 : 10000;
    struct order_check check = {0};
    struct party *a, *b;
    struct link link;
    struct stepgate_region *source, *target;
    struct stepgate_remote *remote;
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_region(a, 0, ORDER_SLOTS * ORDER_SLOT_BYTES, &source) < 0 ||
        party_region(b, STEPGATE_ACCESS_WRITE, ORDER_SLOTS * ORDER_SLOT_BYTES, &target) < 0 ||
        link_grant(link.end[1], target, STEPGATE_ACCESS_WRITE, link.end[0], &remote) < 0)
        return -1;
    check.region = target;
    link.end[1]->on_notify = order_arrived;
    link.end[1]->context = &check;
    uint32_t inline_bytes = end_can(link.end[0]).inline_bytes;
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t slot = i % ORDER_SLOTS;
        UNTIL(suite, check.seen + ORDER_SLOTS > i, 10000); /* the slot was checked */
        CHECK(suite, check.seen + ORDER_SLOTS > i, "notify %u of %u never came", check.seen, i);
        uint32_t from = (uint32_t)random_below(&suite->random, ORDER_SLOT_BYTES);
        uint32_t length = (uint32_t)random_below(&suite->random, ORDER_SLOT_BYTES - from + 1);
        if (random_chance(&suite->random, 500))
            length %= 256;
        check.expected[slot].from = from;
        check.expected[slot].length = length;
        uint64_t at = slot * ORDER_SLOT_BYTES + from;
        suite_fill((uint8_t *)source->address + at, length, i);
        if (order_write(suite, link.end[0], source, remote, at, length, inline_bytes) < 0)
            return -1;
        POST(suite, rc, suite->transport->endpoint_notify(link.end[0]->endpoint, i));
        CHECK(suite, rc == 0, "endpoint_notify: %d, %s", rc, suite_error());
    }
    UNTIL(suite, check.seen == rounds, 10000);
    CHECK(suite, check.seen == rounds, "%u of %u notifies came", check.seen, rounds);
    CHECK(suite, check.wrong == 0, "%u notifies came before their bytes, or out of order", check.wrong);
    return 0;
}

/* promise_message_order -- notifies and messages of both directions arrive in order, whole. */
int promise_message_order(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 200 : suite->quick || suite->soft ? 1000 : 10000;
    struct party *a, *b;
    struct link link;
    uint8_t *bytes = NULL;
    int rc = 0;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0)
        return -1;
    uint32_t most = end_can(link.end[0]).message_bytes;
    CHECK(suite, most >= 1024, "message_bytes is %u, at least 1024 are promised", most);
    bytes = malloc(most);
    for (uint32_t i = 0; i < rounds && rc == 0; i++) {
        for (int side = 0; side < 2 && rc == 0; side++) {
            uint32_t length = i % 50 == 0 ? most : 1 + (i * 37 + (uint32_t)side) % 300;
            if (i % 3 == 0) {
                POST(suite, rc, suite->transport->endpoint_notify(link.end[side]->endpoint, i));
            } else {
                suite_fill(bytes, length, i);
                POST(suite, rc, suite->transport->endpoint_send(link.end[side]->endpoint, bytes, length));
                memset(bytes, 0, length); /* it was copied */
            }
        }
    }
    free(bytes);
    CHECK(suite, rc == 0, "post: %d, %s", rc, suite_error());
    UNTIL(suite, link.end[0]->arrival_count == rounds && link.end[1]->arrival_count == rounds, 10000);
    for (int side = 0; side < 2; side++) {
        const struct end *end = link.end[1 - side];
        CHECK(suite, end->arrival_count == rounds, "%u of %u arrived", end->arrival_count, rounds);
        for (uint32_t i = 0; i < rounds; i++) {
            const struct arrival *arrival = &end->arrivals[i];
            uint32_t length = i % 50 == 0 ? most : 1 + (i * 37 + (uint32_t)side) % 300;
            if (i % 3 == 0)
                CHECK(suite, arrival->kind == STEPGATE_EVENT_NOTIFY && arrival->value == i,
                      "arrival %u is not notify %u", i, i);
            else
                CHECK(suite,
                      arrival->kind == STEPGATE_EVENT_MESSAGE && arrival->length == length &&
                          suite_differs(arrival->data, length, i) < 0,
                      "arrival %u is not message %u of %u bytes", i, i, length);
        }
    }
    uint8_t none = 0;
    rc = suite->transport->endpoint_send(link.end[0]->endpoint, &none, 0);
    CHECK(suite, rc == -STEPGATE_EINVAL || rc == -STEPGATE_EAGAIN, "an empty message was answered with %d",
          rc);
    return 0;
}

/* promise_visibility -- what was written before a message can be read when it arrives, also through the other direction. */
int promise_visibility(struct suite *suite)
{
    const uint32_t rounds = suite->simulated ? 50 : suite->quick || suite->soft ? 200 : 2000;
    const uint32_t bytes = 4096;
    const unsigned access = STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE;
    struct party *party[2];
    struct link link;
    struct stepgate_region *source[2], *target[2];
    struct stepgate_remote *remote[2];
    int rc;

    if (party_open(suite, 0, 0, &party[0]) < 0 || party_open(suite, 0, 0, &party[1]) < 0 ||
        link_open(party[0], party[1], &link) < 0)
        return -1;
    for (int side = 0; side < 2; side++)
        if (party_region(party[side], 0, bytes, &source[side]) < 0 ||
            party_region(party[side], access, bytes, &target[side]) < 0)
            return -1;
    for (int side = 0; side < 2; side++)
        if (link_grant(link.end[1 - side], target[1 - side], access, link.end[side], &remote[side]) < 0)
            return -1;
    for (uint32_t i = 0; i < rounds; i++) {
        int side = (int)(i % 2);
        uint32_t before = link.end[1 - side]->arrival_count;
        if (remote[side]->mapped != NULL && i % 4 < 2) {
            suite_fill(remote[side]->mapped, bytes, i); /* plain stores, then a message */
        } else {
            suite_fill(source[side]->address, bytes, i);
            POST(suite, rc,
                 suite->transport->endpoint_write(link.end[side]->endpoint, source[side], 0, NULL,
                                                  remote[side], 0, bytes, 0, 0));
            CHECK(suite, rc == 0, "endpoint_write: %d, %s", rc, suite_error());
        }
        POST(suite, rc, suite->transport->endpoint_send(link.end[side]->endpoint, &i, sizeof(i)));
        CHECK(suite, rc == 0, "endpoint_send: %d, %s", rc, suite_error());
        UNTIL(suite, link.end[1 - side]->arrival_count > before, 10000);
        CHECK(suite, link.end[1 - side]->arrival_count == before + 1, "message %u never came", i);
        int64_t at = suite_differs(target[1 - side]->address, bytes, i);
        CHECK(suite, at < 0, "round %u: byte %lld was not visible when the message arrived", i,
              (long long)at);
    }
    return 0;
}
