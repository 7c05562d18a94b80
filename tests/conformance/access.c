/* SPDX-License-Identifier: BSD-3-Clause */
/* access -- a peer reaches what was granted to it, and nothing else. */
#include "tests/conformance/promise.h"

#define ACCESS_ALL (STEPGATE_ACCESS_READ | STEPGATE_ACCESS_WRITE)
#define ACCESS_BYTES 8192
#define ACCESS_WAIT_MS 3000

/* promise_access -- what leaves the grant is refused at the post, and the connection is unharmed. */
int promise_access(struct suite *suite)
{
    const struct stepgate_transport_v1 *t = suite->transport;
    struct party *a, *b;
    struct link link;
    struct stepgate_region *local, *target, *readable, *foreign;
    struct stepgate_remote *all, *read_only, *less;
    struct stepgate_descriptor descriptor;
    int rc;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_other_domain(b) < 0 || party_region(a, 0, ACCESS_BYTES, &local) < 0 ||
        party_region(b, ACCESS_ALL, ACCESS_BYTES, &target) < 0 ||
        party_region(b, STEPGATE_ACCESS_READ, ACCESS_BYTES, &readable) < 0 ||
        party_region_of(b, b->other, ACCESS_ALL, NULL, ACCESS_BYTES, &foreign) < 0 ||
        link_grant(link.end[1], target, ACCESS_ALL, link.end[0], &all) < 0 ||
        link_grant(link.end[1], target, STEPGATE_ACCESS_READ, link.end[0], &less) < 0 ||
        link_grant(link.end[1], readable, STEPGATE_ACCESS_READ, link.end[0], &read_only) < 0)
        return -1;
    struct stepgate_endpoint *endpoint = link.end[0]->endpoint;
    suite_fill(target->address, ACCESS_BYTES, 1);
    suite_fill(readable->address, ACCESS_BYTES, 2);
    POST(suite, rc, t->endpoint_write(endpoint, local, 0, NULL, all, ACCESS_BYTES - 63, 64, 0, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS, "a write over the end of the remote was answered with %d", rc);
    POST(suite, rc, t->endpoint_write(endpoint, local, 0, NULL, all, UINT64_MAX - 7, 64, 0, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS, "a write whose offset wraps was answered with %d", rc);
    POST(suite, rc, t->endpoint_read(endpoint, local, 0, all, ACCESS_BYTES, 1, 0, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS, "a read behind the remote was answered with %d", rc);
    POST(suite, rc, t->endpoint_write(endpoint, local, 0, NULL, read_only, 0, 64, 0, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS, "a write into a readable remote was answered with %d", rc);
    POST(suite, rc, t->endpoint_write(endpoint, NULL, 0, "x", read_only, 0, 1, STEPGATE_WRITE_INLINE, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS, "an inline write into a readable remote was answered with %d", rc);
    POST(suite, rc, t->endpoint_write(endpoint, local, 0, NULL, less, 0, 64, 0, 0));
    CHECK(suite, rc == -STEPGATE_EACCESS,
          "a write with less granted than the region has was answered with %d", rc);
    POST(suite, rc, t->endpoint_write(endpoint, local, ACCESS_BYTES - 63, NULL, all, 0, 64, 0, 0));
    CHECK(suite, rc == -STEPGATE_EINVAL || rc == -STEPGATE_EACCESS,
          "a write from behind the local region was answered with %d", rc);
    POST(suite, rc, t->endpoint_export(link.end[1]->endpoint, readable, ACCESS_ALL, &descriptor));
    CHECK(suite, rc == -STEPGATE_EACCESS, "an export of more than the region has was answered with %d", rc);
    POST(suite, rc, t->endpoint_export(link.end[1]->endpoint, foreign, STEPGATE_ACCESS_READ, &descriptor));
    CHECK(suite, rc == -STEPGATE_EACCESS, "an export from another domain was answered with %d", rc);
    memset(&descriptor, 0x5a, sizeof(descriptor));
    struct stepgate_remote *wrong = NULL;
    rc = t->endpoint_import(endpoint, &descriptor, &wrong);
    CHECK(suite, rc == -STEPGATE_EPROTOCOL && wrong == NULL, "an import of noise was answered with %d", rc);
    CHECK(suite,
          suite_differs(target->address, ACCESS_BYTES, 1) < 0 &&
              suite_differs(readable->address, ACCESS_BYTES, 2) < 0,
          "bytes were changed");
    suite_fill(local->address, ACCESS_BYTES, 3);
    POST(suite, rc, t->endpoint_write(endpoint, local, 0, NULL, all, 0, ACCESS_BYTES, 0, 0));
    CHECK(suite, rc == 0, "the connection is harmed: %d", rc);
    POST(suite, rc, t->endpoint_notify(endpoint, 1));
    UNTIL(suite, link.end[1]->arrival_count > 0, 10000);
    CHECK(suite,
          rc == 0 && link.end[1]->arrival_count == 1 && suite_differs(target->address, ACCESS_BYTES, 3) < 0,
          "the connection is harmed: no notify, or no bytes");
    return 0;
}

/* access_attempt -- posts a write or read and waits for its end. 1: it went through, 0: it was refused in whatever way. */
static int access_attempt(struct suite *suite, struct end *end, struct stepgate_region *local,
                          struct stepgate_remote *remote, uint64_t offset, bool write)
{
    const struct stepgate_transport_v1 *t = suite->transport;
    uint32_t before = end->completion_count;
    int rc;

    if (write)
        POST(suite, rc,
             t->endpoint_write(end->endpoint, local, 0, NULL, remote, offset, 64, STEPGATE_POST_COMPLETE, 1));
    else
        POST(suite, rc,
             t->endpoint_read(end->endpoint, local, 0, remote, offset, 64, STEPGATE_POST_COMPLETE, 1));
    if (rc < 0)
        return 0;
    UNTIL(suite, end->completion_count > before || end->disconnected > 0, ACCESS_WAIT_MS);
    bool refused =
        end->disconnected > 0 || end->completion_count == before || end->completions[before].status < 0;
    if (!refused &&
        write) { /* a completion alone says nothing: where the peer refused, the connection breaks */
        UNTIL(suite, end->disconnected > 0, 200);
        refused = end->disconnected > 0;
    }
    return !refused;
}

/* access_import -- imports, with patience for what may be under way but not for ever. */
static int access_import(struct suite *suite, struct end *end, const struct stepgate_descriptor *descriptor,
                         struct stepgate_remote **out)
{
    int rc;

    suite_clock(suite, 100);
    while ((rc = suite->transport->endpoint_import(end->endpoint, descriptor, out)) == -STEPGATE_EAGAIN &&
           suite_progress(suite))
        continue;
    return rc;
}

/* Two regions that nobody granted for writing, and what watches over them. */
struct access_victims {
    struct stepgate_region *readable, *secret, *local;
    uint32_t imported, refused_later;
};

/* access_untouched -- are both as they were? */
static bool access_untouched(const struct access_victims *victims)
{
    return suite_differs(victims->readable->address, ACCESS_BYTES, 1) < 0 &&
           suite_differs(victims->secret->address, ACCESS_BYTES, 2) < 0;
}

/* access_tamper -- one changed byte: neither a write nor a read outside the grant may come of it. */
static int access_tamper(struct suite *suite, struct link *link, struct access_victims *victims, uint32_t at,
                         uint8_t mask)
{
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL;
    struct end *end = link->end[0];
    int rc;

    POST(suite, rc,
         suite->transport->endpoint_export(link->end[1]->endpoint, victims->readable, STEPGATE_ACCESS_READ,
                                           &descriptor));
    CHECK(suite, rc == 0, "endpoint_export: %d, %s", rc, suite_error());
    descriptor.bytes[at] ^= mask;
    if (access_import(suite, end, &descriptor, &remote) < 0)
        return 0;
    victims->imported++;
    memset(victims->local->address, 0xee, ACCESS_BYTES);
    uint64_t last = remote->length >= 64 ? remote->length - 64 : 0;
    access_attempt(suite, end, victims->local, remote, 0, true);
    bool untouched = access_untouched(victims);
    bool went_through = false;
    if (last > ACCESS_BYTES - 64 && end->disconnected == 0)
        went_through = access_attempt(suite, end, victims->local, remote, last, false) == 1;
    if (last > ACCESS_BYTES - 64 && end->disconnected == 0)
        went_through = access_attempt(suite, end, victims->local, remote, last, true) == 1 || went_through;
    victims->refused_later += end->disconnected > 0;
    suite->transport->remote_delete(&remote);
    CHECK(suite, untouched && access_untouched(victims),
          "a descriptor with byte %u changed by %02x let a write through", at, mask);
    CHECK(suite, !went_through, "a descriptor with byte %u changed by %02x reached behind its region", at,
          mask);
    return 0;
}

/* access_foreign -- a descriptor given on a connection of another domain must not work on this one. */
static int access_foreign(struct suite *suite, struct party *a, struct party *b, struct link *link,
                          struct access_victims *victims)
{
    struct stepgate_descriptor descriptor;
    struct stepgate_remote *remote = NULL, *proper = NULL;
    struct stepgate_domain *domain = b->domain;
    struct link other;
    int rc;

    b->domain = b->other; /* this connection's far end is in the other domain */
    rc = link_open(a, b, &other);
    b->domain = domain;
    if (rc < 0)
        return rc;
    POST(suite, rc,
         suite->transport->endpoint_export(other.end[1]->endpoint, victims->secret, ACCESS_ALL, &descriptor));
    CHECK(suite, rc == 0, "endpoint_export: %d, %s", rc, suite_error());
    if (access_import(suite, link->end[0], &descriptor, &remote) == 0) {
        rc = access_attempt(suite, link->end[0], victims->local, remote, 0, true);
        suite->transport->remote_delete(&remote);
        CHECK(suite, rc == 0 && access_untouched(victims),
              "another connection's descriptor let a write through");
    }
    if (link->end[0]->disconnected > 0) {
        end_delete(link->end[0]);
        end_delete(link->end[1]);
        if (link_open(a, b, link) < 0)
            return -1;
    }
    POST(suite, rc, suite->transport->endpoint_import(other.end[0]->endpoint, &descriptor, &proper));
    CHECK(suite, rc == 0, "endpoint_import: %d, %s", rc, suite_error());
    rc = access_attempt(suite, link->end[0], victims->local, proper, 0, true);
    suite->transport->remote_delete(&proper);
    CHECK(suite, rc == 0 && access_untouched(victims), "a remote of another domain let a write through");
    return 0;
}

/* promise_tampered_descriptor -- whatever a peer makes of a descriptor, it gets no more than was granted. */
int promise_tampered_descriptor(struct suite *suite)
{
    static const uint8_t masks[] = {0x01, 0x02, 0x03, 0x80};
    const uint32_t stride = suite->soft || suite->quick ? 4 : 1;
    struct access_victims victims = {0};
    struct party *a, *b;
    struct link link;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0 ||
        party_other_domain(b) < 0 || party_region(a, 0, ACCESS_BYTES, &victims.local) < 0 ||
        party_region(b, STEPGATE_ACCESS_READ, ACCESS_BYTES, &victims.readable) < 0 ||
        party_region_of(b, b->other, ACCESS_ALL, NULL, ACCESS_BYTES, &victims.secret) < 0)
        return -1;
    suite_fill(victims.readable->address, ACCESS_BYTES, 1);
    suite_fill(victims.secret->address, ACCESS_BYTES, 2);
    for (uint32_t at = 0; at < STEPGATE_DESCRIPTOR_BYTES; at++) {
        for (uint32_t i = at % stride; i < sizeof(masks); i += stride) {
            if (access_tamper(suite, &link, &victims, at, masks[i]) < 0)
                return -1;
            if (link.end[0]->disconnected > 0 || link.end[1]->disconnected > 0) {
                end_delete(link.end[0]);
                end_delete(link.end[1]);
                if (link_open(a, b, &link) < 0)
                    return -1;
            }
        }
    }
    return access_foreign(suite, a, b, &link, &victims);
}

/* promise_mapping_survives -- a mapped peer may look at the memory of a region that was deleted; nothing crashes. */
int promise_mapping_survives(struct suite *suite)
{
    struct party *a, *b;
    struct link link;
    struct stepgate_region *region;
    struct stepgate_remote *remote;

    if (party_open(suite, 0, 0, &a) < 0 || party_open(suite, 0, 0, &b) < 0 || link_open(a, b, &link) < 0)
        return -1;
    if ((end_can(link.end[0]).can & STEPGATE_CAN_MAP) == 0)
        return suite_left_out(suite, "this transport does not map remotes");
    if (party_region(b, STEPGATE_ACCESS_READ, ACCESS_BYTES, &region) < 0)
        return -1;
    suite_fill(region->address, ACCESS_BYTES, 5);
    if (link_grant(link.end[1], region, STEPGATE_ACCESS_READ, link.end[0], &remote) < 0)
        return -1;
    CHECK(suite, remote->mapped != NULL, "the remote is not mapped");
    CHECK(suite, suite_differs(remote->mapped, ACCESS_BYTES, 5) < 0, "the mapping shows other bytes");
    suite_fill(region->address, ACCESS_BYTES, 6);
    CHECK(suite, suite_differs(remote->mapped, ACCESS_BYTES, 6) < 0, "the mapping is a copy");
    party_region_delete(b, region);
    end_delete(link.end[1]);
    CHECK(suite, suite_differs(remote->mapped, ACCESS_BYTES, 6) < 0,
          "the mapping changed when the region was deleted");
    return 0;
}
